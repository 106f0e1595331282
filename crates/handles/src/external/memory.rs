//! External memory: what another API allocated, imported.
//!
//! Source: CUDA Driver API 13.x, "External Resource Interoperability"; readings of a real driver, which imports memory of
//! its own that was exported as a file descriptor.

#![expect(unsafe_code, reason = "calls the driver's external memory functions")]

use super::Handed;
use crate::{
    array::{ArrayDesc, MipmappedArray, check_levels},
    context::Context,
    driver::Driver,
    error::{Error, Refused, Result},
    external::ExternalBuffer,
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::{
    ops::Range,
    os::fd::{AsRawFd as _, OwnedFd},
    sync::Arc,
};

/// The resource behind [`ExternalMemory`].
#[derive(Debug)]
pub(crate) struct ExternalMemoryRes;

/// What external memory refers to.
#[derive(Debug)]
pub(crate) struct ExternalMemoryDeps {
    context: Context,
    /// Where it is known.
    size_bytes: Option<u64>,
}

// SAFETY: *ends*: `cuDestroyExternalMemory`. *Dependencies*: the memory refers to its context.
unsafe impl Resource for ExternalMemoryRes {
    type Raw = CUexternalMemory;
    type Deps = ExternalMemoryDeps;
    const KIND: ObjectKind = ObjectKind::ExternalMemory;
    const DESTROY: Option<Call> = Some(Call::cuDestroyExternalMemory);

    fn driver(deps: &ExternalMemoryDeps) -> &Driver {
        deps.context.driver()
    }
    fn context(deps: &ExternalMemoryDeps) -> CUcontext {
        deps.context.as_raw()
    }
    unsafe fn destroy(
        calls: Calls<'_>,
        raw: CUexternalMemory,
        _: &ExternalMemoryDeps,
    ) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuDestroyExternalMemory(raw) }
    }
}

/// What a file descriptor of memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[non_exhaustive]
pub enum ExternalMemoryKind {
    /// An opaque one, as Vulkan exports it.
    #[default]
    OpaqueFd,
    /// A DMA-BUF.
    DmaBuf,
}

impl ExternalMemoryKind {
    const fn raw(self) -> CUexternalMemoryHandleType {
        match self {
            Self::OpaqueFd => CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
            Self::DmaBuf => CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD,
        }
    }
}

/// How memory is imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ExternalMemoryOptions {
    /// What the file descriptor is.
    pub kind: ExternalMemoryKind,
    /// The size of the memory in bytes, as it was exported.
    pub size_bytes: u64,
    /// Whether the memory is one resource's alone, as the other API says.
    pub dedicated: bool,
}

impl ExternalMemoryOptions {
    /// Opaque memory of this size in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self { size_bytes, ..Self::default() }
    }
}

/// Memory of another API, imported. What is mapped of it keeps it alive. Its drop calls `cuDestroyExternalMemory`.
pub struct ExternalMemory(Owned<ExternalMemoryRes>);

impl ExternalMemory {
    /// Imports memory; the driver takes the file descriptor when that succeeds.
    ///
    /// Calls `cuImportExternalMemory`; `cuDestroyExternalMemory` where it is undone.
    ///
    /// # Errors
    /// [`Refused`], with the descriptor where the driver hasn't taken it: a size of 0; the call's failure, or that of
    /// making the context current and the caller's again.
    #[doc(alias = "cuImportExternalMemory")]
    pub fn import(
        context: &Context,
        fd: OwnedFd,
        options: ExternalMemoryOptions,
    ) -> Result<Self, Refused<Option<OwnedFd>>> {
        let fd = Handed::new(fd);
        if options.size_bytes == 0 {
            let error = Error::argument("options: size_bytes is 0, and memory has at least 1 byte");
            return Err(fd.refused(error));
        }
        let mut desc = CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
            type_: options.kind.raw(),
            size: options.size_bytes,
            flags: if options.dedicated { CUDA_EXTERNAL_MEMORY_DEDICATED } else { 0 },
            ..CUDA_EXTERNAL_MEMORY_HANDLE_DESC::default()
        };
        desc.handle.fd = fd.fd.as_raw_fd();
        let make = |calls: Calls<'_>, _: &ExternalMemoryDeps| {
            let (mut raw, desc) = (CUexternalMemory::NULL, &raw const desc);
            // SAFETY: *pointers*: live locals; *handles*: the descriptor is open, and the driver's when this succeeds.
            unsafe { calls.cuImportExternalMemory(&raw mut raw, desc) }?;
            fd.is_taken.set(true);
            Ok(raw)
        };
        let size_bytes = Some(options.size_bytes);
        let deps = ExternalMemoryDeps { context: context.clone(), size_bytes };
        match Owned::create(Call::cuImportExternalMemory, deps, make) {
            Ok(memory) => {
                fd.taken();
                Ok(Self(memory))
            }
            Err(error) => Err(fd.refused(error)),
        }
    }

    /// The context that the memory was imported into.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.deps().context
    }

    /// Its size in bytes; `None` for memory that was taken over or borrowed.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn size_bytes(&self) -> Option<u64> {
        self.0.deps().size_bytes
    }

    /// Maps a range of bytes as device memory.
    ///
    /// Calls `cuExternalMemoryGetMappedBuffer`.
    ///
    /// # Errors
    /// A range that is empty or, where the size is known, not inside; the call's failure.
    #[doc(alias = "cuExternalMemoryGetMappedBuffer")]
    pub fn map_buffer(self: &Arc<Self>, range: Range<u64>) -> Result<ExternalBuffer> {
        let bytes = range.end.saturating_sub(range.start);
        if bytes == 0 {
            return Err(Error::argument("range: it is empty, and at least 1 byte is mapped"));
        }
        self.check_end("range", Some(range.end))?;
        ExternalBuffer::map(self, range.start, bytes)
    }

    /// Maps memory from `offset_bytes` on as a mipmapped array, laid out as the other API laid it out.
    ///
    /// Calls `cuExternalMemoryGetMappedMipmappedArray`.
    ///
    /// # Errors
    /// No levels, or more than the array can have; an offset that, where the size is known, isn't inside; the call's
    /// failure.
    #[doc(alias = "cuExternalMemoryGetMappedMipmappedArray")]
    pub fn map_mipmapped(
        self: &Arc<Self>,
        offset_bytes: u64,
        desc: &ArrayDesc,
        levels: u32,
    ) -> Result<MipmappedArray> {
        check_levels(desc, levels)?;
        self.check_end("offset_bytes", offset_bytes.checked_add(1))?;
        let desc = CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {
            offset: offset_bytes,
            arrayDesc: *desc.as_raw(),
            numLevels: levels,
            ..CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC::default()
        };
        MipmappedArray::map(self, &desc)
    }

    fn check_end(&self, name: &str, end: Option<u64>) -> Result<()> {
        let Some(size) = self.size_bytes() else { return Ok(()) };
        if end.is_some_and(|end| end <= size) {
            return Ok(());
        }
        Err(Error::argument(format!("{name}: it ends behind the memory's {size} bytes")))
    }

    /// Ends the memory here and now. Waits for nothing.
    ///
    /// Calls `cuDestroyExternalMemory`.
    ///
    /// # Errors
    /// [`Refused`], with the memory where the driver wasn't asked.
    #[doc(alias = "cuDestroyExternalMemory")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! {
    ExternalMemory(Owned<ExternalMemoryRes>): CUexternalMemory, "piece of external memory",
    (context: &Context) => ExternalMemoryDeps { context: context.clone(), size_bytes: None }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ExternalMemory>();
};
