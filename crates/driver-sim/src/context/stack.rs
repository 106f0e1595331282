//! What is current on the calling thread.
//!
//! `cuCtxSetCurrent(NULL)` pops: what lay under it becomes current. It takes ended contexts and garbage without
//! complaint; `cuCtxPushCurrent` doesn't take null (all measured). Pushing an ended context answers `INVALID_CONTEXT`
//! (documented for the code, not measured) and is a violation.

use cuhold_driver_sys::ffi::*;

use crate::{
    audit::ObjectKind,
    world::{Absent, Answer, Out, Turn},
};

pub(crate) fn push(turn: &mut Turn<'_>, ctx: CUcontext) -> Answer {
    if ctx.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.find(|state| &state.contexts, ctx.addr(), CUresult::INVALID_CONTEXT)?;
    let site = turn.site;
    turn.state.threads.get_mut(site.thread).stack.push((ctx, site));
    Ok(())
}

pub(crate) fn pop(turn: &mut Turn<'_>, pctx: Out<CUcontext>) -> Answer {
    let thread = turn.thread;
    let stack = &mut turn.state.threads.get_mut(thread).stack;
    let (popped, _) = stack.pop().ok_or(CUresult::INVALID_CONTEXT)?;
    pctx.write(popped);
    Ok(())
}

pub(crate) fn set_current(turn: &mut Turn<'_>, ctx: CUcontext) -> Answer {
    let site = turn.site;
    let top = turn.state.threads.get_mut(site.thread).stack.pop();
    if let Some((old, _)) = top.filter(|(old, _)| *old != ctx) {
        replaced(turn, old);
    }
    let stack = &mut turn.state.threads.get_mut(site.thread).stack;
    if !ctx.is_null() {
        // A replaced context keeps the place that was made for the first one.
        stack.push((ctx, top.map_or(site, |(_, pushed)| pushed)));
    }
    Ok(())
}

/// Taking an ended context off by setting another one crashes a real driver at times (measured: of two readings, one
/// did). An ended primary context's memory isn't freed there.
#[inline]
fn replaced(turn: &mut Turn<'_>, old: CUcontext) {
    if turn.state.contexts.find(old.addr()).is_none() {
        let was_primary = turn.state.devices.iter().any(|d| d.primary.raw == Some(old.addr()));
        let absent = turn.state.contexts.absent(old.addr());
        if !was_primary && matches!(absent, Absent::Ended(_)) {
            let site = turn.site;
            turn.state.violate_absent(ObjectKind::Context, old.addr() as u64, absent, site);
        }
    }
}

pub(crate) fn get_current(turn: &mut Turn<'_>, pctx: Out<CUcontext>) -> Answer {
    pctx.required()?.write(turn.state.threads.current(turn.thread));
    Ok(())
}
