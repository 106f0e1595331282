//! The primary context of a device: counted, ended at zero or by a reset, and back under the same handle.

use cuhold_driver_sys::ffi::*;

use super::{Context, flags_are_valid};
use crate::{
    audit::{ObjectKind, ViolationKind},
    world::{Answer, Key, Out, Turn},
};

pub(crate) fn primary_retain(
    turn: &mut Turn<'_>,
    pctx: Out<CUcontext>,
    device: CUdevice,
) -> Answer {
    let pctx = pctx.required()?;
    turn.state.device_index(device)?;
    turn.not_lost()?;
    let primary = turn.live_primary(device)?;
    let site = turn.site;
    turn.state.device_mut(device)?.primary.retains.push(site);
    pctx.write(CUcontext::from_addr(primary.raw()));
    Ok(())
}

impl Turn<'_> {
    /// Holds the primary context on the driver's own account.
    pub(crate) fn hold_primary(&mut self, device: CUdevice) -> Result<Key<Context>, CUresult> {
        let key = self.live_primary(device)?;
        self.state.device_mut(device)?.primary.held += 1;
        Ok(key)
    }

    /// The primary context, made live if it isn't.
    fn live_primary(&mut self, device: CUdevice) -> Result<Key<Context>, CUresult> {
        let site = self.site;
        let state = &mut *self.state;
        let raw = match state.device(device)?.primary.raw {
            Some(raw) => raw,
            None => state.contexts.fresh_value(),
        };
        let primary = &mut state.device_mut(device)?.primary;
        primary.raw = Some(raw);
        let (active, flags) = (primary.active, primary.flags);
        if let Some(active) = active {
            return Ok(active);
        }
        let key = state.begin_context(device, flags, Some(raw), site);
        state.device_mut(device)?.primary.active = Some(key);
        Ok(key)
    }

    /// The driver itself holds the primary context once less.
    pub(crate) fn let_primary_go(&mut self, device: CUdevice) -> Answer {
        let primary = &mut self.state.device_mut(device)?.primary;
        primary.held = primary.held.saturating_sub(1);
        if primary.is_unused() { end(self, device) } else { Ok(()) }
    }
}

pub(crate) fn primary_release(turn: &mut Turn<'_>, device: CUdevice) -> Answer {
    let primary = &mut turn.state.device_mut(device)?.primary;
    let raw = primary.raw.unwrap_or_default() as u64;
    if primary.retains.pop().is_none() {
        turn.violate(ViolationKind::OverRelease, Some((ObjectKind::PrimaryRetain, raw)), "");
        return Err(CUresult::INVALID_CONTEXT);
    }
    if primary.is_unused() { end(turn, device) } else { Ok(()) }
}

pub(crate) fn primary_reset(turn: &mut Turn<'_>, device: CUdevice) -> Answer {
    turn.state.device_index(device)?;
    end(turn, device)
}

/// Ends the active primary context, if there is one, after all work of all contexts.
fn end(turn: &mut Turn<'_>, device: CUdevice) -> Answer {
    turn.complete_everything();
    if let Some(key) = turn.state.device_mut(device)?.primary.active.take() {
        let site = turn.site;
        turn.state.end_context(key, site);
    }
    Ok(())
}

/// Replaces the flags; of an active context too.
pub(crate) fn primary_set_flags(turn: &mut Turn<'_>, device: CUdevice, flags: c_uint) -> Answer {
    turn.state.device_index(device)?;
    if !flags_are_valid(flags) {
        return Err(CUresult::INVALID_VALUE);
    }
    let primary = &mut turn.state.device_mut(device)?.primary;
    primary.flags = flags;
    if let Some(key) = primary.active {
        turn.context_data(key)?.flags = flags;
    }
    Ok(())
}

pub(crate) fn primary_state(
    turn: &mut Turn<'_>,
    device: CUdevice,
    flags: Out<c_uint>,
    active: Out<c_int>,
) -> Answer {
    let (flags, active) = (flags.required()?, active.required()?);
    let primary = &turn.state.device(device)?.primary;
    flags.write(primary.flags);
    active.write(c_int::from(primary.active.is_some()));
    Ok(())
}
