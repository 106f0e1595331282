//! The scoped operations: every cell of the table in the failure policy, with every kind of context current, each
//! failing call both refused and done all the same; then every pair and triple of failures, held to what the policy
//! promises of any of them.

#![expect(unsafe_code, reason = "puts contexts on the thread's stack as other libraries do")]

mod cleanup;
mod create;
mod create_context;
mod every;
mod panics;
mod run;

use cuhold_driver_sys::{CUresult, Call, Effect, Failure, Fault, ffi::CUcontext};
use cuhold_handles::{AnyCall, Context, ContextFlags, Current, Error, Note, Status, scope::Target};
use cuhold_testkit::{Kit, run};
use std::{fmt, ptr, thread};

pub(crate) const ASK: Call = Call::cuCtxGetCurrent;
pub(crate) const PUSH: Call = Call::cuCtxPushCurrent_v2;
pub(crate) const POP: Call = Call::cuCtxPopCurrent_v2;

/// What is current when an operation begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Situation {
    /// The operation's own context.
    Target,
    /// None.
    None,
    /// Another context of this library's.
    Another,
    /// A context that somebody else made.
    Foreign,
    /// A context that was destroyed while it was current here.
    Destroyed,
}

impl Situation {
    pub(crate) const ALL: [Self; 5] =
        [Self::Target, Self::None, Self::Another, Self::Foreign, Self::Destroyed];
    /// Those in which the operation has to switch.
    pub(crate) const OTHERS: [Self; 4] =
        [Self::None, Self::Another, Self::Foreign, Self::Destroyed];
}

/// Both ways in which a call fails, with a status of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Refused,
    Done,
}

impl How {
    pub(crate) const BOTH: [Self; 2] = [Self::Refused, Self::Done];

    pub(crate) fn with(self, status: CUresult) -> Effect {
        match self {
            Self::Refused => Effect::Refused(status),
            Self::Done => Effect::DoneButFailed(status),
        }
    }
}

impl fmt::Debug for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "refused",
            Self::Done => "done, but failed",
        })
    }
}

/// A status that no driver uses: the n-th of a test.
pub(crate) fn status(n: u32) -> CUresult {
    CUresult(9000 + n)
}

pub(crate) fn failure(call: Call, n: u32) -> Failure {
    Failure { call, status: status(n) }
}

/// What the thread has current, and how deep its stack is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) current: CUcontext,
    pub(crate) depth: Option<usize>,
}

/// A thread in one of the situations, and a context to work in.
pub(crate) struct Stage<'t> {
    pub(crate) t: &'t Kit,
    pub(crate) target: Context,
    pub(crate) before: Seen,
    another: Context,
    situation: Situation,
}

impl<'t> Stage<'t> {
    /// Runs `body` in the situation, and then takes it down.
    pub(crate) fn enter(t: &'t Kit, situation: Situation, body: impl FnOnce(&Self)) {
        let created = || Context::new(t.device(), ContextFlags::default()).unwrap();
        let (target, another) = (created(), created());
        // Something lies under what is current, so that one pop too many is seen.
        if situation != Situation::None {
            push_raw(t, t.context().as_raw());
            let stranger = match situation {
                Situation::Target => Some(target.as_raw()),
                Situation::Another => Some(another.as_raw()),
                Situation::None | Situation::Foreign | Situation::Destroyed => None,
            };
            match stranger {
                Some(raw) => push_raw(t, raw),
                None => make_raw(t),
            }
        }
        let top = seen_current(t);
        if situation == Situation::Destroyed {
            let driver = t.driver();
            // SAFETY: made above, and used as a stale handle only, as the driver allows.
            let end = || unsafe { driver.calls().cuCtxDestroy_v2(top) };
            thread::scope(|s| s.spawn(end).join()).unwrap().unwrap();
        }
        let mut stage =
            Self { t, target, before: Seen { current: top, depth: None }, another, situation };
        stage.before = stage.seen();
        body(&stage);
        t.faults().disarm();
        if situation != Situation::None {
            pop(t);
            pop(t);
            if situation == Situation::Foreign {
                // SAFETY: made above, and used by nobody any more.
                unsafe { t.driver().calls().cuCtxDestroy_v2(top) }.unwrap();
            }
        }
        // Not left to the reclaimer: the next stage counts what is there.
        for context in [stage.target, stage.another] {
            context.close().map_err(|refused| refused.error).unwrap();
        }
    }

    pub(crate) fn target(&self) -> Target<'_> {
        self.target.target()
    }

    /// Whether a context is one of this stage's own.
    pub(crate) fn owns(&self, raw: usize) -> bool {
        [self.target.as_raw(), self.another.as_raw(), self.before.current]
            .iter()
            .any(|context| context.addr() == raw)
    }

    /// Arms a fault on the n-th call of a form.
    pub(crate) fn fail(&self, call: Call, nth: u64, how: How, n: u32) {
        self.t.faults().arm(Fault::new(how.with(status(n))).on(call).nth(nth));
    }

    /// What is current now. On a real driver the depth isn't looked at with a destroyed context on the stack, which
    /// can't be put there again.
    pub(crate) fn seen(&self) -> Seen {
        if let Some(sim) = self.t.sim() {
            return Seen { current: sim.current(), depth: Some(sim.stack_depth()) };
        }
        self.t.faults().disarm();
        if self.situation == Situation::Destroyed {
            return Seen { current: seen_current(self.t), depth: None };
        }
        let stack = self.t.stack();
        Seen {
            current: stack.first().copied().unwrap_or(CUcontext::NULL),
            depth: Some(stack.len()),
        }
    }

    /// The thread is as it was.
    #[track_caller]
    pub(crate) fn is_as_before(&self) {
        assert_eq!(self.seen(), self.before);
    }

    /// The thread has the target current, on what it had. Takes it off.
    #[track_caller]
    pub(crate) fn is_left_in_target(&self) {
        let target = self.target.as_raw();
        self.t.faults().disarm();
        assert_eq!(self.seen().current, target);
        pop(self.t);
        self.is_as_before();
    }

    /// Takes the stack down and builds it up again, after failures that left it in disorder.
    pub(crate) fn set_up_again(&self) {
        while self.seen().depth > Some(0) {
            pop(self.t);
        }
        if self.situation != Situation::None {
            push_raw(self.t, self.t.context().as_raw());
            push_raw(self.t, self.target.as_raw());
            // In the place of the target, since a destroyed context is refused where it is pushed.
            // SAFETY: *handles*: a context, possibly a destroyed one.
            unsafe { self.t.driver().calls().cuCtxSetCurrent(self.before.current) }.unwrap();
        }
        self.is_as_before();
    }

    /// After a call that was to put the caller's context back failed so.
    #[track_caller]
    pub(crate) fn is_left_by(&self, how: How) {
        match how {
            How::Refused => self.is_left_in_target(),
            How::Done => self.is_as_before(),
        }
    }

    /// What is current after a call that was to put the caller's context back failed so.
    pub(crate) fn left_by(&self, how: How) -> Current {
        match how {
            How::Refused => Current::of(self.target.as_raw()),
            How::Done => Current::of(self.before.current),
        }
    }
}

/// Runs the body in each of these situations, each failing call in both ways.
pub(crate) fn each(situations: &[Situation], body: impl Fn(&Stage<'_>, How)) {
    run(|t| {
        for situation in situations {
            for how in How::BOTH {
                let label = format!("{situation:?} current, {how:?}");
                let failed = Labelled(&label);
                Stage::enter(t, *situation, |stage| body(stage, how));
                drop(failed);
            }
        }
    });
}

/// Says in which situation a test failed.
pub(crate) struct Labelled<'a>(pub(crate) &'a str);

impl Drop for Labelled<'_> {
    #[expect(clippy::print_stderr, reason = "part of a failing test's output")]
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("in the situation: {}", self.0);
        }
    }
}

/// What an error says, taken apart for comparison.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Says {
    pub(crate) first: Failure,
    pub(crate) notes: Vec<Note>,
    pub(crate) now: Current,
    pub(crate) completed: Option<u32>,
}

impl Says {
    pub(crate) fn of(error: &Error) -> Self {
        let (Some(AnyCall::Driver(call)), Some(Status::Driver(status))) =
            (error.call(), error.status())
        else {
            panic!("no call failed: {error}")
        };
        Self {
            first: Failure { call, status },
            notes: error.notes().to_vec(),
            now: error.now_current(),
            completed: error.completed(),
        }
    }

    /// Only this.
    pub(crate) fn only(first: Failure) -> Self {
        Self { first, notes: Vec::new(), now: Current::NotAsked, completed: None }
    }
}

pub(crate) fn seen_current(t: &Kit) -> CUcontext {
    let mut raw = CUcontext::NULL;
    // SAFETY: *pointers*: a live local.
    unsafe { t.driver().calls().cuCtxGetCurrent(&raw mut raw) }.unwrap();
    raw
}

fn push_raw(t: &Kit, raw: CUcontext) {
    // SAFETY: *handles*: live as long as the stage, which pops it.
    unsafe { t.driver().calls().cuCtxPushCurrent_v2(raw) }.unwrap();
}

fn pop(t: &Kit) {
    let mut raw = CUcontext::NULL;
    // SAFETY: *pointers*: a live local.
    unsafe { t.driver().calls().cuCtxPopCurrent_v2(&raw mut raw) }.unwrap();
}

/// Makes a context as another library would, and leaves it current.
fn make_raw(t: &Kit) {
    let mut raw = CUcontext::NULL;
    // SAFETY: *pointers*: a live local, and no parameters.
    unsafe {
        t.driver().calls().cuCtxCreate_v4(&raw mut raw, ptr::null_mut(), 0, t.context().device())
    }
    .unwrap();
}
