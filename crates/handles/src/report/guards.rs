//! What tests hold: a capture, which collects warnings, and a denial, which allows none.

use super::{CudaWarning, Reports};
use cuhold_driver_sys::mutant;
use std::{fmt, marker::PhantomData, mem, thread};

/// What one capture has collected.
pub(super) struct Collected {
    id: u64,
    /// Invariant: never grows beyond the capacity it was made with.
    warnings: Vec<CudaWarning>,
    at_most: usize,
    over: u64,
}

impl Collected {
    /// Allocates nothing.
    pub(super) fn push(&mut self, warning: CudaWarning) {
        if self.warnings.len() < self.at_most {
            self.warnings.push(warning);
        } else {
            self.over += 1;
        }
    }
}

/// Collects the warnings of a channel, from every thread, until it is dropped. Made by [`Reports::capture`].
///
/// Where it is forgotten instead of dropped, it collects for good.
#[must_use = "a capture ends when it is dropped"]
pub struct Capture<'r> {
    reports: &'r Reports,
    id: u64,
    at_most: usize,
}

impl<'r> Capture<'r> {
    pub(super) fn new(reports: &'r Reports, at_most: usize) -> Self {
        let warnings = Vec::with_capacity(at_most);
        let id = reports.state.with(|state| {
            state.captures_begun += 1;
            let id = state.captures_begun;
            state.captures.push(Collected { id, warnings, at_most, over: 0 });
            id
        });
        Self { reports, id, at_most }
    }

    /// What was collected since the capture began or was last taken from, after pending cleanup was made to happen.
    /// Takes new room for what comes.
    ///
    /// Calls nothing itself: the ends of objects that are pending make theirs.
    #[must_use]
    pub fn take(&self) -> Vec<CudaWarning> {
        self.reports.settle();
        let room = Vec::with_capacity(self.at_most);
        self.with(|collected| mem::replace(&mut collected.warnings, room)).unwrap_or_default()
    }

    /// How many warnings there was no room for, since the capture began, after pending cleanup was made to happen.
    ///
    /// Calls nothing itself: the ends of objects that are pending make theirs.
    #[must_use]
    pub fn over(&self) -> u64 {
        self.reports.settle();
        self.with(|collected| collected.over).unwrap_or_default()
    }

    /// `None` isn't met: what was collected stays in the list until this is dropped.
    fn with<R>(&self, work: impl FnOnce(&mut Collected) -> R) -> Option<R> {
        self.reports.state.with(|state| {
            let mut captures = state.captures.iter_mut();
            captures.find(|collected| collected.id == self.id).map(work)
        })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        self.reports.state.with(|state| state.captures.retain(|collected| collected.id != self.id));
    }
}

impl fmt::Debug for Capture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("at_most", &self.at_most).finish_non_exhaustive()
    }
}

/// Panics when it is dropped if a warning was raised that no capture took. Made by [`Reports::deny`], for tests.
///
/// It stays on its thread, since it looks whether that is panicking; it hears of all threads. Denials nest: each one
/// answers for its own span.
#[must_use = "a denial ends when it is dropped"]
pub struct Deny<'r> {
    reports: &'r Reports,
    unexpected_before: u64,
    here: PhantomData<*const ()>,
}

impl<'r> Deny<'r> {
    pub(super) fn new(reports: &'r Reports) -> Self {
        let unexpected_before = reports.state.with(|state| state.unexpected);
        Self { reports, unexpected_before, here: PhantomData }
    }
}

impl Drop for Deny<'_> {
    #[expect(clippy::panic, reason = "a test's assertion, which panics on purpose")]
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        if !mutant::is_out("deny-drain") {
            self.reports.settle();
        }
        let (unexpected, last) =
            self.reports.state.with(|state| (state.unexpected, state.last_unexpected));
        let count = unexpected - self.unexpected_before;
        if let (1.., Some(last)) = (count, last) {
            panic!("{count} warning(s) raised that no capture took, the last: {last}");
        }
    }
}

impl fmt::Debug for Deny<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deny").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Object, ObjectKind, WarningKind};
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{Arc, Weak},
    };

    const NOTE: CudaWarning =
        CudaWarning::note(Object::nameless(ObjectKind::Reclaimer), "out of the reclaimer");

    /// A channel with something pending, as a reclaimer has: settling raises one warning each time.
    fn pending() -> Arc<Reports> {
        let reports = Arc::new(Reports::new());
        let weak: Weak<Reports> = Arc::downgrade(&reports);
        reports.set_settle(Box::new(move || {
            if let Some(reports) = weak.upgrade() {
                reports.raise(NOTE);
            }
        }));
        reports
    }

    #[test]
    fn what_is_pending_is_raised_before_a_capture_is_read() {
        let reports = pending();
        let capture = reports.capture(1);
        assert_eq!(capture.take(), [NOTE]);
        assert_eq!(capture.over(), 0);
        // Asking for what was over raised one that there was room for; taking raises one that there isn't.
        assert_eq!(capture.take(), [NOTE]);
        assert_eq!(capture.with(|collected| collected.over), Some(1));
    }

    #[test]
    fn what_is_pending_is_raised_before_a_denial_ends() {
        let reports = pending();
        let deny = reports.deny();
        assert_eq!(reports.counts().raised, 0);
        let verdict = catch_unwind(AssertUnwindSafe(|| drop(deny)));
        assert!(verdict.is_err());
        assert_eq!(reports.counts().raised, 1);
    }

    #[test]
    fn nothing_is_settled_by_a_denial_whose_thread_panics() {
        let reports = pending();
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _deny = reports.deny();
            panic!("first, on purpose");
        }));
        assert!(unwound.is_err());
        assert_eq!(reports.counts().raised, 0);
    }

    #[test]
    fn a_panic_while_settling_becomes_a_warning() {
        let reports = Reports::new();
        reports.set_settle(Box::new(|| panic!("settling, on purpose")));
        let taken = reports.capture(1).take();
        let [warning] = taken[..] else { panic!("{taken:?}") };
        assert_eq!(
            (warning.kind(), warning.text()),
            (WarningKind::Panicked, "settling, on purpose")
        );
    }
}
