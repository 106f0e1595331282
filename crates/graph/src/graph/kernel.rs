//! Nodes that run a kernel.
//!
//! A node is made from a kernel and a context, both said: from a function alone, with no context current, the driver ended
//! the process (measured).

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, NodeKind, add::To};
use crate::{
    keep::Operand,
    node::{After, Node},
};
use cuhold_handles::{
    Context, Driver, Kernel, KernelArgs, LaunchConfig, Result,
    driver_sys::{Calls, ffi::*},
    scope,
};
use smallvec::SmallVec;

/// What a kernel's node uses: itself, and memory.
pub(crate) type KernelOperands = SmallVec<[Operand; 8]>;

/// What a kernel's node uses.
pub(crate) fn kernel_operands<A: KernelArgs>(kernel: &Kernel, args: &A) -> KernelOperands {
    let mut kept = KernelOperands::new();
    kept.push(Operand::Kernel(kernel.clone()));
    args.keep(&mut |value| kept.push(Operand::Value(value)));
    kept
}

impl Graph {
    /// Adds a node that runs a kernel in the graph's context. The arguments' values are copied during the call; the kernel and
    /// the memory of buffers and views among the arguments are kept alive.
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
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver, LaunchConfig};
    /// # let sim = cuhold_driver_sim::Sim::new();
    /// # sim.register_kernel("nop", |_| Ok(()));
    /// # let device = Device::with_driver(&Driver::from_api(sim), 0)?;
    /// let ptx = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nop() { ret; }";
    /// let nop = device.load(ptx)?.kernel("nop")?;
    /// let mut graph = Graph::new(device.context())?;
    /// // SAFETY: the kernel has no parameters and touches no memory.
    /// let node = unsafe { graph.kernel(&[], &nop, LaunchConfig::for_len(1000), ())? };
    /// # assert!(graph.contains(node));
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddKernelNode")]
    pub unsafe fn kernel<A: KernelArgs>(
        &mut self,
        after: impl After,
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node> {
        self.driver().check_same(kernel.driver(), "kernel")?;
        let kept = kernel_operands(kernel, &args);
        self.add_with(NodeKind::Kernel, after.place(), kept.len(), |calls, to| {
            let made = kernel.as_node(to.context, config, &args, |params, attributes| {
                add_kernel(calls, to, params, attributes)
            });
            (made, kept)
        })
    }

    /// Lets a node run another kernel, or the same one with other arguments. Executables that were made before go on with what
    /// they have.
    ///
    /// Attributes of the launch that the node had and this one doesn't name stay as they are.
    ///
    /// Calls `cuGraphKernelNodeSetParams`; for each of the launch's attributes `cuGraphKernelNodeSetAttribute`; every 256th
    /// time that something is kept also `cuUserObjectCreate` and `cuGraphRetainUserObject`, and `cuUserObjectRelease` where
    /// that failed.
    ///
    /// # Errors
    /// As [`kernel`](Self::kernel); a node that runs no kernel. Not all-or-nothing: after the failure of an attribute the rest
    /// is changed, and the error says [`completed`](cuhold_handles::Error::completed). After a failure the node keeps what it
    /// used, and what it was to use.
    ///
    /// # Safety
    /// As [`kernel`](Self::kernel).
    #[doc(alias = "cuGraphKernelNodeSetParams")]
    pub unsafe fn set_kernel<A: KernelArgs>(
        &mut self,
        node: Node,
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        self.driver().check_same(kernel.driver(), "kernel")?;
        let kept = kernel_operands(kernel, &args);
        self.change_with(node, NodeKind::Kernel, (kept.len(), kept), |raw, context| {
            kernel.as_node(context, config, &args, |params, attributes| {
                set_kernel(context, raw, params, attributes)
            })
        })
    }
}

fn add_kernel(
    calls: Calls<'_>,
    to: To<'_>,
    params: &CUDA_KERNEL_NODE_PARAMS,
    attributes: &[CUlaunchAttribute],
) -> Result<CUgraphNode> {
    let (driver, mut raw) = (to.context.driver(), CUgraphNode::NULL);
    let (after, count) = (to.after.as_ptr(), to.after.len());
    // SAFETY: *pointers*: a live local, live nodes of the number, and parameters whose arguments live; *handles*: the graph,
    // its context, a live kernel. *Layout*: the caller's promise.
    unsafe { calls.cuGraphAddKernelNode_v2(&raw mut raw, to.graph, after, count, params) }
        .map_err(|failure| driver.error(failure))?;
    let Err(error) = set_attributes(calls, driver, raw, attributes) else { return Ok(raw) };
    // SAFETY: *handles*: the node made above, given to nobody.
    Err(match unsafe { calls.cuGraphDestroyNode(raw) } {
        Ok(()) => error,
        Err(failure) => error.with_undo(&driver.error(failure)),
    })
}

fn set_kernel(
    context: &Context,
    node: CUgraphNode,
    params: &CUDA_KERNEL_NODE_PARAMS,
    attributes: &[CUlaunchAttribute],
) -> Result<()> {
    // SAFETY: *pointers*: parameters whose arguments live; *handles*: a live node, a live kernel. *Layout*: the caller's
    // promise.
    scope::run(context.target(), |calls| unsafe {
        calls.cuGraphKernelNodeSetParams_v2(node, params)
    })?;
    let driver = context.driver();
    set_attributes(driver.callable()?, driver, node, attributes)
        .map_err(|error| error.with_completed(1))
}

fn set_attributes(
    calls: Calls<'_>,
    driver: &Driver,
    node: CUgraphNode,
    attributes: &[CUlaunchAttribute],
) -> Result<()> {
    for attribute in attributes {
        let value = &raw const attribute.value;
        // SAFETY: *pointers*: a live value of the attribute; *handles*: a live node.
        unsafe { calls.cuGraphKernelNodeSetAttribute(node, attribute.id, value) }
            .map_err(|failure| driver.error(failure))?;
    }
    Ok(())
}
