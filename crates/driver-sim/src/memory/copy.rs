//! What a copy or a fill will do: checked when it is called, done when its stream comes to it.
//!
//! Between the two, memory may have been freed by another context's or device's call, which doesn't wait for this
//! stream. Then the work meets an address that isn't there: a violation, and the fault that was measured for it.
//!
//! Pageable host memory is read when the call is made, and written when the work is done.

#![expect(unsafe_code, reason = "pageable memory is reached through the caller's pointers")]

use std::sync::Arc;

use cuhold_driver_sys::CUresult;

use super::{
    Memory, host,
    pool::{Access, Location, Pool},
    space::{Misplaced, Origin, Place},
};
use crate::{
    audit::CallSite,
    order::{Op, Strip, Touch},
    world::{Answer, Key, State},
};

/// Bytes are moved in pieces of at most this, in bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// A box of bytes: slices of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) width_bytes: u64,
    pub(super) rows: u64,
    pub(super) slices: u64,
}

impl Extent {
    pub(super) const fn row(width_bytes: u64) -> Self {
        Self { width_bytes, rows: 1, slices: 1 }
    }

    pub(super) const fn is_empty(self) -> bool {
        self.width_bytes == 0 || self.rows == 0 || self.slices == 0
    }

    /// Every row, as its slice and its place there.
    fn each_row(self) -> impl Iterator<Item = Row> {
        (0..self.slices).flat_map(move |slice| (0..self.rows).map(move |row| Row { slice, row }))
    }
}

/// A row of a box.
#[derive(Clone, Copy, Debug)]
struct Row {
    slice: u64,
    row: u64,
}

/// Where a box begins, and how far apart its rows and its slices are, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) address: u64,
    pub(super) pitch_bytes: u64,
    pub(super) slice_bytes: u64,
}

impl Side {
    pub(super) const fn linear(address: u64) -> Self {
        Self { address, pitch_bytes: 0, slice_bytes: 0 }
    }

    /// From the first byte of the box to its last; `None` if no address space holds that.
    fn span(self, extent: Extent) -> Option<u64> {
        let slices = self.slice_bytes.checked_mul(extent.slices.checked_sub(1)?)?;
        let rows = self.pitch_bytes.checked_mul(extent.rows.checked_sub(1)?)?;
        slices.checked_add(rows)?.checked_add(extent.width_bytes)
    }

    /// The bytes of a box.
    pub(super) const fn strip(self, extent: Extent) -> Strip {
        Strip {
            start: self.address,
            width: extent.width_bytes,
            pitch: self.pitch_bytes,
            rows: extent.rows,
            slice: self.slice_bytes,
            slices: extent.slices,
        }
    }

    /// Where a row begins. The span was checked.
    const fn row(self, row: Row) -> u64 {
        self.address + row.slice * self.slice_bytes + row.row * self.pitch_bytes
    }
}

/// What a call's name says about one of its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expect {
    /// Memory that CUDA knows, but no pool's of the host (measured).
    Device,
    /// Memory that CUDA knows, and the device may reach: that of a fill.
    Filled,
    /// That, or the host's own.
    Any,
}

/// One side of planned work.
#[derive(Debug)]
enum End {
    Known {
        id: u64,
        origin: Origin,
        side: Side,
        /// Memory of another process: a free takes it away at once.
        is_import: bool,
        /// The device that was found to have access to a pool's memory.
        reaches: Option<usize>,
    },
    Pageable(Side),
    /// What the rows held when the call was made, one behind the other.
    Staged(Vec<u8>),
}

/// Why a plan was refused with `INVALID_VALUE`: a plain argument, or misused memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    Value,
    Misplaced(Misplaced),
}

impl From<Misplaced> for Refusal {
    fn from(misplaced: Misplaced) -> Self {
        Self::Misplaced(misplaced)
    }
}

/// Who asks: what decides which memory a call may name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    /// The index of the current context's device, if a context is current and the call depends on it.
    pub(super) current_device: Option<usize>,
    /// The index of the device that will do the work, where that is known.
    pub(super) working_device: Option<usize>,
    /// The work becomes a node: memory of graphs may be named, and pageable memory is read when the graph runs.
    pub(super) captured: bool,
    pub(super) by: CallSite,
}

/// A copy that was checked.
#[derive(Debug)]
pub(super) struct Copy {
    extent: Extent,
    source: End,
    destination: End,
    by: CallSite,
}

/// A fill that was checked.
#[derive(Debug)]
pub(super) struct Fill {
    extent: Extent,
    target: End,
    /// The value's bytes, repeated.
    pattern: [u8; 4],
    by: CallSite,
}

impl Memory {
    /// Checks one side of work. At least one byte is to be moved.
    fn plan_end(
        &self,
        side: Side,
        extent: Extent,
        (expect, needs): (Expect, Access),
        asker: Asker,
    ) -> Result<End, Refusal> {
        let span = side.span(extent).ok_or(Refusal::Value)?;
        let id = match self.space.locate(side.address, span)? {
            Place::Pageable if expect != Expect::Any || side.address == 0 => {
                return Err(Refusal::Value);
            }
            Place::Pageable => return Ok(End::Pageable(side)),
            Place::Known { id, .. } => id,
        };
        let Some(found) = self.space.containing(side.address) else { return Err(Refusal::Value) };
        let usable = match found.origin {
            Origin::Graph(_) => asker.captured || self.graph_memory_is_live(found.base),
            Origin::Mapped => {
                // A copy, not a fill, over several mappings needs a current context (measured).
                let anywhere = asker.captured
                    || asker.current_device.is_some()
                    || expect == Expect::Filled
                    || self.space.mappings_along(side.address, span).nth(1).is_none();
                anywhere
                    && self.mapping_is_usable((side.address, span), asker.current_device, needs)
            }
            Origin::Pool(pool) if self.is_of_host(pool) => match expect {
                Expect::Device => false,
                Expect::Filled => {
                    asker.working_device.is_none_or(|d| self.is_granted_to(d, side.address))
                }
                Expect::Any => true,
            },
            Origin::Pool(_) => asker.current_device.is_none_or(|d| self.may_reach(d, side.address)),
            _ => true,
        };
        let (origin, is_import) = (found.origin, found.import.is_some());
        let is_pooled = matches!(origin, Origin::Pool(_));
        let reaches = asker.current_device.filter(|_| is_pooled);
        if usable {
            Ok(End::Known { id, origin, side, is_import, reaches })
        } else {
            Err(Refusal::Value)
        }
    }

    /// Whether it is a pool of the host's memory, which managed memory isn't.
    fn is_of_host(&self, pool: Key<Pool>) -> bool {
        let is_of_host = |pool: &Pool| {
            !pool.is_managed() && matches!(pool.location, Location::Host | Location::HostNuma(_))
        };
        self.pool(pool).is_some_and(is_of_host)
    }

    /// Whether a device was given access to pool memory.
    fn is_granted_to(&self, device: usize, address: u64) -> bool {
        let Some(found) = self.space.containing(address) else { return false };
        let Origin::Pool(pool) = found.origin else { return false };
        self.pool(pool).is_some_and(|pool| pool.is_open_to(device))
    }

    /// Whether a device may reach pool memory: its own, or what it was given access to.
    pub(super) fn may_reach(&self, device: usize, address: u64) -> bool {
        let Some(found) = self.space.containing(address) else { return false };
        let is_pool_s = matches!(found.origin, Origin::Pool(_));
        let is_near = found.is_on_host() || found.device == device;
        is_pool_s && (is_near || self.is_granted_to(device, address))
    }

    /// Checks a copy of at least one byte.
    ///
    /// # Safety
    /// *pointers*: pageable memory that it names is valid: the source until this returns (until the work is done, if
    /// it is captured), the destination until the work is done.
    pub(super) unsafe fn plan_copy(
        &self,
        extent: Extent,
        source: (Side, Expect),
        destination: (Side, Expect),
        asker: Asker,
    ) -> Result<Copy, Refusal> {
        let mut from = self.plan_end(source.0, extent, (source.1, Access::Read), asker)?;
        let expect = (destination.1, Access::ReadWrite);
        let destination = self.plan_end(destination.0, extent, expect, asker)?;
        if let (End::Pageable(side), false) = (&from, asker.captured) {
            // SAFETY: *pointers*: a pageable source is readable now.
            from = End::Staged(unsafe { stage(*side, extent) }.ok_or(Refusal::Value)?);
        }
        Ok(Copy { extent, source: from, destination, by: asker.by })
    }

    /// Checks a fill of at least one byte.
    pub(super) fn plan_fill(
        &self,
        extent: Extent,
        target: Side,
        pattern: [u8; 4],
        asker: Asker,
    ) -> Result<Fill, Refusal> {
        let target = self.plan_end(target, extent, (Expect::Filled, Access::ReadWrite), asker)?;
        Ok(Fill { extent, target, pattern, by: asker.by })
    }

    /// Whether one side of work is still what it was when it was checked.
    fn still_there(&self, end: &End, extent: Extent) -> Result<(), Misplaced> {
        let End::Known { id, side, origin, .. } = end else { return Ok(()) };
        let there = self.space.containing(side.address).is_some_and(|found| found.id == *id);
        // Of mappings side by side each has to be there.
        let is_one = *origin != Origin::Mapped;
        let whole = || self.space.locate(side.address, side.span(extent).unwrap_or(u64::MAX));
        if there && (is_one || whole().is_ok()) {
            return Ok(());
        }
        match (whole(), self.space.freed_at(side.address)) {
            (Err(misplaced), _) => Err(misplaced),
            // Page-locked memory whose address is the host's own again.
            (Ok(_), Some(freed)) => Err(Misplaced::Freed(freed)),
            (Ok(_), None) => Err(Misplaced::Wild { address: side.address }),
        }
    }

    fn read_end(&self, end: &End, extent: Extent, row: Row, at: u64, out: &mut [u8]) {
        match end {
            End::Known { side, .. } => {
                let address = side.row(row) + at;
                // Checked by `still_there`, and nothing runs in between.
                self.space.read(address, out).unwrap_or_default();
            }
            End::Pageable(side) => {
                let address = side.row(row) + at;
                // SAFETY: *pointers* of `plan_copy`: captured work that reads it is done before it ends.
                unsafe { host::read(host_address(address), out) };
            }
            End::Staged(rows) => {
                let number = row.slice * extent.rows + row.row;
                let begin = number * extent.width_bytes + at;
                let begin = usize::try_from(begin).unwrap_or(usize::MAX);
                if let Some(bytes) = rows.get(begin..).and_then(|rest| rest.get(..out.len())) {
                    out.copy_from_slice(bytes);
                }
            }
        }
    }

    fn write_end(&mut self, end: &End, row: Row, at: u64, bytes: &[u8]) {
        match end {
            End::Known { side, .. } => {
                let address = side.row(row) + at;
                // Checked by `still_there`, and nothing runs in between.
                self.space.write(address, bytes).unwrap_or_default();
            }
            End::Pageable(side) => {
                let address = side.row(row) + at;
                // SAFETY: *pointers* of `plan_copy`: the destination is valid until the work is done.
                unsafe { host::write(host_address(address), bytes) };
            }
            End::Staged(_) => {}
        }
    }
}

/// The rows of a box of pageable memory, one behind the other; `None` if the host can't hold them twice.
///
/// # Safety
/// *pointers*: the box is readable.
unsafe fn stage(side: Side, extent: Extent) -> Option<Vec<u8>> {
    let width = usize::try_from(extent.width_bytes).ok()?;
    let mut rows = Vec::new();
    let total = extent.slices.checked_mul(extent.rows)?.checked_mul(extent.width_bytes)?;
    let total = usize::try_from(total).ok()?;
    rows.try_reserve_exact(total).ok()?;
    rows.resize(total, 0);
    for (row, out) in extent.each_row().zip(rows.chunks_exact_mut(width)) {
        // SAFETY: *pointers*: a row of the box.
        unsafe { host::read(host_address(side.row(row)), out) };
    }
    Some(rows)
}

fn host_address(address: u64) -> usize {
    usize::try_from(address).unwrap_or(usize::MAX)
}

impl Copy {
    /// Whether its source was read when it was checked.
    pub(super) const fn is_staged(&self) -> bool {
        matches!(self.source, End::Staged(_))
    }

    /// Whether it writes pageable memory.
    pub(super) const fn ends_pageable(&self) -> bool {
        matches!(self.destination, End::Pageable(_))
    }

    /// Whether neither side is a device's memory: then the driver copies before it returns.
    pub(super) fn is_on_host(&self, memory: &Memory) -> bool {
        self.touches_host(memory, &self.source) && self.touches_host(memory, &self.destination)
    }

    /// Whether the blocking form waits: a side is the host's, or memory whose copies were set to be synchronous.
    pub(super) fn blocks(&self, memory: &Memory) -> bool {
        [&self.source, &self.destination].into_iter().any(|end| {
            self.touches_host(memory, end)
                || matches!(end, End::Known { side, .. }
                    if memory.space.containing(side.address).is_some_and(|a| a.sync_memops))
        })
    }

    fn touches_host(&self, memory: &Memory, end: &End) -> bool {
        match end {
            End::Known { side, .. } => {
                memory.space.containing(side.address).is_some_and(|found| found.is_on_host())
            }
            End::Pageable(_) | End::Staged(_) => true,
        }
    }

    /// Moves the bytes.
    pub(super) fn run(&self, state: &mut State) -> Answer {
        for end in [&self.source, &self.destination] {
            if let Err(misplaced) = state.memory.still_there(end, self.extent) {
                return fault(state, end, misplaced, self.by);
            }
            if let End::Known { side, reaches: Some(device), .. } = end
                && !state.memory.may_reach(*device, side.address)
            {
                return Err(state.violate_access(side.address, *device, self.by));
            }
        }
        if let Some(op) = state.op(self.by) {
            touch(state, &op, &self.source, self.extent, Touch::Read);
            touch(state, &op, &self.destination, self.extent, Touch::Write);
        }
        let mut piece = Vec::new();
        for row in self.extent.each_row() {
            let mut at = 0;
            while at < self.extent.width_bytes {
                let count = PIECE_BYTES.min(self.extent.width_bytes - at);
                piece.resize(usize::try_from(count).unwrap_or_default(), 0);
                state.memory.read_end(&self.source, self.extent, row, at, &mut piece);
                state.memory.write_end(&self.destination, row, at, &piece);
                at += count;
            }
        }
        Ok(())
    }
}

impl Fill {
    /// Whether the blocking form waits: the target is the host's, or its fills were set to be synchronous.
    pub(super) fn blocks(&self, memory: &Memory) -> bool {
        let End::Known { side, .. } = self.target else { return false };
        let found = memory.space.containing(side.address);
        found.is_some_and(|found| found.is_on_host() || found.sync_memops)
    }

    /// Writes the bytes.
    pub(super) fn run(&self, state: &mut State) -> Answer {
        if let Err(misplaced) = state.memory.still_there(&self.target, self.extent) {
            return fault(state, &self.target, misplaced, self.by);
        }
        if let Some(op) = state.op(self.by) {
            touch(state, &op, &self.target, self.extent, Touch::Write);
        }
        let piece_bytes = PIECE_BYTES.min(self.extent.width_bytes);
        let piece: Vec<u8> = self
            .pattern
            .iter()
            .copied()
            .cycle()
            .take(usize::try_from(piece_bytes).unwrap_or_default())
            .collect();
        for row in self.extent.each_row() {
            let mut at = 0;
            while at < self.extent.width_bytes {
                let count = piece_bytes.min(self.extent.width_bytes - at);
                let bytes = piece.get(..usize::try_from(count).unwrap_or_default());
                state.memory.write_end(&self.target, row, at, bytes.unwrap_or_default());
                at += count;
            }
        }
        Ok(())
    }
}

/// Tells the checker of order what work does to one of its sides.
fn touch(state: &mut State, op: &Arc<Op>, end: &End, extent: Extent, touch: Touch) {
    match end {
        End::Known { side, .. } => state.touch(op, side.strip(extent), touch),
        End::Pageable(side) => state.touch_pageable(op, side.strip(extent), touch),
        // Read when the call was made.
        End::Staged(_) => {}
    }
}

/// Queued work met memory of one of its sides that isn't there any more.
fn fault(state: &mut State, end: &End, misplaced: Misplaced, by: CallSite) -> Answer {
    let origin = match end {
        End::Known { is_import: true, .. } => None,
        End::Known { origin, .. } => Some(*origin),
        End::Pageable(_) | End::Staged(_) => None,
    };
    fault_at(state, origin, misplaced, by)
}

/// Queued work met memory that isn't there any more. What the device says was measured: page-locked memory, memory of
/// a context. Pool memory and arrays stay mapped for a while, so that the work does nothing worse than touch another's bytes.
pub(super) fn fault_at(
    state: &mut State,
    origin: Option<Origin>,
    misplaced: Misplaced,
    by: CallSite,
) -> Answer {
    state.violate_misplaced(misplaced, by);
    match origin {
        Some(Origin::Pool(_) | Origin::Graph(_) | Origin::Behind(_)) => Ok(()),
        Some(Origin::Host(..) | Origin::Registered(_)) => Err(CUresult::LAUNCH_FAILED),
        _ => Err(CUresult::ILLEGAL_ADDRESS),
    }
}
