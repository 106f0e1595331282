//! Streams and events of green contexts.
//!
//! Source: CUDA Driver API 13.x, "Green Contexts".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

const NON_BLOCKING: u32 = CUstream_flags::CU_STREAM_NON_BLOCKING.0;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuGreenCtxStreamCreate, "a stream of a green context is made", |c| {
        let green = c.green()?;
        step(move |c| {
            let mut stream = CUstream::NULL;
            ask!(c.cuGreenCtxStreamCreate(&raw mut stream, green, NON_BLOCKING, 0));
            if c.observes() {
                c.holds("null", stream.is_null());
                ask!(c.cuStreamSynchronize(stream), "synchronize");
                ask!(c.cuStreamDestroy_v2(stream), "destroy");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGreenCtxStreamCreate, "a green context has no blocking streams", |c| {
        let green = c.green()?;
        let mut stream = CUstream::NULL;
        ask!(c.cuGreenCtxStreamCreate(&raw mut stream, green, 0, 0));
        ask!(c.cuGreenCtxStreamCreate(&raw mut stream, green, 0x8001, 0), "flags");
        ask!(c.cuGreenCtxStreamCreate(null_mut(), green, NON_BLOCKING, 0), "nowhere");
        ask!(c.cuGreenCtxStreamCreate(&raw mut stream, CUgreenCtx::NULL, NON_BLOCKING, 0), "null");
        Ok(())
    }),
    Probe::case(Call::cuGreenCtxStreamCreate, "a priority there is moved into the range", |c| {
        let green = c.green()?;
        for priority in [-99, 99] {
            let mut stream = CUstream::NULL;
            ask!(c.cuGreenCtxStreamCreate(&raw mut stream, green, NON_BLOCKING, priority));
            let mut found = 9;
            must!(c.cuStreamGetPriority(stream, &raw mut found));
            c.note("priority", found);
        }
        Ok(())
    }),
    Probe::works(Call::cuStreamGetGreenCtx, "a stream tells its green context", |c| {
        let green = c.green()?;
        let stream = c.green_stream(green)?;
        step(move |c| {
            let mut found = CUgreenCtx::NULL;
            ask!(c.cuStreamGetGreenCtx(stream, &raw mut found));
            if c.observes() {
                c.holds("same", found == green);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamGetGreenCtx, "a green context needs somewhere to go", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuStreamGetGreenCtx(stream, null_mut()));
        Ok(())
    }),
    Probe::case(Call::cuStreamGetGreenCtx, "an ordinary stream has no green context", |c| {
        c.current()?;
        let stream = c.stream()?;
        let mut found = CUgreenCtx::from_addr(8);
        ask!(c.cuStreamGetGreenCtx(stream, &raw mut found));
        c.holds("null", found.is_null());
        Ok(())
    }),
    Probe::case(Call::cuStreamGetCtx_v2, "a stream of a green context has two contexts", |c| {
        let primary = c.current()?;
        let green = c.green()?;
        let (stream, view) = (c.green_stream(green)?, c.view(green)?);
        let mut context = CUcontext::NULL;
        let mut found = CUgreenCtx::NULL;
        ask!(c.cuStreamGetCtx_v2(stream, &raw mut context, &raw mut found));
        c.holds("green", found == green);
        c.holds("primary", context == primary);
        c.holds("view", context == view);
        ask!(c.cuStreamGetCtx(stream, &raw mut context), "old");
        c.holds("primary", context == primary);
        c.holds("view", context == view);
        Ok(())
    }),
    Probe::works(Call::cuGreenCtxRecordEvent, "an event marks a green context's work", |c| {
        let green = c.green()?;
        let event = event_of(c, green)?;
        step(move |c| {
            ask!(c.cuGreenCtxRecordEvent(green, event));
            if c.observes() {
                ask!(c.cuEventSynchronize(event), "synchronize");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGreenCtxRecordEvent, "null marks no green context's work", |c| {
        let green = c.green()?;
        ask!(c.cuGreenCtxRecordEvent(green, CUevent::NULL));
        let event = event_of(c, green)?;
        ask!(c.cuGreenCtxRecordEvent(CUgreenCtx::NULL, event), "null");
        Ok(())
    }),
    Probe::case(Call::cuGreenCtxRecordEvent, "an event waits for all streams there", |c| {
        let green = c.green()?;
        let stream = c.green_stream(green)?;
        let event = event_of(c, green)?;
        let gate = c.busy(stream)?;
        ask!(c.cuGreenCtxRecordEvent(green, event));
        ask!(c.cuEventQuery(event), "before");
        gate.open();
        ask!(c.cuEventSynchronize(event), "wait");
        Ok(())
    }),
    Probe::case(Call::cuGreenCtxRecordEvent, "the primary context's events serve there too", |c| {
        c.current()?;
        let event = c.event()?;
        let green = c.green()?;
        let stream = c.green_stream(green)?;
        ask!(c.cuEventRecord(event, stream), "stream");
        ask!(c.cuGreenCtxRecordEvent(green, event), "whole");
        let own = event_of(c, green)?;
        let ordinary = c.stream()?;
        ask!(c.cuEventRecord(own, ordinary), "elsewhere");
        ask!(c.cuStreamWaitEvent(ordinary, own, 0), "wait");
        ask!(c.cuStreamSynchronize(ordinary), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuLaunchKernel, "the primary context's functions run there too", |c| {
        c.current()?;
        let function = c.function(c"nop")?;
        let green = c.green()?;
        let stream = c.green_stream(green)?;
        let none = null_mut();
        ask!(c.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, none, none));
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::works(Call::cuGreenCtxWaitEvent, "a green context's work waits for an event", |c| {
        let green = c.green()?;
        let event = event_of(c, green)?;
        step(move |c| {
            ask!(c.cuGreenCtxWaitEvent(green, event));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGreenCtxWaitEvent, "a green context's work doesn't wait for null", |c| {
        let green = c.green()?;
        ask!(c.cuGreenCtxWaitEvent(green, CUevent::NULL));
        let event = event_of(c, green)?;
        ask!(c.cuGreenCtxWaitEvent(CUgreenCtx::NULL, event), "null");
        Ok(())
    }),
    Probe::case(Call::cuGreenCtxWaitEvent, "its streams go on when the event is reached", |c| {
        c.current()?;
        let (ordinary, event) = (c.stream()?, c.event()?);
        let green = c.green()?;
        let stream = c.green_stream(green)?;
        let gate = c.busy(ordinary)?;
        must!(c.cuEventRecord(event, ordinary));
        ask!(c.cuGreenCtxWaitEvent(green, event));
        let marker = event_of(c, green)?;
        must!(c.cuEventRecord(marker, stream));
        ask!(c.cuEventQuery(marker), "before");
        gate.open();
        ask!(c.cuStreamSynchronize(stream), "wait");
        Ok(())
    }),
    Probe::case(Call::cuGreenCtxRecordEvent, "a captured stream there refuses", |c| {
        let green = c.green()?;
        let stream = c.green_stream(green)?;
        let event = event_of(c, green)?;
        c.capture_relaxed(stream)?;
        ask!(c.cuGreenCtxRecordEvent(green, event));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::crashes(
        Call::cuGreenCtxDestroy,
        "a green context is destroyed before its stream",
        |c| {
            let green = c.green()?;
            let stream = c.green_stream(green)?;
            ask!(c.cuGreenCtxDestroy(green));
            crash!(c.cuStreamQuery(stream));
            Ok(())
        },
    ),
    Probe::case(Call::cuGreenCtxDestroy, "a busy stream's green context is destroyed", |c| {
        let green = c.green()?;
        let stream = c.green_stream(green)?;
        let gate = c.busy(stream)?;
        ask!(c.cuStreamDestroy_v2(stream), "stream");
        gate.open();
        ask!(c.cuGreenCtxDestroy(green));
        Ok(())
    }),
    Probe::case(Call::cuGreenCtxDestroy, "a green context is destroyed while it is current", |c| {
        let green = c.green()?;
        let view = c.view(green)?;
        must!(c.cuCtxSetCurrent(view));
        ask!(c.cuGreenCtxDestroy(green));
        c.holds("current", c.what_is_current()? == view);
        let depth = c.empty_stack();
        c.note("depth", depth);
        Ok(())
    }),
];

/// An event of a green context. Leaves current what is.
fn event_of(c: &Ctx, green: CUgreenCtx) -> Made<CUevent> {
    let view = c.view(green)?;
    must!(c.cuCtxPushCurrent_v2(view));
    let event = c.event()?;
    must!(c.cuCtxPopCurrent_v2(null_mut()));
    Ok(event)
}
