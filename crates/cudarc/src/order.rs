//! The order between a stream of ours and one of cudarc's.

#![expect(unsafe_code, reason = "asks the driver about a stream")]

use cuhold_driver_sys::ffi::CUstreamCaptureStatus;
use cuhold_handles::{Error, Event, EventOptions, Result, Stream};

/// Whether both are the same stream.
pub(crate) fn is_same(one: &Stream, other: &Stream) -> bool {
    one.raw() == other.raw() && one.context().as_raw() == other.context().as_raw()
}

/// Lets what is queued on `later` from now on wait for what is queued on `earlier` by now.
///
/// Calls `cuStreamIsCapturing` for exposed streams, `cuEventCreate`, `cuEventRecord`, `cuStreamWaitEvent`, `cuEventDestroy`;
/// nothing for one and the same stream.
pub(crate) fn after(earlier: &Stream, later: &Stream) -> Result<()> {
    if is_same(earlier, later) {
        return Ok(());
    }
    refuse_captured(earlier)?;
    refuse_captured(later)?;
    let event = Event::with_options(earlier.context(), EventOptions::default())?;
    let result = earlier.record(&event).and_then(|()| later.wait_event(&event));
    match (result, event.close()) {
        (result, Ok(_)) => result,
        (Ok(()), Err(refused)) => Err(refused.error),
        (Err(error), Err(refused)) => Err(error.with_undo(&refused.error)),
    }
}

/// Refuses a stream that somebody captures: what is queued on it would become part of that graph.
pub(crate) fn refuse_captured(stream: &Stream) -> Result<()> {
    if !stream.is_exposed() {
        return Ok(());
    }
    let status = stream.run(|calls| {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: *handles*: the stream is live, its handle is borrowed; *pointers*: a live local.
        unsafe { calls.cuStreamIsCapturing(stream.raw(), &raw mut status) }?;
        Ok(status)
    })?;
    if status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
        return Ok(());
    }
    Err(Error::state("the stream is being captured, and the order would become part of that graph"))
}

/// Refuses memory of one device for a stream of another.
pub(crate) fn refuse_other_device(home: &Stream, stream: &Stream) -> Result<()> {
    let (own, other) = (home.context().device(), stream.context().device());
    if own == other {
        return Ok(());
    }
    Err(Error::argument(format!("stream: it is of device {other}, the memory of device {own}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuhold_driver_sys::ffi::CUstreamCaptureMode;
    use cuhold_handles::ErrorKind;
    use cuhold_testkit::{ForeignCapture, run};

    #[test]
    fn a_later_stream_waits_for_an_earlier_one_and_one_stream_for_nothing_exact_counts() {
        run(|kit| {
            let (earlier, later) =
                (kit.device().new_stream().unwrap(), kit.device().new_stream().unwrap());
            let (result, calls) = kit.calls(|| after(&earlier, &later));
            result.unwrap();
            let expected =
                ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy"];
            let own = calls.into_iter().filter(|call| !call.starts_with("cuCtx"));
            assert!(own.eq(expected));
            let (result, calls) = kit.calls(|| after(&earlier, &earlier.clone()));
            result.unwrap();
            assert_eq!(calls, [""; 0]);
        });
    }

    #[test]
    fn a_stream_that_somebody_captures_is_refused_and_the_capture_goes_on() {
        run(|kit| {
            let (home, captured) =
                (kit.device().new_stream().unwrap(), kit.device().new_stream().unwrap());
            let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            let capture = ForeignCapture::begin(kit.driver(), &captured, mode);
            for (earlier, later) in [(&home, &captured), (&captured, &home)] {
                assert_eq!(after(earlier, later).unwrap_err().kind(), ErrorKind::State);
            }
            capture.is_active();
            capture.end();
        });
    }

    #[test]
    fn an_order_that_fails_leaves_no_event() {
        use cuhold_driver_sys::{CUresult, Call, Fault};
        run(|kit| {
            let (earlier, later) =
                (kit.device().new_stream().unwrap(), kit.device().new_stream().unwrap());
            kit.faults().arm(Fault::refused(CUresult::OUT_OF_MEMORY).on(Call::cuStreamWaitEvent));
            assert!(after(&earlier, &later).unwrap_err().is(CUresult::OUT_OF_MEMORY));
            kit.faults().disarm();
        });
    }
}
