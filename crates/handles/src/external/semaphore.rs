//! External semaphores: what another API signals and waits for.
//!
//! Source: CUDA Driver API 13.x, "External Resource Interoperability".

#![expect(unsafe_code, reason = "calls the driver's external semaphore functions")]

use super::Handed;
use crate::{
    context::Context,
    driver::Driver,
    error::{Error, Refused, Result},
    memory::Users,
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
    scope,
    stream::{AsStream as _, Stream},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// The resource behind [`ExternalSemaphore`].
#[derive(Debug)]
pub(crate) struct ExternalSemaphoreRes;

/// What a semaphore refers to.
#[derive(Debug)]
pub(crate) struct SemaphoreDeps {
    context: Context,
    /// The streams with signals and waits, which must be done before it ends (documented).
    users: Users,
}

impl SemaphoreDeps {
    fn new(context: &Context) -> Self {
        Self { context: context.clone(), users: Users::default() }
    }
}

// SAFETY: *ends*: `cuDestroyExternalSemaphore`. *Dependencies*: the semaphore refers to its context.
unsafe impl Resource for ExternalSemaphoreRes {
    type Raw = CUexternalSemaphore;
    type Deps = SemaphoreDeps;
    const KIND: ObjectKind = ObjectKind::ExternalSemaphore;
    const DESTROY: Option<Call> = Some(Call::cuDestroyExternalSemaphore);

    fn driver(deps: &SemaphoreDeps) -> &Driver {
        deps.context.driver()
    }
    fn context(deps: &SemaphoreDeps) -> CUcontext {
        deps.context.as_raw()
    }
    fn users(deps: &SemaphoreDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(
        calls: Calls<'_>,
        raw: CUexternalSemaphore,
        _: &SemaphoreDeps,
    ) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuDestroyExternalSemaphore(raw) }
    }
}

/// What a file descriptor of a semaphore is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[non_exhaustive]
pub enum ExternalSemaphoreKind {
    /// An opaque one without values, as Vulkan exports it.
    #[default]
    OpaqueFd,
    /// A timeline: a counter.
    Timeline,
}

impl ExternalSemaphoreKind {
    const fn raw(self) -> CUexternalSemaphoreHandleType {
        use CUexternalSemaphoreHandleType as Type;
        match self {
            Self::OpaqueFd => Type::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD,
            Self::Timeline => Type::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD,
        }
    }
}

/// A semaphore of another API, imported. Signals and waits that were queued must be done before it ends (documented), so
/// its end waits for their streams; a `Drop` leaves that to the [reclaimer](crate::Reclaim).
///
/// Its drop calls `cuDestroyExternalSemaphore`; for streams that use it before that `cuStreamIsCapturing`,
/// `cuEventCreate`, `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
pub struct ExternalSemaphore(Owned<ExternalSemaphoreRes>);

impl ExternalSemaphore {
    /// Imports a semaphore; the driver takes the file descriptor when that succeeds.
    ///
    /// Calls `cuImportExternalSemaphore`; `cuDestroyExternalSemaphore` where it is undone.
    ///
    /// # Errors
    /// [`Refused`], with the descriptor where the driver hasn't taken it: the call's failure, or that of making the
    /// context current and the caller's again.
    #[doc(alias = "cuImportExternalSemaphore")]
    pub fn import(
        context: &Context,
        fd: OwnedFd,
        kind: ExternalSemaphoreKind,
    ) -> Result<Self, Refused<Option<OwnedFd>>> {
        let fd = Handed::new(fd);
        let mut desc = CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC {
            type_: kind.raw(),
            ..CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC::default()
        };
        desc.handle.fd = fd.fd.as_raw_fd();
        let make = |calls: Calls<'_>, _: &SemaphoreDeps| {
            let (mut raw, desc) = (CUexternalSemaphore::NULL, &raw const desc);
            // SAFETY: *pointers*: live locals; *handles*: the descriptor is open, and the driver's when this succeeds.
            unsafe { calls.cuImportExternalSemaphore(&raw mut raw, desc) }?;
            fd.is_taken.set(true);
            Ok(raw)
        };
        match Owned::create(Call::cuImportExternalSemaphore, SemaphoreDeps::new(context), make) {
            Ok(semaphore) => {
                fd.taken();
                Ok(Self(semaphore))
            }
            Err(error) => Err(fd.refused(error)),
        }
    }

    /// The context that the semaphore was imported into.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.deps().context
    }

    /// Signals the semaphore when the stream comes to it: a timeline's counter becomes `value`, which others ignore.
    ///
    /// Calls `cuSignalExternalSemaphoresAsync`; for a stream that is borrowed without an owner also `cuEventCreate` and
    /// `cuEventRecord`, and `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// A stream of another driver or, for a default stream, of another context; the call's failure, or that of making
    /// the context current and the caller's again.
    #[doc(alias = "cuSignalExternalSemaphoresAsync")]
    pub fn signal(&self, stream: &Stream, value: u64) -> Result<()> {
        let raw_stream = self.check(stream)?;
        let mut params = CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS::default();
        params.params.fence.value = value;
        let (raw, params) = (self.as_raw(), &raw const params);
        let queued = scope::run(self.context().target(), |calls| {
            let semaphore = &raw const raw;
            // SAFETY: *pointers*: one of each, live locals; *handles*: this semaphore and the stream.
            unsafe { calls.cuSignalExternalSemaphoresAsync(semaphore, params, 1, raw_stream) }
        });
        self.used(stream, queued)
    }

    /// Lets the stream wait for the semaphore: for a timeline's counter to be at least `value`, which others ignore.
    ///
    /// Calls `cuWaitExternalSemaphoresAsync`; for a stream that is borrowed without an owner also `cuEventCreate` and
    /// `cuEventRecord`, and `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    #[doc(alias = "cuWaitExternalSemaphoresAsync")]
    pub fn await_signal(&self, stream: &Stream, value: u64) -> Result<()> {
        let raw_stream = self.check(stream)?;
        let mut params = CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS::default();
        params.params.fence.value = value;
        let (raw, params) = (self.as_raw(), &raw const params);
        let queued = scope::run(self.context().target(), |calls| {
            let semaphore = &raw const raw;
            // SAFETY: *pointers*: one of each, live locals; *handles*: this semaphore and the stream.
            unsafe { calls.cuWaitExternalSemaphoresAsync(semaphore, params, 1, raw_stream) }
        });
        self.used(stream, queued)
    }

    /// Remembers the stream, whatever the call answered: it may have been carried out (P6).
    fn used(&self, stream: &Stream, queued: Result<()>) -> Result<()> {
        let kept = self.0.deps().users.used_on(stream.as_stream(), None);
        let kept = kept.map_err(|error| error.with_completed(1));
        match (queued, kept) {
            (Err(error), Err(second)) => Err(error.with_second(&second)),
            (queued, kept) => queued.and(kept),
        }
    }

    fn check(&self, stream: &Stream) -> Result<CUstream> {
        check_stream(self.context(), stream)
    }

    /// Ends the semaphore here and now. Waits for the streams that use it.
    ///
    /// Calls `cuDestroyExternalSemaphore`; for streams that use it before that `cuStreamIsCapturing`, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the semaphore where the driver wasn't asked.
    #[doc(alias = "cuDestroyExternalSemaphore")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

/// The stream for a call that is made in this context, where a default stream's handle means that context's own.
pub(super) fn check_stream(context: &Context, stream: &Stream) -> Result<CUstream> {
    context.driver().check_same(stream.driver(), "stream")?;
    if stream.is_token() && !context.is_same(stream.context()) {
        return Err(Error::argument("stream: it is the default stream of another context"));
    }
    Ok(stream.raw())
}

forms! {
    ExternalSemaphore(Owned<ExternalSemaphoreRes>): CUexternalSemaphore, "external semaphore",
    (context: &Context) => SemaphoreDeps::new(context)
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ExternalSemaphore>();
};
