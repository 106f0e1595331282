//! The bracket around calls that would invalidate other people's captures: relaxed capture mode and back.
//!
//! Measured: 11 of 19 destroying calls are refused *and* invalidate any capture in global mode, on whatever stream,
//! thread or device; in relaxed mode all succeed. The pair of exchanges costs 21 ns.

use super::Outcome;
use crate::{
    driver::Driver,
    error::{Error, Note, Result},
    object::{Object, ObjectKind},
    report::{CudaWarning, Fate},
};
use cuhold_driver_sys::{Calls, CaptureRule, Columns, Failure, ffi::CUstreamCaptureMode, mutant};

const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

/// Putting the thread's capture mode back failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a plain value, made and read by all crates")]
pub struct ModeLost {
    /// The exchange's failure.
    pub failure: Failure,
    /// Whether the thread is left in relaxed mode. Else the exchange was carried out all the same.
    pub left_relaxed: bool,
}

impl ModeLost {
    pub(super) fn as_error(self, driver: &Driver) -> Error {
        let error = driver.error(self.failure);
        if self.left_relaxed { error.with_note(Note::ModeNotRestored(self.failure)) } else { error }
    }

    pub(super) fn note_on(self, error: Error) -> Error {
        error.with_note(if self.left_relaxed {
            Note::ModeNotRestored(self.failure)
        } else {
            Note::Failed(self.failure)
        })
    }

    pub(super) fn warning(self, object: Object, fate: Fate) -> CudaWarning {
        if self.left_relaxed {
            CudaWarning::mode_not_restored(self.failure, object, "relaxed")
        } else {
            CudaWarning::failed(self.failure, object, fate)
        }
    }
}

/// Exchanges the thread's capture mode; `mode` holds the former one afterwards.
fn exchange(calls: Calls<'_>, mode: &mut CUstreamCaptureMode) -> Result<(), Failure> {
    // SAFETY: *pointers*: a live exclusive reference.
    unsafe { calls.cuThreadExchangeStreamCaptureMode(mode) }
}

/// Puts the former mode back. `None`: it is back.
fn put_back(calls: Calls<'_>, former: CUstreamCaptureMode) -> Option<ModeLost> {
    if mutant::is_out("mode-restore") {
        return None;
    }
    let mut mode = former;
    let failure = exchange(calls, &mut mode).err()?;
    // One that was carried out all the same has written the mode that it replaced.
    Some(ModeLost { failure, left_relaxed: former != RELAXED && mode != RELAXED })
}

/// Runs `operation` in relaxed capture mode if its *capture* column says "unsafe", and puts the mode back.
///
/// Where the thread isn't known to be in relaxed mode the operation isn't run: it could end somebody's capture (P11).
///
/// Calls `cuThreadExchangeStreamCaptureMode`, twice, around an unsafe operation; else nothing.
pub fn relaxed(
    calls: Calls<'_>,
    columns: Columns,
    operation: impl FnOnce(Calls<'_>) -> Outcome,
) -> Outcome {
    if columns.capture == CaptureRule::Neutral || mutant::is_out("bracket") {
        return operation(calls);
    }
    let mut former = RELAXED;
    let relax = exchange(calls, &mut former).err();
    // A refused exchange may have been carried out: the driver then wrote the former mode.
    if relax.is_some() && former == RELAXED && !mutant::is_out("bracket-refused") {
        return Outcome { relax, skipped: true, ..Outcome::default() };
    }
    let mut outcome = operation(calls);
    outcome.relax = relax;
    outcome.mode = put_back(calls, former);
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
    if let Err(failure) = exchange(driver.callable()?, &mut former) {
        return Err(refused(driver, failure, former));
    }
    let mut bracket = Bracket { driver, former: Some(former) };
    let result = operation();
    match (result, bracket.put_back()) {
        (result, None) => result,
        (Ok(_), Some(lost)) if mutant::is_out("neutral-undo") => Err(lost.as_error(driver)),
        (Ok(value), Some(lost)) => Err(undo(value, lost.as_error(driver))),
        (Err(error), Some(lost)) => Err(lost.note_on(error)),
    }
}

/// The exchange to relaxed mode failed. It may have been carried out: the driver then wrote the former mode.
#[cold]
fn refused(driver: &Driver, failure: Failure, former: CUstreamCaptureMode) -> Error {
    let error = driver.error(failure);
    if former == RELAXED {
        return error;
    }
    match put_back(driver.calls(), former) {
        None => error,
        Some(lost) => lost.note_on(error),
    }
}

/// The mode to put back, also while a panic passes through.
struct Bracket<'a> {
    driver: &'a Driver,
    former: Option<CUstreamCaptureMode>,
}

impl Bracket<'_> {
    fn put_back(&mut self) -> Option<ModeLost> {
        put_back(self.driver.calls(), self.former.take()?)
    }
}

impl Drop for Bracket<'_> {
    fn drop(&mut self) {
        if let Some(lost) = self.put_back() {
            let object = Object::nameless(ObjectKind::Context);
            self.driver.warn(lost.warning(object, Fate::Unknown));
        }
    }
}
