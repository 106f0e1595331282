//! Device memory of a context, allocated and freed outside of any stream's order.

#![expect(unsafe_code, reason = "calls the driver's memory functions")]

use super::{MemoryDeps, MemoryHandle, Users, kernel_arguments, sized_forms};
use crate::{
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
    scope,
    stream::AsStream,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};

/// The resource behind [`DeviceMemory`].
#[derive(Debug)]
pub(crate) struct DeviceMemoryRes;

// SAFETY: *ends*: `cuMemFree`. *Dependencies*: the memory ends with its context.
unsafe impl Resource for DeviceMemoryRes {
    type Raw = CUdeviceptr;
    type Deps = MemoryDeps;
    const KIND: ObjectKind = ObjectKind::DeviceMemory;
    const DESTROY: Option<Call> = Some(Call::cuMemFree_v2);

    fn driver(deps: &MemoryDeps) -> &Driver {
        deps.context.driver()
    }
    fn context(deps: &MemoryDeps) -> CUcontext {
        deps.context.as_raw()
    }
    fn users(deps: &MemoryDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUdeviceptr, _: &MemoryDeps) -> Result<(), Failure> {
        // SAFETY: *pointers*: live, by the caller's promise.
        unsafe { calls.cuMemFree_v2(raw) }
    }
}

/// Device memory that isn't stream-ordered: it may be used on every stream of its context at once, and is freed behind
/// all of the context's work. Its content is undefined at first.
///
/// Streams of *other* contexts have to be told to it ([`used_on`](Self::used_on)): its end waits for them then. A kernel
/// that gets it as an argument tells it by itself.
///
/// Its drop calls `cuMemFree`; for users in other contexts before that `cuStreamIsCapturing`, `cuEventCreate`,
/// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`. Unique: what waits for the GPU is
/// left to the reclaimer.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, DeviceMemory, Driver};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let memory = DeviceMemory::new(device.context(), 1 << 20)?;
/// assert_eq!(memory.bytes(), 1 << 20);
/// memory.close()?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct DeviceMemory(Owned<DeviceMemoryRes>);

impl DeviceMemory {
    /// Allocates that many bytes, at least 1.
    ///
    /// Calls `cuMemAlloc`; `cuMemFree` where it is undone.
    ///
    /// # Errors
    /// No bytes are refused; `OUT_OF_MEMORY`, or another failure of the call, or that of making the context current and
    /// the caller's again.
    #[doc(alias = "cuMemAlloc")]
    pub fn new(context: &Context, bytes: usize) -> Result<Self> {
        let make = |calls: Calls<'_>, _: &MemoryDeps| {
            let mut raw = 0;
            // SAFETY: *pointers*: `raw` is a live local.
            unsafe { calls.cuMemAlloc_v2(&raw mut raw, bytes) }?;
            Ok(raw)
        };
        Ok(Self(Owned::create(Call::cuMemAlloc_v2, MemoryDeps::new(context, bytes)?, make)?))
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

    /// A handle by which other processes open the memory, which must stay alive while any of them has it open.
    ///
    /// Calls `cuIpcGetMemHandle`.
    ///
    /// # Errors
    /// The call's failure, or that of making the context current and the caller's again.
    #[doc(alias = "cuIpcGetMemHandle")]
    pub fn export(&self) -> Result<MemoryHandle> {
        let mut handle = CUipcMemHandle::default();
        scope::run(self.context().target(), |calls| {
            // SAFETY: *pointers*: a live local; the address is this value's.
            unsafe { calls.cuIpcGetMemHandle(&raw mut handle, self.0.raw()) }
        })?;
        Ok(MemoryHandle::of(handle))
    }

    /// Frees the memory here and now. Waits for all work of its context, and for users in other contexts.
    ///
    /// Calls `cuMemFree`; for users in other contexts before that `cuStreamIsCapturing`, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the memory where the driver wasn't asked to free it.
    #[doc(alias = "cuMemFree")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! {
    DeviceMemory(Owned<DeviceMemoryRes>): CUdeviceptr, "device address",
    (context: &Context, bytes: usize) => MemoryDeps::new(context, bytes)?
}

sized_forms! { DeviceMemory, end_waits_for_own_context: true }
kernel_arguments! { DeviceMemory }

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<DeviceMemory>();
    assert!(size_of::<DeviceMemory>() == 8);
};
