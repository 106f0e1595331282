//! A lane: what the cache has of one stream.

use super::{
    cache::Cache,
    state::{Bound, Shelf, Way},
};
use cuhold_handles::{InsideStream, Stream};
use parking_lot::{Mutex, MutexGuard};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// One stream's lane. It keeps the stream until its last block is gone: buffers have that by an uncounted handle.
pub(super) struct Lane {
    number: u64,
    stream: InsideStream,
    shelf: Mutex<Locked>,
}

/// What is behind a lane's lock.
pub(super) struct Locked {
    shelf: Shelf,
    /// The resource, as long as there are blocks: buffers have it by an uncounted reference.
    pub(super) cache: Option<Arc<Cache>>,
}

impl Locked {
    /// As [`Shelf::expect`]; keeps the resource from here on.
    pub(super) fn expect(&mut self, class: usize, cache: Option<Arc<Cache>>, has_crossed: bool) {
        self.shelf.expect(class, has_crossed);
        if self.cache.is_none() {
            self.cache = cache;
        }
    }
}

impl Deref for Locked {
    type Target = Shelf;
    fn deref(&self) -> &Shelf {
        &self.shelf
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Shelf {
        &mut self.shelf
    }
}

impl Lane {
    pub(super) fn new(number: u64, stream: &Stream, way: Way, bound: Arc<Bound>) -> Self {
        let shelf = Locked { shelf: Shelf::new(way, number, bound), cache: None };
        Self { number, stream: InsideStream::new(stream), shelf: Mutex::new(shelf) }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether nobody but the library has the stream any more.
    pub(super) fn is_left(&self) -> bool {
        self.stream.is_left()
    }

    /// Its shelf. No call is made and nothing foreign is run while it is locked.
    pub(super) fn shelf(&self) -> MutexGuard<'_, Locked> {
        self.shelf.lock()
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {} of {:?}", self.number, *self.stream)
    }
}
