//! What an array looks like, checked before the driver is asked.
//!
//! Source: CUDA Driver API 13.x, "Memory Management", `cuArray3DCreate`.

use crate::error::{Error, Result};
use cuhold_driver_sys::ffi::*;
use std::fmt;

/// The format of one channel of an array's elements: CUDA's number, with names for the usual ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayFormat(CUarray_format);

macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident = $raw:ident, $bytes:literal;)*) => {
        impl ArrayFormat {
            $($(#[$doc])* pub const $name: Self = Self(CUarray_format::$raw);)*

            /// The size of one channel in bytes; `None` for a format that has no name here.
            ///
            /// Calls nothing.
            #[must_use]
            pub const fn bytes(self) -> Option<usize> {
                match self.0 {
                    $(CUarray_format::$raw => Some($bytes),)*
                    _ => None,
                }
            }

            const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $(CUarray_format::$raw => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

formats! {
    /// Unsigned, 8 bits.
    U8 = CU_AD_FORMAT_UNSIGNED_INT8, 1;
    /// Unsigned, 16 bits.
    U16 = CU_AD_FORMAT_UNSIGNED_INT16, 2;
    /// Unsigned, 32 bits.
    U32 = CU_AD_FORMAT_UNSIGNED_INT32, 4;
    /// Signed, 8 bits.
    I8 = CU_AD_FORMAT_SIGNED_INT8, 1;
    /// Signed, 16 bits.
    I16 = CU_AD_FORMAT_SIGNED_INT16, 2;
    /// Signed, 32 bits.
    I32 = CU_AD_FORMAT_SIGNED_INT32, 4;
    /// Floating point, 16 bits.
    F16 = CU_AD_FORMAT_HALF, 2;
    /// Floating point, 32 bits.
    F32 = CU_AD_FORMAT_FLOAT, 4;
}

impl ArrayFormat {
    /// A format by CUDA's number.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn from_raw(raw: CUarray_format) -> Self {
        Self(raw)
    }

    /// CUDA's number.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn as_raw(self) -> CUarray_format {
        self.0
    }
}

impl fmt::Debug for ArrayFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "ArrayFormat({})", self.0.0),
        }
    }
}

/// What an array is made of: how many elements in each direction, and what an element is.
///
/// # Examples
/// ```
/// use cuhold_handles::{ArrayDesc, ArrayFormat};
///
/// let rgba = ArrayDesc::flat(1920, 1080, ArrayFormat::U8, 4)?;
/// assert_eq!((rgba.width(), rgba.height(), rgba.depth()), (1920, 1080, 0));
/// let refused = ArrayDesc::flat(1920, 1080, ArrayFormat::U8, 3).unwrap_err();
/// assert!(refused.to_string().contains("channels: 3"));
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayDesc(CUDA_ARRAY3D_DESCRIPTOR);

/// How many faces a cube has.
const FACES: usize = 6;

impl ArrayDesc {
    /// One row of elements.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// No width; channels other than 1, 2 or 4.
    pub fn line(width: usize, format: ArrayFormat, channels: u32) -> Result<Self> {
        Self::of([some(width, "width")?, 0, 0], format, channels, 0)
    }

    /// Rows of elements.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A size of 0; channels other than 1, 2 or 4.
    pub fn flat(width: usize, height: usize, format: ArrayFormat, channels: u32) -> Result<Self> {
        let size = [some(width, "width")?, some(height, "height")?, 0];
        Self::of(size, format, channels, 0)
    }

    /// Slices of rows of elements: width, height, depth.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A size of 0; channels other than 1, 2 or 4.
    pub fn solid(size: [usize; 3], format: ArrayFormat, channels: u32) -> Result<Self> {
        let [width, height, depth] = size;
        let size = [some(width, "width")?, some(height, "height")?, some(depth, "depth")?];
        Self::of(size, format, channels, 0)
    }

    /// Six faces of a cube, each `side` elements high and wide.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A size of 0; channels other than 1, 2 or 4.
    pub fn cube(side: usize, format: ArrayFormat, channels: u32) -> Result<Self> {
        let side = some(side, "side")?;
        Self::of([side, side, FACES], format, channels, CUDA_ARRAY3D_CUBEMAP)
    }

    /// So many of these beside each other: lines, flat arrays, or cubes.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// No layers; more than a number of them holds; an array that has a depth or layers already.
    pub fn layers(self, layers: usize) -> Result<Self> {
        let is_cube = self.has(CUDA_ARRAY3D_CUBEMAP);
        if self.has(CUDA_ARRAY3D_LAYERED) || (self.0.Depth > 0 && !is_cube) {
            return Err(Error::argument("layers: the array has a depth or layers already"));
        }
        let each = if is_cube { FACES } else { 1 };
        let depth = some(layers, "layers")?.checked_mul(each);
        let depth = depth.ok_or_else(|| Error::argument("layers: more than an array can have"))?;
        Ok(Self(CUDA_ARRAY3D_DESCRIPTOR { Depth: depth, ..self.0 }).with(CUDA_ARRAY3D_LAYERED))
    }

    /// Surfaces may be made over it, so that kernels can write it.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn surface(self) -> Self {
        self.with(CUDA_ARRAY3D_SURFACE_LDST)
    }

    /// Textures over it can gather one channel of four elements.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// An array that isn't flat.
    pub fn gather(self) -> Result<Self> {
        if self.0.Height == 0 || self.0.Depth > 0 {
            return Err(Error::argument(
                "gather: only a flat array without layers can be gathered",
            ));
        }
        Ok(self.with(CUDA_ARRAY3D_TEXTURE_GATHER))
    }

    /// As the driver describes an array.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn from_raw(raw: CUDA_ARRAY3D_DESCRIPTOR) -> Self {
        Self(raw)
    }

    /// As the driver's calls take it.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn as_raw(&self) -> &CUDA_ARRAY3D_DESCRIPTOR {
        &self.0
    }

    /// The width in elements.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.0.Width
    }

    /// The height in elements; 0 for an array of one dimension.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn height(&self) -> usize {
        self.0.Height
    }

    /// The depth in elements, or the number of layers and faces; 0 for an array that has none.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.0.Depth
    }

    /// What one channel is.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn format(&self) -> ArrayFormat {
        ArrayFormat(self.0.Format)
    }

    /// How many channels an element has.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn channels(&self) -> u32 {
        self.0.NumChannels
    }

    /// How many levels a mipmapped array of this size can have: one for each halving of its longest side. Layers and
    /// faces don't become fewer.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn levels_max(&self) -> u32 {
        let layered = self.has(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
        let depth = if layered { 0 } else { self.0.Depth };
        self.0.Width.max(self.0.Height).max(depth).checked_ilog2().map_or(1, |log| log + 1)
    }

    /// The same in the words of the driver's call for arrays without a depth and without flags.
    pub(super) fn plain(&self) -> Option<CUDA_ARRAY_DESCRIPTOR> {
        let CUDA_ARRAY3D_DESCRIPTOR { Width, Height, Depth, Format, NumChannels, Flags } = self.0;
        (Depth == 0 && Flags == 0).then_some(CUDA_ARRAY_DESCRIPTOR {
            Width,
            Height,
            Format,
            NumChannels,
        })
    }

    fn of(size: [usize; 3], format: ArrayFormat, channels: u32, flags: u32) -> Result<Self> {
        let [width, height, depth] = size;
        if !matches!(channels, 1 | 2 | 4) {
            let text = format!("channels: {channels}, and an element has 1, 2 or 4 of them");
            return Err(Error::argument(text));
        }
        Ok(Self(CUDA_ARRAY3D_DESCRIPTOR {
            Width: width,
            Height: height,
            Depth: depth,
            Format: format.0,
            NumChannels: channels,
            Flags: flags,
        }))
    }

    const fn has(&self, flags: u32) -> bool {
        self.0.Flags & flags != 0
    }

    const fn with(self, flags: u32) -> Self {
        Self(CUDA_ARRAY3D_DESCRIPTOR { Flags: self.0.Flags | flags, ..self.0 })
    }
}

impl fmt::Debug for ArrayDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayDesc")
            .field("size", &[self.width(), self.height(), self.depth()])
            .field("format", &self.format())
            .field("channels", &self.channels())
            .field("flags", &self.0.Flags)
            .finish()
    }
}

/// Refuses 0.
pub(super) fn some(size: usize, name: &str) -> Result<usize> {
    if size == 0 {
        return Err(Error::argument(format!("{name}: 0, and an array has at least 1 of it")));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Result<ArrayDesc>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_size_of_nothing_is_refused_by_its_name() {
        let f = ArrayFormat::F32;
        assert_eq!(text(ArrayDesc::line(0, f, 1)), "width: 0, and an array has at least 1 of it");
        assert!(text(ArrayDesc::flat(8, 0, f, 1)).starts_with("height: 0"));
        assert!(text(ArrayDesc::solid([8, 8, 0], f, 1)).starts_with("depth: 0"));
        assert!(text(ArrayDesc::cube(0, f, 1)).starts_with("side: 0"));
        let flat = ArrayDesc::flat(8, 8, f, 1).unwrap();
        assert!(text(flat.layers(0)).starts_with("layers: 0"));
        for channels in [0, 3, 5] {
            let refused = text(ArrayDesc::line(8, f, channels));
            assert_eq!(
                refused,
                format!("channels: {channels}, and an element has 1, 2 or 4 of them")
            );
        }
    }

    #[test]
    fn cubes_have_six_faces_each() {
        let cube = ArrayDesc::cube(8, ArrayFormat::U8, 4).unwrap();
        assert_eq!((cube.width(), cube.height(), cube.depth()), (8, 8, 6));
        assert_eq!(cube.layers(3).unwrap().depth(), 18);
        assert!(text(cube.layers(3).unwrap().layers(2)).starts_with("layers: "));
        assert!(text(cube.layers(usize::MAX)).starts_with("layers: more"));
        assert!(text(cube.gather()).starts_with("gather: "));
    }

    #[test]
    fn levels_halve_the_longest_side_that_isn_t_layers() {
        let f = ArrayFormat::F32;
        assert_eq!(ArrayDesc::line(1, f, 1).unwrap().levels_max(), 1);
        assert_eq!(ArrayDesc::flat(5, 16, f, 1).unwrap().levels_max(), 5);
        assert_eq!(ArrayDesc::solid([4, 4, 64], f, 1).unwrap().levels_max(), 7);
        let layers = ArrayDesc::flat(4, 4, f, 1).unwrap().layers(64).unwrap();
        assert_eq!(layers.levels_max(), 3);
    }

    #[test]
    fn only_what_has_neither_depth_nor_flags_is_plain() {
        let flat = ArrayDesc::flat(4, 4, ArrayFormat::I16, 2).unwrap();
        assert!(flat.plain().is_some() && flat.surface().plain().is_none());
        assert!(flat.layers(1).unwrap().plain().is_none());
        assert_eq!(format!("{:?}", flat.format()), "I16");
        assert_eq!(ArrayFormat::from_raw(CUarray_format(7)).bytes(), None);
    }
}
