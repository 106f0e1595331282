//! Events: a point in a stream's work, to wait for, to ask about, to measure between.
//!
//! Source: CUDA Driver API 13.x, "Event Management".

#![expect(unsafe_code, reason = "calls the driver's event functions")]

use crate::{
    context::Context,
    driver::Driver,
    error::{Error, Refused, Result},
    make::make,
    object::ObjectKind,
    resource::{Closed, Handle, Owner, Resource, not_null},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::{fmt, sync::atomic::Ordering};

/// The resource behind [`Event`].
#[derive(Debug)]
pub(crate) struct EventRes;

// SAFETY: *ends*: `cuEventDestroy`. *Dependencies*: an event refers to its context.
unsafe impl Resource for EventRes {
    type Raw = CUevent;
    type Deps = Context;
    const KIND: ObjectKind = ObjectKind::Event;
    const DESTROY: Option<Call> = Some(Call::cuEventDestroy_v2);

    fn driver(context: &Context) -> &Driver {
        context.driver()
    }
    fn context(context: &Context) -> CUcontext {
        context.as_raw()
    }
    fn kind(_: &Context, state: u32) -> ObjectKind {
        kind_of(state)
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUevent, _: &Context) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuEventDestroy_v2(raw) }
    }
}

/// Bit of the state word: others may record the event, or it was recorded on a stream that others may capture.
const EXPOSED: u32 = 1;
/// Bit of the state word: the event was made by others, so that only the driver knows of which kind it is.
const RAW: u32 = 2;
/// Bits of the state word, of which one at most is set: the kind of an event that isn't an ordinary one.
const BLOCKING: u32 = 4;
const INTERPROCESS: u32 = 8;
const IMPORTED: u32 = 16;

/// The kind that the state word tells.
fn kind_of(state: u32) -> ObjectKind {
    match state & (BLOCKING | INTERPROCESS | IMPORTED) {
        BLOCKING => ObjectKind::BlockingEvent,
        INTERPROCESS => ObjectKind::InterprocessEvent,
        IMPORTED => ObjectKind::ImportedEvent,
        _ => ObjectKind::Event,
    }
}

/// How an event is made. The default has no timing, which is cheaper, and spins in [`Event::synchronize`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct EventOptions {
    /// Whether times can be measured with it.
    pub timing: bool,
    /// Whether a thread that waits for it blocks instead of spinning.
    pub blocking_sync: bool,
    /// Whether other processes can open it, which excludes timing.
    pub interprocess: bool,
}

impl EventOptions {
    /// With timing.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn timing() -> Self {
        Self { timing: true, ..Self::default() }
    }

    /// A thread that waits blocks instead of spinning.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn blocking(mut self) -> Self {
        self.blocking_sync = true;
        self
    }

    /// Other processes can open it: [`Event::export`].
    ///
    /// Calls nothing.
    #[must_use]
    pub fn interprocess() -> Self {
        Self { interprocess: true, ..Self::default() }
    }

    /// The bit of the state word for the kind.
    fn bit(self) -> u32 {
        match (self.interprocess, self.blocking_sync) {
            (true, _) => INTERPROCESS,
            (false, true) => BLOCKING,
            (false, false) => 0,
        }
    }

    fn flags(self) -> u32 {
        let interprocess =
            if self.interprocess { CUevent_flags::CU_EVENT_INTERPROCESS.0 } else { 0 };
        let timing = if self.timing { 0 } else { CUevent_flags::CU_EVENT_DISABLE_TIMING.0 };
        let blocking = if self.blocking_sync { CUevent_flags::CU_EVENT_BLOCKING_SYNC.0 } else { 0 };
        timing | blocking | interprocess
    }
}

/// A CUDA event. Clones are the same event; it ends with the last of them, also while work that it marks is pending.
/// Its drop calls `cuEventDestroy`.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, EventOptions};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let stream = device.new_stream()?;
/// let event = device.new_event(EventOptions::default())?;
/// stream.record(&event)?;
/// event.synchronize()?;
/// assert!(event.is_done()?);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Event(pub(crate) Handle<EventRes>);

impl Event {
    /// Makes an event in the context.
    ///
    /// Calls `cuEventCreate`; `cuEventDestroy` where it is undone.
    ///
    /// # Errors
    /// Timing together with interprocess is refused; the call's failure, or that of making the context current and the
    /// caller's again.
    #[doc(alias = "cuEventCreate")]
    pub fn with_options(context: &Context, options: EventOptions) -> Result<Self> {
        if options.timing && options.interprocess {
            return Err(Error::argument("options: an event between processes has no timing"));
        }
        let raw = Self::make(context, options)?;
        Ok(Self::of_kind(Handle::own(raw, context.clone()), options.bit()))
    }

    /// Makes an event that isn't owned yet.
    pub(crate) fn make(context: &Context, options: EventOptions) -> Result<CUevent> {
        make::<EventRes>(Call::cuEventCreate, context, |calls, _| {
            let mut raw = CUevent::NULL;
            // SAFETY: *pointers*: `raw` is a live local.
            unsafe { calls.cuEventCreate(&raw mut raw, options.flags()) }?;
            Ok(raw)
        })
    }

    /// Takes over an event that the caller created.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Null is refused; the event is then still the caller's.
    ///
    /// # Safety
    /// `raw` is a live event of this context that nobody else ends.
    pub unsafe fn from_raw(context: &Context, raw: CUevent) -> Result<Self> {
        Ok(Self::exposed(Handle::own(not_null(raw, "event")?, context.clone())))
    }

    /// Refers to an event that somebody else ends; `owner` is kept alive as long.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Null is refused.
    ///
    /// # Safety
    /// `raw` is an event of this context that lives as long as this handle and its clones, or `owner` keeps it alive.
    pub unsafe fn borrow_raw(
        context: &Context,
        raw: CUevent,
        owner: Option<Owner>,
    ) -> Result<Self> {
        Ok(Self::exposed(Handle::borrow(not_null(raw, "event")?, context.clone(), owner)))
    }

    fn exposed(handle: Handle<EventRes>) -> Self {
        let event = Self(handle);
        event.0.state().fetch_or(EXPOSED | RAW, Ordering::Relaxed);
        event
    }

    /// A new event, which nobody has yet, of the kind with this bit.
    fn of_kind(handle: Handle<EventRes>, bit: u32) -> Self {
        if bit != 0 {
            handle.state().fetch_or(bit, Ordering::Relaxed);
        }
        Self(handle)
    }

    /// An event that another process has made.
    pub(crate) fn imported(handle: Handle<EventRes>) -> Self {
        Self::of_kind(handle, IMPORTED)
    }

    /// What warnings call it.
    pub(crate) fn kind(&self) -> ObjectKind {
        kind_of(self.0.state().load(Ordering::Relaxed))
    }

    /// Whether the event was made by others.
    pub(crate) fn is_raw(&self) -> bool {
        self.0.state().load(Ordering::Relaxed) & RAW != 0
    }

    /// From here on the event may stand for work of a capture.
    pub(crate) fn expose(&self) {
        self.0.state().fetch_or(EXPOSED, Ordering::Relaxed);
    }

    /// Whether the event may stand for work of a capture.
    #[inline]
    pub(crate) fn is_exposed(&self) -> bool {
        self.0.state().load(Ordering::Relaxed) & EXPOSED != 0
    }

    /// The driver's handle, which stays this value's. From here on others may record the event.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUevent {
        self.expose();
        self.0.raw()
    }

    /// The driver's handle for a call of ours, which exposes nothing.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn raw(&self) -> CUevent {
        self.0.raw()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// The context that the event was made in; it is recorded only on streams of this context.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps()
    }

    /// Whether the work marked by the last record is done; also true for an event that was never recorded.
    ///
    /// Calls `cuEventQuery`. It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work. "Not ready" is `Ok(false)`.
    #[doc(alias = "cuEventQuery")]
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: *handles*: this handle's event.
        match unsafe { self.driver().callable()?.cuEventQuery(self.raw()) } {
            Ok(()) => Ok(true),
            Err(Failure { status: CUresult::NOT_READY, .. }) => Ok(false),
            Err(failure) => Err(self.driver().error(failure)),
        }
    }

    /// Waits until the work marked by the last record is done.
    ///
    /// Calls `cuEventSynchronize`. Blocks the thread; holds no lock. It invalidates captures in global mode on any thread,
    /// as the driver's call does.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work.
    #[doc(alias = "cuEventSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: *handles*: this handle's event.
        unsafe { self.driver().callable()?.cuEventSynchronize(self.raw()) }
            .map_err(|failure| self.driver().error(failure))
    }

    /// The time from `earlier` to this event in milliseconds, with a resolution of about half a microsecond; negative
    /// where this one is the earlier. `None`: one of them isn't done yet.
    ///
    /// Calls `cuEventElapsedTime`.
    ///
    /// # Errors
    /// The call's failure: one of them has no timing, was never recorded, or is of another context.
    #[doc(alias = "cuEventElapsedTime")]
    pub fn elapsed_ms_since(&self, earlier: &Self) -> Result<Option<f32>> {
        self.driver().check_same(earlier.driver(), "earlier")?;
        self.driver().callable()?;
        let mut ms = 0.0;
        let result = self.driver().newest(
            &mut ms,
            // SAFETY: *pointers*: exclusive; *handles*: both handles' events.
            |calls, ms| unsafe { calls.cuEventElapsedTime_v2(ms, earlier.raw(), self.raw()) },
            // SAFETY: as above.
            |calls, ms| unsafe { calls.cuEventElapsedTime(ms, earlier.raw(), self.raw()) },
        );
        match result {
            Ok(()) => Ok(Some(ms)),
            Err(Failure { status: CUresult::NOT_READY, .. }) => Ok(None),
            Err(failure) => Err(self.driver().error(failure)),
        }
    }

    /// Ends the event here and now, if this is its last handle.
    ///
    /// Calls `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked.
    #[doc(alias = "cuEventDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }

    /// Gives the event away without ending it.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Gives the handle back where others of it are alive.
    pub fn into_raw(self) -> Result<CUevent, Self> {
        self.0.into_raw().map_err(Self)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Event>();
    assert!(size_of::<Event>() == 8 && size_of::<Result<Event>>() == 16);
};
