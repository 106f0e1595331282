//! Textures: how kernels read arrays and memory, interpolated.
//!
//! A texture is a number in one context. Destroyed while another context is current, the number is that context's texture,
//! if it has one of that number, and nobody notices (measured). So its destroy is made in its own context or not at all:
//! where that can't be made current the texture is leaked, which is told.
//!
//! Source: CUDA Driver API 13.x, "Texture Object Management"; readings of a real driver.

#![expect(unsafe_code, reason = "calls the driver's texture functions")]

mod options;
mod source;
mod surface;

pub use options::{AddressMode, FilterMode, TextureOptions, TextureView};
pub use source::{LinearMemory, PitchedMemory, TextureSource};
pub use surface::Surface;

use crate::{
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
    scope,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*, mutant};

/// The resource behind [`Texture`].
#[derive(Debug)]
pub(crate) struct TextureRes;

// SAFETY: *ends*: `cuTexObjectDestroy`. *Dependencies*: what the texture is made over, which keeps the context.
unsafe impl Resource for TextureRes {
    type Raw = CUtexObject;
    type Deps = TextureSource;
    const KIND: ObjectKind = ObjectKind::Texture;
    const DESTROY: Option<Call> = Some(Call::cuTexObjectDestroy);

    fn driver(deps: &TextureSource) -> &Driver {
        deps.context().driver()
    }
    fn context(deps: &TextureSource) -> CUcontext {
        if mutant::is_out("texture-context") {
            return CUcontext::NULL;
        }
        deps.context().as_raw()
    }
    unsafe fn destroy(
        calls: Calls<'_>,
        raw: CUtexObject,
        _: &TextureSource,
    ) -> Result<(), Failure> {
        // SAFETY: *handles*: live in the context that is current, by the caller's promise.
        unsafe { calls.cuTexObjectDestroy(raw) }
    }
}

/// A texture object. It keeps alive what it is made over. Its drop calls `cuTexObjectDestroy`.
///
/// Kernels take its raw value as a 64-bit parameter.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Array, ArrayDesc, ArrayFormat, Device, Driver, Texture, TextureOptions};
/// # use std::sync::Arc;
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let desc = ArrayDesc::flat(64, 32, ArrayFormat::F32, 1)?;
/// let array = Arc::new(Array::new(device.context(), &desc)?);
/// let texture = Texture::new(&(&array).into(), &TextureOptions::default())?;
/// drop(array); // The texture has it still.
/// assert_ne!(texture.as_raw(), 0);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct Texture(Owned<TextureRes>);

impl Texture {
    /// Makes a texture, in the context of what it is made over.
    ///
    /// Calls `cuTexObjectCreate`; `cuTexObjectDestroy` where it is undone.
    ///
    /// # Errors
    /// Options that contradict each other; the call's failure, or that of making the context current and the caller's
    /// again.
    #[doc(alias = "cuTexObjectCreate")]
    pub fn new(source: &TextureSource, options: &TextureOptions) -> Result<Self> {
        Self::make(source, options, None)
    }

    /// As [`new`](Self::new); the texture sees an array through a view.
    ///
    /// Calls `cuTexObjectCreate`; `cuTexObjectDestroy` where it is undone.
    ///
    /// # Errors
    /// As [`new`](Self::new); a view whose ranges are empty, or one of memory that isn't an array.
    pub fn with_view(
        source: &TextureSource,
        options: &TextureOptions,
        view: &TextureView,
    ) -> Result<Self> {
        source.check_viewable()?;
        Self::make(source, options, Some(view.desc()?))
    }

    fn make(
        source: &TextureSource,
        options: &TextureOptions,
        view: Option<CUDA_RESOURCE_VIEW_DESC>,
    ) -> Result<Self> {
        let (over, sampling) = (source.desc(), options.desc()?);
        let view = view.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let make = |calls: Calls<'_>, _: &TextureSource| {
            let (mut raw, over, sampling) = (0, &raw const over, &raw const sampling);
            // SAFETY: *pointers*: live locals, or null for no view; *handles*: in `over`, held by the source.
            unsafe { calls.cuTexObjectCreate(&raw mut raw, over, sampling, view) }?;
            Ok(raw)
        };
        Ok(Self(Owned::create(Call::cuTexObjectCreate, source.clone(), make)?))
    }

    /// What the texture is made over.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn source(&self) -> &TextureSource {
        self.0.deps()
    }

    /// The context that the number belongs to.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps().context()
    }

    /// What the driver says that the texture is made over.
    ///
    /// Calls `cuTexObjectGetResourceDesc`.
    ///
    /// # Errors
    /// The call's failure, or that of making the context current and the caller's again.
    #[doc(alias = "cuTexObjectGetResourceDesc")]
    pub fn resource_desc(&self) -> Result<CUDA_RESOURCE_DESC> {
        scope::run(self.context().target(), |calls| {
            let mut desc = CUDA_RESOURCE_DESC::default();
            // SAFETY: *pointers*: a live local; *handles*: this texture, in its context.
            unsafe { calls.cuTexObjectGetResourceDesc(&raw mut desc, self.as_raw()) }?;
            Ok(desc)
        })
    }

    /// How the driver says that the texture is sampled.
    ///
    /// Calls `cuTexObjectGetTextureDesc`.
    ///
    /// # Errors
    /// The call's failure, or that of making the context current and the caller's again.
    #[doc(alias = "cuTexObjectGetTextureDesc")]
    pub fn texture_desc(&self) -> Result<CUDA_TEXTURE_DESC> {
        scope::run(self.context().target(), |calls| {
            let mut desc = CUDA_TEXTURE_DESC::default();
            // SAFETY: *pointers*: a live local; *handles*: this texture, in its context.
            unsafe { calls.cuTexObjectGetTextureDesc(&raw mut desc, self.as_raw()) }?;
            Ok(desc)
        })
    }

    /// Through which view the driver says that the texture sees its array; `None` without one, for which the driver
    /// answers success and writes nothing (measured).
    ///
    /// Calls `cuTexObjectGetResourceViewDesc`.
    ///
    /// # Errors
    /// The call's failure, or that of making the context current and the caller's again.
    #[doc(alias = "cuTexObjectGetResourceViewDesc")]
    pub fn view_desc(&self) -> Result<Option<CUDA_RESOURCE_VIEW_DESC>> {
        scope::run(self.context().target(), |calls| {
            let mut desc = CUDA_RESOURCE_VIEW_DESC::default();
            // SAFETY: *pointers*: a live local; *handles*: this texture, in its context.
            unsafe { calls.cuTexObjectGetResourceViewDesc(&raw mut desc, self.as_raw()) }?;
            Ok(Some(desc).filter(|desc| desc.width != 0))
        })
    }

    /// Ends the texture here and now. Waits for nothing.
    ///
    /// Calls `cuTexObjectDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the texture where the driver wasn't asked: its context couldn't be made current.
    #[doc(alias = "cuTexObjectDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! {
    Texture(Owned<TextureRes>): CUtexObject, "texture", (source: &TextureSource) => source.clone()
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Texture>();
};
