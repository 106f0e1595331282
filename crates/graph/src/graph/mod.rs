//! A graph's definition: its nodes and edges.
//!
//! ```text
//!   Graph ─┬─ the driver's graph          ends first
//!          ├─ nodes: key ─► raw node, kind, the graph that it is in, what it uses
//!          ├─ levels: the graph itself, and those inside of nodes that are known
//!          ├─ order: which node runs after which
//!          └─ operands: chunks of what the nodes use; the driver's graph holds them, too
//! ```
//!
//! Every call is checked before the driver is asked, since the driver ends the process where it is handed a node that was
//! removed, or a graph as its own child (measured). Where a call that changes nodes or edges fails, the driver is asked what
//! there is now: a call may have been carried out although it said that it failed.
//!
//! `add.rs`: how a node is added or changed. `remove.rs`, `read.rs`, `copies.rs`: the rest of a node's life. One file for each
//! kind of node, named after it.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

#![expect(unsafe_code, reason = "reads lists that the driver told")]

mod add;
mod allocate;
mod batch;
mod captured;
mod child;
mod conditional;
mod copies;
mod copy;
mod edges;
mod entry;
mod event;
mod fill;
mod host;
mod kernel;
mod params;
mod read;
mod remove;
mod semaphore;

pub use allocate::{AllocateOptions, GraphAllocation};
pub use batch::{BatchOperation, Word};
pub use conditional::Condition;
pub use edges::{Edge, EdgeKind};
pub use entry::{ConditionalKind, NodeKind};
pub use params::NodeParams;

pub(crate) use captured::CapturedConditional;
pub(crate) use entry::{Detail, Entry, Inside, Kinds, Level};
pub(crate) use host::host_params;
pub(crate) use semaphore::{signal as semaphore_signal, wait as semaphore_wait};

use crate::{
    keep::Operands,
    node::{Body, Keyed as _, Node, Table},
    order::Order,
};
use cuhold_handles::{
    self as handles, Closed, Context, Driver, Error, Refused, Result, driver_sys::ffi::*,
};
use std::{fmt, slice};

/// A CUDA graph: a definition of work, which [`instantiate`](Self::instantiate) makes executable.
///
/// Each function that adds a node says where: behind other nodes, or first in the graph or in one [inside](Body) of it. What
/// a node uses, such as memory and events, is kept alive by the graph, by its copies and executables, and by their launches
/// that are under way, whatever becomes of the values that were handed in.
///
/// Cycles, nodes of other graphs, nodes that were removed, and nodes that a conditional body can't hold are refused with the
/// reason before the driver is asked.
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
/// let world = graph.host(hello, || println!("world"))?;
/// assert_eq!(graph.predecessors(world)?, [hello]);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct Graph {
    pub(crate) raw: handles::Graph,
    // After the graph, whose references to the operands its end gives back.
    pub(crate) inner: Box<Inner>,
}

/// What a graph knows beside the driver's handle.
pub(crate) struct Inner {
    pub(crate) nodes: Table<Node, Entry>,
    levels: Table<Body, Level>,
    /// The graph itself.
    root: Body,
    order: Order,
    pub(crate) operands: Operands,
    /// Conditions that were made, and whether a node uses each.
    conditions: Vec<(CUgraphConditionalHandle, Option<Node>)>,
    /// The number of the graph that this is a copy of.
    origin: Option<u64>,
    /// Whether a call failed so that it isn't known which edges there are.
    edges_are_doubtful: bool,
    /// Raw nodes on their way to a call.
    scratch: Vec<CUgraphNode>,
}

impl Inner {
    fn new(id: u64, raw: CUgraph) -> Result<Self> {
        let mut levels = Table::new(id);
        levels.reserve(1)?;
        let root = levels.insert(Level { raw, is_in_body: false, is_in_child: false });
        Ok(Self {
            nodes: Table::new(id),
            levels,
            root,
            order: Order::default(),
            operands: Operands::default(),
            conditions: Vec::new(),
            origin: None,
            edges_are_doubtful: false,
            scratch: Vec::new(),
        })
    }

    /// The graph itself.
    pub(crate) fn root(&self) -> Body {
        self.root
    }

    /// A node that the driver may be handed.
    pub(crate) fn usable(&self, node: Node) -> Result<&Entry> {
        let entry = self.nodes.get(node)?;
        if entry.is_doubtful() {
            return Err(Error::state(format!(
                "{node:?}: its removal failed, and whether it is there couldn't be asked"
            )));
        }
        Ok(entry)
    }

    /// The kinds of all nodes, those inside of nodes included.
    pub(crate) fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::default();
        for (_, entry) in self.nodes.iter() {
            kinds.insert(entry.kind);
            if let Inside::Child { kinds: inside, .. } = entry.inside() {
                kinds.extend(*inside);
            }
        }
        kinds
    }
}

impl Graph {
    /// Makes an empty graph for work of the context.
    ///
    /// Calls `cuGraphCreate`.
    ///
    /// # Errors
    /// The call's failure.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let graph = Graph::new(device.context())?;
    /// assert!(graph.is_empty());
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        let raw = handles::Graph::new(context)?;
        let inner = Inner::new(context.driver().next_id(), raw.as_raw())?;
        Ok(Self { raw, inner: Box::new(inner) })
    }

    /// How many nodes are known, those inside of nodes included.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.nodes.len()
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
        self.inner.nodes.get(node).is_ok()
    }

    /// What a node does.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed.
    pub fn kind(&self, node: Node) -> Result<NodeKind> {
        Ok(self.inner.nodes.get(node)?.kind)
    }

    /// The graph inside of which a node is; `None` if it is in the graph itself.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed.
    pub fn containing(&self, node: Node) -> Result<Option<Body>> {
        let level = self.inner.nodes.get(node)?.level;
        Ok((level != self.inner.root).then_some(level))
    }

    /// The nodes of the graph itself, in no order that means anything; those inside of its nodes are
    /// [`nodes_in`](Self::nodes_in) those.
    ///
    /// Calls nothing.
    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        self.inner.nodes_of(self.inner.root)
    }

    /// The nodes of a graph inside of a node, in no order that means anything.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A body of another graph, or one whose node was removed.
    pub fn nodes_in(&self, body: Body) -> Result<Vec<Node>> {
        self.inner.levels.get(body)?;
        Ok(self.inner.nodes_of(body).collect())
    }

    /// The nodes of the graph itself that run after no other.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`predecessors`](Self::predecessors).
    pub fn roots(&self) -> Result<Vec<Node>> {
        self.inner.edges_are_known()?;
        let roots = self.nodes().filter(|node| self.inner.order.is_root(node.key().index()));
        Ok(roots.collect())
    }

    /// Names a node, for [pictures](Self::to_svg).
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let node = graph.empty(&[])?;
    /// graph.set_label(node, "everything begins here")?;
    /// assert_eq!(graph.label(node)?, Some("everything begins here"));
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    pub fn set_label(&mut self, node: Node, label: impl Into<String>) -> Result<()> {
        let entry = self.inner.nodes.get_mut(node)?;
        entry.detail_mut().label = Some(label.into().into_boxed_str());
        Ok(())
    }

    /// A node's name, if it was given one.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed.
    pub fn label(&self, node: Node) -> Result<Option<&str>> {
        let detail = self.inner.nodes.get(node)?.detail.as_ref();
        Ok(detail.and_then(|detail| detail.label.as_deref()))
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

    /// The driver's handle of a node, which stays the graph's.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed.
    pub fn raw_node(&self, node: Node) -> Result<CUgraphNode> {
        Ok(self.inner.usable(node)?.raw)
    }

    /// Ends the graph here and now. Executables that were made from it go on.
    ///
    /// Calls `cuGraphDestroy` and `cuUserObjectRelease`.
    ///
    /// # Errors
    /// [`Refused`], with the graph where the driver wasn't asked.
    #[doc(alias = "cuGraphDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        let Self { raw, inner } = self;
        raw.close().map_err(|Refused { error, value, .. }| {
            Refused::new(error, value.map(|raw| Self { raw, inner }))
        })
    }
}

/// A list that the driver told.
///
/// # Safety
/// There are so many there as long as the list is used, or `first` is null.
unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(first, count) }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.inner.nodes.len();
        f.debug_struct("Graph").field("raw", &self.raw).field("nodes", &nodes).finish()
    }
}

const _: () = {
    const fn sent<T: Send>() {}
    sent::<Graph>();
    assert!(size_of::<Result<Graph>>() <= 64);
};
