//! Resources of a graphics API: registered, mapped, unmapped.
//!
//! A registration is made by the graphics API's own function (`cuGraphicsGLRegisterBuffer` and its like), which needs that
//! API's context; its result is taken over by [`GraphicsResource::from_raw`].
//!
//! Source: CUDA Driver API 13.x, "Graphics Interoperability".

#![expect(unsafe_code, reason = "calls the driver's graphics functions")]

use super::semaphore::check_stream;
use crate::{
    callback,
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    object::ObjectKind,
    report::{CudaWarning, Fate},
    resource::{Closed, Owned, Resource},
    scope,
    stream::Stream,
};
use cuhold_driver_sys::{Call, Calls, Failure, Life, ffi::*};
use std::mem::ManuallyDrop;

/// The resource behind [`GraphicsResource`].
#[derive(Debug)]
pub(crate) struct GraphicsRes;

// SAFETY: *ends*: `cuGraphicsUnregisterResource`. *Dependencies*: the registration refers to its context.
unsafe impl Resource for GraphicsRes {
    type Raw = CUgraphicsResource;
    type Deps = Context;
    const KIND: ObjectKind = ObjectKind::GraphicsResource;
    const DESTROY: Option<Call> = Some(Call::cuGraphicsUnregisterResource);

    fn driver(deps: &Context) -> &Driver {
        deps.driver()
    }
    fn context(deps: &Context) -> CUcontext {
        deps.as_raw()
    }
    unsafe fn destroy(
        calls: Calls<'_>,
        raw: CUgraphicsResource,
        _: &Context,
    ) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuGraphicsUnregisterResource(raw) }
    }
}

/// A registered resource of a graphics API. Its drop calls `cuGraphicsUnregisterResource`.
pub struct GraphicsResource(Owned<GraphicsRes>);

impl GraphicsResource {
    /// The context that the resource was registered in.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps()
    }

    /// Maps the resource: work that the stream is given from here on may use it, and the graphics API may not. It is
    /// unmapped when the guard goes, on the same stream.
    ///
    /// Calls `cuGraphicsMapResources`; `cuGraphicsUnmapResources` where it is undone.
    ///
    /// # Errors
    /// A stream of another driver or, for a default stream, of another context; the call's failure, or that of making
    /// the context current and the caller's again.
    #[doc(alias = "cuGraphicsMapResources")]
    pub fn map<'a>(&'a mut self, stream: &'a Stream) -> Result<MappedGraphics<'a>> {
        let raw_stream = check_stream(self.context(), stream)?;
        let mapped = MappedGraphics { resource: self, stream };
        let result = scope::run(mapped.resource.context().target(), |calls| {
            let mut raw = mapped.resource.as_raw();
            // SAFETY: *pointers*: one resource, a live local; *handles*: this resource and the stream.
            unsafe { calls.cuGraphicsMapResources(1, &raw mut raw, raw_stream) }
        });
        match result {
            Ok(()) => Ok(mapped),
            // Mapped, and only the caller's context couldn't be put back: the guard unmaps it.
            Err(error) if error.completed().is_some() => Err(match mapped.close() {
                Ok(()) => error,
                Err(undo) => error.with_undo(&undo),
            }),
            Err(error) => {
                let _never_mapped = ManuallyDrop::new(mapped);
                Err(error)
            }
        }
    }

    /// Unregisters the resource here and now.
    ///
    /// Calls `cuGraphicsUnregisterResource`.
    ///
    /// # Errors
    /// [`Refused`], with the resource where the driver wasn't asked.
    #[doc(alias = "cuGraphicsUnregisterResource")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! {
    GraphicsResource(Owned<GraphicsRes>): CUgraphicsResource, "graphics resource",
    (context: &Context) => context.clone()
}

/// A resource while it is mapped. Its drop calls `cuGraphicsUnmapResources`.
///
/// Forgotten, it leaves the resource mapped: the driver then refuses the next [`GraphicsResource::map`].
#[must_use]
#[derive(Debug)]
pub struct MappedGraphics<'a> {
    resource: &'a GraphicsResource,
    stream: &'a Stream,
}

impl MappedGraphics<'_> {
    /// Where a buffer lies while it is mapped, and how many bytes it has.
    ///
    /// Calls `cuGraphicsResourceGetMappedPointer`.
    ///
    /// # Errors
    /// The call's failure: `NOT_MAPPED_AS_POINTER` for an image; or that of making the context current and the caller's
    /// again.
    #[doc(alias = "cuGraphicsResourceGetMappedPointer")]
    pub fn pointer(&self) -> Result<(CUdeviceptr, usize)> {
        scope::run(self.resource.context().target(), |calls| {
            let (mut address, mut bytes) = (0, 0);
            let (at, size, raw) = (&raw mut address, &raw mut bytes, self.resource.as_raw());
            // SAFETY: *pointers*: live locals; *handles*: this resource.
            unsafe { calls.cuGraphicsResourceGetMappedPointer_v2(at, size, raw) }?;
            Ok((address, bytes))
        })
    }

    /// An image's array while it is mapped, by its place in the resource and its level. It ends with the mapping, so it
    /// is given raw.
    ///
    /// Calls `cuGraphicsSubResourceGetMappedArray`.
    ///
    /// # Errors
    /// The call's failure: `NOT_MAPPED_AS_ARRAY` for a buffer; or that of making the context current and the caller's
    /// again.
    #[doc(alias = "cuGraphicsSubResourceGetMappedArray")]
    pub fn array(&self, place: GraphicsPlace) -> Result<CUarray> {
        scope::run(self.resource.context().target(), |calls| {
            let (mut array, raw) = (CUarray::NULL, self.resource.as_raw());
            let GraphicsPlace { index, level } = place;
            // SAFETY: *pointers*: a live local; *handles*: this resource.
            unsafe {
                calls.cuGraphicsSubResourceGetMappedArray(&raw mut array, raw, index, level)
            }?;
            Ok(array)
        })
    }

    /// Unmaps the resource, behind what its stream was given.
    ///
    /// Calls `cuGraphicsUnmapResources`.
    ///
    /// # Errors
    /// The call's failure, or that of making the context current and the caller's again. The resource is then perhaps
    /// mapped still.
    #[doc(alias = "cuGraphicsUnmapResources")]
    pub fn close(self) -> Result<()> {
        let this = ManuallyDrop::new(self);
        this.resource.driver().check_callable()?;
        this.unmap().into_error(this.resource.driver()).map_or(Ok(()), Err)
    }

    fn unmap(&self) -> scope::Outcome {
        let driver = self.resource.driver();
        let context = Some(self.resource.context().as_raw());
        let columns = Call::cuGraphicsUnmapResources.columns();
        scope::cleanup(driver, context, columns, |calls| {
            let mut raw = self.resource.as_raw();
            // SAFETY: *pointers*: one resource, a live local; *handles*: this resource and the stream, both borrowed.
            unsafe { calls.cuGraphicsUnmapResources(1, &raw mut raw, self.stream.raw()) }
        })
    }
}

impl Drop for MappedGraphics<'_> {
    fn drop(&mut self) {
        let driver = self.resource.driver();
        if callback::inside() {
            // No call may be made here, and the reclaimer can't have what is only borrowed.
            let (inlet, driver) = (driver.reclaim().inlet(), driver.clone());
            let warning = CudaWarning::note(self.resource.0.object(), STAYS_MAPPED);
            return inlet.defer(None, move || driver.warn(warning.with_fate(Fate::Leaked)));
        }
        if driver.api().life() == Life::Forked {
            return;
        }
        let outcome = self.unmap();
        if !outcome.is_clean() {
            let resource = &self.resource.0;
            outcome.warn(resource.driver(), resource.object(), Call::cuGraphicsUnmapResources);
        }
    }
}

const STAYS_MAPPED: &str = "it stays mapped: it can't be unmapped inside a callback of the driver";

/// Which array of a mapped image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "what the driver needs to know")]
pub struct GraphicsPlace {
    /// The layer or face; 0 for an image without.
    pub index: u32,
    /// The mipmap level.
    pub level: u32,
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<GraphicsResource>();
};
