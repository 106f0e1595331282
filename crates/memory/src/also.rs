//! A second failure on the way out of a failing operation: attached to the first, never reported as well (P3).

use cuhold_handles::{AnyCall, Error, Note, Status, driver_sys::Failure};

/// The driver call behind an error.
pub(crate) fn failure_of(error: &Error) -> Option<Failure> {
    match (error.call(), error.status()) {
        (Some(AnyCall::Driver(call)), Some(Status::Driver(status))) => {
            Some(Failure { call, status })
        }
        _ => None,
    }
}

/// The first error, with the second and what that says went wrong besides.
#[cold]
pub(crate) fn with_second(error: Error, second: &Error) -> Error {
    let note = match failure_of(second) {
        Some(failure) => Note::Failed(failure),
        None => Note::Text(second.to_string().into()),
    };
    second.notes().iter().cloned().fold(error.with_note(note), Error::with_note)
}
