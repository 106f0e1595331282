//! Virtual memory: reservations and physical allocations, and their way through files.
//!
//! Source: CUDA Driver API 13.x, "Virtual Memory Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    host,
    probe::{Probe, step},
    setup::{Made, location},
};

const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
const NO_FILE: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;
const PINNED: CUmemAllocationType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
const MINIMUM: CUmemAllocationGranularity_flags =
    CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
const RECOMMENDED: CUmemAllocationGranularity_flags =
    CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
pub(super) const READ_WRITE: CUmemAccess_flags =
    CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
/// Enough for a granule of any kind of device.
pub(super) const BYTES: usize = 32 << 20;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemGetAllocationGranularity, "physical memory has a granularity", |c| {
        let props = Props::of(c)?;
        step(move |c| {
            let (mut bytes, props) = (0, props.raw());
            ask!(c.cuMemGetAllocationGranularity(&raw mut bytes, &raw const props, MINIMUM));
            if c.observes() {
                c.note("bytes", bytes);
                let option = RECOMMENDED;
                ask!(
                    c.cuMemGetAllocationGranularity(&raw mut bytes, &raw const props, option),
                    "recommended"
                );
                c.note("bytes", bytes);
            }
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuMemGetAllocationGranularity,
        "a granularity is asked with an option",
        |c| {
            let props = Props::of(c)?.raw();
            let (mut bytes, unknown) = (0, CUmemAllocationGranularity_flags(9));
            ask!(c.cuMemGetAllocationGranularity(&raw mut bytes, &raw const props, unknown));
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemGetAllocationGranularity,
        "physical memory of a missing device has no granularity",
        |c| {
            let good = Props::of(c)?.raw();
            let missing = CUmemAllocationProp { location: location(99), ..good };
            let (mut bytes, option) = (0, MINIMUM);
            let to = &raw mut bytes;
            ask!(c.cuMemGetAllocationGranularity(to, &raw const missing, option));
            ask!(c.cuMemGetAllocationGranularity(to, core::ptr::null(), option), "null");
            ask!(c.cuMemGetAllocationGranularity(null_mut(), &raw const good, option), "nowhere");
            let unknown = CUmemAllocationGranularity_flags(9);
            ask!(c.cuMemGetAllocationGranularity(to, &raw const good, unknown), "option");
            let kindless = CUmemAllocationProp { type_: CUmemAllocationType(0), ..good };
            ask!(c.cuMemGetAllocationGranularity(to, &raw const kindless, option), "kind");
            Ok(())
        },
    ),
    Probe::works(Call::cuMemAddressReserve, "addresses are reserved", |c| {
        c.device()?;
        step(|c| {
            let mut start = 0;
            ask!(c.cuMemAddressReserve(&raw mut start, BYTES, 0, 0, 0));
            if c.observes() {
                c.holds("null", start == 0);
                c.note("beyond_2_mib", start % (2 << 20));
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemAddressReserve, "no addresses aren't reserved", |c| {
        c.device()?;
        let mut start = 0;
        ask!(c.cuMemAddressReserve(&raw mut start, 0, 0, 0, 0));
        ask!(c.cuMemAddressReserve(&raw mut start, 100, 0, 0, 0), "odd_size");
        ask!(c.cuMemAddressReserve(&raw mut start, BYTES, 3, 0, 0), "odd_alignment");
        ask!(c.cuMemAddressReserve(&raw mut start, BYTES, 0, 0, 1), "flags");
        ask!(c.cuMemAddressReserve(null_mut(), BYTES, 0, 0, 0), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuMemAddressReserve, "addresses are reserved in the host's pages", |c| {
        c.device()?;
        let mut start = 0;
        ask!(c.cuMemAddressReserve(&raw mut start, 4096, 0, 0, 0), "page");
        ask!(c.cuMemAddressReserve(&raw mut start, 64 << 10, 0, 0, 0), "64_kib");
        ask!(c.cuMemAddressReserve(&raw mut start, BYTES, 64 << 20, 0, 0), "alignment");
        c.note("beyond_64_mib", start % (64 << 20));
        ask!(c.cuMemAddressReserve(&raw mut start, 1 << 60, 0, 0, 0), "too_many");
        Ok(())
    }),
    Probe::works(Call::cuMemAddressFree, "a reservation is freed", |c| {
        let start = reserve(c, BYTES)?;
        step(move |c| {
            ask!(c.cuMemAddressFree(start, BYTES));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemAddressFree, "a reservation is freed whole", |c| {
        let start = reserve(c, BYTES)?;
        ask!(c.cuMemAddressFree(start, BYTES / 2), "half");
        ask!(c.cuMemAddressFree(start + (2 << 20), BYTES - (2 << 20)), "inside");
        ask!(c.cuMemAddressFree(start, BYTES), "whole");
        ask!(c.cuMemAddressFree(start, BYTES), "again");
        ask!(c.cuMemAddressFree(0, BYTES), "null");
        Ok(())
    }),
    Probe::case(Call::cuMemAddressFree, "a reservation with a mapping isn't freed", |c| {
        let mapping = Mapping::new(c)?;
        ask!(c.cuMemAddressFree(mapping.start, mapping.bytes));
        ask!(c.cuMemUnmap(mapping.start, mapping.bytes), "unmap");
        ask!(c.cuMemAddressFree(mapping.start, mapping.bytes), "then");
        Ok(())
    }),
    Probe::case(Call::cuMemAddressFree, "a context's memory isn't a reservation", |c| {
        c.current()?;
        let memory = c.memory(BYTES)?;
        ask!(c.cuMemAddressFree(memory, BYTES));
        let start = reserve(c, BYTES)?;
        ask!(c.cuMemFree_v2(start), "free_of_reservation");
        let mapping = Mapping::accessible(c)?;
        ask!(c.cuMemFree_v2(mapping.start), "free_of_mapping");
        Ok(())
    }),
    Probe::works(Call::cuMemCreate, "physical memory is allocated", |c| {
        let props = Props::of(c)?;
        step(move |c| {
            let (mut handle, props) = (0, props.raw());
            ask!(c.cuMemCreate(&raw mut handle, BYTES, &raw const props, 0));
            if c.observes() {
                c.holds("null", handle == 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemCreate, "physical memory is allocated in granules", |c| {
        let good = Props::of(c)?.raw();
        let (mut handle, props) = (0, &raw const good);
        let to = &raw mut handle;
        ask!(c.cuMemCreate(to, BYTES + 1, props, 0), "size");
        ask!(c.cuMemCreate(to, 0, props, 0), "none");
        ask!(c.cuMemCreate(to, BYTES, props, 1), "flags");
        ask!(c.cuMemCreate(to, BYTES, core::ptr::null(), 0), "null");
        ask!(c.cuMemCreate(null_mut(), BYTES, props, 0), "nowhere");
        let missing = CUmemAllocationProp { location: location(99), ..good };
        ask!(c.cuMemCreate(to, BYTES, &raw const missing, 0), "device");
        let kindless = CUmemAllocationProp { type_: CUmemAllocationType(0), ..good };
        ask!(c.cuMemCreate(to, BYTES, &raw const kindless, 0), "kind");
        ask!(c.cuMemCreate(to, 1 << 50, props, 0), "too_much");
        c.holds("null", handle == 0);
        Ok(())
    }),
    Probe::case(Call::cuMemCreate, "physical memory takes a device's memory at once", |c| {
        c.current()?;
        let free = |c: &Ctx| -> Made<usize> {
            let (mut free, mut total) = (0, 0);
            must!(c.cuMemGetInfo_v2(&raw mut free, &raw mut total));
            Ok(free)
        };
        let props = Props::of(c)?;
        let large = 1 << 30;
        let before = free(c)?;
        let handle = props.allocate(c, large)?;
        let taken = before.saturating_sub(free(c)?);
        c.holds("taken", taken >= large);
        ask!(c.cuMemRelease(handle), "release");
        let taken = before.saturating_sub(free(c)?);
        c.holds("given_back", taken < large);
        Ok(())
    }),
    Probe::works(Call::cuMemRelease, "physical memory is released", |c| {
        let handle = Props::of(c)?.allocate(c, BYTES)?;
        step(move |c| {
            ask!(c.cuMemRelease(handle));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemRelease, "physical memory isn't released twice", |c| {
        let handle = Props::of(c)?.allocate(c, BYTES)?;
        must!(c.cuMemRelease(handle));
        ask!(c.cuMemRelease(handle), "again");
        ask!(c.cuMemRelease(0), "null");
        Ok(())
    }),
    Probe::case(
        Call::cuMemRelease,
        "released physical memory lives as long as it is mapped",
        |c| {
            let stream = {
                c.current()?;
                c.stream()?
            };
            let mapping = Mapping::accessible(c)?;
            ask!(c.cuMemRelease(mapping.handle), "release");
            ask!(c.cuMemsetD32Async(mapping.start, 7, 16, stream), "fill");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemUnmap(mapping.start, mapping.bytes), "unmap");
            ask!(c.cuMemRelease(mapping.handle), "again");
            Ok(())
        },
    ),
    Probe::works(
        Call::cuMemGetAllocationPropertiesFromHandle,
        "physical memory tells what it is",
        |c| {
            let handle = Props::of(c)?.allocate(c, BYTES)?;
            step(move |c| {
                let mut found = CUmemAllocationProp::default();
                ask!(c.cuMemGetAllocationPropertiesFromHandle(&raw mut found, handle));
                if c.observes() {
                    c.holds("pinned", found.type_ == PINNED);
                    c.holds("file", found.requestedHandleTypes == FILE);
                    c.holds("here", found.location.type_ == location(0).type_);
                }
                Ok(())
            })
        },
    ),
    Probe::fails(
        Call::cuMemGetAllocationPropertiesFromHandle,
        "no physical memory tells nothing",
        |c| {
            c.device()?;
            let mut found = CUmemAllocationProp::default();
            ask!(c.cuMemGetAllocationPropertiesFromHandle(&raw mut found, 0));
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemGetAllocationPropertiesFromHandle,
        "released physical memory tells nothing",
        |c| {
            let handle = Props::of(c)?.allocate(c, BYTES)?;
            must!(c.cuMemRelease(handle));
            let mut found = CUmemAllocationProp::default();
            ask!(c.cuMemGetAllocationPropertiesFromHandle(&raw mut found, handle), "released");
            ask!(c.cuMemGetAllocationPropertiesFromHandle(&raw mut found, 0), "null");
            Ok(())
        },
    ),
    Probe::works(Call::cuMemExportToShareableHandle, "physical memory is exported", |c| {
        let handle = Props::of(c)?.allocate(c, BYTES)?;
        step(move |c| {
            let mut file: c_int = -9;
            let to = (&raw mut file).cast();
            ask!(c.cuMemExportToShareableHandle(to, handle, FILE, 0));
            if c.observes() {
                c.holds("file", file >= 0);
            }
            host::close_file(file);
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuMemExportToShareableHandle,
        "physical memory that wasn't made for it isn't exported",
        |c| {
            let handle = Props { handles: NO_FILE, ..Props::of(c)? }.allocate(c, BYTES)?;
            let mut file: c_int = -9;
            let to = (&raw mut file).cast();
            ask!(c.cuMemExportToShareableHandle(to, handle, FILE, 0));
            c.holds("file", file >= 0);
            let handle = Props::of(c)?.allocate(c, BYTES)?;
            ask!(c.cuMemExportToShareableHandle(to, handle, NO_FILE, 0), "kind");
            ask!(c.cuMemExportToShareableHandle(to, handle, FILE, 1), "flags");
            ask!(c.cuMemExportToShareableHandle(null_mut(), handle, FILE, 0), "nowhere");
            ask!(c.cuMemExportToShareableHandle(to, 0, FILE, 0), "null");
            Ok(())
        },
    ),
    Probe::works(Call::cuMemImportFromShareableHandle, "physical memory is imported", |c| {
        let handle = Props::of(c)?.allocate(c, BYTES)?;
        let file = export(c, handle)?;
        step(move |c| {
            let mut imported = 0;
            ask!(c.cuMemImportFromShareableHandle(&raw mut imported, as_handle(file), FILE));
            if c.observes() {
                c.holds("null", imported == 0);
                c.holds("same", imported == handle);
                let mut again = 0;
                let from = as_handle(file);
                ask!(c.cuMemImportFromShareableHandle(&raw mut again, from, FILE), "again");
                c.holds("same", imported == again);
                ask!(c.cuMemRelease(imported), "release");
                ask!(c.cuMemRelease(again), "release_again");
                ask!(c.cuMemRelease(handle), "release_first");
                ask!(c.cuMemRelease(handle), "once_more");
            }
            host::close_file(file);
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemImportFromShareableHandle, "other files aren't imported", |c| {
        c.device()?;
        let mut imported = 0;
        let other = host::other_file();
        ask!(c.cuMemImportFromShareableHandle(&raw mut imported, as_handle(other), FILE), "other");
        host::close_file(other);
        let closed = as_handle(other);
        ask!(c.cuMemImportFromShareableHandle(&raw mut imported, closed, FILE), "closed");
        ask!(c.cuMemImportFromShareableHandle(&raw mut imported, as_handle(-1), FILE), "minus_1");
        Ok(())
    }),
    Probe::case(
        Call::cuMemImportFromShareableHandle,
        "imported physical memory outlives the exported",
        |c| {
            c.current()?;
            let stream = c.stream()?;
            let handle = Props::of(c)?.allocate(c, BYTES)?;
            let file = export(c, handle)?;
            ask!(c.cuMemRelease(handle), "release");
            let mut imported = 0;
            let from = as_handle(file);
            ask!(c.cuMemImportFromShareableHandle(&raw mut imported, from, FILE), "import");
            host::close_file(file);
            let mapping = Mapping { start: reserve(c, BYTES)?, bytes: BYTES, handle: imported };
            ask!(c.cuMemMap(mapping.start, BYTES, 0, imported, 0), "map");
            mapping.allow(c, READ_WRITE)?;
            ask!(c.cuMemsetD32Async(mapping.start, 7, 16, stream), "fill");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            Ok(())
        },
    ),
];

/// What physical memory is made of, without the pointer that makes it stay on its thread.
#[derive(Clone, Copy)]
pub(super) struct Props {
    location: CUmemLocation,
    handles: CUmemAllocationHandleType,
}

impl Props {
    /// Memory of device 0 that can be exported as a file.
    pub(super) fn of(c: &Ctx) -> Made<Self> {
        Ok(Self { location: c.here()?, handles: FILE })
    }

    pub(super) fn raw(self) -> CUmemAllocationProp {
        CUmemAllocationProp {
            type_: PINNED,
            requestedHandleTypes: self.handles,
            location: self.location,
            ..CUmemAllocationProp::default()
        }
    }

    pub(super) fn allocate(self, c: &Ctx, bytes: usize) -> Made<CUmemGenericAllocationHandle> {
        let (mut handle, props) = (0, self.raw());
        must!(c.cuMemCreate(&raw mut handle, bytes, &raw const props, 0));
        Ok(handle)
    }
}

pub(super) fn reserve(c: &Ctx, bytes: usize) -> Made<CUdeviceptr> {
    c.device()?;
    let mut start = 0;
    must!(c.cuMemAddressReserve(&raw mut start, bytes, 0, 0, 0));
    Ok(start)
}

/// A physical allocation in a reservation of its own.
#[derive(Clone, Copy)]
pub(super) struct Mapping {
    pub(super) start: CUdeviceptr,
    pub(super) bytes: usize,
    pub(super) handle: CUmemGenericAllocationHandle,
}

impl Mapping {
    /// A mapping that nobody has access to.
    pub(super) fn new(c: &Ctx) -> Made<Self> {
        let (start, handle) = (reserve(c, BYTES)?, Props::of(c)?.allocate(c, BYTES)?);
        must!(c.cuMemMap(start, BYTES, 0, handle, 0));
        Ok(Self { start, bytes: BYTES, handle })
    }

    /// A mapping that device 0 may read and write.
    pub(super) fn accessible(c: &Ctx) -> Made<Self> {
        let mapping = Self::new(c)?;
        mapping.allow(c, READ_WRITE)?;
        Ok(mapping)
    }

    pub(super) fn allow(self, c: &Ctx, flags: CUmemAccess_flags) -> Made<()> {
        let access = [CUmemAccessDesc { location: c.here()?, flags }];
        must!(c.cuMemSetAccess(self.start, self.bytes, access.as_ptr(), 1));
        Ok(())
    }
}

fn export(c: &Ctx, handle: CUmemGenericAllocationHandle) -> Made<c_int> {
    let mut file: c_int = -9;
    must!(c.cuMemExportToShareableHandle((&raw mut file).cast(), handle, FILE, 0));
    Ok(file)
}

/// A file's number, as the driver takes it.
fn as_handle(file: c_int) -> *mut c_void {
    core::ptr::without_provenance_mut(usize::try_from(file).unwrap_or(usize::MAX))
}
