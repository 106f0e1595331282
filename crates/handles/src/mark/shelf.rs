//! The shelf: the idle events that all threads share. It makes no driver call.
//!
//! ```text
//!   free ──put: its bit is claimed──► written ──► idle ──take: its bit is claimed──► read ──► free
//! ```
//!
//! Two words of bits say which places are free and which hold an event. Whoever claims a bit has its place alone, so nobody
//! ever waits for anybody: events are put and taken inside a callback of the driver, while a thread is stopped in the
//! middle of either, and in a forked child.

use super::sync::{AtomicPtr, AtomicU64, Ordering};
use cuhold_driver_sys::ffi::CUevent;
use std::ffi::c_void;

/// A raw event, and the number by which warnings name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Idle {
    pub(super) event: CUevent,
    pub(super) id: u64,
}

/// Room for one event.
#[derive(Debug, Default)]
pub(super) struct Place {
    event: AtomicPtr<c_void>,
    id: AtomicU64,
}

impl Place {
    /// By whoever has the place alone.
    #[inline]
    pub(super) fn set(&self, idle: Idle) {
        self.event.store(idle.event.0, Ordering::Relaxed);
        self.id.store(idle.id, Ordering::Relaxed);
    }

    /// By whoever has the place alone.
    #[inline]
    pub(super) fn get(&self) -> Idle {
        let event = CUevent(self.event.load(Ordering::Relaxed));
        Idle { event, id: self.id.load(Ordering::Relaxed) }
    }
}

/// The shelf.
#[derive(Debug)]
pub(super) struct Shelf {
    free: AtomicU64,
    idle: AtomicU64,
    places: Box<[Place]>,
}

impl Shelf {
    /// With room for so many, 64 at most.
    pub(super) fn new(places: u32) -> Self {
        let places = places.min(u64::BITS);
        Self {
            free: AtomicU64::new(u64::MAX.checked_shr(u64::BITS - places).unwrap_or(0)),
            idle: AtomicU64::new(0),
            places: (0..places).map(|_| Place::default()).collect(),
        }
    }

    /// Puts an event there. `false`: there is no room.
    pub(super) fn put(&self, idle: Idle) -> bool {
        let Some((bit, place)) = self.claim(&self.free) else { return false };
        place.set(idle);
        self.idle.fetch_or(bit, Ordering::Release);
        true
    }

    /// Takes an event.
    pub(super) fn take(&self) -> Option<Idle> {
        let (bit, place) = self.claim(&self.idle)?;
        let idle = place.get();
        self.free.fetch_or(bit, Ordering::Release);
        Some(idle)
    }

    /// All that are there. Nobody puts or takes meanwhile.
    pub(super) fn all(&self) -> impl Iterator<Item = Idle> {
        let idle = self.idle.load(Ordering::Acquire);
        let places = self.places.iter().enumerate();
        places.filter(move |(index, _)| idle & (1 << index) != 0).map(|(_, place)| place.get())
    }

    /// Takes a bit out of the word, with which its place is the caller's alone.
    fn claim(&self, word: &AtomicU64) -> Option<(u64, &Place)> {
        let mut now = word.load(Ordering::Relaxed);
        loop {
            let index = now.trailing_zeros();
            let place = self.places.get(usize::try_from(index).ok()?)?;
            let bit = 1 << index;
            let before = word.fetch_and(!bit, Ordering::Acquire);
            if before & bit != 0 {
                return Some((bit, place));
            }
            now = before;
        }
    }
}
