//! Whether one context may reach another's memory: a switch for each pair and direction, not a count.

use cuhold_driver_sys::ffi::*;

use crate::{
    order::Lent,
    world::{Answer, Turn},
};

pub(crate) fn enable_peer(turn: &mut Turn<'_>, peer: CUcontext, flags: c_uint) -> Answer {
    let current = turn.current()?;
    let peer = turn.find(|state| &state.contexts, peer.addr(), CUresult::INVALID_CONTEXT)?;
    turn.not_lost()?;
    turn.check_capture()?;
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let same_device = turn.context_data(peer)?.device == turn.context_data(current)?.device;
    if same_device || !turn.state.options.peer_access {
        return Err(CUresult::PEER_ACCESS_UNSUPPORTED);
    }
    let peers = &mut turn.context_data(current)?.peers;
    if peers.contains(&peer) {
        return Err(CUresult::PEER_ACCESS_ALREADY_ENABLED);
    }
    peers.push(peer);
    Ok(())
}

pub(crate) fn disable_peer(turn: &mut Turn<'_>, peer: CUcontext) -> Answer {
    let current = turn.current()?;
    let peer = turn.find(|state| &state.contexts, peer.addr(), CUresult::INVALID_CONTEXT)?;
    turn.not_lost()?;
    turn.check_capture()?;
    let by = turn.site;
    let lent = Lent::Context { owner: peer.id(), user: current.id() };
    let context = turn.context_data(current)?;
    let at = context.peers.iter().position(|known| *known == peer);
    context.peers.remove(at.ok_or(CUresult::PEER_ACCESS_NOT_ENABLED)?);
    context.peers_left.retain(|(left, _)| *left != peer);
    context.peers_left.push((peer, by));
    turn.state.host_revokes(lent, by);
    Ok(())
}
