//! Events that mark what is queued on a stream: taken from those that their context keeps idle, and given back.
//!
//! ```text
//!   context ─ kept ─► IdleEvents ── take ──► Mark ── record, wait ──► dropped: idle again
//!                          └─ none there: one is made       └─ after a failure: destroyed
//! ```
//!
//! A record replaces what an event marked before, and a wait that is queued means what it marked at that moment, so an
//! event can be used again as soon as nobody wants to ask it any more.

#![expect(unsafe_code, reason = "calls the driver's event functions on raw events")]

use crate::kept::Kept;
use cuhold_handles::{
    Context, CudaWarning, Error, Event, EventOptions, Object, ObjectKind, Result, Stream, callback,
    driver_sys::{
        CUresult, Call, Calls, Failure, Life,
        ffi::{CUevent, CUstreamCaptureStatus},
        mutant,
    },
    scope::Outcome,
};
use parking_lot::Mutex;
use std::{fmt, mem};

/// How many idle events a context keeps at most. Those beyond it are destroyed.
const IDLE_MAX: usize = 64;

/// A raw event, and the number by which warnings name it.
#[derive(Clone, Copy, Debug)]
struct Raw {
    event: CUevent,
    id: u64,
}

/// The idle events of a context.
#[derive(Debug, Default)]
pub(crate) struct IdleEvents(Mutex<Vec<Raw>>);

impl IdleEvents {
    fn take(&self) -> Option<Raw> {
        self.0.lock().pop()
    }

    /// Makes room, so that giving back allocates nothing.
    fn reserve(&self) {
        let mut idle = self.0.lock();
        let more = IDLE_MAX.saturating_sub(idle.len());
        idle.reserve_exact(more);
    }

    /// Whether there was room.
    fn give_back(&self, raw: Raw) -> bool {
        let mut idle = self.0.lock();
        let fits = idle.len() < idle.capacity().min(IDLE_MAX);
        if fits {
            idle.push(raw);
        }
        fits
    }

    /// Destroys them; their context is about to end.
    ///
    /// Calls `cuEventDestroy`.
    pub(crate) fn end(&self, calls: Calls<'_>, warn: &mut dyn FnMut(CudaWarning)) {
        let idle = mem::take(&mut *self.0.lock());
        for raw in idle {
            let object =
                Object { kind: ObjectKind::Event, raw: raw.event.addr() as u64, id: raw.id };
            // SAFETY: *handles*: kept here alone, and taken out above.
            let outcome = Outcome::of(unsafe { calls.cuEventDestroy_v2(raw.event) });
            outcome.warn_to(object, Call::cuEventDestroy_v2, outcome.fate(), warn);
        }
    }
}

/// An event that marks what is queued on a stream of its context.
///
/// Dropped, the event is idle again, also while a wait for it is queued on a stream.
pub(crate) struct Mark {
    /// Invariant: live, and nobody else's.
    raw: Raw,
    context: Context,
    /// Whether it may mark work of a capture.
    exposed: bool,
    /// Whether something failed with it, so that it isn't used again.
    spoilt: bool,
}

impl Mark {
    /// Takes an event of the context.
    ///
    /// Calls `cuEventCreate` where none is idle; `cuEventDestroy` where that is undone.
    pub(crate) fn take(context: &Context) -> Result<Self> {
        let kept = context.extra(Kept::default);
        let raw = match kept.and_then(|kept| kept.events.take()) {
            Some(raw) => raw,
            None => make(context, kept)?,
        };
        Ok(Self { raw, context: context.clone(), exposed: false, spoilt: false })
    }

    /// The event, for a call.
    pub(crate) fn event(&self) -> CUevent {
        self.raw.event
    }

    /// Marks what is queued on the stream by now, which is of the mark's context.
    ///
    /// Calls `cuEventRecord`.
    pub(crate) fn record(&mut self, stream: &Stream) -> Result<()> {
        self.exposed = stream.is_exposed();
        // SAFETY: *handles*: this value's event; the stream is borrowed.
        stream.run(|calls| unsafe { calls.cuEventRecord(self.raw.event, stream.raw()) })
    }

    /// Lets what is queued on the stream from now on wait for what is marked.
    ///
    /// Calls `cuStreamWaitEvent`; for a mark of an exposed stream also `cuStreamIsCapturing`, since the stream may have
    /// become part of somebody's capture by that.
    pub(crate) fn hold_up(&self, stream: &Stream) -> Result<()> {
        // SAFETY: *handles*: this value's event; the stream is borrowed.
        stream.run(|calls| unsafe { calls.cuStreamWaitEvent(stream.raw(), self.raw.event, 0) })?;
        if !self.exposed || stream.is_exposed() {
            return Ok(());
        }
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: *handles*: the stream is borrowed; *pointers*: a live local.
        let ask =
            |calls: Calls<'_>| unsafe { calls.cuStreamIsCapturing(stream.raw(), &raw mut status) };
        let asked = stream.run(ask);
        if asked.is_err() || status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            // From here on the stream is asked before each of its calls.
            let _: cuhold_handles::driver_sys::ffi::CUstream = stream.as_raw();
        }
        asked.map_err(|error| error.with_completed(1))
    }

    /// Whether what is marked is done.
    ///
    /// Calls `cuEventQuery`.
    pub(crate) fn is_done(&self) -> Result<bool> {
        let driver = self.context.driver();
        // SAFETY: *handles*: this value's event.
        match unsafe { driver.callable()?.cuEventQuery(self.raw.event) } {
            Ok(()) => Ok(true),
            Err(Failure { status: CUresult::NOT_READY, .. }) => Ok(false),
            Err(failure) => Err(driver.error(failure)),
        }
    }

    /// From here on the event isn't used again: something failed with it.
    pub(crate) fn spoil(&mut self) {
        self.spoilt = true;
    }

    /// Destroys the event of something that failed, with whose error a second failure is told.
    ///
    /// Calls `cuEventDestroy`.
    #[cold]
    pub(crate) fn unneeded(self, error: Error) -> Error {
        let this = mem::ManuallyDrop::new(self);
        // SAFETY: the value is not used again, nor dropped.
        let context = unsafe { std::ptr::read(&raw const this.context) };
        // SAFETY: *handles*: this value's, which isn't dropped.
        let event = unsafe { Event::from_raw(&context, this.raw.event) };
        match event.map(Event::close) {
            Ok(Ok(_)) => error,
            Ok(Err(refused)) => error.with_undo(&refused.error),
            Err(second) => error.with_second(&second),
        }
    }
}

#[cold]
fn make(context: &Context, kept: Option<&Kept>) -> Result<Raw> {
    let event = Event::with_options(context, EventOptions::default())?;
    let id = context.driver().next_id();
    let event = event.into_raw().map_err(|event| {
        // Not met: nobody else has it yet.
        Error::state(format!("the new {event:?} is shared"))
    })?;
    if let Some(kept) = kept {
        kept.events.reserve();
    }
    Ok(Raw { event, id })
}

impl Drop for Mark {
    fn drop(&mut self) {
        if self.context.driver().api().life() == Life::Forked {
            return;
        }
        let may_keep = !self.spoilt && !callback::inside();
        let kept = self.context.extra(Kept::default).filter(|_| may_keep);
        if kept.is_some_and(|kept| kept.events.give_back(self.raw)) {
            return;
        }
        // SAFETY: *handles*: this value's, which nobody uses any more.
        drop(unsafe { Event::from_raw(&self.context, self.raw.event) });
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {:?}", self.raw.event)
    }
}

/// Lets what is queued on `later` from now on wait for what is queued on `earlier` by now.
///
/// Calls `cuEventRecord`, `cuStreamWaitEvent`; `cuEventCreate` where the context has no idle event, `cuEventDestroy` where
/// something fails; `cuStreamIsCapturing` if `earlier` is exposed.
pub(crate) fn order_after(earlier: &Stream, later: &Stream) -> Result<()> {
    if mutant::is_out("home-order") {
        return Ok(());
    }
    let mut mark = Mark::take(earlier.context())?;
    match mark.record(earlier).and_then(|()| mark.hold_up(later)) {
        Ok(()) => Ok(()),
        Err(error) => Err(mark.unneeded(error)),
    }
}
