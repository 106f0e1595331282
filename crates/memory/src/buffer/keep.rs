//! A buffer's memory, shared with work that is queued or captured.

#![expect(
    unsafe_code,
    reason = "the shared block is an atomic raw pointer, null until it is needed"
)]

use super::Buffer;
use crate::allocation::{self, Allocation};
use bytemuck::Pod;
use cuhold_handles::{KeepAlive, Stream};
use std::{
    fmt, ptr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicPtr, Ordering},
    },
};

/// What a buffer and those who keep its memory share. Whoever lets go of it last frees the memory.
///
/// A buffer that is forgotten never puts anything here, and its memory is never freed.
#[derive(Default)]
pub(super) struct Shared {
    /// What the buffer leaves here when it is gone.
    left: OnceLock<(Allocation, Stream)>,
}

impl Shared {
    /// The buffer is gone.
    pub(super) fn leave(&self, memory: Allocation, home: Stream) {
        if let Err((memory, home)) = self.left.set((memory, home)) {
            // Not met: a block has one buffer, which says so once.
            allocation::end(memory, home);
        }
    }

    /// What the buffer left, to be freed by the caller.
    pub(super) fn take(mut self) -> Option<(Allocation, Stream)> {
        self.left.take()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some((memory, home)) = self.left.take() {
            allocation::end(memory, home);
        }
    }
}

/// Where a buffer's block is, or will be: what a view of the buffer needs to keep its memory.
#[derive(Clone, Copy)]
pub(crate) struct Shareable<'a>(&'a AtomicPtr<Shared>);

impl Shareable<'_> {
    pub(crate) fn keep(self) -> KeepAlive {
        let mut shared = self.0.load(Ordering::Acquire);
        if shared.is_null() {
            let new = Arc::into_raw(Arc::<Shared>::default()).cast_mut();
            let set =
                self.0.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
            shared = match set {
                Ok(_) => new,
                Err(first) => {
                    // SAFETY: made above, and given to nobody.
                    drop(unsafe { Arc::from_raw(new) });
                    first
                }
            };
        }
        // SAFETY: not null: by the invariant of `shared` a reference that the buffer holds, as long as it is borrowed.
        unsafe { Arc::increment_strong_count(shared) };
        // SAFETY: the reference counted above.
        KeepAlive::new(unsafe { Arc::from_raw(shared.cast_const()) })
    }
}

impl fmt::Debug for Shareable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shareable").finish_non_exhaustive()
    }
}

impl<T: Pod> Buffer<T> {
    /// Keeps the memory alive beyond the buffer: it is freed, on the buffer's last home stream, when the buffer and
    /// everything that this gave are gone.
    ///
    /// The first call moves the memory into a block that both share, and allocates it.
    ///
    /// Calls nothing.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Closed, Device, Driver};
    /// # use cuhold_memory::{Buffer, Pool};
    /// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
    /// let device = Device::with_driver(&driver, 0)?;
    /// let stream = device.new_stream()?;
    /// let buffer = Buffer::<u32>::uninit(&stream, 100)?;
    /// let kept = buffer.keep();
    /// assert_eq!(buffer.close()?, Closed::StillShared);
    /// let pool = Pool::current_of(&device)?;
    /// assert_eq!(pool.used_bytes()?, 400);
    /// drop(kept);
    /// assert_eq!(pool.used_bytes()?, 0);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[must_use]
    pub fn keep(&self) -> KeepAlive {
        self.shareable().keep()
    }

    pub(super) fn kept(&self) -> Option<KeepAlive> {
        Some(self.keep())
    }

    pub(super) fn shareable(&self) -> Shareable<'_> {
        Shareable(&self.shared)
    }

    /// Whether [`keep`](Self::keep) was ever called.
    pub(crate) fn is_kept(&self) -> bool {
        !self.shared.load(Ordering::Acquire).is_null()
    }

    /// The buffer's reference to the shared block, if there is one.
    pub(super) fn take_shared(&mut self) -> Option<Arc<Shared>> {
        let shared = std::mem::take(self.shared.get_mut());
        // SAFETY: by the invariant of `shared`, null or a reference that the buffer holds; it is null from here on.
        (!shared.is_null()).then(|| unsafe { Arc::from_raw(shared.cast_const()) })
    }
}
