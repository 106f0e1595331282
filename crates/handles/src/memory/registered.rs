//! Host memory of the program that was registered with the driver, so that devices reach it.

#![expect(unsafe_code, reason = "calls the driver's memory functions with host memory")]

use super::{Users, kernel_arguments, sized_forms, some};
use crate::{
    context::Context,
    driver::Driver,
    error::{Error, Refused, Result},
    object::{Object, ObjectKind},
    report::{CudaWarning, Fate, foreign},
    resource::{Closed, Owned, Owner, Resource},
    stream::AsStream,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*, mutant};
use std::{
    fmt,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The resource behind [`RegisteredMemory`].
#[derive(Debug)]
pub(crate) struct RegisteredRes;

/// What registered memory refers to.
pub(crate) struct RegisteredDeps {
    context: Context,
    bytes: usize,
    users: Users,
    /// The host allocation. Let go only where the driver is known not to reach it, else leaked (P7).
    host: Option<Owner>,
    /// Whether the driver may reach it: from the call that registers it to a successful end.
    reachable: AtomicBool,
}

impl RegisteredDeps {
    /// Of memory that isn't registered yet.
    fn new(context: &Context, bytes: usize, host: Option<Owner>) -> Result<Self> {
        Ok(Self {
            context: context.clone(),
            bytes: some(bytes)?,
            users: Users::default(),
            host,
            reachable: AtomicBool::new(false),
        })
    }

    fn set_reachable(&self, reachable: bool) {
        self.reachable.store(reachable, Ordering::Relaxed);
    }
}

impl fmt::Debug for RegisteredDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredDeps").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for RegisteredDeps {
    fn drop(&mut self) {
        let Some(host) = self.host.take() else { return };
        if self.reachable.load(Ordering::Relaxed) && !mutant::is_out("registered-leak") {
            let _: std::mem::ManuallyDrop<Owner> = std::mem::ManuallyDrop::new(host);
            return;
        }
        if let Err(caught) = foreign::drop_caught(host) {
            let driver = self.context.driver();
            let owner = Object { kind: ObjectKind::Owner, raw: 0, id: driver.next_id() };
            driver.warn(CudaWarning::panicked(owner, caught.payload()));
        }
    }
}

// SAFETY: *ends*: `cuMemHostUnregister`. *Dependencies*: the registration ends with its context, and needs the memory.
unsafe impl Resource for RegisteredRes {
    type Raw = u64;
    type Deps = RegisteredDeps;
    const KIND: ObjectKind = ObjectKind::RegisteredMemory;
    const DESTROY: Option<Call> = Some(Call::cuMemHostUnregister);

    fn driver(deps: &RegisteredDeps) -> &Driver {
        deps.context.driver()
    }
    fn context(deps: &RegisteredDeps) -> CUcontext {
        deps.context.as_raw()
    }
    fn users(deps: &RegisteredDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    fn fate(deps: &RegisteredDeps, fate: Fate) -> Fate {
        // The allocation is leaked then, if it is ours to free.
        let leaks = deps.host.is_some() && deps.reachable.load(Ordering::Relaxed);
        if leaks && fate == Fate::Unknown { Fate::Leaked } else { fate }
    }
    unsafe fn destroy(calls: Calls<'_>, raw: u64, deps: &RegisteredDeps) -> Result<(), Failure> {
        // SAFETY: *pointers*: registered, by the caller's promise.
        let result = unsafe { calls.cuMemHostUnregister(host_ptr(raw).cast()) };
        match result {
            // With its context all registrations ended, and all work that could reach them.
            Ok(()) | Err(Failure { status: CUresult::CONTEXT_IS_DESTROYED, .. }) => {
                deps.set_reachable(false);
            }
            Err(_) => {}
        }
        result
    }
}

fn host_ptr(raw: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(raw).unwrap_or_default())
}

/// How host memory is registered. By default devices may write to it, and all contexts see it as page-locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RegisterOptions {
    /// Devices only read it, for memory that can't be written. Not every device knows that.
    pub read_only: bool,
}

impl RegisterOptions {
    /// Devices only read it.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn read_only() -> Self {
        Self { read_only: true }
    }

    fn flags(self) -> u32 {
        let read_only = if self.read_only { CU_MEMHOSTREGISTER_READ_ONLY } else { 0 };
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | read_only
    }
}

/// Host memory that the program allocated and registered: page-locked, and reached by devices at its own address.
///
/// The allocation belongs to this value, and is freed only once the driver has let go of it: where unregistering failed,
/// it is leaked, and the warning says so. Streams of other contexts have to be told to it
/// ([`used_on`](Self::used_on)).
///
/// Its drop calls `cuMemHostUnregister`; for users in other contexts before that `cuStreamIsCapturing`, `cuEventCreate`,
/// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`. Unique: what waits for the GPU
/// is left to the reclaimer. To register the same memory again, [`close`](Self::close) it first.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, RegisterOptions, RegisteredMemory};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let options = RegisterOptions::default();
/// let memory = RegisteredMemory::new(device.context(), vec![0; 4096], options)?;
/// assert_eq!(memory.bytes(), 4096);
/// memory.close()?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct RegisteredMemory(Owned<RegisteredRes>);

impl RegisteredMemory {
    /// Registers a vector's bytes, at least 1, and owns the vector.
    ///
    /// Calls `cuMemHostRegister`; `cuMemHostUnregister` where it is undone.
    ///
    /// # Errors
    /// An empty vector is refused; the call's failure, such as `NOT_SUPPORTED` for an option that the device lacks; that
    /// of making the context current and the caller's again. The vector is dropped.
    #[doc(alias = "cuMemHostRegister")]
    pub fn new(context: &Context, mut memory: Vec<u8>, options: RegisterOptions) -> Result<Self> {
        let (start, bytes) = (memory.as_mut_ptr(), memory.len());
        let host: Owner = Arc::new(memory);
        let Some(start) = NonNull::new(start) else { return Err(Error::argument("memory: null")) };
        // SAFETY: *memory*: the vector's elements stay where they are until the last of the owner is gone.
        unsafe { Self::with_owner(context, start, bytes, Some(host), options) }
    }

    /// Registers memory that `owner` keeps alive.
    ///
    /// Calls `cuMemHostRegister`; `cuMemHostUnregister` where it is undone.
    ///
    /// # Errors
    /// As [`new`](Self::new); the owner is dropped.
    ///
    /// # Safety
    /// *memory*: `start` is the address of `bytes` readable bytes of the host, writable unless the options say that they
    /// are only read, that `owner` keeps alive; without an owner they live until the driver has let go of them, for good
    /// where this value's end couldn't make sure of that.
    pub unsafe fn with_owner(
        context: &Context,
        start: NonNull<u8>,
        bytes: usize,
        owner: Option<Owner>,
        options: RegisterOptions,
    ) -> Result<Self> {
        let make = |calls: Calls<'_>, deps: &RegisteredDeps| {
            deps.set_reachable(true);
            // SAFETY: *pointers*: the range is the caller's promise.
            let done = unsafe {
                calls.cuMemHostRegister_v2(start.as_ptr().cast(), bytes, options.flags())
            };
            if done.is_err() {
                deps.set_reachable(false);
            }
            done.map(|()| start.as_ptr().expose_provenance() as u64)
        };
        let deps = RegisteredDeps::new(context, bytes, owner)?;
        Ok(Self(Owned::create(Call::cuMemHostRegister_v2, deps, make)?))
    }

    /// Takes over memory that the caller registered, with the value that keeps it alive.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// No bytes are refused; the memory is then still the caller's.
    ///
    /// # Safety
    /// `start` was registered in this context, as `bytes` bytes, and nobody else unregisters it; `owner` keeps it alive,
    /// as with [`with_owner`](Self::with_owner).
    pub unsafe fn from_raw(
        context: &Context,
        start: NonNull<u8>,
        bytes: usize,
        owner: Option<Owner>,
    ) -> Result<Self> {
        let deps = RegisteredDeps::new(context, bytes, owner)?;
        deps.set_reachable(true);
        Ok(Self(Owned::own(start.as_ptr().expose_provenance() as u64, deps)))
    }

    /// Refers to memory that somebody else registered and unregisters; `owner` is kept alive as long.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// No bytes are refused.
    ///
    /// # Safety
    /// `start` is registered, as `bytes` bytes, as long as this value lives, or `owner` keeps it so.
    pub unsafe fn borrow_raw(
        context: &Context,
        start: NonNull<u8>,
        bytes: usize,
        owner: Option<Owner>,
    ) -> Result<Self> {
        let deps = RegisteredDeps::new(context, bytes, None)?;
        Ok(Self(Owned::borrow(start.as_ptr().expose_provenance() as u64, deps, owner)))
    }

    /// The address on the host and on devices, which stays this value's. What may be done with it while work on a GPU uses
    /// the memory is the caller's to know.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> *mut u8 {
        host_ptr(self.0.raw())
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// Tells that work which was queued on this stream uses the memory, so that its end waits for that work. Streams of
    /// its own context need not be told. To be called after the work was queued.
    ///
    /// Calls nothing for a stream that this library can ask later; for a per-thread default stream of another context,
    /// or one that is borrowed without an owner, `cuEventCreate` and `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// A stream of another driver; the calls' failures, after which the memory is leaked rather than freed.
    pub fn used_on(&self, stream: &impl AsStream) -> Result<()> {
        self.used_by(stream.as_stream())
    }

    /// Unregisters the memory here and now and drops its owner. Waits for all work of its context, and for users in other
    /// contexts.
    ///
    /// Calls `cuMemHostUnregister`; for users in other contexts before that `cuStreamIsCapturing`, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the memory where the driver wasn't asked to unregister it. Where it was, the allocation is
    /// leaked.
    #[doc(alias = "cuMemHostUnregister")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }

    /// Gives the memory away, registered as it is. It stays allocated for good: its owner is leaked with it.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Gives this value back where the memory is somebody else's to unregister.
    pub fn into_raw(self) -> Result<*mut u8, Self> {
        self.0.into_raw().map(host_ptr).map_err(Self)
    }
}

impl fmt::Debug for RegisteredMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

sized_forms! { RegisteredMemory, end_waits_for_own_context: true }
kernel_arguments! { RegisteredMemory }

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<RegisteredMemory>();
    assert!(size_of::<RegisteredMemory>() == 8);
};
