//! Managed memory: allocated, advised, prefetched, asked.
//!
//! Source: CUDA Driver API 13.x, "Unified Addressing".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

const GLOBAL: u32 = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0;
const READ_MOSTLY: CUmem_advise = CUmem_advise::CU_MEM_ADVISE_SET_READ_MOSTLY;
const IS_READ_MOSTLY: CUmem_range_attribute =
    CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
/// Enough for a page of any kind.
const BYTES: usize = 1 << 21;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemAllocManaged, "managed memory is allocated", |c| {
        c.current()?;
        step(|c| {
            let mut memory = 0;
            ask!(c.cuMemAllocManaged(&raw mut memory, 64, GLOBAL));
            if c.observes() {
                c.holds("null", memory == 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemAllocManaged, "no bytes of managed memory aren't allocated", |c| {
        c.current()?;
        let mut memory = 0;
        ask!(c.cuMemAllocManaged(&raw mut memory, 0, GLOBAL));
        Ok(())
    }),
    Probe::case(Call::cuMemAllocManaged, "managed memory has one of three flags", |c| {
        c.current()?;
        let mut memory = 0;
        ask!(c.cuMemAllocManaged(&raw mut memory, 64, 0), "none");
        ask!(c.cuMemAllocManaged(&raw mut memory, 64, 0x8000), "unknown");
        ask!(c.cuMemAllocManaged(null_mut(), 64, GLOBAL), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuMemFree_v2, "managed memory is freed like any other", |c| {
        c.current()?;
        let memory = c.managed(64)?;
        ask!(c.cuMemFree_v2(memory));
        ask!(c.cuMemFree_v2(memory), "again");
        Ok(())
    }),
    Probe::works(Call::cuMemAdvise_v2, "managed memory takes advice", |c| {
        c.current()?;
        let memory = c.managed(BYTES)?;
        let here = c.here()?;
        step(move |c| {
            ask!(c.cuMemAdvise_v2(memory, BYTES, READ_MOSTLY, here));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemAdvise_v2, "managed memory takes no unknown advice", |c| {
        c.current()?;
        let memory = c.managed(BYTES)?;
        let here = c.here()?;
        ask!(c.cuMemAdvise_v2(memory, BYTES, CUmem_advise(99), here));
        Ok(())
    }),
    Probe::case(Call::cuMemAdvise_v2, "a context's memory takes no advice", |c| {
        c.current()?;
        let memory = c.memory(BYTES)?;
        let here = c.here()?;
        ask!(c.cuMemAdvise_v2(memory, BYTES, READ_MOSTLY, here));
        Ok(())
    }),
    Probe::works(Call::cuMemPrefetchAsync_v2, "managed memory is prefetched", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.managed(BYTES)?;
        let here = c.here()?;
        step(move |c| {
            ask!(c.cuMemPrefetchAsync_v2(memory, BYTES, here, 0, stream));
            if c.observes() {
                ask!(c.cuMemPrefetchAsync_v2(memory, BYTES, host(), 0, stream), "to_host");
                ask!(c.cuStreamSynchronize(stream), "synchronize");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemPrefetchAsync_v2, "a context's memory isn't prefetched", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.memory(BYTES)?;
        let here = c.here()?;
        ask!(c.cuMemPrefetchAsync_v2(memory, BYTES, here, 0, stream));
        Ok(())
    }),
    Probe::case(Call::cuMemPrefetchAsync_v2, "prefetching takes no flags", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.managed(BYTES)?;
        let here = c.here()?;
        ask!(c.cuMemPrefetchAsync_v2(memory, BYTES, here, 1, stream), "flags");
        ask!(c.cuMemPrefetchAsync_v2(memory, 0, here, 0, stream), "no_bytes");
        Ok(())
    }),
    Probe::works(Call::cuMemRangeGetAttribute, "a range tells what it was advised", |c| {
        c.current()?;
        let memory = advised(c)?;
        step(move |c| {
            let mut value = 99_u32;
            let to = (&raw mut value).cast();
            ask!(c.cuMemRangeGetAttribute(to, 4, IS_READ_MOSTLY, memory, BYTES));
            if c.observes() {
                c.note("value", value);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemRangeGetAttribute, "a range's answer has a size", |c| {
        c.current()?;
        let memory = advised(c)?;
        let mut value = 99_u32;
        let to = (&raw mut value).cast();
        ask!(c.cuMemRangeGetAttribute(to, 3, IS_READ_MOSTLY, memory, BYTES));
        Ok(())
    }),
    Probe::works(Call::cuMemRangeGetAttributes, "a range tells several things at once", |c| {
        c.current()?;
        let memory = advised(c)?;
        step(move |c| range_attributes(c, 4, memory))
    }),
    Probe::fails(Call::cuMemRangeGetAttributes, "each of a range's answers has a size", |c| {
        c.current()?;
        let memory = advised(c)?;
        range_attributes(c, 3, memory)
    }),
];

fn host() -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST,
        ..CUmemLocation::default()
    }
}

/// Managed memory that is read mostly.
fn advised(c: &Ctx) -> Made<CUdeviceptr> {
    let memory = c.managed(BYTES)?;
    let here = c.here()?;
    must!(c.cuMemAdvise_v2(memory, BYTES, READ_MOSTLY, here));
    Ok(memory)
}

fn range_attributes(c: &mut Ctx, size: usize, memory: CUdeviceptr) -> Made<()> {
    let mut value = 99_u32;
    let mut data: [*mut c_void; 1] = [(&raw mut value).cast()];
    let (mut sizes, mut kinds) = ([size], [IS_READ_MOSTLY]);
    let (to, sizes, kinds) = (data.as_mut_ptr(), sizes.as_mut_ptr(), kinds.as_mut_ptr());
    ask!(c.cuMemRangeGetAttributes(to, sizes, kinds, 1, memory, BYTES));
    if c.observes() {
        c.note("value", value);
    }
    Ok(())
}
