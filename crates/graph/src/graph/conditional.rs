//! Nodes that run graphs by a condition.
//!
//! The condition is a number that kernels set, which they are handed as an argument. What is inside of the node is added
//! through its [bodies](crate::Body). They hold kernels, copies, fills, empty nodes, child graphs of such, and further
//! conditional nodes: what else the driver takes there keeps it from making the graph executable (measured).

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{ConditionalKind, Graph, Inside, NodeKind, list};
use crate::node::{After, Node, Place};
use cuhold_handles::{Driver, Error, KernelArg, Result, driver_sys::ffi::*};

/// A condition of a graph: a number that kernels set while the graph runs, and by which one conditional node decides. As a
/// kernel's argument it is what CUDA's `cudaGraphSetConditional` takes, 64 bits.
///
/// # Examples
/// ```
/// # use cuhold_graph::Graph;
/// # use cuhold_handles::{Device, Driver};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let mut graph = Graph::new(device.context())?;
/// let condition = graph.condition(Some(3))?;
/// let node = graph.switch(&[], condition, 5)?;
/// let third = graph.body(node, 3)?;
/// graph.empty(third)?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Condition {
    graph: u64,
    handle: CUgraphConditionalHandle,
}

impl Condition {
    /// A condition of the graph of this number.
    pub(crate) const fn of(graph: u64, handle: CUgraphConditionalHandle) -> Self {
        Self { graph, handle }
    }

    /// The number of its graph.
    pub(crate) const fn graph(self) -> u64 {
        self.graph
    }

    /// The driver's handle, which is what a kernel is given.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn as_raw(self) -> CUgraphConditionalHandle {
        self.handle
    }
}

// SAFETY: the parameter is a `cudaGraphConditionalHandle`, of 64 bits.
unsafe impl KernelArg for Condition {
    type Repr = u64;

    fn repr(&self, _: &Driver) -> Result<u64> {
        Ok(self.handle)
    }
}

impl Graph {
    /// Makes a condition, for one conditional node of this graph or inside of its nodes. With a default, each launch begins
    /// with that; without, with what the launch before left. A graph with a condition that no node uses can't be made
    /// executable. CUDA 12.3.
    ///
    /// Calls `cuGraphConditionalHandleCreate`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuGraphConditionalHandleCreate")]
    pub fn condition(&mut self, default: Option<u32>) -> Result<Condition> {
        self.inner.conditions.reserve(1);
        let (driver, graph, context) = (self.driver(), self.as_raw(), self.context().as_raw());
        let flags = if default.is_some() { CU_GRAPH_COND_ASSIGN_DEFAULT } else { 0 };
        let (mut handle, value) = (0, default.unwrap_or(0));
        // SAFETY: *pointers*: a live local; *handles*: this value's graph and its context.
        unsafe {
            driver.callable()?.cuGraphConditionalHandleCreate(
                &raw mut handle,
                graph,
                context,
                value,
                flags,
            )
        }
        .map_err(|failure| driver.error(failure))?;
        self.inner.conditions.push((handle, None));
        Ok(Condition { graph: self.inner.nodes.graph(), handle })
    }

    /// Adds a node that runs its [body](Self::body) where the condition isn't 0.
    ///
    /// Calls `cuGraphAddNode`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; a condition of another graph, or one that a node uses already; the
    /// call's failure, after which nothing was added.
    #[doc(alias = "cuGraphAddNode")]
    pub fn if_then(&mut self, after: impl After, condition: Condition) -> Result<Node> {
        self.conditional(after.place(), condition, ConditionalKind::If, 1)
    }

    /// Adds a node that runs its first [body](Self::body) where the condition isn't 0, and its second where it is. CUDA 12.8.
    ///
    /// Calls `cuGraphAddNode`.
    ///
    /// # Errors
    /// As [`if_then`](Self::if_then).
    #[doc(alias = "cuGraphAddNode")]
    pub fn if_else(&mut self, after: impl After, condition: Condition) -> Result<Node> {
        self.conditional(after.place(), condition, ConditionalKind::If, 2)
    }

    /// Adds a node that runs its [body](Self::body) over and over, while the condition isn't 0 when it is to begin.
    ///
    /// Calls `cuGraphAddNode`.
    ///
    /// # Errors
    /// As [`if_then`](Self::if_then).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver, LaunchConfig};
    /// # let sim = cuhold_driver_sim::Sim::new();
    /// # sim.register_kernel("step", |_| Ok(()));
    /// # let device = Device::with_driver(&Driver::from_api(sim), 0)?;
    /// # let ptx = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry step(.param .u64 c) { ret; }";
    /// # let step = device.load(ptx)?.kernel("step")?;
    /// let mut graph = Graph::new(device.context())?;
    /// let goes_on = graph.condition(Some(1))?;
    /// let repeat = graph.while_loop(&[], goes_on)?;
    /// let body = graph.body(repeat, 0)?;
    /// // SAFETY: the kernel takes the condition alone, which it sets to 0 at some time.
    /// unsafe { graph.kernel(body, &step, LaunchConfig::for_len(1), (goes_on,))? };
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddNode")]
    pub fn while_loop(&mut self, after: impl After, condition: Condition) -> Result<Node> {
        self.conditional(after.place(), condition, ConditionalKind::While, 1)
    }

    /// Adds a node that runs the [body](Self::body) of the condition's number, from 0 on, or none if there is none of that
    /// number. CUDA 12.8.
    ///
    /// Calls `cuGraphAddNode`.
    ///
    /// # Errors
    /// As [`if_then`](Self::if_then); no bodies.
    #[doc(alias = "cuGraphAddNode")]
    pub fn switch(&mut self, after: impl After, condition: Condition, bodies: u32) -> Result<Node> {
        if bodies == 0 {
            return Err(Error::argument("bodies: 0, where there must be one at least"));
        }
        self.conditional(after.place(), condition, ConditionalKind::Switch, bodies)
    }

    fn conditional(
        &mut self,
        after: Place<'_>,
        condition: Condition,
        kind: ConditionalKind,
        size: u32,
    ) -> Result<Node> {
        self.unused(condition)?;
        let mut params = CUgraphNodeParams {
            type_: CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL,
            ..CUgraphNodeParams::default()
        };
        let ctx = self.context().as_raw();
        params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
            handle: condition.handle,
            type_: kind.raw(),
            size,
            ctx,
            ..CUDA_CONDITIONAL_NODE_PARAMS::default()
        };
        let count = size as usize;
        let mut bodies = Vec::with_capacity(count);
        self.inner.levels.reserve(count)?;
        let node = self.add_node(NodeKind::Conditional, after, &mut params, [])?;
        // SAFETY: the node was made from this view of the union, in which the driver told its bodies.
        let told = unsafe { params.__bindgen_anon_1.conditional };
        let inner = &mut *self.inner;
        // SAFETY: the node's own array, which has as many graphs as were asked for.
        for raw in unsafe { list(told.phGraph_out, count) } {
            let level = inner.level_inside(node, *raw)?;
            bodies.push(inner.levels.insert(level));
        }
        let detail = inner.nodes.get_mut(node)?.detail_mut();
        detail.inside = Inside::Bodies { kind, bodies: bodies.into_boxed_slice() };
        for (handle, user) in &mut inner.conditions {
            if *handle == condition.handle {
                *user = Some(node);
            }
        }
        Ok(node)
    }

    /// Refuses a condition that isn't this graph's, or that is used.
    fn unused(&self, condition: Condition) -> Result<()> {
        let known = self.inner.conditions.iter().find(|(handle, _)| *handle == condition.handle);
        match known {
            Some((_, None)) if condition.graph == self.inner.nodes.graph() => Ok(()),
            Some((_, Some(node))) if condition.graph == self.inner.nodes.graph() => {
                Err(Error::argument(format!(
                    "condition: {node:?} uses it already, where each is for one node"
                )))
            }
            _ => Err(Error::argument("condition: it is of another graph")),
        }
    }
}
