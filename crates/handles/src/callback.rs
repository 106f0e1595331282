//! The mark of a thread that runs a callback of the driver, where no CUDA call may be made and nothing may be ended.
//!
//! Measured: every driver call inside a host function or a user object's destructor answers `NOT_PERMITTED`. The mark
//! says so before a lock is taken, and sends what is dropped there to the reclaimer.

use std::cell::Cell;

thread_local! {
    // Without a destructor, so that it can be read while the thread's other locals are destroyed.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs one of our callbacks.
#[inline]
#[must_use]
pub fn inside() -> bool {
    INSIDE.get()
}

/// Runs foreign code as part of a callback. A panic passes through; the caller catches it.
pub fn enter<T>(foreign: impl FnOnce() -> T) -> T {
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _leave = Leave(INSIDE.replace(true));
    foreign()
}
