//! How cached blocks go back to the pool: what there is no room for, a trim, the end of a stream or of the resource, and when
//! memory is out.
//!
//! A free that the driver refuses because somebody captures the stream loses nothing: the block goes back to the shelf. One
//! that fails otherwise may have been carried out, so the block is not used again, and what failed is told.

#![expect(unsafe_code, reason = "frees what nobody uses")]

use super::{cache::Cache, class, lane::Lane, state::Over};
use crate::{order, ordered};
use cuhold_handles::{
    CudaWarning, Error, Fate, Mark, Note, Object, ObjectKind, Result, Stream, StreamWatch,
    callback,
    driver_sys::{Call, Life, mutant},
    scope::{self, Outcome},
};
use std::sync::{Arc, atomic::Ordering};

/// What came of a free.
enum Freed {
    Gone,
    /// Refused, because somebody captures the stream, or inside a callback of somebody else.
    Refused,
    /// It isn't known, or the memory is lost.
    Failed(Outcome),
}

/// The first error, with those that came later.
pub(super) fn join(first: &mut Option<Error>, error: Error) {
    *first = Some(match first.take() {
        None => error,
        Some(first) => first.with_second(&error),
    });
}

/// Frees a block that nobody uses but work that is queued on the stream.
fn try_free(ptr: u64, stream: &Stream) -> Freed {
    // SAFETY: it came from the pool and is the cache's, which gives it back once; whoever had it gave it back in the order of
    // this stream.
    let outcome = unsafe { ordered::free(ptr, stream) };
    if outcome.is_clean() {
        return Freed::Gone;
    }
    if outcome.is_not_permitted() && scope::is_in_callback(stream.driver().calls()) {
        return Freed::Refused;
    }
    match ordered::was_captured(stream, &outcome) {
        Ok(true) if !mutant::is_out("cache-refused") => Freed::Refused,
        _ => Freed::Failed(outcome),
    }
}

/// What to tell of a block whose free failed.
#[cold]
fn lost(ptr: u64, outcome: Outcome, stream: &Stream) -> Option<Error> {
    let error = outcome.into_error(stream.driver())?;
    Some(if outcome.is_asked() { error } else { error.with_note(Note::Leaked { raw: ptr }) })
}

impl Cache {
    /// Frees a block that isn't any lane's; it is gone whatever comes out.
    pub(super) fn free(&self, ptr: u64, class: usize, stream: &Stream) -> Result<()> {
        // SAFETY: as `try_free`.
        let outcome = unsafe { ordered::free(ptr, stream) };
        if outcome.is_not_permitted() && scope::is_in_callback(stream.driver().calls()) {
            return outcome.into_error(stream.driver()).map_or(Ok(()), Err);
        }
        self.reserved.fetch_sub(class::bytes(class), Ordering::Relaxed);
        let leaked = !outcome.is_asked() || ordered::was_captured(stream, &outcome) == Ok(true);
        match outcome.into_error(stream.driver()) {
            None => Ok(()),
            Some(error) if leaked => Err(error.with_note(Note::Leaked { raw: ptr })),
            Some(error) => Err(error),
        }
    }

    /// Gives blocks of a lane back to the pool; those that are refused go back to its shelf. Gives how many bytes went, and
    /// whether some were refused.
    pub(super) fn give_over(
        &self,
        lane: &Arc<Lane>,
        over: &Over,
        tell: &mut dyn FnMut(Error),
    ) -> (usize, bool) {
        let (mut gone, mut is_refused) = (0, false);
        let stream = lane.stream();
        for (class, ptr) in over.iter() {
            let freed = if is_refused { Freed::Refused } else { try_free(ptr, stream) };
            if let Freed::Refused = freed {
                lane.shelf().lay_back(class, ptr);
                is_refused = true;
                continue;
            }
            lane.shelf().part(class);
            self.reserved.fetch_sub(class::bytes(class), Ordering::Relaxed);
            match freed {
                Freed::Failed(outcome) => _ = lost(ptr, outcome, stream).map(&mut *tell),
                Freed::Gone | Freed::Refused => gone += class::bytes(class),
            }
        }
        self.end_if_done(lane);
        (gone, is_refused)
    }

    /// Gives blocks on a lane's shelf back until no more than `keep` bytes lie there.
    fn clear(&self, lane: &Arc<Lane>, keep: usize, tell: &mut dyn FnMut(Error)) -> (usize, bool) {
        let mut gone = 0;
        loop {
            let mut over = Over::new();
            lane.shelf().clear(keep, &mut over);
            if over.is_empty() {
                return (gone, false);
            }
            let (bytes, is_refused) = self.give_over(lane, &over, tell);
            gone += bytes;
            if is_refused {
                return (gone, true);
            }
        }
    }

    /// Lets go of a lane that is closed and has no block any more, and of what it kept.
    pub(super) fn end_if_done(&self, lane: &Arc<Lane>) {
        let (mut removed, mut cache) = (None, None);
        {
            let mut lanes = self.lanes.lock();
            let mut shelf = lane.shelf();
            if shelf.is_empty() {
                cache = shelf.cache.take();
                let id = lane.stream().id();
                let is_there = lanes.get(&id).is_some_and(|there| Arc::ptr_eq(there, lane));
                if !shelf.is_open() && is_there {
                    self.past.add(&shelf.counts());
                    removed = lanes.remove(&id);
                }
            }
        }
        drop(removed);
        drop(cache);
    }

    fn all_lanes(&self) -> Vec<Arc<Lane>> {
        self.lanes.lock().values().cloned().collect()
    }

    /// Gives cached memory back until no more than `keep` bytes are cached. Streams that somebody captures are left out.
    pub(super) fn trim(&self, keep: usize) -> Result<usize> {
        let driver = self.pool().driver();
        driver.check_callable()?;
        let (mut first, mut lanes, mut cached) = (None, Vec::new(), 0_usize);
        for lane in self.all_lanes() {
            match order::is_capturing(driver.calls(), lane.stream()) {
                Ok(is_capturing) => {
                    let mut shelf = lane.shelf();
                    if is_capturing {
                        cached += shelf.counts().cached_bytes;
                        continue;
                    }
                    let _: bool = shelf.steal(false);
                    cached += shelf.counts().cached_bytes;
                }
                Err(failure) => {
                    join(&mut first, driver.error(failure));
                    continue;
                }
            }
            lanes.push(lane);
        }
        let mut gone = 0;
        for lane in lanes {
            let excess = cached.saturating_sub(keep).saturating_sub(gone);
            if excess == 0 {
                break;
            }
            let keep = lane.shelf().laid_bytes().saturating_sub(excess);
            gone += self.clear(&lane, keep, &mut |error| join(&mut first, error)).0;
        }
        self.close_left();
        first.map_or(Ok(gone), Err)
    }

    /// Gives all cached memory back and waits until it is free. `true`: there was some.
    pub(super) fn give_all_back(&self) -> Result<bool> {
        let driver = self.pool().driver();
        let (mut first, mut marks) = (None, Vec::new());
        for lane in self.all_lanes() {
            let stream = lane.stream();
            match order::is_capturing(driver.calls(), stream) {
                Ok(false) => {}
                Ok(true) => continue,
                Err(failure) => {
                    join(&mut first, driver.error(failure));
                    continue;
                }
            }
            let _: bool = lane.shelf().steal(false);
            if self.clear(&lane, 0, &mut |error| join(&mut first, error)).0 > 0 {
                match marked(stream) {
                    Ok(mark) => marks.push((lane, mark)),
                    Err(error) => join(&mut first, error),
                }
            }
        }
        for (lane, mark) in &marks {
            let outcome = order::cleanup(lane.stream(), Call::cuEventSynchronize, |calls| {
                // SAFETY: *handles*: the mark's own event.
                unsafe { calls.cuEventSynchronize(mark.raw()) }
            });
            if outcome.is_clean() {
                mark.answered();
            } else {
                mark.spoil();
            }
            if let Some(error) = outcome.into_error(driver) {
                join(&mut first, error);
            }
        }
        first.map_or(Ok(!marks.is_empty()), Err)
    }

    /// Closes a lane: what is cached goes back, and what comes back later does, too.
    fn close(&self, lane: &Arc<Lane>, is_last_try: bool) {
        let driver = lane.stream().driver();
        let _: bool = lane.shelf().steal(true);
        let mut errors = Vec::new();
        let (_, is_refused) = self.clear(lane, 0, &mut |error| errors.push(error));
        for error in errors {
            let object = Object { kind: ObjectKind::PoolMemory, raw: 0, id: driver.next_id() };
            crate::allocation::warn_of_error(driver, object, &error);
        }
        if is_refused && is_last_try {
            Self::leak_all(lane);
        }
        self.end_if_done(lane);
    }

    /// Lets go of all blocks on the shelf of a lane that can't be given back, and tells of each.
    #[cold]
    fn leak_all(lane: &Lane) {
        let driver = lane.stream().driver();
        loop {
            let mut over = Over::new();
            lane.shelf().clear(0, &mut over);
            if over.is_empty() {
                return;
            }
            for (class, ptr) in over.iter() {
                lane.shelf().part(class);
                let object =
                    Object { kind: ObjectKind::PoolMemory, raw: ptr, id: driver.next_id() };
                let warning = CudaWarning::note(object, order::CAPTURED);
                driver.warn(warning.with_fate(Fate::Leaked));
            }
        }
    }

    /// Closes the lanes of streams that nobody else has any more.
    pub(super) fn close_left(&self) {
        let left: Vec<_> = {
            let lanes = self.lanes.lock();
            lanes.values().filter(|lane| lane.is_left()).cloned().collect()
        };
        for lane in left {
            self.close(&lane, false);
        }
    }

    /// The last handle of the resource is gone.
    pub(super) fn end(self: &Arc<Self>) {
        self.ended.store(true, Ordering::Relaxed);
        if self.pool().driver().api().life() == Life::Forked {
            return;
        }
        if callback::inside() {
            // No call may be made here, and no lock taken.
            let cache = Arc::clone(self);
            let inlet = self.pool().driver().reclaim().inlet();
            return inlet.defer(None, move || cache.end());
        }
        for lane in self.all_lanes() {
            self.close(&lane, true);
        }
    }
}

impl StreamWatch for Cache {
    fn is_left(&self, stream: u64) {
        let lane = self.lanes.lock().get(&stream).cloned();
        if let Some(lane) = lane {
            self.close(&lane, false);
        }
    }
}

/// Marks what is queued by now on a stream that was asked about captures.
fn marked(stream: &Stream) -> Result<Mark<'static>> {
    let mut mark = Mark::take(stream.context())?;
    match mark.record_uncaptured(stream) {
        Ok(()) => Ok(mark.keep()),
        Err(error) => Err(mark.unneeded(error)),
    }
}
