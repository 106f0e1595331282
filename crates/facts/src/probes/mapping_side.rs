//! Mappings side by side and of the same memory, wished addresses, memory of the host: what growing virtual memory rests on.
//!
//! Source: CUDA Driver API 13.x, "Virtual Memory Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use super::virtual_memory::{BYTES, Mapping, Props, READ_WRITE, reserve};
use crate::{ctx::Ctx, host, probe::Probe, setup::Made};

const NONE: CUmemAccess_flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
const READ: CUmemAccess_flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ;
const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

pub(super) const PROBES: &[Probe] = &[
    Probe::case(
        Call::cuMemSetAccess,
        "access is given to two mappings side by side at once",
        |c| {
            c.current()?;
            let start = two_in_one(c)?;
            ask_access(c, start, 2 * BYTES, c.here()?, READ_WRITE, "both");
            over_the_seam(c, start + BYTES as u64)
        },
    ),
    Probe::case(
        Call::cuMemSetAccess,
        "a copy goes over two mappings with access of their own",
        |c| {
            c.current()?;
            let start = two_in_one(c)?;
            for place in [start, start + BYTES as u64] {
                ask_access(c, place, BYTES, c.here()?, READ_WRITE, "each");
            }
            over_the_seam(c, start + BYTES as u64)
        },
    ),
    Probe::case(
        Call::cuMemSetAccess,
        "over a seam to a mapping without access nothing is copied",
        |c| {
            c.current()?;
            let stream = c.stream()?;
            let start = two_in_one(c)?;
            ask_access(c, start, BYTES, c.here()?, READ_WRITE, "first");
            let (seam, to) = (start + BYTES as u64, host::HostMemory::filled(16, 0));
            ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), seam - 32, to.bytes(), stream), "copy");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemAddressReserve,
        "addresses that were given back are reserved again",
        |c| {
            let start = reserve(c, 2 * BYTES)?;
            must!(c.cuMemAddressFree(start, 2 * BYTES));
            let mut again = 0;
            ask!(c.cuMemAddressReserve(&raw mut again, BYTES, 0, start, 0), "front");
            c.holds("there", again == start);
            let behind = again + BYTES as u64;
            let mut next = 0;
            ask!(c.cuMemAddressReserve(&raw mut next, BYTES, 0, behind, 0), "behind");
            c.holds("there", next == behind);
            let mut taken = 0;
            ask!(c.cuMemAddressReserve(&raw mut taken, BYTES, 0, start, 0), "taken");
            c.holds("there", taken == start);
            ask!(c.cuMemAddressReserve(&raw mut taken, BYTES, 0, start + 4096, 0), "odd");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemMap,
        "a copy goes over the seam of two reservations side by side",
        |c| {
            c.current()?;
            let start = reserve(c, 2 * BYTES)?;
            must!(c.cuMemAddressFree(start, 2 * BYTES));
            let mut places = [0; 2];
            for (number, place) in places.iter_mut().enumerate() {
                let wish = start + (number * BYTES) as u64;
                must!(c.cuMemAddressReserve(place, BYTES, 0, wish, 0));
            }
            let [first, second] = places;
            let is_behind = second == first + BYTES as u64;
            c.holds("behind", is_behind);
            for place in places {
                map_at(c, place)?;
                ask_access(c, place, BYTES, c.here()?, READ_WRITE, "access");
            }
            if is_behind {
                over_the_seam(c, second)?;
            }
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemSetAccess,
        "each mapping of the same memory has access of its own",
        |c| {
            c.current()?;
            let stream = c.stream()?;
            let one = Mapping::accessible(c)?;
            let two = again(c, one)?;
            let to = host::HostMemory::filled(16, 0);
            ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), two.start, to.bytes(), stream), "without");
            two.allow(c, READ)?;
            ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), two.start, to.bytes(), stream), "read");
            ask!(c.cuMemsetD32Async(two.start, 1, 16, stream), "fill");
            one.allow(c, NONE)?;
            ask!(
                c.cuMemcpyDtoHAsync_v2(to.ptr(), two.start, to.bytes(), stream),
                "other_taken_away"
            );
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemUnmap,
        "one mapping of memory is taken away under work through the other",
        |c| {
            c.current()?;
            let stream = c.stream()?;
            let one = Mapping::accessible(c)?;
            let two = again(c, one)?;
            two.allow(c, READ_WRITE)?;
            let gate = c.busy(stream)?;
            ask!(c.cuMemsetD32Async(two.start, 7, 16, stream), "fill");
            ask!(c.cuMemUnmap(one.start, one.bytes), "unmap");
            ask!(c.cuMemAddressFree(one.start, one.bytes), "free");
            ask!(c.cuMemRelease(one.handle), "release");
            gate.open();
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            let to = host::HostMemory::filled(16, 0);
            ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), two.start, to.bytes(), stream), "read");
            c.wait_for(stream)?;
            c.holds("same", to.first() == 7);
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemUnmap,
        "of two mappings side by side the second is taken away alone",
        |c| {
            c.current()?;
            let start = two_in_one(c)?;
            ask_access(c, start, 2 * BYTES, c.here()?, READ_WRITE, "both");
            let second = start + BYTES as u64;
            ask!(c.cuMemUnmap(second, BYTES), "second");
            let stream = c.stream()?;
            ask!(c.cuMemsetD32Async(start, 7, 16, stream), "fill_first");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            map_at(c, second)?;
            ask_access(c, second, BYTES, c.here()?, READ_WRITE, "another");
            over_the_seam(c, second)
        },
    ),
    Probe::case(Call::cuMemCreate, "physical memory of the host is allocated", |c| {
        c.current()?;
        let here = c.here()?;
        for (kind, label) in [
            (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, "host"),
            (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, "node"),
            (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, "current"),
        ] {
            let place = host_location(kind);
            let none = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;
            for (handles, with) in [(none, "plain"), (FILE, "file")] {
                let props = CUmemAllocationProp {
                    requestedHandleTypes: handles,
                    location: place,
                    ..Props::of(c)?.raw()
                };
                let mut handle = 0;
                ask!(
                    c.cuMemCreate(&raw mut handle, BYTES, &raw const props, 0),
                    &format!("{label}_{with}")
                );
                if handle == 0 {
                    continue;
                }
                let start = reserve(c, BYTES)?;
                ask!(c.cuMemMap(start, BYTES, 0, handle, 0), "map");
                ask_access(c, start, BYTES, here, READ_WRITE, "device");
                ask_access(c, start, BYTES, place, READ_WRITE, "own");
            }
        }
        Ok(())
    }),
    Probe::case(Call::cuMemCreate, "physical memory is made for a fabric", |c| {
        c.device()?;
        let props = CUmemAllocationProp {
            requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC,
            ..Props::of(c)?.raw()
        };
        let mut handle = 0;
        ask!(c.cuMemCreate(&raw mut handle, BYTES, &raw const props, 0));
        Ok(())
    }),
];

fn host_location(type_: CUmemLocationType) -> CUmemLocation {
    CUmemLocation::new(type_, 0)
}

/// Maps new memory at an address.
fn map_at(c: &Ctx, place: CUdeviceptr) -> Made<()> {
    let handle = Props::of(c)?.allocate(c, BYTES)?;
    must!(c.cuMemMap(place, BYTES, 0, handle, 0));
    Ok(())
}

/// Two mappings in one reservation, without access.
fn two_in_one(c: &Ctx) -> Made<CUdeviceptr> {
    let start = reserve(c, 2 * BYTES)?;
    map_at(c, start)?;
    map_at(c, start + BYTES as u64)?;
    Ok(start)
}

/// The same memory once more.
fn again(c: &Ctx, one: Mapping) -> Made<Mapping> {
    let two = Mapping { start: reserve(c, BYTES)?, ..one };
    must!(c.cuMemMap(two.start, BYTES, 0, two.handle, 0));
    Ok(two)
}

fn ask_access(
    c: &mut Ctx,
    start: CUdeviceptr,
    bytes: usize,
    location: CUmemLocation,
    flags: CUmemAccess_flags,
    label: &str,
) {
    let access = [CUmemAccessDesc { location, flags }];
    ask!(c.cuMemSetAccess(start, bytes, access.as_ptr(), 1), label);
}

/// Fills and copies over a seam, and looks at what is on both sides.
fn over_the_seam(c: &mut Ctx, seam: CUdeviceptr) -> Made<()> {
    let stream = c.stream()?;
    ask!(c.cuMemsetD32Async(seam - 32, 5, 16, stream), "fill");
    let to = host::HostMemory::filled(16, 0);
    ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), seam - 32, to.bytes(), stream), "read");
    ask!(c.cuMemcpyDtoDAsync_v2(seam - 128, seam - 32, 64, stream), "within");
    ask!(c.cuStreamSynchronize(stream), "synchronize");
    c.holds("first", to.first() == 5);
    c.holds("last", to.last() == 5);
    let mut base = 0;
    let mut bytes = 0;
    ask!(c.cuMemGetAddressRange_v2(&raw mut base, &raw mut bytes, seam), "range");
    c.holds("own", base == seam && bytes == BYTES);
    ask!(c.cuMemGetAddressRange_v2(null_mut(), &raw mut bytes, seam - 32), "before");
    Ok(())
}
