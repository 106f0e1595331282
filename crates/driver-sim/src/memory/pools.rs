//! Memory pools: made, ended, set up, asked; and which one is a device's current pool.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

#![expect(unsafe_code, reason = "an attribute's type depends on the attribute")]

use cuhold_driver_sys::ffi::*;

use super::{
    pool::{Access, Kind, Location, Pool, Value, is_int},
    pool_place::{kind_of, place_of},
};
use crate::{
    order::Lent,
    world::{Answer, In, Key, Out, Turn},
};

type LocationType = CUmemLocationType;

/// Handle types that a pool may be made for: none, a file descriptor, fabric.
const HANDLE_TYPES: c_uint = 1 | 8;

impl Turn<'_> {
    /// The live pool with this handle.
    pub(super) fn pool(&mut self, raw: CUmemoryPool) -> Result<Key<Pool>, CUresult> {
        self.find(|state| &state.memory.pools, raw.addr(), CUresult::INVALID_VALUE)
    }

    pub(super) fn pool_data(&mut self, key: Key<Pool>) -> Result<&mut Pool, CUresult> {
        self.state.memory.pool_mut(key).ok_or(CUresult::INVALID_VALUE)
    }
}

/// A location as the simulator keeps it; `None` for what it doesn't have.
pub(super) fn location_of(location: CUmemLocation) -> Option<Location> {
    // SAFETY: each view of the union is a plain number, of which any bytes are one.
    let id = unsafe { location.__bindgen_anon_1.id };
    match location.type_ {
        LocationType::CU_MEM_LOCATION_TYPE_DEVICE => usize::try_from(id).ok().map(Location::Device),
        LocationType::CU_MEM_LOCATION_TYPE_HOST => Some(Location::Host),
        LocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA => Some(Location::HostNuma(id)),
        _ => None,
    }
}

/// Where the pool is to be, and whether its memory is to be managed. Managed memory isn't shared and has no limit and no
/// use of its own (documented).
fn check_properties(
    turn: &Turn<'_>,
    properties: &CUmemPoolProps,
) -> Result<(Location, Kind), CUresult> {
    let handle_types = properties.handleTypes.0;
    let kind = kind_of(properties.allocType)?;
    let location = place_of(turn, properties.location, kind)?;
    let fits = match (kind, location) {
        (Kind::Managed, _) => handle_types == 0 && properties.maxSize == 0 && properties.usage == 0,
        (Kind::Pinned, Location::Host) => handle_types == 0,
        (Kind::Pinned, _) => handle_types & !HANDLE_TYPES == 0,
    };
    if !fits || properties.reserved.iter().any(|byte| *byte != 0) {
        return Err(CUresult::INVALID_VALUE);
    }
    Ok((location, kind))
}

pub(crate) fn pool_create(
    turn: &mut Turn<'_>,
    out: Out<CUmemoryPool>,
    properties: In<CUmemPoolProps>,
) -> Answer {
    let out = out.required()?;
    let properties = properties.read().ok_or(CUresult::INVALID_VALUE)?;
    turn.check_capture()?;
    let (location, kind) = check_properties(turn, &properties)?;
    let made = turn.site;
    let mut pool = Pool::of(location, kind, properties.maxSize as u64);
    pool.is_shareable = properties.handleTypes.0 & 1 != 0;
    let key = turn.state.memory.add_pool(pool, made)?;
    out.write(CUmemoryPool::from_addr(key.raw()));
    Ok(())
}

/// Returns at once; what is allocated stays, and is freed as before.
pub(crate) fn pool_destroy(turn: &mut Turn<'_>, pool: CUmemoryPool) -> Answer {
    turn.check_capture()?;
    let key = turn.pool(pool)?;
    let found = turn.pool_data(key)?;
    if found.is_default {
        return Err(CUresult::INVALID_VALUE);
    }
    if found.imported.is_some() && (!found.is_freed() || turn.state.has_held_frees(key)) {
        // It stays, and so does its memory (measured).
        return Err(CUresult::INVALID_VALUE);
    }
    let found = turn.pool_data(key)?;
    if found.imports > 0 {
        found.imports -= 1;
        return Ok(());
    }
    let by = turn.site;
    turn.state.pool_ends(key, by);
    turn.state.memory.end_pool(key, by);
    Ok(())
}

pub(crate) fn pool_trim(turn: &mut Turn<'_>, pool: CUmemoryPool, keep: usize) -> Answer {
    let key = turn.pool(pool)?;
    turn.check_capture()?;
    let found = turn.pool_data(key)?;
    if found.imported.is_some() {
        return Err(CUresult::INVALID_VALUE);
    }
    found.trim_to(keep as u64);
    Ok(())
}

pub(crate) fn pool_attribute(
    turn: &mut Turn<'_>,
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
    value: Out<c_void>,
) -> Answer {
    let value = value.required()?;
    let key = turn.pool(pool)?;
    turn.check_capture()?;
    let found = turn.pool_data(key)?;
    if found.imported.is_some() {
        return Err(CUresult::INVALID_VALUE);
    }
    match found.attribute(attribute)? {
        // SAFETY: *pointers*: the caller gave room for an attribute of this type.
        Value::Int(setting) => unsafe { value.as_ptr().cast::<c_int>().write_unaligned(setting) },
        // SAFETY: as above.
        Value::U64(bytes) => unsafe { value.as_ptr().cast::<cuuint64_t>().write_unaligned(bytes) },
    }
    Ok(())
}

pub(crate) fn pool_set_attribute(
    turn: &mut Turn<'_>,
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
    value: Out<c_void>,
) -> Answer {
    let value = value.required()?;
    let key = turn.pool(pool)?;
    turn.check_capture()?;
    let value = match is_int(attribute) {
        // SAFETY: *pointers*: the caller gave a value of this attribute's type.
        true => Value::Int(unsafe { value.as_ptr().cast::<c_int>().read_unaligned() }),
        // SAFETY: as above; an attribute that isn't known is refused below, after its value was read, as every one
        // of CUDA's has at least these 4 bytes.
        false if turn.pool_data(key)?.attribute(attribute).is_err() => {
            return Err(CUresult::INVALID_VALUE);
        }
        // SAFETY: as above.
        false => Value::U64(unsafe { value.as_ptr().cast::<cuuint64_t>().read_unaligned() }),
    };
    let found = turn.pool_data(key)?;
    if found.imported.is_some() {
        return Err(CUresult::INVALID_VALUE);
    }
    found.set_attribute(attribute, value)
}

/// All of the list or nothing. No list is refused, also where it would hold nothing (measured).
pub(crate) fn pool_set_access(
    turn: &mut Turn<'_>,
    pool: CUmemoryPool,
    list: In<CUmemAccessDesc>,
    count: usize,
) -> Answer {
    let key = turn.pool(pool)?;
    turn.check_capture()?;
    if list.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: *pointers*: the caller's array has as many entries as it says.
    let list = unsafe { list.read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    let is_on_host = turn.pool_data(key)?.is_on_host();
    // The memory of the host is near to all devices.
    let devices = match turn.state.options.peer_access || is_on_host {
        true => turn.state.devices.len(),
        false => 0,
    };
    let list = list
        .into_iter()
        .map(|entry| {
            let location = location_of(entry.location).ok_or(CUresult::INVALID_DEVICE)?;
            Ok((location, access_of(entry.flags)?))
        })
        .collect::<Result<Vec<_>, CUresult>>()?;
    let by = turn.site;
    let found = turn.pool_data(key)?;
    found.set_access(&list, devices)?;
    found.note_taken(&list, by);
    let pool = key.id();
    for (location, access) in list {
        if let (Location::Device(device), Access::None) = (location, access) {
            turn.state.host_revokes(Lent::Pool { pool, device }, by);
        }
    }
    Ok(())
}

pub(super) fn access_of(flags: CUmemAccess_flags) -> Result<Access, CUresult> {
    match flags {
        CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE => Ok(Access::None),
        CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ => Ok(Access::Read),
        CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE => Ok(Access::ReadWrite),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

pub(crate) fn pool_access(
    turn: &mut Turn<'_>,
    flags: Out<CUmemAccess_flags>,
    pool: CUmemoryPool,
    location: Out<CUmemLocation>,
) -> Answer {
    let flags = flags.required()?;
    let key = turn.pool(pool)?;
    turn.check_capture()?;
    let location = location.read().ok_or(CUresult::INVALID_VALUE)?;
    let location = location_of(location).ok_or(CUresult::INVALID_VALUE)?;
    if let Location::Device(device) = location
        && device >= turn.state.devices.len()
    {
        return Err(CUresult::INVALID_VALUE);
    }
    flags.write(match turn.pool_data(key)?.access(location) {
        Access::None => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
        Access::Read => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
        Access::ReadWrite => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    });
    Ok(())
}

pub(crate) fn device_default_pool(
    turn: &mut Turn<'_>,
    out: Out<CUmemoryPool>,
    device: CUdevice,
) -> Answer {
    let out = out.required()?;
    let index = turn.state.device_index(device)?;
    let memory = turn.state.memory.devices.get(index).ok_or(CUresult::INVALID_DEVICE)?;
    out.write(CUmemoryPool::from_addr(memory.default_pool.raw()));
    Ok(())
}

/// A device that isn't there is an invalid value here (measured), not an invalid device.
pub(crate) fn device_pool(turn: &mut Turn<'_>, out: Out<CUmemoryPool>, device: CUdevice) -> Answer {
    let out = out.required()?;
    let index = usize::try_from(device).ok();
    let memory = index.and_then(|index| turn.state.memory.devices.get(index));
    let memory = memory.ok_or(CUresult::INVALID_VALUE)?;
    out.write(CUmemoryPool::from_addr(memory.current_pool.raw()));
    Ok(())
}

/// The pool must be one of the device's own.
pub(crate) fn device_set_pool(turn: &mut Turn<'_>, device: CUdevice, pool: CUmemoryPool) -> Answer {
    let index = turn.state.device_index(device)?;
    let key = turn.pool(pool)?;
    turn.check_capture()?;
    let found = turn.pool_data(key)?;
    let is_its = found.location == Location::Device(index) && !found.is_managed();
    if !is_its || found.imported.is_some() {
        return Err(CUresult::INVALID_VALUE);
    }
    if let Some(memory) = turn.state.memory.devices.get_mut(index) {
        memory.current_pool = key;
    }
    Ok(())
}
