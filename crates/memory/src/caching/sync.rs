//! The locks, counters and cells of the cache's states. `tests/caching_model.rs` puts loom's in their place.

pub(super) use super::class::{SMALL, bytes as bytes_of};
pub(super) use cuhold_handles::driver_sys::mutant;
pub(super) use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence},
    },
    thread::yield_now,
};

/// A cell whose user says why nobody else is at it.
#[derive(Debug, Default)]
pub(super) struct Room<T>(std::cell::UnsafeCell<T>);

impl<T> Room<T> {
    pub(super) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// The value, for as long as `work` takes: nobody else may be at it then.
    #[inline]
    pub(super) fn with<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
        work(self.0.get())
    }
}

/// Between what an owner has written and what it reads next: the other side is [`far_fence`].
#[inline]
pub(super) fn near_fence() {
    compiler_fence(Ordering::SeqCst);
}

/// Lets every thread of the process pass a full barrier; the other side is [`near_fence`]. `false`: the system refused.
pub(super) fn far_fence() -> bool {
    super::barrier::pass_all()
}
