//! Device memory of a context, and what is known of an address.
//!
//! Source: CUDA Driver API 13.x, "Memory Management", "Unified Addressing".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    host::HostMemory,
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemGetInfo_v2, "a context tells free and total memory", |c| {
        c.current()?;
        step(|c| {
            let (mut free, mut total) = (0, 0);
            ask!(c.cuMemGetInfo_v2(&raw mut free, &raw mut total));
            if c.observes() {
                c.holds("some", free > 0 && free <= total);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemGetInfo_v2, "no context tells no memory", |c| {
        c.device()?;
        let (mut free, mut total) = (0, 0);
        ask!(c.cuMemGetInfo_v2(&raw mut free, &raw mut total));
        Ok(())
    }),
    Probe::works(Call::cuMemAlloc_v2, "memory is allocated", |c| {
        c.current()?;
        step(|c| {
            let mut memory = 0;
            ask!(c.cuMemAlloc_v2(&raw mut memory, 100));
            if c.observes() {
                c.holds("null", memory == 0);
                c.note("beyond_256", memory % 256);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemAlloc_v2, "no bytes aren't allocated", |c| {
        c.current()?;
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 0));
        c.holds("null", memory == 0);
        Ok(())
    }),
    Probe::case(Call::cuMemAlloc_v2, "more than there is isn't allocated", |c| {
        c.current()?;
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 1 << 50));
        c.holds("null", memory == 0);
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "after");
        Ok(())
    }),
    Probe::case(Call::cuMemAlloc_v2, "memory needs somewhere to go, and a context", |c| {
        c.current()?;
        ask!(c.cuMemAlloc_v2(null_mut(), 64));
        c.empty_stack();
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "without_context");
        ask!(c.cuMemAlloc_v2(&raw mut memory, 0), "without_context_and_bytes");
        Ok(())
    }),
    Probe::case(Call::cuMemAlloc_v2, "before initialization nothing is allocated", |c| {
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64));
        Ok(())
    }),
    Probe::works(Call::cuMemAllocPitch_v2, "rows are allocated with a pitch", |c| {
        c.current()?;
        step(|c| {
            let (mut memory, mut pitch) = (0, 0);
            ask!(c.cuMemAllocPitch_v2(&raw mut memory, &raw mut pitch, 100, 10, 4));
            if c.observes() {
                c.note("pitch", pitch);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemAllocPitch_v2, "elements of a pitch have 4, 8 or 16 bytes", |c| {
        c.current()?;
        let (mut memory, mut pitch) = (0, 0);
        ask!(c.cuMemAllocPitch_v2(&raw mut memory, &raw mut pitch, 100, 10, 3));
        Ok(())
    }),
    Probe::case(Call::cuMemAllocPitch_v2, "rows have a width and a height", |c| {
        c.current()?;
        let (mut memory, mut pitch) = (0, 0);
        ask!(c.cuMemAllocPitch_v2(&raw mut memory, &raw mut pitch, 0, 10, 4), "width");
        ask!(c.cuMemAllocPitch_v2(&raw mut memory, &raw mut pitch, 100, 0, 4), "height");
        Ok(())
    }),
    Probe::works(Call::cuMemFree_v2, "memory is freed", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        step(move |c| {
            ask!(c.cuMemFree_v2(memory));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemFree_v2, "memory isn't freed from its middle", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        ask!(c.cuMemFree_v2(memory + 4));
        ask!(c.cuMemFree_v2(memory), "start");
        Ok(())
    }),
    Probe::case(Call::cuMemFree_v2, "memory isn't freed twice", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        ask!(c.cuMemFree_v2(memory));
        ask!(c.cuMemFree_v2(memory), "again");
        ask!(c.cuMemFree_v2(0), "null");
        Ok(())
    }),
    Probe::case(Call::cuMemFree_v2, "memory is freed whatever is current", |c| {
        c.current()?;
        let (a, b) = (c.memory(64)?, c.memory(64)?);
        c.context()?;
        ask!(c.cuMemFree_v2(a), "other");
        c.empty_stack();
        ask!(c.cuMemFree_v2(b), "none");
        ask!(c.cuMemFree_v2(0), "null");
        Ok(())
    }),
    Probe::case(Call::cuMemFree_v2, "a pool's memory is freed at once too", |c| {
        c.current()?;
        let stream = c.stream()?;
        let pool = c.pool()?;
        let memory = c.pool_memory(64, pool, stream)?;
        ask!(c.cuMemFree_v2(memory));
        ask!(c.cuMemFreeAsync(memory, stream), "again");
        Ok(())
    }),
    Probe::works(Call::cuMemGetAddressRange_v2, "an address inside memory tells its range", |c| {
        c.current()?;
        let memory = c.memory(100)?;
        step(move |c| {
            let (mut start, mut bytes) = (0, 0);
            ask!(c.cuMemGetAddressRange_v2(&raw mut start, &raw mut bytes, memory + 4));
            if c.observes() {
                c.holds("start", start == memory);
                c.note("bytes", bytes);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemGetAddressRange_v2, "freed memory has no range", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        must!(c.cuMemFree_v2(memory));
        let (mut start, mut bytes) = (0, 0);
        ask!(c.cuMemGetAddressRange_v2(&raw mut start, &raw mut bytes, memory));
        Ok(())
    }),
    Probe::case(Call::cuMemGetAddressRange_v2, "a pool's memory has a range", |c| {
        c.current()?;
        let stream = c.stream()?;
        let pool = c.pool()?;
        let memory = c.pool_memory(100, pool, stream)?;
        let (mut start, mut bytes) = (0, 0);
        ask!(c.cuMemGetAddressRange_v2(&raw mut start, &raw mut bytes, memory));
        c.note("bytes", bytes);
        ask!(c.cuMemGetAddressRange_v2(null_mut(), &raw mut bytes, memory), "bytes_alone");
        Ok(())
    }),
    Probe::works(Call::cuPointerGetAttribute, "a pointer tells its kind of memory", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        step(move |c| attribute(c, KIND, memory))
    }),
    Probe::fails(Call::cuPointerGetAttribute, "a pointer to nowhere tells no kind", |c| {
        c.current()?;
        attribute(c, KIND, 0x10)
    }),
    Probe::case(Call::cuPointerGetAttribute, "an unknown attribute of a pointer is refused", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        attribute(c, CUpointer_attribute(9999), memory)?;
        ask!(c.cuPointerGetAttribute(null_mut(), KIND, memory), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuPointerGetAttribute, "every kind of memory says what it is", |c| {
        c.current()?;
        let stream = c.stream()?;
        let pool = c.pool()?;
        let memory = c.pool_memory(64, pool, stream)?;
        attribute(c, KIND, memory)?;
        attribute(c, CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory)?;
        let managed = c.managed(64)?;
        attribute(c, KIND, managed)?;
        attribute(c, CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, managed)?;
        let pinned = c.pinned(16)?;
        attribute(c, KIND, host(pinned))?;
        let plain = HostMemory::filled(16, 0);
        attribute(c, KIND, host(plain))
    }),
    Probe::case(Call::cuPointerGetAttribute, "a pointer tells its context and its pool", |c| {
        let context = c.current()?;
        let stream = c.stream()?;
        let pool = c.pool()?;
        let (plain, pooled) = (c.memory(64)?, c.pool_memory(64, pool, stream)?);
        for memory in [plain, pooled] {
            let mut found = CUcontext::from_addr(8);
            let to = (&raw mut found).cast();
            ask!(c.cuPointerGetAttribute(to, CONTEXT, memory), "context");
            c.note("is", if found == context { "mine" } else { found_or_null(found) });
            let mut found = CUmemoryPool::from_addr(8);
            let to = (&raw mut found).cast();
            ask!(c.cuPointerGetAttribute(to, POOL, memory), "pool");
            c.holds("is", found == pool);
        }
        Ok(())
    }),
    Probe::case(Call::cuPointerGetAttribute, "a pointer tells what its own device may do", |c| {
        c.current()?;
        let stream = c.stream()?;
        let pool = c.pool()?;
        let flags = CUpointer_attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS;
        for memory in [c.memory(64)?, c.pool_memory(64, pool, stream)?, c.managed(64)?] {
            // Room for either size that the driver may write.
            let mut value = 0_u64;
            ask!(c.cuPointerGetAttribute((&raw mut value).cast(), flags, memory));
            c.note("flags", value);
        }
        Ok(())
    }),
    Probe::case(Call::cuPointerGetAttribute, "a pointer may be asked without a context", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        c.empty_stack();
        attribute(c, KIND, memory)
    }),
    Probe::works(Call::cuPointerGetAttributes, "a pointer tells several things at once", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        step(move |c| attributes(c, KIND, memory))
    }),
    Probe::fails(
        Call::cuPointerGetAttributes,
        "an unknown attribute among several is refused",
        |c| {
            c.current()?;
            let memory = c.memory(64)?;
            attributes(c, CUpointer_attribute(9999), memory)
        },
    ),
    Probe::case(Call::cuPointerGetAttributes, "a pointer to nowhere tells several nothings", |c| {
        c.current()?;
        attributes(c, KIND, 0x10)
    }),
    Probe::works(Call::cuPointerSetAttribute, "operations on memory are made synchronous", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        step(move |c| set_synchronous(c, SYNCHRONOUS, memory))
    }),
    Probe::fails(Call::cuPointerSetAttribute, "a pointer's kind isn't set", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        set_synchronous(c, KIND, memory)
    }),
    Probe::works(Call::cuMemAllocAsync, "a stream allocates from the current pool", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            let mut memory = 0;
            ask!(c.cuMemAllocAsync(&raw mut memory, 100, stream));
            if c.observes() {
                c.wait_for(stream)?;
                c.holds("null", memory == 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemAllocAsync, "a stream doesn't allocate more than there is", |c| {
        c.current()?;
        let stream = c.stream()?;
        let mut memory = 0;
        ask!(c.cuMemAllocAsync(&raw mut memory, 1 << 50, stream));
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuMemAllocAsync(&raw mut memory, 64, stream), "after");
        Ok(())
    }),
    Probe::case(Call::cuMemAllocAsync, "a stream allocates no bytes", |c| {
        c.current()?;
        let stream = c.stream()?;
        let mut memory = 8;
        ask!(c.cuMemAllocAsync(&raw mut memory, 0, stream));
        c.holds("null", memory == 0);
        ask!(c.cuMemFreeAsync(memory, stream), "free");
        Ok(())
    }),
    Probe::case(
        Call::cuMemAllocAsync,
        "allocating on a captured stream makes a graph's memory",
        |c| {
            c.current()?;
            let stream = c.stream()?;
            c.capture_globally(stream)?;
            let mut memory = 0;
            ask!(c.cuMemAllocAsync(&raw mut memory, 64, stream));
            c.note_capturing(stream)?;
            c.end(stream)?;
            ask!(c.cuMemFreeAsync(memory, stream), "free");
            let mut pool = CUmemoryPool::NULL;
            ask!(c.cuPointerGetAttribute((&raw mut pool).cast(), POOL, memory), "pool");
            Ok(())
        },
    ),
];

const KIND: CUpointer_attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
const CONTEXT: CUpointer_attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
const SYNCHRONOUS: CUpointer_attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
const POOL: CUpointer_attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;

fn found_or_null(context: CUcontext) -> &'static str {
    if context.is_null() { "null" } else { "other" }
}

/// Host memory's address, where a device's is asked for.
fn host(memory: HostMemory) -> CUdeviceptr {
    memory.ptr().expose_provenance() as CUdeviceptr
}

fn attribute(c: &mut Ctx, attribute: CUpointer_attribute, memory: CUdeviceptr) -> Made<()> {
    let mut value = 99_u32;
    ask!(c.cuPointerGetAttribute((&raw mut value).cast(), attribute, memory));
    if c.observes() {
        c.note("value", value);
    }
    Ok(())
}

fn attributes(c: &mut Ctx, kind: CUpointer_attribute, memory: CUdeviceptr) -> Made<()> {
    let (mut value, mut ordinal) = (99_u32, 99_i32);
    let mut data: [*mut c_void; 2] = [(&raw mut value).cast(), (&raw mut ordinal).cast()];
    let mut kinds = [kind, CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL];
    ask!(c.cuPointerGetAttributes(2, kinds.as_mut_ptr(), data.as_mut_ptr(), memory));
    if c.observes() {
        c.note("value", value);
        c.note("ordinal", ordinal);
    }
    Ok(())
}

fn set_synchronous(c: &mut Ctx, kind: CUpointer_attribute, memory: CUdeviceptr) -> Made<()> {
    let value = 1_u32;
    ask!(c.cuPointerSetAttribute((&raw const value).cast(), kind, memory));
    Ok(())
}
