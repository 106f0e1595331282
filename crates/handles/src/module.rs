//! Modules: code loaded into one context, and its functions. [`Library`](crate::Library) is the better choice where
//! there is one; modules are for code that other parts of a program handle as modules.
//!
//! Source: CUDA Driver API 13.x, "Module Management".

#![expect(unsafe_code, reason = "calls the driver's module functions")]

use crate::{
    context::Context,
    driver::Driver,
    error::{Error, Refused, Result},
    image::Image,
    kernel::c_name,
    launch::{self, KernelArgs, LaunchConfig, Parameters},
    object::ObjectKind,
    resource::{Closed, Handle, Resource},
    scope,
    stream::AsStream,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::fmt;

/// The resource behind [`Module`].
#[derive(Debug)]
pub(crate) struct ModuleRes;

// SAFETY: *ends*: `cuModuleUnload`. *Dependencies*: a module refers to its context.
unsafe impl Resource for ModuleRes {
    type Raw = CUmodule;
    type Deps = Context;
    const KIND: ObjectKind = ObjectKind::Module;
    const DESTROY: Option<Call> = Some(Call::cuModuleUnload);

    fn driver(deps: &Context) -> &Driver {
        deps.driver()
    }
    fn context(deps: &Context) -> CUcontext {
        deps.as_raw()
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUmodule, _: &Context) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuModuleUnload(raw) }
    }
}

/// Code loaded into one context. Clones are the same module; it is unloaded once no function of it is held either.
/// Unloading may wait for the GPU, so a `Drop` leaves it to the [reclaimer](crate::Reclaim). Its drop calls
/// `cuModuleUnload`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Module(Handle<ModuleRes>);

impl Module {
    /// Loads code into the context.
    ///
    /// Calls `cuModuleLoadData`; `cuModuleUnload` where it is undone.
    ///
    /// # Errors
    /// The call's failure, or that of making the context current and the caller's again; an image that can't be one.
    #[doc(alias = "cuModuleLoadData")]
    pub fn load(context: &Context, image: &(impl Image + ?Sized)) -> Result<Self> {
        context.driver().check_callable()?;
        let code = image.image()?;
        let make = |calls: Calls<'_>, _: &Context| {
            let mut raw = CUmodule::NULL;
            // SAFETY: *pointers*: a live local, and a whole image (`Image::image`), read during the call.
            unsafe { calls.cuModuleLoadData(&raw mut raw, code.as_ptr().cast()) }?;
            Ok(raw)
        };
        Ok(Self(Handle::create(Call::cuModuleLoadData, context.clone(), make)?))
    }

    /// A function by its name. C++ names are mangled, unless declared `extern "C"`.
    ///
    /// Calls `cuModuleGetFunction`, `cuFuncGetParamInfo`.
    ///
    /// # Errors
    /// `NOT_FOUND` where the module has no such function; a name with a NUL byte.
    #[doc(alias = "cuModuleGetFunction")]
    pub fn function(&self, name: &str) -> Result<Function> {
        let c_name = c_name(name)?;
        let context = self.context();
        let (raw, parameters) = scope::run(context.target(), |calls| {
            let mut raw = CUfunction::NULL;
            // SAFETY: *pointers*: a live local and a C string; *handles*: this handle's module.
            unsafe { calls.cuModuleGetFunction(&raw mut raw, self.as_raw(), c_name.as_ptr()) }?;
            let parameters = Parameters::read(|index, offset, size| {
                // SAFETY: *handles*: just answered by the module, which is alive; *pointers*: exclusive.
                unsafe { calls.cuFuncGetParamInfo(raw, index, offset, size) }
            })?;
            Ok((raw, parameters))
        })?;
        let deps = FunctionDeps { module: self.clone(), name: name.into(), parameters };
        Ok(Function(Handle::own(raw, deps)))
    }

    /// The context.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps()
    }

    /// Unloads the code here and now, if this is its last handle and no function of it is held. Waits for the context.
    ///
    /// Calls `cuModuleUnload`.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked.
    #[doc(alias = "cuModuleUnload")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

forms! { Module(Handle<ModuleRes>): CUmodule, "module", (context: &Context) => context.clone() }

/// What a function refers to.
#[derive(Debug)]
pub(crate) struct FunctionDeps {
    module: Module,
    name: Box<str>,
    parameters: Parameters,
}

/// The resource behind [`Function`].
#[derive(Debug)]
pub(crate) struct FunctionRes;

// SAFETY: *ends*: nothing to end, a function ends with its module. *Dependencies*: it keeps its module.
unsafe impl Resource for FunctionRes {
    type Raw = CUfunction;
    type Deps = FunctionDeps;
    const KIND: ObjectKind = ObjectKind::Function;
    const DESTROY: Option<Call> = None;

    fn driver(deps: &FunctionDeps) -> &Driver {
        deps.module.driver()
    }
    fn context(deps: &FunctionDeps) -> CUcontext {
        deps.module.context().as_raw()
    }
    unsafe fn destroy(_: Calls<'_>, _: CUfunction, _: &FunctionDeps) -> Result<(), Failure> {
        Ok(())
    }
}

/// A kernel of a module, for streams of the module's context. Clones are the same function.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Function(Handle<FunctionRes>);

impl Function {
    /// The name under which it was found.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.deps().name
    }

    /// The module.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.0.deps().module
    }

    /// The driver's handle, which stays this value's.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUfunction {
        self.0.raw()
    }

    /// As [`Kernel::launch`](crate::Kernel::launch), on a stream of the module's context.
    ///
    /// Calls `cuLaunchKernelEx`; for memory of another context as an argument, on a per-thread default stream or one that is
    /// borrowed without an owner, also `cuEventCreate`, `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// As [`Kernel::launch`](crate::Kernel::launch); a stream of another context is refused.
    ///
    /// # Safety
    /// *layout*, *bounds*, *ordering*: as [`Kernel::launch`](crate::Kernel::launch).
    pub unsafe fn launch<A: KernelArgs>(
        &self,
        stream: &impl AsStream,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        let stream = stream.as_stream();
        self.0.driver().check_same(stream.driver(), "stream")?;
        if !stream.context().is_same(self.module().context()) {
            return Err(Error::argument(
                "stream: it is of another context than the function's module",
            ));
        }
        let (driver, parameters) = (self.0.driver(), &self.0.deps().parameters);
        // SAFETY: *layout*, *bounds*, *ordering*: the caller's promise.
        unsafe { launch::launch(driver, self.as_raw(), parameters, stream, config, args) }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.0.object(), self.name())
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Module>();
    shared::<Function>();
};
