//! Copies of slices: through staging memory, in chunks, the calling thread's copying beside the device's.
//!
//! The device reads and writes staging memory alone. Whatever fails, and however this is left, the slice isn't touched
//! once the call is over.

#![expect(unsafe_code, reason = "copies between slices and staging memory")]

use super::{Span, chunk::CHUNK_BYTES, copy_in, copy_out, staging::Lease};
use bytemuck::Pod;
use cuhold_handles::{Result, scope};

/// Copies a slice to the device and waits. The slice is as large as the span.
pub(crate) fn upload<T: Pod>(dst: Span<'_>, src: &[T]) -> Result<()> {
    if dst.bytes == 0 {
        return Ok(());
    }
    let src: &[u8] = bytemuck::cast_slice(src);
    staged(dst, |lease, queued| {
        for (step, part) in src.chunks(CHUNK_BYTES).enumerate() {
            let memory = lease.memory(step)?;
            // SAFETY: a chunk is at least as large as the part, and no copy uses it.
            unsafe { memory.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            let span = piece(dst, step, part.len());
            // SAFETY: the chunk isn't written or freed before the lease knows that the copy is done.
            let copy = |memory: *mut u8| unsafe { copy_in(span, memory.cast_const().cast()) };
            lease.queue(step, copy, queued)?;
        }
        for step in 0..lease.len() {
            lease.memory(step)?;
        }
        Ok(())
    })
}

/// Copies device memory to a slice and waits. The slice is as large as the span.
pub(crate) fn download<T: Pod>(src: Span<'_>, dst: &mut [T]) -> Result<()> {
    if src.bytes == 0 {
        return Ok(());
    }
    let dst: &mut [u8] = bytemuck::cast_slice_mut(dst);
    staged(src, |lease, queued| {
        let ahead = lease.len();
        let mut to_queue = (0..src.bytes.div_ceil(CHUNK_BYTES)).fuse();
        let mut queue_next = |lease: &mut Lease<'_>| {
            let Some(step) = to_queue.next() else { return Ok(()) };
            let left = src.bytes.saturating_sub(step.saturating_mul(CHUNK_BYTES));
            let span = piece(src, step, left.min(CHUNK_BYTES));
            // SAFETY: the chunk isn't read or freed before the lease knows that the copy is done.
            let copy = |memory: *mut u8| unsafe { copy_out(span, memory.cast()) };
            lease.queue(step, copy, queued)
        };
        for _ in 0..ahead {
            queue_next(lease)?;
        }
        for (step, part) in dst.chunks_mut(CHUNK_BYTES).enumerate() {
            let memory = lease.memory(step)?;
            // SAFETY: the copy into the chunk is done, which is at least as large as the part.
            unsafe { memory.copy_to_nonoverlapping(part.as_mut_ptr(), part.len()) };
            queue_next(lease)?;
        }
        Ok(())
    })
}

/// The part of a range that one chunk carries.
fn piece(span: Span<'_>, step: usize, bytes: usize) -> Span<'_> {
    let offset = step.saturating_mul(CHUNK_BYTES) as u64;
    Span { ptr: span.ptr.saturating_add(offset), bytes, ..span }
}

/// Runs a staged copy in relaxed capture mode; after a failure waits until the staging memory is free again.
fn staged(span: Span<'_>, work: impl FnOnce(&mut Lease<'_>, &mut u32) -> Result<()>) -> Result<()> {
    let driver = span.home.driver();
    driver.check_callable()?;
    scope::neutral(
        driver,
        || {
            let mut queued = 0;
            let mut lease = Lease::take(span.home, span.bytes)?;
            let result = work(&mut lease, &mut queued);
            match result {
                Ok(()) => Ok(queued),
                Err(error) => {
                    let error = lease.settle(error);
                    Err(if queued == 0 { error } else { error.with_completed(queued) })
                }
            }
        },
        |queued, error| error.with_completed(queued),
    )
    .map(drop)
}
