//! Seats: small numbers for threads, of which no two threads that run have the same one.
//!
//! A thread that has a seat uses what belongs to it with plain loads and stores. Its seat is free again once the thread has
//! ended, and what the next one finds there is what the former one left: giving a seat back and taking it order the two.
//!
//! Nothing of a driver is kept here, only which seats are taken.

use crate::reclaim;
use std::{
    cell::Cell,
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering},
};

/// How many there are. Further threads have none.
pub(super) const SEATS: usize = 128;

const BITS: usize = u64::BITS as usize;

/// Which are taken.
static TAKEN: [AtomicU64; SEATS / BITS] = [const { AtomicU64::new(0) }; SEATS / BITS];

/// The thread has none yet.
const NONE_YET: usize = usize::MAX;
/// The thread has given its seat back and ends.
const LEFT: usize = usize::MAX - 1;

thread_local! {
    // Without a destructor, so that it can be read while the thread's other locals are destroyed.
    static SEAT: Cell<usize> = const { Cell::new(NONE_YET) };
    static LEAVE: Leave = const { Leave };
}

/// Gives the seat back when the thread ends.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        let seat = SEAT.replace(LEFT);
        if let Some(word) = TAKEN.get(seat / BITS) {
            word.fetch_and(!(1 << (seat % BITS)), Ordering::Release);
        }
    }
}

/// The seat of the thread that holds this value.
#[derive(Debug)]
pub(super) struct Seat {
    number: usize,
    here: PhantomData<*const ()>,
}

impl Seat {
    /// This thread's, if it has one. Takes no lock and allocates nothing.
    #[inline]
    pub(super) fn here() -> Option<Self> {
        let number = SEAT.get();
        (number < SEATS).then_some(Self { number, here: PhantomData })
    }

    /// This thread's; it takes one if it has none. `None`: all are taken, or the thread ends, or it is one of the
    /// reclaimer's, from which nobody would get back what lies at its seat.
    #[inline]
    pub(super) fn take() -> Option<Self> {
        Self::here().or_else(Self::sit_down)
    }

    #[cold]
    fn sit_down() -> Option<Self> {
        if SEAT.get() == LEFT || reclaim::on_thread() {
            return None;
        }
        // From here on the thread's end gives the seat back; refused while its locals are destroyed.
        LEAVE.try_with(|_| ()).ok()?;
        let number = free_seat()?;
        SEAT.set(number);
        Self::here()
    }

    #[inline]
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

fn free_seat() -> Option<usize> {
    for (index, word) in TAKEN.iter().enumerate() {
        let mut now = word.load(Ordering::Relaxed);
        while now != u64::MAX {
            let bit = 1 << now.trailing_ones();
            let before = word.fetch_or(bit, Ordering::Acquire);
            if before & bit == 0 {
                return Some(index * BITS + bit.trailing_zeros() as usize);
            }
            now = before;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::{collections::BTreeSet, sync::Barrier, thread};

    #[test]
    fn no_two_threads_have_the_same_seat_and_threads_that_end_give_theirs_back() {
        const THREADS: usize = 16;
        let mut all = BTreeSet::new();
        // More threads than there are seats, so that they suffice only if they come back.
        for _ in 0..2 * SEATS / THREADS {
            let (met, taken) = (Barrier::new(THREADS), Mutex::new(BTreeSet::new()));
            let sit = || {
                let seat = Seat::take().unwrap().number();
                assert_eq!(Seat::here().unwrap().number(), seat, "it keeps it");
                assert!(taken.lock().insert(seat), "seat {seat} twice");
                met.wait();
            };
            thread::scope(|scope| {
                (0..THREADS).for_each(|_| drop(scope.spawn(sit)));
            });
            all.append(&mut taken.into_inner());
        }
        assert!(all.len() <= SEATS);
    }

    #[test]
    fn a_thread_whose_locals_are_destroyed_has_no_seat() {
        struct Looks;
        impl Drop for Looks {
            fn drop(&mut self) {
                *SEEN.lock() = Some(Seat::take().is_some());
            }
        }
        static SEEN: Mutex<Option<bool>> = Mutex::new(None);
        thread_local! {
            static LOOKS: Looks = const { Looks };
        }
        thread::spawn(|| {
            LOOKS.with(|_| ());
            // Registered later, and so destroyed before.
            assert!(Seat::take().is_some());
        })
        .join()
        .unwrap();
        assert_eq!(*SEEN.lock(), Some(false));
    }
}
