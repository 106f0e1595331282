//! Managed memory: one address for the host and all devices, between which the driver moves its pages.

#![expect(unsafe_code, reason = "calls the driver's memory functions")]

use super::{MemoryDeps, Users, kernel_arguments, sized_forms};
use crate::{
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
    stream::AsStream,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};

/// The resource behind [`ManagedMemory`].
#[derive(Debug)]
pub(crate) struct ManagedRes;

// SAFETY: *ends*: `cuMemFree`. *Dependencies*: the memory ends with its context.
unsafe impl Resource for ManagedRes {
    type Raw = CUdeviceptr;
    type Deps = MemoryDeps;
    const KIND: ObjectKind = ObjectKind::ManagedMemory;
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

/// Who reaches managed memory at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum Attach {
    /// Every stream of every device.
    #[default]
    Global,
    /// The host alone, until it is attached to a stream.
    Host,
}

impl Attach {
    fn flags(self) -> u32 {
        match self {
            Self::Global => CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0,
            Self::Host => CUmemAttach_flags::CU_MEM_ATTACH_HOST.0,
        }
    }
}

/// Managed memory. Its content is undefined at first.
///
/// Streams of other contexts than its own have to be told to it ([`used_on`](Self::used_on)).
///
/// Its drop calls `cuMemFree`; for users in other contexts before that `cuStreamIsCapturing`, `cuEventCreate`,
/// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`. Unique: what waits for the GPU is
/// left to the reclaimer.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Attach, Device, Driver, ManagedMemory};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let memory = ManagedMemory::new(device.context(), 64, Attach::Global)?;
/// // SAFETY: no work on the GPU uses the memory yet.
/// unsafe { memory.as_ptr().write(7) };
/// memory.close()?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct ManagedMemory(Owned<ManagedRes>);

impl ManagedMemory {
    /// Allocates that many bytes, at least 1.
    ///
    /// Calls `cuMemAllocManaged`; `cuMemFree` where it is undone.
    ///
    /// # Errors
    /// No bytes are refused; `OUT_OF_MEMORY`, `NOT_SUPPORTED` where the device has none, or another failure of the call,
    /// or that of making the context current and the caller's again.
    #[doc(alias = "cuMemAllocManaged")]
    pub fn new(context: &Context, bytes: usize, attach: Attach) -> Result<Self> {
        let make = |calls: Calls<'_>, _: &MemoryDeps| {
            let mut raw = 0;
            // SAFETY: *pointers*: `raw` is a live local.
            unsafe { calls.cuMemAllocManaged(&raw mut raw, bytes, attach.flags()) }?;
            Ok(raw)
        };
        Ok(Self(Owned::create(Call::cuMemAllocManaged, MemoryDeps::new(context, bytes)?, make)?))
    }

    /// The address on the host, which is the same. What may be done with it while work on a GPU uses the memory is the
    /// caller's to know.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(usize::try_from(self.0.raw()).unwrap_or_default())
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
    ManagedMemory(Owned<ManagedRes>): CUdeviceptr, "managed address",
    (context: &Context, bytes: usize) => MemoryDeps::new(context, bytes)?
}

sized_forms! { ManagedMemory, end_waits_for_own_context: true }
kernel_arguments! { ManagedMemory }

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ManagedMemory>();
    assert!(size_of::<ManagedMemory>() == 8);
};
