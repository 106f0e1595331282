//! What pools do with memory: allocations, frees, counters, limits, and what outlives what.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    probes::pool::set,
    setup::Made,
};

const USED: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
const USED_HIGH: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
const RESERVED: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
const RESERVED_HIGH: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
const THRESHOLD: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemAllocFromPoolAsync, "a pool allocates", |c| {
        c.current()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        step(move |c| {
            let mut memory = 0;
            ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 1000, pool, stream));
            if c.observes() {
                c.holds("null", memory == 0);
                c.wait_for(stream)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemAllocFromPoolAsync, "a destroyed pool doesn't allocate", |c| {
        c.current()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        must!(c.cuMemPoolDestroy(pool));
        let mut memory = 0;
        ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 64, pool, stream));
        Ok(())
    }),
    Probe::case(Call::cuMemAllocFromPoolAsync, "a pool allocates no bytes", |c| {
        c.current()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        let mut memory = 8;
        ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 0, pool, stream));
        c.holds("null", memory == 0);
        Ok(())
    }),
    Probe::case(Call::cuMemAllocFromPoolAsync, "a pool doesn't allocate over its limit", |c| {
        c.current()?;
        let stream = c.stream()?;
        let props = CUmemPoolProps { maxSize: 64 << 20, ..c.pool_props()? };
        let mut pool = CUmemoryPool::NULL;
        ask!(c.cuMemPoolCreate(&raw mut pool, &raw const props), "create");
        let mut memory = 0;
        ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 1 << 20, pool, stream), "under");
        ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 128 << 20, pool, stream), "over");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(
        Call::cuMemAllocFromPoolAsync,
        "a refused allocation leaves the stream well",
        |c| {
            c.current()?;
            let (pool, stream) = (c.pool()?, c.stream()?);
            let mut memory = 0;
            ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 1 << 40, pool, stream));
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 64, pool, stream), "after");
            Ok(())
        },
    ),
    Probe::works(Call::cuMemFreeAsync, "a pool's memory is freed in order", |c| {
        c.current()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        let memory = c.pool_memory(1000, pool, stream)?;
        step(move |c| {
            ask!(c.cuMemFreeAsync(memory, stream));
            if c.observes() {
                ask!(c.cuStreamSynchronize(stream), "synchronize");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemFreeAsync, "a pool's memory isn't freed twice", |c| {
        c.current()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        let memory = c.pool_memory(1000, pool, stream)?;
        must!(c.cuMemFreeAsync(memory, stream));
        ask!(c.cuMemFreeAsync(memory, stream));
        c.wait_for(stream)?;
        ask!(c.cuMemFreeAsync(memory, stream), "later");
        ask!(c.cuMemFreeAsync(0x10, stream), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuMemFreeAsync, "freeing null in order is fine", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuMemFreeAsync(0, stream));
        Ok(())
    }),
    Probe::case(Call::cuMemFreeAsync, "a context's memory is freed in order too", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.memory(64)?;
        ask!(c.cuMemFreeAsync(memory, stream));
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuMemFree_v2(memory), "again");
        Ok(())
    }),
    Probe::case(
        Call::cuMemFreeAsync,
        "a pool's memory is freed on another context's stream",
        |c| {
            c.current()?;
            let (pool, stream) = (c.pool()?, c.stream()?);
            let memory = c.pool_memory(64, pool, stream)?;
            c.context()?;
            let other = c.stream()?;
            ask!(c.cuMemFreeAsync(memory, other));
            ask!(c.cuStreamSynchronize(other), "synchronize");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemFreeAsync,
        "a created stream allocates and frees without a context",
        |c| {
            c.current()?;
            let (pool, stream) = (c.pool()?, c.stream()?);
            c.empty_stack();
            let mut memory = 0;
            ask!(c.cuMemAllocAsync(&raw mut memory, 64, stream), "current_pool");
            ask!(c.cuMemFreeAsync(memory, stream));
            ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, 64, pool, stream), "pool");
            ask!(c.cuMemFreeAsync(memory, stream));
            ask!(c.cuMemFreeAsync(memory, CUstream::NULL), "default_stream");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemFreeAsync,
        "a captured stream doesn't free what was there before",
        |c| {
            c.current()?;
            let (pool, stream) = (c.pool()?, c.stream()?);
            let memory = c.pool_memory(64, pool, stream)?;
            c.capture_relaxed(stream)?;
            ask!(c.cuMemFreeAsync(memory, stream));
            c.note_capturing(stream)?;
            c.end(stream)?;
            ask!(c.cuMemFreeAsync(memory, stream), "after");
            Ok(())
        },
    ),
    Probe::case(Call::cuMemFree_v2, "a graph's memory isn't freed while it is captured", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_relaxed(stream)?;
        let mut memory = 0;
        ask!(c.cuMemAllocAsync(&raw mut memory, 64, stream), "alloc");
        ask!(c.cuMemFree_v2(memory));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::case(Call::cuMemPoolDestroy, "a destroyed pool's memory lives until it is freed", |c| {
        c.current()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        let memory = c.pool_memory(64, pool, stream)?;
        ask!(c.cuMemPoolDestroy(pool));
        ask!(c.cuMemsetD8Async(memory, 0, 64, stream), "use");
        ask!(c.cuMemFreeAsync(memory, stream), "free");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuMemPoolGetAttribute, "a pool counts what is used and reserved", |c| {
        c.current()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        counters(c, "new", pool)?;
        let memory = c.pool_memory(1000, pool, stream)?;
        counters(c, "allocated", pool)?;
        let gate = c.busy(stream)?;
        must!(c.cuMemFreeAsync(memory, stream));
        counters(c, "free_queued", pool)?;
        gate.open();
        c.wait_for(stream)?;
        counters(c, "synchronized", pool)
    }),
    Probe::case(Call::cuMemPoolTrimTo, "trimming gives back what isn't used", |c| {
        c.current()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        set(c, pool, THRESHOLD, u64::MAX);
        let memory = c.pool_memory(1000, pool, stream)?;
        must!(c.cuMemFreeAsync(memory, stream));
        c.wait_for(stream)?;
        counters(c, "kept", pool)?;
        ask!(c.cuMemPoolTrimTo(pool, 0));
        counters(c, "trimmed", pool)
    }),
    Probe::case(Call::cuMemPoolSetAttribute, "a pool's highest counts begin anew", |c| {
        c.current()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        let memory = c.pool_memory(1000, pool, stream)?;
        must!(c.cuMemFreeAsync(memory, stream));
        c.wait_for(stream)?;
        set(c, pool, USED_HIGH, 0);
        counters(c, "anew", pool)?;
        set(c, pool, RESERVED_HIGH, 0);
        counters(c, "anew", pool)
    }),
    Probe::case(Call::cuMemAllocFromPoolAsync, "small allocations share what is reserved", |c| {
        c.current()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        c.pool_memory(1, pool, stream)?;
        counters(c, "one", pool)?;
        c.pool_memory(1 << 20, pool, stream)?;
        counters(c, "two", pool)?;
        c.pool_memory(40 << 20, pool, stream)?;
        counters(c, "three", pool)
    }),
    Probe::case(Call::cuMemAllocFromPoolAsync, "a pool's memory outlives the context", |c| {
        c.context()?;
        let (pool, stream) = (c.pool()?, c.stream()?);
        let memory = c.pool_memory(64, pool, stream)?;
        let context = c.what_is_current()?;
        must!(c.cuCtxDestroy_v2(context));
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuMemsetD8Async(memory, 0, 64, stream), "use");
        ask!(c.cuMemFreeAsync(memory, stream), "free");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
];

pub(super) fn counters(c: &mut Ctx, label: &str, pool: CUmemoryPool) -> Made<()> {
    let (used, reserved) = (c.pool_attribute(pool, USED)?, c.pool_attribute(pool, RESERVED)?);
    let high = c.pool_attribute(pool, USED_HIGH)?;
    let reserved_high = c.pool_attribute(pool, RESERVED_HIGH)?;
    c.note(label, format_args!("{used}/{reserved}/{high}/{reserved_high}"));
    Ok(())
}
