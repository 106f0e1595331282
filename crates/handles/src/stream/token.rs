//! What a call on any stream needs, and the calling thread's own default stream.

#![expect(unsafe_code, reason = "calls the driver's stream functions")]

use super::{Stream, host_fn};
use crate::{
    context::Context,
    driver::Driver,
    error::{Error, Refused, Result},
    event::{Event, EventOptions},
    scope,
};
use cuhold_driver_sys::{Calls, Failure, ffi::*, mutant};
use std::marker::PhantomData;

/// Any stream, for one call: its handle, its context, and whether that context must be current.
#[derive(Clone, Copy, Debug)]
pub struct StreamRef<'a> {
    context: &'a Context,
    raw: CUstream,
    token: bool,
    /// The handle; `None` for a per-thread default stream.
    stream: Option<&'a Stream>,
    /// Whether a builder of graphs asks, whose own capture doesn't stand in its way.
    builds: bool,
    here: PhantomData<*const ()>,
}

/// What can stand where work is queued: a [`Stream`] or a [`PerThreadStream`].
pub trait AsStream {
    /// The stream, for one call.
    fn as_stream(&self) -> StreamRef<'_>;
}

impl AsStream for Stream {
    #[inline]
    fn as_stream(&self) -> StreamRef<'_> {
        StreamRef::from(self)
    }
}

impl<'a> From<&'a Stream> for StreamRef<'a> {
    #[inline]
    fn from(stream: &'a Stream) -> Self {
        StreamRef {
            context: stream.context(),
            raw: stream.raw(),
            token: stream.is_token(),
            stream: Some(stream),
            builds: false,
            here: PhantomData,
        }
    }
}

impl<'a> StreamRef<'a> {
    /// The stream, for a builder of graphs that captures it.
    #[doc(hidden)]
    #[must_use]
    pub fn for_builder(stream: &'a Stream) -> Self {
        Self { builds: true, ..Self::from(stream) }
    }

    /// The context.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(self) -> &'a Context {
        self.context
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn driver(self) -> &'a Driver {
        self.context.driver()
    }

    #[inline]
    pub(crate) fn raw(self) -> CUstream {
        self.raw
    }

    /// Makes a call for this stream: one call, or in its context for a default stream.
    #[inline]
    pub(crate) fn run<T>(self, call: impl FnOnce(Calls<'_>) -> Result<T, Failure>) -> Result<T> {
        if self.is_in_the_way() {
            return Err(built_on());
        }
        if self.token || self.driver().scoped_streams() {
            return scope::run(self.context.target(), call);
        }
        let driver = self.driver();
        call(driver.callable()?).map_err(|failure| driver.error(failure))
    }

    /// Whether a builder of graphs captures the stream, and it isn't the one that asks.
    #[inline]
    fn is_in_the_way(self) -> bool {
        let built_on = !self.builds && self.stream.is_some_and(Stream::is_built_on);
        built_on && !mutant::is_out("builder-claim")
    }

    /// The stream, where work of it can be waited for later and from any thread; `None` for a thread's own default
    /// stream, and for one that may end before.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn kept(self) -> Option<&'a Stream> {
        self.stream.filter(|stream| stream.is_kept_alive())
    }

    /// What tells the stream from others where it is to be marked: its object's number, or the context's and the thread.
    pub(crate) fn user_key(self) -> (u64, Option<std::thread::ThreadId>) {
        match self.stream {
            Some(stream) => (stream.id(), None),
            None => (self.context.id(), Some(std::thread::current().id())),
        }
    }

    /// Makes an event in the stream's context and records it.
    pub(crate) fn record_new(self, options: EventOptions) -> Result<Event> {
        let event = Event::with_options(self.context, options)?;
        match self.record(&event) {
            Ok(()) => Ok(event),
            Err(error) if mutant::is_out("record-undo") => {
                drop(event.into_raw());
                Err(error)
            }
            Err(error) => Err(match event.close() {
                Ok(_) => error,
                Err(undo) => error.with_undo(&undo.error),
            }),
        }
    }

    /// The number of a created stream of ours.
    pub(super) fn created_id(self) -> Option<u64> {
        self.stream.filter(|stream| !stream.is_borrowed()).map(Stream::id)
    }

    /// Whether somebody may capture the stream whom this library doesn't see.
    #[inline]
    pub(crate) fn is_exposed(self) -> bool {
        self.stream.is_none_or(Stream::is_exposed)
    }

    fn is_capturing(self) -> Result<bool> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        self.run(|calls| {
            // SAFETY: *pointers*: a live local; *handles*: the stream is live, its handle is borrowed.
            unsafe { calls.cuStreamIsCapturing(self.raw, &raw mut status) }
        })?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Whether work on the stream would meet somebody's capture: of the stream, or for a default stream of one beside it.
    /// Only streams that others may use are asked, and none that a builder captures.
    ///
    /// # Errors
    /// The question's failure.
    #[doc(hidden)]
    #[inline]
    pub fn is_captured(self) -> Result<bool> {
        if self.is_in_the_way() || !self.is_exposed() {
            return Ok(self.is_in_the_way());
        }
        match self.is_capturing() {
            Err(error) if error.is(CUresult::STREAM_CAPTURE_IMPLICIT) => Ok(true),
            asked => asked,
        }
    }

    /// Refuses a stream that somebody captures. The legacy default stream can't be captured, and only streams that
    /// others may use are asked.
    pub(super) fn check_not_captured(self) -> Result<()> {
        if self.raw != CU_STREAM_LEGACY && self.is_exposed() && self.is_capturing()? {
            return Err(Error::state(
                "the stream is being captured, and a closure that runs once can't be part of a graph",
            ));
        }
        Ok(())
    }

    /// The stream waits for an event that may stand for captured work: then it is captured now, too. Gives whether it is,
    /// if it was asked: not one that others may use.
    #[cold]
    pub(crate) fn joined(self) -> Result<Option<bool>> {
        let Some(stream) = self.stream.filter(|stream| !stream.is_exposed()) else {
            return Ok(None);
        };
        let capturing = self.is_capturing();
        if *capturing.as_ref().unwrap_or(&true) {
            stream.expose();
        }
        match capturing {
            Ok(capturing) => Ok(Some(capturing)),
            Err(error) => Err(error.with_completed(1)),
        }
    }

    pub(super) fn synchronize(self) -> Result<()> {
        // SAFETY: *handles*: the stream is live, its handle is borrowed.
        self.run(|calls| unsafe { calls.cuStreamSynchronize(self.raw) })
    }

    pub(super) fn is_done(self) -> Result<bool> {
        self.run(|calls| {
            // SAFETY: *handles*: the stream is live, its handle is borrowed.
            match unsafe { calls.cuStreamQuery(self.raw) } {
                Ok(()) => Ok(true),
                Err(Failure { status: CUresult::NOT_READY, .. }) => Ok(false),
                Err(failure) => Err(failure),
            }
        })
    }

    #[inline]
    pub(crate) fn record(self, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        if self.is_exposed() {
            event.expose();
        }
        // SAFETY: *handles*: both are live, their handles are borrowed.
        self.run(|calls| unsafe { calls.cuEventRecord(event.raw(), self.raw) })
    }

    #[inline]
    pub(super) fn wait_event(self, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        // SAFETY: *handles*: both are live, their handles are borrowed.
        self.run(|calls| unsafe { calls.cuStreamWaitEvent(self.raw, event.raw(), 0) })?;
        if event.is_exposed() { self.joined().map(|_| ()) } else { Ok(()) }
    }
}

#[cold]
fn built_on() -> Error {
    Error::state(
        "a builder captures the stream into a graph, so that its work goes through the builder",
    )
}

/// The calling thread's default stream in a context. It means another stream on another thread, so it can't go there;
/// and it never becomes the stream on which a buffer is freed.
///
/// Every call is made with the context current.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, PerThreadStream};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let stream = PerThreadStream::new(device.context());
/// stream.synchronize()?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PerThreadStream {
    context: Context,
    here: PhantomData<*const ()>,
}

impl PerThreadStream {
    /// This thread's default stream in the context.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self { context: context.clone(), here: PhantomData }
    }

    /// The context.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// As [`Stream::synchronize`].
    ///
    /// Calls `cuStreamSynchronize`. It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work.
    pub fn synchronize(&self) -> Result<()> {
        self.as_stream().synchronize()
    }

    /// As [`Stream::is_done`].
    ///
    /// Calls `cuStreamQuery`. It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work.
    pub fn is_done(&self) -> Result<bool> {
        self.as_stream().is_done()
    }

    /// As [`Stream::record`].
    ///
    /// Calls `cuEventRecord`.
    ///
    /// # Errors
    /// The call's failure: the event must be of the stream's context.
    pub fn record(&self, event: &Event) -> Result<()> {
        self.as_stream().record(event)
    }

    /// As [`Stream::wait_event`].
    ///
    /// Calls `cuStreamWaitEvent`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.as_stream().wait_event(event)
    }

    /// As [`Stream::host_fn`].
    ///
    /// Calls `cuStreamIsCapturing`, `cuLaunchHostFunc`.
    ///
    /// # Errors
    /// As [`Stream::host_fn`].
    pub fn host_fn<F: FnOnce() + Send + 'static>(
        &self,
        closure: F,
    ) -> Result<(), Refused<Option<F>>> {
        host_fn::launch(self.as_stream(), closure)
    }
}

impl AsStream for PerThreadStream {
    fn as_stream(&self) -> StreamRef<'_> {
        StreamRef {
            context: &self.context,
            raw: CU_STREAM_PER_THREAD,
            token: true,
            stream: None,
            builds: false,
            here: PhantomData,
        }
    }
}
