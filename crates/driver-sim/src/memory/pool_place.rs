//! Pools of a place: of the host's memory, of managed memory. Each place has a default pool, made when it is first asked for,
//! and a current one.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

use cuhold_driver_sys::ffi::*;

use super::{
    pool::{Kind, Location, Pool},
    pools::{device_default_pool, device_pool, device_set_pool, location_of},
};
use crate::world::{Answer, Key, Out, Turn};

/// A place that isn't a device's own memory: where, and of which kind the memory is.
pub(super) type Place = (Location, Kind);

/// A place's pools.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacePools {
    pub(super) default: Key<Pool>,
    pub(super) current: Key<Pool>,
}

/// The kind, if there is such a one.
pub(super) fn kind_of(kind: CUmemAllocationType) -> Result<Kind, CUresult> {
    match kind {
        CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED => Ok(Kind::Pinned),
        CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED => Ok(Kind::Managed),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// A location that exists. The simulated machine has one NUMA node; only managed memory may have no place (documented).
pub(super) fn place_of(
    turn: &Turn<'_>,
    location: CUmemLocation,
    kind: Kind,
) -> Result<Location, CUresult> {
    match location_of(location) {
        Some(Location::Device(device)) if device < turn.state.devices.len() => {
            Ok(Location::Device(device))
        }
        Some(Location::HostNuma(0)) => Ok(Location::HostNuma(0)),
        Some(Location::Host) => Ok(Location::Host),
        None if location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_NONE
            && kind == Kind::Managed =>
        {
            Ok(Location::Anywhere)
        }
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// What was asked about: a device's own memory, or another place.
enum Asked {
    Device(CUdevice),
    Place(Place),
}

fn asked(
    turn: &Turn<'_>,
    location: Out<CUmemLocation>,
    kind: CUmemAllocationType,
) -> Result<Asked, CUresult> {
    let location = location.read().ok_or(CUresult::INVALID_VALUE)?;
    let kind = kind_of(kind)?;
    let is_nowhere = location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_NONE;
    if !is_nowhere && location_of(location).is_none() {
        // Measured; a pool can't be made there by another status.
        return Err(CUresult::NOT_SUPPORTED);
    }
    match (place_of(turn, location, kind)?, kind) {
        (Location::Device(device), Kind::Pinned) => {
            c_int::try_from(device).map(Asked::Device).map_err(|_overflow| CUresult::INVALID_VALUE)
        }
        place => Ok(Asked::Place(place)),
    }
}

/// A place's pools; the default one is made now if it wasn't before.
fn pools_of(turn: &mut Turn<'_>, place: Place) -> Result<PlacePools, CUresult> {
    if let Some(pools) = turn.state.memory.places.get(&place) {
        return Ok(*pools);
    }
    let mut pool = Pool::of(place.0, place.1, 0);
    pool.is_default = true;
    let made = turn.site;
    let default = turn.state.memory.add_pool(pool, made)?;
    let pools = PlacePools { default, current: default };
    turn.state.memory.places.insert(place, pools);
    Ok(pools)
}

pub(crate) fn location_default_pool(
    turn: &mut Turn<'_>,
    out: Out<CUmemoryPool>,
    location: Out<CUmemLocation>,
    kind: CUmemAllocationType,
) -> Answer {
    match asked(turn, location, kind)? {
        Asked::Device(device) => device_default_pool(turn, out, device),
        Asked::Place(place) => {
            let out = out.required()?;
            out.write(CUmemoryPool::from_addr(pools_of(turn, place)?.default.raw()));
            Ok(())
        }
    }
}

pub(crate) fn location_pool(
    turn: &mut Turn<'_>,
    out: Out<CUmemoryPool>,
    location: Out<CUmemLocation>,
    kind: CUmemAllocationType,
) -> Answer {
    match asked(turn, location, kind)? {
        Asked::Device(device) => device_pool(turn, out, device),
        Asked::Place(place) => {
            let out = out.required()?;
            out.write(CUmemoryPool::from_addr(pools_of(turn, place)?.current.raw()));
            Ok(())
        }
    }
}

/// The pool must be of that place and kind (documented).
pub(crate) fn location_set_pool(
    turn: &mut Turn<'_>,
    location: Out<CUmemLocation>,
    kind: CUmemAllocationType,
    pool: CUmemoryPool,
) -> Answer {
    let place = match asked(turn, location, kind)? {
        Asked::Device(device) => return device_set_pool(turn, device, pool),
        Asked::Place(place) => place,
    };
    let key = turn.pool(pool)?;
    turn.check_capture()?;
    let found = turn.pool_data(key)?;
    if (found.location, found.kind) != place || found.imported.is_some() {
        return Err(CUresult::INVALID_VALUE);
    }
    let pools = pools_of(turn, place)?;
    turn.state.memory.places.insert(place, PlacePools { current: key, ..pools });
    Ok(())
}
