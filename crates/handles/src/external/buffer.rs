//! External memory, mapped as device memory.
//!
//! Source: CUDA Driver API 13.x, "External Resource Interoperability".

#![expect(unsafe_code, reason = "calls the driver's external memory functions")]

use super::ExternalMemory;
use crate::{
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    memory::Users,
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
    stream::{AsStream, StreamRef},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::sync::Arc;

/// The resource behind [`ExternalBuffer`].
#[derive(Debug)]
pub(crate) struct ExternalBufferRes;

/// What a mapping refers to.
#[derive(Debug)]
pub(crate) struct BufferDeps {
    memory: Arc<ExternalMemory>,
    users: Users,
}

impl BufferDeps {
    fn new(memory: &Arc<ExternalMemory>) -> Self {
        Self { memory: Arc::clone(memory), users: Users::default() }
    }
}

// SAFETY: *ends*: `cuMemFree`, as the manual asks of a mapping. *Dependencies*: the external memory.
unsafe impl Resource for ExternalBufferRes {
    type Raw = CUdeviceptr;
    type Deps = BufferDeps;
    const KIND: ObjectKind = ObjectKind::DeviceMemory;
    const DESTROY: Option<Call> = Some(Call::cuMemFree_v2);

    fn driver(deps: &BufferDeps) -> &Driver {
        deps.memory.driver()
    }
    fn context(deps: &BufferDeps) -> CUcontext {
        deps.memory.context().as_raw()
    }
    fn users(deps: &BufferDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUdeviceptr, _: &BufferDeps) -> Result<(), Failure> {
        // SAFETY: *handles*: the mapping is live, by the caller's promise.
        unsafe { calls.cuMemFree_v2(raw) }
    }
}

/// External memory mapped as device memory, which it keeps alive: [`ExternalMemory::map_buffer`] makes it.
///
/// Freeing it waits for the work of its context, so a `Drop` leaves that to the [reclaimer](crate::Reclaim). Streams of
/// other contexts have to be told to it: see [`used_on`](Self::used_on).
///
/// Its drop calls `cuMemFree`; for users in other contexts before that `cuStreamIsCapturing`, `cuEventCreate`,
/// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
pub struct ExternalBuffer(Owned<ExternalBufferRes>);

impl ExternalBuffer {
    pub(super) fn map(memory: &Arc<ExternalMemory>, offset_bytes: u64, bytes: u64) -> Result<Self> {
        let desc = CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
            offset: offset_bytes,
            size: bytes,
            ..CUDA_EXTERNAL_MEMORY_BUFFER_DESC::default()
        };
        let make = |calls: Calls<'_>, deps: &BufferDeps| {
            let (mut raw, memory, desc) = (0, deps.memory.as_raw(), &raw const desc);
            // SAFETY: *pointers*: live locals; *handles*: the external memory is held.
            unsafe { calls.cuExternalMemoryGetMappedBuffer(&raw mut raw, memory, desc) }?;
            Ok(raw)
        };
        let call = Call::cuExternalMemoryGetMappedBuffer;
        Ok(Self(Owned::create(call, BufferDeps::new(memory), make)?))
    }

    /// The external memory.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn memory(&self) -> &Arc<ExternalMemory> {
        &self.0.deps().memory
    }

    /// The context that the memory was imported into.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.memory().context()
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

    fn used_by(&self, stream: StreamRef<'_>) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        self.0.deps().users.used_on(stream, Some(self.context()))
    }

    /// Frees the mapping here and now. Waits for the work of its context, and for users in other contexts.
    ///
    /// Calls `cuMemFree`; for users in other contexts before that `cuStreamIsCapturing`, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
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
    (memory: &Arc<ExternalMemory>) => BufferDeps::new(memory)
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ExternalBuffer>();
};
