//! Behaviour that this library relies on and no manual promises, asked of the driver at hand.
//!
//! Everything here was measured on one driver; another may differ. What differs has a fallback, which
//! [`Driver::verify`] switches on.

use super::Driver;
use crate::{
    device::Device,
    error::{Error, Result},
    event::{Event, EventOptions},
    stream::Stream,
};
use cuhold_driver_sys::CUresult;
use std::{sync::atomic::Ordering, thread};

/// What [`Driver::verify`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Verified {
    /// Calls on a created stream work with no context current. Where not, they are made with the stream's context
    /// current: two driver calls more.
    pub streams_need_no_context: bool,
}

impl Driver {
    /// Asks the driver about behaviour that no manual promises, and takes the fallback for what it doesn't have. Takes
    /// well under a millisecond.
    ///
    /// Calls `cuInit`, `cuDeviceGet`, `cuDevicePrimaryCtxRetain`, `cuStreamCreateWithPriority`, `cuEventCreate`, and on a
    /// thread of its own `cuEventRecord`, `cuStreamWaitEvent`; then `cuEventDestroy`, `cuStreamDestroy`.
    ///
    /// # Errors
    /// The calls' failures, but for the one that is asked about, `INVALID_CONTEXT`; a thread that can't be had.
    pub fn verify(&self) -> Result<Verified> {
        let device = Device::with_driver(self, 0)?;
        let (stream, event) = (device.new_stream()?, device.new_event(EventOptions::default())?);
        // A thread of its own has no context current.
        let asked = thread::scope(|scope| {
            let asking =
                thread::Builder::new().spawn_scoped(scope, || without_context(&stream, &event));
            asking.map(thread::ScopedJoinHandle::join)
        });
        let Ok(Ok(answer)) = asked else {
            return Err(Error::state("no thread could be had to ask the driver on"));
        };
        let streams_need_no_context = answer?;
        self.0.scoped_streams.store(!streams_need_no_context, Ordering::Relaxed);
        Ok(Verified { streams_need_no_context })
    }

    /// Whether calls on created streams must be made with their context current: what [`verify`](Self::verify) found.
    #[inline]
    pub(crate) fn scoped_streams(&self) -> bool {
        self.0.scoped_streams.load(Ordering::Relaxed)
    }
}

fn without_context(stream: &Stream, event: &Event) -> Result<bool> {
    match stream.record(event).and_then(|()| stream.wait_event(event)) {
        Ok(()) => Ok(true),
        Err(error) if error.is(CUresult::INVALID_CONTEXT) => Ok(false),
        Err(error) => Err(error),
    }
}
