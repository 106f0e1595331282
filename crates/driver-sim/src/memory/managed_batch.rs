//! Managed memory in batches: prefetched, discarded, or both. All of a batch, or nothing of it.
//!
//! What is discarded has no particular content until it is written again: here every byte of it becomes `0xDC`, so that
//! whoever reads it sees that.
//!
//! Source: CUDA Driver API 13.x, "Unified Addressing".

#![expect(unsafe_code, reason = "reads the caller's arrays")]

use std::{ops::Range, sync::Arc};

use cuhold_driver_sys::ffi::*;

use super::{
    advice::{Spot, pages},
    copy::{Extent, Fill, Side},
};
use crate::{
    graph::NodeKind,
    queue::Work,
    stream::Target,
    world::{Answer, Out, Turn},
};

/// What discarded bytes become.
const DISCARDED: u8 = 0xDC;

/// A range of managed memory.
struct Part {
    address: u64,
    bytes: usize,
    base: u64,
    /// The allocation's number.
    id: u64,
}

impl Part {
    fn pages(&self) -> Range<u64> {
        pages(self.address - self.base, self.bytes as u64)
    }
}

type Parts = (Out<CUdeviceptr>, Out<usize>, usize);
type Places = (Out<CUmemLocation>, Out<usize>, usize);

impl Turn<'_> {
    /// A stream that a batch may be queued on: not the legacy default stream, and here not one that is captured.
    fn batch_stream(&mut self, stream: CUstream, flags: c_ulonglong) -> Result<Target, CUresult> {
        if stream.addr() <= CU_STREAM_LEGACY.addr() || flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let target = self.stream(stream)?;
        self.not_lost()?;
        self.capture_usable(target)?;
        // No kind of node that the simulator has.
        if self.is_capturing(target) { Err(CUresult::MISSING) } else { Ok(target) }
    }

    fn parts(&mut self, (addresses, sizes, count): Parts) -> Result<Vec<Part>, CUresult> {
        if count == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        // SAFETY: *pointers*: the caller's arrays have `count` entries.
        let addresses = unsafe { addresses.as_in().read_all(count) };
        // SAFETY: as above.
        let sizes = unsafe { sizes.as_in().read_all(count) };
        let (Some(addresses), Some(sizes)) = (addresses, sizes) else {
            return Err(CUresult::INVALID_VALUE);
        };
        let mut parts = Vec::with_capacity(count);
        for (address, bytes) in addresses.into_iter().zip(sizes) {
            let base = self.managed_range(address, bytes)?;
            let id = self.state.memory.space.at(base).map_or(0, |found| found.id);
            parts.push(Part { address, bytes, base, id });
        }
        Ok(parts)
    }

    /// Where each part goes: a location holds from its index on, to the next one's. The first index is 0.
    fn spots(
        &self,
        (locations, indices, count): Places,
        parts: usize,
    ) -> Result<Vec<Spot>, CUresult> {
        // SAFETY: *pointers*: the caller's arrays have as many entries as it says.
        let locations = unsafe { locations.as_in().read_all(count) };
        // SAFETY: as above.
        let indices = unsafe { indices.as_in().read_all(count) };
        let (Some(locations), Some(indices)) = (locations, indices) else {
            return Err(CUresult::INVALID_VALUE);
        };
        let fits = indices.first() == Some(&0)
            && indices.is_sorted_by(|a, b| a < b)
            && indices.last().is_some_and(|last| *last < parts);
        if !fits {
            return Err(CUresult::INVALID_VALUE);
        }
        let mut spots = Vec::with_capacity(parts);
        let ends = indices.iter().skip(1).copied().chain([parts]);
        for (location, end) in locations.into_iter().zip(ends) {
            let spot = self.placed(location)?;
            spots.resize(end, spot);
        }
        Ok(spots)
    }

    fn send(&mut self, target: Target, parts: Vec<Part>, spots: Vec<Spot>) -> Answer {
        let work = Work::OnState(Arc::new(move |state| {
            for (part, spot) in parts.iter().zip(&spots) {
                // Nothing is moved, so that memory that was freed meanwhile does no harm.
                let found = state.memory.space.at_mut(part.base).filter(|a| a.id == part.id);
                if let Some(found) = found {
                    found.advised.change(part.pages(), |page| page.sent_to = *spot);
                }
            }
            Ok(())
        }));
        self.enqueue(target, NodeKind::Memcpy, work)
    }

    /// The fills by which parts lose their content.
    fn discards(&mut self, target: Target, parts: &[Part]) -> Result<Vec<Fill>, CUresult> {
        let mut asker = self.asker(target);
        asker.current_device = None;
        let mut fills = Vec::with_capacity(parts.len());
        for part in parts {
            let (side, extent) = (Side::linear(part.address), Extent::row(part.bytes as u64));
            let planned = self.state.memory.plan_fill(extent, side, [DISCARDED; 4], asker);
            fills.push(planned.map_err(|refusal| self.refuse_plan(refusal))?);
        }
        Ok(fills)
    }

    fn discard(&mut self, target: Target, fills: Vec<Fill>) -> Answer {
        let work =
            Work::OnState(Arc::new(move |state| fills.iter().try_for_each(|fill| fill.run(state))));
        self.enqueue(target, NodeKind::Memset, work)
    }
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn prefetch_batch(
    turn: &mut Turn<'_>,
    addresses: Out<CUdeviceptr>,
    sizes: Out<usize>,
    count: usize,
    locations: Out<CUmemLocation>,
    indices: Out<usize>,
    locations_count: usize,
    flags: c_ulonglong,
    stream: CUstream,
) -> Answer {
    let target = turn.batch_stream(stream, flags)?;
    let parts = turn.parts((addresses, sizes, count))?;
    let spots = turn.spots((locations, indices, locations_count), count)?;
    turn.send(target, parts, spots)
}

pub(crate) fn discard_batch(
    turn: &mut Turn<'_>,
    addresses: Out<CUdeviceptr>,
    sizes: Out<usize>,
    count: usize,
    flags: c_ulonglong,
    stream: CUstream,
) -> Answer {
    let target = turn.batch_stream(stream, flags)?;
    let parts = turn.parts((addresses, sizes, count))?;
    let fills = turn.discards(target, &parts)?;
    turn.discard(target, fills)
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn discard_and_prefetch_batch(
    turn: &mut Turn<'_>,
    addresses: Out<CUdeviceptr>,
    sizes: Out<usize>,
    count: usize,
    locations: Out<CUmemLocation>,
    indices: Out<usize>,
    locations_count: usize,
    flags: c_ulonglong,
    stream: CUstream,
) -> Answer {
    let target = turn.batch_stream(stream, flags)?;
    let parts = turn.parts((addresses, sizes, count))?;
    let spots = turn.spots((locations, indices, locations_count), count)?;
    let fills = turn.discards(target, &parts)?;
    turn.discard(target, fills)?;
    turn.send(target, parts, spots)
}
