//! Nodes that run a kernel.
//!
//! A node is made from a kernel and a context, both said: from a function alone, with no context current, the driver ended
//! the process (measured).

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, NodeKind};
use crate::{keep::Operand, node::Node};
use cuhold_handles::{
    Kernel, KernelArgs, LaunchConfig, Result,
    driver_sys::{Calls, ffi::*},
};
use std::iter;

impl Graph {
    /// Adds a node that runs a kernel in the graph's context. The arguments' values are copied during the call; the kernel and
    /// the memory of buffers among the arguments are kept alive, that of views isn't.
    ///
    /// The number of arguments and the size of each are compared with the kernel's parameters where the driver tells them.
    ///
    /// Calls `cuGraphAddKernelNode`; for each of the launch's attributes `cuGraphKernelNodeSetAttribute`, and
    /// `cuGraphDestroyNode` where that failed; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; a kernel or a buffer of another driver; arguments that don't fit the
    /// parameters; the calls' failures, after which nothing was added.
    ///
    /// # Safety
    /// - *layout*: the arguments are what the kernel's parameters are;
    /// - *bounds*: at each launch the kernel reads and writes no memory but that of buffers among the arguments, within their
    ///   bounds, or memory that is alive by other means.
    #[doc(alias = "cuGraphAddKernelNode")]
    pub unsafe fn kernel<A: KernelArgs>(
        &mut self,
        after: &[Node],
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node> {
        self.driver().check_same(kernel.driver(), "kernel")?;
        let mut kept = Vec::new();
        args.keep(&mut |value| kept.push(Operand::Value(value)));
        self.add_with(NodeKind::Kernel, after, kept.len() + 1, |this, calls| {
            let made = kernel.as_node(this.context(), config, &args, |params, attributes| {
                this.add_kernel(calls, params, attributes)
            });
            (made, iter::once(Operand::Kernel(kernel.clone())).chain(kept))
        })
    }

    fn add_kernel(
        &self,
        calls: Calls<'_>,
        params: &CUDA_KERNEL_NODE_PARAMS,
        attributes: &[CUlaunchAttribute],
    ) -> Result<CUgraphNode> {
        let (driver, after, mut raw) = (self.driver(), &self.scratch, CUgraphNode::NULL);
        // SAFETY: *pointers*: a live local, live nodes of the number, and parameters whose arguments live; *handles*: this
        // value's graph, its context, a live kernel. *Layout*: the caller's promise.
        unsafe {
            calls.cuGraphAddKernelNode_v2(
                &raw mut raw,
                self.as_raw(),
                after.as_ptr(),
                after.len(),
                params,
            )
        }
        .map_err(|failure| driver.error(failure))?;
        for attribute in attributes {
            let value = &raw const attribute.value;
            // SAFETY: *pointers*: a live value of the attribute; *handles*: the node made above.
            let set = unsafe { calls.cuGraphKernelNodeSetAttribute(raw, attribute.id, value) };
            if let Err(failure) = set {
                let error = driver.error(failure);
                // SAFETY: *handles*: the node made above, given to nobody.
                return Err(match unsafe { calls.cuGraphDestroyNode(raw) } {
                    Ok(()) => error,
                    Err(failure) => error.with_undo(&driver.error(failure)),
                });
            }
        }
        Ok(raw)
    }
}
