//! Staging memory: what a context keeps of it between copies, and what a copy takes of it.
//!
//! ```text
//!   context ─ kept ──► Staging { idle chunks }
//!                        take ▼        ▲ give back: every copy from and to it is done
//!                           Lease { slots }
//!                               └─ a wait failed ─► the reclaimer waits, then ends the chunks; can't it, they are leaked
//! ```
//!
//! The lock is held to take chunks and to give them back, not while one is made, waited for or ended. A context of
//! somebody else's keeps nothing, since its end isn't known: its chunks are made for each copy.

use super::chunk::Chunk;
use crate::{
    kept::Kept,
    order::{self, Wait},
};
use cuhold_handles::{
    CudaWarning, Driver, Error, Fate, Result, Stream,
    driver_sys::{Call, Calls, mutant},
};
use parking_lot::Mutex;
use std::mem;

/// How many chunks a thread uses at once, at most.
pub(super) const CHUNKS_MAX: usize = 8;

/// How many idle chunks a context keeps. Those beyond it are ended by the reclaimer.
const IDLE_MAX: usize = 8;

/// The idle chunks of a context.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    idle: Mutex<Vec<Chunk>>,
}

impl Staging {
    /// Ends the idle chunks; their context is about to end.
    ///
    /// Calls `cuEventDestroy`, `cuMemFreeHost`.
    pub(crate) fn end(&self, calls: Calls<'_>, warn: &mut dyn FnMut(CudaWarning)) {
        let idle = mem::take(&mut *self.idle.lock());
        for chunk in idle {
            chunk.end(calls, warn);
        }
    }

    /// Fills places from the idle chunks of this size, as many as there are.
    fn take(&self, places: &mut [Option<Slot>], bytes: usize) {
        let mut idle = self.idle.lock();
        for place in places {
            let found = idle.iter().rposition(|chunk| chunk.bytes() == bytes);
            let Some(found) = found else { return };
            *place = Some(Slot { chunk: idle.swap_remove(found), state: Use::Done });
        }
    }

    /// Empties places whose copies are done, as many as there is room for.
    fn give_back(&self, places: &mut [Option<Slot>]) {
        let mut idle = self.idle.lock();
        let room = IDLE_MAX.saturating_sub(idle.len());
        let taken = places.iter_mut().filter(|place| place.is_some()).take(room);
        idle.extend(taken.filter_map(Option::take).map(|slot| slot.chunk));
    }
}

/// What is known of the copy that used a chunk last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// It is done.
    Done,
    /// It is queued, and the chunk's event marks it.
    Marked,
    /// It may be queued.
    Unknown,
}

/// A chunk in use.
#[derive(Debug)]
struct Slot {
    chunk: Chunk,
    state: Use,
}

/// The chunks of one copy.
pub(super) struct Lease<'a> {
    home: &'a Stream,
    /// The first `len` are there until the lease is dropped.
    slots: [Option<Slot>; CHUNKS_MAX],
    len: usize,
}

impl<'a> Lease<'a> {
    /// Takes so many chunks of this size, at least one.
    ///
    /// Calls `cuEventCreate`, `cuMemHostAlloc` for those that must be made.
    pub(super) fn take(home: &'a Stream, chunks: usize, bytes: usize) -> Result<Self> {
        let len = chunks.clamp(1, CHUNKS_MAX);
        let context = home.context();
        let mut lease = Self { home, slots: [const { None }; CHUNKS_MAX], len };
        let places = lease.slots.get_mut(..len).unwrap_or_default();
        if let Some(kept) = context.extra(Kept::default) {
            kept.staging.take(places, bytes);
        }
        for place in places.iter_mut().filter(|place| place.is_none()) {
            *place = Some(Slot { chunk: Chunk::new(context, bytes)?, state: Use::Done });
        }
        Ok(lease)
    }

    /// How many chunks there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn slot(&mut self, step: usize) -> Result<&mut Slot> {
        let index = step.checked_rem(self.len).unwrap_or(0);
        let slot = self.slots.get_mut(index).and_then(Option::as_mut);
        slot.ok_or_else(|| Error::state("a copy without staging memory"))
    }

    fn is_settled(&self) -> bool {
        self.slots.iter().flatten().all(|slot| slot.state == Use::Done)
    }

    /// Where the memory of this step is, once the copy that used it before is done.
    ///
    /// Calls `cuEventSynchronize`, if there was one.
    pub(super) fn memory(&mut self, step: usize) -> Result<*mut u8> {
        let driver = self.home.driver();
        let slot = self.slot(step)?;
        if slot.state == Use::Marked {
            slot.state = Use::Unknown;
            slot.chunk.wait(driver.calls()).map_err(|failure| driver.error(failure))?;
            slot.state = Use::Done;
        }
        Ok(slot.chunk.memory())
    }

    /// Queues the copy of this step by `copy`, and marks it.
    ///
    /// Calls what `copy` calls, `cuEventRecord`.
    pub(super) fn queue(
        &mut self,
        step: usize,
        copy: impl FnOnce(*mut u8) -> Result<()>,
        queued: &mut u32,
    ) -> Result<()> {
        let home = self.home;
        let slot = self.slot(step)?;
        match copy(slot.chunk.memory()) {
            Ok(()) => *queued += 1,
            Err(error) => {
                if order::may_be_queued(&error) {
                    slot.state = Use::Unknown;
                }
                *queued += error.completed().unwrap_or(0);
                return Err(error);
            }
        }
        slot.state = Use::Unknown;
        slot.chunk.mark(home)?;
        slot.state = Use::Marked;
        Ok(())
    }

    /// After a failure: waits for everything on the stream, after which every chunk is free again. A second failure is a
    /// note.
    ///
    /// Calls `cuStreamSynchronize`.
    #[cold]
    pub(super) fn settle(&mut self, error: Error) -> Error {
        if self.is_settled() {
            return error;
        }
        let (wait, outcome) = order::settle(self.home);
        if wait == Wait::Done {
            self.slots.iter_mut().flatten().for_each(|slot| slot.state = Use::Done);
        }
        let error = match outcome.into_error(self.home.driver()) {
            Some(second) => error.with_second(&second),
            None => error,
        };
        order::note_wait(error, wait)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let is_settled = self.is_settled() || mutant::is_out("staging-settle");
        if is_settled && let Some(kept) = self.home.context().extra(Kept::default) {
            kept.staging.give_back(&mut self.slots);
        }
        if self.slots.iter().any(Option::is_some) {
            let left = self.slots.iter_mut().filter_map(Option::take).map(|slot| slot.chunk);
            retire(self.home, left.collect(), is_settled);
        }
    }
}

/// Leaves the end of chunks to the reclaimer, after everything on the stream.
#[cold]
fn retire(home: &Stream, chunks: Vec<Chunk>, is_settled: bool) {
    let inlet = home.driver().reclaim().inlet();
    let (context, home) = (home.context().as_raw(), home.clone());
    inlet.defer(Some(context), move || {
        let driver = home.driver();
        if !is_settled {
            let (wait, outcome) = order::settle(&home);
            if let Some(first) = chunks.first() {
                let call = Call::cuStreamSynchronize;
                order::warn_of_wait(driver, wait, outcome, call, first.object());
            }
            if wait != Wait::Done && !mutant::is_out("staging-leak") {
                return leak(driver, chunks);
            }
        }
        for chunk in chunks {
            chunk.end(driver.calls(), &mut |warning| driver.warn(warning));
        }
    });
}

/// Keeps the memory of chunks for good. That of the first was told with the failed wait.
#[cold]
fn leak(driver: &Driver, chunks: Vec<Chunk>) {
    let warn = &mut |warning| driver.warn(warning);
    for (index, chunk) in chunks.into_iter().enumerate() {
        if index > 0 {
            warn(CudaWarning::note(chunk.object(), NOT_WAITED_FOR).with_fate(Fate::Leaked));
        }
        chunk.leak(driver.calls(), warn);
    }
}

const NOT_WAITED_FOR: &str = "a copy that may use it couldn't be waited for";
