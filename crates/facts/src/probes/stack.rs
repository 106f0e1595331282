//! What is current: each thread's stack of contexts.
//!
//! Source: CUDA Driver API 13.x, "Context Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuCtxGetCurrent, "at first nothing is current", |c| {
        c.device()?;
        step(|c| {
            let mut context = CUcontext::from_addr(8);
            ask!(c.cuCtxGetCurrent(&raw mut context));
            if c.observes() {
                c.holds("null", context.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxGetCurrent, "before initialization what is current isn't known", |c| {
        let mut context = CUcontext::NULL;
        ask!(c.cuCtxGetCurrent(&raw mut context));
        Ok(())
    }),
    Probe::case(Call::cuCtxGetCurrent, "what is current needs somewhere to go", |c| {
        c.device()?;
        ask!(c.cuCtxGetCurrent(null_mut()));
        Ok(())
    }),
    Probe::works(Call::cuCtxSetCurrent, "setting on an empty stack pushes", |c| {
        let context = c.context_aside()?;
        step(move |c| {
            ask!(c.cuCtxSetCurrent(context));
            if c.observes() {
                let current = c.what_is_current()?;
                c.holds("current", current == context);
                note_depth(c);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxSetCurrent, "before initialization nothing is set", |c| {
        ask!(c.cuCtxSetCurrent(CUcontext::NULL));
        Ok(())
    }),
    Probe::case(Call::cuCtxSetCurrent, "setting replaces the top", |c| {
        let a = c.context()?;
        let b = c.context()?;
        ask!(c.cuCtxSetCurrent(a));
        ask!(c.cuCtxPopCurrent_v2(null_mut()), "pop");
        let current = c.what_is_current()?;
        c.note("under", which(current, &[a, b]));
        note_depth(c);
        Ok(())
    }),
    Probe::case(Call::cuCtxSetCurrent, "setting null pops one", |c| {
        let a = c.context()?;
        let b = c.context()?;
        ask!(c.cuCtxSetCurrent(CUcontext::NULL));
        let current = c.what_is_current()?;
        c.note("current", which(current, &[a, b]));
        note_depth(c);
        Ok(())
    }),
    Probe::case(Call::cuCtxSetCurrent, "setting null on an empty stack does nothing", |c| {
        c.device()?;
        ask!(c.cuCtxSetCurrent(CUcontext::NULL));
        note_depth(c);
        Ok(())
    }),
    // Of two readings of one driver, one crashed at the last call and one didn't.
    Probe::crashes(Call::cuCtxSetCurrent, "a destroyed context is taken", |c| {
        let primary = c.current()?;
        let a = c.context_aside()?;
        must!(c.cuCtxDestroy_v2(a));
        ask!(c.cuCtxSetCurrent(a));
        let current = c.what_is_current()?;
        c.note("current", which(current, &[primary, a]));
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
        crash!(c.cuCtxSetCurrent(primary));
        Ok(())
    }),
    Probe::case(Call::cuCtxSetCurrent, "garbage is taken", |c| {
        c.current()?;
        let page = crate::host::HostMemory::filled(1024, 0);
        ask!(c.cuCtxSetCurrent(CUcontext(page.ptr())));
        Ok(())
    }),
    Probe::case(Call::cuCtxSetCurrent, "what is current is each thread's own", |c| {
        let context = c.current()?;
        c.elsewhere(|c| {
            let there = c.what_is_current()?;
            c.holds("there", there == context);
            ask!(c.cuCtxSetCurrent(context));
            note_depth(c);
            Ok(())
        })?;
        let here = c.what_is_current()?;
        c.holds("here", here == context);
        Ok(())
    }),
    Probe::works(Call::cuCtxPushCurrent_v2, "pushing adds to the stack", |c| {
        let context = c.context()?;
        step(move |c| {
            ask!(c.cuCtxPushCurrent_v2(context));
            if c.observes() {
                note_depth(c);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxPushCurrent_v2, "null isn't pushed", |c| {
        c.device()?;
        ask!(c.cuCtxPushCurrent_v2(CUcontext::NULL));
        note_depth(c);
        Ok(())
    }),
    Probe::works_here(Call::cuCtxPopCurrent_v2, "popping gives what was current", |c| {
        let a = c.context()?;
        let b = c.context()?;
        let mut popped = CUcontext::NULL;
        ask!(c.cuCtxPopCurrent_v2(&raw mut popped));
        c.note("popped", which(popped, &[a, b]));
        let current = c.what_is_current()?;
        c.note("current", which(current, &[a, b]));
        Ok(())
    }),
    Probe::fails(Call::cuCtxPopCurrent_v2, "an empty stack isn't popped", |c| {
        c.device()?;
        let mut popped = CUcontext::from_addr(8);
        ask!(c.cuCtxPopCurrent_v2(&raw mut popped));
        Ok(())
    }),
    Probe::case(Call::cuCtxPopCurrent_v2, "popping may forget what it popped", |c| {
        c.context()?;
        ask!(c.cuCtxPopCurrent_v2(null_mut()));
        note_depth(c);
        Ok(())
    }),
    Probe::case(Call::cuCtxPopCurrent_v2, "a context may stand on the stack twice", |c| {
        let a = c.context()?;
        let b = c.context()?;
        must!(c.cuCtxPushCurrent_v2(a));
        for _ in 0..4 {
            let mut popped = CUcontext::NULL;
            ask!(c.cuCtxPopCurrent_v2(&raw mut popped));
            c.note("popped", which(popped, &[a, b]));
        }
        Ok(())
    }),
    Probe::case(Call::cuCtxDestroy_v2, "destroying what is on top pops it once", |c| {
        let primary = c.current()?;
        let a = c.context()?;
        must!(c.cuCtxPushCurrent_v2(primary));
        must!(c.cuCtxPushCurrent_v2(a));
        ask!(c.cuCtxDestroy_v2(a));
        for _ in 0..4 {
            let mut popped = CUcontext::NULL;
            ask!(c.cuCtxPopCurrent_v2(&raw mut popped));
            c.note("popped", which(popped, &[primary, a]));
        }
        Ok(())
    }),
    Probe::case(Call::cuCtxDestroy_v2, "what is current is popped by its destruction", |c| {
        let a = c.context()?;
        ask!(c.cuCtxDestroy_v2(a));
        let current = c.what_is_current()?;
        c.note("current", which(current, &[a]));
        note_depth(c);
        Ok(())
    }),
    Probe::case(Call::cuCtxDestroy_v2, "another thread keeps what was destroyed", |c| {
        let a = c.context()?;
        c.elsewhere(|c| {
            ask!(c.cuCtxDestroy_v2(a), "there");
            Ok(())
        })?;
        let current = c.what_is_current()?;
        c.note("current", which(current, &[a]));
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
        let (mut stream, mut event) = (CUstream::NULL, CUevent::NULL);
        ask!(c.cuStreamCreate(&raw mut stream, 0), "stream");
        ask!(c.cuEventCreate(&raw mut event, 0), "event");
        ask!(c.cuCtxSynchronize(), "synchronize");
        note_depth(c);
        Ok(())
    }),
];

/// A context by its place in the list, as a letter.
fn which(context: CUcontext, of: &[CUcontext]) -> &'static str {
    match of.iter().position(|known| *known == context) {
        _ if context.is_null() => "none",
        Some(0) => "first",
        Some(1) => "second",
        Some(_) | None => "other",
    }
}

fn note_depth(c: &mut Ctx) {
    let depth = c.empty_stack();
    c.note("depth", depth);
}
