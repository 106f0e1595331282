//! Reserved addresses, what is mapped there, and who has access to it.
//!
//! ```text
//!   reserve ──► range without memory ──map──► memory that nobody may use ──set access──► memory
//!                        ▲ └────free──► nothing         └──────────unmap──────────────────┘
//!                        └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A mapping is of all of a physical allocation; a part of one is `NOT_SUPPORTED` (measured).
//!
//! None of these calls needs a context, and none waits for work (measured): work that still uses what is unmapped
//! faults.
//!
//! Source: CUDA Driver API 13.x, "Virtual Memory Management".

#![expect(unsafe_code, reason = "an access list is as long as the caller says")]

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{
    Memory,
    physical::GRANULARITY_BYTES,
    pool::Access,
    pool::Location,
    pools::{access_of, location_of},
    space::{Origin, Request},
};
use crate::{
    audit::CallSite,
    world::{Answer, Ending, In, Out, Turn},
};

/// The most that one reservation may take, in bytes: what a device's addresses have, 47 bits.
const RESERVATION_MAX_BYTES: u64 = 1 << 47;

/// A range of addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    pub(super) size_bytes: u64,
    pub(super) made: CallSite,
}

impl Memory {
    /// The reservation that a whole range lies in.
    fn reservation_around(&self, start: u64, size_bytes: u64) -> Option<(u64, Reservation)> {
        let (base, found) = self.reservations.range(..=start).next_back()?;
        let end = start.checked_add(size_bytes)?;
        (end <= base + found.size_bytes).then_some((*base, *found))
    }

    /// Where the mappings begin that have a byte in the range, each with its size.
    fn mappings_in(&self, start: u64, size_bytes: u64) -> Vec<(u64, u64)> {
        let end = start.saturating_add(size_bytes);
        let all = self.space.iter().filter(|found| found.origin == Origin::Mapped);
        all.filter(|found| found.base < end && found.base + found.size_bytes > start)
            .map(|found| (found.base, found.size_bytes))
            .collect()
    }

    /// The same, where they lie in the range whole.
    fn whole_mappings_in(&self, start: u64, size_bytes: u64) -> Result<Vec<(u64, u64)>, CUresult> {
        let found = self.mappings_in(start, size_bytes);
        let is_whole = |(base, size): &(u64, u64)| {
            *base >= start && base + size <= start.saturating_add(size_bytes)
        };
        if found.iter().all(is_whole) { Ok(found) } else { Err(CUresult::INVALID_VALUE) }
    }

    /// Whether a device may read and write a mapping; with no device in question, whether any may.
    pub(super) fn mapping_is_usable(&self, base: u64, device: Option<usize>) -> bool {
        let Some(found) = self.space.at(base) else { return false };
        match device {
            Some(device) => found.access.get(&device) == Some(&Access::ReadWrite),
            None => found.access.values().any(|access| *access == Access::ReadWrite),
        }
    }
}

pub(crate) fn reserve(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    size: usize,
    alignment: usize,
    _hint: CUdeviceptr,
    flags: c_ulonglong,
) -> Answer {
    let out = out.required()?;
    let size_bytes = size as u64;
    let is_aligned = alignment == 0 || alignment.is_power_of_two();
    // Not of the host's pages, as is documented, but of what is mapped there (measured).
    let is_whole = size_bytes.is_multiple_of(GRANULARITY_BYTES);
    if size == 0 || !is_whole || !is_aligned || flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    if size_bytes > RESERVATION_MAX_BYTES {
        return Err(CUresult::OUT_OF_MEMORY);
    }
    let made = turn.site;
    let memory = &mut turn.state.memory;
    let base = memory.space.take_addresses(size_bytes, alignment as u64);
    let base = base.ok_or(CUresult::OUT_OF_MEMORY)?;
    memory.reservations.insert(base, Reservation { size_bytes, made });
    out.write(base);
    Ok(())
}

/// Only the whole reservation, and only without a mapping (measured).
pub(crate) fn reservation_free(turn: &mut Turn<'_>, start: CUdeviceptr, size: usize) -> Answer {
    let memory = &mut turn.state.memory;
    let found = memory.reservations.get(&start).filter(|found| found.size_bytes == size as u64);
    if found.is_none() || !memory.mappings_in(start, size as u64).is_empty() {
        return Err(CUresult::INVALID_VALUE);
    }
    memory.reservations.remove(&start);
    Ok(())
}

pub(crate) fn map(
    turn: &mut Turn<'_>,
    start: CUdeviceptr,
    size: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: c_ulonglong,
) -> Answer {
    let key = turn.physical(handle)?;
    let data = turn.physical_data(key)?;
    let size_bytes = size as u64;
    if flags != 0 || size == 0 || !start.is_multiple_of(GRANULARITY_BYTES) {
        return Err(CUresult::INVALID_VALUE);
    }
    if offset != 0 || size_bytes != data.size_bytes {
        return Err(CUresult::NOT_SUPPORTED);
    }
    let memory = &mut turn.state.memory;
    if memory.reservation_around(start, size_bytes).is_none()
        || !memory.mappings_in(start, size_bytes).is_empty()
    {
        return Err(CUresult::INVALID_VALUE);
    }
    let (made, device) = (turn.site, data.device);
    let request = Request { size_bytes, origin: Origin::Mapped, device, made };
    let bytes = Arc::clone(&data.bytes);
    let space = &mut turn.state.memory.space;
    space.add_shared(start, request, bytes);
    if let Some(found) = space.at_mut(start) {
        found.physical = Some((key.raw(), data));
    }
    Ok(())
}

/// Takes away all mappings in a range, each of which must lie in it whole; that there are none is fine, and that the range
/// ends behind its reservation (measured).
pub(crate) fn unmap(turn: &mut Turn<'_>, start: CUdeviceptr, size: usize) -> Answer {
    let (size_bytes, by) = (size as u64, turn.site);
    let memory = &mut turn.state.memory;
    if size == 0 || memory.reservation_around(start, 1).is_none() {
        return Err(CUresult::INVALID_VALUE);
    }
    for (base, _) in memory.whole_mappings_in(start, size_bytes)? {
        drop(memory.remove(base, by, Ending::Destroyed));
    }
    Ok(())
}

/// All of the list or nothing. The range is mapped whole, and holds whole mappings.
pub(crate) fn set_access(
    turn: &mut Turn<'_>,
    start: CUdeviceptr,
    size: usize,
    list: In<CUmemAccessDesc>,
    count: usize,
) -> Answer {
    if list.is_null() || count == 0 || size == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: *pointers*: the caller's array has as many entries as it says.
    let list = unsafe { list.read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    let found = turn.state.memory.whole_mappings_in(start, size as u64)?;
    if found.iter().map(|(_, size)| size).sum::<u64>() != size as u64 {
        return Err(CUresult::INVALID_VALUE);
    }
    let devices = turn.state.devices.len();
    let mut given = Vec::with_capacity(list.len());
    for entry in list {
        let access = access_of(entry.flags)?;
        match location_of(entry.location) {
            Some(Location::Device(device)) if device < devices => given.push((device, access)),
            _ => return Err(CUresult::INVALID_VALUE),
        }
    }
    for (base, _) in found {
        let Some(mapping) = turn.state.memory.space.at_mut(base) else { continue };
        let own = mapping.device;
        if !turn.state.options.peer_access && given.iter().any(|(device, _)| *device != own) {
            return Err(CUresult::INVALID_DEVICE);
        }
        let Some(mapping) = turn.state.memory.space.at_mut(base) else { continue };
        mapping.access.extend(given.iter().copied());
    }
    Ok(())
}

pub(crate) fn access(
    turn: &mut Turn<'_>,
    flags: Out<c_ulonglong>,
    location: In<CUmemLocation>,
    address: CUdeviceptr,
) -> Answer {
    let flags = flags.required()?;
    let location = location.read().ok_or(CUresult::INVALID_VALUE)?;
    let device = match location_of(location) {
        Some(Location::Device(device)) if device < turn.state.devices.len() => device,
        Some(Location::Device(_)) => return Err(CUresult::INVALID_DEVICE),
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let found = turn.state.memory.space.containing(address);
    let Some(found) = found.filter(|found| found.origin == Origin::Mapped) else {
        // Written all the same (measured).
        flags.write(0);
        return Err(CUresult::INVALID_VALUE);
    };
    flags.write(match found.access.get(&device) {
        None | Some(Access::None) => 0,
        Some(Access::Read) => 1,
        Some(Access::ReadWrite) => 3,
    });
    Ok(())
}
