//! Events: recorded, waited for, timed, captured.
//!
//! Source: CUDA Driver API 13.x, "Event Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

const NO_TIMING: CUevent_flags = CUevent_flags::CU_EVENT_DISABLE_TIMING;
const INTERPROCESS: CUevent_flags = CUevent_flags::CU_EVENT_INTERPROCESS;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuEventCreate, "an event is made", |c| {
        c.current()?;
        step(|c| {
            let mut event = CUevent::NULL;
            ask!(c.cuEventCreate(&raw mut event, 0));
            if c.observes() {
                c.holds("null", event.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuEventCreate, "an event of unknown flags isn't made", |c| {
        c.current()?;
        let mut event = CUevent::NULL;
        ask!(c.cuEventCreate(&raw mut event, 0x8000));
        c.holds("null", event.is_null());
        Ok(())
    }),
    Probe::case(Call::cuEventCreate, "an event needs somewhere to go, and a context", |c| {
        c.current()?;
        ask!(c.cuEventCreate(null_mut(), 0));
        c.empty_stack();
        let mut event = CUevent::NULL;
        ask!(c.cuEventCreate(&raw mut event, 0), "without_context");
        ask!(c.cuEventCreate(&raw mut event, 0x8000), "without_context_and_flags");
        Ok(())
    }),
    Probe::case(Call::cuEventCreate, "an event for other processes takes no times", |c| {
        c.current()?;
        let mut event = CUevent::NULL;
        ask!(c.cuEventCreate(&raw mut event, INTERPROCESS.0));
        ask!(c.cuEventCreate(&raw mut event, INTERPROCESS.0 | NO_TIMING.0));
        Ok(())
    }),
    Probe::works(Call::cuEventDestroy_v2, "an event is destroyed", |c| {
        c.current()?;
        let event = c.event()?;
        step(move |c| {
            ask!(c.cuEventDestroy_v2(event));
            Ok(())
        })
    }),
    Probe::fails(Call::cuEventDestroy_v2, "no event is null", |c| {
        c.current()?;
        ask!(c.cuEventDestroy_v2(CUevent::NULL));
        Ok(())
    }),
    Probe::case(Call::cuEventDestroy_v2, "an event that is still to come is destroyed", |c| {
        c.current()?;
        let (stream, event) = (c.stream()?, c.event()?);
        let gate = c.busy(stream)?;
        must!(c.cuEventRecord(event, stream));
        ask!(c.cuEventDestroy_v2(event));
        gate.open();
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::crashes(Call::cuEventDestroy_v2, "an event isn't destroyed twice", |c| {
        c.current()?;
        let event = c.event()?;
        ask!(c.cuEventDestroy_v2(event));
        crash!(c.cuEventDestroy_v2(event));
        Ok(())
    }),
    Probe::works(Call::cuEventRecord, "an event is recorded", |c| {
        c.current()?;
        let (stream, event) = (c.stream()?, c.event()?);
        step(move |c| {
            ask!(c.cuEventRecord(event, stream));
            if c.observes() {
                ask!(c.cuEventSynchronize(event), "synchronize");
                ask!(c.cuEventQuery(event), "query");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuEventRecord, "null isn't recorded", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuEventRecord(CUevent::NULL, stream));
        Ok(())
    }),
    Probe::case(Call::cuEventRecord, "an event isn't recorded on another context's stream", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.context()?;
        let event = c.event()?;
        ask!(c.cuEventRecord(event, stream));
        ask!(c.cuEventRecord(event, CUstream::NULL), "default_stream");
        Ok(())
    }),
    Probe::works(Call::cuEventRecordWithFlags, "an event is recorded without flags", |c| {
        c.current()?;
        let (stream, event) = (c.stream()?, c.event()?);
        step(move |c| {
            ask!(c.cuEventRecordWithFlags(event, stream, 0));
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuEventRecordWithFlags,
        "an event is external to captures only in a capture",
        |c| {
            c.current()?;
            let (stream, event) = (c.stream()?, c.event()?);
            let external = CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL.0;
            ask!(c.cuEventRecordWithFlags(event, stream, external));
            ask!(c.cuEventRecordWithFlags(event, stream, 0x8000), "unknown");
            Ok(())
        },
    ),
    Probe::case(Call::cuEventRecordWithFlags, "an external event is a node of the capture", |c| {
        c.current()?;
        let (stream, event) = (c.stream()?, c.event()?);
        c.capture_globally(stream)?;
        let external = CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL.0;
        ask!(c.cuEventRecordWithFlags(event, stream, external));
        c.end(stream)
    }),
    Probe::works(Call::cuEventQuery, "an event that was never recorded is done", |c| {
        c.current()?;
        let event = c.event()?;
        step(move |c| {
            ask!(c.cuEventQuery(event));
            Ok(())
        })
    }),
    Probe::fails(Call::cuEventQuery, "an event behind unfinished work isn't ready", |c| {
        c.current()?;
        let (stream, event) = (c.stream()?, c.event()?);
        let gate = c.busy(stream)?;
        must!(c.cuEventRecord(event, stream));
        ask!(c.cuEventQuery(event));
        gate.open();
        c.wait_for(stream)?;
        ask!(c.cuEventQuery(event), "after");
        Ok(())
    }),
    Probe::case(Call::cuEventQuery, "null is no event that is done", |c| {
        c.current()?;
        ask!(c.cuEventQuery(CUevent::NULL));
        ask!(c.cuEventSynchronize(CUevent::NULL), "synchronize");
        Ok(())
    }),
    Probe::works(Call::cuEventSynchronize, "a recorded event is waited for", |c| {
        c.current()?;
        let (stream, event) = (c.stream()?, c.event()?);
        must!(c.cuEventRecord(event, stream));
        step(move |c| {
            ask!(c.cuEventSynchronize(event));
            Ok(())
        })
    }),
    Probe::fails(Call::cuEventSynchronize, "null isn't waited for", |c| {
        c.current()?;
        ask!(c.cuEventSynchronize(CUevent::NULL));
        Ok(())
    }),
    Probe::works(Call::cuEventElapsedTime, "between two events there is time", |c| {
        c.current()?;
        let (stream, start, end) = (c.stream()?, c.event()?, c.event()?);
        must!(c.cuEventRecord(start, stream));
        must!(c.cuEventRecord(end, stream));
        c.wait_for(stream)?;
        step(move |c| {
            let mut ms = f32::NAN;
            ask!(c.cuEventElapsedTime(&raw mut ms, start, end));
            if c.observes() {
                c.holds("negative", ms < 0.0);
                c.holds("a_number", ms.is_finite());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuEventElapsedTime, "there is no time to a pending event", |c| {
        c.current()?;
        let (stream, start, end) = (c.stream()?, c.event()?, c.event()?);
        must!(c.cuEventRecord(start, stream));
        c.wait_for(stream)?;
        let gate = c.busy(stream)?;
        must!(c.cuEventRecord(end, stream));
        elapsed(c, "", start, end);
        gate.open();
        c.wait_for(stream)
    }),
    Probe::case(Call::cuEventElapsedTime, "an event must be recorded to have a time", |c| {
        c.current()?;
        let (stream, start, end) = (c.stream()?, c.event()?, c.event()?);
        elapsed(c, "neither", start, end);
        must!(c.cuEventRecord(start, stream));
        c.wait_for(stream)?;
        elapsed(c, "one", start, end);
        elapsed(c, "null", start, CUevent::NULL);
        Ok(())
    }),
    Probe::case(Call::cuEventElapsedTime, "an event must take times to have one", |c| {
        c.current()?;
        let (stream, start, end) = (c.stream()?, c.event()?, c.event_with(NO_TIMING)?);
        must!(c.cuEventRecord(start, stream));
        must!(c.cuEventRecord(end, stream));
        c.wait_for(stream)?;
        elapsed(c, "", start, end);
        Ok(())
    }),
    Probe::case(Call::cuEventElapsedTime, "there is no time between two contexts", |c| {
        c.current()?;
        let (stream, start) = (c.stream()?, c.event()?);
        must!(c.cuEventRecord(start, stream));
        c.context()?;
        let (other, end) = (c.stream()?, c.event()?);
        must!(c.cuEventRecord(end, other));
        c.wait_for(stream)?;
        c.wait_for(other)?;
        elapsed(c, "", start, end);
        Ok(())
    }),
    Probe::case(Call::cuEventElapsedTime_v2, "the newer form answers the same", |c| {
        c.current()?;
        let (stream, start, end) = (c.stream()?, c.event()?, c.event()?);
        must!(c.cuEventRecord(start, stream));
        must!(c.cuEventRecord(end, stream));
        c.wait_for(stream)?;
        let mut ms = f32::NAN;
        ask!(c.cuEventElapsedTime_v2(&raw mut ms, start, end));
        ask!(c.cuEventElapsedTime_v2(&raw mut ms, start, CUevent::NULL), "null");
        Ok(())
    }),
    Probe::case(Call::cuEventQuery, "asking a captured event ends the capture", |c| {
        let (stream, event) = captured(c)?;
        ask!(c.cuEventQuery(event));
        c.note_capturing(stream)?;
        c.end(stream)?;
        ask!(c.cuEventQuery(event), "after");
        Ok(())
    }),
    Probe::case(Call::cuEventSynchronize, "waiting for a captured event ends the capture", |c| {
        let (stream, event) = captured(c)?;
        ask!(c.cuEventSynchronize(event));
        c.note_capturing(stream)?;
        c.end(stream)?;
        ask!(c.cuEventSynchronize(event), "after");
        Ok(())
    }),
    Probe::case(Call::cuEventRecord, "a captured event can be recorded again after the end", |c| {
        let (stream, event) = captured(c)?;
        let other = c.stream()?;
        c.end(stream)?;
        ask!(c.cuEventQuery(event), "query");
        ask!(c.cuStreamWaitEvent(other, event, 0), "wait");
        ask!(c.cuEventRecord(event, other), "record");
        ask!(c.cuEventSynchronize(event), "synchronize");
        ask!(c.cuEventDestroy_v2(event), "destroy");
        Ok(())
    }),
    Probe::case(Call::cuEventDestroy_v2, "destroying a captured event leaves the capture", |c| {
        let (stream, event) = captured(c)?;
        ask!(c.cuEventDestroy_v2(event));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
];

fn elapsed(c: &mut Ctx, label: &str, start: CUevent, end: CUevent) {
    let mut ms = f32::NAN;
    ask!(c.cuEventElapsedTime(&raw mut ms, start, end), label);
}

/// An event that was recorded on a stream that is being captured.
fn captured(c: &Ctx) -> Made<(CUstream, CUevent)> {
    c.current()?;
    let (stream, event) = (c.stream()?, c.event()?);
    c.capture_globally(stream)?;
    must!(c.cuEventRecord(event, stream));
    Ok((stream, event))
}
