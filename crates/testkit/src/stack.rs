//! The calling thread's context stack, read whole.

#![expect(unsafe_code, reason = "reads the stack through the driver")]

use cuhold_driver_sys::{DriverApi, ffi::CUcontext};

/// The thread's contexts, the current one first. The stack is taken down and put up again.
pub(crate) fn contexts(api: &dyn DriverApi) -> Vec<CUcontext> {
    let mut found = Vec::new();
    loop {
        let mut raw = CUcontext::NULL;
        // SAFETY: *pointers*: a live local.
        let status = unsafe { api.cuCtxPopCurrent_v2(&raw mut raw) };
        if !status.is_success() {
            break;
        }
        found.push(raw);
    }
    for raw in found.iter().rev() {
        // SAFETY: *handles*: was on the stack a moment ago. A destroyed one is set, since pushing it is refused.
        let pushed = unsafe { api.cuCtxPushCurrent_v2(*raw) };
        assert!(pushed.is_success(), "context {raw:?} can't be pushed again: {pushed}");
    }
    found
}
