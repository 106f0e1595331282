//! The bytes of one device allocation: kept in pages that exist only once they were written, so that an allocation
//! of a hundred gigabytes costs nothing until it is used.
//!
//! Device memory is uncleared when it is allocated. Bytes that were never written read as [`UNCLEARED`], so that code
//! which relies on zeros fails here too.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use crate::order::Shadow;

/// What a byte reads as before it was written.
pub(crate) const UNCLEARED: u8 = 0xa5;

const PAGE_BYTES: usize = 64 * 1024;

/// Bytes that are addressed by offset. The caller has checked the bounds; what lies outside is left alone.
#[derive(Debug)]
pub(crate) struct Bytes {
    size_bytes: usize,
    pages: BTreeMap<usize, Box<[u8]>>,
}

impl Bytes {
    pub(crate) const fn new(size_bytes: usize) -> Self {
        Self { size_bytes, pages: BTreeMap::new() }
    }

    /// Copies the bytes from `offset` on into `out`.
    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) {
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let within = at % PAGE_BYTES;
            let count = rest.len().min(PAGE_BYTES - within);
            let (head, tail) = rest.split_at_mut(count);
            match self.pages.get(&(at / PAGE_BYTES)).and_then(|p| p.get(within..within + count)) {
                Some(bytes) => head.copy_from_slice(bytes),
                None => head.fill(UNCLEARED),
            }
            at += count;
            rest = tail;
        }
    }

    /// Writes `bytes` from `offset` on.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = at % PAGE_BYTES;
            let (head, tail) = rest.split_at(rest.len().min(PAGE_BYTES - within));
            if let Some(place) = self.page(at / PAGE_BYTES).get_mut(within..within + head.len()) {
                place.copy_from_slice(head);
            }
            at += head.len();
            rest = tail;
        }
    }

    fn page(&mut self, index: usize) -> &mut [u8] {
        let length = self.size_bytes.saturating_sub(index * PAGE_BYTES).min(PAGE_BYTES);
        self.pages.entry(index).or_insert_with(|| vec![UNCLEARED; length].into_boxed_slice())
    }

    /// How many bytes of host memory are in use.
    #[cfg(test)]
    fn resident_bytes(&self) -> usize {
        self.pages.values().map(|p| p.len()).sum()
    }
}

/// The bytes of memory that several allocations are: mappings of the same physical memory, memory that another process
/// opened. Locked for one access only.
#[derive(Debug)]
pub(crate) struct SharedBytes {
    bytes: Mutex<Bytes>,
    shadow: Arc<Shadow>,
}

impl SharedBytes {
    pub(crate) fn new(size_bytes: usize) -> Self {
        Self::of(Bytes::new(size_bytes), Arc::default())
    }

    /// Bytes that were one allocation's, with what touched them.
    pub(crate) const fn of(bytes: Bytes, shadow: Arc<Shadow>) -> Self {
        Self { bytes: Mutex::new(bytes), shadow }
    }

    /// What touched them.
    pub(crate) const fn shadow(&self) -> &Arc<Shadow> {
        &self.shadow
    }

    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) {
        self.bytes.lock().read(offset, out);
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.bytes.lock().write(offset, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritten_bytes_read_as_uncleared_and_cost_nothing() {
        let bytes = Bytes::new(1 << 40);
        let mut out = [0; 5];
        bytes.read((1 << 39) - 2, &mut out);
        assert_eq!(out, [UNCLEARED; 5]);
        assert_eq!(bytes.resident_bytes(), 0);
    }

    #[test]
    fn a_write_across_a_page_s_end_is_read_back_and_leaves_its_neighbours() {
        let mut bytes = Bytes::new(3 * PAGE_BYTES);
        bytes.write(PAGE_BYTES - 2, &[1, 2, 3, 4]);
        let mut out = [0; 6];
        bytes.read(PAGE_BYTES - 3, &mut out);
        assert_eq!(out, [UNCLEARED, 1, 2, 3, 4, UNCLEARED]);
        assert_eq!(bytes.resident_bytes(), 2 * PAGE_BYTES);
    }

    #[test]
    fn the_last_page_is_as_short_as_the_allocation() {
        let mut bytes = Bytes::new(100);
        bytes.write(99, &[7]);
        assert_eq!(bytes.resident_bytes(), 100);
    }
}
