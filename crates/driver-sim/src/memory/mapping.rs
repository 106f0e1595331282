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
    order::Lent,
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

    /// Whether a device may use a mapped range as it `needs`; with no device in question, whether any may use each part.
    pub(super) fn mapping_is_usable(
        &self,
        (address, size_bytes): (u64, u64),
        device: Option<usize>,
        needs: Access,
    ) -> bool {
        self.space.mappings_along(address, size_bytes).all(|found| match device {
            Some(device) => {
                found.access.get(&Location::Device(device)).is_some_and(|access| *access >= needs)
            }
            None => found.access.values().any(|access| *access >= needs),
        })
    }

    /// Whether a range has an address that a reservation has.
    fn is_reserved(&self, start: u64, size_bytes: u64) -> bool {
        let before = self.reservations.range(..start.saturating_add(size_bytes)).next_back();
        before.is_some_and(|(base, found)| base + found.size_bytes > start)
    }
}

pub(crate) fn reserve(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    size: usize,
    alignment: usize,
    hint: CUdeviceptr,
    flags: c_ulonglong,
) -> Answer {
    let out = out.required()?;
    let size_bytes = size as u64;
    let is_aligned = alignment == 0 || alignment.is_power_of_two();
    // Not of the host's pages, as is documented, but of what is mapped there (measured).
    let is_whole = size_bytes.is_multiple_of(GRANULARITY_BYTES);
    // Where they are wished is whole as well (measured).
    let is_whole = is_whole && hint.is_multiple_of(GRANULARITY_BYTES);
    if size == 0 || !is_whole || !is_aligned || flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    if size_bytes > RESERVATION_MAX_BYTES {
        return Err(CUresult::OUT_OF_MEMORY);
    }
    let made = turn.site;
    let memory = &mut turn.state.memory;
    let is_whole = hint.is_multiple_of(GRANULARITY_BYTES.max(alignment as u64));
    let taken = memory.is_reserved(hint, size_bytes);
    // Only a wish: where it can't be had, others are.
    let there = (hint != 0 && is_whole)
        .then(|| memory.space.take_at(hint, size_bytes, |_, _| taken))
        .flatten();
    let base = there.or_else(|| memory.space.take_addresses(size_bytes, alignment as u64));
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
    let (made, device) = (turn.site, data.device());
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
    if size == 0 || turn.state.memory.reservation_around(start, 1).is_none() {
        return Err(CUresult::INVALID_VALUE);
    }
    for (base, _) in turn.state.memory.whole_mappings_in(start, size_bytes)? {
        turn.state.host_ends_memory(base, by);
        drop(turn.state.memory.remove(base, by, Ending::Destroyed));
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
            Some(Location::Device(device)) if device >= devices => {
                return Err(CUresult::INVALID_VALUE);
            }
            Some(location) => given.push((location, access)),
            None => return Err(CUresult::INVALID_VALUE),
        }
    }
    for (base, _) in &found {
        let mapping = turn.state.memory.space.at(*base);
        let Some(own) = mapping.and_then(|mapping| mapping.physical.as_ref()) else { continue };
        for (location, _) in &given {
            may_be_given(turn, own.1.location, *location)?;
        }
    }
    let by = turn.site;
    for (base, _) in found {
        let Some(mapping) = turn.state.memory.space.at_mut(base) else { continue };
        let allocation = mapping.id;
        for (location, access) in &given {
            if let (Location::Device(device), Access::None) = (*location, *access) {
                turn.state.host_revokes(Lent::Mapping { allocation, device }, by);
            }
        }
        let Some(mapping) = turn.state.memory.space.at_mut(base) else { continue };
        mapping.access.extend(given.iter().copied());
    }
    Ok(())
}

/// Whether somebody can be given access to memory that lies at `own`.
fn may_be_given(turn: &Turn<'_>, own: Location, location: Location) -> Answer {
    match (own, location) {
        (Location::Device(own), Location::Device(device))
            if own != device && !turn.state.options.peer_access =>
        {
            Err(CUresult::INVALID_DEVICE)
        }
        (_, Location::Device(_)) => Ok(()),
        // The host only where the memory is its own, as is documented.
        (Location::Host | Location::HostNuma(_), Location::Host | Location::HostNuma(_)) => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

pub(crate) fn access(
    turn: &mut Turn<'_>,
    flags: Out<c_ulonglong>,
    location: In<CUmemLocation>,
    address: CUdeviceptr,
) -> Answer {
    let flags = flags.required()?;
    let location = location.read().ok_or(CUresult::INVALID_VALUE)?;
    let location = match location_of(location) {
        Some(Location::Device(device)) if device >= turn.state.devices.len() => {
            return Err(CUresult::INVALID_DEVICE);
        }
        Some(location) => location,
        None => return Err(CUresult::INVALID_VALUE),
    };
    let found = turn.state.memory.space.containing(address);
    let Some(found) = found.filter(|found| found.origin == Origin::Mapped) else {
        // Written all the same (measured).
        flags.write(0);
        return Err(CUresult::INVALID_VALUE);
    };
    flags.write(match found.access.get(&location) {
        None | Some(Access::None) => 0,
        Some(Access::Read) => 1,
        Some(Access::ReadWrite) => 3,
    });
    Ok(())
}
