//! Surface objects: numbers in one context.
//!
//! Source: CUDA Driver API 13.x, "Surface Object Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    picture::{SIDE, over_array, over_linear, over_mipmapped},
    probe::{Probe, step},
    setup::Made,
};

/// A number that no surface has.
const UNKNOWN: CUsurfObject = 0x0fff_fff0;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuSurfObjectCreate, "a surface over an array is made", |c| {
        c.current()?;
        let array = c.surface_array()?;
        step(move |c| {
            let surface = make(c, over_array(array), "");
            if c.observes() {
                c.holds("zero", surface == 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuSurfObjectCreate, "a surface is made of an array", |c| {
        c.current()?;
        let (array, memory) = (c.surface_array()?, c.memory(4 * SIDE)?);
        make(c, over_array(CUarray::NULL), "");
        make(c, over_linear(memory, 4 * SIDE), "linear");
        let mipmapped = c.mipmapped()?;
        make(c, over_mipmapped(mipmapped), "mipmapped");
        make(c, CUDA_RESOURCE_DESC { flags: 1, ..over_array(array) }, "flags");
        Ok(())
    }),
    Probe::crashes(Call::cuSurfObjectCreate, "a surface needs somewhere to go", |c| {
        c.current()?;
        let over = over_array(c.surface_array()?);
        crash!(c.cuSurfObjectCreate(null_mut(), &raw const over));
        Ok(())
    }),
    Probe::case(Call::cuSurfObjectCreate, "a surface is made over any array", |c| {
        c.current()?;
        let array = c.array()?;
        make(c, over_array(array), "without_flag");
        let mipmapped = c.mipmapped()?;
        let level = c.level(mipmapped, 1)?;
        make(c, over_array(level), "level");
        Ok(())
    }),
    Probe::case(Call::cuSurfObjectCreate, "surfaces have numbers of their own", |c| {
        c.current()?;
        let array = c.surface_array()?;
        let texture = c.texture(over_array(array))?;
        let surface = c.surface(array)?;
        c.holds("same", texture == surface);
        let next = c.surface(array)?;
        c.holds("next", next == surface + 1);
        ask!(c.cuTexObjectDestroy(surface), "as_texture");
        describe(c, surface, "asked")?;
        ask!(c.cuSurfObjectDestroy(surface));
        let again = c.surface(array)?;
        c.holds("again", again == surface);
        Ok(())
    }),
    Probe::works(Call::cuSurfObjectDestroy, "a surface is destroyed", |c| {
        c.current()?;
        let array = c.surface_array()?;
        let surface = c.surface(array)?;
        step(move |c| {
            ask!(c.cuSurfObjectDestroy(surface));
            Ok(())
        })
    }),
    Probe::fails(Call::cuSurfObjectDestroy, "a surface isn't destroyed without a context", |c| {
        c.current()?;
        let array = c.surface_array()?;
        let surface = c.surface(array)?;
        c.empty_stack();
        ask!(c.cuSurfObjectDestroy(surface));
        Ok(())
    }),
    Probe::case(Call::cuSurfObjectDestroy, "a surface is destroyed twice unnoticed", |c| {
        c.current()?;
        let array = c.surface_array()?;
        let surface = c.surface(array)?;
        ask!(c.cuSurfObjectDestroy(surface));
        ask!(c.cuSurfObjectDestroy(surface), "again");
        ask!(c.cuSurfObjectDestroy(0), "zero");
        ask!(c.cuSurfObjectDestroy(UNKNOWN), "unknown");
        Ok(())
    }),
    Probe::case(Call::cuSurfObjectDestroy, "a surface destroyed elsewhere is another one", |c| {
        let own = c.current()?;
        let array = c.surface_array()?;
        let one = c.surface(array)?;
        c.context()?;
        let other = c.surface_array()?;
        let two = c.surface(other)?;
        c.holds("same", one == two);
        ask!(c.cuSurfObjectDestroy(one));
        describe(c, two, "there")?;
        must!(c.cuCtxSetCurrent(own));
        describe(c, one, "here")
    }),
    Probe::case(Call::cuSurfObjectDestroy, "destroying a surface waits for nothing", |c| {
        c.current()?;
        let array = c.surface_array()?;
        let surface = c.surface(array)?;
        let stream = c.at_work()?;
        ask!(c.cuSurfObjectDestroy(surface));
        c.note_waited(stream)
    }),
    Probe::case(Call::cuSurfObjectDestroy, "a surface outlives its array", |c| {
        c.current()?;
        let array = c.surface_array()?;
        let surface = c.surface(array)?;
        ask!(c.cuArrayDestroy(array), "array");
        ask!(c.cuSurfObjectDestroy(surface));
        Ok(())
    }),
    Probe::works(Call::cuSurfObjectGetResourceDesc, "a surface says what it is made of", |c| {
        c.current()?;
        let array = c.surface_array()?;
        let surface = c.surface(array)?;
        step(move |c| {
            let mut desc = CUDA_RESOURCE_DESC::default();
            ask!(c.cuSurfObjectGetResourceDesc(&raw mut desc, surface));
            if c.observes() {
                // SAFETY: the surface is over an array, and so is the description that was written, or all zero.
                let found = unsafe { desc.res.array };
                c.holds("same", found.hArray == array);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuSurfObjectGetResourceDesc, "a destroyed surface says nothing", |c| {
        c.current()?;
        let array = c.surface_array()?;
        let surface = c.surface(array)?;
        must!(c.cuSurfObjectDestroy(surface));
        describe(c, surface, "")?;
        describe(c, UNKNOWN, "unknown")?;
        let surface = c.surface(array)?;
        ask!(c.cuSurfObjectGetResourceDesc(null_mut(), surface), "nowhere");
        Ok(())
    }),
];

fn make(c: &mut Ctx, over: CUDA_RESOURCE_DESC, label: &str) -> CUsurfObject {
    let mut surface = 0;
    ask!(c.cuSurfObjectCreate(&raw mut surface, &raw const over), label);
    surface
}

fn describe(c: &mut Ctx, surface: CUsurfObject, label: &str) -> Made<()> {
    let mut desc =
        CUDA_RESOURCE_DESC { resType: CUresourcetype(9), ..CUDA_RESOURCE_DESC::default() };
    ask!(c.cuSurfObjectGetResourceDesc(&raw mut desc, surface), label);
    if c.observes() {
        c.note("type", desc.resType.0);
    }
    Ok(())
}
