//! What an array may look like: its description checked, its bytes counted, its levels. Pure.
//!
//! Source: CUDA Driver API 13.x, "Memory Management", `cuArray3DCreate`; the limits are those of compute capability 9.0
//! in the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".

use cuhold_driver_sys::ffi::*;

const LAYERED: u32 = CUDA_ARRAY3D_LAYERED;
const CUBEMAP: u32 = CUDA_ARRAY3D_CUBEMAP;
const GATHER: u32 = CUDA_ARRAY3D_TEXTURE_GATHER;
const FLAGS: u32 = LAYERED | CUBEMAP | GATHER | CUDA_ARRAY3D_SURFACE_LDST;
/// Flags of the driver's that nothing here stands for. That of depth textures is a graphics API's: refused (measured).
const FLAGS_MISSING: u32 = CUDA_ARRAY3D_COLOR_ATTACHMENT
    | CUDA_ARRAY3D_SPARSE
    | CUDA_ARRAY3D_DEFERRED_MAPPING
    | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;

const FACES: usize = 6;
const LAYERS_MAX: usize = 2048;

/// The size of an array and of its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) width: usize,
    /// 0 for an array of one dimension.
    pub(crate) height: usize,
    /// 0 for an array without depth and without layers.
    pub(crate) depth: usize,
    pub(crate) element_bytes: usize,
    flags: u32,
}

impl Shape {
    /// Checks a description.
    pub(crate) fn of(desc: &CUDA_ARRAY3D_DESCRIPTOR) -> Result<Self, CUresult> {
        let flags = desc.Flags;
        if flags & !(FLAGS | FLAGS_MISSING) != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let element_bytes = element_bytes(desc.Format, desc.NumChannels)?;
        if flags & FLAGS_MISSING != 0 {
            return Err(CUresult::MISSING);
        }
        let (width, height, depth) = (desc.Width, desc.Height, desc.Depth);
        let shape = Self { width, height, depth, element_bytes, flags };
        if shape.is_possible() && shape.is_within_limits() {
            Ok(shape)
        } else {
            Err(CUresult::INVALID_VALUE)
        }
    }

    const fn has(self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    const fn is_possible(self) -> bool {
        let Self { width, height, depth, .. } = self;
        let by_layers = match (self.has(LAYERED), self.has(CUBEMAP)) {
            (false, false) => depth == 0 || height > 0,
            (true, false) => depth > 0,
            (false, true) => width == height && depth == FACES,
            (true, true) => width == height && depth > 0 && depth.is_multiple_of(FACES),
        };
        let by_gather = !self.has(GATHER) || (height > 0 && depth == 0);
        width > 0 && by_layers && by_gather
    }

    const fn is_within_limits(self) -> bool {
        let (width_max, height_max, depth_max) = match (self.height, self.depth) {
            _ if self.has(GATHER) => (32_768, 32_768, 0),
            _ if self.has(CUBEMAP) => (32_768, 32_768, LAYERS_MAX - 2),
            _ if self.has(LAYERED) => (32_768, 32_768, LAYERS_MAX),
            (0, _) => (131_072, 0, 0),
            (_, 0) => (131_072, 65_536, 0),
            _ => (16_384, 16_384, 16_384),
        };
        self.width <= width_max && self.height <= height_max && self.depth <= depth_max
    }

    pub(crate) const fn rows(self) -> usize {
        if self.height == 0 { 1 } else { self.height }
    }

    pub(crate) const fn slices(self) -> usize {
        if self.depth == 0 { 1 } else { self.depth }
    }

    pub(crate) const fn row_bytes(self) -> u64 {
        // Both factors are small: see the limits.
        self.width as u64 * self.element_bytes as u64
    }

    /// `None` if no memory is so large.
    pub(crate) fn size_bytes(self) -> Option<u64> {
        let slice = self.row_bytes().checked_mul(self.rows() as u64)?;
        slice.checked_mul(self.slices() as u64)
    }

    /// How many levels an array of this size has at most.
    pub(crate) fn levels_max(self) -> u32 {
        let depth = if self.has(LAYERED | CUBEMAP) { 1 } else { self.slices() };
        self.width.max(self.rows()).max(depth).ilog2() + 1
    }

    /// A level of a mipmapped array of this shape: half as large as the one before, but for its layers.
    pub(crate) fn level(self, level: u32) -> Self {
        let half = |size: usize| if size == 0 { 0 } else { (size >> level).max(1) };
        let depth = if self.has(LAYERED | CUBEMAP) { self.depth } else { half(self.depth) };
        Self { width: half(self.width), height: half(self.height), depth, ..self }
    }
}

/// The size of an element in bytes. Normalized formats say themselves how many channels they have. Compressed and planar
/// ones aren't simulated.
pub(crate) fn element_bytes(format: CUarray_format, channels: c_uint) -> Result<usize, CUresult> {
    use CUarray_format as Format;
    let channel = match format {
        Format::CU_AD_FORMAT_UNSIGNED_INT8 | Format::CU_AD_FORMAT_SIGNED_INT8 => 1,
        Format::CU_AD_FORMAT_UNSIGNED_INT16
        | Format::CU_AD_FORMAT_SIGNED_INT16
        | Format::CU_AD_FORMAT_HALF => 2,
        Format::CU_AD_FORMAT_UNSIGNED_INT32
        | Format::CU_AD_FORMAT_SIGNED_INT32
        | Format::CU_AD_FORMAT_FLOAT => 4,
        Format::CU_AD_FORMAT_UNORM_INT8X1 | Format::CU_AD_FORMAT_SNORM_INT8X1 => {
            return normalized(1, 1, channels);
        }
        Format::CU_AD_FORMAT_UNORM_INT8X2 | Format::CU_AD_FORMAT_SNORM_INT8X2 => {
            return normalized(1, 2, channels);
        }
        Format::CU_AD_FORMAT_UNORM_INT8X4 | Format::CU_AD_FORMAT_SNORM_INT8X4 => {
            return normalized(1, 4, channels);
        }
        Format::CU_AD_FORMAT_UNORM_INT16X1 | Format::CU_AD_FORMAT_SNORM_INT16X1 => {
            return normalized(2, 1, channels);
        }
        Format::CU_AD_FORMAT_UNORM_INT16X2 | Format::CU_AD_FORMAT_SNORM_INT16X2 => {
            return normalized(2, 2, channels);
        }
        Format::CU_AD_FORMAT_UNORM_INT16X4 | Format::CU_AD_FORMAT_SNORM_INT16X4 => {
            return normalized(2, 4, channels);
        }
        CUarray_format(80..=94 | 145..=181) => return Err(CUresult::MISSING),
        _ => return Err(CUresult::INVALID_VALUE),
    };
    match channels {
        1 => Ok(channel),
        2 => Ok(2 * channel),
        4 => Ok(4 * channel),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// A format with its own number of channels is asked for with that number (a choice).
const fn normalized(bytes: usize, own: c_uint, channels: c_uint) -> Result<usize, CUresult> {
    if own == channels { Ok(bytes * own as usize) } else { Err(CUresult::INVALID_VALUE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(width: usize, height: usize, depth: usize, flags: u32) -> Result<Shape, CUresult> {
        Shape::of(&CUDA_ARRAY3D_DESCRIPTOR {
            Width: width,
            Height: height,
            Depth: depth,
            Format: CUarray_format::CU_AD_FORMAT_HALF,
            NumChannels: 2,
            Flags: flags,
        })
    }

    #[test]
    fn a_shape_s_bytes_are_its_elements() {
        assert_eq!(of(10, 0, 0, 0).unwrap().size_bytes(), Some(40));
        assert_eq!(of(10, 3, 0, 0).unwrap().size_bytes(), Some(120));
        assert_eq!(of(10, 3, 2, 0).unwrap().size_bytes(), Some(240));
    }

    #[test]
    fn layers_don_t_become_fewer_with_the_level_and_depth_does() {
        let solid = of(16, 4, 2, 0).unwrap();
        assert_eq!(solid.levels_max(), 5);
        let level = solid.level(2);
        assert_eq!((level.width, level.height, level.depth), (4, 1, 1));
        let layers = of(16, 4, 3, LAYERED).unwrap();
        let level = layers.level(4);
        assert_eq!((level.width, level.height, level.depth), (1, 1, 3));
        let line = of(16, 0, 0, 0).unwrap().level(1);
        assert_eq!((line.width, line.height, line.depth), (8, 0, 0));
    }

    #[test]
    fn a_cube_has_six_square_faces() {
        assert!(of(8, 8, 6, CUBEMAP).is_ok() && of(8, 8, 12, CUBEMAP | LAYERED).is_ok());
        for (width, height, depth) in [(8, 4, 6), (8, 8, 5), (8, 8, 12), (8, 8, 0)] {
            assert_eq!(of(width, height, depth, CUBEMAP), Err(CUresult::INVALID_VALUE));
        }
    }
}
