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
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
    scope,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};

/// The resource behind [`Surface`].
#[derive(Debug)]
pub(crate) struct SurfaceRes;

// SAFETY: *ends*: `cuSurfObjectDestroy`. *Dependencies*: the array, which keeps the context.
unsafe impl Resource for SurfaceRes {
    type Raw = CUsurfObject;
    type Deps = AnyArray;
    const KIND: ObjectKind = ObjectKind::Surface;
    const DESTROY: Option<Call> = Some(Call::cuSurfObjectDestroy);

    fn driver(deps: &AnyArray) -> &Driver {
        deps.context().driver()
    }
    fn context(deps: &AnyArray) -> CUcontext {
        deps.context().as_raw()
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUsurfObject, _: &AnyArray) -> Result<(), Failure> {
        // SAFETY: *handles*: live in the context that is current, by the caller's promise.
        unsafe { calls.cuSurfObjectDestroy(raw) }
    }
}

/// A surface object. It keeps its array alive. Its drop calls `cuSurfObjectDestroy`.
///
/// Kernels take its raw value as a 64-bit parameter. The array is to be made with
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
        let make = |calls: Calls<'_>, _: &AnyArray| {
            let (mut raw, over) = (0, &raw const over);
            // SAFETY: *pointers*: live locals; *handles*: the array is held.
            unsafe { calls.cuSurfObjectCreate(&raw mut raw, over) }?;
            Ok(raw)
        };
        Ok(Self(Owned::create(Call::cuSurfObjectCreate, array.clone(), make)?))
    }

    /// The array.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn array(&self) -> &AnyArray {
        self.0.deps()
    }

    /// The context that the number belongs to.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps().context()
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

    /// Ends the surface here and now. Waits for nothing.
    ///
    /// Calls `cuSurfObjectDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the surface where the driver wasn't asked: its context couldn't be made current.
    #[doc(alias = "cuSurfObjectDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! { Surface(Owned<SurfaceRes>): CUsurfObject, "surface", (array: &AnyArray) => array.clone() }

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Surface>();
};
