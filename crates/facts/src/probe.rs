//! What a probe is, and the situations that one that makes a legal call is asked in as well.

use std::collections::BTreeMap;

use cuhold_driver_sys::{Call, Failure, Function, ffi::*};

use crate::{
    ctx::{Ctx, Subject},
    probes,
    setup::Made,
};

/// Which half of a function's pair a probe is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a pair, and what goes beyond it")]
pub enum Kind {
    /// The function does what it is for.
    Success,
    /// The function refuses.
    Failure,
    /// One more thing that was worth knowing. Most hold more than one status.
    Case,
}

/// The asked call of a probe, its set-up done. Runs on any thread.
pub(crate) type Step = Box<dyn FnOnce(&mut Ctx) -> Made<()> + Send>;

/// Makes a step of a closure.
pub(crate) fn step(work: impl FnOnce(&mut Ctx) -> Made<()> + Send + 'static) -> Made<Step> {
    Ok(Box::new(work))
}

#[derive(Clone, Copy, Debug)]
enum Body {
    /// Set-up, then a legal call as a step of its own.
    Legal(fn(&mut Ctx) -> Made<Step>),
    /// All in one.
    Whole(fn(&mut Ctx) -> Made<()>),
}

/// One question to a driver about one function.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    call: Call,
    name: &'static str,
    kind: Kind,
    body: Body,
    situations: bool,
    crashes: bool,
    frees: bool,
}

impl Probe {
    /// A legal call. It is also asked during somebody's capture, with no context current or a destroyed one, after a fault, and while another stream works.
    pub(crate) const fn works(
        call: Call,
        name: &'static str,
        body: fn(&mut Ctx) -> Made<Step>,
    ) -> Self {
        let body = Body::Legal(body);
        Self {
            call,
            name,
            kind: Kind::Success,
            body,
            situations: true,
            crashes: false,
            frees: false,
        }
    }

    /// A legal call that can't be asked in other situations.
    pub(crate) const fn works_here(
        call: Call,
        name: &'static str,
        body: fn(&mut Ctx) -> Made<()>,
    ) -> Self {
        Self::whole(call, name, Kind::Success, body)
    }

    /// A call that is refused.
    pub(crate) const fn fails(
        call: Call,
        name: &'static str,
        body: fn(&mut Ctx) -> Made<()>,
    ) -> Self {
        Self::whole(call, name, Kind::Failure, body)
    }

    /// One more thing.
    pub(crate) const fn case(
        call: Call,
        name: &'static str,
        body: fn(&mut Ctx) -> Made<()>,
    ) -> Self {
        Self::whole(call, name, Kind::Case, body)
    }

    /// A call that ends a real driver's process.
    pub(crate) const fn crashes(
        call: Call,
        name: &'static str,
        body: fn(&mut Ctx) -> Made<()>,
    ) -> Self {
        let probe = Self::whole(call, name, Kind::Case, body);
        Self { crashes: true, ..probe }
    }

    /// The crash comes of host memory that the driver has freed and goes on to use: the process is one that overwrites
    /// what is freed, so that it shows at once.
    pub(crate) const fn of_freed_host_memory(self) -> Self {
        Self { frees: true, ..self }
    }

    const fn whole(
        call: Call,
        name: &'static str,
        kind: Kind,
        body: fn(&mut Ctx) -> Made<()>,
    ) -> Self {
        Self {
            call,
            name,
            kind,
            body: Body::Whole(body),
            situations: false,
            crashes: false,
            frees: false,
        }
    }

    /// Every probe, in the order of the files.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        probes::ALL.iter().flat_map(|file| file.iter())
    }

    /// The function that it asks about.
    #[must_use]
    pub fn function(&self) -> &'static Function {
        self.call.function()
    }

    /// The form that it calls.
    #[must_use]
    pub fn call(&self) -> Call {
        self.call
    }

    /// A true sentence without its full stop, unique; about an older or another driver it may turn out false, which is
    /// what the answer says.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Which half of the pair it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it is asked in a process that overwrites the host memory that it frees.
    #[must_use]
    pub fn overwrites_freed(&self) -> bool {
        self.frees
    }

    /// Whether it ends a real driver's process.
    #[must_use]
    pub fn is_crash(&self) -> bool {
        self.crashes
    }
}

/// Who makes a call while somebody's capture is under way, and how.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the driver knows no more")]
pub enum Caller {
    /// The thread that captures.
    Same,
    /// Another thread.
    Other,
    /// Another thread, which has exchanged its mode to relaxed.
    OtherRelaxed,
}

/// The mode of somebody's capture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the driver knows no more")]
pub enum Mode {
    /// Forbids unsafe calls on every thread.
    Global,
    /// Forbids unsafe calls on the capturing thread.
    ThreadLocal,
    /// Forbids nothing.
    Relaxed,
}

impl Mode {
    pub(crate) fn raw(self) -> CUstreamCaptureMode {
        match self {
            Self::Global => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
            Self::ThreadLocal => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            Self::Relaxed => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
        }
    }
}

/// Whose stream is captured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a closed classification")]
pub enum Whose {
    /// One of the context that is current to the call.
    CallsContext,
    /// One of another device.
    AnotherDevice,
}

/// Where a probe's call is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a closed classification")]
pub enum Situation {
    /// As the probe says.
    Plain,
    /// While another stream, which isn't ordered with any other, is being captured.
    Capture(Mode, Caller),
    /// In turn while streams of every kind are being captured, by every caller.
    Captures(Whose),
    /// With no context current.
    NoContext,
    /// With a context current that another thread has destroyed.
    DestroyedContext,
    /// After a kernel wrote to a wrong address, and that was heard of.
    Fault,
    /// While another stream of the current context works.
    Busy,
}

/// A probe in a situation: what has an answer.
#[derive(Clone, Debug)]
pub struct Question {
    name: String,
    probe: &'static Probe,
    situation: Situation,
}

impl Question {
    /// Every question, by name.
    #[must_use]
    pub fn all() -> BTreeMap<String, Self> {
        Probe::all()
            .flat_map(|probe| situations(probe).into_iter().map(move |s| Self::new(probe, s)))
            .map(|question| (question.name.clone(), question))
            .collect()
    }

    fn new(probe: &'static Probe, situation: Situation) -> Self {
        Self { name: name(probe, situation), probe, situation }
    }

    /// Its name, unique: the probe's own, or the function's with the situation.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The probe.
    #[must_use]
    pub fn probe(&self) -> &'static Probe {
        self.probe
    }

    /// The situation.
    #[must_use]
    pub fn situation(&self) -> Situation {
        self.situation
    }

    /// How many devices it needs.
    #[must_use]
    pub fn devices(&self) -> usize {
        if self.situation == Situation::Captures(Whose::AnotherDevice) { 2 } else { 1 }
    }

    /// Asks the driver, on this thread. `hears` is told each word of the answer at once.
    #[must_use]
    pub fn ask(&self, subject: Subject, hears: Option<fn(&str)>) -> String {
        let mut ctx = Ctx::new(subject, hears, self.situation == Situation::Plain);
        let done = self.run(&mut ctx);
        ctx.into_answer(done)
    }

    fn run(&self, c: &mut Ctx) -> Result<(), Failure> {
        let prepare = match (self.probe.body, self.situation) {
            (Body::Whole(body), _) => return body(c),
            (Body::Legal(prepare), Situation::Plain) => {
                let step = prepare(c)?;
                return step(c);
            }
            (Body::Legal(prepare), Situation::Captures(whose)) => {
                return c.through_captures(prepare, whose);
            }
            (Body::Legal(prepare), _) => prepare,
        };
        let step = prepare(c)?;
        match self.situation {
            Situation::Plain | Situation::Captures(_) => step(c),
            Situation::Capture(mode, caller) => c.during_capture(step, mode.raw(), caller),
            Situation::NoContext => {
                c.empty_stack();
                step(c)
            }
            Situation::DestroyedContext => c.with_destroyed_context(step),
            Situation::Fault => c.after_fault(step),
            Situation::Busy => c.while_busy(step),
        }
    }
}

/// The functions that are asked in every mode and by every caller: some of each kind.
const EVERY_MODE: &[Call] = &[
    Call::cuArray3DCreate_v2,
    Call::cuArrayDestroy,
    Call::cuCtxGetCurrent,
    Call::cuCtxRecordEvent,
    Call::cuCtxSynchronize,
    Call::cuCtxWaitEvent,
    Call::cuEventQuery,
    Call::cuGraphCreate,
    Call::cuLaunchKernel,
    Call::cuLibraryLoadData,
    Call::cuMemAlloc_v2,
    Call::cuMemAllocAsync,
    Call::cuMemAllocHost_v2,
    Call::cuMemFree_v2,
    Call::cuMemFreeAsync,
    Call::cuMemGetInfo_v2,
    Call::cuMemHostRegister_v2,
    Call::cuMemPoolCreate,
    Call::cuMemPoolGetAttribute,
    Call::cuMemcpyHtoD_v2,
    Call::cuModuleLoadData,
    Call::cuModuleUnload,
    Call::cuStreamCreate,
    Call::cuStreamSynchronize,
    Call::cuSurfObjectDestroy,
    Call::cuTexObjectCreate,
    Call::cuTexObjectDestroy,
];

fn situations(probe: &'static Probe) -> Vec<Situation> {
    let mut all = vec![Situation::Plain];
    if probe.situations {
        all.extend([
            Situation::NoContext,
            Situation::DestroyedContext,
            Situation::Fault,
            Situation::Busy,
        ]);
        all.push(Situation::Capture(Mode::Global, Caller::Same));
        all.push(Situation::Captures(Whose::CallsContext));
        all.push(Situation::Captures(Whose::AnotherDevice));
        if EVERY_MODE.contains(&probe.call) {
            all.extend([
                Situation::Capture(Mode::Global, Caller::Other),
                Situation::Capture(Mode::Global, Caller::OtherRelaxed),
                Situation::Capture(Mode::ThreadLocal, Caller::Same),
                Situation::Capture(Mode::ThreadLocal, Caller::Other),
                Situation::Capture(Mode::Relaxed, Caller::Same),
                Situation::Capture(Mode::Relaxed, Caller::Other),
            ]);
        }
    }
    all
}

fn name(probe: &Probe, situation: Situation) -> String {
    let function = probe.function().name;
    match situation {
        Situation::Plain => probe.name.to_owned(),
        Situation::NoContext => format!("{function} with no context current"),
        Situation::DestroyedContext => format!("{function} with a destroyed context current"),
        Situation::Fault => format!("{function} after a fault"),
        Situation::Busy => format!("{function} while another stream works"),
        Situation::Captures(Whose::CallsContext) => format!("{function} during every capture"),
        Situation::Captures(Whose::AnotherDevice) => {
            format!("{function} during every capture of another device")
        }
        Situation::Capture(mode, caller) => {
            let mode = match mode {
                Mode::Global => "a global",
                Mode::ThreadLocal => "a thread-local",
                Mode::Relaxed => "a relaxed",
            };
            let caller = match caller {
                Caller::Same => "the capturing thread",
                Caller::Other => "another thread",
                Caller::OtherRelaxed => "another thread in relaxed mode",
            };
            format!("{function} during {mode} capture elsewhere, on {caller}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_sentences_without_a_full_stop() {
        let mut names = BTreeSet::new();
        for name in Probe::all().map(Probe::name) {
            assert!(names.insert(name), "{name}");
            assert!(!name.ends_with('.') && name.contains(' '), "{name}");
        }
        let questions: usize = Probe::all().map(|probe| situations(probe).len()).sum();
        assert_eq!(Question::all().len(), questions);
    }

    #[test]
    fn every_function_that_is_asked_about_has_its_pair() {
        let with = |kind| -> BTreeSet<&str> {
            Probe::all().filter(|p| p.kind == kind).map(|p| p.function().name).collect()
        };
        let (success, failure) = (with(Kind::Success), with(Kind::Failure));
        assert_eq!(success.difference(&failure).collect::<Vec<_>>(), Vec::<&&str>::new());
        assert_eq!(failure.difference(&success).collect::<Vec<_>>(), Vec::<&&str>::new());
        assert!(success.len() >= 130, "{}", success.len());
    }

    #[test]
    fn what_is_asked_in_every_mode_has_a_legal_call() {
        for call in EVERY_MODE {
            let legal = Probe::all().filter(|p| p.call == *call && p.situations).count();
            assert_eq!(legal, 1, "{call:?}");
        }
    }
}
