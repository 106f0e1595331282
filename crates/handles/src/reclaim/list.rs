//! The intrusive list: records that are pushed from anywhere with one compare-and-swap and taken all at once.
//!
//! A record is part of the object that it releases, so the list allocates nothing and is never full. Pushing takes no
//! lock and makes no call: it is what a callback of the driver may do.

#![expect(unsafe_code, reason = "an intrusive list of raw records")]

use std::{
    fmt, ptr,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, Ordering},
};

/// An object that carries a [`Record`] and can be released through it.
///
/// # Safety
/// - *first field*: a pointer to the object is a pointer to its record;
/// - *release*: the functions may be called on any thread with a record that was pushed.
pub unsafe trait Recorded {
    /// Releases the object.
    ///
    /// # Safety
    /// `record` is the front of a `Self` that was pushed, and is released once.
    unsafe fn release(record: NonNull<Record>);

    /// Which worker must release it, where that may wait for the GPU; `None` where it never waits. A context's address
    /// is that context's own worker; 0 is any that is idle.
    ///
    /// # Safety
    /// `record` is the front of a live `Self`.
    unsafe fn worker(record: NonNull<Record>) -> Option<usize>;
}

struct Functions {
    release: unsafe fn(NonNull<Record>),
    worker: unsafe fn(NonNull<Record>) -> Option<usize>,
}

/// The list's part of an object.
pub struct Record {
    next: AtomicPtr<Self>,
    functions: &'static Functions,
}

impl Record {
    /// The record of a `T`, on no list.
    #[must_use]
    pub fn of<T: Recorded>() -> Self {
        let functions = const { &Functions { release: T::release, worker: T::worker } };
        Self { next: AtomicPtr::new(ptr::null_mut()), functions }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").finish_non_exhaustive()
    }
}

/// A record taken off a list: released once, or lost with what it belongs to.
#[must_use]
pub(super) struct Taken(NonNull<Record>);

// SAFETY: *release*: records are made to be released on any thread.
unsafe impl Send for Taken {}

impl Taken {
    pub(super) fn worker(&self) -> Option<usize> {
        // SAFETY: the record was pushed by the contract of `List::push` and isn't released yet.
        let functions = unsafe { self.0.as_ref() }.functions;
        // SAFETY: *release*: as above.
        unsafe { (functions.worker)(self.0) }
    }

    pub(super) fn release(self) {
        // SAFETY: the record was pushed by the contract of `List::push` and isn't released yet.
        let functions = unsafe { self.0.as_ref() }.functions;
        // SAFETY: *release*: this takes the record, so it is released once.
        unsafe { (functions.release)(self.0) };
    }
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct List {
    head: AtomicPtr<Record>,
}

impl List {
    /// Puts a record on the list.
    ///
    /// # Safety
    /// `record` is the front of a live object that nobody else uses, and is on no list. The list owns it now.
    pub(super) unsafe fn push(&self, record: NonNull<Record>) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's promise: live, and nobody else's.
            unsafe { record.as_ref() }.next.store(head, Ordering::Relaxed);
            match self.head.compare_exchange_weak(
                head,
                record.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything, oldest first.
    pub(super) fn take(&self) -> Batch {
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut oldest = ptr::null_mut();
        while let Some(record) = NonNull::new(newest) {
            // SAFETY: the chain was swapped out whole: its records are live and only ours.
            let next = &unsafe { record.as_ref() }.next;
            newest = next.load(Ordering::Relaxed);
            next.store(oldest, Ordering::Relaxed);
            oldest = record.as_ptr();
        }
        Batch(oldest)
    }
}

/// Records that were taken off the list, oldest first. What isn't taken from it stays alive for good.
#[derive(Debug)]
pub(super) struct Batch(*mut Record);

// SAFETY: *release*: records are made to be released on any thread, and the chain is only this batch's.
unsafe impl Send for Batch {}

impl Default for Batch {
    fn default() -> Self {
        Self(ptr::null_mut())
    }
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_null()
    }
}

impl Iterator for Batch {
    type Item = Taken;

    fn next(&mut self) -> Option<Taken> {
        let record = NonNull::new(self.0)?;
        // SAFETY: the chain's records are live and only ours.
        self.0 = unsafe { record.as_ref() }.next.load(Ordering::Relaxed);
        Some(Taken(record))
    }
}
