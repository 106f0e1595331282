//! Memory pools: made, destroyed, set up, asked.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::{Made, location},
};

const THRESHOLD: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
const READ_WRITE: CUmemAccess_flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
const PINNED: CUmemAllocationType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemPoolCreate, "a pool is made", |c| {
        let props = c.pool_props()?;
        let location = props.location;
        step(move |c| {
            let props = CUmemPoolProps { allocType: PINNED, location, ..Default::default() };
            let mut pool = CUmemoryPool::NULL;
            ask!(c.cuMemPoolCreate(&raw mut pool, &raw const props));
            if c.observes() {
                c.holds("null", pool.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemPoolCreate, "a pool on a missing device isn't made", |c| {
        let props = CUmemPoolProps { location: location(99), ..c.pool_props()? };
        let mut pool = CUmemoryPool::NULL;
        ask!(c.cuMemPoolCreate(&raw mut pool, &raw const props));
        Ok(())
    }),
    Probe::case(Call::cuMemPoolCreate, "a pool of no kind isn't made", |c| {
        let props = CUmemPoolProps { allocType: CUmemAllocationType(0), ..c.pool_props()? };
        let mut pool = CUmemoryPool::NULL;
        ask!(c.cuMemPoolCreate(&raw mut pool, &raw const props), "kind");
        ask!(c.cuMemPoolCreate(&raw mut pool, core::ptr::null()), "null");
        ask!(c.cuMemPoolCreate(null_mut(), &raw const props), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuMemPoolCreate, "a pool of host memory is made", |c| {
        let mut props = c.pool_props()?;
        props.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST;
        let mut pool = CUmemoryPool::NULL;
        ask!(c.cuMemPoolCreate(&raw mut pool, &raw const props));
        Ok(())
    }),
    Probe::works(Call::cuMemPoolDestroy, "a pool is destroyed", |c| {
        let pool = c.pool()?;
        step(move |c| {
            ask!(c.cuMemPoolDestroy(pool));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemPoolDestroy, "the default pool isn't destroyed", |c| {
        let pool = c.default_pool()?;
        ask!(c.cuMemPoolDestroy(pool));
        Ok(())
    }),
    Probe::case(Call::cuMemPoolDestroy, "a pool isn't destroyed twice", |c| {
        let pool = c.pool()?;
        ask!(c.cuMemPoolDestroy(pool));
        ask!(c.cuMemPoolDestroy(pool), "again");
        ask!(c.cuMemPoolDestroy(CUmemoryPool::NULL), "null");
        Ok(())
    }),
    Probe::works(Call::cuMemPoolTrimTo, "a pool is trimmed", |c| {
        let pool = c.pool()?;
        step(move |c| {
            ask!(c.cuMemPoolTrimTo(pool, 0));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemPoolTrimTo, "null isn't trimmed", |c| {
        c.current()?;
        ask!(c.cuMemPoolTrimTo(CUmemoryPool::NULL, 0));
        Ok(())
    }),
    Probe::works(Call::cuMemPoolSetAttribute, "a pool's threshold is set", |c| {
        let pool = c.pool()?;
        step(move |c| {
            set(c, pool, THRESHOLD, 1 << 20);
            if c.observes() {
                get(c, pool, THRESHOLD);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemPoolSetAttribute, "a pool's counters aren't set", |c| {
        let pool = c.pool()?;
        set(c, pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0);
        set(c, pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 5);
        set(c, pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
        set(c, pool, CUmemPool_attribute(99), 0);
        Ok(())
    }),
    Probe::works(Call::cuMemPoolGetAttribute, "a new pool keeps nothing", |c| {
        let pool = c.pool()?;
        step(move |c| {
            get(c, pool, THRESHOLD);
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemPoolGetAttribute, "a pool has no unknown attribute", |c| {
        let pool = c.pool()?;
        get(c, pool, CUmemPool_attribute(99));
        Ok(())
    }),
    Probe::case(Call::cuMemPoolGetAttribute, "a new pool's other attributes are known", |c| {
        let pool = c.pool()?;
        for attribute in 1..=3 {
            let mut value = -9;
            let to = (&raw mut value).cast();
            ask!(c.cuMemPoolGetAttribute(pool, CUmemPool_attribute(attribute), to));
            c.note("value", value);
        }
        for attribute in 5..=8 {
            get(c, pool, CUmemPool_attribute(attribute));
        }
        Ok(())
    }),
    Probe::case(Call::cuMemPoolGetAttribute, "the default pool keeps nothing at first", |c| {
        let pool = c.default_pool()?;
        get(c, pool, THRESHOLD);
        Ok(())
    }),
    Probe::works(Call::cuMemPoolSetAccess, "a pool's owner may have access", |c| {
        let device = c.device()?;
        let pool = c.pool()?;
        step(move |c| access(c, pool, device, READ_WRITE))
    }),
    Probe::fails(Call::cuMemPoolSetAccess, "a pool's owner keeps access", |c| {
        let device = c.device()?;
        let pool = c.pool()?;
        access(c, pool, device, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE)?;
        access(c, pool, device, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ)?;
        access(c, pool, 99, READ_WRITE)?;
        ask!(c.cuMemPoolSetAccess(pool, core::ptr::null(), 0), "none");
        Ok(())
    }),
    Probe::works(Call::cuMemPoolGetAccess, "a pool's owner has access", |c| {
        let here = c.here()?;
        let pool = c.pool()?;
        step(move |c| {
            let (mut flags, mut here) = (CUmemAccess_flags(9), here);
            ask!(c.cuMemPoolGetAccess(&raw mut flags, pool, &raw mut here));
            if c.observes() {
                c.note("flags", flags.0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemPoolGetAccess, "a missing device's access isn't known", |c| {
        let pool = c.pool()?;
        let (mut flags, mut there) = (CUmemAccess_flags(9), location(99));
        ask!(c.cuMemPoolGetAccess(&raw mut flags, pool, &raw mut there));
        Ok(())
    }),
    Probe::works(Call::cuMemGetDefaultMemPool, "a location has a default pool", |c| {
        let (here, default) = (c.here()?, c.default_pool()?);
        step(move |c| {
            let (mut pool, mut here) = (CUmemoryPool::NULL, here);
            ask!(c.cuMemGetDefaultMemPool(&raw mut pool, &raw mut here, PINNED));
            if c.observes() {
                c.holds("device_s", pool == default);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemGetDefaultMemPool, "a missing location has no default pool", |c| {
        c.device()?;
        let (mut pool, mut there) = (CUmemoryPool::NULL, location(99));
        ask!(c.cuMemGetDefaultMemPool(&raw mut pool, &raw mut there, PINNED));
        Ok(())
    }),
    Probe::works(Call::cuMemGetMemPool, "a location has a current pool", |c| {
        let (here, default) = (c.here()?, c.default_pool()?);
        step(move |c| {
            let (mut pool, mut here) = (CUmemoryPool::NULL, here);
            ask!(c.cuMemGetMemPool(&raw mut pool, &raw mut here, PINNED));
            if c.observes() {
                c.holds("default", pool == default);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemGetMemPool, "a missing location has no current pool", |c| {
        c.device()?;
        let (mut pool, mut there) = (CUmemoryPool::NULL, location(99));
        ask!(c.cuMemGetMemPool(&raw mut pool, &raw mut there, PINNED));
        Ok(())
    }),
    Probe::works(Call::cuMemSetMemPool, "a location's current pool is set", |c| {
        let (here, pool) = (c.here()?, c.pool()?);
        step(move |c| {
            let mut here = here;
            ask!(c.cuMemSetMemPool(&raw mut here, PINNED, pool));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemSetMemPool, "a location's current pool isn't null", |c| {
        let mut here = c.here()?;
        ask!(c.cuMemSetMemPool(&raw mut here, PINNED, CUmemoryPool::NULL));
        Ok(())
    }),
];

pub(super) fn get(c: &mut Ctx, pool: CUmemoryPool, attribute: CUmemPool_attribute) {
    let mut value = 99_u64;
    ask!(c.cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()));
    if c.observes() {
        c.note("value", value);
    }
}

pub(super) fn set(c: &mut Ctx, pool: CUmemoryPool, attribute: CUmemPool_attribute, value: u64) {
    let mut value = value;
    ask!(c.cuMemPoolSetAttribute(pool, attribute, (&raw mut value).cast()));
}

fn access(c: &mut Ctx, pool: CUmemoryPool, device: CUdevice, flags: CUmemAccess_flags) -> Made<()> {
    let access = CUmemAccessDesc { location: location(device), flags };
    ask!(c.cuMemPoolSetAccess(pool, &raw const access, 1));
    Ok(())
}
