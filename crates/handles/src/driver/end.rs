//! The end of a driver: its last value is gone, and with it the last object. What is left to do is to give back the
//! primary contexts that it retained.
//!
//! That may wait for the GPU, and the last value may go inside a callback of the driver, where no call may be made. So
//! what is left of the driver becomes the last record on its own reclaimer's list.

#![expect(unsafe_code, reason = "releases primary contexts, and is a record itself")]

use super::{Shared, primary::Primary};
use crate::{
    error::Error,
    object::{Object, ObjectKind},
    reclaim::{Record, Recorded},
    report::{CudaWarning, Fate, foreign},
};
use cuhold_driver_sys::{Calls, Failure, Life};
use std::ptr::NonNull;

/// What is left of a driver, on its way to the reclaimer's thread.
#[repr(C)]
struct Ending {
    record: Record,
    shared: Shared,
}

// SAFETY: *first field*: `repr(C)`, the record in front. *Release*: `Shared` is `Send`.
unsafe impl Recorded for Ending {
    unsafe fn release(record: NonNull<Record>) {
        // SAFETY: the record was made from a box by `of`, and is released once.
        let ending = unsafe { Box::from_raw(record.cast::<Self>().as_ptr()) };
        let mut shared = ending.shared;
        for (failure, Primary { raw, id, .. }) in release_all(&mut shared) {
            let object = Object { kind: ObjectKind::PrimaryContext, raw: raw.addr() as u64, id };
            shared.raise(CudaWarning::failed(failure, object, Fate::Unknown));
        }
        let_go(shared);
    }

    unsafe fn worker(_: NonNull<Record>) -> Option<usize> {
        // The dispatcher may wait: no other record can come.
        None
    }
}

/// Ends a driver whose last value was dropped. Makes no call.
pub(super) fn of(mut shared: Shared) {
    // In a forked child and at exit there is nothing to release: the contexts end with the process.
    if shared.primaries.is_empty() || shared.api.life() != Life::Live {
        return let_go(shared);
    }
    let inlet = shared.reclaim.inlet();
    let ending = Box::new(Ending { record: Record::of::<Ending>(), shared });
    // SAFETY: *first field*; nobody else has the box, which is given to the list.
    unsafe { inlet.push_last(NonNull::from(Box::leak(ending)).cast()) };
}

/// Ends a driver on this thread, and returns what failed.
pub(super) fn here(mut shared: Shared) -> Option<Error> {
    let mut failures = release_all(&mut shared).into_iter();
    let error = failures.next().map(|(failure, _)| {
        failures.fold(Error::from(failure), |error, (failure, _)| error.with_failure(failure))
    });
    let_go(shared);
    error
}

/// Gives back every retain, after what crates above keep for the context. Those that failed in a process that isn't
/// ending are answered.
fn release_all(shared: &mut Shared) -> Vec<(Failure, Primary)> {
    let primaries = shared.primaries.take();
    let shared = &*shared;
    let calls = Calls::new(&*shared.api);
    let mut failed = Vec::new();
    for (device, primary) in primaries {
        primary.extras.end(calls, &mut |warning| shared.raise(warning));
        // SAFETY: the driver retained this device's primary context itself, once, and no object of it is left.
        if let Err(failure) = unsafe { calls.cuDevicePrimaryCtxRelease_v2(device) } {
            failed.push((failure, primary));
        }
    }
    if shared.api.life() == Life::Live { failed } else { Vec::new() }
}

/// Drops what is left: the threads end, and the functions, which are the user's own it may be, are dropped.
fn let_go(shared: Shared) {
    let Shared { api, reports, reclaim, .. } = shared;
    reclaim.end();
    let live = api.life() == Life::Live;
    if let Err(caught) = foreign::drop_caught(api)
        && live
    {
        let owner = Object::nameless(ObjectKind::Owner);
        reports.raise(CudaWarning::panicked(owner, caught.payload()));
    }
}
