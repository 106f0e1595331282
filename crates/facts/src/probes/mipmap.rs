//! Mipmapped arrays and their levels.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    picture::{LEVELS, SIDE, solid},
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMipmappedArrayCreate, "a mipmapped array is made", |c| {
        c.current()?;
        step(|c| make(c, solid(SIDE, SIDE, 0, 0), LEVELS, ""))
    }),
    Probe::fails(Call::cuMipmappedArrayCreate, "a mipmapped array has a width", |c| {
        c.current()?;
        make(c, solid(0, SIDE, 0, 0), LEVELS, "")?;
        let three = CUDA_ARRAY3D_DESCRIPTOR { NumChannels: 3, ..solid(SIDE, SIDE, 0, 0) };
        make(c, three, LEVELS, "channels")?;
        let desc = solid(SIDE, SIDE, 0, 0);
        ask!(c.cuMipmappedArrayCreate(null_mut(), &raw const desc, LEVELS), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuMipmappedArrayCreate, "a mipmapped array has the levels that fit", |c| {
        c.current()?;
        for (label, levels) in [("none", 0), ("one", 1), ("two", 2), ("all", LEVELS), ("many", 99)]
        {
            make(c, solid(SIDE, SIDE, 0, 0), levels, label)?;
        }
        make(c, solid(SIDE, 4, 2, 0), 99, "by_width")?;
        make(c, solid(SIDE, 0, 0, 0), 99, "line")?;
        make(c, solid(SIDE, SIDE, 4, CUDA_ARRAY3D_LAYERED), 99, "layers")
    }),
    Probe::works(Call::cuMipmappedArrayDestroy, "a mipmapped array is destroyed", |c| {
        c.current()?;
        let array = c.mipmapped()?;
        step(move |c| {
            ask!(c.cuMipmappedArrayDestroy(array));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMipmappedArrayDestroy, "null isn't destroyed as a mipmapped array", |c| {
        c.current()?;
        ask!(c.cuMipmappedArrayDestroy(CUmipmappedArray::NULL));
        Ok(())
    }),
    Probe::crashes(Call::cuMipmappedArrayDestroy, "a mipmapped array isn't destroyed twice", |c| {
        c.current()?;
        let array = c.mipmapped()?;
        ask!(c.cuMipmappedArrayDestroy(array));
        crash!(c.cuMipmappedArrayDestroy(array));
        Ok(())
    }),
    Probe::case(
        Call::cuMipmappedArrayDestroy,
        "a mipmapped array is destroyed whatever is current",
        |c| {
            c.current()?;
            let (a, b) = (c.mipmapped()?, c.mipmapped()?);
            c.context()?;
            ask!(c.cuMipmappedArrayDestroy(a), "other");
            c.empty_stack();
            ask!(c.cuMipmappedArrayDestroy(b), "none");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMipmappedArrayDestroy,
        "destroying a mipmapped array waits for its context's work",
        |c| {
            c.current()?;
            let array = c.mipmapped()?;
            let stream = c.at_work()?;
            ask!(c.cuMipmappedArrayDestroy(array));
            c.note_waited(stream)
        },
    ),
    Probe::case(Call::cuMipmappedArrayDestroy, "a mipmapped array ends with its context", |c| {
        c.current()?;
        let context = c.context()?;
        let array = c.mipmapped()?;
        must!(c.cuCtxDestroy_v2(context));
        ask!(c.cuMipmappedArrayDestroy(array));
        Ok(())
    }),
    Probe::works(
        Call::cuMipmappedArrayGetLevel,
        "a mipmapped array has a level of half the size",
        |c| {
            c.current()?;
            let array = c.mipmapped()?;
            step(move |c| {
                let mut level = CUarray::NULL;
                ask!(c.cuMipmappedArrayGetLevel(&raw mut level, array, 1));
                if c.observes() {
                    c.describe_array(level, "level")?;
                    let again = c.level(array, 1)?;
                    c.holds("same", level == again);
                }
                Ok(())
            })
        },
    ),
    Probe::fails(
        Call::cuMipmappedArrayGetLevel,
        "a mipmapped array has no level after its last",
        |c| {
            c.current()?;
            let array = c.mipmapped()?;
            let mut level = CUarray::NULL;
            ask!(c.cuMipmappedArrayGetLevel(&raw mut level, array, LEVELS));
            ask!(c.cuMipmappedArrayGetLevel(null_mut(), array, 0), "nowhere");
            let null = CUmipmappedArray::NULL;
            ask!(c.cuMipmappedArrayGetLevel(&raw mut level, null, 0), "null");
            Ok(())
        },
    ),
    Probe::case(Call::cuMipmappedArrayGetLevel, "the levels of an array become smaller", |c| {
        c.current()?;
        let desc = solid(SIDE, 4, 2, 0);
        let mut array = CUmipmappedArray::NULL;
        must!(c.cuMipmappedArrayCreate(&raw mut array, &raw const desc, LEVELS));
        for number in 0..LEVELS {
            let level = c.level(array, number)?;
            c.describe_array(level, "level")?;
        }
        Ok(())
    }),
    Probe::case(Call::cuMipmappedArrayGetLevel, "a level is found whatever is current", |c| {
        c.current()?;
        let array = c.mipmapped()?;
        c.context()?;
        let mut level = CUarray::NULL;
        ask!(c.cuMipmappedArrayGetLevel(&raw mut level, array, 1), "other");
        Ok(())
    }),
    Probe::case(Call::cuArrayDestroy, "a level isn't destroyed by itself", |c| {
        c.current()?;
        let array = c.mipmapped()?;
        let level = c.level(array, 1)?;
        ask!(c.cuArrayDestroy(level));
        ask!(c.cuMipmappedArrayDestroy(array), "whole");
        Ok(())
    }),
    Probe::crashes(Call::cuArray3DGetDescriptor_v2, "a level ends with its mipmapped array", |c| {
        c.current()?;
        let array = c.mipmapped()?;
        let level = c.level(array, 1)?;
        ask!(c.cuMipmappedArrayDestroy(array));
        let mut desc = CUDA_ARRAY3D_DESCRIPTOR::default();
        crash!(c.cuArray3DGetDescriptor_v2(&raw mut desc, level));
        Ok(())
    }),
];

fn make(c: &mut Ctx, desc: CUDA_ARRAY3D_DESCRIPTOR, levels: u32, label: &str) -> Made<()> {
    let mut array = CUmipmappedArray::NULL;
    let status = ask!(c.cuMipmappedArrayCreate(&raw mut array, &raw const desc, levels), label);
    if c.observes() && status.is_success() {
        let mut found = 0;
        // Gives up at 16.
        while found < 16 && c.level(array, found).is_ok() {
            found += 1;
        }
        c.note("levels", found);
        must!(c.cuMipmappedArrayDestroy(array));
    }
    Ok(())
}
