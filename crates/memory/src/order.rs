//! Calls on a stream as this crate makes them: in the stream's context where its handle needs that, after asking whether
//! somebody captures it where that can be.
//!
//! Work of a buffer's safe operations must not go into somebody's capture: it would run again when that graph is
//! launched, on memory that may be gone. A stream whose raw value nobody else has isn't captured by anybody else; an
//! exposed one is asked, at one call more.

#![expect(unsafe_code, reason = "asks the driver about a stream")]

use crate::pool::has_access;
use cuhold_handles::{
    AnyCall, CudaWarning, Driver, Error, Fate, Mark, Note, Object, Result, Status, Stream,
    driver_sys::{
        CUresult, Call, Calls, ContextUse, Failure, Kind,
        ffi::{
            CUdeviceptr, CUmemAccess_flags, CUmemoryPool, CUpointer_attribute,
            CUstreamCaptureStatus,
        },
        mutant,
    },
    scope::{self, Outcome},
};
use std::cell::Cell;

/// Whether somebody captures the stream.
///
/// Calls `cuStreamIsCapturing` if the stream is exposed. For a default stream beside a capturing blocking one the call
/// fails, and that capture goes on.
#[inline]
pub(crate) fn is_capturing(calls: Calls<'_>, stream: &Stream) -> Result<bool, Failure> {
    let asked = stream.is_exposed() && !mutant::is_out("captured-work");
    if asked { ask_capturing(calls, stream) } else { Ok(false) }
}

fn ask_capturing(calls: Calls<'_>, stream: &Stream) -> Result<bool, Failure> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: *handles*: the stream is live, its handle is borrowed; *pointers*: a live local.
    unsafe { calls.cuStreamIsCapturing(stream.raw(), &raw mut status) }?;
    Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// The stream is captured by somebody.
#[cold]
pub(crate) fn captured() -> Error {
    Error::state("the stream is being captured, and the work would become part of somebody's graph")
}

/// Refuses a stream that somebody captures.
pub(crate) fn refuse_captured(stream: &Stream) -> Result<()> {
    if !stream.is_exposed() {
        return Ok(());
    }
    if stream.run(|calls| ask_capturing(calls, stream))? { Err(captured()) } else { Ok(()) }
}

/// Whether a call works with whatever context is current, or minds another device's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Minds {
    Nothing,
    /// A copy: refused while another device's context is current, and over several mappings of virtual memory with none
    /// current (measured).
    Device,
    /// Several copies at once: refused with no context current (measured).
    Context,
}

/// Queues work on a stream.
///
/// # Errors
/// A stream that somebody captures, before the call; the call's failure, after which the work may have been queued all
/// the same; the restore's, [completed](Error::completed).
#[inline]
pub(crate) fn enqueue(
    stream: &Stream,
    minds: Minds,
    call: impl Fn(Calls<'_>) -> Result<(), Failure>,
) -> Result<()> {
    let is_captured = Cell::new(false);
    let checked = |calls: Calls<'_>| {
        if is_capturing(calls, stream)? {
            is_captured.set(true);
            return Ok(());
        }
        call(calls)
    };
    let target = stream.context().target();
    match minds {
        _ if stream.is_token() => scope::run(target, checked),
        Minds::Context => scope::run(target, checked),
        Minds::Device => match scope::run_on_device(target, checked) {
            Err(error) if may_need_context(&error) => scope::run(target, checked),
            queued => queued,
        },
        Minds::Nothing => {
            checked(target.driver().callable()?).map_err(|failure| target.driver().error(failure))
        }
    }?;
    if is_captured.get() { Err(captured()) } else { Ok(()) }
}

/// Whether a copy may have been refused only because no context was current, as one over several mappings of virtual memory
/// is (measured); nothing was queued then.
#[cold]
fn may_need_context(error: &Error) -> bool {
    let is_plain = error.notes().is_empty() && error.completed().is_none();
    let is_value = |failure: Failure| {
        failure.status == CUresult::INVALID_VALUE && failure.call.columns().kind == Kind::Enqueue
    };
    is_plain && failure_of(error).is_some_and(is_value)
}

/// Whether the stream's device has access to the memory at this address.
///
/// Calls `cuPointerGetAttribute` in the stream's context; for memory of a pool `cuMemPoolGetAccess`, since there the
/// attribute says of a device without access that it has it (measured on two H200s).
#[cold]
pub(crate) fn is_reached(ptr: CUdeviceptr, stream: &Stream) -> Result<bool> {
    // The manual says "an integer": room for either size that the driver may write.
    let mut flags = 0_u64;
    let which = CUpointer_attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS;
    let (mut pool, of_pool) =
        (CUmemoryPool::NULL, CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
    let all = u64::from(CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE.0);
    let ask = |calls: Calls<'_>| {
        // SAFETY: *pointers*: a live local of the attribute's type.
        unsafe { calls.cuPointerGetAttribute((&raw mut pool).cast(), of_pool, ptr) }?;
        if !pool.is_null() {
            return has_access(calls, pool, stream.context().device());
        }
        // SAFETY: *pointers*: a live local with room for the attribute.
        unsafe { calls.cuPointerGetAttribute((&raw mut flags).cast(), which, ptr) }?;
        Ok(flags == all)
    };
    // Who has access to a pool isn't asked beside a capture otherwise.
    let ask = || scope::run(stream.context().target(), ask);
    scope::neutral(stream.driver(), ask, |_, error| error.with_completed(1))
}

/// The driver call behind an error.
pub(crate) fn failure_of(error: &Error) -> Option<Failure> {
    match (error.call(), error.status()) {
        (Some(AnyCall::Driver(call)), Some(Status::Driver(status))) => {
            Some(Failure { call, status })
        }
        _ => None,
    }
}

/// Whether work may be queued although `enqueue` failed: its own call answered so, or only what came after it failed.
pub(crate) fn may_be_queued(error: &Error) -> bool {
    let by_itself = failure_of(error).is_some_and(|failure| {
        failure.call.columns().kind == Kind::Enqueue && failure.status != CUresult::MISSING
    });
    by_itself || error.completed().is_some()
}

/// Makes a call for a stream whose failure isn't returned at once: capture-neutral, and for a default stream in its
/// context.
pub(crate) fn cleanup(
    stream: &Stream,
    call: Call,
    make: impl FnOnce(Calls<'_>) -> Result<(), Failure>,
) -> Outcome {
    let mut columns = call.columns();
    let context = stream.context().as_raw();
    if stream.is_token() {
        columns.context = ContextUse::Owner;
    }
    scope::cleanup(stream.driver(), Some(context), columns, make)
}

/// Whether both are the same stream.
pub(crate) fn same_stream(one: &Stream, other: &Stream) -> bool {
    one.raw() == other.raw() && one.context().as_raw() == other.context().as_raw()
}

/// Refuses a stream that memory can't be freed on later: somebody else's, which may end before the memory does.
pub(crate) fn check_home(stream: &Stream) -> Result<()> {
    if stream.is_kept_alive() || mutant::is_out("home") {
        return Ok(());
    }
    Err(Error::argument(
        "stream: it is borrowed without an owner that keeps it alive, so memory can't be freed on it later",
    ))
}

/// What waiting for work on the GPU brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// The work is done.
    Done,
    /// Somebody captures the stream, so it can't be waited for.
    Captured,
    /// It isn't known.
    Failed,
}

/// What is said of memory whose stream couldn't be waited for.
pub(crate) const CAPTURED: &str = "its stream is being captured and can't be waited for";

/// Adds to an error that the stream couldn't be waited for, if it is so.
pub(crate) fn note_wait(error: Error, wait: Wait) -> Error {
    if wait == Wait::Captured { error.with_note(Note::Text(CAPTURED.into())) } else { error }
}

/// Waits for everything that is queued on the stream, capture-neutral. The outcome is to be told whatever came out.
///
/// Calls `cuStreamSynchronize`; for an exposed stream also `cuStreamIsCapturing`.
#[cold]
pub(crate) fn settle(stream: &Stream) -> (Wait, Outcome) {
    let is_captured = Cell::new(false);
    let outcome = cleanup(stream, Call::cuStreamSynchronize, |calls| {
        if is_capturing(calls, stream)? {
            is_captured.set(true);
            return Ok(());
        }
        // SAFETY: *handles*: the stream is borrowed.
        unsafe { calls.cuStreamSynchronize(stream.raw()) }
    });
    let wait = if !outcome.is_asked() || outcome.operation.is_some() {
        Wait::Failed
    } else if is_captured.get() {
        Wait::Captured
    } else {
        Wait::Done
    };
    (wait, outcome)
}

/// Tells, where nothing can be returned, what came of memory whose work was waited for: it is released if that is done,
/// else leaked.
#[cold]
pub(crate) fn warn_of_wait(
    driver: &Driver,
    wait: Wait,
    outcome: Outcome,
    call: Call,
    object: Object,
) {
    let fate = if wait == Wait::Done { Fate::Released } else { Fate::Leaked };
    outcome.warn_to(object, call, fate, &mut |warning| driver.warn(warning));
    if wait == Wait::Captured {
        driver.warn(CudaWarning::note(object, CAPTURED).with_fate(fate));
    }
}

/// Lets what is queued on `later` from now on wait for what is queued on `earlier` by now. Nobody captures `earlier`.
///
/// Calls `cuEventRecord`, `cuStreamWaitEvent`; `cuEventCreate` where the context has no idle event, `cuEventDestroy` where
/// something fails; `cuStreamIsCapturing` if `earlier` is exposed.
pub(crate) fn order_after(earlier: &Stream, later: &Stream) -> Result<()> {
    if mutant::is_out("home-order") {
        return Ok(());
    }
    let mut mark = Mark::take(earlier.context())?;
    match mark.record_uncaptured(earlier).and_then(|()| mark.hold_up(later)) {
        Ok(()) => Ok(()),
        Err(error) => Err(mark.unneeded(error)),
    }
}
