//! Mappings side by side: one range of addresses for whoever uses them, whatever they map.

use super::{Allocation, Origin, Space};

impl Space {
    /// The mappings that a range begins in and goes on through, by address; they end where it isn't mapped any more.
    pub(crate) fn mappings_along(
        &self,
        address: u64,
        size_bytes: u64,
    ) -> impl Iterator<Item = &Allocation> {
        let end = address.saturating_add(size_bytes);
        let mut next = address;
        std::iter::from_fn(move || {
            let found = (next < end).then(|| self.containing(next)).flatten()?;
            next = found.base.saturating_add(found.size_bytes);
            (found.origin == Origin::Mapped).then_some(found)
        })
    }

    /// Whether a range lies in mappings from its first byte to its last.
    pub(super) fn is_mapped_through(&self, address: u64, size_bytes: u64) -> bool {
        let last = self.mappings_along(address, size_bytes).last();
        last.is_some_and(|last| {
            last.base.saturating_add(last.size_bytes) >= address.saturating_add(size_bytes)
        })
    }

    /// How many bytes of a range lie in its first mapping, where it goes on behind it.
    pub(super) fn head_of_run(&self, address: u64, len: usize) -> Option<usize> {
        let first = self.containing(address).filter(|first| first.origin == Origin::Mapped)?;
        let head = usize::try_from(first.size_bytes - (address - first.base)).ok()?;
        (head < len).then_some(head)
    }

    /// Takes just these addresses, if nothing was ever given out there: `is_taken` says what else is.
    pub(crate) fn take_at(
        &mut self,
        base: u64,
        size_bytes: u64,
        is_taken: impl FnOnce(u64, u64) -> bool,
    ) -> Option<u64> {
        let end = base.checked_add(size_bytes)?;
        let is_free = base >= super::FIRST_DEVICE_ADDRESS
            && !self.overlaps(base, size_bytes)
            && !is_taken(base, size_bytes);
        if !is_free {
            return None;
        }
        self.next_address = self.next_address.max(end.checked_add(super::GUARD_BYTES)?);
        Some(base)
    }
}
