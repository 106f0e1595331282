//! Pools of the host and of managed memory, and which pool of a place is there by default.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

use core::ptr::null_mut;

use cuhold_driver_sys::{
    Call,
    ffi::{CUmemAllocationType as Kind, CUmemLocationType as Type, *},
};

use crate::{
    ctx::Ctx, host::HostMemory, probe::Probe, probes::pool_case::counters, setup::location,
};

const PINNED: Kind = Kind::CU_MEM_ALLOCATION_TYPE_PINNED;
const MANAGED: Kind = Kind::CU_MEM_ALLOCATION_TYPE_MANAGED;
const READ_WRITE: CUmemAccess_flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
const BYTES: usize = 4096;

pub(super) const PROBES: &[Probe] = &[
    Probe::case(Call::cuMemGetDefaultMemPool, "each place has a default pool", |c| {
        c.device()?;
        for (label, place, kind) in PLACES {
            let one = default_pool(c, label, place(), *kind);
            c.holds("null", one.is_null());
            let two = default_pool(c, "again", place(), *kind);
            c.holds("same", one == two);
        }
        Ok(())
    }),
    Probe::case(Call::cuMemGetDefaultMemPool, "a place that isn't one has no pool", |c| {
        c.device()?;
        let numa_9 = with_id(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA, 9);
        let host_9 = with_id(Type::CU_MEM_LOCATION_TYPE_HOST, 9);
        default_pool(c, "numa_9", numa_9, PINNED);
        default_pool(c, "host_9", host_9, PINNED);
        default_pool(c, "numa_current", of(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT), PINNED);
        default_pool(c, "nowhere_pinned", of(Type(0)), PINNED);
        default_pool(c, "unknown", of(Type(77)), PINNED);
        default_pool(c, "no_kind", location(0), Kind(0));
        default_pool(c, "unknown_kind", location(0), Kind(77));
        default_pool(c, "missing_managed", location(99), MANAGED);
        let (mut pool, mut here) = (CUmemoryPool::NULL, location(0));
        ask!(c.cuMemGetDefaultMemPool(null_mut(), &raw mut here, PINNED), "no_room");
        ask!(c.cuMemGetDefaultMemPool(&raw mut pool, null_mut(), PINNED), "no_location");
        Ok(())
    }),
    Probe::case(
        Call::cuMemGetMemPool,
        "each place's current pool is its default one at first",
        |c| {
            c.device()?;
            for (label, place, kind) in PLACES {
                let default = default_pool(c, label, place(), *kind);
                let current = current_pool(c, "current", place(), *kind);
                c.holds("default", default == current);
            }
            Ok(())
        },
    ),
    Probe::case(Call::cuMemSetMemPool, "each place takes a pool of its own and no other", |c| {
        c.device()?;
        let (device, host) = (c.pool()?, make(c, "host", of_host(), PINNED));
        set_pool(c, "host", of_host(), PINNED, host);
        let current = current_pool(c, "current", of_host(), PINNED);
        c.holds("set", current == host);
        set_pool(c, "host_s_numa", of_numa(), PINNED, host);
        set_pool(c, "host_s_device", location(0), PINNED, host);
        set_pool(c, "device_s_host", of_host(), PINNED, device);
        let managed = make(c, "managed", of_nowhere(), MANAGED);
        set_pool(c, "managed", of_nowhere(), MANAGED, managed);
        set_pool(c, "managed_device", location(0), MANAGED, managed);
        set_pool(c, "managed_pinned", location(0), PINNED, managed);
        set_pool(c, "device_managed", location(0), MANAGED, device);
        ask!(c.cuMemPoolDestroy(host), "destroy");
        let default = default_pool(c, "default", of_host(), PINNED);
        let current = current_pool(c, "current", of_host(), PINNED);
        c.holds("default_again", current == default);
        ask!(c.cuMemPoolDestroy(default), "destroy_default");
        Ok(())
    }),
    Probe::case(Call::cuMemPoolCreate, "pools are made where there is memory", |c| {
        c.device()?;
        for (label, place, kind) in PLACES {
            make(c, label, place(), *kind);
        }
        make(c, "numa_9", with_id(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA, 9), PINNED);
        make(c, "host_9", with_id(Type::CU_MEM_LOCATION_TYPE_HOST, 9), PINNED);
        make(c, "numa_current", of(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT), PINNED);
        make(c, "nowhere_pinned", of_nowhere(), PINNED);
        make(c, "missing_managed", location(99), MANAGED);
        Ok(())
    }),
    Probe::case(
        Call::cuMemPoolCreate,
        "managed memory's pools take no limit and aren't shared",
        |c| {
            c.device()?;
            let plain = CUmemPoolProps {
                allocType: MANAGED,
                location: location(0),
                ..CUmemPoolProps::default()
            };
            let file = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
            make_of(c, "limit", CUmemPoolProps { maxSize: 1 << 30, ..plain });
            make_of(c, "shared", CUmemPoolProps { handleTypes: file, ..plain });
            make_of(c, "usage", CUmemPoolProps { usage: 2, ..plain });
            let host = CUmemPoolProps { allocType: PINNED, location: of_host(), ..plain };
            make_of(c, "host_limit", CUmemPoolProps { maxSize: 1 << 30, ..host });
            make_of(c, "host_shared", CUmemPoolProps { handleTypes: file, ..host });
            let numa = CUmemPoolProps { location: of_numa(), ..host };
            make_of(c, "numa_limit", CUmemPoolProps { maxSize: 1 << 30, ..numa });
            make_of(c, "numa_shared", CUmemPoolProps { handleTypes: file, ..numa });
            Ok(())
        },
    ),
    Probe::case(Call::cuMemAllocFromPoolAsync, "the host's pool gives memory and counts it", |c| {
        c.current()?;
        let stream = c.stream()?;
        for (label, place) in [("host", of_host()), ("numa", of_numa())] {
            let pool = make(c, label, place, PINNED);
            counters(c, "new", pool)?;
            let memory = c.pool_memory(1000, pool, stream)?;
            counters(c, "allocated", pool)?;
            to_host(memory).fill(5);
            must!(c.cuMemFreeAsync(memory, stream));
            counters(c, "free_queued", pool)?;
            c.wait_for(stream)?;
            counters(c, "synchronized", pool)?;
        }
        Ok(())
    }),
    Probe::case(
        Call::cuMemAllocFromPoolAsync,
        "managed memory's pool gives memory and counts it",
        |c| {
            c.current()?;
            let stream = c.stream()?;
            for (label, place) in [("device", here()), ("nowhere", of_nowhere())] {
                let pool = make(c, label, place, MANAGED);
                counters(c, "new", pool)?;
                let memory = c.pool_memory(1000, pool, stream)?;
                counters(c, "allocated", pool)?;
                to_host(memory).fill(5);
                must!(c.cuMemFreeAsync(memory, stream));
                counters(c, "free_queued", pool)?;
                c.wait_for(stream)?;
                counters(c, "synchronized", pool)?;
            }
            Ok(())
        },
    ),
    Probe::case(Call::cuMemAllocFromPoolAsync, "pools limit the host's memory too", |c| {
        c.current()?;
        let stream = c.stream()?;
        let props = CUmemPoolProps {
            allocType: PINNED,
            location: of_numa(),
            maxSize: 64 << 20,
            ..CUmemPoolProps::default()
        };
        let pool = make_of(c, "create", props);
        let mut memory = 0;
        ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 1 << 20, pool, stream), "under");
        ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 128 << 20, pool, stream), "over");
        Ok(())
    }),
    Probe::case(Call::cuMemPoolGetAccess, "who has access to a pool depends on its place", |c| {
        let device = c.pool()?;
        accesses(c, "device", device);
        for (label, place, kind) in PLACES {
            let pool = make(c, label, place(), *kind);
            accesses(c, "access", pool);
        }
        Ok(())
    }),
    Probe::case(Call::cuMemPoolSetAccess, "the host's pool takes access of devices", |c| {
        c.device()?;
        for (label, place, kind) in PLACES {
            let pool = make(c, label, place(), *kind);
            set_access(c, "device", pool, location(0), READ_WRITE);
            set_access(c, "host", pool, of_host(), READ_WRITE);
            set_access(c, "numa", pool, of_numa(), READ_WRITE);
            set_access(c, "revoked", pool, location(0), CUmemAccess_flags(0));
            accesses(c, "access", pool);
        }
        Ok(())
    }),
    Probe::case(Call::cuMemPoolSetAccess, "a kernel reaches the host's pool with access", |c| {
        c.current()?;
        let (stream, pool) = (c.stream()?, make(c, "create", of_numa(), PINNED));
        set_access(c, "grant", pool, location(0), READ_WRITE);
        let memory = c.pool_memory(BYTES, pool, stream)?;
        c.store(stream, memory)?;
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        c.note("first", to_host(memory).first());
        Ok(())
    }),
    Probe::case(Call::cuMemPoolSetAccess, "a kernel reaches managed memory's pool", |c| {
        c.current()?;
        let (stream, pool) = (c.stream()?, make(c, "create", of_nowhere(), MANAGED));
        let memory = c.pool_memory(BYTES, pool, stream)?;
        c.store(stream, memory)?;
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        c.note("first", to_host(memory).first());
        Ok(())
    }),
    Probe::case(
        Call::cuMemPoolCreate,
        "the host's pool is filled and copied without access",
        |c| {
            c.current()?;
            let (stream, pool) = (c.stream()?, make(c, "create", of_host(), PINNED));
            let memory = c.pool_memory(BYTES, pool, stream)?;
            let (owned, to) = (c.memory(BYTES)?, HostMemory::filled(BYTES / 4, 0));
            to_host(memory).fill(6);
            ask!(c.cuMemcpyAsync(owned, memory, BYTES, stream), "copy");
            ask!(c.cuMemcpyHtoDAsync_v2(owned, to_host(memory).ptr(), BYTES, stream), "from_host");
            ask!(c.cuMemcpyDtoDAsync_v2(owned, memory, BYTES, stream), "on_device");
            ask!(c.cuMemsetD8Async(memory, 0, BYTES, stream), "fill");
            ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), owned, BYTES, stream), "to_host");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            Ok(())
        },
    ),
    Probe::case(Call::cuPointerGetAttribute, "a pool's pointer tells where it lies", |c| {
        c.current()?;
        let stream = c.stream()?;
        for (label, place, kind) in PLACES {
            let pool = make(c, label, place(), *kind);
            let memory = c.pool_memory(BYTES, pool, stream)?;
            pointer(c, "type", memory, CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
            pointer(c, "managed", memory, CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED);
            let ordinal = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
            pointer(c, "ordinal", memory, ordinal);
            let mut on_host = 0_u64;
            let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER;
            ask!(c.cuPointerGetAttribute((&raw mut on_host).cast(), attribute, memory), "host");
            c.holds("same", on_host == memory);
        }
        Ok(())
    }),
    Probe::case(Call::cuMemAdvise_v2, "managed memory of a pool is advised and prefetched", |c| {
        c.current()?;
        let (stream, pool) = (c.stream()?, make(c, "create", of_nowhere(), MANAGED));
        let memory = c.pool_memory(1 << 21, pool, stream)?;
        let advice = CUmem_advise::CU_MEM_ADVISE_SET_READ_MOSTLY;
        ask!(c.cuMemAdvise_v2(memory, 1 << 21, advice, location(0)));
        ask!(c.cuMemPrefetchAsync_v2(memory, 1 << 21, location(0), 0, stream), "prefetch");
        let mut value = 99_u32;
        let (to, kind) = ((&raw mut value).cast(), CUmem_range_attribute(1));
        ask!(c.cuMemRangeGetAttribute(to, 4, kind, memory, 1 << 21), "range");
        c.note("value", value);
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(
        Call::cuMemAllocFromPoolAsync,
        "a captured stream takes no memory of the host",
        |c| {
            c.current()?;
            let (stream, pool) = (c.stream()?, make(c, "create", of_numa(), PINNED));
            let managed = make(c, "create", of_nowhere(), MANAGED);
            c.capture_relaxed(stream)?;
            let mut memory = 0;
            ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 64, pool, stream), "host");
            ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 64, managed, stream), "managed");
            c.note_capturing(stream)?;
            c.end(stream)
        },
    ),
];

/// What a place is called, and which it is.
type Place = (&'static str, fn() -> CUmemLocation, Kind);

/// The places beside a device's page-locked memory.
const PLACES: &[Place] = &[
    ("host", of_host, PINNED),
    ("numa", of_numa, PINNED),
    ("managed_device", here, MANAGED),
    ("managed_host", of_host, MANAGED),
    ("managed_numa", of_numa, MANAGED),
    ("managed_nowhere", of_nowhere, MANAGED),
];

fn of(type_: Type) -> CUmemLocation {
    CUmemLocation { type_, ..CUmemLocation::default() }
}

fn with_id(type_: Type, id: c_int) -> CUmemLocation {
    CUmemLocation { type_, ..location(id) }
}

fn here() -> CUmemLocation {
    location(0)
}

fn of_host() -> CUmemLocation {
    of(Type::CU_MEM_LOCATION_TYPE_HOST)
}

/// The host's first node.
fn of_numa() -> CUmemLocation {
    with_id(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0)
}

fn of_nowhere() -> CUmemLocation {
    of(Type::CU_MEM_LOCATION_TYPE_NONE)
}

/// A pool's address, as the host follows it: memory of the host or managed memory of at least 1000 bytes.
fn to_host(memory: CUdeviceptr) -> HostMemory {
    let start = usize::try_from(memory).unwrap_or_default();
    HostMemory::of_driver(core::ptr::with_exposed_provenance_mut(start), 250)
}

fn default_pool(c: &mut Ctx, label: &str, place: CUmemLocation, kind: Kind) -> CUmemoryPool {
    let (mut pool, mut place) = (CUmemoryPool::NULL, place);
    ask!(c.cuMemGetDefaultMemPool(&raw mut pool, &raw mut place, kind), label);
    pool
}

fn current_pool(c: &mut Ctx, label: &str, place: CUmemLocation, kind: Kind) -> CUmemoryPool {
    let (mut pool, mut place) = (CUmemoryPool::NULL, place);
    ask!(c.cuMemGetMemPool(&raw mut pool, &raw mut place, kind), label);
    pool
}

fn set_pool(c: &mut Ctx, label: &str, place: CUmemLocation, kind: Kind, pool: CUmemoryPool) {
    let mut place = place;
    ask!(c.cuMemSetMemPool(&raw mut place, kind, pool), label);
}

fn make(c: &mut Ctx, label: &str, place: CUmemLocation, kind: Kind) -> CUmemoryPool {
    let props = CUmemPoolProps { allocType: kind, location: place, ..CUmemPoolProps::default() };
    make_of(c, label, props)
}

fn make_of(c: &mut Ctx, label: &str, props: CUmemPoolProps) -> CUmemoryPool {
    let mut pool = CUmemoryPool::NULL;
    ask!(c.cuMemPoolCreate(&raw mut pool, &raw const props), label);
    pool
}

/// What the device and the host may do with a pool.
fn accesses(c: &mut Ctx, label: &str, pool: CUmemoryPool) {
    for place in [location(0), of_host(), of_numa()] {
        let (mut flags, mut place) = (CUmemAccess_flags(9), place);
        ask!(c.cuMemPoolGetAccess(&raw mut flags, pool, &raw mut place), label);
        c.note("flags", flags.0);
    }
}

fn set_access(
    c: &mut Ctx,
    label: &str,
    pool: CUmemoryPool,
    place: CUmemLocation,
    flags: CUmemAccess_flags,
) {
    let access = CUmemAccessDesc { location: place, flags };
    ask!(c.cuMemPoolSetAccess(pool, &raw const access, 1), label);
}

/// An attribute of 32 bits, or of one byte.
fn pointer(c: &mut Ctx, label: &str, memory: CUdeviceptr, attribute: CUpointer_attribute) {
    let mut value = 0_u32;
    ask!(c.cuPointerGetAttribute((&raw mut value).cast(), attribute, memory), label);
    c.note("value", value);
}
