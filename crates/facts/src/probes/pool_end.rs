//! Pools that are destroyed while streams on which their memory was freed have work pending.
//!
//! Source: measured; no manual says it.

use cuhold_driver_sys::{Call, ffi::*};

use crate::{ctx::Ctx, host, probe::Probe, setup::Made};

const POOLS: usize = 16;
const BYTES: usize = 40;
/// How often memory is filled, so that the stream is still busy when the next call is made.
const FILLS: usize = 16;

pub(super) const PROBES: &[Probe] = &[
    Probe::crashes(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of the legacy stream",
        |c| destroyed_early(c, Kind::Legacy, Course::PLAIN),
    )
    .of_freed_host_memory(),
    Probe::crashes(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of the per-thread stream",
        |c| destroyed_early(c, Kind::PerThread, Course::PLAIN),
    )
    .of_freed_host_memory(),
    Probe::crashes(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of a created stream",
        |c| destroyed_early(c, Kind::Blocking, Course::PLAIN),
    )
    .of_freed_host_memory(),
    Probe::crashes(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of a non-blocking stream",
        |c| destroyed_early(c, Kind::NonBlocking, Course::PLAIN),
    )
    .of_freed_host_memory(),
    Probe::crashes(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of the legacy stream, and its memory is freed then",
        |c| destroyed_early(c, Kind::Legacy, Course { frees: Frees::Last, ..Course::PLAIN }),
    )
    .of_freed_host_memory(),
    Probe::crashes(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of a created stream, and its memory is freed then",
        |c| destroyed_early(c, Kind::NonBlocking, Course { frees: Frees::Last, ..Course::PLAIN }),
    )
    .of_freed_host_memory(),
    Probe::crashes(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind work that the stream which freed its memory waits for",
        |c| {
            let course = Course { frees: Frees::Elsewhere, ends: Ends::WaitsThere, ..Course::PLAIN };
            destroyed_early(c, Kind::NonBlocking, course)
        },
    )
    .of_freed_host_memory(),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of a stream that didn't free its memory",
        |c| {
            let course = Course { frees: Frees::Elsewhere, ..Course::PLAIN };
            destroyed_early(c, Kind::NonBlocking, course)
        },
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of a stream that is destroyed too",
        |c| {
            let course = Course { ends: Ends::Destroyed, ..Course::PLAIN };
            destroyed_early(c, Kind::NonBlocking, course)
        },
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind pending work of a stream that isn't waited for again",
        |c| {
            let course = Course { ends: Ends::WaitsForAnother, ..Course::PLAIN };
            destroyed_early(c, Kind::Blocking, course)
        },
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed once the legacy stream was waited for",
        |c| destroyed_early(c, Kind::Legacy, Course { waits: Waits::Behind, ..Course::PLAIN }),
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed once a created stream was waited for",
        |c| destroyed_early(c, Kind::NonBlocking, Course { waits: Waits::Behind, ..Course::PLAIN }),
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind frees that follow a wait for their stream",
        |c| destroyed_early(c, Kind::NonBlocking, Course { waits: Waits::Before, ..Course::PLAIN }),
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind frees of the legacy stream alone",
        |c| destroyed_early(c, Kind::Legacy, Course { works: false, ..Course::PLAIN }),
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool is destroyed behind frees of a created stream alone",
        |c| destroyed_early(c, Kind::NonBlocking, Course { works: false, ..Course::PLAIN }),
    ),
];

#[derive(Clone, Copy)]
enum Kind {
    Legacy,
    PerThread,
    Blocking,
    NonBlocking,
}

impl Kind {
    fn stream(self, c: &Ctx) -> Made<CUstream> {
        match self {
            Self::Legacy => Ok(CU_STREAM_LEGACY),
            Self::PerThread => Ok(CU_STREAM_PER_THREAD),
            Self::Blocking => c.blocking_stream(),
            Self::NonBlocking => c.stream(),
        }
    }
}

/// How the memory is freed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frees {
    First,
    /// Once the pool was destroyed.
    Last,
    /// On another stream, which waits for the work.
    Elsewhere,
}

/// When the host waits for the stream that works.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Never,
    /// Before the frees.
    Before,
    /// Behind the frees.
    Behind,
}

/// What follows all of it: work, and a wait for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Waits,
    /// On the stream that freed.
    WaitsThere,
    WaitsForAnother,
    /// On another stream, once the first is destroyed.
    Destroyed,
}

#[derive(Clone, Copy)]
struct Course {
    works: bool,
    frees: Frees,
    waits: Waits,
    ends: Ends,
}

impl Course {
    const PLAIN: Self =
        Self { works: true, frees: Frees::First, waits: Waits::Never, ends: Ends::Waits };
}

/// Pools whose memory a stream fills, each destroyed at once; then work, and a wait for it.
fn destroyed_early(c: &mut Ctx, kind: Kind, course: Course) -> Made<()> {
    c.current()?;
    let before = c.violations();
    let stream = kind.stream(c)?;
    let freeing = match course.frees {
        Frees::Elsewhere => c.stream()?,
        _ => stream,
    };
    for _ in 0..POOLS {
        one_pool(c, (stream, freeing), course)?;
    }
    let last = match course.ends {
        Ends::Waits => stream,
        Ends::WaitsThere => freeing,
        Ends::WaitsForAnother => c.stream()?,
        Ends::Destroyed => {
            must!(c.cuStreamDestroy_v2(stream));
            c.stream()?
        }
    };
    later(c, last, before)
}

fn one_pool(c: &Ctx, (stream, freeing): (CUstream, CUstream), course: Course) -> Made<()> {
    let pool = c.pool()?;
    let mut both = [0; 2];
    for memory in &mut both {
        must!(c.cuMemAllocFromPoolAsync(memory, BYTES, pool, stream));
        for _ in 0..if course.works { FILLS } else { 0 } {
            must!(c.cuMemsetD8Async(*memory, 0, BYTES, stream));
        }
    }
    if course.waits == Waits::Before {
        c.wait_for(stream)?;
    }
    if course.frees == Frees::Elsewhere {
        let event = c.event()?;
        must!(c.cuEventRecord(event, stream));
        must!(c.cuStreamWaitEvent(freeing, event, 0));
    }
    if course.frees == Frees::Last {
        must!(c.cuMemPoolDestroy(pool));
    }
    for memory in both {
        must!(c.cuMemFreeAsync(memory, freeing));
    }
    if course.waits == Waits::Behind {
        c.wait_for(stream)?;
    }
    if course.frees != Frees::Last {
        must!(c.cuMemPoolDestroy(pool));
    }
    Ok(())
}

/// Memory of the default pool, a copy from it, and a wait for the stream through an event.
fn later(c: &mut Ctx, stream: CUstream, before: usize) -> Made<()> {
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
