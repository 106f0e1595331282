//! Contexts: a device's primary one, created ones, borrowed ones.
//!
//! A context is where streams, events, modules and memory belong. No call of this project leaves another one current
//! than it found; foreign libraries are called in [`Context::with_current`].
//!
//! Source: CUDA Driver API 13.x, "Context Management" and "Primary Context Management".

#![expect(unsafe_code, reason = "makes and ends contexts through the driver")]

use crate::{
    driver::{Driver, Primaries},
    error::{Error, Refused, Result},
    event::{Event, EventOptions},
    extra::{ContextExtra, Extras},
    mark::MarkCache,
    object::ObjectKind,
    resource::{Closed, Handle, Owner, Resource, not_null},
    scope::{self, Target},
    stream::{Stream, StreamOptions},
};
use bitflags::bitflags;
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::{fmt, ptr};

/// How a context came to be, which is how it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// The driver value keeps its retain, of this number: ending a handle ends nothing.
    Kept(u64),
    /// This block holds a retain of its own.
    Retained,
    /// Made by `cuCtxCreate`.
    Created,
    /// Somebody else's.
    Foreign,
}

/// What a context refers to.
#[derive(Debug)]
pub(crate) struct ContextDeps {
    device: CUdevice,
    origin: Origin,
    /// What crates above keep for it.
    extras: Extras,
    driver: Driver,
}

impl ContextDeps {
    fn new(driver: &Driver, device: CUdevice, origin: Origin) -> Self {
        Self::with_extras(driver, device, origin, Extras::default())
    }

    fn with_extras(driver: &Driver, device: CUdevice, origin: Origin, extras: Extras) -> Self {
        driver.note_device(device);
        Self { device, origin, extras, driver: driver.clone() }
    }

    /// Ends what is kept for a context that is about to end.
    fn end_extras(&self, calls: Calls<'_>) {
        self.extras.end(calls, &mut |warning| self.driver.warn(warning));
    }
}

impl Drop for ContextDeps {
    fn drop(&mut self) {
        if let Origin::Kept(id) = self.origin {
            Primaries::leave(&self.driver, self.device, id);
        }
    }
}

/// The resource behind [`Context`].
#[derive(Debug)]
pub(crate) struct ContextRes;

// SAFETY: *ends*: a created context by `cuCtxDestroy`, a retained one by one release of its retain; others are borrowed.
// *Dependencies*: a context refers to its driver alone.
unsafe impl Resource for ContextRes {
    type Raw = CUcontext;
    type Deps = ContextDeps;
    const KIND: ObjectKind = ObjectKind::Context;
    const DESTROY: Option<Call> = Some(Call::cuCtxDestroy_v2);

    fn driver(deps: &ContextDeps) -> &Driver {
        &deps.driver
    }
    fn context(_: &ContextDeps) -> CUcontext {
        CUcontext::NULL
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUcontext, deps: &ContextDeps) -> Result<(), Failure> {
        deps.end_extras(calls);
        match deps.origin {
            // SAFETY: *handles*: live, by the caller's promise.
            Origin::Created => unsafe { calls.cuCtxDestroy_v2(raw) },
            // SAFETY: gives back the one retain that this block holds.
            Origin::Retained => unsafe { calls.cuDevicePrimaryCtxRelease_v2(deps.device) },
            Origin::Kept(_) | Origin::Foreign => Ok(()),
        }
    }
}

bitflags! {
    /// How a created context waits and what it is told.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct ContextFlags: u32 {
        /// Waiting threads spin.
        const SCHED_SPIN = 0x01;
        /// Waiting threads yield.
        const SCHED_YIELD = 0x02;
        /// Waiting threads block.
        const SCHED_BLOCKING_SYNC = 0x04;
        /// Plain copies and fills wait until they are done.
        const SYNC_MEMOPS = 0x80;
    }
}

/// A CUDA context. Clones are the same context; it ends with the last of them, but for a primary context, which its
/// [`Driver`] keeps. Its drop calls `cuCtxDestroy`, or `cuDevicePrimaryCtxRelease` for a retain of its own.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Context, ContextFlags, Device, Driver};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let context = Context::new(&device, ContextFlags::SCHED_BLOCKING_SYNC)?;
/// let stream = context.new_stream()?;
/// stream.synchronize()?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Context(pub(crate) Handle<ContextRes>);

impl Context {
    /// Makes a context of the device. It isn't current afterwards.
    ///
    /// Calls `cuCtxCreate`; `cuCtxDestroy` where it is undone.
    ///
    /// # Errors
    /// The calls' failures; [`ErrorKind::Argument`](crate::ErrorKind::Argument) for more than one way of waiting.
    pub fn new(device: &crate::Device, flags: ContextFlags) -> Result<Self> {
        let ways = ContextFlags::SCHED_SPIN
            | ContextFlags::SCHED_YIELD
            | ContextFlags::SCHED_BLOCKING_SYNC;
        if flags.intersection(ways).bits().count_ones() > 1 {
            return Err(Error::argument(format!(
                "flags: at most one way of waiting, not {flags:?}"
            )));
        }
        let (driver, device) = (device.driver(), device.as_raw());
        driver.check_callable()?;
        let raw = scope::create_context(driver, |_, new| {
            driver.newest(
                new,
                // SAFETY: *pointers*: `new` is exclusive, and null parameters ask for an ordinary context.
                |calls, new| unsafe {
                    calls.cuCtxCreate_v4(new, ptr::null_mut(), flags.bits(), device)
                },
                // SAFETY: *pointers*: as above.
                |calls, new| unsafe {
                    calls.cuCtxCreate_v3(new, ptr::null_mut(), 0, flags.bits(), device)
                },
            )
        })?;
        let deps = ContextDeps::new(driver, device, Origin::Created);
        Ok(Self(Handle::own(raw, deps)))
    }

    /// The device's primary context, kept by the driver.
    pub(crate) fn primary(driver: &Driver, device: CUdevice) -> Result<Self> {
        let primary = Primaries::acquire(driver, device)?;
        let origin = Origin::Kept(primary.id);
        let deps = ContextDeps::with_extras(driver, device, origin, primary.extras);
        Ok(Self(Handle::alias(primary.raw, deps, primary.id)))
    }

    /// The device's primary context with a retain that ends with the last clone.
    pub(crate) fn primary_until_last(driver: &Driver, device: CUdevice) -> Result<Self> {
        driver.check_callable()?;
        let mut raw = CUcontext::NULL;
        // SAFETY: *pointers*: `raw` is a live local.
        unsafe { driver.calls().cuDevicePrimaryCtxRetain(&raw mut raw, device) }
            .map_err(|failure| driver.error(failure))?;
        let deps = ContextDeps::new(driver, device, Origin::Retained);
        Ok(Self(Handle::own(raw, deps)))
    }

    /// Takes over a context that the caller created with `cuCtxCreate`.
    ///
    /// Calls `cuCtxGetDevice` in the context.
    ///
    /// # Errors
    /// The call's failure; null is refused. The context is then still the caller's.
    ///
    /// # Safety
    /// `raw` is a live, created context of this driver that nobody else ends.
    pub unsafe fn from_raw(driver: &Driver, raw: CUcontext) -> Result<Self> {
        let device = device_of(driver, not_null(raw, "context")?)?;
        let deps = ContextDeps::new(driver, device, Origin::Created);
        Ok(Self(Handle::own(raw, deps)))
    }

    /// Refers to a context that somebody else ends; `owner` is kept alive as long.
    ///
    /// Calls `cuCtxGetDevice` in the context.
    ///
    /// # Errors
    /// The call's failure; null is refused.
    ///
    /// # Safety
    /// `raw` is a context of this driver that lives as long as this handle, its clones and all that is made from them,
    /// or `owner` keeps it alive.
    pub unsafe fn borrow_raw(
        driver: &Driver,
        raw: CUcontext,
        owner: Option<Owner>,
    ) -> Result<Self> {
        let device = device_of(driver, not_null(raw, "context")?)?;
        let deps = ContextDeps::new(driver, device, Origin::Foreign);
        Ok(Self(Handle::borrow(raw, deps, owner)))
    }

    /// A green context as a context; `owner` is what ends it.
    pub(crate) fn view(driver: &Driver, device: CUdevice, raw: CUcontext, owner: Owner) -> Self {
        let deps = ContextDeps::new(driver, device, Origin::Foreign);
        Self(Handle::borrow(raw, deps, Some(owner)))
    }

    /// The driver's handle, which stays this value's.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUcontext {
        self.0.raw()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// The device, as the driver numbers it.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device(&self) -> CUdevice {
        self.0.deps().device
    }

    /// Where the scoped operations run for objects of this context.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn target(&self) -> Target<'_> {
        Target::new(self.driver(), self.as_raw())
    }

    /// What a crate above keeps for this context, made at first use; it is ended before the context. `None` for a
    /// context of somebody else's, whose end isn't known.
    #[doc(hidden)]
    pub fn extra<E: ContextExtra>(&self, make: impl FnOnce() -> E) -> Option<&E> {
        let deps = self.0.deps();
        if deps.origin == Origin::Foreign { None } else { deps.extras.get(make) }
    }

    /// The idle events that are kept for this context; `None` for somebody else's.
    #[inline]
    pub(crate) fn marks(&self) -> Option<&MarkCache> {
        let deps = self.0.deps();
        if deps.origin == Origin::Foreign { None } else { Some(deps.extras.marks()) }
    }

    /// The idle events that are kept for this context, for tests that count what is alive: nobody takes or gives back
    /// meanwhile.
    #[doc(hidden)]
    #[must_use]
    pub fn idle_events(&self) -> Vec<CUevent> {
        self.marks().map(MarkCache::idle).unwrap_or_default()
    }

    /// Makes a stream that isn't ordered with the legacy default stream, of the lowest priority.
    ///
    /// Calls `cuStreamCreateWithPriority`; `cuStreamDestroy` where it is undone.
    ///
    /// # Errors
    /// As [`Stream::with_options`].
    pub fn new_stream(&self) -> Result<Stream> {
        Stream::with_options(self, StreamOptions::default())
    }

    /// Makes an event without timing.
    ///
    /// Calls `cuEventCreate`; `cuEventDestroy` where it is undone.
    ///
    /// # Errors
    /// As [`Event::with_options`].
    pub fn new_event(&self) -> Result<Event> {
        Event::with_options(self, EventOptions::default())
    }

    /// Waits for all work of the context. Refused while a stream of it is captured.
    ///
    /// Calls `cuCtxSynchronize`. It invalidates captures of the context's streams, as the driver's call does.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work.
    #[doc(alias = "cuCtxSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: no arguments; the target is current.
        scope::run(self.target(), |calls| unsafe { calls.cuCtxSynchronize() })
    }

    /// Calls foreign code with this context current: a library that works in the current context. A panic in it is
    /// resumed once the caller's context is back.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// The context couldn't be made current (`foreign` wasn't called), or the caller's not again (its value is lost).
    pub fn with_current<T>(&self, foreign: impl FnOnce() -> T) -> Result<T> {
        scope::call(self.target(), foreign)
    }

    /// Ends the context here and now, if this is its last handle; waits for all of its work. A context that is current
    /// on this thread is popped by the driver, and what lies under it becomes current.
    ///
    /// Calls `cuCtxDestroy`, or `cuDevicePrimaryCtxRelease` for a primary context with a retain of its own.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked.
    #[doc(alias = "cuCtxDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }

    /// Ends the retain behind this handle, if nothing else refers to it: the driver's, or this handle's own.
    pub(crate) fn release_primary(self) -> Result<Closed, Refused<Option<Self>>> {
        let Origin::Kept(id) = self.0.deps().origin else { return self.close() };
        if !self.0.is_unique() {
            return Ok(Closed::StillShared);
        }
        match Primaries::release(self.driver(), self.device(), id) {
            Ok(true) => Ok(Closed::Destroyed),
            Ok(false) => Ok(Closed::StillShared),
            Err(error) if error.call().is_some() => Err(Refused::new(error, None)),
            Err(error) => Err(Refused::new(error, Some(self))),
        }
    }

    /// Whether both are the same context of the same driver, through whatever handles.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.as_raw() == other.as_raw() && self.driver().same(other.driver())
    }

    /// The object's number, unique in its driver.
    pub(crate) fn id(&self) -> u64 {
        self.0.id()
    }
}

fn device_of(driver: &Driver, raw: CUcontext) -> Result<CUdevice> {
    driver.check_callable()?;
    scope::run(Target::new(driver, raw), |calls| {
        let mut device = 0;
        // SAFETY: *pointers*: `device` is a live local.
        unsafe { calls.cuCtxGetDevice(&raw mut device) }?;
        Ok(device)
    })
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Context>();
    assert!(size_of::<Context>() == 8 && size_of::<Option<Context>>() == 8);
};
