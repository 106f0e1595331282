//! Nodes of an executable: changed one by one, left out, and put back.
//!
//! ```text
//!   look up ──► hold what is new (kept.rs) ──► driver call ──┬─ made: what the node had is retired, a mark is put
//!                                                            ├─ not made: what is new is let go
//!                                                            └─ failed, and may have been made: both are held
//! ```
//!
//! A node is named by its key in the graph that the executable was made from. The driver looks the node up in that graph
//! (documented), so the graph is handed in: it is alive, and the node wasn't removed from it.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{GraphExec, let_go};
use crate::{
    graph::{Graph, NodeKind, host_params},
    keep::Operand,
    node::Node,
};
use cuhold_handles::{
    AnyCall, Error, Event, Kernel, KernelArgs, LaunchConfig, Result,
    driver_sys::{
        CUresult, Call, Calls, Failure,
        ffi::{CUgraphExec, CUgraphNode},
        mutant,
    },
};

/// Which node is changed, and by which call.
pub(super) struct Change<'a> {
    graph: &'a Graph,
    node: Node,
    kind: NodeKind,
    call: Call,
}

impl<'a> Change<'a> {
    pub(super) fn of((graph, node): (&'a Graph, Node), kind: NodeKind, call: Call) -> Self {
        Self { graph, node, kind, call }
    }
}

impl GraphExec {
    /// Gives a kernel node another kernel, launch shape and arguments, for launches from here on. Those under way go on as
    /// they began. The arguments' values are copied during the call; the kernel and the memory of buffers among the arguments
    /// are kept alive, that of views isn't.
    ///
    /// The node keeps the launch attributes that it was made with: the driver changes them only with the whole graph.
    ///
    /// Calls `cuGraphExecKernelNodeSetParams`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// A node that isn't of the graph that this was made from, or not a kernel node; a kernel or a buffer of another driver;
    /// arguments that don't fit the parameters; a configuration with attributes; the calls' failures: the node is as it was,
    /// or, where the driver says so wrongly, changed, and what either needs is kept. [Completed](Error::completed) where the
    /// change was made and only what comes after it failed.
    ///
    /// # Safety
    /// - *layout*: the arguments are what the kernel's parameters are;
    /// - *bounds*: at each launch the kernel reads and writes no memory but that of buffers among the arguments, within their
    ///   bounds, or memory that is alive by other means.
    #[doc(alias = "cuGraphExecKernelNodeSetParams")]
    pub unsafe fn set_kernel<A: KernelArgs>(
        &mut self,
        graph: &Graph,
        node: Node,
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        self.driver().check_same(kernel.driver(), "kernel")?;
        let mut kept = vec![Operand::Kernel(kernel.clone())];
        args.keep(&mut |value| kept.push(Operand::Value(value)));
        let (driver, context) = (self.driver().clone(), self.context().clone());
        let call = Call::cuGraphExecKernelNodeSetParams_v2;
        let change = Change::of((graph, node), NodeKind::Kernel, call);
        self.change_scoped(&change, kept, |exec, node| {
            kernel.as_node(&context, config, &args, |params, attributes| {
                if !attributes.is_empty() {
                    return Err(Error::argument(
                        "config: an executable's node keeps its launch attributes, so none can be given",
                    ));
                }
                // SAFETY: *pointers*: parameters whose arguments live; *handles*: this value's executable, a live node, a live
                // kernel, the executable's context. *Layout*: the caller's promise.
                unsafe { driver.callable()?.cuGraphExecKernelNodeSetParams_v2(exec, node, params) }
                    .map_err(|failure| driver.error(failure))
            })
        })
    }

    /// Gives a host node another function, for launches from here on. Those under way call the one before, which is kept
    /// until they are over.
    ///
    /// Calls `cuGraphExecHostNodeSetParams`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// A node that isn't of the graph that this was made from, or not a host node; the calls' failures, as of
    /// [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphExecHostNodeSetParams")]
    pub fn set_host<F: Fn() + Send + Sync + 'static>(
        &mut self,
        graph: &Graph,
        node: Node,
        function: F,
    ) -> Result<()> {
        let (params, operand) = host_params(self.driver(), function);
        let call = Call::cuGraphExecHostNodeSetParams;
        let change = Change::of((graph, node), NodeKind::Host, call);
        self.change(&change, [operand], |calls, exec, node| {
            // SAFETY: *pointers*: a live local; *handles*: this value's executable, a live node. *Calls back*: the function is
            // kept as long as a launch can call it, and doesn't unwind.
            unsafe { calls.cuGraphExecHostNodeSetParams(exec, node, &raw const params) }
        })
    }

    /// Lets a node that records an event record another one, from the next launch on. The event is kept alive.
    ///
    /// Calls `cuGraphExecEventRecordNodeSetEvent`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// A node that isn't of the graph that this was made from, or doesn't record an event; an event of another driver; the
    /// calls' failures, as of [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphExecEventRecordNodeSetEvent")]
    pub fn set_record(&mut self, graph: &Graph, node: Node, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        let call = Call::cuGraphExecEventRecordNodeSetEvent;
        let change = Change::of((graph, node), NodeKind::Record, call);
        self.change(&change, [Operand::Event(event.clone())], |calls, exec, node| {
            // SAFETY: *handles*: this value's executable, a live node, a live event.
            unsafe { calls.cuGraphExecEventRecordNodeSetEvent(exec, node, event.raw()) }
        })
    }

    /// Lets a node that waits for an event wait for another one, from the next launch on. The event is kept alive.
    ///
    /// Calls `cuGraphExecEventWaitNodeSetEvent`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// As [`set_record`](Self::set_record).
    #[doc(alias = "cuGraphExecEventWaitNodeSetEvent")]
    pub fn set_wait(&mut self, graph: &Graph, node: Node, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        let call = Call::cuGraphExecEventWaitNodeSetEvent;
        let change = Change::of((graph, node), NodeKind::Wait, call);
        self.change(&change, [Operand::Event(event.clone())], |calls, exec, node| {
            // SAFETY: as above.
            unsafe { calls.cuGraphExecEventWaitNodeSetEvent(exec, node, event.raw()) }
        })
    }

    /// Lets a child node run a copy of another graph of the same shape, as that is now, from the next launch on. What that
    /// graph keeps is kept.
    ///
    /// Calls `cuGraphExecChildGraphNodeSetParams`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// A node that isn't of the graph that this was made from, or not a child node; a graph of another driver; the calls'
    /// failures, as of [`set_kernel`](Self::set_kernel): `GRAPH_EXEC_UPDATE_FAILURE` for a graph of another shape.
    #[doc(alias = "cuGraphExecChildGraphNodeSetParams")]
    pub fn set_child(&mut self, graph: &Graph, node: Node, child: &mut Graph) -> Result<()> {
        self.driver().check_same(child.driver(), "child")?;
        // Also where it fails: it may have been copied all the same.
        child.inner.operands.copied();
        // That the driver takes over what the child keeps is documented, and was asked of none yet.
        let held = child.inner.operands.held();
        let call = Call::cuGraphExecChildGraphNodeSetParams;
        let change = Change::of((graph, node), NodeKind::Child, call);
        self.change(&change, held, |calls, exec, node| {
            // SAFETY: *handles*: this value's executable, a live node, a live graph.
            unsafe { calls.cuGraphExecChildGraphNodeSetParams(exec, node, child.as_raw()) }
        })
    }

    /// Leaves a node out of launches from here on, or puts it back; what stands behind it runs all the same. Kernels, copies
    /// and fills can be left out; an executable begins with all of them.
    ///
    /// Calls `cuGraphNodeSetEnabled`.
    ///
    /// # Errors
    /// A node that isn't of the graph that this was made from, or can't be left out; the call's failure.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{Graph, handles::{Device, Driver, LaunchConfig}};
    /// # let sim = cuhold_driver_sim::Sim::new();
    /// # sim.register_kernel("nop", |_| Ok(()));
    /// # let device = Device::with_driver(&Driver::from_api(sim), 0)?;
    /// # let ptx = ".version 7.0 .target sm_50 .address_size 64 .visible .entry nop() { ret; }";
    /// let nop = device.load(ptx)?.kernel("nop")?;
    /// let mut graph = Graph::new(device.context())?;
    /// // SAFETY: the kernel takes nothing and does nothing.
    /// let node = unsafe { graph.kernel(&[], &nop, LaunchConfig::for_len(1), ())? };
    /// let mut exec = graph.instantiate()?;
    /// exec.set_enabled(&graph, node, false)?;
    /// assert!(!exec.is_enabled(&graph, node)?);
    /// # Ok::<(), cuhold_graph::handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphNodeSetEnabled")]
    pub fn set_enabled(&mut self, graph: &Graph, node: Node, enabled: bool) -> Result<()> {
        let raw = self.switchable(graph, node)?;
        // SAFETY: *handles*: this value's executable, a live node.
        unsafe {
            self.driver().callable()?.cuGraphNodeSetEnabled(self.raw.as_raw(), raw, enabled.into())
        }
        .map_err(|failure| self.driver().error(failure))
    }

    /// Whether a node runs at launches, asked of the driver.
    ///
    /// Calls `cuGraphNodeGetEnabled`.
    ///
    /// # Errors
    /// As [`set_enabled`](Self::set_enabled).
    #[doc(alias = "cuGraphNodeGetEnabled")]
    pub fn is_enabled(&self, graph: &Graph, node: Node) -> Result<bool> {
        let (raw, mut enabled) = (self.switchable(graph, node)?, 0);
        let calls = self.driver().callable()?;
        // SAFETY: *pointers*: a live local; *handles*: this value's executable, a live node.
        unsafe { calls.cuGraphNodeGetEnabled(self.raw.as_raw(), raw, &raw mut enabled) }
            .map_err(|failure| self.driver().error(failure))?;
        Ok(enabled != 0)
    }

    /// A node that can be left out (documented).
    fn switchable(&self, graph: &Graph, node: Node) -> Result<CUgraphNode> {
        let (raw, kind) = self.look_up(graph, node)?;
        match kind {
            NodeKind::Kernel | NodeKind::Copy | NodeKind::Fill => Ok(raw),
            kind => Err(Error::argument(format!(
                "{node:?}: it is of the kind {kind:?}; only kernels, copies and fills can be left out"
            ))),
        }
    }

    /// The node behind a key, and what it does.
    fn look_up(&self, graph: &Graph, node: Node) -> Result<(CUgraphNode, NodeKind)> {
        self.driver().check_same(graph.driver(), "graph")?;
        if graph.inner.nodes.graph() != self.books.graph {
            return Err(Error::argument("graph: the executable was made from another one"));
        }
        let entry = graph.inner.usable(node)?;
        Ok((entry.raw, entry.kind))
    }

    /// Changes a node by a call.
    pub(super) fn change(
        &mut self,
        change: &Change<'_>,
        new: impl IntoIterator<Item = Operand>,
        call: impl FnOnce(Calls<'_>, CUgraphExec, CUgraphNode) -> Result<(), Failure>,
    ) -> Result<()> {
        let driver = self.driver().clone();
        self.change_scoped(change, new, |exec, node| {
            call(driver.callable()?, exec, node).map_err(|failure| driver.error(failure))
        })
    }

    /// The same, by a call that has a context made current.
    pub(super) fn change_scoped(
        &mut self,
        change: &Change<'_>,
        new: impl IntoIterator<Item = Operand>,
        call: impl FnOnce(CUgraphExec, CUgraphNode) -> Result<()>,
    ) -> Result<()> {
        let (raw, kind) = self.look_up(change.graph, change.node)?;
        if kind != change.kind {
            return Err(Error::argument(format!(
                "{:?}: it is of the kind {kind:?}, not {:?}",
                change.node, change.kind
            )));
        }
        self.look()?;
        // Before the call: what is held by then can't be missed after it.
        let given = self.books.kept.give(change.node, new);
        let made = call(self.raw.as_raw(), raw);
        let fate = match &made {
            Ok(()) => Fate::Made,
            Err(error) if error.completed().is_some() => Fate::Made,
            Err(error) if may_be_made(error, change.call) => Fate::Unknown,
            Err(_) => Fate::NotMade,
        };
        let free = match fate {
            Fate::Made => {
                self.count_foreign_launches();
                self.books.kept.accept(given)
            }
            Fate::NotMade => self.books.kept.withdraw(given),
            Fate::Unknown if mutant::is_out("exec-unknown") => self.books.kept.withdraw(given),
            Fate::Unknown => Vec::new(),
        };
        let_go(self.raw.driver(), free);
        match (made, self.mark()) {
            (Ok(()), marked) => marked,
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(second)) => Err(error.with_second(&second)),
        }
    }
}

/// What became of a change.
#[derive(Clone, Copy)]
enum Fate {
    Made,
    NotMade,
    /// The driver says that it failed, which may be wrong.
    Unknown,
}

/// Whether the change may have been made although it failed: the call was made.
fn may_be_made(error: &Error, call: Call) -> bool {
    error.call() == Some(AnyCall::Driver(call)) && !error.is(CUresult::MISSING)
}
