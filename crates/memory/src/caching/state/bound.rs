//! How much may be cached: bytes that magazines were given room for, and those that lie in lanes.

use super::sync::{AtomicUsize, Ordering};

/// The bound of a resource, shared by its lanes. Written on slow paths only.
#[derive(Debug)]
pub(crate) struct Bound {
    most: usize,
    used: AtomicUsize,
}

impl Bound {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, used: AtomicUsize::new(0) }
    }

    /// Takes room for so many bytes; `false`: there isn't as much.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Takes room that there is, whatever the bound: of what moves from one place of the cache to another.
    pub(super) fn move_in(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
