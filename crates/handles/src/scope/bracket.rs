//! The bracket around calls that would invalidate other people's captures: relaxed capture mode and back.
//!
//! Measured: 11 of 19 destroying calls are refused *and* invalidate any capture in global mode, on whatever stream,
//! thread or device; in relaxed mode all succeed. The pair of exchanges costs 21 ns.

use super::Outcome;
use crate::{
    driver::Driver,
    error::{Error, Note, Result},
    object::{Object, ObjectKind},
    report::CudaWarning,
};
use cuhold_driver_sys::{Calls, CaptureRule, Columns, Failure, ffi::CUstreamCaptureMode};

const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

/// Exchanges the thread's capture mode; `mode` holds the former one afterwards.
fn exchange(calls: Calls<'_>, mode: &mut CUstreamCaptureMode) -> Result<(), Failure> {
    // SAFETY: *pointers*: a live exclusive reference.
    unsafe { calls.cuThreadExchangeStreamCaptureMode(mode) }
}

/// Runs `operation` in relaxed capture mode if its *capture* column says "unsafe", and puts the mode back.
///
/// Where relaxed mode is refused the operation is run all the same: refused in turn it is reported, and nothing leaks
/// that needn't.
///
/// Calls `cuThreadExchangeStreamCaptureMode`, twice, around an unsafe operation; else nothing.
pub fn relaxed(
    calls: Calls<'_>,
    columns: Columns,
    operation: impl FnOnce(Calls<'_>) -> Outcome,
) -> Outcome {
    if columns.capture == CaptureRule::Neutral {
        return operation(calls);
    }
    let mut mode = RELAXED;
    let relax = exchange(calls, &mut mode).err();
    let mut outcome = operation(calls);
    outcome.relax = relax;
    // A refused exchange may have been carried out: the driver then wrote the former mode.
    if relax.is_none() || mode != RELAXED {
        outcome.mode = exchange(calls, &mut mode).err();
    }
    outcome
}

/// Runs an operation that isn't a destroy (a set-up, a query of the library's own, a wait) in relaxed capture mode,
/// whatever its calls, and puts the mode back.
///
/// `undo` is handed what the operation gave where only the mode couldn't be put back, with that error: a creation is
/// undone, a query says that it was [completed](Error::completed). What the operation does to the thread's context it
/// undoes itself.
///
/// Calls `cuThreadExchangeStreamCaptureMode`, twice.
///
/// # Errors
/// - the exchange's failure: the operation wasn't run;
/// - the operation's, with a note if the mode couldn't be put back;
/// - what `undo` made of the mode's.
pub fn neutral<T>(
    driver: &Driver,
    operation: impl FnOnce() -> Result<T>,
    undo: impl FnOnce(T, Error) -> Error,
) -> Result<T> {
    let mut former = RELAXED;
    if let Err(failure) = exchange(driver.calls(), &mut former) {
        return Err(refused(driver, failure, former));
    }
    let mut bracket = Bracket { driver, former: Some(former) };
    let result = operation();
    match (result, bracket.put_back()) {
        (result, Ok(())) => result,
        (Ok(value), Err(failure)) => {
            let error = driver.error(failure).with_note(Note::ModeNotRestored(failure));
            Err(undo(value, error))
        }
        (Err(error), Err(failure)) => Err(error.with_note(Note::ModeNotRestored(failure))),
    }
}

/// The exchange to relaxed mode failed. It may have been carried out: the driver then wrote the former mode.
#[cold]
fn refused(driver: &Driver, failure: Failure, mut former: CUstreamCaptureMode) -> Error {
    let error = driver.error(failure);
    if former == RELAXED {
        return error;
    }
    match exchange(driver.calls(), &mut former) {
        Ok(()) => error,
        Err(second) => error.with_note(Note::ModeNotRestored(second)),
    }
}

/// The mode to put back, also while a panic passes through.
struct Bracket<'a> {
    driver: &'a Driver,
    former: Option<CUstreamCaptureMode>,
}

impl Bracket<'_> {
    fn put_back(&mut self) -> Result<(), Failure> {
        match self.former.take() {
            Some(mut mode) => exchange(self.driver.calls(), &mut mode),
            None => Ok(()),
        }
    }
}

impl Drop for Bracket<'_> {
    fn drop(&mut self) {
        if let Err(failure) = self.put_back() {
            let object = Object::nameless(ObjectKind::Context);
            self.driver.warn(CudaWarning::mode_not_restored(failure, object, "relaxed"));
        }
    }
}
