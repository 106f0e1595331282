//! Which memory a piece of work touches, as the checker of order sees it.

use std::sync::Arc;

use super::{
    Memory,
    space::{Allocation, Origin},
};
use crate::{
    audit::{CallSite, ObjectKind},
    order::{Lent, Shadow, Strip},
};

/// A box of more rows isn't looked at where it lies in several allocations.
const ROWS_MAX: usize = 1 << 10;

/// Bytes of one allocation.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) shadow: Arc<Shadow>,
    /// The allocation's number.
    pub(crate) id: u64,
    pub(crate) object: (ObjectKind, u64),
    pub(crate) made: CallSite,
    /// The bytes, counted from the memory's beginning.
    pub(crate) strip: Strip,
    /// The index of the device whose memory it is.
    pub(crate) device: usize,
    /// Who has to be given access to it.
    pub(crate) lent: Option<Lent>,
    /// It ends by itself: other allocations are the same memory and stay.
    pub(crate) is_borrowed: bool,
}

impl Piece {
    fn new(found: &Allocation, strip: Strip) -> Self {
        let device = found.device;
        let lent = match found.origin {
            Origin::Pool(pool) => Some(Lent::Pool { pool: pool.id(), device }),
            Origin::Mapped => Some(Lent::Mapping { allocation: found.id, device }),
            origin => origin.owner().map(|owner| Lent::Context { owner: owner.id(), user: 0 }),
        };
        let is_borrowed =
            matches!(found.origin, Origin::Mapped | Origin::Imported(_)) || found.import.is_some();
        Self {
            shadow: Arc::clone(&found.shadow),
            id: found.id,
            object: (found.origin.kind(), found.base),
            made: found.made,
            strip: strip.at(strip.start - found.base),
            device,
            lent: lent.filter(|_| !found.is_on_host()),
            is_borrowed,
        }
    }
}

impl Memory {
    /// What a box of bytes lies in; nothing where no memory of CUDA's is.
    pub(crate) fn pieces(&self, strip: Strip) -> Vec<Piece> {
        let Some(found) = self.space.containing(strip.start) else { return Vec::new() };
        if strip.end() <= found.base.saturating_add(found.size_bytes) {
            return vec![Piece::new(found, strip)];
        }
        let mut pieces = Vec::new();
        for row in strip.row_starts().take(ROWS_MAX) {
            let end = row.saturating_add(strip.width);
            for found in self.space.mappings_along(row, strip.width) {
                let start = row.max(found.base);
                let until = end.min(found.base.saturating_add(found.size_bytes));
                pieces.push(Piece::new(found, Strip::range(start, until.saturating_sub(start))));
            }
        }
        pieces
    }

    /// All of the allocation that begins at `base`.
    pub(crate) fn whole_piece(&self, base: u64) -> Option<Piece> {
        let found = self.space.at(base)?;
        Some(Piece::new(found, Strip::range(base, found.size_bytes)))
    }
}
