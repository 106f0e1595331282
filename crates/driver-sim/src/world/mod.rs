//! The inner simulated driver: one state behind one lock, and the turn that each call takes.
//!
//! ```text
//!   World (DriverApi) ──enter──► Turn { state (locked), call, thread } ──► topic function
//!                                  └─ unlocked(..) while code of the caller runs
//! ```
//!
//! Start reading at [`World::enter`]. The functions themselves stand in topic files (`driver`, `device`, `context`,
//! `stream`, `event`, `capture`, `graph`, `memory`, `code`, `log`) as `fn(&mut Turn, arguments) -> Answer`; `api.rs`
//! lists which C function is which of them.
//!
//! Each of them checks in this order: null out-pointers, handles, the current context, a lost driver, captures, values.
//! A failing call has no effect unless the driver is documented or measured to have one.

mod api;
mod api_graph;
mod pointer;
mod state;
mod table;
mod thread;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::ThreadId,
    time::Duration,
};

use cuhold_driver_sys::{CUresult, Call, Life};
use parking_lot::{Condvar, Mutex, MutexGuard};

pub(crate) use api::SIMULATED;
pub(crate) use pointer::{Argument, In, Out};
pub(crate) use state::{State, UserData, mixed};
pub(crate) use table::{Absent, Ending, Grave, Key, Table, Values};
pub(crate) use thread::Threads;

use crate::{
    audit::{CallSite, ObjectKind, Violation, ViolationKind},
    context::Context,
    memory::Exchange,
    options::SimOptions,
};

/// What a topic function answers: nothing, or the status that isn't `SUCCESS`.
pub(crate) type Answer = Result<(), CUresult>;

/// The inner simulated driver, shared by its clones.
#[derive(Clone, Debug)]
pub(crate) struct World(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    state: Mutex<State>,
    /// Notified whenever a piece of queued work completed.
    progress: Condvar,
    exiting: AtomicBool,
}

impl World {
    pub(crate) fn new(options: SimOptions, exchange: Exchange) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State::new(options, exchange)),
            progress: Condvar::new(),
            exiting: AtomicBool::new(false),
        }))
    }

    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        Self(inner)
    }

    pub(crate) fn downgrade(&self) -> Weak<Inner> {
        Arc::downgrade(&self.0)
    }

    /// The state, for audits and set-up; no call is made.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    pub(crate) fn begin_exit(&self) {
        self.0.exiting.store(true, Ordering::Relaxed);
    }

    pub(crate) fn life(&self) -> Life {
        if self.0.exiting.load(Ordering::Relaxed) { Life::Exiting } else { Life::Live }
    }

    /// A turn outside any call of the caller, on behalf of `call`, for what a test asks the simulator itself to do.
    pub(crate) fn turn(&self, call: Call) -> Turn<'_> {
        let state = self.0.state.lock();
        let thread = std::thread::current().id();
        let site = CallSite::new(state.calls, call, thread);
        Turn { world: self, state, thread, site }
    }

    /// Answers one call.
    #[inline]
    fn enter(&self, call: Call, body: impl FnOnce(&mut Turn<'_>) -> Answer) -> CUresult {
        if self.0.exiting.load(Ordering::Relaxed) {
            return CUresult::DEINITIALIZED;
        }
        let mut turn = self.turn(call);
        turn.site = turn.state.count(call, turn.thread);
        let answer = turn.admit().and_then(|()| body(&mut turn));
        if !turn.state.user_references.is_empty() {
            turn.release_user_references();
        }
        match answer {
            Ok(()) => CUresult::SUCCESS,
            Err(status) => turn.failed(status),
        }
    }

    /// Remembers that the last call of this form that this thread made was done, although it was told otherwise.
    fn deny(&self, call: Call) {
        self.0.state.lock().deny(call, std::thread::current().id());
    }
}

/// One call in progress: the locked state, and who calls what.
pub(crate) struct Turn<'w> {
    pub(crate) world: &'w World,
    pub(crate) state: MutexGuard<'w, State>,
    pub(crate) thread: ThreadId,
    /// This call.
    pub(crate) site: CallSite,
}

impl Turn<'_> {
    pub(crate) fn call(&self) -> Call {
        self.site.call
    }

    /// The checks that come before every function's own.
    fn admit(&mut self) -> Answer {
        let call = self.site.call;
        if call.since() > self.state.options.driver_version {
            return Err(CUresult::MISSING);
        }
        if self.is_inside_callback() && !State::only_looks_up(call) {
            self.violate(ViolationKind::CallInsideCallback, None, "");
            return Err(CUresult::NOT_PERMITTED);
        }
        if !self.state.initialized && call != Call::cuInit && !State::only_looks_up(call) {
            return Err(CUresult::NOT_INITIALIZED);
        }
        Ok(())
    }

    /// Whether code of the caller that the driver called is on this thread's call stack.
    pub(crate) fn is_inside_callback(&self) -> bool {
        self.state.threads.get(self.thread).is_some_and(|thread| thread.callbacks > 0)
    }

    #[cold]
    fn failed(&mut self, status: CUresult) -> CUresult {
        if status != CUresult::NOT_READY && status != CUresult::MISSING {
            self.log_failure(status);
        }
        status
    }

    /// Runs code of the caller with nothing locked, marked as inside a callback.
    pub(crate) fn unlocked<R>(&mut self, code: impl FnOnce() -> R) -> R {
        self.state.threads.get_mut(self.thread).callbacks += 1;
        let result = MutexGuard::unlocked(&mut self.state, code);
        self.state.threads.get_mut(self.thread).callbacks -= 1;
        result
    }

    /// Gives the lock up until a piece of queued work has completed on another thread.
    pub(crate) fn wait_for_progress(&mut self) {
        self.world.0.progress.wait(&mut self.state);
    }

    /// The same, but at most for so long.
    pub(crate) fn wait_for_progress_or(&mut self, at_most: Duration) {
        self.world.0.progress.wait_for(&mut self.state, at_most);
    }

    /// Wakes those that wait for progress.
    pub(crate) fn progressed(&self) {
        self.world.0.progress.notify_all();
    }

    /// This crate broke one of its own rules about `what`: remembered, and answered with `UNKNOWN`.
    #[cold]
    pub(crate) fn broken(&mut self, what: &'static str) -> CUresult {
        self.violate(ViolationKind::Internal, None, what);
        CUresult::UNKNOWN
    }

    /// Remembers a violation of this call.
    #[cold]
    pub(crate) fn violate(
        &mut self,
        kind: ViolationKind,
        object: Option<(ObjectKind, u64)>,
        note: &'static str,
    ) {
        let calls = vec![self.site];
        self.state.violate(Violation::new(kind, object, calls, note));
    }

    /// The live object with this handle; else `status`, and a violation unless the handle is null.
    pub(crate) fn find<T>(
        &mut self,
        table: impl Fn(&State) -> &Table<T>,
        raw: usize,
        status: CUresult,
    ) -> Result<Key<T>, CUresult> {
        if let Some(key) = table(&self.state).find(raw) {
            return Ok(key);
        }
        let (kind, absent) = (table(&self.state).kind(), table(&self.state).absent(raw));
        let site = self.site;
        self.state.violate_absent(kind, raw as u64, absent, site);
        Err(status)
    }

    /// The context that owns what the calling thread makes: the current one, or where that is a green context's view
    /// the primary context. `INVALID_CONTEXT` if there is none, `CONTEXT_IS_DESTROYED` if it ended.
    pub(crate) fn current(&mut self) -> Result<Key<Context>, CUresult> {
        let key = self.current_view()?;
        Ok(self.state.owner_of(key))
    }

    /// The calling thread's current context as it is, a green context's view included.
    pub(crate) fn current_view(&mut self) -> Result<Key<Context>, CUresult> {
        let raw = self.state.threads.current(self.thread);
        if raw.is_null() {
            return Err(CUresult::INVALID_CONTEXT);
        }
        if let Some(key) = self.state.contexts.find(raw.addr()) {
            return Ok(key);
        }
        match self.state.contexts.absent(raw.addr()) {
            Absent::NeverGiven => {
                let site = self.site;
                let raw = raw.addr() as u64;
                self.state.violate_absent(ObjectKind::Context, raw, Absent::NeverGiven, site);
                Err(CUresult::INVALID_CONTEXT)
            }
            _ => Err(CUresult::CONTEXT_IS_DESTROYED),
        }
    }

    /// Answers the fatal status once there is one.
    pub(crate) fn not_lost(&self) -> Answer {
        self.state.lost.map_or(Ok(()), Err)
    }
}
