//! The one error type of all crates, and what comes back with it.
//!
//! Grammar of every text: lower case, no full stop, the call and its code first, then the cause and what to do next where
//! they are known, then what else happened on the way out. An `Error` is two words: a bare driver failure stands inline,
//! everything else is shared behind a pointer.

pub use crate::refused::Refused;

use crate::{
    current::Current,
    errno::Errno,
    hint,
    status::{AnyCall, CompilerFailure, Status},
};
use cuhold_driver_sys::{
    CUresult, Call, Failure,
    nvjitlink::{NvJitLinkFailure, nvJitLinkResult},
    nvrtc::{NvrtcFailure, nvrtcResult},
    nvvm::{NvvmFailure, nvvmResult},
};
use std::{borrow::Cow, fmt, sync::Arc};

/// The result of every fallible operation of this project.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure an [`Error`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A call of the driver or of a compiler answered a status.
    Driver,
    /// A call of the operating system failed.
    System,
    /// The driver lacks a function that the operation needs; the text names it and the CUDA version that brought it.
    Missing,
    /// An argument is refused before the driver is asked: out of its bounds, or an object of another driver.
    Argument,
    /// An object isn't in a state that allows the operation; the driver wasn't asked.
    State,
    /// The operation was called where no CUDA call may be made: inside a callback of the driver.
    NotPermitted,
    /// The process is a forked child of the one that used the driver. The driver wasn't asked.
    Forked,
    /// No driver, or no compiler, could be loaded; the text lists what was tried.
    Load,
    /// Source code didn't compile; the text is the compiler's log.
    Compile,
}

/// What failed. `Clone` is cheap; `Send + Sync`.
#[derive(Clone)]
pub struct Error(Repr);

#[derive(Clone)]
enum Repr {
    Driver(Failure),
    Full(Arc<Full>),
}

#[derive(Clone)]
struct Full {
    kind: ErrorKind,
    call: Option<AnyCall>,
    status: Option<Status>,
    text: Cow<'static, str>,
    notes: Vec<Note>,
    now_current: Current,
    completed: Option<u32>,
}

/// A second thing that went wrong on the way out of a failing operation, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The caller's context couldn't be made current again; what is current now, asked for.
    NotRestored {
        /// Why; `None` where the driver couldn't say whether it had to be.
        failure: Option<Failure>,
        /// What is current now.
        now: Current,
    },
    /// The thread's capture mode couldn't be put back; it is relaxed now.
    ModeNotRestored(Failure),
    /// Another call that failed.
    Failed(Failure),
    /// Another call that failed, of a compiler.
    Compiler(CompilerFailure),
    /// Undoing a creation failed.
    UndoFailed(Failure),
    /// An object wasn't ended, since its context, or the thread's capture mode, couldn't be made sure of: the raw value
    /// is lost.
    Leaked {
        /// The raw value.
        raw: u64,
    },
    /// Anything else, in words.
    Text(Cow<'static, str>),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRestored { failure: Some(failure), now } => {
                write!(f, "the caller's context wasn't restored ({failure}); {now}")
            }
            Self::NotRestored { failure: None, now } => {
                write!(f, "the caller's context may not be current; {now}")
            }
            Self::ModeNotRestored(failure) => {
                write!(
                    f,
                    "the thread's capture mode wasn't restored ({failure}); it is relaxed now"
                )
            }
            Self::Failed(failure) => write!(f, "{failure}"),
            Self::Compiler(failure) => write!(f, "{failure}"),
            Self::UndoFailed(failure) => write!(f, "undoing it failed ({failure})"),
            Self::Leaked { raw } => {
                write!(f, "the object {raw:#x} is leaked, since it couldn't be ended here")
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Error {
    /// An error of this kind with a text of its own.
    ///
    /// Calls nothing.
    pub fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self::full(Full::of(kind, text.into()))
    }

    /// An argument is refused: `text` names it and its bound.
    ///
    /// Calls nothing.
    pub fn argument(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Argument, text)
    }

    /// The object isn't in a state that allows this.
    ///
    /// Calls nothing.
    pub fn state(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::State, text)
    }

    /// An NVRTC call failed; with the compiler's log where source code didn't compile.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn nvrtc(failure: NvrtcFailure, log: Option<String>) -> Self {
        let kind = match (&log, failure.status) {
            (Some(_), _) => ErrorKind::Compile,
            (None, nvrtcResult::MISSING) => ErrorKind::Missing,
            (None, _) => ErrorKind::Driver,
        };
        let mut full = Full::of(kind, log.unwrap_or_default().into());
        full.call = Some(AnyCall::Nvrtc(failure.call));
        full.status = Some(Status::Nvrtc(failure.status));
        Self::full(full)
    }

    /// An NVVM call failed; with the compiler's log where code didn't compile.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn nvvm(failure: NvvmFailure, log: Option<String>) -> Self {
        let kind = match (&log, failure.status) {
            (Some(_), _) => ErrorKind::Compile,
            (None, nvvmResult::MISSING) => ErrorKind::Missing,
            (None, _) => ErrorKind::Driver,
        };
        let mut full = Full::of(kind, log.unwrap_or_default().into());
        full.call = Some(AnyCall::Nvvm(failure.call));
        full.status = Some(Status::Nvvm(failure.status));
        Self::full(full)
    }

    /// A call of nvJitLink failed.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn nvjitlink(failure: NvJitLinkFailure) -> Self {
        let kind = match failure.status {
            nvJitLinkResult::MISSING => ErrorKind::Missing,
            _ => ErrorKind::Driver,
        };
        let mut full = Full::of(kind, Cow::Borrowed(""));
        full.call = Some(AnyCall::NvJitLink(failure.call));
        full.status = Some(Status::NvJitLink(failure.status));
        Self::full(full)
    }

    /// A call of the operating system failed.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn system(call: &'static str, errno: Errno) -> Self {
        let mut full = Full::of(ErrorKind::System, Cow::Borrowed(""));
        full.call = Some(AnyCall::System(call));
        full.status = Some(Status::Errno(errno));
        Self::full(full)
    }

    /// A call that another library made of the driver answered this; `by` says of what it was part.
    #[cold]
    #[must_use]
    pub(crate) fn elsewhere(status: CUresult, by: &'static str) -> Self {
        let mut text = format!("{by} failed with {status}");
        if let Some(description) = status.description() {
            text.push_str(": ");
            text.push_str(description);
        }
        let mut full = Full::of(ErrorKind::Driver, text.into());
        full.status = Some(Status::Driver(status));
        Self::full(full)
    }

    /// Objects of two drivers met in one call.
    ///
    /// Calls nothing.
    #[cold]
    #[must_use]
    pub fn two_drivers(what: &'static str) -> Self {
        Self::argument(format!("{what} belongs to another driver than the object it is used with"))
    }

    /// The call was made inside a callback of the driver.
    ///
    /// Calls nothing.
    #[cold]
    #[must_use]
    pub fn in_callback() -> Self {
        Self::new(
            ErrorKind::NotPermitted,
            "no CUDA call may be made inside a callback of the driver",
        )
    }

    /// The process is a forked child.
    ///
    /// Calls nothing.
    #[cold]
    #[must_use]
    pub fn forked() -> Self {
        let text = "this process was forked from one that used CUDA, and CUDA can't be used in it";
        let mut full = Full::of(ErrorKind::Forked, text.into());
        full.status = Some(Status::Driver(CUresult::NOT_INITIALIZED));
        Self::full(full)
    }

    /// Says which call was made.
    #[must_use]
    pub(crate) fn with_call(self, call: Call) -> Self {
        self.edit(|full| full.call = Some(AnyCall::Driver(call)))
    }

    /// Adds what went wrong while the thing was undone that the operation had made.
    #[doc(hidden)]
    #[must_use]
    pub fn with_undo(self, undo: &Self) -> Self {
        self.with_other(undo, Note::UndoFailed)
    }

    /// Adds a second error that isn't about an undo.
    #[doc(hidden)]
    #[must_use]
    pub fn with_second(self, second: &Self) -> Self {
        self.with_other(second, Note::Failed)
    }

    /// Adds an error with all that it tells: each failed call once, and what is current.
    fn with_other(self, other: &Self, note: impl FnOnce(Failure) -> Note) -> Self {
        let failure = other.failure();
        let now = other.now_current();
        let is_restore = now != Current::NotAsked
            && !other.notes().iter().any(|note| matches!(note, Note::NotRestored { .. }));
        let is_mode =
            failure.is_some_and(|failure| other.notes().contains(&Note::ModeNotRestored(failure)));
        let first = match failure {
            _ if is_mode => None,
            _ if is_restore => Some(Note::NotRestored { failure, now }),
            Some(failure) => Some(note(failure)),
            None => Some(match other.compiler_failure() {
                Some(failure) => Note::Compiler(failure),
                None => Note::Text(other.to_string().into()),
            }),
        };
        let error =
            first.into_iter().chain(other.notes().iter().cloned()).fold(self, Self::with_note);
        if now == Current::NotAsked { error } else { error.with_current(now) }
    }

    /// Adds another call that failed, at the end.
    #[must_use]
    pub(crate) fn with_failure(self, failure: Failure) -> Self {
        self.with_note(Note::Failed(failure))
    }

    fn full(full: Full) -> Self {
        Self(Repr::Full(Arc::new(full)))
    }

    fn edit(self, change: impl FnOnce(&mut Full)) -> Self {
        let mut full = match self.0 {
            Repr::Driver(failure) => Arc::new(Full::driver(failure)),
            Repr::Full(full) => full,
        };
        change(Arc::make_mut(&mut full));
        Self(Repr::Full(full))
    }

    /// Adds what else went wrong, at the end.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn with_note(self, note: Note) -> Self {
        self.edit(|full| full.notes.push(note))
    }

    /// Says which context is current now.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn with_current(self, now: Current) -> Self {
        self.edit(|full| full.now_current = now)
    }

    /// Says how many parts of the operation the driver accepted.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn with_completed(self, parts: u32) -> Self {
        self.edit(|full| full.completed = Some(parts))
    }

    /// What kind of failure this is.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Repr::Driver(Failure { status: CUresult::MISSING, .. }) => ErrorKind::Missing,
            Repr::Driver(Failure { status: CUresult::NOT_PERMITTED, .. }) => {
                ErrorKind::NotPermitted
            }
            Repr::Driver(_) => ErrorKind::Driver,
            Repr::Full(full) => full.kind,
        }
    }

    /// The original status, never replaced; `None` where no call was made, or where the library lacks the function.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match &self.0 {
            Repr::Driver(Failure { status: CUresult::MISSING, .. }) => None,
            Repr::Driver(failure) => Some(Status::Driver(failure.status)),
            Repr::Full(full) => full.status.filter(|status| !status.is_missing()),
        }
    }

    /// Whether the driver answered exactly this status.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is(&self, status: CUresult) -> bool {
        self.status() == Some(Status::Driver(status))
    }

    /// The call that failed; `None` where none was made.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn call(&self) -> Option<AnyCall> {
        match &self.0 {
            Repr::Driver(failure) => Some(AnyCall::Driver(failure.call)),
            Repr::Full(full) => full.call,
        }
    }

    /// The driver call that failed, with its status; `None` where it was another's, or none.
    pub(crate) fn failure(&self) -> Option<Failure> {
        match &self.0 {
            Repr::Driver(failure) => Some(*failure),
            Repr::Full(full) => match (full.call, full.status) {
                (Some(AnyCall::Driver(call)), Some(Status::Driver(status))) => {
                    Some(Failure { call, status })
                }
                _ => None,
            },
        }
    }

    /// The call of a compiler that failed, where that is all there is to say.
    fn compiler_failure(&self) -> Option<CompilerFailure> {
        match &self.0 {
            Repr::Full(full) if full.text.is_empty() => {
                CompilerFailure::of(full.call?, full.status?)
            }
            _ => None,
        }
    }

    /// What else went wrong on the way out, in order.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        match &self.0 {
            Repr::Driver(_) => &[],
            Repr::Full(full) => &full.notes,
        }
    }

    /// Which context is current on the calling thread, where the operation couldn't leave the caller's as it was.
    /// `NotAsked` means that the caller's context is current.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn now_current(&self) -> Current {
        match &self.0 {
            Repr::Driver(_) => Current::NotAsked,
            Repr::Full(full) => full.now_current,
        }
    }

    /// How many of the operation's parts the driver accepted; `None` if none was. One for a single operation that was
    /// carried out although the caller's context couldn't be restored.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn completed(&self) -> Option<u32> {
        match &self.0 {
            Repr::Driver(_) => None,
            Repr::Full(full) => full.completed,
        }
    }
}

impl Full {
    fn of(kind: ErrorKind, text: Cow<'static, str>) -> Self {
        Self {
            kind,
            call: None,
            status: None,
            text,
            notes: Vec::new(),
            now_current: Current::NotAsked,
            completed: None,
        }
    }

    fn driver(failure: Failure) -> Self {
        let kind = Error::from(failure).kind();
        let (call, status) =
            (Some(AnyCall::Driver(failure.call)), Some(Status::Driver(failure.status)));
        Self { call, status, ..Self::of(kind, Cow::Borrowed("")) }
    }
}

impl From<CompilerFailure> for Error {
    fn from(failure: CompilerFailure) -> Self {
        match failure {
            CompilerFailure::Nvrtc(failure) => Self::nvrtc(failure, None),
            CompilerFailure::Nvvm(failure) => Self::nvvm(failure, None),
            CompilerFailure::NvJitLink(failure) => Self::nvjitlink(failure),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self(Repr::Driver(failure))
    }
}

fn write_driver(f: &mut fmt::Formatter<'_>, call: Call, status: CUresult) -> fmt::Result {
    if status == CUresult::MISSING {
        return write!(f, "{call} is missing from this driver; it came with CUDA {}", call.since());
    }
    write!(f, "{call} failed with {status}")?;
    if let Some(text) = status.description() {
        write!(f, ": {text}")?;
    }
    match hint::of(call, status) {
        Some(hint) => write!(f, "; {}; {}", hint.cause, hint.next),
        None => Ok(()),
    }
}

fn write_other(
    f: &mut fmt::Formatter<'_>,
    call: AnyCall,
    status: impl fmt::Display,
    text: Option<&str>,
) -> fmt::Result {
    write!(f, "{call} failed with {status}")?;
    match text {
        Some(text) => write!(f, ": {text}"),
        None => Ok(()),
    }
}

fn write_failure(f: &mut fmt::Formatter<'_>, call: AnyCall, status: Status) -> fmt::Result {
    match (call, status) {
        (AnyCall::Driver(call), Status::Driver(status)) => write_driver(f, call, status),
        (AnyCall::Nvrtc(call), Status::Nvrtc(nvrtcResult::MISSING)) => {
            write!(f, "{call} is missing from this NVRTC; it came with CUDA {}", call.since())
        }
        (AnyCall::Nvvm(call), Status::Nvvm(nvvmResult::MISSING)) => {
            write!(f, "{call} is missing from this NVVM; it came with CUDA {}", call.since())
        }
        (AnyCall::NvJitLink(call), Status::NvJitLink(nvJitLinkResult::MISSING)) => {
            write!(f, "{call} is missing from this nvJitLink; it came with CUDA {}", call.since())
        }
        (call, Status::Nvrtc(status)) => write_other(f, call, status, status.description()),
        (call, Status::Nvvm(status)) => write_other(f, call, status, status.description()),
        (call, Status::NvJitLink(status)) => write_other(f, call, status, status.description()),
        (call, Status::Driver(status)) => write!(f, "{call} failed with {status}"),
        (call, Status::Errno(errno)) => write!(f, "{call} failed: {errno}"),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = match &self.0 {
            Repr::Driver(failure) => return write_driver(f, failure.call, failure.status),
            Repr::Full(full) => full,
        };
        match (full.call, full.status) {
            // The text says what there is to say.
            _ if full.kind == ErrorKind::Forked => {}
            (Some(call), Some(status)) => {
                write_failure(f, call, status)?;
                if !full.text.is_empty() {
                    f.write_str("; ")?;
                }
            }
            _ => {}
        }
        f.write_str(&full.text)?;
        for note in &full.notes {
            write!(f, "; {note}")?;
        }
        if full.notes.is_empty() && full.now_current != Current::NotAsked {
            write!(f, "; {}", full.now_current)?;
        }
        match full.completed {
            Some(1) => f.write_str("; the operation itself was carried out"),
            Some(parts) => write!(f, "; {parts} parts of the operation were carried out"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.kind())
    }
}

impl std::error::Error for Error {}

const _: () = {
    const fn shared<T: Send + Sync + Clone>() {}
    shared::<Error>();
    assert!(size_of::<Result<()>>() == 16);
    assert!(size_of::<Error>() == 16);
};
