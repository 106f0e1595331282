//! Work of any kind on the reclaimer's list, for values that carry no record of their own: the cold paths.

#![expect(unsafe_code, reason = "a box travels through the list as a raw record")]

use super::{Inlet, Record, Recorded};
use crate::report::foreign;
use cuhold_driver_sys::ffi::CUcontext;
use std::ptr::NonNull;

/// A closure with its record.
#[repr(C)]
struct Deferred<W> {
    record: Record,
    worker: Option<usize>,
    work: W,
}

// SAFETY: *first field*: `repr(C)`, the record in front. *Release*: the closure is `Send`, and the box is whole.
unsafe impl<W: FnOnce() + Send + 'static> Recorded for Deferred<W> {
    unsafe fn release(record: NonNull<Record>) {
        // SAFETY: *first field*; the record was made from `Box::into_raw` by `defer`, and is released once.
        let deferred = unsafe { Box::from_raw(record.cast::<Self>().as_ptr()) };
        // The closures are ours and don't panic on purpose; the reclaimer's thread outlives one that does.
        drop(foreign::call(deferred.work));
    }

    unsafe fn worker(record: NonNull<Record>) -> Option<usize> {
        // SAFETY: *first field*: the record is the front of a live `Self`.
        unsafe { record.cast::<Self>().as_ref() }.worker
    }
}

impl Inlet {
    /// Leaves work to the reclaimer; with `waits_for`, work that may wait for that context, on its worker. Takes no
    /// lock and makes no call, but allocates.
    pub fn defer(&self, waits_for: Option<CUcontext>, work: impl FnOnce() + Send + 'static) {
        fn record_of<W: FnOnce() + Send + 'static>(_: &W) -> Record {
            Record::of::<Deferred<W>>()
        }
        let worker = waits_for.map(CUcontext::addr);
        let deferred = Box::new(Deferred { record: record_of(&work), worker, work });
        if let Some(deferred) = NonNull::new(Box::into_raw(deferred)) {
            // SAFETY: *first field*; nobody else knows the box, and it is given to the list.
            unsafe { self.push(deferred.cast()) };
        }
    }
}
