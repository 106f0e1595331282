//! A capture that somebody else makes, past the library: what housekeeping must not disturb (P11).

#![expect(unsafe_code, reason = "captures as other libraries do")]

use cuhold_driver_sys::ffi::{
    CUgraph, CUstream, CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status,
};
use cuhold_handles::{Driver, Stream};

/// Somebody's capture, on a stream of theirs.
#[derive(Debug)]
pub struct ForeignCapture<'t> {
    driver: &'t Driver,
    stream: CUstream,
}

impl<'t> ForeignCapture<'t> {
    /// Begins one on this stream.
    #[must_use]
    pub fn begin(driver: &'t Driver, stream: &Stream, mode: Mode) -> Self {
        let stream = stream.as_raw();
        // SAFETY: *handles*: the stream outlives the capture.
        unsafe { driver.calls().cuStreamBeginCapture_v2(stream, mode) }.unwrap();
        Self { driver, stream }
    }

    /// What the driver says of it.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut status = Status::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: *handles*: live; *pointers*: a live local.
        unsafe { self.driver.calls().cuStreamIsCapturing(self.stream, &raw mut status) }.unwrap();
        status
    }

    /// It was never disturbed.
    #[track_caller]
    pub fn is_active(&self) {
        assert_eq!(self.status(), Status::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    }

    /// Ends it well.
    #[track_caller]
    pub fn end(self) {
        let mut graph = CUgraph::NULL;
        let calls = self.driver.calls();
        // SAFETY: *handles*: live; *pointers*: a live local.
        unsafe { calls.cuStreamEndCapture(self.stream, &raw mut graph) }.unwrap();
        // SAFETY: *handles*: given just now.
        unsafe { calls.cuGraphDestroy(graph) }.unwrap();
    }
}
