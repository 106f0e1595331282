//! The fault injector: which calls are to fail, when, and how.

use super::{Hook, Verdict};
use crate::{CUresult, Call, Kind, Listed};
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::{self, ThreadId},
};

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Effect<S = CUresult> {
    /// Nothing is done; the caller hears the status.
    Refused(S),
    /// The call is carried out, and the caller hears the status all the same: what a release or an enqueue may do
    /// that reports an earlier failure.
    DoneButFailed(S),
    /// Nothing is done, and from here on every call answers the status, but for those that only look at or change
    /// the calling thread's context and mode: what a fatal error leaves behind.
    StickyFromHere(S),
}

/// Which calls fail, and how. Everything that isn't restricted matches.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Fault<C: Listed = Call> {
    effect: Effect<C::Status>,
    call: Option<C>,
    name: Option<&'static str>,
    kind: Option<Kind>,
    handle: Option<u64>,
    thread: Option<ThreadId>,
    nth: Option<u64>,
}

impl Fault {
    /// A fault with this effect on every call of the driver.
    pub const fn new(effect: Effect) -> Self {
        Self::with_effect(effect)
    }

    /// Nothing is done; the caller hears `status`.
    pub const fn refused(status: CUresult) -> Self {
        Self::new(Effect::Refused(status))
    }

    /// The call is carried out; the caller hears `status`.
    pub const fn done_but_failed(status: CUresult) -> Self {
        Self::new(Effect::DoneButFailed(status))
    }
}

impl<C: Listed> Fault<C> {
    /// A fault with this effect on every call of a list.
    pub const fn with_effect(effect: Effect<C::Status>) -> Self {
        Self { effect, call: None, name: None, kind: None, handle: None, thread: None, nth: None }
    }

    /// Only this form.
    pub const fn on(mut self, call: C) -> Self {
        self.call = Some(call);
        self
    }

    /// Only forms of the function of this documented name.
    pub const fn on_function(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Only calls of this kind.
    pub const fn on_kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Only calls with this word as their first argument, such as a handle's value.
    pub const fn on_handle(mut self, handle: u64) -> Self {
        self.handle = Some(handle);
        self
    }

    /// Only calls made on the calling thread.
    pub fn on_this_thread(mut self) -> Self {
        self.thread = Some(thread::current().id());
        self
    }

    /// Only the `nth` call that matches otherwise, counted from 1 when the fault is armed.
    pub const fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    fn matches(&self, call: C, arguments: &[u64]) -> bool {
        self.call.is_none_or(|c| c == call)
            && self.name.is_none_or(|n| n == call.name())
            && self.kind.is_none_or(|k| k == call.kind())
            && self.handle.is_none_or(|h| arguments.first() == Some(&h))
            && self.thread.is_none_or(|t| t == thread::current().id())
    }
}

#[derive(Debug)]
struct Armed<C: Listed> {
    fault: Fault<C>,
    matched: u64,
}

#[derive(Debug)]
struct Plan<C: Listed> {
    armed: Vec<Armed<C>>,
    sticky: Option<C::Status>,
}

impl<C: Listed> Default for Plan<C> {
    fn default() -> Self {
        Self { armed: Vec::new(), sticky: None }
    }
}

/// A hook that makes calls fail by plan. Costs one load where nothing is armed.
#[derive(Debug)]
pub struct Faults<C: Listed = Call> {
    active: AtomicBool,
    fired: AtomicU64,
    plan: Mutex<Plan<C>>,
}

impl Faults {
    /// A plan without faults, for a driver. ([`Default`] makes one for any list.)
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<C: Listed> Faults<C> {
    /// Adds a fault; those added first are looked at first.
    pub fn arm(&self, fault: Fault<C>) {
        self.plan.lock().armed.push(Armed { fault, matched: 0 });
        self.active.store(true, Ordering::Release);
    }

    /// Takes all faults out, a sticky one included.
    pub fn disarm(&self) {
        *self.plan.lock() = Plan::default();
        self.active.store(false, Ordering::Release);
    }

    /// How many calls failed by this plan so far.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }

    #[cold]
    fn decide(&self, call: C, arguments: &[u64]) -> Verdict<C::Status> {
        let mut plan = self.plan.lock();
        if let Some(status) = plan.sticky {
            return if call.survives_fatal() {
                Verdict::Pass
            } else {
                self.fire(Verdict::Refuse(status))
            };
        }
        let mut due = None;
        for armed in &mut plan.armed {
            if !armed.fault.matches(call, arguments) {
                continue;
            }
            // Every fault counts the call, also where another one is what makes it fail.
            armed.matched += 1;
            if armed.fault.nth.is_none_or(|nth| nth == armed.matched) {
                due = due.or(Some(armed.fault.effect));
            }
        }
        let Some(effect) = due else { return Verdict::Pass };
        if let Effect::StickyFromHere(status) = effect {
            plan.sticky = Some(status);
        }
        self.fire(match effect {
            Effect::Refused(status) | Effect::StickyFromHere(status) => Verdict::Refuse(status),
            Effect::DoneButFailed(status) => Verdict::PassButReport(status),
        })
    }

    fn fire(&self, verdict: Verdict<C::Status>) -> Verdict<C::Status> {
        self.fired.fetch_add(1, Ordering::Relaxed);
        verdict
    }
}

impl<C: Listed> Default for Faults<C> {
    fn default() -> Self {
        let plan = Mutex::new(Plan::default());
        Self { active: AtomicBool::new(false), fired: AtomicU64::new(0), plan }
    }
}

impl<C: Listed> Hook<C> for Faults<C> {
    #[inline]
    fn before(&self, call: C, arguments: &[u64]) -> Verdict<C::Status> {
        if self.active.load(Ordering::Acquire) {
            self.decide(call, arguments)
        } else {
            Verdict::Pass
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E: CUresult = CUresult::UNKNOWN;

    #[test]
    fn only_the_nth_matching_call_fails() {
        let faults = Faults::new();
        faults.arm(Fault::refused(E).on(Call::cuStreamSynchronize).nth(2));
        let ask = |call| faults.before(call, &[]);
        assert_eq!(ask(Call::cuStreamSynchronize), Verdict::Pass);
        assert_eq!(ask(Call::cuStreamQuery), Verdict::Pass);
        assert_eq!(ask(Call::cuStreamSynchronize), Verdict::Refuse(E));
        assert_eq!(ask(Call::cuStreamSynchronize), Verdict::Pass);
        assert_eq!(faults.fired(), 1);
    }

    #[test]
    fn a_fault_counts_the_calls_that_another_one_makes_fail() {
        let faults = Faults::new();
        faults.arm(Fault::refused(E).nth(1));
        faults.arm(Fault::done_but_failed(E).nth(2));
        assert_eq!(faults.before(Call::cuInit, &[]), Verdict::Refuse(E));
        assert_eq!(faults.before(Call::cuInit, &[]), Verdict::PassButReport(E));
        assert_eq!(faults.before(Call::cuInit, &[]), Verdict::Pass);
    }

    #[test]
    fn a_fault_can_be_bound_to_a_handle_and_a_kind() {
        let faults = Faults::new();
        faults.arm(Fault::done_but_failed(E).on_kind(Kind::Destroy).on_handle(7));
        assert_eq!(faults.before(Call::cuStreamDestroy_v2, &[8]), Verdict::Pass);
        assert_eq!(faults.before(Call::cuStreamQuery, &[7]), Verdict::Pass);
        assert_eq!(faults.before(Call::cuStreamDestroy_v2, &[7]), Verdict::PassButReport(E));
    }

    #[test]
    fn a_sticky_fault_leaves_the_thread_s_context_alone() {
        let faults = Faults::new();
        faults.arm(Fault::new(Effect::StickyFromHere(E)).on_function("cuLaunchKernel"));
        assert_eq!(faults.before(Call::cuLaunchKernel, &[]), Verdict::Refuse(E));
        assert_eq!(faults.before(Call::cuStreamSynchronize, &[]), Verdict::Refuse(E));
        assert_eq!(faults.before(Call::cuCtxSetCurrent, &[]), Verdict::Pass);
        assert_eq!(faults.before(Call::cuCtxGetCurrent, &[]), Verdict::Pass);
        faults.disarm();
        assert_eq!(faults.before(Call::cuStreamSynchronize, &[]), Verdict::Pass);
    }

    #[test]
    fn a_fault_of_one_thread_leaves_others_alone() {
        let faults = Faults::new();
        faults.arm(Fault::refused(E).on_this_thread());
        let other = thread::scope(|s| s.spawn(|| faults.before(Call::cuInit, &[])).join());
        assert_eq!(other.unwrap(), Verdict::Pass);
        assert_eq!(faults.before(Call::cuInit, &[]), Verdict::Refuse(E));
    }
}
