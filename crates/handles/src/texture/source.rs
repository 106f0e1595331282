//! What a texture is made over.
//!
//! Source: CUDA Driver API 13.x, "Texture Object Management".

#![expect(unsafe_code, reason = "takes raw addresses")]

use crate::{
    array::{AnyArray, Array, ArrayFormat, ArrayLevel, MipmappedArray},
    context::Context,
    error::{Error, Result},
    keep::KeepAlive,
    stream::StreamRef,
};
use cuhold_driver_sys::ffi::*;
use std::sync::Arc;

/// Device memory that a texture reads in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "what the driver needs to know")]
pub struct LinearMemory {
    /// Where it begins: a multiple of the device's texture alignment, of 512 bytes as a rule.
    pub address: CUdeviceptr,
    /// Its size in bytes.
    pub bytes: usize,
    /// What one channel of an element is.
    pub format: ArrayFormat,
    /// How many channels an element has: 1, 2 or 4.
    pub channels: u32,
}

/// Device memory that a texture reads as rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "what the driver needs to know")]
pub struct PitchedMemory {
    /// Where it begins: a multiple of the device's texture alignment, of 512 bytes as a rule.
    pub address: CUdeviceptr,
    /// The width in elements.
    pub width: usize,
    /// The height in elements.
    pub height: usize,
    /// From one row to the next, in bytes: a multiple of the device's texture pitch alignment, of 32 bytes as a rule.
    pub pitch_bytes: usize,
    /// What one channel of an element is.
    pub format: ArrayFormat,
    /// How many channels an element has: 1, 2 or 4.
    pub channels: u32,
}

/// What a texture is made over, kept alive as long as it.
#[derive(Clone, Debug)]
pub struct TextureSource(Source);

#[derive(Clone, Debug)]
enum Source {
    Array(AnyArray),
    Mipmapped(Arc<MipmappedArray>),
    Linear(Context, LinearMemory, #[expect(dead_code, reason = "kept")] Option<KeepAlive>),
    Pitched(Context, PitchedMemory, #[expect(dead_code, reason = "kept")] Option<KeepAlive>),
}

impl TextureSource {
    /// Device memory in a row; `owner` is kept alive as long.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// No address; channels other than 1, 2 or 4.
    ///
    /// # Safety
    /// The memory is of this context and lives as long as every texture made over it, or `owner` keeps it alive.
    pub unsafe fn linear(
        context: &Context,
        memory: LinearMemory,
        owner: Option<KeepAlive>,
    ) -> Result<Self> {
        check(memory.address, memory.channels)?;
        Ok(Self(Source::Linear(context.clone(), memory, owner)))
    }

    /// Rows of device memory; `owner` is kept alive as long.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// No address; a width or height of 0; channels other than 1, 2 or 4; rows that are longer than the pitch.
    ///
    /// # Safety
    /// As [`linear`](Self::linear).
    pub unsafe fn pitched(
        context: &Context,
        memory: PitchedMemory,
        owner: Option<KeepAlive>,
    ) -> Result<Self> {
        check(memory.address, memory.channels)?;
        let PitchedMemory { width, height, pitch_bytes, format, channels, .. } = memory;
        if width == 0 || height == 0 {
            return Err(Error::argument("memory: width and height are at least 1"));
        }
        let element = format.bytes().unwrap_or(1).checked_mul(channels as usize);
        let row = element.and_then(|element| element.checked_mul(width));
        if row.is_none_or(|row| row > pitch_bytes) {
            let text = format!("memory: a pitch of {pitch_bytes} bytes is less than a row's");
            return Err(Error::argument(text));
        }
        Ok(Self(Source::Pitched(context.clone(), memory, owner)))
    }

    /// The context of the memory, in which a texture over it is made.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        match &self.0 {
            Source::Array(array) => array.context(),
            Source::Mipmapped(array) => array.context(),
            Source::Linear(context, ..) | Source::Pitched(context, ..) => context,
        }
    }

    /// Memory that isn't an array is its owner's to be told about.
    pub(super) fn used_by(&self, stream: StreamRef<'_>) -> Result<()> {
        match &self.0 {
            Source::Array(array) => array.used_by(stream),
            Source::Mipmapped(array) => array.used_by(stream),
            Source::Linear(..) | Source::Pitched(..) => Ok(()),
        }
    }

    /// Refuses memory that has no view: one that isn't an array.
    pub(super) fn check_viewable(&self) -> Result<()> {
        match &self.0 {
            Source::Array(_) | Source::Mipmapped(_) => Ok(()),
            Source::Linear(..) | Source::Pitched(..) => {
                Err(Error::argument("view: only an array is seen through a view"))
            }
        }
    }

    /// As the driver's calls take it. Its handles live as long as this value.
    pub(super) fn desc(&self) -> CUDA_RESOURCE_DESC {
        use CUDA_RESOURCE_DESC_st__bindgen_ty_1 as Resource;
        let (kind, resource) = match &self.0 {
            Source::Array(array) => {
                let array =
                    CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_1 { hArray: array.as_raw() };
                (CUresourcetype::CU_RESOURCE_TYPE_ARRAY, Resource { array })
            }
            Source::Mipmapped(array) => {
                let mipmap = CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_2 {
                    hMipmappedArray: array.as_raw(),
                };
                (CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, Resource { mipmap })
            }
            Source::Linear(_, memory, _) => {
                let linear = CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_3 {
                    devPtr: memory.address,
                    format: memory.format.as_raw(),
                    numChannels: memory.channels,
                    sizeInBytes: memory.bytes,
                };
                (CUresourcetype::CU_RESOURCE_TYPE_LINEAR, Resource { linear })
            }
            Source::Pitched(_, memory, _) => {
                let rows = CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_4 {
                    devPtr: memory.address,
                    format: memory.format.as_raw(),
                    numChannels: memory.channels,
                    width: memory.width,
                    height: memory.height,
                    pitchInBytes: memory.pitch_bytes,
                };
                (CUresourcetype::CU_RESOURCE_TYPE_PITCH2D, Resource { pitch2D: rows })
            }
        };
        CUDA_RESOURCE_DESC { resType: kind, res: resource, flags: 0 }
    }
}

fn check(address: CUdeviceptr, channels: u32) -> Result<()> {
    if address == 0 {
        return Err(Error::argument("memory: the address is null"));
    }
    if !matches!(channels, 1 | 2 | 4) {
        let text = format!("memory: {channels} channels, and an element has 1, 2 or 4 of them");
        return Err(Error::argument(text));
    }
    Ok(())
}

impl From<AnyArray> for TextureSource {
    fn from(array: AnyArray) -> Self {
        Self(Source::Array(array))
    }
}

impl From<&Arc<Array>> for TextureSource {
    fn from(array: &Arc<Array>) -> Self {
        Self(Source::Array(array.into()))
    }
}

impl From<&Arc<ArrayLevel>> for TextureSource {
    fn from(level: &Arc<ArrayLevel>) -> Self {
        Self(Source::Array(level.into()))
    }
}

impl From<&Arc<MipmappedArray>> for TextureSource {
    fn from(array: &Arc<MipmappedArray>) -> Self {
        Self(Source::Mipmapped(Arc::clone(array)))
    }
}
