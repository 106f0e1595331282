//! Set-up for probes about images: arrays, mipmapped arrays, textures, surfaces.

#![expect(unsafe_code, reason = "set-up is driver calls")]

use cuhold_driver_sys::ffi::*;

use crate::{
    ctx::Ctx,
    host::{self, Gate},
    setup::Made,
};

/// How many elements the arrays of the probes have in each direction.
pub(crate) const SIDE: usize = 16;
/// The most levels that a mipmapped array of that size can have.
pub(crate) const LEVELS: u32 = 5;
const FLOAT: CUarray_format = CUarray_format::CU_AD_FORMAT_FLOAT;

/// A flat array of one float for each element.
pub(crate) fn flat(width: usize, height: usize) -> CUDA_ARRAY_DESCRIPTOR {
    CUDA_ARRAY_DESCRIPTOR { Width: width, Height: height, Format: FLOAT, NumChannels: 1 }
}

/// An array of one float for each element.
pub(crate) fn solid(
    width: usize,
    height: usize,
    depth: usize,
    flags: u32,
) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: FLOAT,
        NumChannels: 1,
        Flags: flags,
    }
}

fn of_type(kind: CUresourcetype) -> CUDA_RESOURCE_DESC {
    CUDA_RESOURCE_DESC { resType: kind, ..CUDA_RESOURCE_DESC::default() }
}

/// What a texture or a surface over an array is made of.
pub(crate) fn over_array(array: CUarray) -> CUDA_RESOURCE_DESC {
    let mut desc = of_type(CUresourcetype::CU_RESOURCE_TYPE_ARRAY);
    desc.res.array = CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_1 { hArray: array };
    desc
}

/// What a texture over a mipmapped array is made of.
pub(crate) fn over_mipmapped(array: CUmipmappedArray) -> CUDA_RESOURCE_DESC {
    let mut desc = of_type(CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
    desc.res.mipmap = CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_2 { hMipmappedArray: array };
    desc
}

/// What a texture over bytes in a row is made of: floats.
pub(crate) fn over_linear(memory: CUdeviceptr, bytes: usize) -> CUDA_RESOURCE_DESC {
    let mut desc = of_type(CUresourcetype::CU_RESOURCE_TYPE_LINEAR);
    desc.res.linear = CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_3 {
        devPtr: memory,
        format: FLOAT,
        numChannels: 1,
        sizeInBytes: bytes,
    };
    desc
}

/// What a texture over rows of memory is made of: floats.
pub(crate) fn over_rows(memory: CUdeviceptr, pitch_bytes: usize) -> CUDA_RESOURCE_DESC {
    let mut desc = of_type(CUresourcetype::CU_RESOURCE_TYPE_PITCH2D);
    desc.res.pitch2D = CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_4 {
        devPtr: memory,
        format: FLOAT,
        numChannels: 1,
        width: SIDE,
        height: SIDE,
        pitchInBytes: pitch_bytes,
    };
    desc
}

impl Ctx {
    /// A flat array of the current context.
    pub(crate) fn array(&self) -> Made<CUarray> {
        self.array_of(solid(SIDE, SIDE, 0, 0))
    }

    /// A flat array that surfaces may write.
    pub(crate) fn surface_array(&self) -> Made<CUarray> {
        self.array_of(solid(SIDE, SIDE, 0, CUDA_ARRAY3D_SURFACE_LDST))
    }

    /// An array of the current context.
    pub(crate) fn array_of(&self, desc: CUDA_ARRAY3D_DESCRIPTOR) -> Made<CUarray> {
        let mut array = CUarray::NULL;
        must!(self.cuArray3DCreate_v2(&raw mut array, &raw const desc));
        Ok(array)
    }

    /// A flat mipmapped array of the current context, with all its levels.
    pub(crate) fn mipmapped(&self) -> Made<CUmipmappedArray> {
        let desc = solid(SIDE, SIDE, 0, 0);
        let mut array = CUmipmappedArray::NULL;
        must!(self.cuMipmappedArrayCreate(&raw mut array, &raw const desc, LEVELS));
        Ok(array)
    }

    /// A level of a mipmapped array.
    pub(crate) fn level(&self, array: CUmipmappedArray, level: u32) -> Made<CUarray> {
        let mut found = CUarray::NULL;
        must!(self.cuMipmappedArrayGetLevel(&raw mut found, array, level));
        Ok(found)
    }

    /// A texture of the current context.
    pub(crate) fn texture(&self, over: CUDA_RESOURCE_DESC) -> Made<CUtexObject> {
        let desc = CUDA_TEXTURE_DESC::default();
        let mut texture = 0;
        must!(self.cuTexObjectCreate(
            &raw mut texture,
            &raw const over,
            &raw const desc,
            core::ptr::null()
        ));
        Ok(texture)
    }

    /// A surface of the current context.
    pub(crate) fn surface(&self, array: CUarray) -> Made<CUsurfObject> {
        let over = over_array(array);
        let mut surface = 0;
        must!(self.cuSurfObjectCreate(&raw mut surface, &raw const over));
        Ok(surface)
    }

    /// A stream of the current context with work that ends by itself in a moment.
    pub(crate) fn at_work(&self) -> Made<CUstream> {
        let (stream, function) = (self.stream()?, self.function(c"nop")?);
        self.launch(function, stream)?;
        self.wait_for(stream)?;
        let gate = host::leak(Gate::brief());
        must!(self.cuLaunchHostFunc(stream, Some(host::wait_at_gate), host::user(gate)));
        self.launch(function, stream)?;
        Ok(stream)
    }

    /// Says whether a stream's work was done by now, and waits for it.
    pub(crate) fn note_waited(&mut self, stream: CUstream) -> Made<()> {
        // SAFETY: *handles*: a stream of this probe. *Pointers*, *calls back*: none.
        let status = unsafe { self.driver().cuStreamQuery(stream) };
        self.holds("waited", status.is_success());
        self.wait_for(stream)
    }
}
