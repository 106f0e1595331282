//! The driver as a value: everything that has state hangs on it.

#![expect(unsafe_code, reason = "initializes the driver; its last value takes it out of itself")]

mod devices;
mod end;
mod extra;
mod loading;
mod primary;
mod verify;

pub(crate) use primary::Primaries;
pub use verify::Verified;

use crate::{
    callback,
    error::{Error, Refused, Result},
    reclaim::Reclaim,
    report::{CudaWarning, Reports},
    resource::Closed,
    stream::{Waiting, Watches},
};
use crossbeam::utils::CachePadded;
use cuhold_driver_sys::{
    Calls, DriverApi, Failure, Hook, Hooked, Life, Version, ffi::*, forward_driver_api, mutant,
    process,
};
use devices::Devices;
use std::{
    fmt,
    mem::ManuallyDrop,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// A CUDA driver: the real one, the simulated one, or any other implementation of [`DriverApi`].
///
/// One word; clones are the same driver. Every object made through it keeps it alive, and reports through its one
/// [channel](Self::reports). There is no global current driver: many live in one process, and objects of two never meet
/// in one call (`Err`, before any call is made).
///
/// With its last value it ends: the primary contexts that it kept are released. That may wait for the GPU, so that a
/// `Drop` leaves it to the [reclaimer](Self::reclaim)'s thread; [`close`](Self::close) makes it here and now. Its drop
/// calls `cuDevicePrimaryCtxRelease` for each device that was used.
///
/// # Examples
/// ```
/// use cuhold_handles::{Device, Driver};
///
/// let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// assert!(driver.same(device.driver()));
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone)]
pub struct Driver(ManuallyDrop<Arc<Shared>>);

pub(crate) struct Shared {
    api: Box<dyn DriverApi>,
    scoped_streams: AtomicBool,
    reports: Reports,
    reclaim: Reclaim,
    primaries: Primaries,
    waiting: Waiting,
    watches: Watches,
    /// Away from the pointer that every call reads: creating threads write it.
    ids: CachePadded<AtomicU64>,
    devices: Devices,
    extras: extra::DriverExtras,
    initialized: AtomicBool,
    lost: AtomicBool,
}

/// The driver below another one, sharing its functions: what `isolated` and `hooked` are built from.
struct Below(Driver);
forward_driver_api!(Below, |this| this.0.api());

impl Driver {
    /// A driver over these functions: a simulated driver, a [`Hooked`] one, a user's own.
    ///
    /// Calls nothing: the driver is initialized with the first [`Device`](crate::Device).
    pub fn from_api(api: impl DriverApi) -> Self {
        Self::of(Arc::new_cyclic(|weak: &Weak<Shared>| {
            let settled = weak.clone();
            let reports = Reports::new();
            reports.set_settle(Box::new(move || {
                if let Some(driver) = Self::upgrade(&settled) {
                    driver.reclaim().settle();
                }
            }));
            Shared {
                api: Box::new(api),
                scoped_streams: AtomicBool::new(false),
                reports,
                reclaim: Reclaim::new(weak.clone()),
                primaries: Primaries::default(),
                waiting: Waiting::default(),
                watches: Watches::default(),
                ids: CachePadded::new(AtomicU64::new(1)),
                devices: Devices::default(),
                extras: extra::DriverExtras::default(),
                initialized: AtomicBool::new(false),
                lost: AtomicBool::new(false),
            }
        }))
    }

    fn of(shared: Arc<Shared>) -> Self {
        Self(ManuallyDrop::new(shared))
    }

    /// A second driver over the same functions, with a channel, a reclaimer and primary contexts of its own. Objects of
    /// the two don't meet in one call.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn isolated(&self) -> Self {
        Self::from_api(Below(self.clone()))
    }

    /// As [`isolated`](Self::isolated), with a hook around each call.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn hooked(&self, hook: impl Hook) -> Self {
        Self::from_api(Hooked::new(Below(self.clone()), hook))
    }

    /// The driver's functions.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn api(&self) -> &dyn DriverApi {
        &*self.0.api
    }

    /// The driver's functions by name.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn calls(&self) -> Calls<'_> {
        Calls::new(self.api())
    }

    /// The same, unless this thread runs a callback of the driver, where no call may be made.
    #[doc(hidden)]
    #[inline]
    pub fn callable(&self) -> Result<Calls<'_>> {
        if callback::inside() && !mutant::is_out("not-permitted") {
            return Err(Error::in_callback());
        }
        Ok(self.calls())
    }

    /// The report channel: where failures go that can't be returned.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn reports(&self) -> &Reports {
        &self.0.reports
    }

    /// The reclaimer: where objects go whose end would wait, or that were dropped where no call may be made.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn reclaim(&self) -> &Reclaim {
        &self.0.reclaim
    }

    pub(crate) fn primaries(&self) -> &Primaries {
        &self.0.primaries
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.0.waiting
    }

    pub(crate) fn watches(&self) -> &Watches {
        &self.0.watches
    }

    pub(crate) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.0)
    }

    pub(crate) fn upgrade(weak: &Weak<Shared>) -> Option<Self> {
        weak.upgrade().map(Self::of)
    }

    /// Whether both are the same driver.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// An object's number, unique in this driver.
    #[doc(hidden)]
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.0.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether this value alone holds the driver: no object of it is alive.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Whether a call answered a fatal code, after which a real driver answers it to everything. A flag for reports,
    /// never an answer to a call: calls are made all the same and their failures returned.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// The version that the driver implements.
    ///
    /// Calls `cuDriverGetVersion`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn version(&self) -> Result<Version> {
        let mut version = 0;
        // SAFETY: *pointers*: `version` is a live local.
        unsafe { self.callable()?.cuDriverGetVersion(&raw mut version) }
            .map_err(|failure| self.error(failure))?;
        Ok(Version(version))
    }

    /// How many devices there are.
    ///
    /// Calls `cuInit`, `cuDeviceGetCount`.
    ///
    /// # Errors
    /// The calls' failures; [`ErrorKind::Forked`](crate::ErrorKind::Forked) in a forked child.
    pub fn device_count(&self) -> Result<u32> {
        self.init()?;
        let mut count = 0;
        // SAFETY: *pointers*: `count` is a live local.
        unsafe { self.calls().cuDeviceGetCount(&raw mut count) }
            .map_err(|failure| self.error(failure))?;
        Ok(count.unsigned_abs())
    }

    /// Ends the driver here and now, if this is its last value and no object of it is alive: gives back the primary
    /// contexts that it kept, and waits for their work where nobody else keeps them.
    ///
    /// Calls `cuDevicePrimaryCtxRelease` for each device that was used.
    ///
    /// # Errors
    /// [`Refused`] with the first call's failure, those of further devices as notes; with the driver inside a callback
    /// and in a forked child, where no call is made.
    #[doc(alias = "cuDevicePrimaryCtxRelease")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        if let Err(error) = self.check_callable() {
            return Err(Refused::new(error, Some(self)));
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is never dropped.
        match Arc::into_inner(unsafe { ManuallyDrop::take(&mut this.0) }) {
            None => Ok(Closed::StillShared),
            Some(last) => match end::here(last) {
                None => Ok(Closed::Destroyed),
                Some(error) => Err(Refused::new(error, None)),
            },
        }
    }

    /// Initializes the driver, once; a failure isn't remembered.
    pub(crate) fn init(&self) -> Result<()> {
        self.check_callable()?;
        if self.0.initialized.load(Ordering::Acquire) {
            return Ok(());
        }
        // SAFETY: cuInit has no pointer arguments.
        unsafe { self.calls().cuInit(0) }.map_err(|failure| self.error(failure))?;
        // After cuInit, so that the mark is set before the driver's own exit handlers run.
        process::watch_exit();
        self.0.initialized.store(true, Ordering::Release);
        Ok(())
    }

    /// Refuses where no call may be made and no lock may be taken: in a callback, in a forked child.
    #[doc(hidden)]
    pub fn check_callable(&self) -> Result<()> {
        if callback::inside() {
            return Err(Error::in_callback());
        }
        match self.api().life() {
            Life::Forked => Err(Error::forked()),
            _ => Ok(()),
        }
    }

    /// Refuses two drivers in one call; `what` names the argument.
    #[doc(hidden)]
    #[inline]
    pub fn check_same(&self, other: &Self, what: &'static str) -> Result<()> {
        if self.same(other) || mutant::is_out("two-drivers") {
            return Ok(());
        }
        Err(Error::two_drivers(what))
    }

    /// The error of a failed call. Marks the driver as lost where the status is fatal.
    #[doc(hidden)]
    #[cold]
    #[must_use]
    pub fn error(&self, failure: Failure) -> Error {
        self.note_fatal(failure.status);
        if failure.status == CUresult::NOT_INITIALIZED && self.api().life() == Life::Forked {
            return Error::forked().with_call(failure.call);
        }
        failure.into()
    }

    /// The error of a call that another library made of this driver; `by` says of what it was part. Marks the driver as
    /// lost where the status is fatal.
    #[doc(hidden)]
    #[cold]
    #[must_use]
    pub fn error_elsewhere(&self, status: CUresult, by: &'static str) -> Error {
        self.note_fatal(status);
        Error::elsewhere(status, by)
    }

    /// Raises a warning, unless the process is past caring: a forked child or a process that exits is silent, and
    /// `DEINITIALIZED` is nobody's fault.
    #[doc(hidden)]
    #[cold]
    pub fn warn(&self, warning: CudaWarning) {
        let status = warning.status();
        if let Some(status) = status {
            self.note_fatal(status);
        }
        self.0.raise(warning);
    }

    fn note_fatal(&self, status: CUresult) {
        if status.is_fatal() && !mutant::is_out("lost") {
            self.0.lost.store(true, Ordering::Relaxed);
        }
    }

    /// Calls the newest form of a function, and the older one where the driver lacks it; both write to `out`.
    #[inline]
    pub(crate) fn newest<T>(
        &self,
        out: &mut T,
        newest: impl FnOnce(Calls<'_>, &mut T) -> Result<(), Failure>,
        older: impl FnOnce(Calls<'_>, &mut T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match newest(self.calls(), out) {
            Err(Failure { status: CUresult::MISSING, .. }) => older(self.calls(), out),
            answer => answer,
        }
    }
}

impl Shared {
    fn raise(&self, warning: CudaWarning) {
        let live = self.api.life() == Life::Live || mutant::is_out("exit-silence");
        if warning.status() != Some(CUresult::DEINITIALIZED) && live {
            self.reports.raise(warning);
        }
    }
}

impl Drop for Driver {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop.
        if let Some(last) = Arc::into_inner(unsafe { ManuallyDrop::take(&mut self.0) }) {
            end::of(last);
        }
    }
}

impl PartialEq for Driver {
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
    }
}

impl Eq for Driver {}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Driver").field(&Arc::as_ptr(&self.0)).finish()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Driver>();
    assert!(size_of::<Driver>() == 8 && size_of::<Option<Driver>>() == 8);
};
