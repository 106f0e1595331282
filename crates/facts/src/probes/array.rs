//! Arrays: made, described, destroyed.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    picture::{SIDE, flat, solid},
    probe::{Probe, step},
    setup::Made,
};

const LAYERED: u32 = CUDA_ARRAY3D_LAYERED;
const CUBEMAP: u32 = CUDA_ARRAY3D_CUBEMAP;
const GATHER: u32 = CUDA_ARRAY3D_TEXTURE_GATHER;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuArrayCreate_v2, "a flat array is made", |c| {
        c.current()?;
        step(|c| make_flat(c, flat(SIDE, SIDE), ""))
    }),
    Probe::fails(Call::cuArrayCreate_v2, "an array has a width", |c| {
        c.current()?;
        make_flat(c, flat(0, SIDE), "")?;
        make_flat(c, flat(SIDE, 0), "one_row")?;
        make_flat(c, flat(SIDE, 1 << 20), "high")?;
        make_flat(c, flat(1 << 20, 0), "wide")?;
        let desc = flat(SIDE, SIDE);
        ask!(c.cuArrayCreate_v2(null_mut(), &raw const desc), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuArrayCreate_v2, "an array's elements have 1, 2 or 4 channels", |c| {
        c.current()?;
        for (label, channels) in [("none", 0), ("two", 2), ("three", 3), ("four", 4), ("five", 5)] {
            make_flat(
                c,
                CUDA_ARRAY_DESCRIPTOR { NumChannels: channels, ..flat(SIDE, SIDE) },
                label,
            )?;
        }
        Ok(())
    }),
    Probe::case(Call::cuArrayCreate_v2, "an array's elements have a known format", |c| {
        c.current()?;
        for (label, format) in [
            ("u8", CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8),
            ("i16", CUarray_format::CU_AD_FORMAT_SIGNED_INT16),
            ("half", CUarray_format::CU_AD_FORMAT_HALF),
            ("unorm", CUarray_format::CU_AD_FORMAT_UNORM_INT8X1),
            ("zero", CUarray_format(0)),
            ("unknown", CUarray_format(0x7777)),
        ] {
            make_flat(c, CUDA_ARRAY_DESCRIPTOR { Format: format, ..flat(SIDE, SIDE) }, label)?;
        }
        Ok(())
    }),
    Probe::works(Call::cuArray3DCreate_v2, "an array with a depth is made", |c| {
        c.current()?;
        step(|c| make(c, solid(SIDE, SIDE, 4, 0), ""))
    }),
    Probe::fails(Call::cuArray3DCreate_v2, "an array with a depth has a width", |c| {
        c.current()?;
        make(c, solid(0, SIDE, 4, 0), "")?;
        make(c, solid(SIDE, 0, 4, 0), "depth_without_height")?;
        let desc = solid(SIDE, SIDE, 4, 0);
        ask!(c.cuArray3DCreate_v2(null_mut(), &raw const desc), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuArray3DCreate_v2, "an array's shape follows from its flags", |c| {
        c.current()?;
        make(c, solid(SIDE, 0, 0, 0), "line")?;
        make(c, solid(SIDE, SIDE, 0, 0), "flat")?;
        make(c, solid(SIDE, 0, 4, LAYERED), "lines")?;
        make(c, solid(SIDE, SIDE, 4, LAYERED), "layers")?;
        make(c, solid(SIDE, SIDE, 0, LAYERED), "no_layers")?;
        make(c, solid(SIDE, SIDE, 6, CUBEMAP), "cube")?;
        make(c, solid(SIDE, SIDE, 5, CUBEMAP), "five_faces")?;
        make(c, solid(SIDE, 8, 6, CUBEMAP), "not_square")?;
        make(c, solid(SIDE, SIDE, 12, CUBEMAP | LAYERED), "cubes")?;
        make(c, solid(SIDE, SIDE, 7, CUBEMAP | LAYERED), "seven_faces")
    }),
    Probe::case(Call::cuArray3DCreate_v2, "an array's uses follow from its flags", |c| {
        c.current()?;
        make(c, solid(SIDE, SIDE, 0, CUDA_ARRAY3D_SURFACE_LDST), "surface")?;
        make(c, solid(SIDE, SIDE, 0, GATHER), "gather")?;
        make(c, solid(SIDE, SIDE, 4, GATHER), "gather_depth")?;
        make(c, solid(SIDE, 0, 0, GATHER), "gather_line")?;
        make(c, solid(SIDE, SIDE, 0, CUDA_ARRAY3D_DEPTH_TEXTURE), "depth_texture")?;
        make(c, solid(SIDE, SIDE, 0, 0x8000), "unknown")
    }),
    Probe::case(Call::cuArray3DCreate_v2, "an array has to fit", |c| {
        c.current()?;
        let huge =
            CUDA_ARRAY3D_DESCRIPTOR { NumChannels: 4, ..solid(1 << 14, 1 << 14, 1 << 14, 0) };
        make(c, huge, "huge")?;
        make(c, solid((1 << 14) + 1, SIDE, 4, 0), "wide")?;
        make(c, solid(SIDE, SIDE, (1 << 11) + 1, LAYERED), "many_layers")?;
        make(c, solid(SIDE, SIDE, 1 << 11, LAYERED), "layers")
    }),
    Probe::works(Call::cuArrayDestroy, "an array is destroyed", |c| {
        c.current()?;
        let array = c.array()?;
        step(move |c| {
            ask!(c.cuArrayDestroy(array));
            Ok(())
        })
    }),
    Probe::fails(Call::cuArrayDestroy, "null isn't destroyed as an array", |c| {
        c.current()?;
        ask!(c.cuArrayDestroy(CUarray::NULL));
        Ok(())
    }),
    Probe::crashes(Call::cuArrayDestroy, "an array isn't destroyed twice", |c| {
        c.current()?;
        let array = c.array()?;
        ask!(c.cuArrayDestroy(array));
        crash!(c.cuArrayDestroy(array));
        Ok(())
    }),
    Probe::case(Call::cuArrayDestroy, "an array is destroyed whatever is current", |c| {
        c.current()?;
        let (a, b) = (c.array()?, c.array()?);
        c.context()?;
        ask!(c.cuArrayDestroy(a), "other");
        c.empty_stack();
        ask!(c.cuArrayDestroy(b), "none");
        Ok(())
    }),
    Probe::case(Call::cuArrayDestroy, "destroying an array waits for its context's work", |c| {
        c.current()?;
        let array = c.array()?;
        let stream = c.at_work()?;
        ask!(c.cuArrayDestroy(array));
        c.note_waited(stream)
    }),
    Probe::case(Call::cuArrayDestroy, "destroying an array waits for no other context", |c| {
        let own = c.current()?;
        let array = c.array()?;
        c.context()?;
        let stream = c.at_work()?;
        must!(c.cuCtxSetCurrent(own));
        ask!(c.cuArrayDestroy(array));
        c.note_waited(stream)
    }),
    Probe::case(Call::cuArrayDestroy, "an array ends with its context", |c| {
        c.current()?;
        let context = c.context()?;
        let array = c.array()?;
        must!(c.cuCtxDestroy_v2(context));
        ask!(c.cuArrayDestroy(array));
        Ok(())
    }),
    Probe::works(Call::cuArrayGetDescriptor_v2, "a flat array says how large it is", |c| {
        c.current()?;
        let array = c.array()?;
        step(move |c| describe_flat(c, array, ""))
    }),
    Probe::fails(Call::cuArrayGetDescriptor_v2, "a size goes somewhere, and is an array's", |c| {
        c.current()?;
        let array = c.array()?;
        ask!(c.cuArrayGetDescriptor_v2(null_mut(), array));
        let mut desc = CUDA_ARRAY_DESCRIPTOR::default();
        ask!(c.cuArrayGetDescriptor_v2(&raw mut desc, CUarray::NULL), "null");
        Ok(())
    }),
    Probe::case(Call::cuArrayGetDescriptor_v2, "an array with a depth says how wide it is", |c| {
        c.current()?;
        let array = c.array_of(solid(SIDE, 8, 4, 0))?;
        describe_flat(c, array, "")
    }),
    Probe::works(Call::cuArray3DGetDescriptor_v2, "an array says what it was made of", |c| {
        c.current()?;
        let array = c.array_of(solid(SIDE, 8, 4, CUDA_ARRAY3D_SURFACE_LDST))?;
        step(move |c| c.describe_array(array, ""))
    }),
    Probe::fails(Call::cuArray3DGetDescriptor_v2, "what an array is made of goes somewhere", |c| {
        c.current()?;
        let array = c.array()?;
        ask!(c.cuArray3DGetDescriptor_v2(null_mut(), array));
        let mut desc = CUDA_ARRAY3D_DESCRIPTOR::default();
        ask!(c.cuArray3DGetDescriptor_v2(&raw mut desc, CUarray::NULL), "null");
        Ok(())
    }),
    Probe::case(Call::cuArray3DGetDescriptor_v2, "arrays of few dimensions have zeros", |c| {
        c.current()?;
        let desc = flat(SIDE, 0);
        let mut line = CUarray::NULL;
        must!(c.cuArrayCreate_v2(&raw mut line, &raw const desc));
        c.describe_array(line, "line")?;
        let flat = c.array()?;
        c.describe_array(flat, "flat")?;
        let cube = c.array_of(solid(SIDE, SIDE, 6, CUBEMAP))?;
        c.describe_array(cube, "cube")
    }),
    Probe::crashes(Call::cuArray3DGetDescriptor_v2, "a destroyed array isn't described", |c| {
        c.current()?;
        let array = c.array()?;
        ask!(c.cuArrayDestroy(array));
        let mut desc = CUDA_ARRAY3D_DESCRIPTOR::default();
        crash!(c.cuArray3DGetDescriptor_v2(&raw mut desc, array));
        Ok(())
    }),
];

fn make_flat(c: &mut Ctx, desc: CUDA_ARRAY_DESCRIPTOR, label: &str) -> Made<()> {
    let mut array = CUarray::NULL;
    let status = ask!(c.cuArrayCreate_v2(&raw mut array, &raw const desc), label);
    if c.observes() && status.is_success() {
        c.holds("null", array.is_null());
        must!(c.cuArrayDestroy(array));
    }
    Ok(())
}

fn make(c: &mut Ctx, desc: CUDA_ARRAY3D_DESCRIPTOR, label: &str) -> Made<()> {
    let mut array = CUarray::NULL;
    let status = ask!(c.cuArray3DCreate_v2(&raw mut array, &raw const desc), label);
    if c.observes() && status.is_success() {
        c.holds("null", array.is_null());
        must!(c.cuArrayDestroy(array));
    }
    Ok(())
}

fn describe_flat(c: &mut Ctx, array: CUarray, label: &str) -> Made<()> {
    let mut desc = CUDA_ARRAY_DESCRIPTOR::default();
    ask!(c.cuArrayGetDescriptor_v2(&raw mut desc, array), label);
    if c.observes() {
        c.note("size", format_args!("{}x{}", desc.Width, desc.Height));
        c.note("format", format_args!("{}x{}", desc.Format.0, desc.NumChannels));
    }
    Ok(())
}

impl Ctx {
    /// Asks what an array was made of, and takes it into the answer.
    pub(super) fn describe_array(&mut self, array: CUarray, label: &str) -> Made<()> {
        let mut desc = CUDA_ARRAY3D_DESCRIPTOR::default();
        let c = self;
        ask!(c.cuArray3DGetDescriptor_v2(&raw mut desc, array), label);
        if c.observes() {
            c.note("size", format_args!("{}x{}x{}", desc.Width, desc.Height, desc.Depth));
            c.note("format", format_args!("{}x{}", desc.Format.0, desc.NumChannels));
            c.note("flags", desc.Flags);
        }
        Ok(())
    }
}
