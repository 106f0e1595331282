//! The call log and the call counter.

use super::Hook;
use crate::{CUresult, Call};
use parking_lot::Mutex;
use std::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::{self, ThreadId},
};

const ARGUMENTS_MAX: usize = 12;

/// One call, as it was made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    call: Call,
    status: CUresult,
    thread: ThreadId,
    arguments: [u64; ARGUMENTS_MAX],
    len: usize,
}

impl Entry {
    /// Which call.
    #[must_use]
    pub fn call(&self) -> Call {
        self.call
    }

    /// What the caller heard.
    #[must_use]
    pub fn status(&self) -> CUresult {
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

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({:#x?}) -> {}", self.call, self.arguments(), self.status)
    }
}

/// A hook that keeps every call, in the order in which the calls returned. Off until it is started.
#[derive(Debug, Default)]
pub struct CallLog {
    on: AtomicBool,
    entries: Mutex<Vec<Entry>>,
}

impl CallLog {
    /// An empty log, not started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties the log and begins to keep calls.
    pub fn start(&self) {
        self.entries.lock().clear();
        self.on.store(true, Ordering::Release);
    }

    /// Stops, and gives what was kept.
    pub fn stop(&self) -> Vec<Entry> {
        self.on.store(false, Ordering::Release);
        std::mem::take(&mut *self.entries.lock())
    }

    /// The calls that `work` makes, of all threads while it runs. Not for two at once.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<Entry>) {
        self.start();
        let value = work();
        (value, self.stop())
    }
}

impl Hook for CallLog {
    fn after(&self, call: Call, arguments: &[u64], status: CUresult) {
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
pub struct CallCounts {
    counts: Box<[AtomicU64]>,
}

impl CallCounts {
    /// All zero.
    #[must_use]
    pub fn new() -> Self {
        Self { counts: Call::ALL.iter().map(|_| AtomicU64::new(0)).collect() }
    }

    /// How often this form was called.
    #[must_use]
    pub fn of(&self, call: Call) -> u64 {
        self.counts.get(call as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// How many calls were made in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The forms that were called, with their counts, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = (Call, u64)> {
        Call::ALL.iter().map(|call| (*call, self.of(*call))).filter(|(_, count)| *count > 0)
    }
}

impl Default for CallCounts {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CallCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Hook for CallCounts {
    fn after(&self, call: Call, _: &[u64], _: CUresult) {
        if let Some(count) = self.counts.get(call as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
