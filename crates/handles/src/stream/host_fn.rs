//! Host functions: a closure that the driver runs between two pieces of a stream's work.
//!
//! ```text
//!   launch ──► waiting ─┬─ the driver calls ─► ran ──► the reclaimer's list: a panic is reported, memory freed
//!                       ├─ the launch failed ─► back to the caller          ┐ the driver's reference stays for good,
//!                       └─ the stream ended in a lost driver ─► dropped     ┘ empty: it might call all the same (P7)
//! ```
//!
//! The closure is boxed together with its record, so that the driver's thread, which may make no call and should free
//! nothing, only pushes the box on the reclaimer's list when the closure is done. Which of the three gets the closure is
//! decided by one atomic exchange.

#![expect(unsafe_code, reason = "a closure travels through the driver as a raw pointer")]

use super::StreamRef;
use crate::{
    callback,
    driver::Driver,
    error::{Refused, Result},
    object::{Object, ObjectKind},
    reclaim::{Inlet, Record, Recorded},
    report::{
        CudaWarning,
        foreign::{self, Caught},
    },
};
use cuhold_driver_sys::{ffi::c_void, mutant};
use parking_lot::Mutex;
use std::{
    cell::UnsafeCell,
    collections::BTreeMap,
    fmt, mem,
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
    inlet: Inlet,
    place: Place,
    /// Whoever sets it may take the closure.
    taken: AtomicBool,
    stage: UnsafeCell<Stage<F>>,
}

/// The stream's number and the closure's own.
type Place = (u64, u64);

enum Stage<F> {
    /// Keeps the driver, whose end would leave nobody to release what the call leaves behind.
    Waiting {
        closure: F,
        driver: Driver,
    },
    Ran {
        driver: Driver,
        panic: Option<Caught>,
    },
    Over,
}

// SAFETY: the closure is `Send`, and the stage is only reached by the one thread to which the exchange in `take` gave
// it, then by the one that takes the record off the list; the rest is `Sync`.
unsafe impl<F: Send> Sync for HostCall<F> {}

impl<F: FnOnce() + Send + 'static> HostCall<F> {
    /// The closure, for whoever asks first.
    fn take(&self) -> Option<(F, Driver)> {
        if self.taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: the exchange above lets one caller alone come here.
        let stage = unsafe { &mut *self.stage.get() };
        match mem::replace(stage, Stage::Over) {
            Stage::Waiting { closure, driver } => Some((closure, driver)),
            Stage::Ran { .. } | Stage::Over => None,
        }
    }

    fn object(&self) -> Object {
        Object { kind: ObjectKind::Callback, raw: 0, id: self.place.1 }
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
        let Some((closure, driver)) = this.take() else { return };
        let panic = foreign::call(|| callback::enter(closure)).err();
        // SAFETY: the closure came to this thread, and with it the stage, until the record is pushed.
        let stage = unsafe { &mut *this.stage.get() };
        // The driver goes on with the record: it could end here, where no call may be made.
        *stage = Stage::Ran { driver, panic };
        let inlet = this.inlet.clone();
        // SAFETY: *first field*; the driver's reference is given to the list.
        unsafe { inlet.push(call.cast()) };
    }
}

// SAFETY: *first field*: `repr(C)`, the record in front. *Release*: as the trait asks; the closure is `Send`.
unsafe impl<F: FnOnce() + Send + 'static> Recorded for HostCall<F> {
    unsafe fn release(record: NonNull<Record>) {
        // SAFETY: the reference that `launch` gave to the driver, given back once.
        let this = unsafe { Arc::from_raw(record.cast::<Self>().as_ptr()) };
        // SAFETY: the thread that had the stage pushed the record, so it is this one's now.
        let stage = unsafe { &mut *this.stage.get() };
        let Stage::Ran { driver, panic } = mem::replace(stage, Stage::Over) else { return };
        driver.waiting().remove(this.place);
        if let Some(caught) = panic
            && !mutant::is_out("callback-panic")
        {
            driver.warn(CudaWarning::panicked(this.object(), caught.payload()));
        }
    }

    unsafe fn worker(_: NonNull<Record>) -> Option<usize> {
        None
    }
}

/// A closure that the driver may still call.
trait Waits: Send + Sync {
    /// Drops the closure and says so, unless it was called.
    fn abandon(&self);
}

impl<F: FnOnce() + Send + 'static> Waits for HostCall<F> {
    fn abandon(&self) {
        let Some((closure, driver)) = self.take() else { return };
        let dropped = foreign::drop_caught(closure);
        driver.warn(CudaWarning::note(
            self.object(),
            "the driver never called this closure, which is dropped with its stream",
        ));
        if let Err(caught) = dropped {
            driver.warn(CudaWarning::panicked(self.object(), caught.payload()));
        }
    }
}

/// The closures on streams of ours that their driver hasn't called yet.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<BTreeMap<Place, Arc<dyn Waits>>>);

impl Waiting {
    fn add(&self, place: Place, call: Arc<dyn Waits>) {
        self.0.lock().insert(place, call);
    }

    fn remove(&self, place: Place) {
        // Dropped when the lock is free again: possibly the last reference.
        let _call: Option<Arc<dyn Waits>> = self.0.lock().remove(&place);
    }

    /// Drops the closures of a stream that ended in a lost driver, which calls nothing any more.
    pub(crate) fn abandon(&self, stream: u64) {
        loop {
            let next =
                self.0.lock().range((stream, 0)..=(stream, u64::MAX)).next().map(|(at, _)| *at);
            let Some(place) = next else { return };
            let call = self.0.lock().remove(&place);
            if let Some(call) = call {
                call.abandon();
            }
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

/// Queues the closure on the stream.
pub(super) fn launch<F: FnOnce() + Send + 'static>(
    stream: StreamRef<'_>,
    closure: F,
) -> Result<(), Refused<Option<F>>> {
    let driver = stream.driver();
    let allowed = driver.check_callable().and_then(|()| stream.check_not_captured());
    if let Err(error) = allowed {
        return Err(Refused::new(error, Some(closure)));
    }
    driver.reclaim().prepare();
    let place = (stream.created_id().unwrap_or(0), driver.next_id());
    let call = Arc::new(HostCall {
        record: Record::of::<HostCall<F>>(),
        inlet: driver.reclaim().inlet(),
        place,
        taken: AtomicBool::new(false),
        stage: UnsafeCell::new(Stage::Waiting { closure, driver: driver.clone() }),
    });
    if stream.created_id().is_some() {
        driver.waiting().add(place, Arc::<HostCall<F>>::clone(&call));
    }
    let data = Arc::into_raw(Arc::clone(&call));
    let mut asked = false;
    let result = stream.run(|calls| {
        asked = true;
        // SAFETY: *handles*: the stream is live. *Calls back*: `run` doesn't unwind, and `data` is a reference of its
        // own, which lives until it ran.
        unsafe {
            calls.cuLaunchHostFunc(stream.raw(), Some(HostCall::<F>::run), data.cast_mut().cast())
        }
    });
    let Err(error) = result else { return Ok(()) };
    if error.completed().is_some() && !mutant::is_out("publish") {
        // Queued; only the caller's context couldn't be put back. The closure runs.
        return Err(Refused::new(error, None));
    }
    driver.waiting().remove(place);
    if !asked {
        // SAFETY: the driver wasn't asked, so its reference is still the one made above.
        drop(unsafe { Arc::from_raw(data) });
    }
    Err(Refused::new(error, call.take().map(|(closure, _)| closure)))
}
