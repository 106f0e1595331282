//! What touched the bytes of an allocation, as far as later work may still meet it.
//!
//! Allocations that are the same bytes have one of these in common: mappings of one physical allocation, memory of
//! another process. So places are counted from the beginning of the memory, not of the address space.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Op, clock::Clock, strip::Strip};

/// Beyond so many, those are forgotten that the host has seen the end of, and beyond twice as many the oldest.
const KEPT: usize = 128;

/// What work does to bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Touch {
    /// It reads them.
    Read,
    /// It writes them.
    Write,
    /// It changes them in one step, as atomic operations and values that streams write do.
    Atomic,
    /// The memory begins.
    Begin,
    /// The memory ends: freed, unmapped, closed.
    End,
}

impl Touch {
    /// Whether two of them to the same bytes need an order.
    fn minds(self, other: Self) -> bool {
        let is_mild = |touch| matches!(touch, Self::Read | Self::Atomic);
        !(is_mild(self) && is_mild(other))
    }

    /// Whether nothing of an earlier one is left for later work to meet, which stands behind this one.
    const fn covers(self, earlier: Self) -> bool {
        match self {
            Self::Read => matches!(earlier, Self::Read),
            Self::Atomic => matches!(earlier, Self::Read | Self::Atomic),
            Self::Write | Self::Begin | Self::End => true,
        }
    }
}

/// Something that touched bytes.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) strip: Strip,
    pub(crate) touch: Touch,
    pub(crate) op: Arc<Op>,
    /// The allocation through which it did, of the op's process.
    pub(crate) through: u64,
}

/// What touched memory.
#[derive(Default, Debug)]
pub(crate) struct Shadow(Mutex<Vec<Entry>>);

impl Shadow {
    /// One more touch. Gives what it should have stood behind and didn't.
    pub(crate) fn touch(&self, entry: Entry, host: impl Fn() -> Clock) -> Vec<Entry> {
        let mut kept = self.0.lock();
        let is_over = |earlier: &Entry| {
            earlier.touch == Touch::End && !matches!(entry.touch, Touch::Begin | Touch::End)
        };
        let unordered = |earlier: &&Entry| {
            earlier.touch.minds(entry.touch)
                && !Arc::ptr_eq(&earlier.op, &entry.op)
                && earlier.strip.meets(&entry.strip)
                && (is_over(earlier) || !entry.op.is_behind(&earlier.op))
        };
        let met: Vec<Entry> = kept.iter().filter(unordered).cloned().collect();
        if let Some(same) = kept.last_mut()
            && Arc::ptr_eq(&same.op, &entry.op)
            && (same.touch, same.through) == (entry.touch, entry.through)
            && same.strip.extend(&entry.strip)
        {
            return met;
        }
        kept.retain(|earlier| {
            !(entry.touch.covers(earlier.touch)
                && entry.strip.holds(&earlier.strip)
                && (Arc::ptr_eq(&earlier.op, &entry.op) || entry.op.is_behind(&earlier.op)))
        });
        if kept.len() >= KEPT {
            let host = host();
            kept.retain(|earlier| !earlier.op.is_known(&host));
        }
        if kept.len() >= 2 * KEPT {
            kept.remove(0);
        }
        kept.push(entry);
        met
    }

    /// What touched it that `is_done` doesn't say is over; through one allocation, or at all.
    pub(crate) fn open(
        &self,
        through: Option<(u64, u64)>,
        is_done: impl Fn(&Op) -> bool,
    ) -> Vec<Entry> {
        let kept = self.0.lock();
        let is_its = |entry: &&Entry| {
            through.is_none_or(|(process, id)| entry.op.process == process && entry.through == id)
        };
        let open = kept
            .iter()
            .filter(is_its)
            .filter(|entry| entry.touch != Touch::End && !is_done(&entry.op));
        open.cloned().collect()
    }

    /// Teaches a clock all that wrote these bytes.
    pub(crate) fn writers(&self, strip: &Strip, clock: &mut Clock) -> bool {
        let kept = self.0.lock();
        let mut learnt = false;
        for entry in
            kept.iter().filter(|entry| entry.touch != Touch::Read && entry.strip.meets(strip))
        {
            learnt |= entry.op.teach(clock);
        }
        learnt
    }
}
