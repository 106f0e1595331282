//! External memory, mapped as device memory.
//!
//! Source: CUDA Driver API 13.x, "External Resource Interoperability".

#![expect(unsafe_code, reason = "calls the driver's external memory functions")]

use super::ExternalMemory;
use crate::{
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::sync::Arc;

/// The resource behind [`ExternalBuffer`].
#[derive(Debug)]
pub(crate) struct ExternalBufferRes;

// SAFETY: *ends*: `cuMemFree`, as the manual asks of a mapping. *Dependencies*: the external memory.
unsafe impl Resource for ExternalBufferRes {
    type Raw = CUdeviceptr;
    type Deps = Arc<ExternalMemory>;
    const KIND: ObjectKind = ObjectKind::DeviceMemory;
    const DESTROY: Option<Call> = Some(Call::cuMemFree_v2);

    fn driver(deps: &Arc<ExternalMemory>) -> &Driver {
        deps.driver()
    }
    fn context(deps: &Arc<ExternalMemory>) -> CUcontext {
        deps.context().as_raw()
    }
    unsafe fn destroy(
        calls: Calls<'_>,
        raw: CUdeviceptr,
        _: &Arc<ExternalMemory>,
    ) -> Result<(), Failure> {
        // SAFETY: *handles*: the mapping is live, by the caller's promise.
        unsafe { calls.cuMemFree_v2(raw) }
    }
}

/// External memory mapped as device memory, which it keeps alive: [`ExternalMemory::map_buffer`] makes it.
///
/// Freeing it waits for the work of its context, so a `Drop` leaves that to the [reclaimer](crate::Reclaim). Its drop
/// calls `cuMemFree`.
pub struct ExternalBuffer(Owned<ExternalBufferRes>);

impl ExternalBuffer {
    pub(super) fn map(memory: &Arc<ExternalMemory>, offset_bytes: u64, bytes: u64) -> Result<Self> {
        let desc = CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
            offset: offset_bytes,
            size: bytes,
            ..CUDA_EXTERNAL_MEMORY_BUFFER_DESC::default()
        };
        let make = |calls: Calls<'_>, memory: &Arc<ExternalMemory>| {
            let (mut raw, memory, desc) = (0, memory.as_raw(), &raw const desc);
            // SAFETY: *pointers*: live locals; *handles*: the external memory is held.
            unsafe { calls.cuExternalMemoryGetMappedBuffer(&raw mut raw, memory, desc) }?;
            Ok(raw)
        };
        let call = Call::cuExternalMemoryGetMappedBuffer;
        Ok(Self(Owned::create(call, Arc::clone(memory), make)?))
    }

    /// The external memory.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn memory(&self) -> &Arc<ExternalMemory> {
        self.0.deps()
    }

    /// The context that the memory was imported into.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps().context()
    }

    /// Frees the mapping here and now. Waits for the work of its context.
    ///
    /// Calls `cuMemFree`.
    ///
    /// # Errors
    /// [`Refused`], with the mapping where the driver wasn't asked.
    #[doc(alias = "cuMemFree")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! {
    ExternalBuffer(Owned<ExternalBufferRes>): CUdeviceptr, "mapped address",
    (memory: &Arc<ExternalMemory>) => Arc::clone(memory)
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ExternalBuffer>();
};
