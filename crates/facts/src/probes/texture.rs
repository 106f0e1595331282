//! Texture objects: numbers in one context.
//!
//! Source: CUDA Driver API 13.x, "Texture Object Management".

use core::ptr::{null, null_mut};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    picture::{SIDE, over_array, over_linear, over_mipmapped, over_rows},
    probe::{Probe, step},
    setup::Made,
};

const BYTES: usize = 4 * SIDE * SIDE;
const PITCH: usize = 512;
/// A number that no texture has.
const UNKNOWN: CUtexObject = 0x0fff_fff0;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuTexObjectCreate, "a texture over an array is made", |c| {
        c.current()?;
        let array = c.array()?;
        step(move |c| {
            let texture = make(c, over_array(array), CUDA_TEXTURE_DESC::default(), "");
            if c.observes() {
                c.holds("zero", texture == 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuTexObjectCreate, "a texture is made of something", |c| {
        c.current()?;
        let array = c.array()?;
        let desc = CUDA_TEXTURE_DESC::default();
        make(c, over_array(CUarray::NULL), desc, "");
        make(c, over_mipmapped(CUmipmappedArray::NULL), desc, "null_mipmapped");
        make(c, over_linear(0, BYTES), desc, "null_linear");
        let unknown = CUresourcetype(9);
        make(c, CUDA_RESOURCE_DESC { resType: unknown, ..over_array(array) }, desc, "type");
        make(c, CUDA_RESOURCE_DESC { flags: 1, ..over_array(array) }, desc, "flags");
        let (mut texture, over) = (0, over_array(array));
        let (res, tex) = (&raw const over, &raw const desc);
        ask!(c.cuTexObjectCreate(null_mut(), res, tex, null()), "nowhere");
        ask!(c.cuTexObjectCreate(&raw mut texture, null(), tex, null()), "no_resource");
        ask!(c.cuTexObjectCreate(&raw mut texture, res, null(), null()), "no_sampling");
        Ok(())
    }),
    Probe::case(Call::cuTexObjectCreate, "a texture is made over each kind of memory", |c| {
        c.current()?;
        let desc = CUDA_TEXTURE_DESC::default();
        let memory = c.memory(PITCH * SIDE)?;
        make(c, over_linear(memory, BYTES), desc, "linear");
        make(c, over_linear(memory, 0), desc, "no_bytes");
        make(c, over_linear(memory + 4, BYTES), desc, "linear_moved");
        make(c, over_rows(memory, PITCH), desc, "rows");
        make(c, over_rows(memory + 4, PITCH), desc, "rows_moved");
        make(c, over_rows(memory, 4 * SIDE), desc, "dense_rows");
        make(c, over_rows(memory, 4 * SIDE + 4), desc, "crooked_rows");
        let array = c.mipmapped()?;
        make(c, over_mipmapped(array), desc, "mipmapped");
        let normalized = CUDA_TEXTURE_DESC { flags: CU_TRSF_NORMALIZED_COORDINATES, ..desc };
        make(c, over_mipmapped(array), normalized, "mipmapped_normalized");
        let level = c.level(array, 1)?;
        make(c, over_array(level), desc, "level");
        Ok(())
    }),
    Probe::case(Call::cuTexObjectCreate, "a texture's sampling is looked at", |c| {
        c.current()?;
        let array = c.array()?;
        let desc = CUDA_TEXTURE_DESC::default();
        let linear = CUfilter_mode::CU_TR_FILTER_MODE_LINEAR;
        make(c, over_array(array), CUDA_TEXTURE_DESC { filterMode: linear, ..desc }, "linear");
        let unknown = CUfilter_mode(9);
        make(c, over_array(array), CUDA_TEXTURE_DESC { filterMode: unknown, ..desc }, "filter");
        let address = [CUaddress_mode(9); 3];
        make(c, over_array(array), CUDA_TEXTURE_DESC { addressMode: address, ..desc }, "address");
        make(c, over_array(array), CUDA_TEXTURE_DESC { flags: 0x8000, ..desc }, "flags");
        make(c, over_array(array), CUDA_TEXTURE_DESC { maxAnisotropy: 99, ..desc }, "anisotropy");
        Ok(())
    }),
    Probe::case(Call::cuTexObjectCreate, "a view of an array is of its format", |c| {
        c.current()?;
        let (array, memory) = (c.array()?, c.memory(BYTES)?);
        let view = CUDA_RESOURCE_VIEW_DESC {
            format: CUresourceViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32,
            width: SIDE,
            height: SIDE,
            ..CUDA_RESOURCE_VIEW_DESC::default()
        };
        let (mut texture, desc) = (0, CUDA_TEXTURE_DESC::default());
        let tex = &raw const desc;
        let over = over_array(array);
        ask!(c.cuTexObjectCreate(&raw mut texture, &raw const over, tex, &raw const view), "array");
        let format = CUresourceViewFormat::CU_RES_VIEW_FORMAT_UINT_4X8;
        let other = CUDA_RESOURCE_VIEW_DESC { format, ..view };
        ask!(
            c.cuTexObjectCreate(&raw mut texture, &raw const over, tex, &raw const other),
            "other"
        );
        let over = over_linear(memory, BYTES);
        ask!(
            c.cuTexObjectCreate(&raw mut texture, &raw const over, tex, &raw const view),
            "linear"
        );
        Ok(())
    }),
    Probe::case(Call::cuTexObjectCreate, "a context's numbers are given out again", |c| {
        c.current()?;
        let array = c.array()?;
        let (one, two) = (c.texture(over_array(array))?, c.texture(over_array(array))?);
        c.holds("differ", one != two);
        c.holds("next", two == one + 1);
        ask!(c.cuTexObjectDestroy(one));
        let again = c.texture(over_array(array))?;
        c.holds("again", again == one);
        Ok(())
    }),
    Probe::case(Call::cuTexObjectCreate, "two contexts give out the same numbers", |c| {
        c.current()?;
        let array = c.array()?;
        let one = c.texture(over_array(array))?;
        c.context()?;
        let other = c.array()?;
        let two = c.texture(over_array(other))?;
        c.holds("same", one == two);
        Ok(())
    }),
    Probe::case(Call::cuTexObjectCreate, "a texture is made over another context's array", |c| {
        c.current()?;
        let array = c.array()?;
        c.context()?;
        make(c, over_array(array), CUDA_TEXTURE_DESC::default(), "");
        Ok(())
    }),
    Probe::works(Call::cuTexObjectDestroy, "a texture is destroyed", |c| {
        c.current()?;
        let array = c.array()?;
        let texture = c.texture(over_array(array))?;
        step(move |c| {
            ask!(c.cuTexObjectDestroy(texture));
            Ok(())
        })
    }),
    Probe::fails(Call::cuTexObjectDestroy, "a texture isn't destroyed without a context", |c| {
        c.current()?;
        let array = c.array()?;
        let texture = c.texture(over_array(array))?;
        c.empty_stack();
        ask!(c.cuTexObjectDestroy(texture));
        Ok(())
    }),
    Probe::case(Call::cuTexObjectDestroy, "a texture is destroyed twice unnoticed", |c| {
        c.current()?;
        let array = c.array()?;
        let texture = c.texture(over_array(array))?;
        ask!(c.cuTexObjectDestroy(texture));
        ask!(c.cuTexObjectDestroy(texture), "again");
        let (one, two) = (c.texture(over_array(array))?, c.texture(over_array(array))?);
        c.holds("differ", one != two);
        Ok(())
    }),
    Probe::case(Call::cuTexObjectDestroy, "a number that no texture has is destroyed", |c| {
        c.current()?;
        ask!(c.cuTexObjectDestroy(0), "zero");
        ask!(c.cuTexObjectDestroy(UNKNOWN), "unknown");
        ask!(c.cuTexObjectDestroy(CUtexObject::MAX), "max");
        Ok(())
    }),
    Probe::case(Call::cuTexObjectDestroy, "a texture destroyed elsewhere is another one", |c| {
        let own = c.current()?;
        let array = c.array()?;
        let one = c.texture(over_array(array))?;
        let there = c.context()?;
        let other = c.array()?;
        let two = c.texture(over_array(other))?;
        c.holds("same", one == two);
        ask!(c.cuTexObjectDestroy(one));
        resource(c, two, "there")?;
        must!(c.cuCtxSetCurrent(own));
        resource(c, one, "here")?;
        must!(c.cuCtxSetCurrent(there));
        let again = c.texture(over_array(other))?;
        c.holds("given_out_there", again == two);
        Ok(())
    }),
    Probe::case(Call::cuTexObjectDestroy, "destroying a texture waits for nothing", |c| {
        c.current()?;
        let array = c.array()?;
        let texture = c.texture(over_array(array))?;
        let stream = c.at_work()?;
        ask!(c.cuTexObjectDestroy(texture));
        c.note_waited(stream)
    }),
    Probe::case(Call::cuTexObjectDestroy, "a texture outlives its array", |c| {
        c.current()?;
        let array = c.array()?;
        let texture = c.texture(over_array(array))?;
        ask!(c.cuArrayDestroy(array), "array");
        resource(c, texture, "asked")?;
        ask!(c.cuTexObjectDestroy(texture));
        Ok(())
    }),
    Probe::works(Call::cuTexObjectGetResourceDesc, "a texture says what it is made of", |c| {
        c.current()?;
        let array = c.array()?;
        let texture = c.texture(over_array(array))?;
        step(move |c| resource(c, texture, ""))
    }),
    Probe::fails(Call::cuTexObjectGetResourceDesc, "a destroyed texture says nothing", |c| {
        c.current()?;
        let array = c.array()?;
        let texture = c.texture(over_array(array))?;
        must!(c.cuTexObjectDestroy(texture));
        resource(c, texture, "")?;
        resource(c, UNKNOWN, "unknown")?;
        let texture = c.texture(over_array(array))?;
        ask!(c.cuTexObjectGetResourceDesc(null_mut(), texture), "nowhere");
        Ok(())
    }),
    Probe::works(Call::cuTexObjectGetTextureDesc, "a texture says how it is sampled", |c| {
        c.current()?;
        let array = c.array()?;
        let texture = c.texture(over_array(array))?;
        step(move |c| {
            let mut desc = CUDA_TEXTURE_DESC { flags: 9, ..CUDA_TEXTURE_DESC::default() };
            ask!(c.cuTexObjectGetTextureDesc(&raw mut desc, texture));
            if c.observes() {
                c.note("flags", desc.flags);
                c.note("anisotropy", desc.maxAnisotropy);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuTexObjectGetTextureDesc, "a destroyed texture isn't sampled", |c| {
        c.current()?;
        let array = c.array()?;
        let texture = c.texture(over_array(array))?;
        must!(c.cuTexObjectDestroy(texture));
        let mut desc = CUDA_TEXTURE_DESC::default();
        ask!(c.cuTexObjectGetTextureDesc(&raw mut desc, texture));
        let texture = c.texture(over_array(array))?;
        ask!(c.cuTexObjectGetTextureDesc(null_mut(), texture), "nowhere");
        Ok(())
    }),
    Probe::works(Call::cuTexObjectGetResourceViewDesc, "a texture says which view it is", |c| {
        c.current()?;
        let array = c.array()?;
        let view = CUDA_RESOURCE_VIEW_DESC {
            format: CUresourceViewFormat::CU_RES_VIEW_FORMAT_FLOAT_1X32,
            width: SIDE,
            height: SIDE,
            ..CUDA_RESOURCE_VIEW_DESC::default()
        };
        let (mut texture, desc, over) = (0, CUDA_TEXTURE_DESC::default(), over_array(array));
        let (res, tex) = (&raw const over, &raw const desc);
        must!(c.cuTexObjectCreate(&raw mut texture, res, tex, &raw const view));
        step(move |c| view_of(c, texture, ""))
    }),
    Probe::fails(Call::cuTexObjectGetResourceViewDesc, "a texture without a view says none", |c| {
        c.current()?;
        let array = c.array()?;
        let texture = c.texture(over_array(array))?;
        view_of(c, texture, "")?;
        view_of(c, UNKNOWN, "unknown")
    }),
];

fn make(
    c: &mut Ctx,
    over: CUDA_RESOURCE_DESC,
    desc: CUDA_TEXTURE_DESC,
    label: &str,
) -> CUtexObject {
    let mut texture = 0;
    let (res, tex) = (&raw const over, &raw const desc);
    ask!(c.cuTexObjectCreate(&raw mut texture, res, tex, null()), label);
    texture
}

fn resource(c: &mut Ctx, texture: CUtexObject, label: &str) -> Made<()> {
    let mut desc =
        CUDA_RESOURCE_DESC { resType: CUresourcetype(9), ..CUDA_RESOURCE_DESC::default() };
    ask!(c.cuTexObjectGetResourceDesc(&raw mut desc, texture), label);
    if c.observes() {
        c.note("type", desc.resType.0);
    }
    Ok(())
}

fn view_of(c: &mut Ctx, texture: CUtexObject, label: &str) -> Made<()> {
    let mut view = CUDA_RESOURCE_VIEW_DESC { width: 9, ..CUDA_RESOURCE_VIEW_DESC::default() };
    ask!(c.cuTexObjectGetResourceViewDesc(&raw mut view, texture), label);
    if c.observes() {
        c.note("size", format_args!("{}x{}", view.width, view.height));
    }
    Ok(())
}
