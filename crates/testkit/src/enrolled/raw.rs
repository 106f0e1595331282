//! Raw driver calls for objects that the library knows nothing of.

#![expect(unsafe_code, reason = "calls the driver")]

use cuhold_driver_sys::{Calls, DriverApi, ffi::CUcontext};
use std::ptr;

/// A context of device 0, which isn't current.
pub(super) fn new_context(api: &dyn DriverApi) -> CUcontext {
    let (mut made, mut popped) = (CUcontext::NULL, CUcontext::NULL);
    // SAFETY: *pointers*: a live local; null parameters ask for an ordinary context.
    unsafe { Calls::new(api).cuCtxCreate_v4(&raw mut made, ptr::null_mut(), 0, 0) }.unwrap();
    // SAFETY: *pointers*: a live local.
    unsafe { Calls::new(api).cuCtxPopCurrent_v2(&raw mut popped) }.unwrap();
    made
}

/// Ends it.
pub(super) fn end_context(api: &dyn DriverApi, raw: CUcontext) {
    // SAFETY: *handles*: the test's own.
    unsafe { Calls::new(api).cuCtxDestroy_v2(raw) }.unwrap();
}
