//! Mappings of physical memory, and who has access to them.
//!
//! Source: CUDA Driver API 13.x, "Virtual Memory Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use super::virtual_memory::{BYTES, Mapping, Props, READ_WRITE, reserve};
use crate::{
    ctx::Ctx,
    host,
    probe::{Probe, step},
    setup::location,
};

const NONE: CUmemAccess_flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
const READ: CUmemAccess_flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemMap, "physical memory is mapped", |c| {
        let (start, handle) = (reserve(c, BYTES)?, Props::of(c)?.allocate(c, BYTES)?);
        step(move |c| {
            ask!(c.cuMemMap(start, BYTES, 0, handle, 0));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemMap, "physical memory isn't mapped where there is some", |c| {
        let mapping = Mapping::new(c)?;
        let other = Props::of(c)?.allocate(c, BYTES)?;
        ask!(c.cuMemMap(mapping.start, BYTES, 0, other, 0));
        ask!(c.cuMemMap(mapping.start, BYTES, 0, mapping.handle, 0), "itself");
        Ok(())
    }),
    Probe::case(Call::cuMemMap, "what isn't legal isn't mapped", |c| {
        let (start, handle) = (reserve(c, 2 * BYTES)?, Props::of(c)?.allocate(c, BYTES)?);
        ask!(c.cuMemMap(start, 0, 0, handle, 0), "none");
        ask!(c.cuMemMap(start, 100, 0, handle, 0), "odd_size");
        ask!(c.cuMemMap(start + 4096, BYTES, 0, handle, 0), "odd_address");
        ask!(c.cuMemMap(start, BYTES, 2 << 20, handle, 0), "offset");
        ask!(c.cuMemMap(start, 2 * BYTES, 0, handle, 0), "too_long");
        ask!(c.cuMemMap(start + BYTES as u64, 2 * BYTES, 0, handle, 0), "behind_the_end");
        ask!(c.cuMemMap(start, BYTES, 0, handle, 1), "flags");
        ask!(c.cuMemMap(0, BYTES, 0, handle, 0), "nowhere");
        ask!(c.cuMemMap(start, BYTES, 0, 0, 0), "null");
        ask!(c.cuMemMap(start, BYTES, 0, handle, 0), "good");
        Ok(())
    }),
    Probe::case(Call::cuMemMap, "a part of physical memory is mapped", |c| {
        let (start, handle) = (reserve(c, BYTES)?, Props::of(c)?.allocate(c, BYTES)?);
        ask!(c.cuMemMap(start, 2 << 20, 0, handle, 0), "head");
        ask!(c.cuMemMap(start + (2 << 20), 2 << 20, 2 << 20, handle, 0), "second_with_offset");
        ask!(c.cuMemUnmap(start, 2 << 20), "unmap");
        Ok(())
    }),
    Probe::case(Call::cuMemMap, "physical memory is mapped twice, and holds the same", |c| {
        c.current()?;
        let stream = c.stream()?;
        let one = Mapping::accessible(c)?;
        let two = Mapping { start: reserve(c, BYTES)?, ..one };
        ask!(c.cuMemMap(two.start, BYTES, 0, two.handle, 0), "again");
        two.allow(c, READ_WRITE)?;
        must!(c.cuMemsetD32Async(one.start, 0x1234, 16, stream));
        let to = host::HostMemory::filled(16, 0);
        ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), two.start, to.bytes(), stream), "read");
        c.wait_for(stream)?;
        c.holds("same", to.first() == 0x1234);
        Ok(())
    }),
    Probe::crashes(Call::cuMemMap, "released physical memory isn't mapped", |c| {
        let (start, handle) = (reserve(c, BYTES)?, Props::of(c)?.allocate(c, BYTES)?);
        must!(c.cuMemRelease(handle));
        crash!(c.cuMemMap(start, BYTES, 0, handle, 0));
        Ok(())
    }),
    Probe::case(Call::cuMemUnmap, "after a fault nothing is unmapped", |c| {
        c.current()?;
        let stream = c.stream()?;
        let (mapping, bare) = (Mapping::accessible(c)?, reserve(c, BYTES)?);
        let spare = Props::of(c)?.allocate(c, BYTES)?;
        c.fault(stream)?;
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuMemUnmap(mapping.start, mapping.bytes), "unmap");
        ask!(c.cuMemAddressFree(mapping.start, mapping.bytes), "free_mapped");
        ask!(c.cuMemAddressFree(bare, BYTES), "free");
        ask!(c.cuMemRelease(spare), "release");
        let mut start = 0;
        ask!(c.cuMemAddressReserve(&raw mut start, BYTES, 0, 0, 0), "reserve");
        let (mut handle, props) = (0, Props::of(c)?.raw());
        ask!(c.cuMemCreate(&raw mut handle, BYTES, &raw const props, 0), "create");
        Ok(())
    }),
    Probe::case(Call::cuMemUnmap, "a mapping in use is taken away at once", |c| {
        c.current()?;
        let stream = c.stream()?;
        let mapping = Mapping::accessible(c)?;
        let gate = c.busy(stream)?;
        ask!(c.cuMemsetD32Async(mapping.start, 7, 16, stream), "fill");
        ask!(c.cuMemUnmap(mapping.start, mapping.bytes), "unmap");
        gate.open();
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::works(Call::cuMemUnmap, "a mapping is taken away", |c| {
        let mapping = Mapping::accessible(c)?;
        step(move |c| {
            ask!(c.cuMemUnmap(mapping.start, mapping.bytes));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemUnmap, "a mapping is taken away whole", |c| {
        let mapping = Mapping::new(c)?;
        ask!(c.cuMemUnmap(mapping.start, BYTES / 2), "half");
        ask!(c.cuMemUnmap(mapping.start + (2 << 20), BYTES - (2 << 20)), "inside");
        ask!(c.cuMemUnmap(mapping.start, 2 * BYTES), "too_long");
        ask!(c.cuMemUnmap(mapping.start, 0), "none");
        ask!(c.cuMemUnmap(0, BYTES), "null");
        ask!(c.cuMemUnmap(mapping.start, BYTES), "whole");
        ask!(c.cuMemUnmap(mapping.start, BYTES), "again");
        Ok(())
    }),
    Probe::case(Call::cuMemUnmap, "two mappings side by side are taken away at once", |c| {
        let props = Props::of(c)?;
        let start = reserve(c, 2 * BYTES)?;
        for place in [start, start + BYTES as u64] {
            let handle = props.allocate(c, BYTES)?;
            must!(c.cuMemMap(place, BYTES, 0, handle, 0));
        }
        ask!(c.cuMemUnmap(start, 2 * BYTES));
        ask!(c.cuMemAddressFree(start, 2 * BYTES), "free");
        Ok(())
    }),
    Probe::works(Call::cuMemSetAccess, "a device is given access to a mapping", |c| {
        let mapping = Mapping::new(c)?;
        let here = c.here()?;
        step(move |c| {
            let access = [CUmemAccessDesc { location: here, flags: READ_WRITE }];
            ask!(c.cuMemSetAccess(mapping.start, mapping.bytes, access.as_ptr(), 1));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemSetAccess, "nobody is given access to what isn't mapped", |c| {
        let mapping = Mapping { start: reserve(c, BYTES)?, bytes: BYTES, handle: 0 };
        ask_access(c, mapping, location(0), READ_WRITE, "unmapped");
        Ok(())
    }),
    Probe::case(Call::cuMemSetAccess, "access is given to whole mappings and to devices", |c| {
        let mapping = Mapping::new(c)?;
        let here = c.here()?;
        let half = Mapping { bytes: BYTES / 2, ..mapping };
        ask_access(c, half, here, READ_WRITE, "half");
        ask_access(c, Mapping { bytes: 2 * BYTES, ..mapping }, here, READ_WRITE, "too_long");
        ask_access(c, mapping, location(99), READ_WRITE, "device");
        ask_access(c, mapping, here, CUmemAccess_flags(9), "flags");
        ask_access(c, mapping, here, READ, "read");
        ask_access(c, mapping, here, NONE, "none");
        let (start, bytes) = (mapping.start, mapping.bytes);
        ask!(c.cuMemSetAccess(start, bytes, core::ptr::null(), 1), "null");
        let access = [CUmemAccessDesc { location: here, flags: READ_WRITE }];
        ask!(c.cuMemSetAccess(start, bytes, access.as_ptr(), 0), "nobody");
        Ok(())
    }),
    Probe::case(Call::cuMemSetAccess, "without access a mapping isn't copied", |c| {
        c.current()?;
        let stream = c.stream()?;
        let mapping = Mapping::new(c)?;
        let to = host::HostMemory::filled(16, 0);
        let read = mapping.start;
        ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), read, to.bytes(), stream), "without");
        mapping.allow(c, READ_WRITE)?;
        ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), read, to.bytes(), stream), "with");
        mapping.allow(c, NONE)?;
        ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), read, to.bytes(), stream), "taken_away");
        ask!(c.cuMemsetD32Async(read, 1, 16, stream), "fill");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::works(Call::cuMemGetAccess, "a mapping tells who has access", |c| {
        let mapping = Mapping::accessible(c)?;
        let here = c.here()?;
        step(move |c| {
            let mut flags = 99;
            ask!(c.cuMemGetAccess(&raw mut flags, &raw const here, mapping.start));
            if c.observes() {
                c.note("flags", flags);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemGetAccess, "what isn't mapped tells no access", |c| {
        let start = reserve(c, BYTES)?;
        let (mut flags, here) = (99, c.here()?);
        ask!(c.cuMemGetAccess(&raw mut flags, &raw const here, start));
        c.note("flags", flags);
        Ok(())
    }),
    Probe::case(Call::cuMemGetAccess, "a new mapping gives nobody access", |c| {
        let mapping = Mapping::new(c)?;
        let (mut flags, here, there) = (99, c.here()?, location(99));
        ask!(c.cuMemGetAccess(&raw mut flags, &raw const here, mapping.start));
        c.note("flags", flags);
        ask!(c.cuMemGetAccess(&raw mut flags, &raw const there, mapping.start), "device");
        ask!(c.cuMemGetAccess(null_mut(), &raw const here, mapping.start), "nowhere");
        ask!(c.cuMemGetAccess(&raw mut flags, core::ptr::null(), mapping.start), "null");
        let inside = mapping.start + 64;
        ask!(c.cuMemGetAccess(&raw mut flags, &raw const here, inside), "inside");
        Ok(())
    }),
    Probe::works(Call::cuMemRetainAllocationHandle, "a mapping's address gives its handle", |c| {
        let mapping = Mapping::accessible(c)?;
        step(move |c| {
            let mut handle = 0;
            let inside = address(mapping.start + 64);
            ask!(c.cuMemRetainAllocationHandle(&raw mut handle, inside));
            if c.observes() {
                c.holds("same", handle == mapping.handle);
                ask!(c.cuMemRelease(handle), "release");
                ask!(c.cuMemRelease(handle), "the_first");
                ask!(c.cuMemRelease(handle), "once_more");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemRetainAllocationHandle, "other addresses give no handle", |c| {
        c.current()?;
        let (start, memory) = (reserve(c, BYTES)?, c.memory(BYTES)?);
        let mut handle = 0;
        ask!(c.cuMemRetainAllocationHandle(&raw mut handle, address(start)), "unmapped");
        ask!(c.cuMemRetainAllocationHandle(&raw mut handle, address(memory)), "context_s");
        ask!(c.cuMemRetainAllocationHandle(&raw mut handle, null_mut()), "null");
        Ok(())
    }),
    Probe::case(Call::cuPointerGetAttribute, "a mapping's address tells what it is", |c| {
        c.current()?;
        let mapping = Mapping::accessible(c)?;
        let other = Mapping::new(c)?;
        let bare = reserve(c, BYTES)?;
        for (place, label) in
            [(mapping.start + 64, "kind"), (other.start, "no_access"), (bare, "unmapped")]
        {
            let mut kind = 99_u32;
            let to = (&raw mut kind).cast();
            let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
            ask!(c.cuPointerGetAttribute(to, attribute, place), label);
            c.note("is", kind);
        }
        let mut context = CUcontext::from_addr(8);
        let to = (&raw mut context).cast();
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
        ask!(c.cuPointerGetAttribute(to, attribute, mapping.start), "context");
        c.holds("null", context.is_null());
        let mut start: CUdeviceptr = 0;
        let to = (&raw mut start).cast();
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
        ask!(c.cuPointerGetAttribute(to, attribute, mapping.start + 64), "range");
        c.holds("start", start == mapping.start);
        let (mut start, mut bytes) = (0, 0);
        let inside = mapping.start + 64;
        ask!(c.cuMemGetAddressRange_v2(&raw mut start, &raw mut bytes, inside), "whole");
        c.holds("start", start == mapping.start);
        c.holds("bytes", bytes == BYTES);
        Ok(())
    }),
];

fn ask_access(
    c: &mut Ctx,
    mapping: Mapping,
    location: CUmemLocation,
    flags: CUmemAccess_flags,
    label: &str,
) {
    let access = [CUmemAccessDesc { location, flags }];
    ask!(c.cuMemSetAccess(mapping.start, mapping.bytes, access.as_ptr(), 1), label);
}

/// A device address, where the driver takes a pointer.
fn address(start: CUdeviceptr) -> *mut c_void {
    core::ptr::without_provenance_mut(usize::try_from(start).unwrap_or_default())
}
