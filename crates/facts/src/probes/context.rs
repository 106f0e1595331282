//! Contexts: made, ended, asked, set; and the calling thread's capture mode.
//!
//! Source: CUDA Driver API 13.x, "Context Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuCtxCreate_v4, "a new context is current", |c| {
        let device = c.device()?;
        step(move |c| {
            let mut context = CUcontext::NULL;
            ask!(c.cuCtxCreate_v4(&raw mut context, null_mut(), 0, device));
            if c.observes() {
                let current = c.what_is_current()?;
                c.holds("current", current == context && !context.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxCreate_v4, "a context on a missing device isn't made", |c| {
        c.device()?;
        let mut context = CUcontext::NULL;
        ask!(c.cuCtxCreate_v4(&raw mut context, null_mut(), 0, 99));
        let current = c.what_is_current()?;
        c.holds("current", !current.is_null());
        Ok(())
    }),
    Probe::case(Call::cuCtxCreate_v4, "a context of unknown flags isn't made", |c| {
        let device = c.device()?;
        let mut context = CUcontext::NULL;
        ask!(c.cuCtxCreate_v4(&raw mut context, null_mut(), 0x8000, device));
        ask!(c.cuCtxCreate_v4(&raw mut context, null_mut(), 3, device));
        ask!(c.cuCtxCreate_v4(null_mut(), null_mut(), 0, device));
        let current = c.what_is_current()?;
        c.holds("current", !current.is_null());
        Ok(())
    }),
    Probe::case(Call::cuCtxCreate_v3, "the older form makes a context too", |c| {
        let device = c.device()?;
        let mut context = CUcontext::NULL;
        ask!(c.cuCtxCreate_v3(&raw mut context, null_mut(), 0, 0, device));
        Ok(())
    }),
    Probe::works(Call::cuCtxDestroy_v2, "a context that is current nowhere is destroyed", |c| {
        let context = c.context_aside()?;
        step(move |c| {
            ask!(c.cuCtxDestroy_v2(context));
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxDestroy_v2, "no context is null", |c| {
        c.device()?;
        ask!(c.cuCtxDestroy_v2(CUcontext::NULL));
        Ok(())
    }),
    Probe::case(Call::cuCtxDestroy_v2, "a primary context isn't destroyed", |c| {
        let context = c.current()?;
        ask!(c.cuCtxDestroy_v2(context));
        let current = c.what_is_current()?;
        c.holds("still_current", current == context);
        Ok(())
    }),
    Probe::case(Call::cuCtxDestroy_v2, "a context's end ends its objects", |c| {
        let a = c.context()?;
        let (stream, event, memory) = (c.stream()?, c.event()?, c.memory(64)?);
        let module = c.module()?;
        must!(c.cuCtxDestroy_v2(a));
        c.current()?;
        ask!(c.cuMemFree_v2(memory), "free");
        ask!(c.cuEventDestroy_v2(event), "event");
        ask!(c.cuModuleUnload(module), "module");
        ask!(c.cuStreamDestroy_v2(stream), "stream");
        Ok(())
    }),
    Probe::works(Call::cuCtxGetDevice, "the current context has a device", |c| {
        c.current()?;
        step(|c| {
            let mut device = 9;
            ask!(c.cuCtxGetDevice(&raw mut device));
            if c.observes() {
                c.note("device", device);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxGetDevice, "no context has no device", |c| {
        c.device()?;
        let mut device = 9;
        ask!(c.cuCtxGetDevice(&raw mut device));
        Ok(())
    }),
    Probe::case(Call::cuCtxGetDevice_v2, "any context has a device", |c| {
        let context = c.context_aside()?;
        let mut device = 9;
        ask!(c.cuCtxGetDevice_v2(&raw mut device, context));
        c.note("device", device);
        ask!(c.cuCtxGetDevice_v2(&raw mut device, CUcontext::NULL));
        Ok(())
    }),
    Probe::works(Call::cuCtxGetId, "contexts have different ids", |c| {
        let (a, b) = (c.context_aside()?, c.context_aside()?);
        step(move |c| {
            let (mut one, mut two) = (0, 0);
            ask!(c.cuCtxGetId(a, &raw mut one));
            if c.observes() {
                must!(c.cuCtxGetId(b, &raw mut two));
                c.holds("same", one == two);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxGetId, "where nothing is current, null has no id", |c| {
        c.device()?;
        let mut id = 0;
        ask!(c.cuCtxGetId(CUcontext::NULL, &raw mut id));
        Ok(())
    }),
    Probe::case(Call::cuCtxGetId, "null is the current context's id", |c| {
        let context = c.current()?;
        let (mut one, mut two) = (0, 0);
        ask!(c.cuCtxGetId(CUcontext::NULL, &raw mut one));
        ask!(c.cuCtxGetId(context, &raw mut two));
        c.holds("same", one == two);
        ask!(c.cuCtxGetId(context, null_mut()));
        Ok(())
    }),
    Probe::works(Call::cuCtxGetFlags, "a context keeps the flags it was made with", |c| {
        let device = c.device()?;
        let mut context = CUcontext::NULL;
        let flags = CUctx_flags::CU_CTX_SCHED_YIELD.0;
        must!(c.cuCtxCreate_v4(&raw mut context, null_mut(), flags, device));
        step(|c| {
            let mut flags = 99;
            ask!(c.cuCtxGetFlags(&raw mut flags));
            if c.observes() {
                c.note("flags", flags);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxGetFlags, "no context has no flags", |c| {
        c.device()?;
        let mut flags = 99;
        ask!(c.cuCtxGetFlags(&raw mut flags));
        Ok(())
    }),
    Probe::works(Call::cuCtxSetFlags, "a context's flags can be set", |c| {
        c.context()?;
        step(|c| {
            ask!(c.cuCtxSetFlags(CUctx_flags::CU_CTX_SCHED_SPIN.0));
            if c.observes() {
                let mut flags = 99;
                must!(c.cuCtxGetFlags(&raw mut flags));
                c.note("flags", flags);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxSetFlags, "unknown flags aren't set", |c| {
        c.context()?;
        ask!(c.cuCtxSetFlags(0x8000));
        Ok(())
    }),
    Probe::works(Call::cuCtxGetApiVersion, "a context has the version of its interface", |c| {
        let context = c.context_aside()?;
        step(move |c| {
            let mut version = 0;
            ask!(c.cuCtxGetApiVersion(context, &raw mut version));
            if c.observes() {
                c.note("version", version);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxGetApiVersion, "where nothing is current, null has no version", |c| {
        c.device()?;
        let mut version = 0;
        ask!(c.cuCtxGetApiVersion(CUcontext::NULL, &raw mut version));
        Ok(())
    }),
    Probe::works(Call::cuCtxSynchronize, "a context without work is waited for", |c| {
        c.current()?;
        step(|c| {
            ask!(c.cuCtxSynchronize());
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxSynchronize, "no context isn't waited for", |c| {
        c.device()?;
        ask!(c.cuCtxSynchronize());
        Ok(())
    }),
    Probe::case(Call::cuCtxSynchronize_v2, "any context is waited for", |c| {
        let context = c.context_aside()?;
        ask!(c.cuCtxSynchronize_v2(context));
        ask!(c.cuCtxSynchronize_v2(CUcontext::NULL), "null");
        Ok(())
    }),
    Probe::works(Call::cuCtxSetLimit, "a limit can be set", |c| {
        c.current()?;
        step(|c| {
            ask!(c.cuCtxSetLimit(CUlimit::CU_LIMIT_STACK_SIZE, 4096));
            if c.observes() {
                let mut bytes = 0;
                must!(c.cuCtxGetLimit(&raw mut bytes, CUlimit::CU_LIMIT_STACK_SIZE));
                c.holds("at_least", bytes >= 4096);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxSetLimit, "an unknown limit isn't set", |c| {
        c.current()?;
        ask!(c.cuCtxSetLimit(CUlimit(99), 4096));
        Ok(())
    }),
    Probe::case(Call::cuCtxSetLimit, "no context has no limits", |c| {
        c.device()?;
        ask!(c.cuCtxSetLimit(CUlimit::CU_LIMIT_STACK_SIZE, 4096));
        let mut bytes = 0;
        ask!(c.cuCtxGetLimit(&raw mut bytes, CUlimit::CU_LIMIT_STACK_SIZE));
        Ok(())
    }),
    Probe::works(Call::cuCtxGetLimit, "a context has limits", |c| {
        c.current()?;
        step(|c| {
            let mut bytes = 0;
            ask!(c.cuCtxGetLimit(&raw mut bytes, CUlimit::CU_LIMIT_STACK_SIZE));
            if c.observes() {
                c.note("stack", bytes);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxGetLimit, "an unknown limit isn't known", |c| {
        c.current()?;
        let mut bytes = 0;
        ask!(c.cuCtxGetLimit(&raw mut bytes, CUlimit(99)));
        ask!(c.cuCtxGetLimit(null_mut(), CUlimit::CU_LIMIT_STACK_SIZE), "nowhere");
        Ok(())
    }),
    Probe::works(Call::cuCtxSetCacheConfig, "a cache preference can be set", |c| {
        c.current()?;
        step(|c| {
            ask!(c.cuCtxSetCacheConfig(CUfunc_cache::CU_FUNC_CACHE_PREFER_L1));
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxSetCacheConfig, "an unknown cache preference isn't set", |c| {
        c.current()?;
        ask!(c.cuCtxSetCacheConfig(CUfunc_cache(99)));
        Ok(())
    }),
    Probe::works(Call::cuCtxGetCacheConfig, "a context has a cache preference", |c| {
        c.current()?;
        step(|c| {
            let mut config = CUfunc_cache(99);
            ask!(c.cuCtxGetCacheConfig(&raw mut config));
            if c.observes() {
                c.note("config", config.0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxGetCacheConfig, "no context has no cache preference", |c| {
        c.device()?;
        let mut config = CUfunc_cache(99);
        ask!(c.cuCtxGetCacheConfig(&raw mut config));
        Ok(())
    }),
    Probe::works(Call::cuCtxGetStreamPriorityRange, "priorities have a range", |c| {
        c.current()?;
        step(|c| {
            let (mut least, mut greatest) = (99, 99);
            ask!(c.cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest));
            if c.observes() {
                c.note("least", least);
                c.note("greatest", greatest);
                ask!(c.cuCtxGetStreamPriorityRange(null_mut(), null_mut()), "nowhere");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxGetStreamPriorityRange, "no context has no priorities", |c| {
        c.device()?;
        let (mut least, mut greatest) = (99, 99);
        ask!(c.cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest));
        Ok(())
    }),
    Probe::works(
        Call::cuCtxResetPersistingL2Cache,
        "lines that persist in the cache are let go",
        |c| {
            c.current()?;
            step(|c| {
                ask!(c.cuCtxResetPersistingL2Cache());
                Ok(())
            })
        },
    ),
    Probe::fails(Call::cuCtxResetPersistingL2Cache, "no context has no cache", |c| {
        c.device()?;
        ask!(c.cuCtxResetPersistingL2Cache());
        Ok(())
    }),
    Probe::works(Call::cuCtxRecordEvent, "an event takes a context's work", |c| {
        let context = c.current()?;
        let event = c.event()?;
        step(move |c| {
            ask!(c.cuCtxRecordEvent(context, event));
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxRecordEvent, "an event doesn't take another context's work", |c| {
        let other = c.context_aside()?;
        c.current()?;
        let event = c.event()?;
        ask!(c.cuCtxRecordEvent(other, event));
        Ok(())
    }),
    Probe::works(Call::cuCtxWaitEvent, "a context waits for an event", |c| {
        let context = c.current()?;
        let (event, stream) = (c.event()?, c.stream()?);
        must!(c.cuEventRecord(event, stream));
        step(move |c| {
            ask!(c.cuCtxWaitEvent(context, event));
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxWaitEvent, "a context doesn't wait for null", |c| {
        let context = c.current()?;
        ask!(c.cuCtxWaitEvent(context, CUevent::NULL));
        Ok(())
    }),
    Probe::works(Call::cuThreadExchangeStreamCaptureMode, "a thread begins in global mode", |c| {
        c.device()?;
        step(|c| {
            let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            ask!(c.cuThreadExchangeStreamCaptureMode(&raw mut mode));
            if c.observes() {
                c.note("before", mode.0);
                ask!(c.cuThreadExchangeStreamCaptureMode(&raw mut mode), "again");
                c.note("before", mode.0);
            }
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuThreadExchangeStreamCaptureMode,
        "before initialization a thread has no mode",
        |c| {
            let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            ask!(c.cuThreadExchangeStreamCaptureMode(&raw mut mode));
            Ok(())
        },
    ),
    Probe::crashes(Call::cuThreadExchangeStreamCaptureMode, "a mode needs somewhere to go", |c| {
        c.device()?;
        crash!(c.cuThreadExchangeStreamCaptureMode(null_mut()));
        Ok(())
    }),
    Probe::case(Call::cuThreadExchangeStreamCaptureMode, "an unknown mode is looked at", |c| {
        c.device()?;
        let mut mode = CUstreamCaptureMode(99);
        ask!(c.cuThreadExchangeStreamCaptureMode(&raw mut mode));
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        ask!(c.cuThreadExchangeStreamCaptureMode(&raw mut mode), "again");
        c.note("before", mode.0);
        Ok(())
    }),
    Probe::case(Call::cuThreadExchangeStreamCaptureMode, "a relaxed thread may allocate", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_globally(stream)?;
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        ask!(c.cuThreadExchangeStreamCaptureMode(&raw mut mode));
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
        ask!(c.cuThreadExchangeStreamCaptureMode(&raw mut mode), "back");
        c.note("before", mode.0);
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::works(Call::cuCtxGetExecAffinity, "a context runs on so many processors", |c| {
        c.current()?;
        step(|c| affinity(c, CUexecAffinityType::CU_EXEC_AFFINITY_TYPE_SM_COUNT))
    }),
    Probe::fails(Call::cuCtxGetExecAffinity, "an unknown affinity isn't known", |c| {
        c.current()?;
        affinity(c, CUexecAffinityType(99))
    }),
];

fn affinity(c: &mut Ctx, kind: CUexecAffinityType) -> Made<()> {
    let mut affinity = CUexecAffinityParam::default();
    ask!(c.cuCtxGetExecAffinity(&raw mut affinity, kind));
    Ok(())
}
