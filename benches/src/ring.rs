//! A ring between two threads, cheap enough not to hide what is handed over: one puts, the other takes.

#![expect(unsafe_code, reason = "places that one of two threads has at a time")]

use crossbeam::utils::CachePadded;
use std::{
    cell::UnsafeCell,
    fmt, hint,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// How many values there is room for.
const PLACES: usize = 256;
/// How often somebody looks again before the other thread is let run.
const SPINS: u32 = 1000;

/// The ring. One thread at a time may put, and one may take.
pub struct Ring<T> {
    put: CachePadded<AtomicUsize>,
    taken: CachePadded<AtomicUsize>,
    places: Vec<UnsafeCell<Option<T>>>,
}

// SAFETY: a place is touched by the thread that puts while it is free, and by the one that takes while it is full; the two
// counts order them.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        let places = (0..PLACES).map(|_| UnsafeCell::new(None)).collect();
        Self { put: CachePadded::default(), taken: CachePadded::default(), places }
    }
}

impl<T> Ring<T> {
    /// Puts a value, once there is room.
    ///
    /// # Safety
    /// No other thread puts at the same time.
    pub unsafe fn put(&self, value: T) {
        let at = self.put.load(Ordering::Relaxed);
        wait_until(|| at.wrapping_sub(self.taken.load(Ordering::Acquire)) < PLACES);
        if let Some(place) = self.places.get(at % PLACES) {
            // SAFETY: the place is free, and only this thread puts.
            unsafe { *place.get() = Some(value) };
        }
        self.put.store(at.wrapping_add(1), Ordering::Release);
    }

    /// Takes the oldest value, once there is one.
    ///
    /// # Safety
    /// No other thread takes at the same time.
    pub unsafe fn take(&self) -> Option<T> {
        let at = self.taken.load(Ordering::Relaxed);
        wait_until(|| self.put.load(Ordering::Acquire) != at);
        // SAFETY: the place is full, and only this thread takes.
        let value = self.places.get(at % PLACES).and_then(|place| unsafe { (*place.get()).take() });
        self.taken.store(at.wrapping_add(1), Ordering::Release);
        value
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let mut spins = 0;
    while !is_so() {
        spins += 1;
        if spins % SPINS == 0 { thread::yield_now() } else { hint::spin_loop() }
    }
}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("put", &self.put).field("taken", &self.taken).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken_once_and_in_order() {
        const VALUES: usize = 10 * PLACES;
        let ring = Ring::default();
        thread::scope(|scope| {
            // SAFETY: the only thread that puts.
            scope.spawn(|| (0..VALUES).for_each(|value| unsafe { ring.put(value) }));
            for value in 0..VALUES {
                // SAFETY: the only thread that takes.
                assert_eq!(unsafe { ring.take() }, Some(value));
            }
        });
    }
}
