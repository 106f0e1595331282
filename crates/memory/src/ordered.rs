//! Stream-ordered memory: the driver's allocating and freeing calls.
//!
//! | | created stream | exposed stream | default stream |
//! |---|---|---|---|
//! | allocate | 1 | 2: asks whether it is captured | the same in its context |
//! | free | 3: relaxed mode, the free, the mode back | 3 | asks first, in its context |
//!
//! An allocation on a captured stream would be memory of that graph (measured), so it is refused. A free of other memory
//! on a captured stream is refused by the driver, and the capture goes on (measured); on a default stream beside a
//! capturing blocking stream it would invalidate that capture, so that stream is asked first.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

#![expect(unsafe_code, reason = "calls the driver's allocator")]

use crate::{
    order::{self, captured, is_capturing},
    pool::Pool,
    resource::Residence,
    source::Block,
};
use cuhold_handles::{
    Error, Note, ObjectKind, Result, Stream,
    driver_sys::{CUresult, Call, Calls, ContextUse, Failure, ffi::CUdeviceptr},
    scope::{self, Outcome, Undo},
};

/// The tag of a block that came from a pool of a device's memory that was named.
const POOL: u64 = 0;
/// The tag of a block that came from the device's current pool.
const CURRENT: u64 = 1;
/// The tag of a block of a pool of the host's memory.
const HOST: u64 = 2;
/// The tag of a block of a pool of managed memory.
const MANAGED: u64 = 3;
/// The tag of a block of a pool of the host's first NUMA node; the next nodes' follow.
const HOST_NUMA: u64 = 16;

/// The tag of a block of a pool of such memory.
fn tag_of(residence: Residence) -> u64 {
    match residence {
        Residence::Device => POOL,
        Residence::Host => HOST,
        Residence::HostNuma(node) => HOST_NUMA.saturating_add(u64::from(node.unsigned_abs())),
        Residence::Managed => MANAGED,
    }
}

/// Where stream-ordered memory lies.
#[cfg_attr(not(test), expect(dead_code, reason = "what buffers tell of themselves"))]
pub(crate) fn residence(block: Block) -> Residence {
    match block.tag {
        HOST => Residence::Host,
        MANAGED => Residence::Managed,
        tag if tag >= HOST_NUMA => {
            let node = tag.saturating_sub(HOST_NUMA);
            i32::try_from(node).map_or(Residence::Host, Residence::HostNuma)
        }
        _ => Residence::Device,
    }
}

/// What warnings call stream-ordered memory.
pub(crate) fn memory_kind(block: Block) -> ObjectKind {
    if block.tag == CURRENT { ObjectKind::AsyncMemory } else { ObjectKind::PoolMemory }
}

/// Allocates from a pool, or from the current pool of the stream's device.
///
/// Calls `cuMemAllocFromPoolAsync` or `cuMemAllocAsync`, `cuStreamIsCapturing`.
#[inline]
pub(crate) fn allocate(pool: Option<&Pool>, bytes: usize, stream: &Stream) -> Result<Block> {
    let driver = stream.driver();
    if let Some(pool) = pool {
        pool.check_stream(stream)?;
    }
    if bytes == 0 {
        return Ok(Block::EMPTY);
    }
    let make = |calls: Calls<'_>| {
        if is_capturing(calls, stream)? {
            return Ok(None);
        }
        allocate_with(calls, pool, bytes, stream).map(Some)
    };
    let made = if stream.is_token() {
        let mut columns = Call::cuMemFreeAsync.columns();
        // Freed on the same stream, which means another one with another context current.
        columns.context = ContextUse::Owner;
        let undo = Undo {
            columns,
            // SAFETY: *handles*: allocated a moment ago on this stream, and given to nobody; null frees nothing.
            destroy: |calls: Calls<'_>, made: Option<CUdeviceptr>| unsafe {
                calls.cuMemFreeAsync(made.unwrap_or(0), stream.raw())
            },
            raw: |made: Option<CUdeviceptr>| made.unwrap_or(0),
        };
        scope::create(stream.context().target(), make, undo)
    } else {
        make(driver.callable()?).map_err(|failure| driver.error(failure))
    };
    match made {
        Ok(Some(ptr)) => {
            if let Some(pool) = pool {
                pool.keep_stream(stream);
            }
            Ok(Block { ptr, bytes, tag: pool.map_or(CURRENT, |pool| tag_of(pool.residence())) })
        }
        Ok(None) => Err(captured()),
        Err(error) => Err(explained(error, pool)),
    }
}

#[inline]
fn allocate_with(
    calls: Calls<'_>,
    pool: Option<&Pool>,
    bytes: usize,
    stream: &Stream,
) -> Result<CUdeviceptr, Failure> {
    let mut ptr: CUdeviceptr = 0;
    match pool {
        // SAFETY: *handles*: both are borrowed, so live; *pointers*: a live local.
        Some(pool) => unsafe {
            calls.cuMemAllocFromPoolAsync(&raw mut ptr, bytes, pool.raw(), stream.raw())
        },
        // SAFETY: as above.
        None => unsafe { calls.cuMemAllocAsync(&raw mut ptr, bytes, stream.raw()) },
    }?;
    Ok(ptr)
}

/// Says of a pool's refusal what its cap is.
#[cold]
fn explained(error: Error, pool: Option<&Pool>) -> Error {
    match pool.and_then(Pool::max_bytes) {
        Some(max) if error.is(CUresult::OUT_OF_MEMORY) => {
            error.with_note(Note::Text(format!("the pool was made for at most {max} bytes").into()))
        }
        _ => error,
    }
}

/// Frees in the order of the stream.
///
/// Calls `cuMemFreeAsync`, in relaxed capture mode; for a default stream `cuStreamIsCapturing` before it, both in its
/// context.
///
/// # Safety
/// The memory was allocated in a stream's order, isn't freed yet, and nobody uses it but work that is ordered before
/// what is queued on the stream from now on.
pub(crate) unsafe fn free(ptr: CUdeviceptr, stream: &Stream) -> Outcome {
    order::cleanup(stream, Call::cuMemFreeAsync, |calls| {
        if stream.is_token() {
            // Its failure stands for the free, which isn't made: it would invalidate the capture beside.
            is_capturing(calls, stream)?;
        }
        // SAFETY: *handles*: the stream is borrowed; the memory is the caller's promise.
        unsafe { calls.cuMemFreeAsync(ptr, stream.raw()) }
    })
}

/// Whether a free failed because the stream is captured, or stands beside a capture: then nothing was freed.
///
/// Calls `cuStreamIsCapturing`, if the stream is exposed and the failure may be that.
#[cold]
pub(crate) fn was_captured(stream: &Stream, outcome: &Outcome) -> Result<bool, Failure> {
    match outcome.operation {
        Some(Failure { call: Call::cuStreamIsCapturing, .. }) => Ok(true),
        Some(Failure { status: CUresult::INVALID_VALUE, .. }) if !stream.is_token() => {
            is_capturing(stream.driver().calls(), stream)
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::{CURRENT, residence, tag_of};
    use crate::{resource::Residence, source::Block};

    #[test]
    fn a_block_s_tag_tells_where_it_lies() {
        let all =
            [Residence::Device, Residence::Host, Residence::HostNuma(0), Residence::HostNuma(7)];
        for place in all.into_iter().chain([Residence::Managed]) {
            assert_eq!(residence(Block { tag: tag_of(place), ..Block::EMPTY }), place);
        }
        assert_eq!(residence(Block { tag: CURRENT, ..Block::EMPTY }), Residence::Device);
    }
}
