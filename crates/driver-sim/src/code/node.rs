//! Kernels as nodes of graphs: a launch that was checked, and the parameters that are told of it.
//!
//! | the node names | with | answers |
//! |---|---|---|
//! | a function | no context current | the driver crashes (measured) |
//! | a function | any context current, an ended one too | success (measured) |
//! | a kernel, and its context | whatever is current | success (measured) |
//! | a kernel alone | no context current, or an ended one | `INVALID_CONTEXT`, `CONTEXT_IS_DESTROYED` (measured) |

#![expect(unsafe_code, reason = "parameters are the caller's pointers")]

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{
    Function,
    kernel_launch::Record,
    launch::{Shape, apply, record},
    params::gather,
};
use crate::{
    audit::ViolationKind,
    context::Context,
    queue::Work,
    world::{Argument, Key, Out, Turn},
};

/// A kernel with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct NodeKernel {
    /// What is told of it, whichever was named: the function, the kernel that it is of, and their context (measured).
    pub(crate) function: CUfunction,
    pub(crate) kernel: CUkernel,
    pub(crate) told_context: CUcontext,
    pub(crate) shape: Shape,
    pub(crate) priority: c_int,
    /// The context that it runs in.
    pub(crate) context: Key<Context>,
    key: Key<Function>,
    record: Arc<Record>,
    list: Arc<Pointers>,
}

/// Where a record's parameters lie.
#[derive(Debug)]
struct Pointers(Vec<*mut c_void>);

// SAFETY: the pointers are into memory of a `Record`, which is only read.
unsafe impl Send for Pointers {}
// SAFETY: as above.
unsafe impl Sync for Pointers {}

impl Pointers {
    fn new(record: &Record) -> Self {
        let kernel = record.image.kernels.get(record.index);
        let params = kernel.and_then(|kernel| kernel.params.as_ref());
        let at = |offset: usize| record.params.as_ptr().wrapping_add(offset).cast_mut().cast();
        Self(params.into_iter().flatten().map(|param| at(param.offset)).collect())
    }
}

impl NodeKernel {
    /// Of this function, which is of this kernel of a library, if of one.
    pub(super) fn new(
        key: Key<Function>,
        kernel: CUkernel,
        shape: Shape,
        record: Arc<Record>,
    ) -> Self {
        Self {
            function: CUfunction::from_addr(key.raw()),
            kernel,
            told_context: CUcontext::from_addr(record.context.raw()),
            shape,
            priority: 0,
            context: record.context,
            key,
            list: Arc::new(Pointers::new(&record)),
            record,
        }
    }

    /// The list of the parameters' places, as long as the node is there; null if there are none.
    pub(crate) fn list(&self) -> *mut *mut c_void {
        match self.list.0.as_slice() {
            [] => std::ptr::null_mut(),
            list => list.as_ptr().cast_mut(),
        }
    }

    /// What each launch does.
    pub(crate) fn work(&self) -> Work {
        let record = Arc::clone(&self.record);
        Work::OnCaller(Arc::new(move |world, doing| record.run(world, doing)))
    }
}

impl Turn<'_> {
    /// Checks a kernel that is to be a node.
    pub(crate) fn plan_kernel(
        &mut self,
        params: &CUDA_KERNEL_NODE_PARAMS,
    ) -> Result<NodeKernel, CUresult> {
        let key = self.kernel_of_node(params)?;
        let shape = Shape {
            grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
            block: [params.blockDimX, params.blockDimY, params.blockDimZ],
            shared_bytes: params.sharedMemBytes,
            cooperative: false,
            cluster: None,
        };
        self.check_shape(key, shape)?;
        let attributes = self.attributes_of(key)?;
        // SAFETY: *pointers*: null, or a list that the caller of a kernel node promised.
        let list: Out<*mut c_void> = unsafe { Argument::give(params.kernelParams) };
        // SAFETY: as above.
        let extra: Out<*mut c_void> = unsafe { Argument::give(params.extra) };
        // SAFETY: *pointers*: one pointer for each parameter, or a block of them.
        let bytes = unsafe { gather(attributes.kernel, list, extra) }?;
        let record = Arc::new(record(self, key, shape, bytes)?);
        Ok(NodeKernel::new(key, self.kernel_of(key), shape, record))
    }

    /// The library's kernel that a function is of; null of a module's.
    pub(super) fn kernel_of(&self, function: Key<Function>) -> CUkernel {
        let kernel = self.function_data(function).ok().and_then(|function| function.kernel);
        kernel.map_or(CUkernel::NULL, |kernel| CUkernel::from_addr(kernel.raw()))
    }

    /// The function that a node names, itself or by its kernel. A kernel isn't taken for a function (measured).
    fn kernel_of_node(
        &mut self,
        params: &CUDA_KERNEL_NODE_PARAMS,
    ) -> Result<Key<Function>, CUresult> {
        if !params.func.is_null() {
            if self.state.threads.current(self.thread).is_null() {
                let note = "a kernel node of a function with no context current";
                self.violate(ViolationKind::Crash, None, note);
                return Err(CUresult::INVALID_CONTEXT);
            }
            return match self.state.code.kernels.find(params.func.addr()) {
                Some(_) => Err(CUresult::INVALID_HANDLE),
                None => self.function(params.func),
            };
        }
        if params.kern.is_null() {
            return Err(CUresult::INVALID_HANDLE);
        }
        let context = match params.ctx {
            CUcontext::NULL => self.current()?,
            named => self.context(named)?,
        };
        self.function_or_kernel(CUfunction(params.kern.0), Some(context))
    }

    /// The same kernel with another attribute.
    pub(crate) fn kernel_with(
        &mut self,
        kernel: &NodeKernel,
        attribute: &CUlaunchAttribute,
    ) -> Result<NodeKernel, CUresult> {
        let mut shape = kernel.shape;
        apply(&mut shape, attribute)?;
        self.reshaped(kernel, shape)
    }

    /// The same kernel with the attributes of another one.
    pub(crate) fn kernel_like(
        &mut self,
        kernel: &NodeKernel,
        other: &NodeKernel,
    ) -> Result<NodeKernel, CUresult> {
        let (cooperative, cluster) = (other.shape.cooperative, other.shape.cluster);
        let made = self.reshaped(kernel, Shape { cooperative, cluster, ..kernel.shape })?;
        Ok(NodeKernel { priority: other.priority, ..made })
    }

    fn reshaped(&mut self, kernel: &NodeKernel, shape: Shape) -> Result<NodeKernel, CUresult> {
        self.check_shape(kernel.key, shape)?;
        Ok(NodeKernel { shape, ..kernel.clone() })
    }
}
