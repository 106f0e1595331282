//! The call log and the call counter.

use super::Hook;
use crate::{Call, Listed};
use parking_lot::Mutex;
use std::{
    fmt,
    marker::PhantomData,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::{self, ThreadId},
};

const ARGUMENTS_MAX: usize = 12;

/// One call, as it was made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry<C: Listed = Call> {
    call: C,
    status: C::Status,
    thread: ThreadId,
    arguments: [u64; ARGUMENTS_MAX],
    len: usize,
}

impl<C: Listed> Entry<C> {
    /// Which call.
    #[must_use]
    pub fn call(&self) -> C {
        self.call
    }

    /// What the caller heard.
    #[must_use]
    pub fn status(&self) -> C::Status {
        self.status
    }

    /// The thread that made it.
    #[must_use]
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// The arguments as words; of a call with more than twelve, the first twelve.
    #[must_use]
    pub fn arguments(&self) -> &[u64] {
        self.arguments.get(..self.len).unwrap_or_default()
    }
}

impl<C: Listed> fmt::Debug for Entry<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({:#x?}) -> {}", self.call, self.arguments(), self.status)
    }
}

/// A hook that keeps every call, in the order in which the calls returned. Off until it is started.
#[derive(Debug)]
pub struct CallLog<C: Listed = Call> {
    on: AtomicBool,
    entries: Mutex<Vec<Entry<C>>>,
}

impl CallLog {
    /// An empty log of a driver's calls, not started. ([`Default`] makes one for any list.)
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<C: Listed> CallLog<C> {
    /// Empties the log and begins to keep calls.
    pub fn start(&self) {
        self.entries.lock().clear();
        self.on.store(true, Ordering::Release);
    }

    /// Stops, and gives what was kept.
    pub fn stop(&self) -> Vec<Entry<C>> {
        self.on.store(false, Ordering::Release);
        std::mem::take(&mut *self.entries.lock())
    }

    /// The calls that `work` makes, of all threads while it runs. Not for two at once.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<Entry<C>>) {
        self.start();
        let value = work();
        (value, self.stop())
    }
}

impl<C: Listed> Default for CallLog<C> {
    fn default() -> Self {
        Self { on: AtomicBool::new(false), entries: Mutex::new(Vec::new()) }
    }
}

impl<C: Listed> Hook<C> for CallLog<C> {
    fn after(&self, call: C, arguments: &[u64], status: C::Status) {
        if !self.on.load(Ordering::Acquire) {
            return;
        }
        let mut kept = [0; ARGUMENTS_MAX];
        for (to, from) in kept.iter_mut().zip(arguments) {
            *to = *from;
        }
        let len = arguments.len().min(ARGUMENTS_MAX);
        let thread = thread::current().id();
        self.entries.lock().push(Entry { call, status, thread, arguments: kept, len });
    }
}

/// A hook that counts calls, each form by itself.
pub struct CallCounts<C: Listed = Call> {
    counts: Box<[AtomicU64]>,
    list: PhantomData<fn(C)>,
}

impl CallCounts {
    /// All of a driver's calls, each zero times. ([`Default`] makes one for any list.)
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<C: Listed> CallCounts<C> {
    /// How often this form was called.
    #[must_use]
    pub fn of(&self, call: C) -> u64 {
        self.counts.get(call.index()).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// How many calls were made in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The forms that were called, with their counts, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = (C, u64)> {
        C::LIST.iter().map(|call| (*call, self.of(*call))).filter(|(_, count)| *count > 0)
    }
}

impl<C: Listed> Default for CallCounts<C> {
    fn default() -> Self {
        let counts = C::LIST.iter().map(|_| AtomicU64::new(0)).collect();
        Self { counts, list: PhantomData }
    }
}

impl<C: Listed> fmt::Debug for CallCounts<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<C: Listed> Hook<C> for CallCounts<C> {
    fn after(&self, call: C, _: &[u64], _: C::Status) {
        if let Some(count) = self.counts.get(call.index()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
