//! A failure that can't be returned: plain data, made without the heap, which formats itself when it is printed.

use super::{foreign::panic_text, text::Text};
use crate::{CompilerFailure, Current, Object, ObjectKind};
use cuhold_driver_sys::{
    CUresult, Call, Failure,
    nvjitlink::{NvJitLinkCall, NvJitLinkFailure, nvJitLinkResult},
    nvrtc::{NvrtcCall, NvrtcFailure, nvrtcResult},
    nvvm::{NvvmCall, NvvmFailure, nvvmResult},
};
use std::{any::Any, fmt};

/// What became of the object that a warning is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Fate {
    /// It is gone, although something failed.
    Released,
    /// It is kept for good, since it can't be established that nothing reaches it any more (P7).
    Leaked,
    /// It is kept until something that it waits for has happened.
    Retired,
    /// It ended when its context ended.
    GoneWithContext,
    /// It can't be told.
    Unknown,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "released",
            Self::Leaked => "leaked",
            Self::Retired => "retired",
            Self::GoneWithContext => "gone with its context",
            Self::Unknown => "fate unknown",
        })
    }
}

/// What kind of thing went wrong: what filters choose by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum WarningKind {
    /// A driver call failed.
    Failed,
    /// The driver refused to put the caller's context back.
    RestoreRefused,
    /// The driver refused to put the thread's capture mode back.
    ModeNotRestored,
    /// A call wasn't made, since what it needs first failed.
    Skipped,
    /// Foreign code panicked where the panic couldn't go on.
    Panicked,
    /// An invariant of this library is broken, or something else that no call answered.
    Note,
}

/// One failure that couldn't be returned, as it goes through the report channel.
///
/// `Copy`, at most 112 bytes; making one allocates nothing and can't fail. It is raised by
/// [`Reports::raise`](crate::Reports::raise), once for each failed driver call (P4).
///
/// Printed, it is one line: the call and what it answered, the object, its fate, what is current, the cause.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "a warning is heard only when it is raised"]
pub struct CudaWarning {
    kind: WarningKind,
    failed: Failed,
    skipped: Option<Call>,
    // The object in its parts: as one field it would cost seven bytes of padding.
    object_kind: ObjectKind,
    object_raw: u64,
    object_id: u64,
    fate: Option<Fate>,
    current: Current,
    /// What is known when this crate is compiled; whole, however long.
    constant: &'static str,
    /// What is known only at run time.
    text: Text<TEXT_BYTES>,
}

const TEXT_BYTES: usize = 48;

/// The call that failed, if one did: no larger than a driver's alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failed {
    Nothing,
    Driver { call: Call, status: CUresult },
    Nvrtc { call: NvrtcCall, status: nvrtcResult },
    Nvvm { call: NvvmCall, status: nvvmResult },
    NvJitLink { call: NvJitLinkCall, status: nvJitLinkResult },
}

const _: () = assert!(size_of::<Failed>() == size_of::<Failure>());

impl Failed {
    const fn driver(Failure { call, status }: Failure) -> Self {
        Self::Driver { call, status }
    }
}

const _: () = assert!(size_of::<CudaWarning>() <= 112);

impl CudaWarning {
    /// A driver call for `object` failed.
    ///
    /// Calls nothing.
    pub const fn failed(failure: Failure, object: Object, fate: Fate) -> Self {
        let new = Self::new(WarningKind::Failed, object);
        Self { failed: Failed::driver(failure), fate: Some(fate), ..new }
    }

    /// A compiler's call for `object` failed.
    ///
    /// Calls nothing.
    pub const fn compiler_failed(failure: CompilerFailure, object: Object, fate: Fate) -> Self {
        let failed = match failure {
            CompilerFailure::Nvrtc(NvrtcFailure { call, status }) => Failed::Nvrtc { call, status },
            CompilerFailure::Nvvm(NvvmFailure { call, status }) => Failed::Nvvm { call, status },
            CompilerFailure::NvJitLink(NvJitLinkFailure { call, status }) => {
                Failed::NvJitLink { call, status }
            }
        };
        Self { failed, fate: Some(fate), ..Self::new(WarningKind::Failed, object) }
    }

    /// After work for `object` the driver refused to make the caller's context current again; `current` says which
    /// one is.
    ///
    /// Calls nothing.
    pub const fn restore_refused(failure: Failure, object: Object, current: Current) -> Self {
        let new = Self::new(WarningKind::RestoreRefused, object);
        Self { failed: Failed::driver(failure), current, ..new }
    }

    /// After work for `object` the driver refused to put the thread's capture mode back; `in_force` names the one that
    /// is, such as `relaxed`.
    ///
    /// Calls nothing.
    pub const fn mode_not_restored(
        failure: Failure,
        object: Object,
        in_force: &'static str,
    ) -> Self {
        let new = Self::new(WarningKind::ModeNotRestored, object);
        Self { failed: Failed::driver(failure), constant: in_force, ..new }
    }

    /// `skipped`, which would have ended `object`, wasn't called, since its context couldn't be made current: `cause`.
    /// The object leaked.
    ///
    /// Calls nothing.
    pub const fn skipped(skipped: Call, object: Object, cause: Failure) -> Self {
        let new = Self::new(WarningKind::Skipped, object);
        let failed = Failed::driver(cause);
        Self { failed, skipped: Some(skipped), fate: Some(Fate::Leaked), ..new }
    }

    /// Foreign code panicked, and the panic had to end there; keeps the head of the panic's text.
    ///
    /// Calls nothing.
    pub fn panicked(object: Object, payload: &(dyn Any + Send)) -> Self {
        Self::new(WarningKind::Panicked, object).with_text(panic_text(payload))
    }

    /// Something that no call answered: a broken invariant, a closure that the driver never called.
    ///
    /// Calls nothing.
    pub const fn note(object: Object, text: &'static str) -> Self {
        let new = Self::new(WarningKind::Note, object);
        Self { constant: text, ..new }
    }

    const fn new(kind: WarningKind, object: Object) -> Self {
        Self {
            kind,
            failed: Failed::Nothing,
            skipped: None,
            object_kind: object.kind,
            object_raw: object.raw,
            object_id: object.id,
            fate: None,
            current: Current::NotAsked,
            constant: "",
            text: Text::EMPTY,
        }
    }

    /// The same, with what is current.
    ///
    /// Calls nothing.
    pub const fn with_current(self, current: Current) -> Self {
        Self { current, ..self }
    }

    /// The same, with what became of the object.
    ///
    /// Calls nothing.
    pub const fn with_fate(self, fate: Fate) -> Self {
        Self { fate: Some(fate), ..self }
    }

    /// The same, with a text of its own: its first 48 bytes, cut with a mark, as one line.
    ///
    /// Calls nothing.
    pub fn with_text(self, text: &str) -> Self {
        Self { text: Text::new(text), ..self }
    }

    /// What kind of thing went wrong.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn kind(&self) -> WarningKind {
        self.kind
    }

    /// The failed driver call with what it answered, if one failed.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn failure(&self) -> Option<Failure> {
        match self.failed {
            Failed::Driver { call, status } => Some(Failure { call, status }),
            _ => None,
        }
    }

    /// The failed call of a compiler with what it answered, if one failed.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn compiler_failure(&self) -> Option<CompilerFailure> {
        Some(match self.failed {
            Failed::Nothing | Failed::Driver { .. } => return None,
            Failed::Nvrtc { call, status } => CompilerFailure::Nvrtc(NvrtcFailure { call, status }),
            Failed::Nvvm { call, status } => CompilerFailure::Nvvm(NvvmFailure { call, status }),
            Failed::NvJitLink { call, status } => {
                CompilerFailure::NvJitLink(NvJitLinkFailure { call, status })
            }
        })
    }

    /// What the failed driver call answered, if one failed.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn status(&self) -> Option<CUresult> {
        self.failure().map(|failure| failure.status)
    }

    /// The driver call that failed, if one did. Of a skipped call, the one that stood in its way.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn call(&self) -> Option<Call> {
        self.failure().map(|failure| failure.call)
    }

    /// The call that wasn't made.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn skipped_call(&self) -> Option<Call> {
        self.skipped
    }

    /// The object.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn object(&self) -> Object {
        Object { kind: self.object_kind, raw: self.object_raw, id: self.object_id }
    }

    /// What became of the object; `None` where the failure doesn't touch that.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn fate(&self) -> Option<Fate> {
        self.fate
    }

    /// Which context is current, where that matters.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn current(&self) -> Current {
        self.current
    }

    /// The cause: the text given, else what CUDA's code means, else nothing.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn text(&self) -> &str {
        match (self.text.as_str(), self.kind, self.status()) {
            ("", WarningKind::Note, _) => self.constant,
            ("", _, Some(status)) => status.description().unwrap_or_default(),
            ("", _, None) => {
                self.compiler_failure().and_then(CompilerFailure::description).unwrap_or_default()
            }
            (text, ..) => text,
        }
    }
}

impl fmt::Display for CudaWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object();
        if let Some(Failure { call, status }) = self.failure() {
            if status == CUresult::MISSING {
                write!(f, "{call} is missing from the driver, wanted")?;
            } else {
                write!(f, "{call} answered {status}")?;
            }
        }
        if let Some(failure) = self.compiler_failure() {
            write!(f, "{failure}")?;
        }
        match (self.kind, self.skipped) {
            (WarningKind::Failed, _) => write!(f, " for {object}")?,
            (WarningKind::RestoreRefused, _) => {
                write!(f, " when the caller's context was to be restored after work for {object}")?;
            }
            (WarningKind::ModeNotRestored, _) => {
                write!(f, " when the capture mode was to be restored after work for {object}")?;
            }
            (WarningKind::Skipped, Some(skipped)) => {
                write!(f, ", so {skipped} was skipped for {object}")?;
            }
            (WarningKind::Skipped, None) => write!(f, ", so {object} was skipped")?,
            (WarningKind::Panicked, _) => write!(f, "panic caught in {object}")?,
            (WarningKind::Note, _) => write!(f, "{object}")?,
        }
        if let Some(fate) = self.fate {
            write!(f, ", {fate}")?;
        }
        if self.kind == WarningKind::ModeNotRestored {
            write!(f, ", mode {} is in force", self.constant)?;
        }
        if self.current != Current::NotAsked {
            write!(f, ", {}", self.current)?;
        }
        match self.text() {
            "" => Ok(()),
            text => write!(f, ": {text}"),
        }
    }
}

impl fmt::Debug for CudaWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaWarning({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Object = Object { kind: ObjectKind::Stream, raw: 0x7f31a0, id: 12 };
    const FAILURE: Failure =
        Failure { call: Call::cuStreamDestroy_v2, status: CUresult::INVALID_HANDLE };
    const REFUSED: Failure =
        Failure { call: Call::cuCtxSetCurrent, status: CUresult::INVALID_CONTEXT };

    #[test]
    fn a_warning_is_copied_and_is_at_most_112_bytes() {
        fn is_copy<T: Copy + Send + Sync + 'static>() {}
        is_copy::<CudaWarning>();
        assert!(size_of::<CudaWarning>() <= 112);
    }

    #[test]
    fn a_failed_call_names_call_code_object_fate_current_and_cause() {
        let warning = CudaWarning::failed(FAILURE, STREAM, Fate::Leaked);
        assert_eq!(
            warning.to_string(),
            "cuStreamDestroy answered CUDA_ERROR_INVALID_HANDLE (400) for stream 0x7f31a0 (#12), leaked: the handle \
             isn't one, or is another context's"
        );
        assert_eq!(
            warning.with_current(Current::Is(0x20)).with_text("closed twice").to_string(),
            "cuStreamDestroy answered CUDA_ERROR_INVALID_HANDLE (400) for stream 0x7f31a0 (#12), leaked, context 0x20 \
             is current: closed twice"
        );
    }

    #[test]
    fn each_fate_has_its_words() {
        for (fate, words) in [
            (Fate::Released, "released"),
            (Fate::Leaked, "leaked"),
            (Fate::Retired, "retired"),
            (Fate::GoneWithContext, "gone with its context"),
            (Fate::Unknown, "fate unknown"),
        ] {
            let line = CudaWarning::failed(FAILURE, STREAM, fate).with_text("x").to_string();
            assert!(line.ends_with(&format!("(#12), {words}: x")), "{line}");
        }
    }

    #[test]
    fn a_code_newer_than_this_library_is_kept_as_its_number() {
        let failure = Failure { status: CUresult(9999), ..FAILURE };
        let warning = CudaWarning::failed(failure, STREAM, Fate::Unknown);
        assert_eq!(warning.status(), Some(CUresult(9999)));
        assert_eq!(
            warning.to_string(),
            "cuStreamDestroy answered status 9999 for stream 0x7f31a0 (#12), fate unknown"
        );
    }

    #[test]
    fn a_compiler_s_failed_call_is_kept_whole() {
        let failure = CompilerFailure::Nvrtc(NvrtcFailure {
            call: NvrtcCall::nvrtcDestroyProgram,
            status: nvrtcResult::INVALID_PROGRAM,
        });
        let program = Object { kind: ObjectKind::NvrtcProgram, raw: 0x10, id: 3 };
        let warning = CudaWarning::compiler_failed(failure, program, Fate::Unknown);
        assert_eq!(warning.compiler_failure(), Some(failure));
        assert_eq!((warning.failure(), warning.kind()), (None, WarningKind::Failed));
        assert_eq!(
            warning.to_string(),
            "nvrtcDestroyProgram answered NVRTC_ERROR_INVALID_PROGRAM (4) for NVRTC program 0x10 (#3), fate unknown: the \
             handle isn't a program's"
        );
    }

    #[test]
    fn a_function_that_the_driver_lacks_is_said_to_be_missing() {
        let failure = Failure { status: CUresult::MISSING, ..FAILURE };
        assert_eq!(
            CudaWarning::failed(failure, STREAM, Fate::Leaked).to_string(),
            "cuStreamDestroy is missing from the driver, wanted for stream 0x7f31a0 (#12), leaked"
        );
    }

    #[test]
    fn a_refused_restore_says_what_is_current_now() {
        let warning = CudaWarning::restore_refused(REFUSED, STREAM, Current::None);
        assert_eq!(
            warning.to_string(),
            "cuCtxSetCurrent answered CUDA_ERROR_INVALID_CONTEXT (201) when the caller's context was to be restored \
             after work for stream 0x7f31a0 (#12), no context is current: no context is current, or the context isn't \
             valid here"
        );
        assert_eq!((warning.fate(), warning.current()), (None, Current::None));
    }

    #[test]
    fn a_mode_that_was_not_restored_is_named() {
        let failure = Failure {
            call: Call::cuThreadExchangeStreamCaptureMode,
            status: CUresult::INVALID_VALUE,
        };
        assert_eq!(
            CudaWarning::mode_not_restored(failure, STREAM, "relaxed").to_string(),
            "cuThreadExchangeStreamCaptureMode answered CUDA_ERROR_INVALID_VALUE (1) when the capture mode was to be \
             restored after work for stream 0x7f31a0 (#12), mode relaxed is in force: an argument is outside its \
             range, or the handle isn't known"
        );
    }

    #[test]
    fn a_skipped_destroy_names_the_call_that_failed_and_the_one_that_was_not_made() {
        let event = Object { kind: ObjectKind::Event, raw: 0x40, id: 3 };
        let warning = CudaWarning::skipped(Call::cuEventDestroy_v2, event, REFUSED);
        assert_eq!(warning.call(), Some(Call::cuCtxSetCurrent));
        assert_eq!(warning.skipped_call(), Some(Call::cuEventDestroy_v2));
        assert_eq!(
            warning.with_text("x").to_string(),
            "cuCtxSetCurrent answered CUDA_ERROR_INVALID_CONTEXT (201), so cuEventDestroy was skipped for event 0x40 \
             (#3), leaked: x"
        );
    }

    #[test]
    fn a_panic_is_known_by_the_head_of_its_text() {
        let owner = Object { kind: ObjectKind::Owner, raw: 0, id: 5 };
        let formatted = format!("{:0>100}", 1);
        assert_eq!(
            CudaWarning::panicked(owner, &"went\nwrong").with_fate(Fate::Released).to_string(),
            "panic caught in owner (#5), released: went wrong"
        );
        assert_eq!(CudaWarning::panicked(owner, &formatted).text(), format!("{:0>45}…", 0));
        assert_eq!(CudaWarning::panicked(owner, &7).text(), "the panic has no text");
    }

    #[test]
    fn a_note_is_printed_whole() {
        let text = "a constant is not cut, however long it is, since nothing of it is copied into the warning";
        let warning = CudaWarning::note(Object::nameless(ObjectKind::Reclaimer), text);
        assert_eq!(warning.to_string(), format!("reclaimer: {text}"));
        assert_eq!((warning.failure(), warning.kind()), (None, WarningKind::Note));
    }

    #[test]
    fn no_line_of_a_known_status_ends_with_a_full_stop() {
        for status in CUresult::KNOWN {
            let failure = Failure { status: *status, ..FAILURE };
            let line = CudaWarning::failed(failure, STREAM, Fate::Leaked).to_string();
            assert!(!line.ends_with('.') && !line.contains('\n'), "{line}");
        }
    }
}
