//! The calling thread's state in the driver: its context stack, read whole, and its capture mode.

#![expect(unsafe_code, reason = "reads and sets the thread's state through the driver")]

use cuhold_driver_sys::{
    DriverApi,
    ffi::{CUcontext, CUstreamCaptureMode},
};

/// A thread's state that operations have to leave alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ThreadState {
    /// The contexts, the current one first.
    pub(crate) stack: Vec<CUcontext>,
    /// The capture mode.
    pub(crate) mode: CUstreamCaptureMode,
}

impl ThreadState {
    /// The calling thread's.
    pub(crate) fn of(api: &dyn DriverApi) -> Self {
        let mode = exchange(api, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL);
        exchange(api, mode);
        Self { stack: contexts(api), mode }
    }

    /// The current context; null is none.
    pub(crate) fn current(&self) -> CUcontext {
        self.stack.first().copied().unwrap_or(CUcontext::NULL)
    }

    /// Makes the calling thread's state this one.
    pub(crate) fn put_back(&self, api: &dyn DriverApi) {
        exchange(api, self.mode);
        take_down(api);
        put_up(api, &self.stack);
    }
}

/// The thread's contexts, the current one first. The stack is taken down and put up again.
pub(crate) fn contexts(api: &dyn DriverApi) -> Vec<CUcontext> {
    let found = take_down(api);
    put_up(api, &found);
    found
}

/// Pops everything; the current one first.
pub(crate) fn take_down(api: &dyn DriverApi) -> Vec<CUcontext> {
    let mut found = Vec::new();
    loop {
        let mut raw = CUcontext::NULL;
        // SAFETY: *pointers*: a live local.
        let status = unsafe { api.cuCtxPopCurrent_v2(&raw mut raw) };
        if !status.is_success() {
            return found;
        }
        found.push(raw);
    }
}

fn put_up(api: &dyn DriverApi, stack: &[CUcontext]) {
    for raw in stack.iter().rev() {
        push(api, *raw);
    }
}

/// Pushes a context.
pub(crate) fn push(api: &dyn DriverApi, raw: CUcontext) {
    // SAFETY: *handles*: live, by the tests.
    let pushed = unsafe { api.cuCtxPushCurrent_v2(raw) };
    assert!(pushed.is_success(), "context {raw:?} can't be pushed: {pushed}");
}

/// Sets the thread's capture mode; the former one.
fn exchange(api: &dyn DriverApi, mode: CUstreamCaptureMode) -> CUstreamCaptureMode {
    let mut mode = mode;
    // SAFETY: *pointers*: a live local.
    let status = unsafe { api.cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    assert!(status.is_success(), "the capture mode can't be exchanged: {status}");
    mode
}
