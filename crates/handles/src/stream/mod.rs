//! Streams: queues of work on a device, created, borrowed, and the two default ones.
//!
//! A call on a created stream needs no current context (measured), so it is one driver call. A default stream's handle
//! means "of the current context", so its calls are scoped. The per-thread default stream is a type of its own that
//! can't leave its thread.
//!
//! Source: CUDA Driver API 13.x, "Stream Management" and "Stream synchronization behavior".

#![expect(unsafe_code, reason = "calls the driver's stream functions")]

mod host_fn;
mod inside;
mod token;

pub(crate) use host_fn::Waiting;
pub(crate) use inside::Watches;
pub use inside::{InsideStream, StreamWatch};
pub use token::{AsStream, PerThreadStream, StreamRef};

use crate::{
    context::Context,
    driver::Driver,
    error::{Error, Refused, Result},
    event::{Event, EventOptions},
    object::{Object, ObjectKind},
    resource::{Block, Closed, Handle, Owner, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*, mutant};
use std::{fmt, sync::atomic::Ordering};

/// The resource behind [`Stream`]. Its blocks are read by every thread that uses the stream, wherever others clone its
/// handle meanwhile: they lie on a cache line apart from the count.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct StreamRes;

// SAFETY: *ends*: `cuStreamDestroy`. *Dependencies*: a stream refers to its context.
unsafe impl Resource for StreamRes {
    type Raw = CUstream;
    type Deps = Context;
    const KIND: ObjectKind = ObjectKind::Stream;
    const DESTROY: Option<Call> = Some(Call::cuStreamDestroy_v2);

    fn driver(deps: &Context) -> &Driver {
        deps.driver()
    }
    fn context(deps: &Context) -> CUcontext {
        deps.as_raw()
    }
    #[inline]
    fn going(handle: &Handle<Self>) {
        inside::going(handle);
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUstream, _: &Context) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuStreamDestroy_v2(raw) }
    }
}

/// Bit of the state word: the raw value was taken or given, so others may use or capture the stream.
const EXPOSED: u32 = 1;
/// Bit of the state word: a builder of graphs captures the stream.
const CAPTURED: u32 = 2;
/// Above the bits of the state word: how many handles the library keeps for itself. See [`InsideStream`].
const INSIDE_ONE: u32 = 1 << 8;

/// How a stream is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StreamOptions {
    /// Whether its work is ordered with that of the legacy default stream. Off by default.
    pub blocking: bool,
    /// Its priority: lower numbers first. The driver clamps it to the device's range; the default, 0, is the lowest.
    pub priority: i32,
}

impl StreamOptions {
    /// Ordered with the legacy default stream.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn blocking() -> Self {
        Self { blocking: true, ..Self::default() }
    }

    /// Of this priority.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    fn flags(self) -> u32 {
        let flags = if self.blocking {
            CUstream_flags::CU_STREAM_DEFAULT
        } else {
            CUstream_flags::CU_STREAM_NON_BLOCKING
        };
        flags.0
    }
}

/// A CUDA stream. Clones are the same stream; it ends with the last of them, and work that is queued by then is done
/// all the same. Its drop calls `cuStreamDestroy`.
///
/// While a builder of graphs captures the stream, its work goes through the builder: what is asked of the stream itself is
/// refused with [`ErrorKind::State`](crate::ErrorKind::State), before the driver is asked.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let stream = device.new_stream()?;
/// stream.host_fn(|| println!("everything queued before is done"))?;
/// stream.synchronize()?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Stream(Handle<StreamRes>);

impl Stream {
    /// Makes a stream in the context.
    ///
    /// Calls `cuStreamCreateWithPriority`; `cuStreamDestroy` where it is undone.
    ///
    /// # Errors
    /// The call's failure, or that of making the context current and the caller's again.
    #[doc(alias = "cuStreamCreate")]
    #[doc(alias = "cuStreamCreateWithPriority")]
    pub fn with_options(context: &Context, options: StreamOptions) -> Result<Self> {
        let (flags, priority) = (options.flags(), options.priority);
        let make = |calls: Calls<'_>, _: &Context| {
            let mut raw = CUstream::NULL;
            // SAFETY: *pointers*: `raw` is a live local.
            unsafe { calls.cuStreamCreateWithPriority(&raw mut raw, flags, priority) }?;
            Ok(raw)
        };
        Ok(Self(Handle::create(Call::cuStreamCreateWithPriority, context.clone(), make)?))
    }

    /// Owns the stream that `make` makes in a green context, of which `view` is the view.
    pub(crate) fn in_green(
        view: Context,
        make: impl FnOnce(Calls<'_>) -> Result<CUstream, Failure>,
    ) -> Result<Self> {
        let call = Call::cuGreenCtxStreamCreate;
        Ok(Self(Handle::create(call, view, |calls, _| make(calls))?))
    }

    /// The context's legacy default stream. Calls on it are made with the context current; it is never destroyed.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn legacy(context: &Context) -> Self {
        Self::exposed(Handle::alias(CU_STREAM_LEGACY, context.clone(), context.id()))
    }

    /// Takes over a stream that the caller created.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Null and the default streams are refused; the stream is then still the caller's.
    ///
    /// # Safety
    /// `raw` is a live, created stream of this context that nobody else ends.
    pub unsafe fn from_raw(context: &Context, raw: CUstream) -> Result<Self> {
        Ok(Self::exposed(Handle::own(created(raw)?, context.clone())))
    }

    /// Refers to a stream that somebody else ends; `owner` is kept alive as long. Without an owner it never becomes the
    /// stream on which a buffer is freed.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Null and the default streams are refused: [`legacy`](Self::legacy) and [`PerThreadStream`] are those.
    ///
    /// # Safety
    /// `raw` is a created stream of this context that lives as long as this handle and its clones, or `owner` keeps it
    /// alive.
    pub unsafe fn borrow_raw(
        context: &Context,
        raw: CUstream,
        owner: Option<Owner>,
    ) -> Result<Self> {
        Ok(Self::exposed(Handle::borrow(created(raw)?, context.clone(), owner)))
    }

    fn exposed(handle: Handle<StreamRes>) -> Self {
        let stream = Self(handle);
        stream.expose();
        stream
    }

    /// Others may use or capture the stream from here on.
    fn expose(&self) {
        if mutant::is_out("exposure") {
            return;
        }
        self.0.state().fetch_or(EXPOSED, Ordering::Relaxed);
    }

    /// The driver's handle, which stays this value's. From here on others may use the stream, so that it is asked
    /// whether it is captured where that matters.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUstream {
        self.expose();
        self.0.raw()
    }

    /// The driver's handle for a call of ours, which exposes nothing.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn raw(&self) -> CUstream {
        self.0.raw()
    }

    /// Whether the stream may be captured: its raw value was taken or given, it was drawn into somebody's capture by
    /// waiting for one of its events, or a builder of graphs captures it at the moment.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn is_exposed(&self) -> bool {
        self.0.state().load(Ordering::Relaxed) & (EXPOSED | CAPTURED) != 0
    }

    /// Whether a builder of graphs captures the stream at the moment. Its work goes through the builder then: other safe
    /// work on the stream is refused.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn is_built_on(&self) -> bool {
        self.0.state().load(Ordering::Relaxed) & CAPTURED != 0
    }

    /// A builder of graphs is about to capture the stream. `false`: one does already.
    #[doc(hidden)]
    #[must_use]
    pub fn claim_for_builder(&self) -> bool {
        self.0.state().fetch_or(CAPTURED, Ordering::AcqRel) & CAPTURED == 0
    }

    /// The builder's capture is over.
    #[doc(hidden)]
    pub fn release_from_builder(&self) {
        self.0.state().fetch_and(!CAPTURED, Ordering::AcqRel);
    }

    /// Never ends the stream, whatever becomes of its handles: it may be captured for good.
    #[doc(hidden)]
    pub fn retire(&self) {
        self.0.retire();
    }

    /// How warnings name it.
    #[doc(hidden)]
    #[must_use]
    pub fn object(&self) -> Object {
        self.0.object()
    }

    /// Whether this is a default stream, whose handle means "of the current context".
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn is_token(&self) -> bool {
        self.0.raw() == CU_STREAM_LEGACY
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// The context.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn context(&self) -> &Context {
        self.0.deps()
    }

    /// The object's number, unique in its driver.
    #[doc(hidden)]
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// Where the stream's block lies: what tells it from all other streams as long as a handle of it is alive.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn address(&self) -> usize {
        self.0.address()
    }

    /// Whether this library made the stream, nobody else was given it, and no other handle of it is left.
    pub(crate) fn is_ours_alone(&self) -> bool {
        self.0.is_unique() && !self.is_exposed() && !self.is_borrowed()
    }

    /// Whether `self` is somebody else's stream.
    #[doc(hidden)]
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        self.0.is_borrowed()
    }

    /// Whether this handle keeps the stream alive: not where it refers to somebody else's without an owner. A default
    /// stream lives as long as its context.
    #[doc(hidden)]
    #[must_use]
    pub fn is_kept_alive(&self) -> bool {
        self.is_token() || self.0.is_kept_alive()
    }

    /// Makes a call for this stream: one call, or in its context for a default stream.
    #[doc(hidden)]
    #[inline]
    pub fn run<T>(&self, call: impl FnOnce(Calls<'_>) -> Result<T, Failure>) -> Result<T> {
        StreamRef::from(self).run(call)
    }

    /// Waits until everything queued so far is done.
    ///
    /// Calls `cuStreamSynchronize`. Blocks the thread; holds no lock. It invalidates captures in global mode on any
    /// thread, as the driver's call does.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work.
    #[doc(alias = "cuStreamSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        StreamRef::from(self).synchronize()
    }

    /// Whether everything queued so far is done.
    ///
    /// Calls `cuStreamQuery`. It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work. "Not ready" is `Ok(false)`.
    #[doc(alias = "cuStreamQuery")]
    pub fn is_done(&self) -> Result<bool> {
        StreamRef::from(self).is_done()
    }

    /// Lets `event` mark everything queued so far, in place of what it marked before.
    ///
    /// Calls `cuEventRecord`.
    ///
    /// # Errors
    /// The call's failure: the event must be of the stream's context.
    #[doc(alias = "cuEventRecord")]
    #[inline]
    pub fn record(&self, event: &Event) -> Result<()> {
        StreamRef::from(self).record(event)
    }

    /// Makes an event in the stream's context and records it.
    ///
    /// Calls `cuEventCreate`, `cuEventRecord`; `cuEventDestroy` where it is undone.
    ///
    /// # Errors
    /// The calls' failures; no event is left.
    pub fn record_new(&self, options: EventOptions) -> Result<Event> {
        StreamRef::from(self).record_new(options)
    }

    /// Lets work that is queued from here on wait for what `event` marks at this moment. Returns at once.
    ///
    /// Calls `cuStreamWaitEvent`; for an event that others may have recorded also `cuStreamIsCapturing`, since the stream
    /// may then be part of their capture.
    ///
    /// # Errors
    /// The calls' failures; [completed](Error::completed) where only the question failed.
    #[doc(alias = "cuStreamWaitEvent")]
    #[inline]
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        StreamRef::from(self).wait_event(event)
    }

    /// Runs a closure on a thread of the driver once everything queued so far is done; later work waits for it. No CUDA
    /// call may be made in it: the operations of this project answer
    /// [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted) there, and objects that are dropped in it end on the
    /// reclaimer. A panic in it is caught and reported.
    ///
    /// The closure runs once, or comes back. Where the driver was lost before it called it, the closure is dropped when
    /// the stream ends, and reported; on a stream that isn't this library's to end it stays, and keeps the driver.
    ///
    /// Calls `cuLaunchHostFunc`; for a stream that others may capture first `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// The calls' failures; [`ErrorKind::State`](crate::ErrorKind::State) while the stream is captured. The closure comes
    /// back, unless it ran all the same or is going to.
    #[doc(alias = "cuLaunchHostFunc")]
    pub fn host_fn<F: FnOnce() + Send + 'static>(
        &self,
        closure: F,
    ) -> Result<(), Refused<Option<F>>> {
        host_fn::launch(StreamRef::from(self), closure)
    }

    /// The stream's priority, after clamping.
    ///
    /// Calls `cuStreamGetPriority`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn priority(&self) -> Result<i32> {
        self.run(|calls| {
            let mut priority = 0;
            // SAFETY: *handles*: this handle's stream; *pointers*: a live local.
            unsafe { calls.cuStreamGetPriority(self.raw(), &raw mut priority) }?;
            Ok(priority)
        })
    }

    /// Ends the stream here and now, if this is its last handle. Work that is queued is done all the same.
    ///
    /// Calls `cuStreamDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked.
    #[doc(alias = "cuStreamDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }

    /// Gives the stream away without ending it.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Gives the handle back where others of it are alive.
    pub fn into_raw(self) -> Result<CUstream, Self> {
        self.0.into_raw().map_err(Self)
    }
}

fn created(raw: CUstream) -> Result<CUstream> {
    if raw.is_null() || raw == CU_STREAM_LEGACY || raw == CU_STREAM_PER_THREAD {
        return Err(Error::argument(
            "the raw stream is null or a default stream, which have constructors of their own",
        ));
    }
    Ok(raw)
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Stream>();
    assert!(size_of::<Stream>() == 8 && size_of::<Option<Stream>>() == 8);
    assert!(size_of::<Result<Stream>>() == 16);
    // With the count, which takes the line before.
    assert!(size_of::<Block<StreamRes>>() == 64 && align_of::<Block<StreamRes>>() == 64);
};
