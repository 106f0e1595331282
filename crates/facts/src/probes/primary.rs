//! Primary contexts: retained, released, reset.
//!
//! Source: CUDA Driver API 13.x, "Primary Context Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

const NO_DEVICE: CUdevice = 99;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuDevicePrimaryCtxRetain, "retaining makes nothing current", |c| {
        let device = c.device()?;
        step(move |c| {
            let mut context = CUcontext::NULL;
            ask!(c.cuDevicePrimaryCtxRetain(&raw mut context, device));
            if c.observes() {
                c.holds("null", context.is_null());
                let current = c.what_is_current()?;
                c.holds("current", !current.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDevicePrimaryCtxRetain, "a missing device has no primary context", |c| {
        c.device()?;
        let mut context = CUcontext::NULL;
        ask!(c.cuDevicePrimaryCtxRetain(&raw mut context, NO_DEVICE));
        Ok(())
    }),
    Probe::case(Call::cuDevicePrimaryCtxRetain, "a primary context needs somewhere to go", |c| {
        let device = c.device()?;
        ask!(c.cuDevicePrimaryCtxRetain(null_mut(), device));
        note_state(c, device)
    }),
    Probe::case(Call::cuDevicePrimaryCtxRetain, "retaining twice gives the same context", |c| {
        let device = c.device()?;
        let (mut one, mut two) = (CUcontext::NULL, CUcontext::NULL);
        ask!(c.cuDevicePrimaryCtxRetain(&raw mut one, device));
        ask!(c.cuDevicePrimaryCtxRetain(&raw mut two, device));
        c.holds("same", one == two);
        Ok(())
    }),
    Probe::works(Call::cuDevicePrimaryCtxRelease_v2, "one of two retains is released", |c| {
        let context = c.current()?;
        let device = c.device()?;
        let mut again = context;
        must!(c.cuDevicePrimaryCtxRetain(&raw mut again, device));
        step(move |c| {
            ask!(c.cuDevicePrimaryCtxRelease_v2(device));
            if c.observes() {
                note_state(c, device)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDevicePrimaryCtxRelease_v2, "what isn't retained isn't released", |c| {
        let device = c.device()?;
        ask!(c.cuDevicePrimaryCtxRelease_v2(device));
        Ok(())
    }),
    Probe::case(
        Call::cuDevicePrimaryCtxRelease_v2,
        "the last release ends the context where it is current",
        |c| {
            let context = c.current()?;
            let device = c.device()?;
            ask!(c.cuDevicePrimaryCtxRelease_v2(device));
            ask!(c.cuDevicePrimaryCtxRelease_v2(device), "again");
            let current = c.what_is_current()?;
            c.holds("still_current", current == context);
            let mut memory = 0;
            ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
            note_state(c, device)
        },
    ),
    Probe::case(
        Call::cuDevicePrimaryCtxRelease_v2,
        "a context released to zero comes back with the same handle",
        |c| {
            let context = c.current()?;
            let device = c.device()?;
            ask!(c.cuDevicePrimaryCtxRelease_v2(device));
            let mut again = CUcontext::NULL;
            ask!(c.cuDevicePrimaryCtxRetain(&raw mut again, device), "retain");
            c.holds("same", again == context);
            let mut memory = 0;
            ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
            Ok(())
        },
    ),
    Probe::works(Call::cuDevicePrimaryCtxSetFlags_v2, "scheduling is set", |c| {
        let device = c.device()?;
        step(move |c| {
            let flags = CUctx_flags::CU_CTX_SCHED_YIELD.0;
            ask!(c.cuDevicePrimaryCtxSetFlags_v2(device, flags));
            if c.observes() {
                note_state(c, device)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDevicePrimaryCtxSetFlags_v2, "unknown flags are refused", |c| {
        let device = c.device()?;
        ask!(c.cuDevicePrimaryCtxSetFlags_v2(device, 0x8000));
        note_state(c, device)
    }),
    Probe::case(Call::cuDevicePrimaryCtxSetFlags_v2, "scheduling is one of three", |c| {
        let device = c.device()?;
        ask!(c.cuDevicePrimaryCtxSetFlags_v2(device, 3));
        note_state(c, device)
    }),
    Probe::case(Call::cuDevicePrimaryCtxSetFlags_v2, "an active context's flags can be set", |c| {
        c.current()?;
        let device = c.device()?;
        ask!(c.cuDevicePrimaryCtxSetFlags_v2(device, CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC.0));
        note_state(c, device)
    }),
    Probe::works(Call::cuDevicePrimaryCtxGetState, "at first the context isn't active", |c| {
        let device = c.device()?;
        step(move |c| {
            let (mut flags, mut active) = (9, 9);
            ask!(c.cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active));
            if c.observes() {
                c.note("flags", flags);
                c.note("active", active);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDevicePrimaryCtxGetState, "a missing device has no state", |c| {
        c.device()?;
        let (mut flags, mut active) = (9, 9);
        ask!(c.cuDevicePrimaryCtxGetState(NO_DEVICE, &raw mut flags, &raw mut active));
        Ok(())
    }),
    Probe::case(Call::cuDevicePrimaryCtxGetState, "a retained context is active", |c| {
        c.current()?;
        let device = c.device()?;
        note_state(c, device)
    }),
    Probe::works_here(Call::cuDevicePrimaryCtxReset_v2, "a context is reset", |c| {
        let context = c.current()?;
        let device = c.device()?;
        ask!(c.cuDevicePrimaryCtxReset_v2(device));
        let current = c.what_is_current()?;
        c.holds("still_current", current == context);
        note_state(c, device)
    }),
    Probe::fails(Call::cuDevicePrimaryCtxReset_v2, "a missing device isn't reset", |c| {
        c.device()?;
        ask!(c.cuDevicePrimaryCtxReset_v2(NO_DEVICE));
        Ok(())
    }),
    Probe::case(
        Call::cuDevicePrimaryCtxReset_v2,
        "a context that was reset works again once retained again",
        |c| {
            let context = c.current()?;
            let device = c.device()?;
            let stream = c.stream()?;
            ask!(c.cuDevicePrimaryCtxReset_v2(device));
            let mut memory = 0;
            ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
            ask!(c.cuCtxSetCurrent(CUcontext::NULL), "unset");
            ask!(c.cuCtxSetCurrent(context), "set");
            ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
            let mut again = CUcontext::NULL;
            ask!(c.cuDevicePrimaryCtxRetain(&raw mut again, device), "retain");
            c.holds("same", again == context);
            ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
            ask!(c.cuStreamQuery(stream), "old_stream");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuDevicePrimaryCtxReset_v2,
        "a context that isn't active is reset too",
        |c| {
            let device = c.device()?;
            ask!(c.cuDevicePrimaryCtxReset_v2(device));
            note_state(c, device)
        },
    ),
];

fn note_state(c: &mut Ctx, device: CUdevice) -> Made<()> {
    let (mut flags, mut active) = (9, 9);
    must!(c.cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active));
    c.note("flags", flags);
    c.note("active", active);
    Ok(())
}
