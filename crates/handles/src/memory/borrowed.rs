//! Device memory that somebody else ends, kept alive by an owner.

#![expect(unsafe_code, reason = "takes raw addresses")]

use super::{MemoryDeps, Users, kernel_arguments, sized_forms};
use crate::{
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    object::ObjectKind,
    resource::{Closed, Owned, Owner, Resource, not_null},
    stream::AsStream,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::fmt;

/// The resource behind [`BorrowedMemory`].
#[derive(Debug)]
pub(crate) struct BorrowedRes;

// SAFETY: *ends*: nothing, somebody else ends it. *Dependencies*: its context.
unsafe impl Resource for BorrowedRes {
    type Raw = CUdeviceptr;
    type Deps = MemoryDeps;
    const KIND: ObjectKind = ObjectKind::BorrowedMemory;
    const DESTROY: Option<Call> = None;

    fn driver(deps: &MemoryDeps) -> &Driver {
        deps.context.driver()
    }
    fn context(deps: &MemoryDeps) -> CUcontext {
        deps.context.as_raw()
    }
    fn users(deps: &MemoryDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(_: Calls<'_>, _: CUdeviceptr, _: &MemoryDeps) -> Result<(), Failure> {
        Ok(())
    }
}

/// Device memory of any kind that somebody else ends: an address, its size, and a value that keeps it alive.
///
/// The owner is dropped after the streams that were told to it ([`used_on`](Self::used_on)) are done; how it frees the
/// memory isn't known, so every stream has to be told, those of its own context as well. A kernel that gets it as an
/// argument tells it by itself.
///
/// Unique. Its drop calls `cuStreamIsCapturing`, `cuEventCreate`, `cuEventRecord`, `cuEventSynchronize` and
/// `cuEventDestroy` for users, and then the owner is dropped on the reclaimer; without users it makes no call.
///
/// # Examples
/// ```
/// # use cuhold_handles::{BorrowedMemory, Device, DeviceMemory, Driver};
/// # use std::sync::Arc;
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let (context, memory) = (device.context(), DeviceMemory::new(device.context(), 64)?);
/// let (address, owner) = (memory.as_raw(), Arc::new(memory));
/// // SAFETY: the owner keeps the memory alive, which has as many bytes.
/// let borrowed = unsafe { BorrowedMemory::borrow_raw(context, 64, address, Some(owner))? };
/// assert_eq!(borrowed.as_raw(), address);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct BorrowedMemory(Owned<BorrowedRes>);

impl BorrowedMemory {
    /// Refers to memory that somebody else ends; `owner` is kept alive as long as this value and what uses it.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Null and no bytes are refused.
    ///
    /// # Safety
    /// `raw` is the address of as many bytes of memory that work of this context may use, which live as long as this
    /// value, or `owner` keeps them alive.
    pub unsafe fn borrow_raw(
        context: &Context,
        bytes: usize,
        raw: CUdeviceptr,
        owner: Option<Owner>,
    ) -> Result<Self> {
        let deps = MemoryDeps::new(context, bytes)?;
        Ok(Self(Owned::borrow(not_null(raw, "device address")?, deps, owner)))
    }

    /// The address, which stays its owner's.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.0.raw()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// Tells that work which was queued on this stream uses the memory, so that the owner outlives that work. To be called
    /// after the work was queued.
    ///
    /// Calls nothing for a stream that this library can ask later; for a per-thread default stream, or one that is
    /// borrowed without an owner, `cuEventCreate` and `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// A stream of another driver; the calls' failures, after which the owner is leaked.
    pub fn used_on(&self, stream: &impl AsStream) -> Result<()> {
        self.used_by(stream.as_stream())
    }

    /// Lets go of the owner here and now, once the users are done.
    ///
    /// Calls nothing without users; with them `cuStreamIsCapturing`, `cuEventCreate`, `cuEventRecord`,
    /// `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with this value: the users aren't known to be done.
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

impl fmt::Debug for BorrowedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

sized_forms! { BorrowedMemory, end_waits_for_own_context: false }
kernel_arguments! { BorrowedMemory }

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<BorrowedMemory>();
};
