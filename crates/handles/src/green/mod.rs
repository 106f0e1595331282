//! Green contexts: a part of a device's multiprocessors, with streams of its own.
//!
//! ```text
//!   Device ─► SmResource ──split──► SmResource ─► GreenContext ─► Stream
//!                                                      └─► Context (its view; shares all else with the primary one)
//! ```
//!
//! A green context that ends while its work is in flight is used after its release, and its streams can't be ended any
//! more (reported; the latter measured). So its streams and views keep it, and its end waits for its work.
//!
//! Source: CUDA Driver API 13.x, "Green Contexts".

#![expect(unsafe_code, reason = "calls the driver's green context functions")]

mod sm;

pub use sm::{SmResource, SmSplit};

use crate::{
    context::Context,
    device::Device,
    driver::Driver,
    error::{Error, Note, Refused, Result},
    event::Event,
    object::ObjectKind,
    resource::{Closed, Handle, Owner, Resource, not_null},
    scope::{self, Target},
    stream::Stream,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*, mutant};
use std::{cell::Cell, fmt, marker::PhantomData, sync::Arc};

/// What a green context refers to.
#[derive(Debug)]
pub(crate) struct GreenDeps {
    device: CUdevice,
    /// The context that it is seen as; it ends with it.
    view: CUcontext,
    driver: Driver,
}

/// The resource behind [`GreenContext`].
#[derive(Debug)]
pub(crate) struct GreenRes;

// SAFETY: *ends*: `cuGreenCtxDestroy`, after its work. *Dependencies*: it holds the primary context itself.
unsafe impl Resource for GreenRes {
    type Raw = CUgreenCtx;
    type Deps = GreenDeps;
    const KIND: ObjectKind = ObjectKind::GreenContext;
    const DESTROY: Option<Call> = Some(Call::cuGreenCtxDestroy);

    fn driver(deps: &GreenDeps) -> &Driver {
        &deps.driver
    }
    fn context(_: &GreenDeps) -> CUcontext {
        CUcontext::NULL
    }
    fn waits_for(deps: &GreenDeps) -> CUcontext {
        deps.view
    }
    fn waits() -> bool {
        // Not the destroying call itself, but the wait before it.
        true
    }
    fn before_end(calls: Calls<'_>, deps: &GreenDeps) -> Result<(), Failure> {
        // In a lost driver nothing runs any more.
        let runs = !deps.driver.is_lost() && !mutant::is_out("green-wait");
        if runs { wait_for_work(calls, deps) } else { Ok(()) }
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUgreenCtx, _: &GreenDeps) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuGreenCtxDestroy(raw) }
    }
}

/// Waits for the work in a green context. Where that fails it isn't ended: the work may still run.
fn wait_for_work(calls: Calls<'_>, deps: &GreenDeps) -> Result<(), Failure> {
    // SAFETY: *handles*: the view lives as long as its green context.
    match unsafe { calls.cuCtxSynchronize_v2(deps.view) } {
        // Before CUDA 13.0: only the current context can be waited for.
        Err(Failure { status: CUresult::MISSING, .. }) => {}
        answer => return answer,
    }
    let target = Target::new(&deps.driver, deps.view);
    // SAFETY: no arguments; the target is current.
    match scope::run(target, |calls| unsafe { calls.cuCtxSynchronize() }) {
        Ok(()) => Ok(()),
        Err(error) => Err(error
            .failure()
            .unwrap_or(Failure { call: Call::cuCtxSynchronize, status: CUresult::UNKNOWN })),
    }
}

/// A green context: a part of a device's multiprocessors. Streams that are [made](Self::new_stream) in it run there
/// alone. It can go to another thread, but isn't `Sync`.
///
/// It lives as long as this value, the streams made in it, and the contexts that [`context`](Self::context) gave.
///
/// Its drop calls `cuCtxSynchronize`, `cuGreenCtxDestroy`, on the reclaimer, since it waits for the work there.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, GreenContext, SmResource};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let split = SmResource::of_device(&device)?.split_by_count(2, 16)?;
/// let green = GreenContext::new(&split.groups)?;
/// let stream = green.new_stream(0)?;
/// stream.synchronize()?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct GreenContext {
    handle: Handle<GreenRes>,
    /// CUDA promises nothing for two threads in one green context.
    alone: PhantomData<Cell<()>>,
}

impl GreenContext {
    /// Makes a green context of these resources, which are of one device and came from one split (or are one whole
    /// device's). Nothing becomes current.
    ///
    /// Calls `cuDevResourceGenerateDesc`, `cuGreenCtxCreate`, `cuCtxFromGreenCtx`; `cuGreenCtxDestroy` where it is undone.
    ///
    /// # Errors
    /// The calls' failures; no resources; resources of two drivers or of two devices.
    #[doc(alias = "cuGreenCtxCreate")]
    pub fn new(resources: &[SmResource]) -> Result<Self> {
        let Some(first) = resources.first() else {
            return Err(Error::argument("resources: 0 of them, at least 1 is needed"));
        };
        for (at, resource) in resources.iter().enumerate() {
            first.driver().check_same(resource.driver(), "resources")?;
            if resource.device() != first.device() {
                return Err(Error::argument(format!(
                    "resources: number {at} is of device {}, the first of device {}, and all must be of one",
                    resource.device(),
                    first.device()
                )));
            }
        }
        let count = u32::try_from(resources.len())
            .map_err(|error| Error::argument(format!("resources: {error}")))?;
        let (driver, device) = (first.driver(), first.device());
        let calls = driver.callable()?;
        let mut raws: Vec<CUdevResource> = resources.iter().map(SmResource::raw).collect();
        let mut desc = CUdevResourceDesc::NULL;
        // SAFETY: *pointers*: a live local, and as many resources as said.
        unsafe { calls.cuDevResourceGenerateDesc(&raw mut desc, raws.as_mut_ptr(), count) }
            .map_err(|failure| driver.error(failure))?;
        let mut raw = CUgreenCtx::NULL;
        let flags = CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM.0;
        // SAFETY: *pointers*: a live local; *handles*: the description was made a moment ago.
        unsafe { calls.cuGreenCtxCreate(&raw mut raw, desc, device, flags) }
            .map_err(|failure| driver.error(failure))?;
        // SAFETY: just made, and given to nobody.
        unsafe { Self::adopt(driver, device, raw) }.map_err(|error| undone(driver, raw, error))
    }

    /// Owns a live green context once its view is known; it is left alone where that fails.
    ///
    /// # Safety
    /// `raw` is a live green context of this device that nobody else ends.
    unsafe fn adopt(driver: &Driver, device: CUdevice, raw: CUgreenCtx) -> Result<Self> {
        // SAFETY: the caller's promise.
        let view = unsafe { view_of(driver, raw) }?;
        driver.note_device(device);
        let deps = GreenDeps { device, view, driver: driver.clone() };
        Ok(Self::of(Handle::own(raw, deps)))
    }

    fn of(handle: Handle<GreenRes>) -> Self {
        Self { handle, alone: PhantomData }
    }

    /// Takes over a green context that the caller created.
    ///
    /// Calls `cuCtxFromGreenCtx`.
    ///
    /// # Errors
    /// The call's failure; null is refused. The green context is then still the caller's.
    ///
    /// # Safety
    /// `raw` is a live green context of this device that nobody else ends.
    pub unsafe fn from_raw(device: &Device, raw: CUgreenCtx) -> Result<Self> {
        let raw = not_null(raw, "green context")?;
        // SAFETY: the caller's promise.
        unsafe { Self::adopt(device.driver(), device.as_raw(), raw) }
    }

    /// Refers to a green context that somebody else ends; `owner` is kept alive as long.
    ///
    /// Calls `cuCtxFromGreenCtx`.
    ///
    /// # Errors
    /// The call's failure; null is refused.
    ///
    /// # Safety
    /// `raw` is a green context of this device that lives as long as this value and all that is made from it, or `owner`
    /// keeps it alive.
    pub unsafe fn borrow_raw(
        device: &Device,
        raw: CUgreenCtx,
        owner: Option<Owner>,
    ) -> Result<Self> {
        let raw = not_null(raw, "green context")?;
        // SAFETY: the caller's promise.
        let view = unsafe { view_of(device.driver(), raw) }?;
        let deps = GreenDeps { device: device.as_raw(), view, driver: device.driver().clone() };
        Ok(Self::of(Handle::borrow(raw, deps, owner)))
    }

    /// The driver's handle, which stays this value's.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUgreenCtx {
        self.handle.raw()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.handle.driver()
    }

    /// The green context as a context, which keeps it alive: for events, and for foreign libraries that are called with
    /// it current.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> Context {
        let (deps, owner) = (self.handle.deps(), Arc::new(self.handle.clone()));
        Context::view(&deps.driver, deps.device, deps.view, owner)
    }

    /// Makes a stream in it, which isn't ordered with the legacy default stream. The driver clamps the priority to the
    /// device's range; 0 is the lowest. The stream keeps the green context.
    ///
    /// Calls `cuGreenCtxStreamCreate`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuGreenCtxStreamCreate")]
    pub fn new_stream(&self, priority: i32) -> Result<Stream> {
        Stream::in_green(self.context(), |calls| {
            let mut raw = CUstream::NULL;
            let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
            // SAFETY: *pointers*: `raw` is a live local; *handles*: this value's green context.
            unsafe { calls.cuGreenCtxStreamCreate(&raw mut raw, self.as_raw(), flags, priority) }?;
            Ok(raw)
        })
    }

    /// Lets `event` mark all work that is queued in it so far. Refused while a stream of it is captured.
    ///
    /// Calls `cuGreenCtxRecordEvent`.
    ///
    /// # Errors
    /// The call's failure; an event of another driver.
    #[doc(alias = "cuGreenCtxRecordEvent")]
    pub fn record(&self, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        let calls = self.driver().callable()?;
        // SAFETY: *handles*: both values' objects.
        unsafe { calls.cuGreenCtxRecordEvent(self.as_raw(), event.raw()) }
            .map_err(|failure| self.driver().error(failure))
    }

    /// Lets all work that is queued in it from here on wait for what `event` marks at this moment. Returns at once.
    /// Refused while a stream of it is captured.
    ///
    /// Calls `cuGreenCtxWaitEvent`.
    ///
    /// # Errors
    /// The call's failure; an event of another driver.
    #[doc(alias = "cuGreenCtxWaitEvent")]
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        let calls = self.driver().callable()?;
        // SAFETY: *handles*: both values' objects.
        unsafe { calls.cuGreenCtxWaitEvent(self.as_raw(), event.raw()) }
            .map_err(|failure| self.driver().error(failure))
    }

    /// The number that the driver gave it, which no other has in this process.
    ///
    /// Calls `cuGreenCtxGetId`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuGreenCtxGetId")]
    pub fn id(&self) -> Result<u64> {
        let mut id = 0;
        let calls = self.driver().callable()?;
        // SAFETY: *pointers*: a live local; *handles*: this value's green context.
        unsafe { calls.cuGreenCtxGetId(self.as_raw(), &raw mut id) }
            .map_err(|failure| self.driver().error(failure))?;
        Ok(id)
    }

    /// Its multiprocessors.
    ///
    /// Calls `cuGreenCtxGetDevResource`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuGreenCtxGetDevResource")]
    pub fn sm_resource(&self) -> Result<SmResource> {
        SmResource::read(self.driver(), self.handle.deps().device, |calls, resource, kind| {
            // SAFETY: *pointers*: exclusive; *handles*: this value's green context.
            unsafe { calls.cuGreenCtxGetDevResource(self.as_raw(), resource, kind) }
        })
    }

    /// Ends the green context here and now, if no stream or context of it is held. Waits for its work.
    ///
    /// Calls `cuCtxSynchronize`, `cuGreenCtxDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the value where the driver wasn't asked to end it: also where the wait failed.
    #[doc(alias = "cuGreenCtxDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.handle
            .close()
            .map_err(|refused| Refused::new(refused.error, refused.value.map(Self::of)))
    }

    /// Gives the green context away without ending it: the raw value is the caller's now.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Gives this value back where streams or contexts of it are held, and where it is somebody else's to end.
    pub fn into_raw(self) -> Result<CUgreenCtx, Self> {
        self.handle.into_raw().map_err(Self::of)
    }
}

/// The view of a green context.
///
/// # Safety
/// `raw` is a live green context.
unsafe fn view_of(driver: &Driver, raw: CUgreenCtx) -> Result<CUcontext> {
    let mut view = CUcontext::NULL;
    // SAFETY: *pointers*: a live local; *handles*: the caller's promise.
    unsafe { driver.callable()?.cuCtxFromGreenCtx(&raw mut view, raw) }
        .map_err(|failure| driver.error(failure))?;
    not_null(view, "view of the green context")
}

/// A green context that was just made is ended again.
#[cold]
fn undone(driver: &Driver, raw: CUgreenCtx, error: Error) -> Error {
    // SAFETY: *handles*: made a moment ago, and given to nobody.
    match unsafe { driver.calls().cuGreenCtxDestroy(raw) } {
        Ok(()) => error,
        Err(failure) => error.with_note(Note::UndoFailed(failure)),
    }
}

impl fmt::Debug for GreenContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.handle, f)
    }
}

const _: () = {
    const fn sent<T: Send>() {}
    sent::<GreenContext>();
};
