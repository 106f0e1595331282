//! The bracket around calls that would invalidate other people's captures: relaxed capture mode and back.
//!
//! Measured: 11 of 19 destroying calls are refused *and* invalidate any capture in global mode, on whatever stream,
//! thread or device; in relaxed mode all succeed. The pair of exchanges costs 21 ns.

use super::Outcome;
use cuhold_driver_sys::{Calls, CaptureRule, Columns, Failure, ffi::CUstreamCaptureMode};

const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

/// Exchanges the thread's capture mode; `mode` holds the former one afterwards.
fn exchange(calls: Calls<'_>, mode: &mut CUstreamCaptureMode) -> Result<(), Failure> {
    // SAFETY: *pointers*: a live exclusive reference.
    unsafe { calls.cuThreadExchangeStreamCaptureMode(mode) }
}

/// Runs `operation` in relaxed capture mode if its *capture* column says "unsafe", and puts the mode back.
///
/// Where relaxed mode is refused the operation is run all the same: refused in turn it is reported, and nothing leaks
/// that needn't.
///
/// Calls `cuThreadExchangeStreamCaptureMode`, twice, around an unsafe operation; else nothing.
pub fn relaxed(
    calls: Calls<'_>,
    columns: Columns,
    operation: impl FnOnce(Calls<'_>) -> Outcome,
) -> Outcome {
    if columns.capture == CaptureRule::Neutral {
        return operation(calls);
    }
    let mut mode = RELAXED;
    let relax = exchange(calls, &mut mode).err();
    let mut outcome = operation(calls);
    outcome.relax = relax;
    // A refused exchange may have been carried out: the driver then wrote the former mode.
    if relax.is_none() || mode != RELAXED {
        outcome.mode = exchange(calls, &mut mode).err();
    }
    outcome
}
