//! Libraries: code loaded once for all contexts of a driver, and its kernels.
//!
//! Source: CUDA Driver API 13.x, "Library Management".

#![expect(unsafe_code, reason = "calls the driver's library functions")]

use crate::{
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    image::Image,
    kernel::{Kernel, c_name},
    object::ObjectKind,
    resource::{Closed, Handle, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::ptr;

/// The resource behind [`Library`].
#[derive(Debug)]
pub(crate) struct LibraryRes;

// SAFETY: *ends*: `cuLibraryUnload`. *Dependencies*: a library refers to its driver; the context is kept for questions.
unsafe impl Resource for LibraryRes {
    type Raw = CUlibrary;
    type Deps = Context;
    const KIND: ObjectKind = ObjectKind::Library;
    const DESTROY: Option<Call> = Some(Call::cuLibraryUnload);

    fn driver(deps: &Context) -> &Driver {
        deps.driver()
    }
    fn context(deps: &Context) -> CUcontext {
        deps.as_raw()
    }
    fn waits_for(_: &Context) -> CUcontext {
        // Its kernels may run in any.
        CUcontext::NULL
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUlibrary, _: &Context) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuLibraryUnload(raw) }
    }
}

/// Loaded code. Clones are the same library; it is unloaded once no kernel of it is held either. Unloading may wait for
/// the GPU, so a `Drop` leaves it to the [reclaimer](crate::Reclaim). Its drop calls `cuLibraryUnload`.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let ptx = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nop() { ret; }";
/// let device = Device::with_driver(&driver, 0)?;
/// let kernel = device.load(ptx)?.kernel("nop")?;
/// assert_eq!(kernel.name(), "nop");
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Library(Handle<LibraryRes>);

impl Library {
    /// Loads code, for all contexts of the driver; it is loaded into each when it is first needed there. `context` is
    /// where questions about its kernels are asked, and is kept.
    ///
    /// Calls `cuLibraryLoadData`.
    ///
    /// # Errors
    /// The call's failure: `INVALID_IMAGE`, `INVALID_PTX`, `NO_BINARY_FOR_GPU`, `UNSUPPORTED_PTX_VERSION`, …; an image
    /// that can't be one.
    #[doc(alias = "cuLibraryLoadData")]
    pub fn load(context: &Context, image: &(impl Image + ?Sized)) -> Result<Self> {
        context.driver().check_callable()?;
        let code = image.image()?;
        let (none, no_option, values) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let make = |calls: Calls<'_>, _: &Context| {
            let (mut raw, image) = (CUlibrary::NULL, code.as_ptr().cast());
            // SAFETY: *pointers*: `raw` is a live local; `code` is a whole image (`Image::image`), read during the call;
            // no options are given.
            unsafe {
                calls.cuLibraryLoadData(&raw mut raw, image, none, values, 0, no_option, values, 0)
            }?;
            Ok(raw)
        };
        Ok(Self(Handle::create(Call::cuLibraryLoadData, context.clone(), make)?))
    }

    /// A kernel by its name. C++ names are mangled, unless declared `extern "C"`.
    ///
    /// Calls `cuLibraryGetKernel`, `cuKernelGetParamInfo`.
    ///
    /// # Errors
    /// `NOT_FOUND` where the library has no such kernel; a name with a NUL byte.
    #[doc(alias = "cuLibraryGetKernel")]
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let c_name = c_name(name)?;
        let mut raw = CUkernel::NULL;
        // SAFETY: *pointers*: a live local and a C string; *handles*: this handle's library.
        unsafe {
            self.driver().callable()?.cuLibraryGetKernel(
                &raw mut raw,
                self.as_raw(),
                c_name.as_ptr(),
            )
        }
        .map_err(|failure| self.driver().error(failure))?;
        Kernel::new(self, raw, name)
    }

    /// Where questions about its kernels are asked.
    pub(crate) fn context(&self) -> &Context {
        self.0.deps()
    }

    /// Unloads the code here and now, if this is its last handle and no kernel of it is held. Waits for its kernels.
    ///
    /// Calls `cuLibraryUnload`.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked.
    #[doc(alias = "cuLibraryUnload")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! { Library(Handle<LibraryRes>): CUlibrary, "library", (context: &Context) => context.clone() }

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Library>();
};
