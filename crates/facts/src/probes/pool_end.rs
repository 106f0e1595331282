//! Pools that are destroyed while work of a default stream on their memory is pending.
//!
//! Source: measured; no manual says it.

use cuhold_driver_sys::{Call, ffi::*};

use crate::{ctx::Ctx, host, probe::Probe, setup::Made};

const POOLS: usize = 16;
const BYTES: usize = 40;

pub(super) const PROBES: &[Probe] = &[
    Probe::crashes(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of the legacy stream",
        |c| destroyed_early(c, CU_STREAM_LEGACY, Waits::No),
    )
    .of_freed_host_memory(),
    Probe::crashes(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of the per-thread stream",
        |c| destroyed_early(c, CU_STREAM_PER_THREAD, Waits::No),
    )
    .of_freed_host_memory(),
    Probe::crashes(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of the legacy stream, and its memory is freed then",
        |c| destroyed_early(c, CU_STREAM_LEGACY, Waits::FreesLater),
    )
    .of_freed_host_memory(),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed once the legacy stream was waited for",
        |c| destroyed_early(c, CU_STREAM_LEGACY, Waits::Yes),
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind frees of the legacy stream alone",
        |c| destroyed_early(c, CU_STREAM_LEGACY, Waits::NoWork),
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of a created stream",
        |c| {
            c.current()?;
            let stream = c.blocking_stream()?;
            destroyed_early(c, stream, Waits::No)
        },
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    No,
    Yes,
    FreesLater,
    NoWork,
}

/// Pools whose memory a stream fills, each destroyed at once; then memory of the default pool, a copy from it, and a wait
/// for the stream through an event.
fn destroyed_early(c: &mut Ctx, stream: CUstream, waits: Waits) -> Made<()> {
    c.current()?;
    let before = c.violations();
    for _ in 0..POOLS {
        let pool = c.pool()?;
        let mut both = [0; 2];
        for memory in &mut both {
            *memory = c.pool_memory(BYTES, pool, stream)?;
            if waits != Waits::NoWork {
                must!(c.cuMemsetD8Async(*memory, 0, BYTES, stream));
            }
        }
        if waits == Waits::FreesLater {
            must!(c.cuMemPoolDestroy(pool));
        }
        for memory in both {
            must!(c.cuMemFreeAsync(memory, stream));
        }
        if waits == Waits::Yes {
            c.wait_for(stream)?;
        }
        if waits != Waits::FreesLater {
            must!(c.cuMemPoolDestroy(pool));
        }
    }
    let mut memory = 0;
    must!(c.cuMemAllocAsync(&raw mut memory, BYTES, stream));
    let to = host::HostMemory::filled(BYTES / 4, 0);
    must!(c.cuMemcpyDtoHAsync_v2(to.ptr(), memory, BYTES, stream));
    let event = c.event()?;
    must!(c.cuEventRecord(event, stream));
    // SAFETY: *pointers*, *calls back*: none. *Handles*: this driver's own. What ends a real driver's process was done
    // before, and is measured here, in a process that holds nothing else.
    let status = unsafe { c.driver().cuEventSynchronize(event) };
    if c.violations() > before {
        c.survived(before, status);
    } else {
        c.heard("", status);
    }
    Ok(())
}
