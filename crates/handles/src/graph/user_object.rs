//! User objects: values of the program's own that graphs keep alive.
//!
//! ```text
//!   new ──► kept ─┬─ the last reference goes: the driver calls ──► the reclaimer's list: the value is dropped there
//!                 └─ the creation failed: the value comes back, its shell stays (the driver might call all the same)
//! ```
//!
//! The driver calls on a thread of its own or inside a call of ours (measured: inside `cuGraphDestroy`), and allows no
//! call there. So nothing is dropped there either: the value is handed to the reclaimer.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use crate::{
    driver::Driver,
    error::{Refused, Result},
    object::{Object, ObjectKind},
    reclaim::{Inlet, Record, Recorded},
    report::{CudaWarning, foreign},
    resource::{Alone, Closed, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*, mutant};
use std::{
    cell::UnsafeCell,
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering},
};

/// The resource behind [`UserObject`].
#[derive(Debug)]
pub(crate) struct UserObjectRes;

// SAFETY: *ends*: `cuUserObjectRelease` of the one reference that this value holds. *Dependencies*: the driver alone; the
// value is the driver's until it calls.
unsafe impl Resource for UserObjectRes {
    type Raw = CUuserObject;
    type Deps = Driver;
    const KIND: ObjectKind = ObjectKind::UserObject;
    const DESTROY: Option<Call> = Some(Call::cuUserObjectRelease);

    fn driver(deps: &Driver) -> &Driver {
        deps
    }
    fn context(_: &Driver) -> CUcontext {
        CUcontext::NULL
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUuserObject, _: &Driver) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise, and with a reference to give back.
        unsafe { calls.cuUserObjectRelease(raw, 1) }
    }
}

/// A value that the driver keeps while somebody has a reference to it: this handle, and the graphs that
/// [keep](crate::Graph::keep) it, their executables, launches under way.
///
/// When the last reference goes, the value is dropped on the reclaimer, never on a thread of the driver; until then it
/// keeps the [`Driver`]. It is not dropped at the process's exit (measured: the driver then calls nothing).
///
/// Its drop calls `cuUserObjectRelease`.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, Graph, UserObject};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let weights = vec![1.0_f32; 1024];
/// let mut graph = Graph::new(device.context())?;
/// graph.keep(&UserObject::new(&driver, weights)?)?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct UserObject(Alone<UserObjectRes>);

impl UserObject {
    /// Gives the driver a value to keep.
    ///
    /// Calls `cuUserObjectCreate`.
    ///
    /// # Errors
    /// The call's failure: `NOT_INITIALIZED` before the first [`Device`](crate::Device). The value comes back.
    #[doc(alias = "cuUserObjectCreate")]
    pub fn new<T: Send + 'static>(driver: &Driver, value: T) -> Result<Self, Refused<Option<T>>> {
        if let Err(error) = driver.check_callable() {
            return Err(Refused::new(error, Some(value)));
        }
        driver.reclaim().prepare();
        let shell = Box::into_raw(Box::new(Shell {
            record: Record::of::<Shell<T>>(),
            inlet: driver.reclaim().inlet(),
            taken: AtomicBool::new(false),
            content: UnsafeCell::new(Some(Content { value, driver: driver.clone() })),
        }));
        let make = |calls: Calls<'_>, _: &Driver| {
            let mut raw = CUuserObject::NULL;
            let flags = CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.0;
            // SAFETY: *pointers*: `raw` is a live local. *Calls back*: `ended` doesn't unwind, and `shell` lives until
            // it was called.
            unsafe {
                calls.cuUserObjectCreate(
                    &raw mut raw,
                    shell.cast(),
                    Some(Shell::<T>::ended),
                    1,
                    flags,
                )
            }?;
            Ok(raw)
        };
        match Alone::create(Call::cuUserObjectCreate, driver.clone(), make) {
            Ok(object) => Ok(Self(object)),
            Err(error) => {
                // SAFETY: nobody frees the shell but `release`, which only a call of `ended` leads to; the value is
                // this call's if that didn't come first.
                let content = unsafe { &*shell }.take();
                Err(Refused::new(error, content.map(|content| content.value)))
            }
        }
    }

    /// Gives back this handle's reference here and now.
    ///
    /// Calls `cuUserObjectRelease`.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked.
    #[doc(alias = "cuUserObjectRelease")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|refused| Refused::new(refused.error, refused.value.map(Self)))
    }
}

forms! { UserObject(Alone<UserObjectRes>): CUuserObject, "user object", (driver: &Driver) => driver.clone() }

/// What the driver's pointer leads to.
#[repr(C)]
struct Shell<T> {
    record: Record,
    inlet: Inlet,
    /// Whoever sets it may take the content.
    taken: AtomicBool,
    content: UnsafeCell<Option<Content<T>>>,
}

/// Keeps the driver, whose end would leave nobody to drop the value.
struct Content<T> {
    value: T,
    driver: Driver,
}

impl<T: Send + 'static> Shell<T> {
    /// The content, for whoever asks first.
    fn take(&self) -> Option<Content<T>> {
        if self.taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: the exchange above lets one caller alone come here, and `release` runs only where it was `ended`.
        unsafe { &mut *self.content.get() }.take()
    }

    /// What the driver calls when the last reference is gone.
    ///
    /// # Safety
    ///
    /// - `data` is the pointer that `new` gave to the driver, and the driver calls once.
    unsafe extern "C" fn ended(data: *mut c_void) {
        let Some(shell) = NonNull::new(data.cast::<Self>()) else { return };
        // SAFETY: the pointer is that of a shell that nobody frees before its record is released.
        let this = unsafe { shell.as_ref() };
        if mutant::is_out("user-object") {
            return drop(this.take());
        }
        if this.taken.swap(true, Ordering::AcqRel) {
            return;
        }
        let inlet = this.inlet.clone();
        // SAFETY: *first field*; the shell is given to the list.
        unsafe { inlet.push(shell.cast()) };
    }
}

// SAFETY: *first field*: `repr(C)`, the record in front. *Release*: as the trait asks; the value is `Send`.
unsafe impl<T: Send + 'static> Recorded for Shell<T> {
    unsafe fn release(record: NonNull<Record>) {
        // SAFETY: the shell that `new` made, given to the list once by `ended`.
        let shell = unsafe { Box::from_raw(record.cast::<Self>().as_ptr()) };
        let Some(Content { value, driver }) = shell.content.into_inner() else { return };
        if let Err(caught) = foreign::drop_caught(value) {
            let owner = Object::nameless(ObjectKind::Owner);
            driver.warn(CudaWarning::panicked(owner, caught.payload()));
        }
    }

    unsafe fn worker(_: NonNull<Record>) -> Option<usize> {
        None
    }
}

const _: () = {
    const fn sent<T: Send>() {}
    sent::<UserObject>();
};
