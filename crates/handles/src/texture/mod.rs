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
    launch::KernelArg,
    memory::Users,
    object::ObjectKind,
    resource::{Closed, Owned, Resource},
    scope,
    stream::{AsStream, StreamRef},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*, mutant};

/// The resource behind [`Texture`].
#[derive(Debug)]
pub(crate) struct TextureRes;

/// What a texture refers to.
#[derive(Debug)]
pub(crate) struct TextureDeps {
    source: TextureSource,
    /// Those of its own context, too: nothing else waits for them.
    users: Users,
}

impl TextureDeps {
    fn new(source: &TextureSource) -> Self {
        Self { source: source.clone(), users: Users::default() }
    }
}

// SAFETY: *ends*: `cuTexObjectDestroy`. *Dependencies*: what the texture is made over, which keeps the context.
unsafe impl Resource for TextureRes {
    type Raw = CUtexObject;
    type Deps = TextureDeps;
    const KIND: ObjectKind = ObjectKind::Texture;
    const DESTROY: Option<Call> = Some(Call::cuTexObjectDestroy);

    fn driver(deps: &TextureDeps) -> &Driver {
        deps.source.context().driver()
    }
    fn context(deps: &TextureDeps) -> CUcontext {
        if mutant::is_out("texture-context") {
            return CUcontext::NULL;
        }
        deps.source.context().as_raw()
    }
    fn users(deps: &TextureDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUtexObject, _: &TextureDeps) -> Result<(), Failure> {
        // SAFETY: *handles*: live in the context that is current, by the caller's promise.
        unsafe { calls.cuTexObjectDestroy(raw) }
    }
}

/// A texture object. It keeps alive what it is made over.
///
/// Its drop calls `cuTexObjectDestroy`; for streams that use it before that `cuStreamIsCapturing`, `cuEventCreate`,
/// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
///
/// A kernel takes a reference to it as its parameter of 64 bits.
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
        let make = |calls: Calls<'_>, _: &TextureDeps| {
            let (mut raw, over, sampling) = (0, &raw const over, &raw const sampling);
            // SAFETY: *pointers*: live locals, or null for no view; *handles*: in `over`, held by the source.
            unsafe { calls.cuTexObjectCreate(&raw mut raw, over, sampling, view) }?;
            Ok(raw)
        };
        Ok(Self(Owned::create(Call::cuTexObjectCreate, TextureDeps::new(source), make)?))
    }

    /// What the texture is made over.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn source(&self) -> &TextureSource {
        &self.0.deps().source
    }

    /// The context that the number belongs to.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps().source.context()
    }

    /// Tells that work which was queued on this stream uses the texture, so that its end, and that of its array, wait for
    /// that work: the driver's call that ends a texture waits for nothing (measured). A kernel that gets it as an argument
    /// tells it by itself. To be called after the work was queued.
    ///
    /// Calls nothing for a stream that this library can ask later; for a per-thread default stream, or one that is
    /// borrowed without an owner, `cuEventCreate` and `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// A stream of another driver; the calls' failures, after which the texture is leaked rather than destroyed.
    pub fn used_on(&self, stream: &impl AsStream) -> Result<()> {
        self.used_by(stream.as_stream())
    }

    fn used_by(&self, stream: StreamRef<'_>) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        self.0.deps().users.used_on(stream, None)?;
        self.source().used_by(stream)
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

    /// Ends the texture here and now. Waits for the streams that use it.
    ///
    /// Calls `cuTexObjectDestroy`; for streams that use it before that `cuStreamIsCapturing`, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the texture where the driver wasn't asked: its context couldn't be made current.
    #[doc(alias = "cuTexObjectDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! {
    Texture(Owned<TextureRes>): CUtexObject, "texture", (source: &TextureSource) => TextureDeps::new(source)
}

// SAFETY: a texture parameter is a 64-bit number.
unsafe impl KernelArg for &Texture {
    type Repr = u64;

    #[inline]
    fn repr(&self, driver: &Driver) -> Result<u64> {
        driver.check_same(self.driver(), "args: texture")?;
        Ok(self.as_raw())
    }

    fn used_on(&self, stream: StreamRef<'_>) -> Result<()> {
        self.used_by(stream)
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Texture>();
};
