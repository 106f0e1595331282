//! What was told in a run: the errors that came back, and the warnings that were raised.

use cuhold_driver_sys::{Failure, Kind};
use cuhold_handles::{
    CompilerFailure, CudaWarning, Current, Error, Fate, Note, Status, WarningKind,
};

/// Everything that was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) errors: Vec<Error>,
    pub(crate) warnings: Vec<CudaWarning>,
    /// Warnings that were only counted: further ones of an object after a fatal status.
    pub(crate) folded: usize,
}

impl Told {
    /// How often a call's failure with this status was told.
    pub(crate) fn times(&self, status: Status) -> usize {
        let errors = self.errors.iter().map(|error| in_error(error, status));
        let warnings = self.warnings.iter().map(|warning| {
            let compiler = warning.compiler_failure().map(CompilerFailure::status);
            let own = warning.status().map(Status::Driver).or(compiler);
            usize::from(own == Some(status)).max(in_current(warning.current(), status))
        });
        let is_fatal = matches!(status, Status::Driver(status) if status.is_fatal());
        let folded = if is_fatal { self.folded } else { 0 };
        errors.chain(warnings).sum::<usize>() + folded
    }

    /// Everything that was said of what is current now.
    pub(crate) fn currents(&self) -> Vec<Current> {
        let errors = self.errors.iter().map(Error::now_current);
        let warnings = self.warnings.iter().map(CudaWarning::current);
        errors.chain(warnings).filter(|current| *current != Current::NotAsked).collect()
    }

    /// Whether it was said that the capture mode isn't what it was.
    pub(crate) fn is_mode_lost(&self) -> bool {
        let noted = |note: &Note| matches!(note, Note::ModeNotRestored(_));
        self.errors.iter().any(|error| error.notes().iter().any(noted))
            || self.warnings.iter().any(|w| w.kind() == WarningKind::ModeNotRestored)
    }

    /// Whether this object, by its raw value, was said to be lost, or not known to be gone.
    pub(crate) fn names_as_lost(&self, raw: u64) -> bool {
        let by_note = |error: &Error| {
            error.notes().iter().any(|note| matches!(note, Note::Leaked { raw: of } if *of == raw))
        };
        self.warnings.iter().any(|warning| warning.object().raw == raw && is_loss(warning))
            || self.errors.iter().any(by_note)
    }

    /// For how many objects it was said, without their raw value, that ending them failed.
    pub(crate) fn unnamed_losses(&self) -> usize {
        let unnamed = self.warnings.iter().filter(|warning| {
            let destroys = |failure: Failure| failure.call.columns().kind == Kind::Destroy;
            warning.object().raw == 0 && warning.failure().is_some_and(destroys)
        });
        self.errors.iter().map(unnamed_in_error).sum::<usize>() + unnamed.count()
    }
}

fn is_loss(warning: &CudaWarning) -> bool {
    let Some(fate) = warning.fate() else { return false };
    matches!(fate, Fate::Leaked | Fate::Unknown | Fate::Retired | Fate::GoneWithContext)
}

fn unnamed_in_error(error: &Error) -> usize {
    let own = error.call().is_some_and(|call| call.kind() == Some(Kind::Destroy));
    let notes = error.notes().iter().filter(|note| match note {
        Note::UndoFailed(_) => true,
        Note::Failed(failure) => failure.call.columns().kind == Kind::Destroy,
        Note::Compiler(failure) => failure.call().kind() == Some(Kind::Destroy),
        _ => false,
    });
    usize::from(own) + notes.count()
}

fn in_error(error: &Error, status: Status) -> usize {
    let own = usize::from(error.status() == Some(status));
    let is_current_noted =
        error.notes().iter().any(|note| matches!(note, Note::NotRestored { .. }));
    let current = if is_current_noted { 0 } else { in_current(error.now_current(), status) };
    let notes = error.notes().iter().map(|note| match note {
        Note::Failed(failure) | Note::UndoFailed(failure) | Note::ModeNotRestored(failure) => {
            // The mode's failure is a note on itself where nothing else failed.
            let is_error = own == 1 && matches!(note, Note::ModeNotRestored(_));
            usize::from(is(*failure, status) && !is_error)
        }
        Note::Compiler(failure) => usize::from(failure.status() == status),
        Note::NotRestored { failure, now } => {
            let restore = failure.is_some_and(|failure| is(failure, status));
            usize::from(restore) + in_current(*now, status)
        }
        _ => 0,
    });
    own + current + notes.sum::<usize>()
}

fn in_current(current: Current, status: Status) -> usize {
    usize::from(matches!(current, Current::Unknown(failure) if is(failure, status)))
}

fn is(failure: Failure, status: Status) -> bool {
    Status::Driver(failure.status) == status
}
