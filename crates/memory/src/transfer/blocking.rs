//! Copies of slices: through staging memory, in chunks, the copying of this thread beside the device's, and for large ones
//! beside that of further threads.
//!
//! ```text
//!   pieces 0 1 2 3 4 5 …   claimed one after the other by whichever thread is free
//!            │ │
//!            ▼ ▼           a thread: chunk 0 │ chunk 1 │ …   waited for, copied, queued, marked; and round again
//! ```
//!
//! The device reads and writes staging memory alone. Whatever fails, and however this is left, the slice isn't touched
//! once the call is over.

#![expect(unsafe_code, reason = "copies between slices and staging memory")]

use super::{
    options::StagingOptions,
    plan::{Piece, Plan},
    staging::{CHUNKS_MAX, Lease},
    stream_copy::{self, Next},
};
use bytemuck::Pod;
use cuhold_handles::{Error, Result, scope};
use std::{
    panic,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// Who is told how many bytes are done.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(usize);

/// Copies a slice to the device and waits. The slice is as large as what the plan moves.
pub(crate) fn upload<T: Pod>(
    plan: Plan<'_>,
    src: &[T],
    options: StagingOptions,
    tell: Tell<'_>,
) -> Result<()> {
    let src: &[u8] = bytemuck::cast_slice(src);
    // Only read, on the way in.
    let host = Host { ptr: src.as_ptr().cast_mut(), len: src.len() };
    copy(Way::In, plan, host, options, tell)
}

/// Copies device memory to a slice and waits. The slice is as large as what the plan moves.
pub(crate) fn download<T: Pod>(
    plan: Plan<'_>,
    dst: &mut [T],
    options: StagingOptions,
    tell: Tell<'_>,
) -> Result<()> {
    let dst: &mut [u8] = bytemuck::cast_slice_mut(dst);
    let host = Host { ptr: dst.as_mut_ptr(), len: dst.len() };
    copy(Way::Out, plan, host, options, tell)
}

/// The bytes of a slice that is borrowed for as long as the copy takes: for a copy out exclusively.
#[derive(Clone, Copy)]
struct Host {
    ptr: *mut u8,
    len: usize,
}

/// A copy, as all its threads see it.
struct Job<'a> {
    way: Way,
    plan: Plan<'a>,
    host: Host,
    options: StagingOptions,
    next: Next,
    pieces: usize,
    /// The first piece that nobody has claimed yet.
    unclaimed: AtomicUsize,
    /// How many bytes are done.
    done: AtomicUsize,
    /// Something failed: no further piece is claimed.
    stopped: AtomicBool,
}

// SAFETY: of the slice each thread touches the pieces that it claimed alone, which don't overlap; the rest is `Sync`.
unsafe impl Sync for Job<'_> {}

fn copy(
    way: Way,
    plan: Plan<'_>,
    host: Host,
    options: StagingOptions,
    tell: Tell<'_>,
) -> Result<()> {
    options.check()?;
    let bytes = plan.bytes();
    if bytes == 0 || host.len != bytes {
        return Ok(());
    }
    plan.home().driver().check_callable()?;
    let past = bytes >= options.streaming_bytes;
    let job = Job {
        way,
        plan,
        host,
        options,
        next: if past { Next::Elsewhere } else { Next::Here },
        pieces: plan.pieces(options.chunk_bytes),
        unclaimed: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
    };
    let threads = options.threads_for(bytes, job.pieces);
    let mut last = 0;
    job.spread(threads, &mut |done| {
        last = done;
        tell(done);
    })?;
    if last != bytes {
        // Another thread copied the last piece.
        tell(bytes);
    }
    Ok(())
}

impl<'a> Job<'a> {
    /// Works on so many threads, this one included. Where one can't be started the others do its work.
    fn spread(&self, threads: usize, tell: Tell<'_>) -> Result<u32> {
        if threads <= 1 {
            return self.work(tell);
        }
        thread::scope(|scope| {
            let other = thread::Builder::new()
                .name("cuhold copy".to_owned())
                .spawn_scoped(scope, || self.spread(threads.saturating_sub(1), &mut |_| {}));
            let mine = self.work(tell);
            match other.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(theirs)) => both(mine, theirs),
                // It runs no foreign code but the driver's.
                Ok(Err(payload)) => panic::resume_unwind(payload),
                Err(_not_started) => mine,
            }
        })
    }

    /// Copies pieces in relaxed capture mode until there are none left; after a failure waits until the staging memory is
    /// free again. Gives how many were queued.
    fn work(&self, tell: Tell<'_>) -> Result<u32> {
        let _stop = StopOnPanic(&self.stopped);
        let home = self.plan.home();
        let work = || {
            let mut queued = 0;
            let mut lease =
                Lease::take(home, self.options.chunks.min(self.pieces), self.options.chunk_bytes)?;
            let result = match self.way {
                Way::In => self.copy_in(&mut lease, &mut queued, tell),
                Way::Out => self.copy_out(&mut lease, &mut queued, tell),
            };
            match result {
                Ok(()) => Ok(queued),
                Err(error) => {
                    self.stopped.store(true, Ordering::Relaxed);
                    let error = lease.settle(error);
                    Err(if queued == 0 { error } else { error.with_completed(queued) })
                }
            }
        };
        let driver = home.driver();
        let result = scope::neutral(driver, work, |queued, error| error.with_completed(queued));
        if result.is_err() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        result
    }

    /// The next piece that nobody works on.
    fn claim(&self) -> Option<Piece<'a>> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let step = self.unclaimed.fetch_add(1, Ordering::Relaxed);
        (step < self.pieces).then(|| self.plan.piece(step, self.options.chunk_bytes))
    }

    fn copy_in(&self, lease: &mut Lease<'_>, queued: &mut u32, tell: Tell<'_>) -> Result<()> {
        let mut slot = 0_usize;
        while let Some(piece) = self.claim() {
            let memory = lease.memory(slot)?;
            let from = self.at(piece)?;
            // SAFETY: a chunk is at least as large as a piece, and no copy uses it; the piece is within the slice.
            unsafe { stream_copy::copy(from, memory, piece.bytes, self.next) };
            // SAFETY: the chunk isn't written or freed before the lease knows that the copy is done.
            let copy = |memory: *mut u8| unsafe { piece.copy_in(memory.cast_const().cast()) };
            lease.queue(slot, copy, queued)?;
            slot = slot.wrapping_add(1);
            self.tell(piece, tell);
        }
        for slot in 0..lease.len() {
            lease.memory(slot)?;
        }
        Ok(())
    }

    fn copy_out(&self, lease: &mut Lease<'_>, queued: &mut u32, tell: Tell<'_>) -> Result<()> {
        let mut under_way = [const { None }; CHUNKS_MAX];
        let mut queue_next = |lease: &mut Lease<'_>, slot: usize| {
            let Some(piece) = self.claim() else { return Ok(None) };
            // SAFETY: the chunk isn't read or freed before the lease knows that the copy is done.
            let copy = |memory: *mut u8| unsafe { piece.copy_out(memory.cast()) };
            lease.queue(slot, copy, queued).map(|()| Some(piece))
        };
        let slots = lease.len();
        for (slot, piece) in under_way.iter_mut().enumerate().take(slots) {
            *piece = queue_next(lease, slot)?;
        }
        for slot in (0..slots).cycle() {
            let Some(place) = under_way.get_mut(slot) else { return Ok(()) };
            let Some(piece) = place.take() else { return Ok(()) };
            let memory = lease.memory(slot)?;
            let to = self.at(piece)?;
            // SAFETY: the copy into the chunk is done, which is at least as large as the piece, which is within the slice.
            unsafe { stream_copy::copy(memory, to, piece.bytes, self.next) };
            *place = queue_next(lease, slot)?;
            self.tell(piece, tell);
        }
        Ok(())
    }

    /// Where a piece is in the slice.
    fn at(&self, piece: Piece<'_>) -> Result<*mut u8> {
        let fits = piece.offset.checked_add(piece.bytes).is_some_and(|end| end <= self.host.len);
        if !fits {
            // Not met: the slice is as large as what the plan moves.
            return Err(Error::state("a piece of a copy lies outside of its slice"));
        }
        Ok(self.host.ptr.wrapping_add(piece.offset))
    }

    fn tell(&self, piece: Piece<'_>, tell: Tell<'_>) {
        let before = self.done.fetch_add(piece.bytes, Ordering::Relaxed);
        tell(before.saturating_add(piece.bytes));
    }
}

/// What two threads have done.
fn both(mine: Result<u32>, theirs: Result<u32>) -> Result<u32> {
    match (mine, theirs) {
        (Ok(mine), Ok(theirs)) => Ok(mine.saturating_add(theirs)),
        (Err(error), Ok(others)) | (Ok(others), Err(error)) => {
            let all = error.completed().unwrap_or(0).saturating_add(others);
            Err(if all == 0 { error } else { error.with_completed(all) })
        }
        (Err(first), Err(second)) => {
            let all = first.completed().unwrap_or(0);
            let all = all.saturating_add(second.completed().unwrap_or(0));
            let error = first.with_second(&second);
            Err(if all == 0 { error } else { error.with_completed(all) })
        }
    }
}

/// Lets the other threads end early where this one unwinds.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
