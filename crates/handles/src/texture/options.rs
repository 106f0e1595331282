//! How a texture is sampled, and through which view it sees its array.
//!
//! Source: CUDA Driver API 13.x, "Texture Object Management", `cuTexObjectCreate`.

use crate::error::{Error, Result};
use cuhold_driver_sys::ffi::*;
use std::ops::Range;

/// What a coordinate outside the texture reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[non_exhaustive]
pub enum AddressMode {
    /// The texture begins again; only with normalized coordinates.
    Wrap,
    /// The nearest element at the edge.
    #[default]
    Clamp,
    /// The texture, mirrored; only with normalized coordinates.
    Mirror,
    /// [`TextureOptions::border`].
    Border,
}

impl AddressMode {
    const fn raw(self) -> CUaddress_mode {
        match self {
            Self::Wrap => CUaddress_mode::CU_TR_ADDRESS_MODE_WRAP,
            Self::Clamp => CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP,
            Self::Mirror => CUaddress_mode::CU_TR_ADDRESS_MODE_MIRROR,
            Self::Border => CUaddress_mode::CU_TR_ADDRESS_MODE_BORDER,
        }
    }
}

/// What a coordinate between elements reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[non_exhaustive]
pub enum FilterMode {
    /// The nearest element.
    #[default]
    Point,
    /// A mean of the nearest elements, by their distance.
    Linear,
}

impl FilterMode {
    const fn raw(self) -> CUfilter_mode {
        match self {
            Self::Point => CUfilter_mode::CU_TR_FILTER_MODE_POINT,
            Self::Linear => CUfilter_mode::CU_TR_FILTER_MODE_LINEAR,
        }
    }
}

/// How a texture is sampled. The default reads the nearest element, clamped to the edge, by element coordinates.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct TextureOptions {
    /// What coordinates outside read, in each direction.
    pub address: [AddressMode; 3],
    /// What coordinates between elements read.
    pub filter: FilterMode,
    /// What is read between two levels of a mipmapped array.
    pub mipmap_filter: FilterMode,
    /// Coordinates go from 0 to 1 instead of from 0 to the size.
    pub normalized: bool,
    /// Integers are read as integers instead of as numbers from 0 to 1.
    pub read_as_integer: bool,
    /// Values are converted from sRGB.
    pub srgb: bool,
    /// How much anisotropy is filtered at most; the driver takes 1 to 16.
    pub max_anisotropy: u32,
    /// What is added to the level of a mipmapped array that is read.
    pub mipmap_bias: f32,
    /// Between which levels of a mipmapped array is read.
    pub mipmap_range: Range<f32>,
    /// What is read outside under [`AddressMode::Border`].
    pub border: [f32; 4],
}

impl Default for TextureOptions {
    fn default() -> Self {
        Self {
            address: [AddressMode::default(); 3],
            filter: FilterMode::default(),
            mipmap_filter: FilterMode::default(),
            normalized: false,
            read_as_integer: false,
            srgb: false,
            max_anisotropy: 0,
            mipmap_bias: 0.0,
            mipmap_range: 0.0..0.0,
            border: [0.0; 4],
        }
    }
}

impl TextureOptions {
    /// Refuses what contradicts itself, and says it in the driver's words.
    pub(super) fn desc(&self) -> Result<CUDA_TEXTURE_DESC> {
        let beyond = |mode: &AddressMode| matches!(mode, AddressMode::Wrap | AddressMode::Mirror);
        if !self.normalized && self.address.iter().any(beyond) {
            return Err(Error::argument(
                "options: address modes wrap and mirror need normalized coordinates",
            ));
        }
        let Range { start, end } = self.mipmap_range;
        if !(start <= end && self.mipmap_bias.is_finite()) {
            return Err(Error::argument(
                "options: the mipmap range begins at or before its end, and the bias is finite",
            ));
        }
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        Ok(CUDA_TEXTURE_DESC {
            addressMode: self.address.map(AddressMode::raw),
            filterMode: self.filter.raw(),
            flags: flag(self.normalized, CU_TRSF_NORMALIZED_COORDINATES)
                | flag(self.read_as_integer, CU_TRSF_READ_AS_INTEGER)
                | flag(self.srgb, CU_TRSF_SRGB),
            maxAnisotropy: self.max_anisotropy,
            mipmapFilterMode: self.mipmap_filter.raw(),
            mipmapLevelBias: self.mipmap_bias,
            minMipmapLevelClamp: start,
            maxMipmapLevelClamp: end,
            borderColor: self.border,
            ..CUDA_TEXTURE_DESC::default()
        })
    }
}

/// Through which view a texture sees an array: another format of the same size, some levels, some layers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "what the driver needs to know")]
pub struct TextureView {
    /// How the elements are read.
    pub format: CUresourceViewFormat,
    /// Width, height and depth of the view in elements; 0 where the array has none.
    pub size: [usize; 3],
    /// The levels of a mipmapped array; `0..1` for any other.
    pub levels: Range<u32>,
    /// The layers of a layered array; `0..1` for any other.
    pub layers: Range<u32>,
}

impl TextureView {
    pub(super) fn desc(&self) -> Result<CUDA_RESOURCE_VIEW_DESC> {
        let [width, height, depth] = self.size;
        if width == 0 {
            return Err(Error::argument(
                "view: a width of 0, and a view is at least 1 element wide",
            ));
        }
        let last = |range: &Range<u32>, name| match range.end.checked_sub(1) {
            Some(last) if last >= range.start => Ok(last),
            _ => Err(Error::argument(format!("view: no {name}"))),
        };
        Ok(CUDA_RESOURCE_VIEW_DESC {
            format: self.format,
            width,
            height,
            depth,
            firstMipmapLevel: self.levels.start,
            lastMipmapLevel: last(&self.levels, "levels")?,
            firstLayer: self.layers.start,
            lastLayer: last(&self.layers, "layers")?,
            ..CUDA_RESOURCE_VIEW_DESC::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused = |options: TextureOptions| options.desc().unwrap_err().to_string();
        let wrap = [AddressMode::Wrap; 3];
        assert!(refused(TextureOptions { address: wrap, ..Default::default() }).contains("wrap"));
        let options = TextureOptions { address: wrap, normalized: true, ..Default::default() };
        assert_eq!(options.desc().unwrap().flags, CU_TRSF_NORMALIZED_COORDINATES);
        let mipmap_range = 2.0..1.0;
        let backwards = refused(TextureOptions { mipmap_range, ..Default::default() });
        assert!(backwards.contains("mipmap range"));
        let nan = TextureOptions { mipmap_bias: f32::NAN, ..Default::default() };
        assert!(refused(nan).contains("bias"));
    }

    #[test]
    fn a_view_of_nothing_is_refused() {
        let view = TextureView {
            format: CUresourceViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32,
            size: [4, 4, 0],
            levels: 0..1,
            layers: 2..4,
        };
        let desc = view.desc().unwrap();
        assert_eq!((desc.firstLayer, desc.lastLayer, desc.lastMipmapLevel), (2, 3, 0));
        for (broken, text) in [
            (TextureView { size: [0, 4, 0], ..view.clone() }, "width"),
            (TextureView { levels: 1..1, ..view.clone() }, "no levels"),
            (TextureView { layers: 0..0, ..view }, "no layers"),
        ] {
            assert!(broken.desc().unwrap_err().to_string().contains(text));
        }
    }
}
