//! What went wrong in a cleanup, as plain values: usable in a `Drop`, turned into warnings or into an error later.

use super::ModeLost;
use crate::{
    current::Current,
    driver::Driver,
    error::{Error, Note},
    object::{Object, ObjectKind},
    report::{CudaWarning, Fate},
};
use cuhold_driver_sys::{CUresult, Call, Failure, mutant};

/// The caller's context isn't known to be back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a plain value, made and read by all crates")]
pub struct Lost {
    /// The refused restore; `None` where the driver couldn't say whether there was anything to restore.
    pub restore: Option<Failure>,
    /// What is current now, asked for. Where the question failed, it is carried here.
    pub now: Current,
}

impl Lost {
    /// As the first failure of an operation.
    pub(crate) fn into_error(self, driver: &Driver) -> Error {
        match self.restore {
            Some(failure) => driver.error(failure).with_current(self.now),
            None => Error::state("the caller's context may not be current any more")
                .with_current(self.now),
        }
    }

    /// As a second failure.
    pub(crate) fn note_on(self, error: Error) -> Error {
        error
            .with_note(Note::NotRestored { failure: self.restore, now: self.now })
            .with_current(self.now)
    }

    /// Where nothing can be returned.
    pub(crate) fn warn(self, driver: &Driver) {
        if let Some(warning) = self.warning(Object::nameless(ObjectKind::Context)) {
            driver.warn(warning);
        }
    }

    fn warning(self, object: Object) -> Option<CudaWarning> {
        match (self.restore, self.now) {
            (Some(failure), now) => Some(CudaWarning::restore_refused(failure, object, now)),
            (None, Current::Unknown(failure)) => {
                Some(CudaWarning::failed(failure, object, Fate::Unknown).with_current(self.now))
            }
            (None, _) => None,
        }
    }
}

/// What went wrong while an object was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
#[expect(clippy::exhaustive_structs, reason = "a plain value, made and read by all crates")]
pub struct Outcome {
    /// The thread couldn't be put in relaxed capture mode, or so the driver said.
    pub relax: Option<Failure>,
    /// The object's context couldn't be made current.
    pub activate: Option<Failure>,
    /// Because of one of these the destroy wasn't tried.
    pub skipped: bool,
    /// The destroy failed.
    pub operation: Option<Failure>,
    /// The caller's context couldn't be put back.
    pub lost: Option<Lost>,
    /// The thread's capture mode couldn't be put back.
    pub mode: Option<ModeLost>,
}

impl Outcome {
    /// Of a destroy that needed nothing around it.
    #[inline]
    pub fn of(result: Result<(), Failure>) -> Self {
        Self { operation: result.err(), ..Self::default() }
    }

    /// Whether nothing went wrong.
    #[must_use]
    #[inline]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the driver was asked to end the object.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        !self.skipped
    }

    /// Whether the driver refused, as it does inside a callback, to begin with.
    #[must_use]
    pub fn is_not_permitted(&self) -> bool {
        let first = [self.relax, self.activate, self.operation].into_iter().flatten().next();
        first.is_some_and(|failure| failure.status == CUresult::NOT_PERMITTED)
    }

    /// The status of the destroy, if it failed.
    #[must_use]
    pub fn status(&self) -> Option<CUresult> {
        self.operation.map(|failure| failure.status)
    }

    /// What became of the object.
    #[must_use]
    pub fn fate(&self) -> Fate {
        match self.status() {
            _ if self.skipped => Fate::Leaked,
            None => Fate::Released,
            Some(CUresult::CONTEXT_IS_DESTROYED) => Fate::GoneWithContext,
            Some(CUresult::MISSING) => Fate::Leaked,
            // A destroy that answers a fatal code releases nothing (measured).
            Some(status) if status.is_fatal() => Fate::Leaked,
            Some(_) => Fate::Unknown,
        }
    }

    /// One warning for each failed driver call, in the order in which they were made. A question that failed is part
    /// of the warning that it was asked for.
    pub fn warn(self, driver: &Driver, object: Object, destroy: Call) {
        self.warn_to(object, destroy, self.fate(), &mut |warning| driver.warn(warning));
    }

    /// The same where more is known of the object's fate than [`fate`](Self::fate) tells, or where there is no driver
    /// value any more.
    pub fn warn_to(
        self,
        object: Object,
        destroy: Call,
        fate: Fate,
        warn: &mut dyn FnMut(CudaWarning),
    ) {
        let cause = if self.skipped { self.activate.or(self.relax) } else { None };
        for failure in [self.relax, self.activate, self.operation].into_iter().flatten() {
            warn(if cause == Some(failure) {
                CudaWarning::skipped(destroy, object, failure)
            } else {
                CudaWarning::failed(failure, object, fate)
            });
        }
        if let Some(warning) = self.lost.and_then(|lost| lost.warning(object)) {
            warn(warning);
        }
        if let Some(mode) = self.mode {
            warn(mode.warning(object, fate));
        }
    }

    /// The same as an error: the first failure, the others as notes. `None`: nothing went wrong.
    #[must_use]
    pub fn into_error(self, driver: &Driver) -> Option<Error> {
        let mut error = None;
        for failure in [self.relax, self.activate, self.operation].into_iter().flatten() {
            error = Some(match error {
                None => driver.error(failure),
                Some(error) => Error::with_note(error, Note::Failed(failure)),
            });
        }
        if let Some(lost) = self.lost {
            error = Some(match error {
                None => lost.into_error(driver),
                Some(error) => lost.note_on(error),
            });
        }
        if let Some(mode) = self.mode {
            error = Some(match error {
                None => mode.as_error(driver),
                Some(error) => mode.note_on(error),
            });
        }
        let done = !self.skipped && self.operation.is_none();
        if done { error.map(|error| error.with_completed(1)) } else { error }
    }

    /// What went wrong while a new object was unmade, as notes on the error for which it was.
    #[must_use]
    pub fn note_undo(self, mut error: Error, raw: u64) -> Error {
        let causes = [self.relax, self.activate].into_iter().flatten();
        error = causes.fold(error, |error, failure| error.with_note(Note::Failed(failure)));
        if self.skipped && !mutant::is_out("leak-note") {
            error = error.with_note(Note::Leaked { raw });
        }
        if let Some(failure) = self.operation.filter(|_| !mutant::is_out("undo-note")) {
            error = error.with_note(Note::UndoFailed(failure));
        }
        if let Some(lost) = self.lost {
            error = lost.note_on(error);
        }
        match self.mode {
            Some(mode) => mode.note_on(error),
            None => error,
        }
    }
}
