//! A graph's definition: its nodes and edges.
//!
//! ```text
//!   Graph ─┬─ the driver's graph          ends first
//!          ├─ nodes: key ─► raw node, kind, what it uses
//!          └─ operands: chunks of what the nodes use; the driver's graph holds them, too
//! ```
//!
//! Every call is checked before the driver is asked, since the driver ends the process where it is handed a node that was
//! removed, or a graph as its own child (measured).
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

mod child;
mod edges;
mod event;
mod host;
mod kernel;

pub(crate) use host::host_params;

use crate::{
    keep::{Attached, Operand, Operands},
    node::{Node, Nodes},
};
use cuhold_handles::{
    self as handles, Closed, Context, Driver, Refused, Result,
    driver_sys::{Calls, Failure, ffi::*},
};
use std::fmt;

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum NodeKind {
    /// Nothing: it is there for its edges.
    Empty,
    /// Runs a kernel.
    Kernel,
    /// Calls a function on the host.
    Host,
    /// Records an event.
    Record,
    /// Waits for an event.
    Wait,
    /// Runs a graph.
    Child,
}

/// A node as the graph keeps it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) raw: CUgraphNode,
    pub(crate) kind: NodeKind,
    attached: Attached,
}

/// A CUDA graph: a definition of work, which [`instantiate`](Self::instantiate) makes executable.
///
/// Each function that adds a node takes the nodes after which it runs. What a node uses, such as memory and events, is kept
/// alive by the graph, by its copies and executables, and by their launches that are under way, whatever becomes of the
/// values that were handed in.
///
/// It can go to another thread, but isn't `Sync`: CUDA promises nothing for two calls on one graph at once.
///
/// Its drop calls `cuGraphDestroy` and `cuUserObjectRelease`. Executables that were made from it go on.
///
/// # Examples
/// ```
/// # use cuhold_graph::Graph;
/// # use cuhold_handles::{Device, Driver};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let mut graph = Graph::new(device.context())?;
/// let hello = graph.host(&[], || println!("hello"))?;
/// let world = graph.host(&[hello], || println!("world"))?;
/// assert_eq!(graph.predecessors(world)?, [hello]);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct Graph {
    pub(crate) raw: handles::Graph,
    pub(crate) nodes: Nodes<Entry>,
    // After the graph, whose references to them its end gives back.
    pub(crate) operands: Box<Operands>,
    /// Raw nodes on their way to a call.
    scratch: Vec<CUgraphNode>,
}

impl Graph {
    /// Makes an empty graph for work of the context.
    ///
    /// Calls `cuGraphCreate`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuGraphCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        let raw = handles::Graph::new(context)?;
        let nodes = Nodes::new(context.driver().next_id());
        Ok(Self { raw, nodes, operands: Box::default(), scratch: Vec::new() })
    }

    /// Adds a node that does nothing, for edges to meet in.
    ///
    /// Calls `cuGraphAddEmptyNode`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the call's failure, after which nothing was added.
    #[doc(alias = "cuGraphAddEmptyNode")]
    pub fn empty(&mut self, after: &[Node]) -> Result<Node> {
        self.add(NodeKind::Empty, after, [], |calls, graph, after, raw| {
            // SAFETY: *pointers*: a live local, and live nodes of the number; *handles*: this value's graph.
            unsafe { calls.cuGraphAddEmptyNode(raw, graph, after.as_ptr(), after.len()) }
        })
    }

    /// Adds a node by a call, which is handed the graph, the raw nodes in front of it, and where the new one goes.
    fn add<const N: usize>(
        &mut self,
        kind: NodeKind,
        after: &[Node],
        operands: [Operand; N],
        make: impl FnOnce(Calls<'_>, CUgraph, &[CUgraphNode], &mut CUgraphNode) -> Result<(), Failure>,
    ) -> Result<Node> {
        self.add_with(kind, after, N, |this, calls| {
            let mut raw = CUgraphNode::NULL;
            let made = make(calls, this.raw.as_raw(), &this.scratch, &mut raw);
            (made.map(|()| raw).map_err(|failure| this.driver().error(failure)), operands)
        })
    }

    /// Adds a node that uses `count` values: prepare, call, commit.
    fn add_with<I: IntoIterator<Item = Operand>>(
        &mut self,
        kind: NodeKind,
        after: &[Node],
        count: usize,
        make: impl FnOnce(&Self, Calls<'_>) -> (Result<CUgraphNode>, I),
    ) -> Result<Node> {
        self.look_up(after)?;
        self.nodes.reserve(1)?;
        let reserved = self.operands.prepare(&mut self.raw, count)?;
        let (made, operands) = make(self, self.driver().callable()?);
        // Also where the call failed: a node that was added all the same could run with the graph.
        let may_be_there = made.as_ref().err().is_none_or(|error| !error.is(CUresult::MISSING));
        let attached = match may_be_there {
            true => self.operands.commit(reserved, operands),
            false => Attached::default(),
        };
        Ok(self.nodes.insert(Entry { raw: made?, kind, attached }))
    }

    /// Looks up nodes, for a call that takes them.
    fn look_up(&mut self, nodes: &[Node]) -> Result<()> {
        self.scratch.clear();
        for node in nodes {
            let raw = self.nodes.get(*node)?.raw;
            self.scratch.push(raw);
        }
        Ok(())
    }

    /// Removes a node with its edges. What it uses is let go of, unless a copy or an executable was made from the graph
    /// since it was added: those may use it still.
    ///
    /// Calls `cuGraphDestroyNode`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the call's failure, after which the node is as it was.
    #[doc(alias = "cuGraphDestroyNode")]
    pub fn remove(&mut self, node: Node) -> Result<()> {
        let raw = self.nodes.get(node)?.raw;
        let driver = self.driver();
        // SAFETY: *handles*: a live node of this value's graph, which is forgotten below.
        unsafe { driver.callable()?.cuGraphDestroyNode(raw) }
            .map_err(|failure| driver.error(failure))?;
        let entry = self.nodes.remove(node)?;
        self.operands.release(entry.attached);
        Ok(())
    }

    /// How many nodes it has.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has no nodes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the node is one of this graph's, and wasn't removed.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn contains(&self, node: Node) -> bool {
        self.nodes.get(node).is_ok()
    }

    /// What a node does.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed.
    pub fn kind(&self, node: Node) -> Result<NodeKind> {
        Ok(self.nodes.get(node)?.kind)
    }

    /// All nodes, in no order that means anything.
    ///
    /// Calls nothing.
    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        self.nodes.iter().map(|(node, _)| node)
    }

    /// The context that its work is for.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.raw.context()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.raw.driver()
    }

    /// The driver's handle, which stays this value's. Nodes that others add are none of this value's, and what they use isn't
    /// kept.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUgraph {
        self.raw.as_raw()
    }

    /// Ends the graph here and now. Executables that were made from it go on.
    ///
    /// Calls `cuGraphDestroy` and `cuUserObjectRelease`.
    ///
    /// # Errors
    /// [`Refused`], with the graph where the driver wasn't asked.
    #[doc(alias = "cuGraphDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        let Self { raw, nodes, operands, scratch } = self;
        raw.close().map_err(|Refused { error, value, .. }| {
            Refused::new(error, value.map(|raw| Self { raw, nodes, operands, scratch }))
        })
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("raw", &self.raw).field("nodes", &self.nodes.len()).finish()
    }
}

const _: () = {
    const fn sent<T: Send>() {}
    sent::<Graph>();
};
