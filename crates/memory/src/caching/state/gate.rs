//! The gate of a bin: passed by its owner without a lock, shut by any thread that must have what is in the bin.
//!
//! | way | the owner enters | a thief shuts |
//! |---|---|---|
//! | [`Lock`](Way::Lock) | exchanges `busy`: one atomic read-modify-write | marks `stop`, then takes `busy` like an owner |
//! | [`Biased`](Way::Biased) | writes `busy`, reads `stop`: two plain accesses | marks `stop`, lets every thread pass a barrier, waits until nobody is busy |
//!
//! Without the barrier the biased owner may read `stop` before others see its `busy`, and both would be in the bin. What an
//! owner does inside is a dozen instructions; a thief waits for that, however long the owner's thread isn't run meanwhile.

use super::sync::{AtomicU8, Ordering, far_fence, mutant, near_fence, spin_loop, yield_now};

/// How a gate keeps its owner and thieves apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Lock,
    Biased,
}

/// Bit of `stop`: somebody has the bin.
const SHUT: u8 = 1;
/// Bit of `stop`: the bin is out of use, for good.
const DEAD: u8 = 2;

#[derive(Debug)]
pub(super) struct Gate {
    way: Way,
    busy: AtomicU8,
    stop: AtomicU8,
}

impl Gate {
    pub(super) fn new(way: Way) -> Self {
        Self { way, busy: AtomicU8::new(0), stop: AtomicU8::new(0) }
    }

    /// The owner goes in; `false`: it may not. For the owner's thread alone, which leaves before anything else.
    #[inline]
    pub(super) fn enter(&self) -> bool {
        match self.way {
            Way::Biased => {
                self.busy.store(1, Ordering::Relaxed);
                near_fence();
            }
            Way::Lock => {
                if !self.lock() {
                    return false;
                }
            }
        }
        // Sees what was done by whoever opened the gate last.
        let may = self.stop.load(Ordering::Acquire) == 0;
        if !may {
            self.leave();
        }
        may
    }

    #[inline]
    fn lock(&self) -> bool {
        self.busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(super) fn leave(&self) {
        self.busy.store(0, Ordering::Release);
    }

    /// A thief asks the owner to keep out. One thief at a time: with the lane's lock held until the gate is open again.
    pub(super) fn ask(&self, for_good: bool) {
        let mark = if for_good { SHUT | DEAD } else { SHUT };
        self.stop.fetch_or(mark, Ordering::Relaxed);
    }

    /// Between asking at one or many gates and waiting at them. `false`: the system refused, so that owners may be in.
    pub(super) fn barrier(way: Way) -> bool {
        way == Way::Lock || mutant::is_out("cache-barrier") || far_fence()
    }

    /// Waits until the owner is out, which was asked and passed the barrier.
    pub(super) fn wait(&self) {
        if mutant::is_out("cache-wait") {
            return;
        }
        let mut tries = 0_u32;
        let is_in = || match self.way {
            Way::Biased => self.busy.load(Ordering::Acquire) != 0,
            Way::Lock => !self.lock(),
        };
        while is_in() {
            tries = tries.saturating_add(1);
            // The owner's thread may not be running.
            if tries.is_multiple_of(64) { yield_now() } else { spin_loop() }
        }
    }

    /// Lets the owner in again, unless it is shut for good.
    pub(super) fn open(&self) {
        if self.way == Way::Lock {
            // Taken while waiting.
            self.leave();
        }
        self.stop.fetch_and(!SHUT, Ordering::Release);
    }

    /// Whether the bin is out of use.
    pub(super) fn is_dead(&self) -> bool {
        self.stop.load(Ordering::Relaxed) & DEAD != 0
    }
}
