//! Managed memory: advised, prefetched, attached to streams. It lies on the host, where both sides reach it, so that none
//! of these moves anything; what was said is kept, and told by `range.rs`.
//!
//! Source: CUDA Driver API 13.x, "Unified Addressing", "Stream Management".

#![expect(unsafe_code, reason = "a location is a union")]

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{
    advice::{Spot, pages},
    space::{Origin, Place},
};
use crate::{
    graph::NodeKind,
    queue::Work,
    world::{Answer, Turn},
};

type Type = CUmemLocationType;

impl Turn<'_> {
    /// Where the managed allocation begins that a range lies in; refuses any other.
    pub(super) fn managed_range(&mut self, address: u64, count: usize) -> Result<u64, CUresult> {
        if count == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        match self.state.memory.space.locate(address, count as u64) {
            Err(misplaced) => Err(self.refuse_misplaced(misplaced)),
            Ok(Place::Pageable) => Err(CUresult::INVALID_VALUE),
            Ok(Place::Known { base, .. }) => {
                let found = self.state.memory.space.at(base).map(|a| a.origin);
                match found {
                    Some(origin) if self.state.memory.is_managed(origin) => Ok(base),
                    _ => Err(CUresult::INVALID_VALUE),
                }
            }
        }
    }

    /// Where memory is sent: a device or a node that exists, or the host. The simulated machine has one node.
    pub(super) fn placed(&self, location: CUmemLocation) -> Result<Spot, CUresult> {
        let spot = named(location)?;
        match spot.kind {
            Type::CU_MEM_LOCATION_TYPE_DEVICE => self.state.device_index(spot.id).map(|_| spot),
            Type::CU_MEM_LOCATION_TYPE_HOST_NUMA if spot.id != 0 => Err(CUresult::INVALID_VALUE),
            _ => Ok(spot),
        }
    }

    /// What advice is about: for some kinds any place will do; others take one that exists, and no node accesses (measured).
    fn advised(&self, advice: CUmem_advise, location: CUmemLocation) -> Result<Spot, CUresult> {
        let spot = named(location)?;
        let is_node = matches!(
            spot.kind,
            Type::CU_MEM_LOCATION_TYPE_HOST_NUMA | Type::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
        );
        match advice {
            CUmem_advise::CU_MEM_ADVISE_SET_PREFERRED_LOCATION => {
                let there = self.placed(location).map_err(|_absent| CUresult::INVALID_VALUE);
                // A node is told as the host (measured).
                there.map(|spot| if is_node { Spot::HOST } else { spot })
            }
            CUmem_advise::CU_MEM_ADVISE_SET_ACCESSED_BY
            | CUmem_advise::CU_MEM_ADVISE_UNSET_ACCESSED_BY => match is_node {
                true => Err(CUresult::INVALID_VALUE),
                false => self.placed(location).map_err(|_absent| CUresult::INVALID_VALUE),
            },
            _ => Ok(Spot::NONE),
        }
    }
}

/// A place of a kind that there is.
fn named(location: CUmemLocation) -> Result<Spot, CUresult> {
    // SAFETY: each view of the union is a plain number, of which any bytes are one.
    let spot = Spot { kind: location.type_, id: unsafe { location.__bindgen_anon_1.id } };
    match spot.kind {
        Type::CU_MEM_LOCATION_TYPE_HOST => Ok(Spot::HOST),
        Type::CU_MEM_LOCATION_TYPE_DEVICE
        | Type::CU_MEM_LOCATION_TYPE_HOST_NUMA
        | Type::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(spot),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// A device's number as a location; the number of no device is the host.
fn location_of(device: CUdevice) -> CUmemLocation {
    let type_ = match device {
        CU_DEVICE_CPU => CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST,
        _ => CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
    };
    let mut location = CUmemLocation { type_, ..CUmemLocation::default() };
    location.__bindgen_anon_1.id = device;
    location
}

pub(crate) fn advise(
    turn: &mut Turn<'_>,
    address: CUdeviceptr,
    count: usize,
    advice: CUmem_advise,
    device: CUdevice,
) -> Answer {
    advise_v2(turn, address, count, advice, location_of(device))
}

pub(crate) fn advise_v2(
    turn: &mut Turn<'_>,
    address: CUdeviceptr,
    count: usize,
    advice: CUmem_advise,
    location: CUmemLocation,
) -> Answer {
    turn.current()?;
    turn.not_lost()?;
    turn.check_capture()?;
    if advice.0 == 0 || advice.0 > CUmem_advise::CU_MEM_ADVISE_UNSET_ACCESSED_BY.0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let base = turn.managed_range(address, count)?;
    let spot = turn.advised(advice, location)?;
    let found = turn.state.memory.space.at(base);
    if found.is_some_and(|found| matches!(found.origin, Origin::Pool(_))) {
        // Measured.
        return Err(CUresult::NOT_SUPPORTED);
    }
    if let Some(found) = turn.state.memory.space.at_mut(base) {
        found.advised.change(pages(address - base, count as u64), |page| page.advise(advice, spot));
    }
    Ok(())
}

pub(crate) fn prefetch(
    turn: &mut Turn<'_>,
    address: CUdeviceptr,
    count: usize,
    device: CUdevice,
    stream: CUstream,
) -> Answer {
    prefetch_v2(turn, address, count, location_of(device), 0, stream)
}

pub(crate) fn prefetch_v2(
    turn: &mut Turn<'_>,
    address: CUdeviceptr,
    count: usize,
    location: CUmemLocation,
    flags: c_uint,
    stream: CUstream,
) -> Answer {
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.capture_usable(target)?;
    if turn.is_capturing(target) {
        // No kind of node that the simulator has.
        return Err(CUresult::MISSING);
    }
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let base = turn.managed_range(address, count)?;
    let spot = turn.placed(location)?;
    let id = turn.state.memory.space.at(base).map(|found| found.id);
    let sent = pages(address - base, count as u64);
    let work = Work::OnState(Arc::new(move |state| {
        // Nothing is moved, so that memory that was freed meanwhile does no harm.
        let found = state.memory.space.at_mut(base).filter(|found| Some(found.id) == id);
        if let Some(found) = found {
            found.advised.change(sent.clone(), |page| page.sent_to = spot);
        }
        Ok(())
    }));
    turn.enqueue(target, NodeKind::Memcpy, work)
}

/// Of managed memory the whole is attached: its size, or 0 for that.
pub(crate) fn attach(
    turn: &mut Turn<'_>,
    stream: CUstream,
    address: CUdeviceptr,
    size: usize,
    flags: c_uint,
) -> Answer {
    const SINGLE: c_uint = CUmemAttach_flags::CU_MEM_ATTACH_SINGLE.0;
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.not_captured(target)?;
    let whole = turn.state.memory.space.at(address).map(|found| found.size_bytes);
    let fits = size == 0 || whole == Some(size as u64);
    let known = matches!(flags, 1 | 2 | SINGLE);
    if !known || !fits || (flags == SINGLE && target.created.is_none()) {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.managed_range(address, 1)?;
    turn.enqueue(target, NodeKind::Memcpy, Work::Marker)
}
