//! Surfaces: how kernels write arrays.
//!
//! A surface is a number in one context, as a texture is.
//!
//! Source: CUDA Driver API 13.x, "Surface Object Management".

#![expect(unsafe_code, reason = "calls the driver's surface functions")]

use crate::{
    array::AnyArray,
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    launch::KernelArg,
    memory::Users,
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
    scope,
    stream::{AsStream, StreamRef},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};

/// The resource behind [`Surface`].
#[derive(Debug)]
pub(crate) struct SurfaceRes;

/// What a surface refers to.
#[derive(Debug)]
pub(crate) struct SurfaceDeps {
    array: AnyArray,
    /// Those of its own context, too: nothing else waits for them.
    users: Users,
}

impl SurfaceDeps {
    fn new(array: &AnyArray) -> Self {
        Self { array: array.clone(), users: Users::default() }
    }
}

// SAFETY: *ends*: `cuSurfObjectDestroy`. *Dependencies*: the array, which keeps the context.
unsafe impl Resource for SurfaceRes {
    type Raw = CUsurfObject;
    type Deps = SurfaceDeps;
    const KIND: ObjectKind = ObjectKind::Surface;
    const DESTROY: Option<Call> = Some(Call::cuSurfObjectDestroy);

    fn driver(deps: &SurfaceDeps) -> &Driver {
        deps.array.context().driver()
    }
    fn context(deps: &SurfaceDeps) -> CUcontext {
        deps.array.context().as_raw()
    }
    fn users(deps: &SurfaceDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUsurfObject, _: &SurfaceDeps) -> Result<(), Failure> {
        // SAFETY: *handles*: live in the context that is current, by the caller's promise.
        unsafe { calls.cuSurfObjectDestroy(raw) }
    }
}

/// A surface object. It keeps its array alive.
///
/// Its drop calls `cuSurfObjectDestroy`; for streams that use it before that `cuStreamIsCapturing`, `cuEventCreate`,
/// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
///
/// A kernel takes a reference to it as its parameter of 64 bits. The array is to be made with
/// [`ArrayDesc::surface`](crate::ArrayDesc::surface); a real driver makes a surface over any (measured), and what a kernel
/// then writes is undefined.
pub struct Surface(Owned<SurfaceRes>);

impl Surface {
    /// Makes a surface over the array, in its context.
    ///
    /// Calls `cuSurfObjectCreate`; `cuSurfObjectDestroy` where it is undone.
    ///
    /// # Errors
    /// The call's failure, or that of making the context current and the caller's again.
    #[doc(alias = "cuSurfObjectCreate")]
    pub fn new(array: &AnyArray) -> Result<Self> {
        let mut over = CUDA_RESOURCE_DESC {
            resType: CUresourcetype::CU_RESOURCE_TYPE_ARRAY,
            ..Default::default()
        };
        over.res.array =
            CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_1 { hArray: array.as_raw() };
        let make = |calls: Calls<'_>, _: &SurfaceDeps| {
            let (mut raw, over) = (0, &raw const over);
            // SAFETY: *pointers*: live locals; *handles*: the array is held.
            unsafe { calls.cuSurfObjectCreate(&raw mut raw, over) }?;
            Ok(raw)
        };
        Ok(Self(Owned::create(Call::cuSurfObjectCreate, SurfaceDeps::new(array), make)?))
    }

    /// The array.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn array(&self) -> &AnyArray {
        &self.0.deps().array
    }

    /// The context that the number belongs to.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps().array.context()
    }

    /// Tells that work which was queued on this stream uses the surface, so that its end, and that of its array, wait for
    /// that work: the driver's call that ends a surface waits for nothing (measured). A kernel that gets it as an argument
    /// tells it by itself. To be called after the work was queued.
    ///
    /// Calls nothing for a stream that this library can ask later; for a per-thread default stream, or one that is
    /// borrowed without an owner, `cuEventCreate` and `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// A stream of another driver; the calls' failures, after which the surface is leaked rather than destroyed.
    pub fn used_on(&self, stream: &impl AsStream) -> Result<()> {
        self.used_by(stream.as_stream())
    }

    fn used_by(&self, stream: StreamRef<'_>) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        self.0.deps().users.used_on(stream, None)?;
        self.array().used_by(stream)
    }

    /// What the driver says that the surface is made over.
    ///
    /// Calls `cuSurfObjectGetResourceDesc`.
    ///
    /// # Errors
    /// The call's failure, or that of making the context current and the caller's again.
    #[doc(alias = "cuSurfObjectGetResourceDesc")]
    pub fn resource_desc(&self) -> Result<CUDA_RESOURCE_DESC> {
        scope::run(self.context().target(), |calls| {
            let mut desc = CUDA_RESOURCE_DESC::default();
            // SAFETY: *pointers*: a live local; *handles*: this surface, in its context.
            unsafe { calls.cuSurfObjectGetResourceDesc(&raw mut desc, self.as_raw()) }?;
            Ok(desc)
        })
    }

    /// Ends the surface here and now. Waits for the streams that use it.
    ///
    /// Calls `cuSurfObjectDestroy`; for streams that use it before that `cuStreamIsCapturing`, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the surface where the driver wasn't asked: its context couldn't be made current.
    #[doc(alias = "cuSurfObjectDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! { Surface(Owned<SurfaceRes>): CUsurfObject, "surface", (array: &AnyArray) => SurfaceDeps::new(array) }

// SAFETY: a surface parameter is a 64-bit number.
unsafe impl KernelArg for &Surface {
    type Repr = u64;

    #[inline]
    fn repr(&self, driver: &Driver) -> Result<u64> {
        driver.check_same(self.driver(), "args: surface")?;
        Ok(self.as_raw())
    }

    fn used_on(&self, stream: StreamRef<'_>) -> Result<()> {
        self.used_by(stream)
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Surface>();
};
