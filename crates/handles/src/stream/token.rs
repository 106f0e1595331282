//! What a call on any stream needs, and the calling thread's own default stream.

#![expect(unsafe_code, reason = "calls the driver's stream functions")]

use super::{Stream, host_fn};
use crate::{
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    event::Event,
    scope,
};
use cuhold_driver_sys::{Calls, Failure, ffi::*};
use std::marker::PhantomData;

/// Any stream, for one call: its handle, its context, and whether that context must be current.
#[derive(Clone, Copy, Debug)]
pub struct StreamRef<'a> {
    context: &'a Context,
    raw: CUstream,
    token: bool,
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
            here: PhantomData,
        }
    }
}

impl<'a> StreamRef<'a> {
    /// The context.
    #[must_use]
    pub fn context(self) -> &'a Context {
        self.context
    }

    /// The driver.
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
        if self.token || self.driver().scoped_streams() {
            return scope::run(self.context.target(), call);
        }
        let driver = self.driver();
        call(driver.calls()).map_err(|failure| driver.error(failure))
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
    pub(super) fn record(self, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        // SAFETY: *handles*: both are live, their handles are borrowed.
        self.run(|calls| unsafe { calls.cuEventRecord(event.as_raw(), self.raw) })
    }

    #[inline]
    pub(super) fn wait_event(self, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        // SAFETY: *handles*: both are live, their handles are borrowed.
        self.run(|calls| unsafe { calls.cuStreamWaitEvent(self.raw, event.as_raw(), 0) })
    }
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
    /// Calls `cuStreamSynchronize`.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work.
    pub fn synchronize(&self) -> Result<()> {
        self.as_stream().synchronize()
    }

    /// As [`Stream::is_done`].
    ///
    /// Calls `cuStreamQuery`.
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
    /// Calls `cuLaunchHostFunc`.
    ///
    /// # Errors
    /// The call's failure; the closure comes back, unless it ran all the same.
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
            here: PhantomData,
        }
    }
}
