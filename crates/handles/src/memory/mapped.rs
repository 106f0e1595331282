//! The memory of a mapping, as kernels use it.

#![expect(unsafe_code, reason = "takes raw addresses")]

use super::{Mapping, kernel_arguments};
use crate::{
    driver::Driver,
    error::{Refused, Result},
    object::ObjectKind,
    resource::{Closed, Handle, Resource},
    stream::{AsStream, StreamRef},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};

/// The resource behind [`MappedMemory`].
#[derive(Debug)]
pub(crate) struct MappedRes;

// SAFETY: *ends*: nothing, it ends with its mapping. *Dependencies*: the mapping.
unsafe impl Resource for MappedRes {
    type Raw = CUdeviceptr;
    type Deps = Mapping;
    const KIND: ObjectKind = ObjectKind::MappedMemory;
    const DESTROY: Option<Call> = None;

    fn driver(deps: &Mapping) -> &Driver {
        deps.driver()
    }
    fn context(_: &Mapping) -> CUcontext {
        CUcontext::NULL
    }
    unsafe fn destroy(_: Calls<'_>, _: CUdeviceptr, _: &Mapping) -> Result<(), Failure> {
        Ok(())
    }
}

/// The memory of a [`Mapping`], which it keeps: [`Mapping::memory`] gives it.
///
/// Clones are the same memory. Its drop calls nothing by itself; the last one may be the mapping's last handle.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct MappedMemory(Handle<MappedRes>);

impl MappedMemory {
    pub(super) fn of(mapping: &Mapping) -> Self {
        Self(Handle::own(mapping.as_raw(), mapping.clone()))
    }

    /// The mapping.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        self.0.deps()
    }

    /// Its size in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.mapping().bytes()
    }

    /// The address for a call of ours.
    #[doc(hidden)]
    #[must_use]
    pub fn device_ptr(&self) -> CUdeviceptr {
        self.0.raw()
    }

    /// Tells that work which was queued on this stream uses the memory: as [`Mapping::used_on`].
    ///
    /// Calls nothing for a stream that this library can ask later; for a per-thread default stream, or one that is
    /// borrowed without an owner, `cuEventCreate` and `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// As [`Mapping::used_on`].
    pub fn used_on(&self, stream: &impl AsStream) -> Result<()> {
        self.used_by(stream.as_stream())
    }

    fn used_by(&self, stream: StreamRef<'_>) -> Result<()> {
        self.mapping().used_by(stream)
    }

    /// Lets go of the memory; it ends with the mapping.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`Refused`], with the handle where no call may be made.
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! {
    MappedMemory(Handle<MappedRes>): CUdeviceptr, "mapped address", (mapping: &Mapping) => mapping.clone()
}

kernel_arguments! { MappedMemory }

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<MappedMemory>();
};
