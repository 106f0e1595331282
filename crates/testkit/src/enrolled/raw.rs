//! Raw driver calls for what other libraries do beside this one.

#![expect(unsafe_code, reason = "calls the driver")]

use cuhold_driver_sys::{Calls, DriverApi, ffi::*};
use std::ptr;

/// A context of device 0, which isn't current.
pub(super) fn new_context(api: &dyn DriverApi) -> CUcontext {
    let mut made = CUcontext::NULL;
    // SAFETY: *pointers*: a live local; null parameters ask for an ordinary context.
    unsafe { Calls::new(api).cuCtxCreate_v4(&raw mut made, ptr::null_mut(), 0, 0) }.unwrap();
    pop(api);
    made
}

/// Ends it.
pub(super) fn end_context(api: &dyn DriverApi, raw: CUcontext) {
    // SAFETY: *handles*: the test's own.
    unsafe { Calls::new(api).cuCtxDestroy_v2(raw) }.unwrap();
}

/// Pushes a context.
pub(super) fn push(api: &dyn DriverApi, raw: CUcontext) {
    // SAFETY: *handles*: live.
    unsafe { Calls::new(api).cuCtxPushCurrent_v2(raw) }.unwrap();
}

/// Pops the current context, null if there is none.
pub(super) fn pop(api: &dyn DriverApi) -> CUcontext {
    let mut popped = CUcontext::NULL;
    // SAFETY: *pointers*: a live local. What can't be popped leaves it null.
    let _: Result<(), _> = unsafe { Calls::new(api).cuCtxPopCurrent_v2(&raw mut popped) };
    popped
}

/// What is current.
pub(super) fn current(api: &dyn DriverApi) -> CUcontext {
    let mut now = CUcontext::NULL;
    // SAFETY: *pointers*: a live local.
    let _: Result<(), _> = unsafe { Calls::new(api).cuCtxGetCurrent(&raw mut now) };
    now
}

/// Whether a stream is being captured, and the capture valid.
pub(super) fn is_captured(api: &dyn DriverApi, stream: CUstream) -> bool {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: *handles*: live; *pointers*: a live local.
    unsafe { Calls::new(api).cuStreamIsCapturing(stream, &raw mut status) }.unwrap();
    status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
}

/// A capture in global mode, of a stream of its own in a device's primary context, on the calling thread.
pub(super) struct Capture<'a> {
    calls: Calls<'a>,
    device: CUdevice,
    stream: CUstream,
}

impl<'a> Capture<'a> {
    pub(super) fn begin(api: &'a dyn DriverApi, device: CUdevice) -> Self {
        let calls = Calls::new(api);
        let (mut context, mut stream) = (CUcontext::NULL, CUstream::NULL);
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuDevicePrimaryCtxRetain(&raw mut context, device) }.unwrap();
        push(api, context);
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuStreamCreate(&raw mut stream, flags) }.unwrap();
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: *handles*: made above.
        unsafe { calls.cuStreamBeginCapture_v2(stream, mode) }.unwrap();
        Self { calls, device, stream }
    }

    pub(super) fn stream(&self) -> CUstream {
        self.stream
    }

    /// Ends it, valid or not, and all that belongs to it.
    pub(super) fn end(self) {
        let mut graph = CUgraph::NULL;
        // SAFETY: *handles*: this value's stream; *pointers*: a live local.
        let ended = unsafe { self.calls.cuStreamEndCapture(self.stream, &raw mut graph) };
        if ended.is_ok() && !graph.is_null() {
            // SAFETY: *handles*: given by the call above.
            unsafe { self.calls.cuGraphDestroy(graph) }.unwrap();
        }
        // SAFETY: *handles*: this value's stream.
        unsafe { self.calls.cuStreamDestroy_v2(self.stream) }.unwrap();
        pop(self.calls.api());
        // SAFETY: the retain of `begin`.
        unsafe { self.calls.cuDevicePrimaryCtxRelease_v2(self.device) }.unwrap();
    }
}
