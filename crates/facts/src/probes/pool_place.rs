//! Pools of the host's memory and of managed memory: made, a place's own, and who reaches their memory.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::Probe,
    setup::{Made, location},
};

const PINNED: CUmemAllocationType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
const MANAGED: CUmemAllocationType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED;
const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
const NONE: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;

type Location = CUmemLocationType;

/// How many pools without a limit are made at most.
const MANY: usize = 600;

pub(super) const PROBES: &[Probe] = &[
    Probe::case(Call::cuMemPoolCreate, "pools are made on the host's nodes", |c| {
        for (label, kind, node, handle) in [
            ("host", Location::CU_MEM_LOCATION_TYPE_HOST, 0, NONE),
            ("host_shared", Location::CU_MEM_LOCATION_TYPE_HOST, 0, FILE),
            ("node", Location::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, NONE),
            ("node_shared", Location::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, FILE),
            ("node_99", Location::CU_MEM_LOCATION_TYPE_HOST_NUMA, 99, NONE),
            ("node_minus_1", Location::CU_MEM_LOCATION_TYPE_HOST_NUMA, -1, NONE),
            ("current_node", Location::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0, NONE),
        ] {
            let props = CUmemPoolProps { handleTypes: handle, ..props(c, PINNED, kind, node)? };
            let mut pool = CUmemoryPool::NULL;
            ask!(c.cuMemPoolCreate(&raw mut pool, &raw const props), label);
        }
        Ok(())
    }),
    Probe::case(Call::cuMemPoolCreate, "pools of managed memory are made", |c| {
        for (label, kind, id) in [
            ("anywhere", Location::CU_MEM_LOCATION_TYPE_NONE, 0),
            ("device", Location::CU_MEM_LOCATION_TYPE_DEVICE, 0),
            ("host", Location::CU_MEM_LOCATION_TYPE_HOST, 0),
            ("node", Location::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0),
        ] {
            let props = props(c, MANAGED, kind, id)?;
            let mut pool = CUmemoryPool::NULL;
            ask!(c.cuMemPoolCreate(&raw mut pool, &raw const props), label);
        }
        let good = props(c, MANAGED, Location::CU_MEM_LOCATION_TYPE_NONE, 0)?;
        let mut pool = CUmemoryPool::NULL;
        let limited = CUmemPoolProps { maxSize: 64 << 20, ..good };
        ask!(c.cuMemPoolCreate(&raw mut pool, &raw const limited), "limited");
        let shared = CUmemPoolProps { handleTypes: FILE, ..good };
        ask!(c.cuMemPoolCreate(&raw mut pool, &raw const shared), "shared");
        let pinned = CUmemPoolProps { allocType: PINNED, ..good };
        ask!(c.cuMemPoolCreate(&raw mut pool, &raw const pinned), "pinned_nowhere");
        Ok(())
    }),
    Probe::case(Call::cuMemGetDefaultMemPool, "places have default pools", |c| {
        c.device()?;
        for (label, kind, place) in [
            ("host", PINNED, Location::CU_MEM_LOCATION_TYPE_HOST),
            ("node", PINNED, Location::CU_MEM_LOCATION_TYPE_HOST_NUMA),
            ("nowhere", PINNED, Location::CU_MEM_LOCATION_TYPE_NONE),
            ("managed", MANAGED, Location::CU_MEM_LOCATION_TYPE_NONE),
            ("managed_on_device", MANAGED, Location::CU_MEM_LOCATION_TYPE_DEVICE),
            ("managed_on_host", MANAGED, Location::CU_MEM_LOCATION_TYPE_HOST),
            ("managed_on_node", MANAGED, Location::CU_MEM_LOCATION_TYPE_HOST_NUMA),
        ] {
            let (mut pool, mut current) = (CUmemoryPool::NULL, CUmemoryPool::NULL);
            let mut place = at(place, 0);
            let default =
                ask!(c.cuMemGetDefaultMemPool(&raw mut pool, &raw mut place, kind), label);
            if default.is_success() {
                must!(c.cuMemGetMemPool(&raw mut current, &raw mut place, kind));
                c.holds("current", pool == current);
            }
        }
        Ok(())
    }),
    Probe::case(Call::cuMemSetMemPool, "a destroyed current pool of the host gives way", |c| {
        let props = props(c, PINNED, Location::CU_MEM_LOCATION_TYPE_HOST, 0)?;
        let (mut pool, mut now) = (CUmemoryPool::NULL, CUmemoryPool::NULL);
        let mut default = CUmemoryPool::NULL;
        let mut host = at(Location::CU_MEM_LOCATION_TYPE_HOST, 0);
        must!(c.cuMemGetDefaultMemPool(&raw mut default, &raw mut host, PINNED));
        must!(c.cuMemPoolCreate(&raw mut pool, &raw const props));
        ask!(c.cuMemSetMemPool(&raw mut host, PINNED, pool));
        ask!(c.cuMemGetMemPool(&raw mut now, &raw mut host, PINNED), "get");
        c.holds("set", now == pool);
        ask!(c.cuMemPoolDestroy(pool), "destroy");
        ask!(c.cuMemGetMemPool(&raw mut now, &raw mut host, PINNED), "get");
        c.holds("default", now == default);
        Ok(())
    }),
    Probe::case(Call::cuMemSetMemPool, "a device's pool isn't the host's", |c| {
        let pool = c.pool()?;
        let mut host = at(Location::CU_MEM_LOCATION_TYPE_HOST, 0);
        ask!(c.cuMemSetMemPool(&raw mut host, PINNED, pool), "host");
        let mut here = c.here()?;
        ask!(c.cuMemSetMemPool(&raw mut here, MANAGED, pool), "managed");
        Ok(())
    }),
    Probe::case(
        Call::cuMemPoolSetAccess,
        "a device is let reach a pool of the host's memory",
        |c| {
            c.current()?;
            let (pool, stream) = (host_pool(c)?, c.stream()?);
            note_access(c, pool)?;
            let entry = CUmemAccessDesc {
                location: location(c.device()?),
                flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            };
            ask!(c.cuMemPoolSetAccess(pool, &raw const entry, 1));
            note_access(c, pool)?;
            let mut memory = 0;
            ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 1000, pool, stream), "allocate");
            ask!(c.cuMemsetD8Async(memory, 7, 1000, stream), "fill");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemFreeAsync(memory, stream), "free");
            ask!(c.cuMemPoolDestroy(pool), "destroy");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPoolSetAccess,
        "a device of the same host isn't let reach its pool again",
        |c| {
            let pool = host_pool(c)?;
            for flags in [
                CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
            ] {
                let entry = CUmemAccessDesc { location: location(c.device()?), flags };
                ask!(c.cuMemPoolSetAccess(pool, &raw const entry, 1));
                note_access(c, pool)?;
            }
            Ok(())
        },
    ),
    Probe::case(Call::cuMemAllocFromPoolAsync, "a pool of managed memory allocates", |c| {
        c.current()?;
        let props = props(c, MANAGED, Location::CU_MEM_LOCATION_TYPE_NONE, 0)?;
        let (mut pool, stream) = (CUmemoryPool::NULL, c.stream()?);
        must!(c.cuMemPoolCreate(&raw mut pool, &raw const props));
        note_access(c, pool)?;
        let (mut memory, mut is_managed) = (0, false);
        ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 1000, pool, stream), "allocate");
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED;
        let to = (&raw mut is_managed).cast();
        ask!(c.cuPointerGetAttribute(to, attribute, memory), "attribute");
        c.holds("managed", is_managed);
        ask!(c.cuMemsetD8Async(memory, 7, 1000, stream), "fill");
        ask!(c.cuMemFreeAsync(memory, stream), "free");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuMemPoolDestroy(pool), "destroy");
        Ok(())
    }),
    Probe::case(Call::cuMemPoolDestroy, "a pool of managed memory is destroyed unused", |c| {
        c.current()?;
        let (pool, stream) = (managed_pool(c)?, c.stream()?);
        ask!(c.cuMemPoolDestroy(pool));
        goes_on(c, stream)
    }),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool of managed memory is destroyed when what it gave is freed",
        |c| {
            c.current()?;
            let (pool, stream) = (managed_pool(c)?, c.stream()?);
            let memory = c.pool_memory(1000, pool, stream)?;
            ask!(c.cuMemFreeAsync(memory, stream), "free");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemPoolDestroy(pool));
            goes_on(c, stream)
        },
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool of managed memory is destroyed when what a device had filled is freed",
        |c| {
            c.current()?;
            let (pool, stream) = (managed_pool(c)?, c.stream()?);
            let memory = c.pool_memory(1000, pool, stream)?;
            ask!(c.cuMemsetD8Async(memory, 7, 1000, stream), "fill");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemFreeAsync(memory, stream), "free");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemPoolDestroy(pool));
            goes_on(c, stream)
        },
    ),
    Probe::case(
        Call::cuMemFreeAsync,
        "managed memory of a pool that a device had filled is freed, and the pool stays",
        |c| {
            c.current()?;
            let (pool, stream) = (managed_pool(c)?, c.stream()?);
            let memory = c.pool_memory(1000, pool, stream)?;
            ask!(c.cuMemsetD8Async(memory, 7, 1000, stream), "fill");
            ask!(c.cuMemFreeAsync(memory, stream));
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            goes_on(c, stream)
        },
    ),
    Probe::case(
        Call::cuMemPoolSetAccess,
        "a pool of managed memory that a device has access to is destroyed",
        |c| {
            c.current()?;
            let (pool, stream) = (managed_pool(c)?, c.stream()?);
            let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            let entry = CUmemAccessDesc { location: location(c.device()?), flags };
            ask!(c.cuMemPoolSetAccess(pool, &raw const entry, 1));
            let memory = c.pool_memory(1000, pool, stream)?;
            ask!(c.cuMemsetD8Async(memory, 7, 1000, stream), "fill");
            ask!(c.cuMemFreeAsync(memory, stream), "free");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemPoolDestroy(pool), "destroy");
            goes_on(c, stream)
        },
    ),
    Probe::case(Call::cuMemPoolCreate, "many pools of the host's memory have no limit", |c| {
        let mut made = 0;
        while made < MANY {
            if let Err(failure) = host_pool(c) {
                c.heard("refused", failure.status);
                break;
            }
            made += 1;
        }
        c.note("made", made);
        Ok(())
    }),
];

fn at(kind: Location, id: c_int) -> CUmemLocation {
    CUmemLocation { type_: kind, ..location(id) }
}

fn props(c: &Ctx, kind: CUmemAllocationType, place: Location, id: c_int) -> Made<CUmemPoolProps> {
    Ok(CUmemPoolProps { allocType: kind, location: at(place, id), ..c.pool_props()? })
}

/// A pool of managed memory that no place is preferred for.
fn managed_pool(c: &Ctx) -> Made<CUmemoryPool> {
    let props = props(c, MANAGED, Location::CU_MEM_LOCATION_TYPE_NONE, 0)?;
    let mut pool = CUmemoryPool::NULL;
    must!(c.cuMemPoolCreate(&raw mut pool, &raw const props));
    Ok(pool)
}

/// The driver is alive for a while: what it does beside its calls has time to fail.
fn goes_on(c: &mut Ctx, stream: CUstream) -> Made<()> {
    for _ in 0..100 {
        let memory = c.memory(1 << 16)?;
        must!(c.cuMemsetD8Async(memory, 0, 1 << 16, stream));
        must!(c.cuStreamSynchronize(stream));
        must!(c.cuMemFree_v2(memory));
    }
    ask!(c.cuCtxSynchronize(), "goes_on");
    Ok(())
}

fn host_pool(c: &Ctx) -> Made<CUmemoryPool> {
    let props = props(c, PINNED, Location::CU_MEM_LOCATION_TYPE_HOST, 0)?;
    let mut pool = CUmemoryPool::NULL;
    must!(c.cuMemPoolCreate(&raw mut pool, &raw const props));
    Ok(pool)
}

fn note_access(c: &mut Ctx, pool: CUmemoryPool) -> Made<()> {
    let mut flags = CUmemAccess_flags(9);
    let mut here = c.here()?;
    ask!(c.cuMemPoolGetAccess(&raw mut flags, pool, &raw mut here), "access");
    c.note("flags", flags.0);
    Ok(())
}
