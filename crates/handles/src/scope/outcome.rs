//! What went wrong in a cleanup, as plain values: usable in a `Drop`, turned into warnings or into an error later.

use crate::{
    current::Current,
    driver::Driver,
    error::{Error, Note},
    object::{Object, ObjectKind},
    report::{CudaWarning, Fate},
};
use cuhold_driver_sys::{CUresult, Call, Failure};

/// The caller's context isn't known to be back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a plain value, made and read by all crates")]
pub struct Lost {
    /// The refused restore; `None` where an activation may have moved the context and the driver couldn't say.
    pub restore: Option<Failure>,
    /// What is current now, asked for.
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
        self.raise(driver, Object { kind: ObjectKind::Context, raw: 0, id: 0 });
    }

    fn raise(self, driver: &Driver, object: Object) {
        let warning = match (self.restore, self.now) {
            (Some(failure), now) => CudaWarning::restore_refused(failure, object, now),
            (None, Current::Unknown(failure)) => {
                CudaWarning::failed(failure, object, Fate::Unknown).with_current(self.now)
            }
            (None, _) => return,
        };
        driver.warn(warning);
    }
}

/// What went wrong while an object was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
#[expect(clippy::exhaustive_structs, reason = "a plain value, made and read by all crates")]
pub struct Outcome {
    /// The object's context couldn't be made current: the destroy wasn't tried.
    pub activate: Option<Failure>,
    /// The destroy failed.
    pub operation: Option<Failure>,
    /// The caller's context couldn't be put back.
    pub lost: Option<Lost>,
    /// The thread couldn't be put in relaxed capture mode.
    pub relax: Option<Failure>,
    /// The thread's capture mode couldn't be put back.
    pub mode: Option<Failure>,
}

impl Outcome {
    /// Whether nothing went wrong.
    #[must_use]
    #[inline]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// The status of the destroy, if it failed.
    #[must_use]
    pub fn status(&self) -> Option<CUresult> {
        self.operation.map(|failure| failure.status)
    }

    /// What became of the object.
    #[must_use]
    pub fn fate(&self) -> Fate {
        match (self.activate, self.status()) {
            (Some(_), _) => Fate::Leaked,
            (None, None) => Fate::Released,
            (None, Some(CUresult::CONTEXT_IS_DESTROYED)) => Fate::GoneWithContext,
            (None, Some(CUresult::MISSING)) => Fate::Leaked,
            // A destroy that answers a fatal code releases nothing (measured).
            (None, Some(status)) if status.is_fatal() => Fate::Leaked,
            (None, Some(_)) => Fate::Unknown,
        }
    }

    /// One warning for each failed driver call, in the order in which they were made.
    pub fn warn(self, driver: &Driver, object: Object, destroy: Call) {
        let fate = self.fate();
        if let Some(failure) = self.relax {
            driver.warn(CudaWarning::failed(failure, object, fate));
        }
        if let Some(cause) = self.activate {
            driver.warn(CudaWarning::skipped(destroy, object, cause));
        }
        if let Some(failure) = self.operation {
            driver.warn(CudaWarning::failed(failure, object, fate));
        }
        if let Some(lost) = self.lost {
            lost.raise(driver, object);
        }
        if let Some(failure) = self.mode {
            driver.warn(CudaWarning::mode_not_restored(
                failure,
                object,
                "the thread is left in relaxed mode",
            ));
        }
    }

    /// The same as an error: the first failure, the others as notes. `None`: nothing went wrong.
    #[must_use]
    pub fn into_error(self, driver: &Driver) -> Option<Error> {
        let mut failures = [self.relax, self.activate, self.operation].into_iter().flatten();
        let mut error = match failures.next() {
            Some(first) => {
                let error = failures.fold(driver.error(first), |error, failure| {
                    error.with_note(Note::Text(failure.to_string().into()))
                });
                match self.lost {
                    Some(lost) => lost.note_on(error),
                    None => error,
                }
            }
            None => match (self.lost, self.mode) {
                (Some(lost), _) => lost.into_error(driver).with_completed(1),
                (None, Some(mode)) => {
                    return Some(
                        driver.error(mode).with_note(Note::ModeNotRestored(mode)).with_completed(1),
                    );
                }
                (None, None) => return None,
            },
        };
        if let Some(mode) = self.mode {
            error = error.with_note(Note::ModeNotRestored(mode));
        }
        Some(error)
    }
}
