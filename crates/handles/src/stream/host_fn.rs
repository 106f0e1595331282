//! Host functions: a closure that the driver runs between two pieces of a stream's work.
//!
//! The closure is boxed together with its record, so that the driver's thread, which may make no call and should free
//! nothing, only pushes the box on the reclaimer's list when the closure is done. Who may touch the closure is decided
//! by one atomic exchange: the driver's thread, or the caller to whom the call's failure gave it back.

#![expect(unsafe_code, reason = "a closure travels through the driver as a raw pointer")]

use super::StreamRef;
use crate::{
    callback,
    driver::Driver,
    error::{Refused, Result},
    object::{Object, ObjectKind},
    reclaim::{Record, Recorded},
    report::{
        CudaWarning,
        foreign::{self, Caught},
    },
};
use cuhold_driver_sys::ffi::c_void;
use parking_lot::Mutex;
use std::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A closure on its way through the driver.
#[repr(C)]
struct HostCall<F> {
    record: Record,
    driver: Driver,
    id: u64,
    /// Whoever sets it may take the closure.
    taken: AtomicBool,
    closure: UnsafeCell<ManuallyDrop<F>>,
    panic: Mutex<Option<Caught>>,
}

// SAFETY: the closure is `Send`, and the exchange in `take` gives it to one thread alone; the rest is `Sync`.
unsafe impl<F: Send> Sync for HostCall<F> {}

impl<F: FnOnce() + Send + 'static> HostCall<F> {
    /// Takes the closure, if nobody did.
    fn take(&self) -> Option<F> {
        if self.taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: the exchange above lets one caller alone come here.
        let closure = unsafe { &mut *self.closure.get() };
        // SAFETY: as above: taken once.
        Some(unsafe { ManuallyDrop::take(closure) })
    }

    fn object(&self) -> Object {
        Object { kind: ObjectKind::Callback, raw: 0, id: self.id }
    }

    /// What the driver calls, on a thread of its own.
    ///
    /// # Safety
    ///
    /// - `data` is the pointer that `launch` gave to the driver, and the driver calls once.
    unsafe extern "C" fn run(data: *mut c_void) {
        let Some(call) = NonNull::new(data.cast::<Self>()) else { return };
        // SAFETY: the pointer is that of the reference that `launch` gave to the driver, which this call gives on below.
        let this = unsafe { call.as_ref() };
        let Some(closure) = this.take() else { return };
        if let Err(caught) = foreign::call(|| callback::enter(closure)) {
            // Never contended: the record isn't pushed yet.
            *this.panic.lock() = Some(caught);
        }
        // Not the driver, which could end here, where no call may be made.
        let inlet = this.driver.reclaim().inlet();
        // SAFETY: *first field*; the driver's reference is given to the list.
        unsafe { inlet.push(call.cast()) };
    }
}

// SAFETY: *first field*: `repr(C)`, the record in front. *Release*: as the trait asks; the closure is `Send`.
unsafe impl<F: FnOnce() + Send + 'static> Recorded for HostCall<F> {
    unsafe fn release(record: NonNull<Record>) {
        // SAFETY: the reference that `launch` gave to the driver, given back once.
        let this = unsafe { Arc::from_raw(record.cast::<Self>().as_ptr()) };
        if let Some(caught) = this.panic.lock().take() {
            this.driver.warn(CudaWarning::panicked(this.object(), caught.payload()));
        }
    }

    unsafe fn worker(_: NonNull<Record>) -> Option<usize> {
        None
    }
}

/// Queues the closure on the stream.
pub(super) fn launch<F: FnOnce() + Send + 'static>(
    stream: StreamRef<'_>,
    closure: F,
) -> Result<(), Refused<Option<F>>> {
    let driver = stream.driver();
    if let Err(error) = driver.check_callable() {
        return Err(Refused::new(error, Some(closure)));
    }
    driver.reclaim().prepare();
    let call = Arc::new(HostCall {
        record: Record::of::<HostCall<F>>(),
        driver: driver.clone(),
        id: driver.next_id(),
        taken: AtomicBool::new(false),
        closure: UnsafeCell::new(ManuallyDrop::new(closure)),
        panic: Mutex::new(None),
    });
    let data = Arc::into_raw(Arc::clone(&call));
    let result = stream.run(|calls| {
        // SAFETY: *handles*: the stream is live. *Calls back*: `run` doesn't unwind, and `data` is a reference of its
        // own, which lives until it ran.
        unsafe {
            calls.cuLaunchHostFunc(stream.raw(), Some(HostCall::<F>::run), data.cast_mut().cast())
        }
    });
    let Err(error) = result else { return Ok(()) };
    if error.completed().is_some() {
        // Queued; only the caller's context couldn't be put back. The closure runs.
        return Err(Refused::new(error, None));
    }
    if error.status().is_none() {
        // SAFETY: no call was made, so the driver's reference is still the one made above.
        drop(unsafe { Arc::from_raw(data) });
    }
    // Else that reference stays for good, empty: a call that failed may have been queued all the same (P7).
    Err(Refused::new(error, call.take()))
}
