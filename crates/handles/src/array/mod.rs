//! Arrays: memory laid out for textures and surfaces, without an address.
//!
//! ```text
//!   Context ─► Array ◄──────────────────── Texture, Surface
//!         └──► MipmappedArray ◄─ ArrayLevel ◄──┘
//! ```
//!
//! An array is unique; what refers to it shares it in an `Arc`, so that it ends after its textures. Its destroy waits for
//! the work of its context and of no other (measured), so a `Drop` leaves it to the reclaimer.
//!
//! Source: CUDA Driver API 13.x, "Memory Management"; readings of a real driver.

#![expect(unsafe_code, reason = "calls the driver's array functions")]

mod desc;
mod level;
mod mipmapped;

pub use desc::{ArrayDesc, ArrayFormat};
pub use level::ArrayLevel;
pub use mipmapped::MipmappedArray;
pub(crate) use mipmapped::check_levels;

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

/// The resource behind [`Array`].
#[derive(Debug)]
pub(crate) struct ArrayRes;

/// What an array refers to.
#[derive(Debug)]
pub(crate) struct ArrayDeps {
    context: Context,
    users: Users,
}

impl ArrayDeps {
    fn new(context: &Context) -> Self {
        Self { context: context.clone(), users: Users::default() }
    }
}

// SAFETY: *ends*: `cuArrayDestroy`. *Dependencies*: an array refers to its context.
unsafe impl Resource for ArrayRes {
    type Raw = CUarray;
    type Deps = ArrayDeps;
    const KIND: ObjectKind = ObjectKind::Array;
    const DESTROY: Option<Call> = Some(Call::cuArrayDestroy);

    fn driver(deps: &ArrayDeps) -> &Driver {
        deps.context.driver()
    }
    fn context(deps: &ArrayDeps) -> CUcontext {
        deps.context.as_raw()
    }
    fn users(deps: &ArrayDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUarray, _: &ArrayDeps) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuArrayDestroy(raw) }
    }
}

/// A CUDA array. Destroying it waits for the work of its context, so a `Drop` leaves that to the
/// [reclaimer](crate::Reclaim). Streams of other contexts have to be told to it: see [`used_on`](Self::used_on).
///
/// Its drop calls `cuArrayDestroy`; for users in other contexts before that `cuStreamIsCapturing`, `cuEventCreate`,
/// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Array, ArrayDesc, ArrayFormat, Device, Driver};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let desc = ArrayDesc::flat(64, 32, ArrayFormat::F32, 1)?;
/// let array = Array::new(device.context(), &desc)?;
/// assert_eq!(array.desc()?, desc);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct Array(Owned<ArrayRes>);

impl Array {
    /// Makes an array in the context. What is in it at first is undefined.
    ///
    /// Calls `cuArrayCreate` for lines and flat arrays, `cuArray3DCreate` for what has a depth, layers or special uses;
    /// `cuArrayDestroy` where it is undone.
    ///
    /// # Errors
    /// The call's failure: `INVALID_VALUE` beyond the device's limits, `OUT_OF_MEMORY`; or that of making the context
    /// current and the caller's again.
    #[doc(alias = "cuArrayCreate")]
    #[doc(alias = "cuArray3DCreate")]
    pub fn new(context: &Context, desc: &ArrayDesc) -> Result<Self> {
        let plain = desc.plain();
        let call = match plain {
            Some(_) => Call::cuArrayCreate_v2,
            None => Call::cuArray3DCreate_v2,
        };
        let make = |calls: Calls<'_>, _: &ArrayDeps| {
            let mut raw = CUarray::NULL;
            match &plain {
                // SAFETY: *pointers*: `raw` is a live local, and so is what describes the array.
                Some(plain) => unsafe { calls.cuArrayCreate_v2(&raw mut raw, &raw const *plain) },
                // SAFETY: as above; the description is borrowed.
                None => unsafe { calls.cuArray3DCreate_v2(&raw mut raw, desc.as_raw()) },
            }?;
            Ok(raw)
        };
        Ok(Self(Owned::create(call, ArrayDeps::new(context), make)?))
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

    fn used_by(&self, stream: StreamRef<'_>) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        self.0.deps().users.used_on(stream, Some(self.context()))
    }

    /// What the array was made of, as the driver tells it.
    ///
    /// Calls `cuArray3DGetDescriptor`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuArray3DGetDescriptor")]
    #[doc(alias = "cuArrayGetDescriptor")]
    pub fn desc(&self) -> Result<ArrayDesc> {
        describe(self.driver(), self.as_raw())
    }

    /// Ends the array here and now. Waits for the work of its context, and for users in other contexts.
    ///
    /// Calls `cuArrayDestroy`; for users in other contexts before that `cuStreamIsCapturing`, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the array where the driver wasn't asked.
    #[doc(alias = "cuArrayDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! { Array(Owned<ArrayRes>): CUarray, "array", (context: &Context) => ArrayDeps::new(context) }

/// Asks what an array was made of.
fn describe(driver: &Driver, raw: CUarray) -> Result<ArrayDesc> {
    let mut desc = CUDA_ARRAY3D_DESCRIPTOR::default();
    // SAFETY: *pointers*: a live local; *handles*: live, the caller holds it.
    unsafe { driver.callable()?.cuArray3DGetDescriptor_v2(&raw mut desc, raw) }
        .map_err(|failure| driver.error(failure))?;
    Ok(ArrayDesc::from_raw(desc))
}

/// An array, or one level of a mipmapped one: what a texture or a surface is made over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyArray {
    /// An array of its own.
    Array(Arc<Array>),
    /// A level.
    Level(Arc<ArrayLevel>),
}

impl AnyArray {
    /// The context.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        match self {
            Self::Array(array) => array.context(),
            Self::Level(level) => level.context(),
        }
    }

    pub(crate) fn used_by(&self, stream: StreamRef<'_>) -> Result<()> {
        match self {
            Self::Array(array) => array.used_by(stream),
            Self::Level(level) => level.mipmapped().used_by(stream),
        }
    }

    /// The driver's handle, which stays this value's.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUarray {
        match self {
            Self::Array(array) => array.as_raw(),
            Self::Level(level) => level.as_raw(),
        }
    }
}

impl From<&Arc<Array>> for AnyArray {
    fn from(array: &Arc<Array>) -> Self {
        Self::Array(Arc::clone(array))
    }
}

impl From<&Arc<ArrayLevel>> for AnyArray {
    fn from(level: &Arc<ArrayLevel>) -> Self {
        Self::Level(Arc::clone(level))
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Array>();
    shared::<AnyArray>();
};
