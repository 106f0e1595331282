//! Managed memory in batches, and one copy with a batch's attributes.
//!
//! Source: CUDA Driver API 13.x, "Unified Addressing", "Memory Management".

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::{Made, location},
};

/// Enough for a page of any kind.
const BYTES: usize = 1 << 21;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemPrefetchBatchAsync, "several memories are prefetched", |c| {
        let (stream, memory) = two(c)?;
        step(move |c| {
            prefetch(c, memory, 0, 0, stream);
            settle(c, stream)
        })
    }),
    Probe::fails(Call::cuMemPrefetchBatchAsync, "a context's memory fails its batch", |c| {
        let (stream, memory) = two(c)?;
        let owned = c.memory(BYTES)?;
        prefetch(c, [memory[0], owned], 0, 0, stream);
        Ok(())
    }),
    Probe::case(Call::cuMemPrefetchBatchAsync, "a batch begins with its first location", |c| {
        let (stream, memory) = two(c)?;
        prefetch(c, memory, 1, 0, stream);
        prefetch(c, memory, 0, 1, stream);
        prefetch(c, memory, 0, 0, CUstream::NULL);
        Ok(())
    }),
    Probe::works(Call::cuMemDiscardBatchAsync, "several memories are discarded", |c| {
        let (stream, memory) = two(c)?;
        step(move |c| {
            discard(c, memory, 0, stream);
            settle(c, stream)
        })
    }),
    Probe::fails(Call::cuMemDiscardBatchAsync, "discarding takes no flags", |c| {
        let (stream, memory) = two(c)?;
        discard(c, memory, 1, stream);
        Ok(())
    }),
    Probe::works(Call::cuMemDiscardAndPrefetchBatchAsync, "both are done at once", |c| {
        let (stream, memory) = two(c)?;
        step(move |c| {
            both(c, memory, 0, stream);
            settle(c, stream)
        })
    }),
    Probe::fails(Call::cuMemDiscardAndPrefetchBatchAsync, "both at once take no flags", |c| {
        let (stream, memory) = two(c)?;
        both(c, memory, 1, stream);
        Ok(())
    }),
];

fn two(c: &Ctx) -> Made<(CUstream, [CUdeviceptr; 2])> {
    c.current()?;
    Ok((c.stream()?, [c.managed(BYTES)?, c.managed(BYTES)?]))
}

fn settle(c: &mut Ctx, stream: CUstream) -> Made<()> {
    if c.observes() {
        ask!(c.cuStreamSynchronize(stream), "synchronize");
    }
    Ok(())
}

fn prefetch(c: &mut Ctx, mut memory: [CUdeviceptr; 2], index: usize, flags: u64, stream: CUstream) {
    let (mut sizes, mut places, mut indices) = ([BYTES; 2], [location(0)], [index]);
    ask!(c.cuMemPrefetchBatchAsync(
        memory.as_mut_ptr(),
        sizes.as_mut_ptr(),
        2,
        places.as_mut_ptr(),
        indices.as_mut_ptr(),
        1,
        flags,
        stream
    ));
}

fn discard(c: &mut Ctx, mut memory: [CUdeviceptr; 2], flags: u64, stream: CUstream) {
    let mut sizes = [BYTES; 2];
    ask!(c.cuMemDiscardBatchAsync(memory.as_mut_ptr(), sizes.as_mut_ptr(), 2, flags, stream));
}

fn both(c: &mut Ctx, mut memory: [CUdeviceptr; 2], flags: u64, stream: CUstream) {
    let (mut sizes, mut places, mut indices) = ([BYTES; 2], [location(0)], [0]);
    ask!(c.cuMemDiscardAndPrefetchBatchAsync(
        memory.as_mut_ptr(),
        sizes.as_mut_ptr(),
        2,
        places.as_mut_ptr(),
        indices.as_mut_ptr(),
        1,
        flags,
        stream
    ));
}
