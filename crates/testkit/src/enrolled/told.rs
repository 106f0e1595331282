//! What was told in a run: the errors that came back, and the warnings that were raised.

use cuhold_driver_sys::{CUresult, Failure, Kind};
use cuhold_handles::{AnyCall, CudaWarning, Current, Error, Fate, Note, Status, WarningKind};

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
    pub(crate) fn times(&self, status: CUresult) -> usize {
        let errors = self.errors.iter().map(|error| in_error(error, status));
        let warnings = self.warnings.iter().map(|warning| {
            let own = usize::from(warning.status() == Some(status));
            own.max(in_current(warning.current(), status))
        });
        let folded = if status.is_fatal() { self.folded } else { 0 };
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
    let own = match error.call() {
        Some(AnyCall::Driver(call)) => call.columns().kind == Kind::Destroy,
        _ => false,
    };
    let notes = error.notes().iter().filter(|note| match note {
        Note::UndoFailed(_) => true,
        Note::Failed(failure) => failure.call.columns().kind == Kind::Destroy,
        _ => false,
    });
    usize::from(own) + notes.count()
}

fn in_error(error: &Error, status: CUresult) -> usize {
    let own = usize::from(error.status() == Some(Status::Driver(status)));
    let is_current_noted =
        error.notes().iter().any(|note| matches!(note, Note::NotRestored { .. }));
    let current = if is_current_noted { 0 } else { in_current(error.now_current(), status) };
    let notes = error.notes().iter().map(|note| match note {
        Note::Failed(failure) | Note::UndoFailed(failure) | Note::ModeNotRestored(failure) => {
            // The mode's failure is a note on itself where nothing else failed.
            let is_error = own == 1 && matches!(note, Note::ModeNotRestored(_));
            usize::from(failure.status == status && !is_error)
        }
        Note::NotRestored { failure, now } => {
            let restore = failure.is_some_and(|failure| failure.status == status);
            usize::from(restore) + in_current(*now, status)
        }
        _ => 0,
    });
    own + current + notes.sum::<usize>()
}

fn in_current(current: Current, status: CUresult) -> usize {
    usize::from(matches!(current, Current::Unknown(failure) if failure.status == status))
}
