//! The report channel: where a failure goes that can't be returned (P4).
//!
//! ```text
//!   raise ─► count ─► filter ─┬─► ignored
//!                             ├─► folded     seen before (once; after a fatal code), or raised inside its own sink
//!                             ├─► captured   a `capture` is open
//!                             ├─► escalated  to the hook
//!                             └─► delivered  to the sink
//! ```
//!
//! Each driver has one [`Reports`]. One short lock guards all of its state; the sink, the hook and what settles the
//! reclaimer are taken out from under it and run when it is free again, so that they may use the library (P9). Raising
//! a warning allocates nothing.

mod filter;
pub mod foreign;
mod guards;
mod lock;
mod reentry;
mod seen;
mod sink;
mod text;
mod warning;

pub use filter::{Action, Filter, Rule, UnknownAction};
pub use guards::{Capture, Deny};
pub use sink::Sink;
pub use warning::{CudaWarning, Fate, WarningKind};

use crate::{Object, ObjectKind};
use cuhold_driver_sys::{CUresult, mutant};
use guards::Collected;
use lock::Lock;
use reentry::Entered;
use seen::Seen;
use std::{fmt, mem, sync::Arc};

/// How many warnings, by what became of them.
///
/// `raised` is the sum of `delivered`, `captured`, `escalated`, `folded` and `ignored`, at every moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Raised.
    pub raised: u64,
    /// Handed to the sink.
    pub delivered: u64,
    /// Taken by a [`Capture`], those beyond what it had room for included.
    pub captured: u64,
    /// Handed to the escalation hook, or to the sink where no hook is set.
    pub escalated: u64,
    /// Counted only: seen before by [`Action::Once`]; another one of the same object after a fatal code; raised inside
    /// the channel's own sink.
    pub folded: u64,
    /// Counted only: [`Action::Ignore`].
    pub ignored: u64,
    /// Of those raised, how many say that their object [leaked](Fate::Leaked).
    pub leaked: u64,
}

/// What empties the reclaimer, so that all failures of work done so far are raised.
type Settle = dyn Fn() + Send + Sync;

/// The report channel of one driver.
///
/// Whoever raises a warning must have seen that the process is [live](cuhold_driver_sys::Life::Live): in a forked child
/// the channel's lock may be held by a thread that isn't there, so nothing is raised in one (P12). Nor is anything on
/// CUDA's own threads: that is handed to the reclaimer (P9).
///
/// # Examples
/// A sink that counts, in front of the one that was there:
/// ```
/// use cuhold_handles::{CudaWarning, Object, ObjectKind, Reports, Sink};
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// let reports = Reports::new();
/// let count = Arc::new(AtomicU64::new(0));
/// let (counted, old) = (Arc::clone(&count), Sink::stderr());
/// reports.set_sink(Sink::new(move |warning| {
///     counted.fetch_add(1, Ordering::Relaxed);
///     old.write(warning);
/// }));
///
/// reports.raise(CudaWarning::note(Object::nameless(ObjectKind::Reclaimer), "an example"));
/// assert_eq!(count.load(Ordering::Relaxed), 1);
/// ```
/// A test that expects one warning and no other:
/// ```
/// # use cuhold_handles::{CudaWarning, Object, ObjectKind, Reports};
/// # let reports = Reports::new();
/// # let fail = || reports.raise(CudaWarning::note(Object::nameless(ObjectKind::Reclaimer), "an example"));
/// let _deny = reports.deny();
/// let capture = reports.capture(8);
/// fail();
/// assert_eq!(capture.take().len(), 1);
/// ```
pub struct Reports {
    state: Lock<State>,
}

struct State {
    counts: Counts,
    filter: Filter,
    /// What `Once` delivered; there while the filter has such a rule.
    once: Option<Seen>,
    /// The objects of which a warning with a fatal code was let through.
    fatal: Seen,
    sink: Sink,
    escalation: Option<Sink>,
    settle: Option<Arc<Settle>>,
    captures: Vec<Collected>,
    captures_begun: u64,
    /// How many were raised while nothing captured, and the last of them: what `deny` asks.
    unexpected: u64,
    last_unexpected: Option<CudaWarning>,
}

/// How many different warnings `Once` can tell apart; beyond that they are delivered.
const ONCE_KEYS: usize = 1024;
/// How many objects are known to have had their warning after a fatal code; beyond that they have more.
const FATAL_OBJECTS: usize = 512;

impl Reports {
    /// A channel with the default filter and sink.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Lock::new(State {
                counts: Counts::default(),
                filter: Filter::default(),
                once: None,
                fatal: Seen::with_capacity(FATAL_OBJECTS),
                sink: Sink::stderr(),
                escalation: None,
                settle: None,
                captures: Vec::new(),
                captures_begun: 0,
                unexpected: 0,
                last_unexpected: None,
            }),
        }
    }

    /// Reports a failure that can't be returned. Never panics, allocates nothing itself, and returns after the sink did.
    ///
    /// Not under a lock that the sink may want, not inside a switched context (P9), not where the process isn't live.
    /// A warning whose status is `DEINITIALIZED` is dropped here, uncounted: the process is ending, and nothing failed
    /// (P12).
    ///
    /// Calls nothing.
    pub fn raise(&self, warning: CudaWarning) {
        if warning.status() == Some(CUresult::DEINITIALIZED) && !mutant::is_out("deinitialized") {
            return;
        }
        let entered = Entered::new(self);
        let sink = self.state.with(|state| {
            let mut sink = state.route(&warning, entered.is_none());
            if mutant::is_out("unlock") {
                sink.take().iter().for_each(|sink| sink.write_caught(&warning));
            }
            sink
        });
        if let Some(sink) = &sink {
            sink.write_caught(&warning);
        }
        drop(entered);
        // Possibly the last reference to a sink that was replaced meanwhile. Here, so that a warning that its closure's
        // values raise when they are dropped goes to the new sink.
        drop(sink);
    }

    /// Sets what is done with which warnings; returns the filter that was set. What was delivered once is forgotten.
    ///
    /// Calls nothing.
    pub fn set_filter(&self, filter: Filter) -> Filter {
        let once = filter.has_once().then(|| Seen::with_capacity(ONCE_KEYS));
        let (filter, _once) = self.state.with(|state| {
            (mem::replace(&mut state.filter, filter), mem::replace(&mut state.once, once))
        });
        filter
    }

    /// Sets where warnings go; returns the sink that was set, which may still be running on other threads.
    ///
    /// Calls nothing.
    pub fn set_sink(&self, sink: Sink) -> Sink {
        self.state.with(|state| mem::replace(&mut state.sink, sink))
    }

    /// Sets who receives what the filter escalates, `None` for the sink; returns the hook that was set.
    ///
    /// A hook is held to what a sink is held to. It returns like one: nothing can be thrown out of a `Drop`.
    ///
    /// Calls nothing.
    pub fn set_escalation(&self, hook: Option<Sink>) -> Option<Sink> {
        self.state.with(|state| mem::replace(&mut state.escalation, hook))
    }

    /// How many warnings there were so far.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.with(|state| state.counts)
    }

    /// Collects warnings from every thread, instead of delivering them, until the guard is dropped.
    ///
    /// Room for `at_most` warnings is taken now; those beyond it are only [counted](Capture::over). Of several open
    /// captures the one begun last collects. What the filter ignores or folds isn't collected.
    ///
    /// Calls nothing.
    #[must_use = "a capture ends when it is dropped"]
    pub fn capture(&self, at_most: usize) -> Capture<'_> {
        Capture::new(self, at_most)
    }

    /// Asserts, for a test, that nothing is raised from now on while no [`capture`](Self::capture) is open: the guard
    /// panics when it is dropped if something was, unless its thread is panicking already.
    ///
    /// What the filter ignores or folds counts too.
    ///
    /// Calls nothing.
    #[must_use = "a denial ends when it is dropped"]
    pub fn deny(&self) -> Deny<'_> {
        Deny::new(self)
    }

    /// Sets what a capture that is read and a denial that ends run first: what makes pending cleanup happen, so that
    /// its failures are raised. It must not own the driver.
    pub(crate) fn set_settle(&self, settle: Box<Settle>) {
        let settle = Arc::from(settle);
        let _old: Option<Arc<Settle>> = self.state.with(|state| state.settle.replace(settle));
    }

    /// Runs what was set so.
    fn settle(&self) {
        let settle = self.state.with(|state| state.settle.clone());
        if let Some(settle) = settle
            && let Err(caught) = foreign::call(|| settle())
        {
            let reclaimer = Object::nameless(ObjectKind::Reclaimer);
            self.raise(CudaWarning::panicked(reclaimer, caught.payload()));
        }
    }
}

impl Default for Reports {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl State {
    /// Counts the warning and decides where it goes: to the sink that is returned, or nowhere further.
    ///
    /// `is_inside` says that the thread runs a sink of this channel.
    fn route(&mut self, warning: &CudaWarning, is_inside: bool) -> Option<Sink> {
        self.counts.raised += 1;
        if warning.fate() == Some(Fate::Leaked) {
            self.counts.leaked += 1;
        }
        if self.captures.is_empty() {
            self.unexpected += 1;
            self.last_unexpected = Some(*warning);
        }
        let action = self.filter.action(warning);
        if action == Action::Ignore {
            self.counts.ignored += 1;
            return None;
        }
        let is_lost = is_inside && self.captures.is_empty();
        if is_lost || self.was_told(warning, action) {
            self.counts.folded += 1;
            return None;
        }
        if let Some(innermost) = self.captures.last_mut() {
            self.counts.captured += 1;
            innermost.push(*warning);
            return None;
        }
        if action == Action::Escalate {
            self.counts.escalated += 1;
            return Some(self.escalation.as_ref().unwrap_or(&self.sink).clone());
        }
        self.counts.delivered += 1;
        Some(self.sink.clone())
    }

    /// Whether this warning needn't be told again; remembers it as told.
    fn was_told(&mut self, warning: &CudaWarning, action: Action) -> bool {
        let id = warning.object().id;
        let is_fatal = warning.status().is_some_and(CUresult::is_fatal);
        if is_fatal && id != 0 && self.fatal.replace([id, 0]) && !mutant::is_out("fold") {
            return true;
        }
        let once = self.once.as_mut().filter(|_| action == Action::Once);
        once.is_some_and(|once| once.replace(filter::once_key(warning)))
    }
}
