//! Kernels: a function of a library, with the layout of its parameters.
//!
//! Source: CUDA Driver API 13.x, "Library Management" (`cuKernel…`).

#![expect(unsafe_code, reason = "calls the driver's kernel functions")]

use crate::{
    context::Context,
    driver::Driver,
    error::{Error, Result},
    launch::{self, KernelArgs, LaunchConfig, Parameters},
    library::Library,
    object::ObjectKind,
    resource::{Handle, Resource},
    scope,
    stream::AsStream,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::fmt;

/// What a kernel refers to.
#[derive(Debug)]
pub(crate) struct KernelDeps {
    library: Library,
    name: Box<str>,
    parameters: Parameters,
}

/// The resource behind [`Kernel`].
#[derive(Debug)]
pub(crate) struct KernelRes;

// SAFETY: *ends*: nothing to end, a kernel ends with its library. *Dependencies*: it keeps its library.
unsafe impl Resource for KernelRes {
    type Raw = CUkernel;
    type Deps = KernelDeps;
    const KIND: ObjectKind = ObjectKind::Kernel;
    const DESTROY: Option<Call> = None;

    fn driver(deps: &KernelDeps) -> &Driver {
        deps.library.driver()
    }
    fn context(_: &KernelDeps) -> CUcontext {
        CUcontext::NULL
    }
    unsafe fn destroy(_: Calls<'_>, _: CUkernel, _: &KernelDeps) -> Result<(), Failure> {
        Ok(())
    }
}

/// A kernel. Clones are the same kernel, and keep its library loaded. It can be launched on streams of any context.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Kernel(Handle<KernelRes>);

impl Kernel {
    pub(crate) fn new(library: &Library, raw: CUkernel, name: &str) -> Result<Self> {
        // Asked in a context: with none current the driver refuses the question (measured).
        let parameters = scope::run(library.context().target(), |calls| {
            Parameters::read(|index, offset, size| {
                // SAFETY: *handles*: just answered by the library, which is alive; *pointers*: exclusive.
                unsafe { calls.cuKernelGetParamInfo(raw, index, offset, size) }
            })
        })?;
        let deps = KernelDeps { library: library.clone(), name: name.into(), parameters };
        Ok(Self(Handle::own(raw, deps)))
    }

    /// The name under which it was found.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.deps().name
    }

    /// The library.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.0.deps().library
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// The driver's handle, which stays this value's.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUkernel {
        self.0.raw()
    }

    /// The layout of the parameters, where the driver tells it (CUDA 12.4).
    ///
    /// Calls nothing.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.0.deps().parameters
    }

    /// An attribute of the kernel on a device, such as its registers or its greatest block.
    ///
    /// Calls `cuKernelGetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn attribute(
        &self,
        device: &crate::Device,
        attribute: CUfunction_attribute,
    ) -> Result<i32> {
        self.driver().check_same(device.driver(), "device")?;
        let mut value = 0;
        // SAFETY: *pointers*: a live local; *handles*: this handle's kernel.
        unsafe {
            self.driver().callable()?.cuKernelGetAttribute(
                &raw mut value,
                attribute,
                self.as_raw(),
                device.as_raw(),
            )
        }
        .map_err(|failure| self.driver().error(failure))?;
        Ok(value)
    }

    /// Hands out what a graph's node of this kernel is made with.
    #[doc(hidden)]
    pub fn as_node<A: KernelArgs, T>(
        &self,
        context: &Context,
        config: LaunchConfig,
        args: &A,
        use_them: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS, &[CUlaunchAttribute]) -> Result<T>,
    ) -> Result<T> {
        self.driver().check_same(context.driver(), "context")?;
        let handles = (self.0.raw(), context.as_raw());
        launch::as_node(self.driver(), handles, self.parameters(), config, args, use_them)
    }

    /// Queues the kernel on a stream. The arguments' values are copied during the call.
    ///
    /// The number of arguments and the size of each are compared with the kernel's parameters where the driver tells
    /// them. One driver call and no allocation on a created stream.
    ///
    /// Calls `cuLaunchKernelEx`; for memory of another context as an argument, on a per-thread default stream or one that is
    /// borrowed without an owner, also `cuEventCreate`, `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](crate::ErrorKind::Argument): an argument too many or too few, one of another size, an
    ///   object of another driver, a grid or block dimension of zero;
    /// - the call's failure, which may be that of earlier work.
    ///
    /// # Safety
    /// - *layout*: the arguments are what the kernel's parameters are, in order and type;
    /// - *bounds*: what the kernel reads and writes through them lies within live memory of the sizes that it assumes;
    /// - *ordering*: that memory isn't freed, moved or used in conflict before the kernel is done: work of other streams
    ///   is ordered by events; memory that isn't freed in stream order outlives the kernel.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver, LaunchConfig};
    /// # let sim = cuhold_driver_sim::Sim::new();
    /// # sim.register_kernel("nop", |_| Ok(()));
    /// # let driver = Driver::from_api(sim);
    /// let ptx = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nop() { ret; }";
    /// let device = Device::with_driver(&driver, 0)?;
    /// let stream = device.new_stream()?;
    /// let kernel = device.load(ptx)?.kernel("nop")?;
    /// // SAFETY: the kernel has no parameters and touches no memory.
    /// unsafe { kernel.launch(&stream, LaunchConfig::for_len(1000), ())? };
    /// stream.synchronize()?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cuLaunchKernelEx")]
    #[inline]
    pub unsafe fn launch<A: KernelArgs>(
        &self,
        stream: &impl AsStream,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        // The driver takes a kernel where it takes a function, and loads it into the stream's context.
        let function = CUfunction(self.0.raw().0);
        // SAFETY: *layout*, *bounds*, *ordering*: the caller's promise.
        unsafe {
            launch::launch(
                self.driver(),
                function,
                self.parameters(),
                stream.as_stream(),
                config,
                args,
            )
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.0.object(), self.name())
    }
}

/// Refuses a name that C can't hold.
pub(crate) fn c_name(name: &str) -> Result<std::ffi::CString> {
    std::ffi::CString::new(name).map_err(|error| Error::argument(format!("name: {error}")))
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Kernel>();
};
