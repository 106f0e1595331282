//! Streams: made, destroyed, asked.
//!
//! Source: CUDA Driver API 13.x, "Stream Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

const NON_BLOCKING: u32 = CUstream_flags::CU_STREAM_NON_BLOCKING.0;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuStreamCreate, "a stream is made", |c| {
        c.current()?;
        step(|c| {
            let mut stream = CUstream::NULL;
            ask!(c.cuStreamCreate(&raw mut stream, NON_BLOCKING));
            if c.observes() {
                c.holds("null", stream.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamCreate, "a stream of unknown flags isn't made", |c| {
        c.current()?;
        let mut stream = CUstream::NULL;
        ask!(c.cuStreamCreate(&raw mut stream, 0x8000));
        c.holds("null", stream.is_null());
        Ok(())
    }),
    Probe::case(Call::cuStreamCreate, "a stream needs somewhere to go, and a context", |c| {
        c.current()?;
        ask!(c.cuStreamCreate(null_mut(), 0));
        c.empty_stack();
        let mut stream = CUstream::NULL;
        ask!(c.cuStreamCreate(&raw mut stream, 0), "without_context");
        ask!(c.cuStreamCreate(&raw mut stream, 0x8000), "without_context_and_flags");
        Ok(())
    }),
    Probe::works(Call::cuStreamCreateWithPriority, "a stream with a priority is made", |c| {
        c.current()?;
        step(|c| with_priority(c, NON_BLOCKING, -1))
    }),
    Probe::fails(
        Call::cuStreamCreateWithPriority,
        "a stream with a priority and unknown flags isn't made",
        |c| {
            c.current()?;
            let mut stream = CUstream::NULL;
            ask!(c.cuStreamCreateWithPriority(&raw mut stream, 0x8000, 0));
            Ok(())
        },
    ),
    Probe::case(Call::cuStreamCreateWithPriority, "a priority is clamped", |c| {
        c.current()?;
        with_priority(c, NON_BLOCKING, -100)?;
        with_priority(c, NON_BLOCKING, 100)
    }),
    Probe::works(Call::cuStreamDestroy_v2, "a stream is destroyed", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            ask!(c.cuStreamDestroy_v2(stream));
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamDestroy_v2, "the default streams aren't destroyed", |c| {
        c.current()?;
        ask!(c.cuStreamDestroy_v2(CUstream::NULL), "null");
        ask!(c.cuStreamDestroy_v2(CU_STREAM_LEGACY), "legacy");
        ask!(c.cuStreamDestroy_v2(CU_STREAM_PER_THREAD), "per_thread");
        Ok(())
    }),
    Probe::case(Call::cuStreamDestroy_v2, "a busy stream is destroyed", |c| {
        c.current()?;
        let stream = c.stream()?;
        let gate = c.busy(stream)?;
        ask!(c.cuStreamDestroy_v2(stream));
        gate.open();
        ask!(c.cuCtxSynchronize(), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuStreamDestroy_v2, "a stream is destroyed without its context", |c| {
        c.context()?;
        let stream = c.stream()?;
        c.current()?;
        ask!(c.cuStreamDestroy_v2(stream));
        Ok(())
    }),
    Probe::crashes(Call::cuStreamDestroy_v2, "a stream isn't destroyed twice", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuStreamDestroy_v2(stream));
        crash!(c.cuStreamDestroy_v2(stream));
        Ok(())
    }),
    Probe::crashes(Call::cuStreamQuery, "a destroyed stream isn't asked", |c| {
        c.current()?;
        let stream = c.stream()?;
        must!(c.cuStreamDestroy_v2(stream));
        crash!(c.cuStreamQuery(stream));
        Ok(())
    }),
    Probe::works(Call::cuStreamQuery, "a stream without work is done", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            ask!(c.cuStreamQuery(stream));
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamQuery, "a stream with unfinished work isn't ready", |c| {
        c.current()?;
        let stream = c.stream()?;
        let gate = c.busy(stream)?;
        ask!(c.cuStreamQuery(stream));
        gate.open();
        c.wait_for(stream)?;
        ask!(c.cuStreamQuery(stream), "after");
        Ok(())
    }),
    Probe::works(Call::cuStreamSynchronize, "a stream without work is waited for", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            ask!(c.cuStreamSynchronize(stream));
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamSynchronize, "a default stream is waited for in a context", |c| {
        c.device()?;
        ask!(c.cuStreamSynchronize(CUstream::NULL));
        Ok(())
    }),
    Probe::case(Call::cuStreamSynchronize, "the default streams are waited for", |c| {
        c.current()?;
        ask!(c.cuStreamSynchronize(CUstream::NULL), "null");
        ask!(c.cuStreamSynchronize(CU_STREAM_LEGACY), "legacy");
        ask!(c.cuStreamSynchronize(CU_STREAM_PER_THREAD), "per_thread");
        Ok(())
    }),
    Probe::works(Call::cuStreamGetId, "streams have different ids", |c| {
        c.current()?;
        let (a, b) = (c.stream()?, c.stream()?);
        step(move |c| {
            let (mut one, mut two) = (0, 0);
            ask!(c.cuStreamGetId(a, &raw mut one));
            if c.observes() {
                must!(c.cuStreamGetId(b, &raw mut two));
                c.holds("same", one == two);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamGetId, "a stream's id needs somewhere to go", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuStreamGetId(stream, null_mut()));
        Ok(())
    }),
    Probe::case(Call::cuStreamGetId, "null and legacy are one stream", |c| {
        c.current()?;
        let (mut null, mut legacy, mut own) = (0, 0, 0);
        ask!(c.cuStreamGetId(CUstream::NULL, &raw mut null));
        ask!(c.cuStreamGetId(CU_STREAM_LEGACY, &raw mut legacy));
        ask!(c.cuStreamGetId(CU_STREAM_PER_THREAD, &raw mut own));
        c.holds("legacy_same", null == legacy);
        c.holds("per_thread_same", null == own);
        Ok(())
    }),
    Probe::works(Call::cuStreamGetPriority, "a stream has a priority", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            let mut priority = 99;
            ask!(c.cuStreamGetPriority(stream, &raw mut priority));
            if c.observes() {
                c.note("priority", priority);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamGetPriority, "a stream's priority needs somewhere to go", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuStreamGetPriority(stream, null_mut()));
        Ok(())
    }),
    Probe::works(Call::cuStreamGetFlags, "a stream keeps its flags", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            let mut flags = 99;
            ask!(c.cuStreamGetFlags(stream, &raw mut flags));
            if c.observes() {
                c.note("flags", flags);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamGetFlags, "a stream's flags need somewhere to go", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuStreamGetFlags(stream, null_mut()));
        Ok(())
    }),
    Probe::case(Call::cuStreamGetFlags, "the default streams have flags", |c| {
        c.current()?;
        for stream in [CUstream::NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD] {
            let mut flags = 99;
            ask!(c.cuStreamGetFlags(stream, &raw mut flags));
            c.note("flags", flags);
        }
        Ok(())
    }),
    Probe::works(Call::cuStreamGetCtx, "a stream has its context, whatever is current", |c| {
        let context = c.current()?;
        let stream = c.stream()?;
        c.context()?;
        step(move |c| {
            let mut found = CUcontext::NULL;
            ask!(c.cuStreamGetCtx(stream, &raw mut found));
            if c.observes() {
                c.holds("same", found == context);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamGetCtx, "without a context a default stream has none", |c| {
        c.device()?;
        let mut found = CUcontext::NULL;
        ask!(c.cuStreamGetCtx(CUstream::NULL, &raw mut found), "null");
        ask!(c.cuStreamGetCtx(CU_STREAM_LEGACY, &raw mut found), "legacy");
        ask!(c.cuStreamGetCtx(CU_STREAM_PER_THREAD, &raw mut found), "per_thread");
        Ok(())
    }),
    Probe::case(Call::cuStreamGetCtx_v2, "the newer form knows of green contexts", |c| {
        let context = c.current()?;
        let stream = c.stream()?;
        let (mut found, mut green) = (CUcontext::NULL, CUgreenCtx::from_addr(8));
        ask!(c.cuStreamGetCtx_v2(stream, &raw mut found, &raw mut green));
        c.holds("same", found == context);
        c.holds("green", !green.is_null());
        Ok(())
    }),
    Probe::works(Call::cuStreamGetDevice, "a stream has a device", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            let mut device = 9;
            ask!(c.cuStreamGetDevice(stream, &raw mut device));
            if c.observes() {
                c.note("device", device);
            }
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuStreamGetDevice,
        "without a context a default stream has no device",
        |c| {
            c.device()?;
            let mut device = 9;
            ask!(c.cuStreamGetDevice(CUstream::NULL, &raw mut device));
            Ok(())
        },
    ),
    Probe::works(Call::cuStreamCopyAttributes, "a stream's attributes are copied", |c| {
        c.current()?;
        let (to, from) = (c.stream()?, c.stream()?);
        step(move |c| {
            ask!(c.cuStreamCopyAttributes(to, from));
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuStreamCopyAttributes,
        "attributes aren't copied to another context's stream",
        |c| {
            c.current()?;
            let from = c.stream()?;
            c.context()?;
            let to = c.stream()?;
            ask!(c.cuStreamCopyAttributes(to, from));
            Ok(())
        },
    ),
    Probe::works(Call::cuStreamGetAttribute, "a stream has a way of waiting", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| attribute(c, stream, SYNCHRONIZATION))
    }),
    Probe::fails(Call::cuStreamGetAttribute, "an unknown attribute of a stream is refused", |c| {
        c.current()?;
        let stream = c.stream()?;
        attribute(c, stream, CUstreamAttrID(99))
    }),
    Probe::works(Call::cuStreamSetAttribute, "a stream's way of waiting is set", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            let value = spinning();
            ask!(c.cuStreamSetAttribute(stream, SYNCHRONIZATION, &raw const value));
            if c.observes() {
                attribute(c, stream, SYNCHRONIZATION)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamSetAttribute, "an unknown attribute of a stream isn't set", |c| {
        c.current()?;
        let stream = c.stream()?;
        let value = spinning();
        ask!(c.cuStreamSetAttribute(stream, CUstreamAttrID(99), &raw const value));
        Ok(())
    }),
    Probe::case(Call::cuStreamSynchronize, "a stream works without its context", |c| {
        c.current()?;
        let (stream, event) = (c.stream()?, c.event()?);
        c.empty_stack();
        ask!(c.cuStreamQuery(stream), "query");
        ask!(c.cuEventRecord(event, stream), "record");
        ask!(c.cuStreamWaitEvent(stream, event, 0), "wait");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuEventQuery(event), "event");
        Ok(())
    }),
];

const SYNCHRONIZATION: CUstreamAttrID = CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY;

fn spinning() -> CUstreamAttrValue {
    CUstreamAttrValue { syncPolicy: CUsynchronizationPolicy::CU_SYNC_POLICY_SPIN }
}

fn attribute(c: &mut Ctx, stream: CUstream, attribute: CUstreamAttrID) -> Made<()> {
    let mut value = CUstreamAttrValue::default();
    ask!(c.cuStreamGetAttribute(stream, attribute, &raw mut value));
    if c.observes() {
        // SAFETY: every field is an integer of the union's first bytes, and all its bytes were set by `default`.
        let policy = unsafe { value.syncPolicy };
        c.note("policy", policy.0);
    }
    Ok(())
}

fn with_priority(c: &mut Ctx, flags: u32, priority: i32) -> Made<()> {
    let mut stream = CUstream::NULL;
    let status = ask!(c.cuStreamCreateWithPriority(&raw mut stream, flags, priority));
    if c.observes() && status.is_success() {
        let mut now = 99;
        must!(c.cuStreamGetPriority(stream, &raw mut now));
        c.note("priority", now);
    }
    Ok(())
}
