//! The scoped operations: the only code that changes which context is current, and puts it back.
//!
//! | operation | for | what it gives when the caller's context can't be put back |
//! |---|---|---|
//! | [`run`] | queries and mutations | `Err`, completed, with what is current |
//! | [`run_on_device`] | the same, of the *context* column "device" | the same |
//! | [`create`] | creations with their undo | undone where that is safe, then `Err` with what is current |
//! | [`cleanup`] | destroys in a `Drop` or a close | an [`Outcome`] to warn from after locks are released |
//! | [`create_context`] | context creation, which pushes | the new context is destroyed, then `Err` |
//!
//! If the target is current already nothing is switched: one query, then the operation. Else the target is *pushed* on
//! the thread's stack and popped again afterwards, so that what the caller has current, none included, stays under it
//! untouched. It isn't set in the caller's place: setting a context in the place of one that was destroyed meanwhile
//! ended the process at times (measured). Which calls need a scope at all is the *context* column of the function list.
//!
//! "Ask" in the failing cases is one `cuCtxGetCurrent` on the cold path; its own failure is carried as
//! [`Current::Unknown`].
//!
//! Source: CUDA Driver API 13.x, "Context Management"; readings of a real driver for what the manual leaves open.

#![expect(unsafe_code, reason = "the thread's context is read and set through the driver")]

mod bracket;
mod outcome;

pub use bracket::{ModeLost, neutral, relaxed};
pub use outcome::{Lost, Outcome};

use crate::{
    current::Current,
    driver::Driver,
    error::{Error, Note, Result},
};
use cuhold_driver_sys::{CUresult, Calls, Columns, ContextUse, Failure, ffi::CUcontext, mutant};

/// A context to run in, with its driver.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    driver: &'a Driver,
    raw: CUcontext,
}

impl<'a> Target<'a> {
    /// Runs in this context of this driver.
    #[must_use]
    pub fn new(driver: &'a Driver, raw: CUcontext) -> Self {
        Self { driver, raw }
    }

    /// The driver.
    #[must_use]
    pub fn driver(self) -> &'a Driver {
        self.driver
    }

    /// The context.
    #[must_use]
    pub fn raw(self) -> CUcontext {
        self.raw
    }
}

/// What is current on the calling thread, for the cold path.
#[cold]
pub(crate) fn ask(calls: Calls<'_>) -> Current {
    match current(calls) {
        Ok(raw) => Current::of(raw),
        Err(failure) => Current::Unknown(failure),
    }
}

#[inline]
fn current(calls: Calls<'_>) -> Result<CUcontext, Failure> {
    let mut raw = CUcontext::NULL;
    // SAFETY: *pointers*: `raw` is a live local.
    unsafe { calls.cuCtxGetCurrent(&raw mut raw) }?;
    Ok(raw)
}

fn push(calls: Calls<'_>, raw: CUcontext) -> Result<(), Failure> {
    // SAFETY: *handles*: live, since the object that is worked on keeps it, or on the stack until a moment ago.
    unsafe { calls.cuCtxPushCurrent_v2(raw) }
}

/// Pops, and gives what was popped. That is also told by a call that was carried out although it failed; else it is null.
fn pop(calls: Calls<'_>) -> (CUcontext, Result<(), Failure>) {
    let mut popped = CUcontext::NULL;
    // SAFETY: *pointers*: `popped` is a live local.
    let result = unsafe { calls.cuCtxPopCurrent_v2(&raw mut popped) };
    (popped, result)
}

/// Whether this thread runs a callback of the driver, ours or not: there every call is refused (measured).
#[cold]
#[must_use]
pub fn is_in_callback(calls: Calls<'_>) -> bool {
    current(calls).is_err_and(|failure| failure.status == CUresult::NOT_PERMITTED)
}

/// An activation that failed: the operation isn't run.
struct Stuck {
    failure: Failure,
    lost: Option<Lost>,
}

impl Stuck {
    fn into_error(self, driver: &Driver) -> Error {
        let error = driver.error(self.failure);
        match self.lost {
            Some(lost) => lost.note_on(error),
            None => error,
        }
    }
}

/// What the caller has current, and what lies on it, to be taken off.
#[derive(Clone, Copy)]
struct Pushed {
    previous: CUcontext,
    target: CUcontext,
}

/// The caller's context, to be put back. Where it was the target's, there is nothing to put back.
struct Switch<'a> {
    calls: Calls<'a>,
    pushed: Option<Pushed>,
}

impl<'a> Switch<'a> {
    #[inline]
    fn to(calls: Calls<'a>, target: CUcontext) -> Result<Self, Stuck> {
        let previous = current(calls).map_err(|failure| Stuck { failure, lost: None })?;
        if previous == target {
            return Ok(Self { calls, pushed: None });
        }
        Self::push(calls, Pushed { previous, target })
    }

    /// Switches only away from another context: with none current, nothing is switched.
    fn from_other(calls: Calls<'a>, target: CUcontext) -> Result<Self, Stuck> {
        let previous = current(calls).map_err(|failure| Stuck { failure, lost: None })?;
        if previous.is_null() || previous == target {
            return Ok(Self { calls, pushed: None });
        }
        Self::push(calls, Pushed { previous, target })
    }

    #[cold]
    fn push(calls: Calls<'a>, pushed: Pushed) -> Result<Self, Stuck> {
        let Err(failure) = push(calls, pushed.target) else {
            return Ok(Self { calls, pushed: Some(pushed) });
        };
        if mutant::is_out("activation") {
            return Ok(Self { calls, pushed: None });
        }
        // A call that was carried out may still answer a failure: put back what it moved.
        let lost = match ask(calls) {
            _ if mutant::is_out("put-back") => None,
            now if now == Current::of(pushed.previous) => None,
            // Nothing is moved unseen: a destroyed context that was taken off can't be put there again (measured).
            now @ Current::Unknown(_) => Some(Lost { restore: None, now }),
            _ => put_back(calls, pushed),
        };
        Err(Stuck { failure, lost })
    }

    /// Puts the caller's context back. `None`: it is back.
    #[inline]
    fn restore(mut self) -> Option<Lost> {
        let pushed = self.pushed.take().filter(|_| !mutant::is_out("restore"))?;
        put_back(self.calls, pushed)
    }
}

#[cold]
fn put_back(calls: Calls<'_>, pushed: Pushed) -> Option<Lost> {
    match pop(calls) {
        (popped, Ok(())) if popped == pushed.target || mutant::is_out("strayed") => None,
        (popped, Ok(())) => strayed(calls, pushed, popped),
        (_, Err(failure)) if mutant::is_out("ask") => {
            Some(Lost { restore: Some(failure), now: Current::of(pushed.target) })
        }
        (_, Err(failure)) => Some(Lost { restore: Some(failure), now: ask(calls) }),
    }
}

/// How many contexts are taken off at most that a foreign closure has left on the stack.
const STRAYED_MAX: usize = 64;

/// A foreign closure has left the thread's stack otherwise than it found it: what was popped isn't the target. What it
/// left is taken off; what it took off of the caller's is put back.
#[cold]
fn strayed(
    calls: Calls<'_>,
    Pushed { previous, .. }: Pushed,
    mut popped: CUcontext,
) -> Option<Lost> {
    for _ in 0..STRAYED_MAX {
        let failure = match ask(calls) {
            now if now == Current::of(previous) => return None,
            now @ Current::Unknown(_) => return Some(Lost { restore: None, now }),
            _ if popped == previous => push(calls, previous).err()?,
            _ => match pop(calls) {
                (next, Ok(())) => {
                    popped = next;
                    continue;
                }
                (_, Err(failure)) => failure,
            },
        };
        return Some(Lost { restore: Some(failure), now: ask(calls) });
    }
    Some(Lost { restore: None, now: ask(calls) })
}

/// Puts the caller's context back while a panic passes through, and warns where that is refused.
struct WhileUnwinding<'a> {
    driver: &'a Driver,
    switch: Option<Switch<'a>>,
}

impl Drop for WhileUnwinding<'_> {
    fn drop(&mut self) {
        let switch = self.switch.take().filter(|_| !mutant::is_out("restore-unwinding"));
        if let Some(lost) = switch.and_then(Switch::restore) {
            lost.warn(self.driver);
        }
    }
}

/// Runs `operation` between activation and restore; a panic in it finds the context put back.
#[inline]
fn within<T>(
    target: Target<'_>,
    operation: impl FnOnce(Calls<'_>) -> T,
) -> Result<(T, Option<Lost>), Stuck> {
    let switch = Switch::to(target.driver.calls(), target.raw)?;
    Ok(after(target, switch, operation))
}

/// Runs `operation` after the switch, then the restore.
#[inline]
fn after<T>(
    target: Target<'_>,
    switch: Switch<'_>,
    operation: impl FnOnce(Calls<'_>) -> T,
) -> (T, Option<Lost>) {
    let mut guard = WhileUnwinding { driver: target.driver, switch: Some(switch) };
    let value = operation(target.driver.calls());
    let lost = guard.switch.take().and_then(Switch::restore);
    (value, lost)
}

/// Runs a query or a mutation with the target current.
///
/// Calls `cuCtxGetCurrent`; where another context is current also `cuCtxPushCurrent` and `cuCtxPopCurrent`.
///
/// # Errors
/// - the activation's failure: the operation wasn't run;
/// - the operation's failure, with a note if the caller's context wasn't restored;
/// - the restore's failure, [completed](Error::completed): the operation was carried out, and what it published stays
///   published; the value of a query is lost.
#[inline]
pub fn run<T>(
    target: Target<'_>,
    operation: impl FnOnce(Calls<'_>) -> Result<T, Failure>,
) -> Result<T> {
    target.driver.callable()?;
    answered(target.driver, within(target, operation))
}

type Ran<T> = Result<(Result<T, Failure>, Option<Lost>), Stuck>;

#[inline]
fn answered<T>(driver: &Driver, ran: Ran<T>) -> Result<T> {
    match ran {
        Ok((Ok(value), None)) => Ok(value),
        Ok((Ok(value), Some(_))) if mutant::is_out("restore-error") => Ok(value),
        Ok((Ok(_), Some(lost))) => Err(lost.into_error(driver).with_completed(1)),
        Ok((Err(failure), lost)) => Err(failed(driver, failure, lost)),
        Err(stuck) => Err(stuck.into_error(driver)),
    }
}

/// Makes one call whose *context* column is "device": with no context current it works, with another *device's* it
/// answers `INVALID_VALUE` (measured for copies of pool memory).
///
/// In a process that uses one device it is made at once. Another library may all the same have made another device's
/// context current, of which this driver value knows nothing: where the call answers `INVALID_VALUE` and another
/// context is found current, it is made once more in the target.
///
/// Calls nothing else while one device is used; then `cuCtxGetCurrent`, and where another context is current
/// `cuCtxPushCurrent` and `cuCtxPopCurrent`.
///
/// # Errors
/// As [`run`].
#[inline]
pub fn run_on_device<T>(
    target: Target<'_>,
    operation: impl Fn(Calls<'_>) -> Result<T, Failure>,
) -> Result<T> {
    let driver = target.driver;
    let calls = driver.callable()?;
    if driver.uses_several_devices() {
        let switch = Switch::from_other(calls, target.raw);
        return answered(driver, switch.map(|switch| after(target, switch, operation)));
    }
    match operation(calls) {
        Err(failure) if failure.status == CUresult::INVALID_VALUE => {
            once_more(target, failure, operation)
        }
        answer => answer.map_err(|failure| driver.error(failure)),
    }
}

/// The call answered `INVALID_VALUE`: perhaps only because of what is current.
#[cold]
fn once_more<T>(
    target: Target<'_>,
    first: Failure,
    operation: impl FnOnce(Calls<'_>) -> Result<T, Failure>,
) -> Result<T> {
    let driver = target.driver;
    match Switch::from_other(driver.calls(), target.raw) {
        Ok(Switch { pushed: None, .. }) => Err(driver.error(first)),
        Ok(switch) => answered(driver, Ok(after(target, switch, operation))),
        Err(stuck) => {
            let error = driver.error(first).with_note(Note::Failed(stuck.failure));
            Err(match stuck.lost {
                Some(lost) => lost.note_on(error),
                None => error,
            })
        }
    }
}

/// Runs a foreign closure with the target current. A panic in it is resumed once the caller's context is back.
///
/// Calls as [`run`].
///
/// # Errors
/// The activation's failure (the closure wasn't run), or the restore's, completed (the closure's value is lost).
pub fn call<T>(target: Target<'_>, foreign: impl FnOnce() -> T) -> Result<T> {
    run(target, |_| Ok(foreign()))
}

#[cold]
fn failed(driver: &Driver, failure: Failure, lost: Option<Lost>) -> Error {
    let error = driver.error(failure);
    match lost {
        Some(lost) if !mutant::is_out("restore-note") => lost.note_on(error),
        _ => error,
    }
}

/// Makes an object with the target current, and unmakes it if the caller's context can't be put back.
///
/// `raw` names the new object in a note should it be lost; `undo` destroys it, and `destroy` are the columns of the
/// call with which it does.
///
/// Calls as [`run`].
///
/// # Errors
/// In every case nothing stays created, but where the note [`Note::Leaked`] says otherwise:
/// - the activation's or the creation's failure;
/// - the restore's failure: the object was destroyed again, if its destroy needs no context or the target is known to
///   be current; a failing undo is a note.
#[inline]
pub fn create<T: Copy>(
    target: Target<'_>,
    operation: impl FnOnce(Calls<'_>) -> Result<T, Failure>,
    undo: Undo<impl FnOnce(Calls<'_>, T) -> Result<(), Failure>, impl FnOnce(T) -> u64>,
) -> Result<T> {
    target.driver.callable()?;
    match within(target, operation) {
        Ok((Ok(value), None)) => Ok(value),
        Ok((Ok(value), Some(lost))) => Err(undone(target, value, lost, undo)),
        Ok((Err(failure), lost)) => Err(failed(target.driver, failure, lost)),
        Err(stuck) => Err(stuck.into_error(target.driver)),
    }
}

/// How a creation is undone.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "made by every caller of `create`")]
pub struct Undo<U, R> {
    /// The columns of the destroying call: whether it needs its context.
    pub columns: Columns,
    /// Destroys the new object.
    pub destroy: U,
    /// The new object's raw value, for a note.
    pub raw: R,
}

#[cold]
fn undone<T: Copy>(
    target: Target<'_>,
    value: T,
    lost: Lost,
    undo: Undo<impl FnOnce(Calls<'_>, T) -> Result<(), Failure>, impl FnOnce(T) -> u64>,
) -> Error {
    let safe = undo.columns.context != ContextUse::Owner || lost.now == Current::of(target.raw);
    let error = lost.into_error(target.driver);
    let raw = (undo.raw)(value);
    if mutant::is_out("undo") {
        return error;
    }
    if !safe && !mutant::is_out("undo-safe") {
        return error.with_note(Note::Leaked { raw });
    }
    let outcome = relaxed(target.driver.calls(), undo.columns, |calls| {
        Outcome::of((undo.destroy)(calls, value))
    });
    outcome.note_undo(error, raw)
}

/// Destroys an object: activates its context if the destroy needs it, brackets a capture-unsafe destroy with the
/// relaxed mode, and tells what went wrong as a plain value. Warn from it only after locks are released.
///
/// Calls the destroy; with an unsafe *capture* column also `cuThreadExchangeStreamCaptureMode`, twice; with the
/// *context* column "owner" as [`run`].
pub fn cleanup(
    driver: &Driver,
    owner: Option<CUcontext>,
    columns: Columns,
    destroy: impl FnOnce(Calls<'_>) -> Result<(), Failure>,
) -> Outcome {
    relaxed(driver.calls(), columns, |calls| {
        let in_context = columns.context == ContextUse::Owner && !mutant::is_out("destroy-context");
        let Some(owner) = owner.filter(|_| in_context) else {
            return Outcome::of(destroy(calls));
        };
        match within(Target { driver, raw: owner }, destroy) {
            Ok((result, lost)) => Outcome { lost, ..Outcome::of(result) },
            Err(Stuck { failure, lost }) => {
                Outcome { activate: Some(failure), skipped: true, lost, ..Outcome::default() }
            }
        }
    })
}

/// Makes a context, which the driver pushes, and pops it again.
///
/// Calls `cuCtxGetCurrent`, the creation, `cuCtxPopCurrent`.
///
/// # Errors
/// - the question's or the creation's failure: if the creation pushed something all the same it is popped, and
///   destroyed where the creation named it;
/// - the pop's failure: the new context was destroyed, which pops it, and the error says what is current.
pub fn create_context(
    driver: &Driver,
    operation: impl FnOnce(Calls<'_>, &mut CUcontext) -> Result<(), Failure>,
) -> Result<CUcontext> {
    let calls = driver.callable()?;
    let before = current(calls).map_err(|failure| driver.error(failure))?;
    let mut new = CUcontext::NULL;
    if let Err(failure) = operation(calls, &mut new) {
        return Err(orphaned(driver, driver.error(failure), before, new));
    }
    match pop(calls) {
        (_, Ok(())) => Ok(new),
        (_, Err(failure)) => {
            let undo = if mutant::is_out("context-undo") { Ok(()) } else { end(calls, new) };
            let lost = Lost { restore: Some(failure), now: ask(calls) };
            Err(note_undo(lost.into_error(driver), undo))
        }
    }
}

/// Ends a context that a creation just made. Where it is current, that pops it.
fn end(calls: Calls<'_>, new: CUcontext) -> Result<(), Failure> {
    // SAFETY: *handles*: the creation named this context, and it was given to nobody.
    unsafe { calls.cuCtxDestroy_v2(new) }
}

fn note_undo(error: Error, undo: Result<(), Failure>) -> Error {
    match undo {
        Ok(()) => error,
        Err(failure) => error.with_note(Note::UndoFailed(failure)),
    }
}

/// The orphan can't be popped, or so the driver says. Where it was seen current, it is ended, which pops it.
#[cold]
fn stuck_on(
    driver: &Driver,
    error: Error,
    pop: Failure,
    (was, new): (Current, CUcontext),
) -> Error {
    let calls = driver.calls();
    let lost = |now| Lost { restore: Some(pop), now };
    let now = ask(calls);
    if new.is_null() {
        return lost(now).note_on(error);
    }
    if was != Current::of(new) && now != Current::of(new) {
        return lost(now).note_on(error).with_note(Note::Leaked { raw: new.addr() as u64 });
    }
    let undo = end(calls, new);
    let now = if now == Current::of(new) { ask(calls) } else { now };
    note_undo(lost(now).note_on(error), undo)
}

/// The creation failed; whatever it pushed all the same is taken off the stack and ended.
#[cold]
fn orphaned(driver: &Driver, error: Error, before: CUcontext, new: CUcontext) -> Error {
    let calls = driver.calls();
    let now = if mutant::is_out("orphan") { Current::of(before) } else { ask(calls) };
    let (error, is_unknown) = match now {
        Current::Unknown(_) if new.is_null() => return Lost { restore: None, now }.note_on(error),
        Current::Unknown(failure) => (error.with_note(Note::Failed(failure)), true),
        now if now == Current::of(before) => return error,
        _ => (error, false),
    };
    let popped = match pop(calls) {
        (popped, Ok(())) => popped,
        (_, Err(failure)) => return stuck_on(driver, error, failure, (now, new)),
    };
    if popped == new {
        return note_undo(error, end(calls, new));
    }
    if !is_unknown {
        return error.with_note(Note::Leaked { raw: popped.addr() as u64 });
    }
    // It was the caller's: nothing was pushed.
    match push(calls, popped) {
        Ok(()) => error,
        Err(failure) => Lost { restore: Some(failure), now: ask(calls) }.note_on(error),
    }
}
