//! How a caching resource is made.

use super::{barrier, state::Way};
use cuhold_handles::{Error, Result};

/// How a thread's own memory is kept apart from threads that take it, such as for a trim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum CachingWay {
    /// A lock for each thread and stream, which nobody else has as a rule: one atomic read-modify-write for an allocation,
    /// one for giving it back.
    Lock,
    /// Two plain accesses to memory instead; who takes memory from others lets all threads of the process pass a barrier.
    /// Linux, where `membarrier` isn't filtered out.
    Biased,
}

impl From<Way> for CachingWay {
    fn from(way: Way) -> Self {
        match way {
            Way::Lock => Self::Lock,
            Way::Biased => Self::Biased,
        }
    }
}

/// How a [`CachingResource`](super::CachingResource) is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CachingOptions {
    /// How many bytes may wait to be used again, room that threads reserved for that included. `None`: as many as the pool
    /// gives.
    pub max_cached_bytes: Option<usize>,
    /// Whether memory that was freed on one stream may serve another, which then waits for the former's work. On by default.
    pub crosses_streams: bool,
    /// How threads are kept apart. `None`: the fastest way that the system has.
    pub way: Option<CachingWay>,
}

impl Default for CachingOptions {
    fn default() -> Self {
        Self { max_cached_bytes: None, crosses_streams: true, way: None }
    }
}

impl CachingOptions {
    /// Caching at most this much, in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn max_cached_bytes(mut self, bytes: usize) -> Self {
        self.max_cached_bytes = Some(bytes);
        self
    }

    /// Whether memory of one stream may serve another.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn crosses_streams(mut self, crosses: bool) -> Self {
        self.crosses_streams = crosses;
        self
    }

    /// Keeping threads apart in this way.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn way(mut self, way: CachingWay) -> Self {
        self.way = Some(way);
        self
    }

    /// The way that was asked for, or the fastest one that the system has.
    pub(super) fn probed_way(self) -> Result<Way> {
        match self.way {
            Some(CachingWay::Lock) => Ok(Way::Lock),
            Some(CachingWay::Biased) if !barrier::is_there() => Err(Error::argument(
                "options.way: the system has no membarrier, or doesn't let this process use it",
            )),
            None if !barrier::is_there() => Ok(Way::Lock),
            Some(CachingWay::Biased) | None => Ok(Way::Biased),
        }
    }
}
