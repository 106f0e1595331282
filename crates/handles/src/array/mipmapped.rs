//! Mipmapped arrays: an array in several sizes.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

#![expect(unsafe_code, reason = "calls the driver's mipmapped array functions")]

use super::ArrayDesc;
use crate::{
    context::Context,
    driver::Driver,
    error::{Error, Refused, Result},
    external::ExternalMemory,
    memory::Users,
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
    stream::{AsStream, StreamRef},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::sync::Arc;

/// The resource behind [`MipmappedArray`].
#[derive(Debug)]
pub(crate) struct MipmappedRes;

/// What a mipmapped array refers to.
#[derive(Debug)]
pub(crate) struct MipmappedDeps {
    context: Context,
    /// Whose memory it is a mapping of.
    external: Option<Arc<ExternalMemory>>,
    users: Users,
}

impl MipmappedDeps {
    fn new(context: &Context, external: Option<Arc<ExternalMemory>>) -> Self {
        Self { context: context.clone(), external, users: Users::default() }
    }
}

// SAFETY: *ends*: `cuMipmappedArrayDestroy`. *Dependencies*: the array refers to its context, and a mapping to the memory
// that it maps.
unsafe impl Resource for MipmappedRes {
    type Raw = CUmipmappedArray;
    type Deps = MipmappedDeps;
    const KIND: ObjectKind = ObjectKind::MipmappedArray;
    const DESTROY: Option<Call> = Some(Call::cuMipmappedArrayDestroy);

    fn driver(deps: &MipmappedDeps) -> &Driver {
        deps.context.driver()
    }
    fn context(deps: &MipmappedDeps) -> CUcontext {
        deps.context.as_raw()
    }
    fn users(deps: &MipmappedDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(
        calls: Calls<'_>,
        raw: CUmipmappedArray,
        _: &MipmappedDeps,
    ) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuMipmappedArrayDestroy(raw) }
    }
}

/// A mipmapped array: levels, each half as large as the one before. It ends like an [`Array`](super::Array), and its
/// [levels](super::ArrayLevel) keep it alive.
///
/// Its drop calls `cuMipmappedArrayDestroy`; for users in other contexts before that `cuStreamIsCapturing`,
/// `cuEventCreate`, `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
///
/// # Examples
/// ```
/// # use cuhold_handles::{ArrayDesc, ArrayFormat, ArrayLevel, Device, Driver, MipmappedArray};
/// # use std::sync::Arc;
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let desc = ArrayDesc::flat(64, 32, ArrayFormat::F32, 1)?;
/// let array = Arc::new(MipmappedArray::new(device.context(), &desc, desc.levels_max())?);
/// let level = ArrayLevel::new(&array, 1)?;
/// assert_eq!(level.desc()?.width(), 32);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct MipmappedArray(Owned<MipmappedRes>);

impl MipmappedArray {
    /// Makes a mipmapped array in the context.
    ///
    /// Calls `cuMipmappedArrayCreate`; `cuMipmappedArrayDestroy` where it is undone.
    ///
    /// # Errors
    /// No levels, or more than [`ArrayDesc::levels_max`]; the call's failure, or that of making the context current and
    /// the caller's again.
    #[doc(alias = "cuMipmappedArrayCreate")]
    pub fn new(context: &Context, desc: &ArrayDesc, levels: u32) -> Result<Self> {
        check_levels(desc, levels)?;
        let make = |calls: Calls<'_>, _: &MipmappedDeps| {
            let mut raw = CUmipmappedArray::NULL;
            // SAFETY: *pointers*: `raw` is a live local, the description is borrowed.
            unsafe { calls.cuMipmappedArrayCreate(&raw mut raw, desc.as_raw(), levels) }?;
            Ok(raw)
        };
        let deps = MipmappedDeps::new(context, None);
        Ok(Self(Owned::create(Call::cuMipmappedArrayCreate, deps, make)?))
    }

    /// Maps a part of external memory.
    pub(crate) fn map(
        external: &Arc<ExternalMemory>,
        desc: &CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC,
    ) -> Result<Self> {
        let make = |calls: Calls<'_>, deps: &MipmappedDeps| {
            let (mut raw, memory) = (CUmipmappedArray::NULL, deps.external.as_ref());
            let memory = memory.map_or(CUexternalMemory::NULL, |memory| memory.as_raw());
            let desc = &raw const *desc;
            // SAFETY: *pointers*: live locals; *handles*: the external memory is held.
            unsafe { calls.cuExternalMemoryGetMappedMipmappedArray(&raw mut raw, memory, desc) }?;
            Ok(raw)
        };
        let deps = MipmappedDeps::new(external.context(), Some(Arc::clone(external)));
        Ok(Self(Owned::create(Call::cuExternalMemoryGetMappedMipmappedArray, deps, make)?))
    }

    /// The context that the array was made in.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.deps().context
    }

    /// Tells that work which was queued on this stream uses the array, so that its end waits for that work. Streams of
    /// its own context need not be told. To be called after the work was queued.
    ///
    /// Calls nothing for a stream that this library can ask later; for a per-thread default stream of another context,
    /// or one that is borrowed without an owner, `cuEventCreate` and `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// A stream of another driver; the calls' failures, after which the array is leaked rather than destroyed.
    pub fn used_on(&self, stream: &impl AsStream) -> Result<()> {
        self.used_by(stream.as_stream())
    }

    pub(crate) fn used_by(&self, stream: StreamRef<'_>) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        self.0.deps().users.used_on(stream, Some(self.context()))
    }

    /// Ends the array and its levels here and now. Waits for the work of its context, and for users in other contexts.
    ///
    /// Calls `cuMipmappedArrayDestroy`; for users in other contexts before that `cuStreamIsCapturing`, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the array where the driver wasn't asked.
    #[doc(alias = "cuMipmappedArrayDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

/// Refuses a number of levels that the driver would quietly change.
pub(crate) fn check_levels(desc: &ArrayDesc, levels: u32) -> Result<()> {
    let most = desc.levels_max();
    if (1..=most).contains(&levels) {
        return Ok(());
    }
    Err(Error::argument(format!("levels: {levels}, and an array of this size has 1 to {most}")))
}

forms! {
    MipmappedArray(Owned<MipmappedRes>): CUmipmappedArray, "mipmapped array",
    (context: &Context) => MipmappedDeps::new(context, None)
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<MipmappedArray>();
};
