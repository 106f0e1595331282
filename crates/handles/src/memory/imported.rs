//! Device memory of another process, opened through a handle.

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

/// The resource behind [`ImportedMemory`].
#[derive(Debug)]
pub(crate) struct ImportedRes;

// SAFETY: *ends*: `cuIpcCloseMemHandle`. *Dependencies*: the memory is open in its context.
unsafe impl Resource for ImportedRes {
    type Raw = CUdeviceptr;
    type Deps = MemoryDeps;
    const KIND: ObjectKind = ObjectKind::ImportedMemory;
    const DESTROY: Option<Call> = Some(Call::cuIpcCloseMemHandle);

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
        // SAFETY: *pointers*: open, by the caller's promise.
        unsafe { calls.cuIpcCloseMemHandle(raw) }
    }
}

/// What names memory to another process: 64 bytes to send as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemoryHandle([u8; 64]);

impl MemoryHandle {
    pub(super) fn of(raw: CUipcMemHandle) -> Self {
        Self(raw.reserved.map(|byte| byte.to_ne_bytes()[0]))
    }

    fn raw(self) -> CUipcMemHandle {
        CUipcMemHandle { reserved: self.0.map(|byte| c_char::from_ne_bytes([byte])) }
    }

    /// The bytes to send.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 64] {
        self.0
    }

    /// The handle that was received as these bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }
}

/// Device memory of another process, which owns it and must not free it while it is open here.
///
/// Every stream that uses it has to be told to it ([`used_on`](Self::used_on)), those of its own context as well: the
/// driver isn't known to wait for any. A kernel that gets it as an argument tells it by itself.
///
/// Its drop calls `cuIpcCloseMemHandle`; for users before that `cuStreamIsCapturing`, `cuEventCreate`,
/// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`. Unique: with users the end is left to the
/// reclaimer.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, DeviceMemory, Driver, ImportedMemory, MemoryHandle};
/// # use cuhold_driver_sim::{Sim, SimOptions};
/// # let here = Sim::new();
/// # let there = here.other_process(SimOptions::default());
/// # let (here, there) = (Driver::from_api(here), Driver::from_api(there));
/// // In one process:
/// let device = Device::with_driver(&here, 0)?;
/// let memory = DeviceMemory::new(device.context(), 4096)?;
/// let sent: [u8; 64] = memory.export()?.to_bytes();
/// // In another:
/// let device = Device::with_driver(&there, 0)?;
/// let handle = MemoryHandle::from_bytes(sent);
/// let imported = ImportedMemory::open(device.context(), handle, 4096)?;
/// imported.close()?;
/// # memory.close()?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct ImportedMemory(Owned<ImportedRes>);

impl ImportedMemory {
    /// Opens memory that another process exported; `bytes` is its size there, at least 1, which the driver doesn't tell.
    ///
    /// Calls `cuIpcOpenMemHandle`; `cuIpcCloseMemHandle` where it is undone.
    ///
    /// # Errors
    /// No bytes are refused; the call's failure, such as `INVALID_CONTEXT` for what this process itself exported; that of
    /// making the context current and the caller's again.
    #[doc(alias = "cuIpcOpenMemHandle")]
    pub fn open(context: &Context, handle: MemoryHandle, bytes: usize) -> Result<Self> {
        const LAZY: u32 = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.0;
        let make = |calls: Calls<'_>, _: &MemoryDeps| {
            let mut raw = 0;
            // SAFETY: *pointers*: `raw` is a live local.
            unsafe { calls.cuIpcOpenMemHandle_v2(&raw mut raw, handle.raw(), LAZY) }?;
            Ok(raw)
        };
        let deps = MemoryDeps::new(context, bytes)?;
        Ok(Self(Owned::create(Call::cuIpcOpenMemHandle_v2, deps, make)?))
    }

    /// Tells that work which was queued on this stream uses the memory, so that its end waits for that work. To be called
    /// after the work was queued.
    ///
    /// Calls nothing for a stream that this library can ask later; for a per-thread default stream, or one that is
    /// borrowed without an owner, `cuEventCreate` and `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// A stream of another driver; the calls' failures, after which the memory stays open for good.
    pub fn used_on(&self, stream: &impl AsStream) -> Result<()> {
        self.used_by(stream.as_stream())
    }

    /// Closes the memory here and now, once its users are done.
    ///
    /// Calls `cuIpcCloseMemHandle`; for users before that `cuStreamIsCapturing`, `cuEventCreate`, `cuEventRecord`,
    /// `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the memory where the driver wasn't asked to close it.
    #[doc(alias = "cuIpcCloseMemHandle")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! {
    ImportedMemory(Owned<ImportedRes>): CUdeviceptr, "imported address",
    (context: &Context, bytes: usize) => MemoryDeps::new(context, bytes)?
}

sized_forms! { ImportedMemory, end_waits_for_own_context: false }
kernel_arguments! { ImportedMemory }

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ImportedMemory>();
    assert!(size_of::<ImportedMemory>() == 8);
};
