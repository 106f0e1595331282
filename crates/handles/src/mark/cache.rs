//! The idle events of a context. It makes no driver call but at the end.
//!
//! ```text
//!             ┌─ tray of seat 0, 7 events ◄──► thread in seat 0: no lock, nothing shared
//!   context ──┼─ tray of seat 1 …
//!             └─ shelf, 64 events ◄── 4 at once ──► trays; threads without a seat
//! ```
//!
//! What is kept is bounded by that: the shelf's places, and those of as many trays as threads have marked work of the
//! context at the same time. What finds no room is destroyed. What a thread leaves in its tray when it ends is for the next
//! one in its seat.
//!
//! In a forked child nothing here is locked, and nobody reads a tray but the thread that forked, which wasn't in the
//! middle of using its own.

#![expect(unsafe_code, reason = "destroys the events that are left")]

use super::{
    seat::{SEATS, Seat},
    shelf::{Idle, Place, Shelf},
};
use crate::{
    object::{Object, ObjectKind},
    report::CudaWarning,
    scope::Outcome,
};
use crossbeam::utils::CachePadded;
use cuhold_driver_sys::{Call, Calls, Life, ffi::CUevent, mutant};
use std::{
    fmt, iter,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// How many events a thread keeps for itself: with their number they fill a pair of cache lines.
const TRAY: usize = 7;
/// How many go from a full tray to the shelf, and to an empty one from there.
const BATCH: usize = 4;
/// How many events the threads of a context share.
const SHELF: u32 = 64;

/// The events of one seat. Only the thread in the seat uses it, so its loads and stores order nothing.
#[derive(Debug, Default)]
struct Tray {
    len: AtomicUsize,
    places: [Place; TRAY],
}

impl Tray {
    #[inline]
    fn pop(&self) -> Option<Idle> {
        let last = self.len.load(Ordering::Relaxed).checked_sub(1)?;
        let idle = self.places.get(last)?.get();
        self.len.store(last, Ordering::Relaxed);
        Some(idle)
    }

    fn all(&self) -> impl Iterator<Item = Idle> {
        self.places.iter().take(self.len.load(Ordering::Relaxed)).map(Place::get)
    }

    /// `false`: it is full.
    #[inline]
    fn push(&self, idle: Idle) -> bool {
        let len = self.len.load(Ordering::Relaxed);
        let Some(place) = self.places.get(len) else { return false };
        place.set(idle);
        self.len.store(len + 1, Ordering::Relaxed);
        true
    }
}

struct Kept {
    trays: Box<[CachePadded<Tray>]>,
    shelf: Shelf,
}

impl Kept {
    fn new() -> Self {
        let trays = iter::repeat_with(CachePadded::<Tray>::default).take(SEATS).collect();
        Self { trays, shelf: Shelf::new(SHELF) }
    }

    #[inline]
    fn tray(&self, seat: &Seat) -> Option<&Tray> {
        self.trays.get(seat.number()).map(|tray| &**tray)
    }

    #[cold]
    fn refill(&self, tray: Option<&Tray>) -> Option<Idle> {
        let first = self.shelf.take()?;
        let Some(tray) = tray else { return Some(first) };
        for idle in iter::from_fn(|| self.shelf.take()).take(BATCH - 1) {
            // An empty tray has room for a batch.
            let _: bool = tray.push(idle);
        }
        Some(first)
    }

    #[cold]
    fn spill(&self, tray: &Tray, idle: Idle) -> bool {
        for _ in 0..BATCH {
            let Some(top) = tray.pop() else { break };
            if !self.shelf.put(top) {
                let _: bool = tray.push(top);
                break;
            }
        }
        tray.push(idle)
    }
}

/// The idle events of a context: nothing until the first is asked for.
#[derive(Default)]
pub(crate) struct MarkCache(OnceLock<Box<Kept>>);

impl MarkCache {
    /// Takes an idle event. Allocates at the first use; not for a forked child.
    #[inline]
    pub(super) fn take(&self) -> Option<Idle> {
        let kept = self.0.get_or_init(|| Box::new(Kept::new()));
        let tray = Seat::take().and_then(|seat| kept.tray(&seat));
        tray.and_then(Tray::pop).or_else(|| kept.refill(tray))
    }

    /// Keeps an event for later. `false`: there is no room. Takes no lock and allocates nothing.
    #[inline]
    pub(super) fn give_back(&self, idle: Idle) -> bool {
        let Some(kept) = self.0.get() else { return false };
        match Seat::here().and_then(|seat| kept.tray(&seat)) {
            Some(tray) => tray.push(idle) || kept.spill(tray, idle),
            None => kept.shelf.put(idle),
        }
    }

    /// The idle events. Nobody takes or gives back meanwhile.
    pub(crate) fn idle(&self) -> Vec<CUevent> {
        let Some(kept) = self.0.get() else { return Vec::new() };
        let trays = kept.trays.iter().flat_map(|tray| tray.all());
        trays.chain(kept.shelf.all()).map(|idle| idle.event).collect()
    }

    /// Destroys the idle events; their context is about to end. Nobody takes or gives back any more: who does has a handle
    /// of the context.
    ///
    /// Calls `cuEventDestroy`.
    pub(crate) fn end(&self, calls: Calls<'_>, warn: &mut dyn FnMut(CudaWarning)) {
        let Some(kept) = self.0.get() else { return };
        if calls.api().life() == Life::Forked || mutant::is_out("mark-end") {
            return;
        }
        let from_trays = kept.trays.iter().flat_map(|tray| iter::from_fn(|| tray.pop()));
        let all: Vec<Idle> = from_trays.chain(iter::from_fn(|| kept.shelf.take())).collect();
        for Idle { event, id } in all {
            let object = Object { kind: ObjectKind::Event, raw: event.addr() as u64, id };
            // SAFETY: *handles*: kept here alone, and taken out above.
            let outcome = Outcome::of(unsafe { calls.cuEventDestroy_v2(event) });
            outcome.warn_to(object, Call::cuEventDestroy_v2, outcome.fate(), warn);
        }
    }
}

impl fmt::Debug for MarkCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MarkCache").field("used", &self.0.get().is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::{collections::BTreeSet, sync::atomic::AtomicU64, thread};

    fn idle(id: u64) -> Idle {
        Idle { event: CUevent::from_addr(16 * usize::try_from(id).unwrap()), id }
    }

    #[test]
    fn a_thread_gets_back_what_it_gave_and_the_rest_goes_through_the_shelf() {
        let cache = MarkCache::default();
        assert!(!cache.give_back(idle(1)), "nobody has asked yet");
        assert_eq!(cache.take(), None);
        let room = u64::try_from(TRAY).unwrap() + u64::from(SHELF);
        for id in 1..=room {
            assert!(cache.give_back(idle(id)), "{id}");
        }
        assert!(!cache.give_back(idle(room + 1)), "no more than there is room for");
        let back: BTreeSet<u64> = iter::from_fn(|| cache.take()).map(|idle| idle.id).collect();
        assert_eq!(back, (1..=room).collect(), "each once");
    }

    #[test]
    fn the_next_thread_in_a_seat_finds_what_the_former_one_left() {
        let cache = MarkCache::default();
        let fill = || {
            assert_eq!(cache.take(), None);
            assert!(cache.give_back(idle(1)));
            Seat::here().unwrap().number()
        };
        let seat = thread::scope(|scope| scope.spawn(fill).join().unwrap());
        // Others may be in the seat by now, in other tests.
        for _ in 0..1000 {
            let found = thread::scope(|scope| {
                let look = || (Seat::take().map(|seat| seat.number()), cache.take());
                scope.spawn(look).join().unwrap()
            });
            match found {
                (Some(number), Some(found)) => {
                    assert_eq!((number, found), (seat, idle(1)));
                    return;
                }
                (number, None) => assert_ne!(number, Some(seat)),
                (None, Some(_)) => panic!("it was in a tray"),
            }
        }
        panic!("no thread got seat {seat} again");
    }

    /// Takes events and gives them back, and knows which are out.
    #[derive(Default)]
    struct Books {
        cache: MarkCache,
        made: AtomicU64,
        out: Mutex<BTreeSet<u64>>,
        destroyed: Mutex<BTreeSet<u64>>,
    }

    impl Books {
        fn take(&self) -> Idle {
            let new = || idle(1 + self.made.fetch_add(1, Ordering::Relaxed));
            let event = self.cache.take().unwrap_or_else(new);
            assert!(self.out.lock().insert(event.id), "given out twice");
            event
        }

        fn give_back(&self, event: Idle) {
            assert!(self.out.lock().remove(&event.id));
            if !self.cache.give_back(event) {
                assert!(self.destroyed.lock().insert(event.id), "destroyed twice");
            }
        }

        /// Bursts of a size that goes through the shelf, and of one that doesn't.
        fn work(&self, thread: u64) {
            for round in 0..4000 {
                let burst = if (round + thread).is_multiple_of(3) { 24 } else { 2 };
                let held: Vec<Idle> = (0..burst).map(|_| self.take()).collect();
                held.into_iter().for_each(|event| self.give_back(event));
            }
        }
    }

    #[test]
    fn no_event_is_given_out_twice_or_lost_while_threads_take_and_give_back() {
        let books = Books::default();
        thread::scope(|scope| {
            for thread in 0..6 {
                let books = &books;
                scope.spawn(move || books.work(thread));
            }
        });
        let kept = books.cache.0.get().unwrap();
        let trays = kept.trays.iter().flat_map(|tray| iter::from_fn(|| tray.pop()));
        let mut all = books.destroyed.into_inner();
        for left in trays.chain(iter::from_fn(|| kept.shelf.take())) {
            assert!(all.insert(left.id), "{left:?} is there twice");
        }
        assert_eq!(all.len() as u64, books.made.into_inner(), "each is kept or destroyed");
    }
}
