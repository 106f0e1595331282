//! The channel's one lock.
//!
//! Not `parking_lot`'s: that allocates when a thread first has to wait (measured), and raising a warning allocates nothing. The
//! lock can be held only for the length of a closure of this module's, none of which runs foreign code (P9).

use std::sync::{Mutex, PoisonError};

pub(super) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Runs `work` under the lock; it must be short and call nothing of the user's.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // The only panic possible under it is the allocator's, in setting something up; what it left is whole.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
