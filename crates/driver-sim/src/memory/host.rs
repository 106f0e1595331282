//! Host memory: page-locked blocks that the simulated driver owns, and raw access to the memory of its callers.
//!
//! Host memory is real memory at its real address, since the program reads and writes it itself. It is touched here
//! by copying only; no reference to it is ever made.

#![expect(unsafe_code, reason = "host memory is reached through the caller's pointers")]

use core::{
    ptr,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};
use std::alloc::{Layout, alloc_zeroed, dealloc};

const PAGE_BYTES: usize = 4096;

/// A page-aligned block of host memory, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct HostBlock {
    /// Invariant: came from `alloc_zeroed(layout)`; nothing else gives it back.
    address: ptr::NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is owned by this value alone and isn't tied to the thread that allocated it.
unsafe impl Send for HostBlock {}

impl HostBlock {
    /// Allocates `size_bytes`, or `None` if the host has no such block to give.
    pub(crate) fn new(size_bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size_bytes.max(1), PAGE_BYTES).ok()?;
        // SAFETY: the layout's size isn't 0.
        let address = unsafe { alloc_zeroed(layout) };
        Some(Self { address: ptr::NonNull::new(address)?, layout })
    }

    /// The block's address; what is read and written through it is this block.
    pub(crate) fn address(&self) -> usize {
        self.address.as_ptr().expose_provenance()
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        // SAFETY: by the invariant of `address`, allocated with this layout and not given back before.
        unsafe { dealloc(self.address.as_ptr(), self.layout) }
    }
}

/// Copies host memory into `out`.
///
/// # Safety
/// `out.len()` bytes from `address` on are readable, and nobody writes them meanwhile.
pub(crate) unsafe fn read(address: usize, out: &mut [u8]) {
    let source: *const u8 = ptr::with_exposed_provenance(address);
    // SAFETY: readable by the caller's promise; `out` is writable; a copy, so overlap is allowed.
    unsafe { ptr::copy(source, out.as_mut_ptr(), out.len()) }
}

/// Copies `bytes` to host memory.
///
/// # Safety
/// `bytes.len()` bytes from `address` on are writable, and nobody else touches them meanwhile.
pub(crate) unsafe fn write(address: usize, bytes: &[u8]) {
    let target: *mut u8 = ptr::with_exposed_provenance_mut(address);
    // SAFETY: writable by the caller's promise; `bytes` is readable; a copy, so overlap is allowed.
    unsafe { ptr::copy(bytes.as_ptr(), target, bytes.len()) }
}

macro_rules! atomics {
    ($($load:ident $store:ident $type:ty, $atomic:ty;)*) => { $(
        /// Reads a value that others may write at the same time.
        ///
        /// # Safety
        /// The address is aligned, and readable; whoever touches it meanwhile does so atomically.
        pub(crate) unsafe fn $load(address: usize) -> $type {
            // SAFETY: valid, aligned and only touched atomically, by the caller's promise.
            let value = unsafe { <$atomic>::from_ptr(ptr::with_exposed_provenance_mut(address)) };
            value.load(Ordering::Acquire)
        }

        /// Writes a value that others may read at the same time.
        ///
        /// # Safety
        /// The address is aligned, and writable; whoever touches it meanwhile does so atomically.
        pub(crate) unsafe fn $store(address: usize, value: $type) {
            // SAFETY: as above.
            let place = unsafe { <$atomic>::from_ptr(ptr::with_exposed_provenance_mut(address)) };
            place.store(value, Ordering::Release);
        }
    )* };
}

atomics! {
    load_u32 store_u32 u32, AtomicU32;
    load_u64 store_u64 u64, AtomicU64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_page_aligned_and_holds_what_was_written() {
        let block = HostBlock::new(5).unwrap();
        assert_eq!(block.address() % PAGE_BYTES, 0);
        // SAFETY: within the block, which nobody else knows.
        unsafe { write(block.address() + 1, &[1, 2, 3]) };
        let mut out = [9; 5];
        // SAFETY: as above.
        unsafe { read(block.address(), &mut out) };
        assert_eq!(out, [0, 1, 2, 3, 0]);
    }

    #[test]
    fn a_block_larger_than_the_host_is_none() {
        assert!(HostBlock::new(usize::MAX / 2).is_none());
        assert!(HostBlock::new(usize::MAX).is_none());
    }
}
