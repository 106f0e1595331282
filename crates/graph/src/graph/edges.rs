//! Edges: which node runs after which.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, NodeKind};
use crate::{
    node::{Body, Keyed as _, Node},
    order::Ports,
};
use cuhold_handles::{
    Error, Note, Result,
    driver_sys::{Calls, Failure, ffi::*, mutant},
};
use std::ptr;

/// What an edge waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum EdgeKind {
    /// For the first node to be done.
    #[default]
    Full,
    /// For all blocks of a kernel to have said that dependent ones may begin (`griddepcontrol.launch_dependents`) or to be
    /// done; the kernel behind it waits for the rest itself (`griddepcontrol.wait`). CUDA 12.3.
    Programmatic,
    /// For all blocks of a kernel to have begun. CUDA 12.3.
    LaunchOrder,
    /// The same, where the kernel behind it waits for the rest itself.
    ProgrammaticLaunchOrder,
    /// As the driver tells it, in its own numbers.
    Other {
        /// Where it leaves the first node.
        from_port: u8,
        /// Where it enters the second one.
        to_port: u8,
        /// Of which type it is.
        kind: u8,
    },
}

impl EdgeKind {
    pub(crate) const fn ports(self) -> Ports {
        match self {
            Self::Full => Ports { from: 0, to: 0, kind: 0 },
            Self::Programmatic => Ports { from: 1, to: 0, kind: 1 },
            Self::LaunchOrder => Ports { from: 2, to: 0, kind: 0 },
            Self::ProgrammaticLaunchOrder => Ports { from: 2, to: 0, kind: 1 },
            Self::Other { from_port, to_port, kind } => {
                Ports { from: from_port, to: to_port, kind }
            }
        }
    }

    pub(crate) const fn of(ports: Ports) -> Self {
        match ports {
            Ports { from: 0, to: 0, kind: 0 } => Self::Full,
            Ports { from: 1, to: 0, kind: 1 } => Self::Programmatic,
            Ports { from: 2, to: 0, kind: 0 } => Self::LaunchOrder,
            Ports { from: 2, to: 0, kind: 1 } => Self::ProgrammaticLaunchOrder,
            Ports { from, to, kind } => Self::Other { from_port: from, to_port: to, kind },
        }
    }
}

/// An edge: a node that runs after another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(clippy::exhaustive_structs, reason = "an edge is this, and is made by users")]
pub struct Edge {
    /// The node that runs first.
    pub from: Node,
    /// The node that waits.
    pub to: Node,
    /// What it waits for.
    pub kind: EdgeKind,
}

impl Edge {
    /// That `to` runs when `from` is done.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn new(from: Node, to: Node) -> Self {
        Self { from, to, kind: EdgeKind::Full }
    }

    /// The same edge of another kind.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn kind(self, kind: EdgeKind) -> Self {
        Self { kind, ..self }
    }
}

/// What is done with edges, and the words for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Add,
    Remove,
}

impl Graph {
    /// Lets `to` run after `from`.
    ///
    /// Calls `cuGraphAddDependencies`; where that failed, or an earlier change of edges did, also `cuGraphGetEdges`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; nodes that aren't in one graph; an edge that would close a cycle; the
    /// call's failure: `INVALID_VALUE` for an edge that is there.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let (a, b) = (graph.empty(&[])?, graph.empty(&[])?);
    /// graph.add_edge(a, b)?;
    /// assert!(graph.add_edge(b, a).is_err());
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddDependencies")]
    pub fn add_edge(&mut self, from: Node, to: Node) -> Result<()> {
        self.add_edges(&[Edge::new(from, to)])
    }

    /// Adds several edges in one call, between nodes of one graph.
    ///
    /// What was found before the call is all or nothing. What the driver does with the others where it refuses one isn't
    /// documented: the one that was measured adds all or none.
    ///
    /// Calls `cuGraphAddDependencies`; where that failed, or an earlier change of edges did, also `cuGraphGetEdges`.
    ///
    /// # Errors
    /// As [`add_edge`](Self::add_edge); a programmatic edge that isn't from a kernel to a kernel. After the call's failure the
    /// driver is asked what there is: the error says [how many](cuhold_handles::Error::completed) of the edges are, and
    /// [`successors`](Self::successors) which.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{Edge, Graph};
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let (a, b, c) = (graph.empty(&[])?, graph.empty(&[])?, graph.empty(&[])?);
    /// graph.add_edges(&[Edge::new(a, b), Edge::new(a, c)])?;
    /// assert_eq!(graph.successors(a)?, [b, c]);
    /// // The second is there already.
    /// let error = graph.add_edges(&[Edge::new(b, c), Edge::new(a, b)]).unwrap_err();
    /// assert_eq!(graph.successors(b)?.len(), error.completed().unwrap_or(0) as usize);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddDependencies")]
    pub fn add_edges(&mut self, edges: &[Edge]) -> Result<()> {
        let level = self.check_edges(edges)?;
        self.inner.order.reserve(0, edges.len())?;
        let mut most = edges.len();
        for (nth, edge) in edges.iter().enumerate() {
            let (from, to) = places(edge);
            if self.inner.order.ports(from, to).is_some() {
                // The driver refuses it.
                most = most.min(nth);
            }
            let added = self.inner.order.add_edge(from, to, edge.kind.ports());
            if added.is_err() && !mutant::is_out("graph-cycle") {
                for edge in edges.iter().take(nth) {
                    let (from, to) = places(edge);
                    self.inner.order.remove_edge(from, to);
                }
                return Err(Error::argument(format!(
                    "edges: {:?} runs after {:?} already, so that the graph would have a cycle",
                    edge.from, edge.to
                )));
            }
        }
        self.change_edges(level, edges, Change::Add, most)
    }

    /// Lets `to` no longer run after `from`.
    ///
    /// Calls `cuGraphRemoveDependencies`; where that failed, or an earlier change of edges did, also `cuGraphGetEdges`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; an edge that isn't there; the call's failure: `NOT_SUPPORTED` where
    /// nodes of the graph allocate or free memory.
    #[doc(alias = "cuGraphRemoveDependencies")]
    pub fn remove_edge(&mut self, from: Node, to: Node) -> Result<()> {
        self.remove_edges(&[(from, to)])
    }

    /// Removes several edges in one call, each from its first node to its second. As for [`add_edges`](Self::add_edges), the
    /// driver may remove some and refuse another.
    ///
    /// Calls `cuGraphRemoveDependencies`; where that failed, or an earlier change of edges did, also `cuGraphGetEdges`.
    ///
    /// # Errors
    /// As [`remove_edge`](Self::remove_edge). After the call's failure some of the edges may be gone: the error says
    /// [how many](cuhold_handles::Error::completed), and [`successors`](Self::successors) which.
    #[doc(alias = "cuGraphRemoveDependencies")]
    pub fn remove_edges(&mut self, edges: &[(Node, Node)]) -> Result<()> {
        let mut known = Vec::with_capacity(edges.len());
        let plain: Vec<Edge> = edges.iter().map(|(from, to)| Edge::new(*from, *to)).collect();
        let level = self.check_edges(&plain)?;
        for edge in plain {
            let (from, to) = places(&edge);
            let ports = self.inner.order.ports(from, to).ok_or_else(|| {
                Error::argument(format!(
                    "edges: there is none from {:?} to {:?}",
                    edge.from, edge.to
                ))
            })?;
            known.push(edge.kind(EdgeKind::of(ports)));
        }
        self.change_edges(level, &known, Change::Remove, known.len())?;
        for edge in &known {
            let (from, to) = places(edge);
            self.inner.order.remove_edge(from, to);
        }
        Ok(())
    }

    /// The graph that all these nodes are in.
    fn check_edges(&mut self, edges: &[Edge]) -> Result<Body> {
        if self.inner.edges_are_doubtful {
            self.edges_again()?;
        }
        let mut level = None;
        for edge in edges {
            let (from, to) = (self.inner.usable(edge.from)?, self.inner.usable(edge.to)?);
            if edge.from == edge.to {
                return Err(Error::argument(format!("edges: {:?} after itself", edge.from)));
            }
            if from.level != to.level || *level.get_or_insert(from.level) != from.level {
                return Err(Error::argument(format!(
                    "edges: {:?} and {:?} aren't in one graph, with all other nodes of the call",
                    edge.from, edge.to
                )));
            }
            let ports = edge.kind.ports();
            let leaves_early = ports.from != 0 && from.kind != NodeKind::Kernel;
            let enters_early = ports.kind == 1 && to.kind != NodeKind::Kernel;
            if leaves_early || enters_early {
                return Err(Error::argument(format!(
                    "edges: one of kind {:?} from a node of kind {} to one of kind {}, where it needs kernels",
                    edge.kind, from.kind, to.kind
                )));
            }
        }
        Ok(level.unwrap_or(self.inner.root))
    }

    /// `most` of the edges, from the first on, are such as can be changed.
    fn change_edges(
        &mut self,
        level: Body,
        edges: &[Edge],
        change: Change,
        most: usize,
    ) -> Result<()> {
        if edges.is_empty() {
            return Ok(());
        }
        let graph = self.inner.levels.get(level)?.raw;
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for edge in edges {
            from.push(self.inner.nodes.get(edge.from)?.raw);
            to.push(self.inner.nodes.get(edge.to)?.raw);
        }
        let data: Vec<_> = edges.iter().map(|edge| data_of(edge.kind.ports())).collect();
        let driver = self.driver();
        // SAFETY: *pointers*: live nodes, as many of each as there are data; *handles*: of the graph that they are in.
        let changed = unsafe { call(driver.callable()?, change, graph, (&from, &to, &data)) };
        let Err(failure) = changed else { return Ok(()) };
        let mut error = self.explained(driver.error(failure));
        if let Err(second) = self.edges_again() {
            return Err(error.with_second(&second));
        }
        let there = |edge: &&Edge| {
            let (from, to) = places(edge);
            self.inner.order.ports(from, to).is_some() == (change == Change::Add)
        };
        let done = edges.iter().take_while(there).count().min(most);
        if done > 0 {
            error = error.with_completed(u32::try_from(done).unwrap_or(u32::MAX));
        }
        if edges.len() > 1 && done > 0 {
            let note = "edges in front of the refused one were changed, and stay so";
            error = error.with_note(Note::Text(note.into()));
        }
        Err(error)
    }

    /// The nodes after which a node runs.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed;
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State) where a change of edges failed and the driver couldn't be asked
    /// what there is; the next change asks again.
    #[doc(alias = "cuGraphNodeGetDependencies")]
    pub fn predecessors(&self, node: Node) -> Result<Vec<Node>> {
        self.inner.nodes.get(node)?;
        self.inner.edges_are_known()?;
        let before = self.inner.order.before(node.key().index());
        Ok(self.sorted(before.map(|(place, _)| place)))
    }

    /// The nodes that run after a node.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`predecessors`](Self::predecessors).
    #[doc(alias = "cuGraphNodeGetDependentNodes")]
    pub fn successors(&self, node: Node) -> Result<Vec<Node>> {
        self.inner.nodes.get(node)?;
        self.inner.edges_are_known()?;
        let after = self.inner.order.after(node.key().index());
        Ok(self.sorted(after.map(|(place, _)| place)))
    }

    fn sorted(&self, places: impl Iterator<Item = usize>) -> Vec<Node> {
        let mut nodes: Vec<_> = places.filter_map(|place| self.inner.nodes.at(place)).collect();
        nodes.sort_unstable();
        nodes
    }

    /// The edges that lead to a node.
    pub(crate) fn edges_to(&self, to: Node) -> Vec<Edge> {
        let before = self.inner.order.before(to.key().index());
        let mut edges: Vec<Edge> = before
            .filter_map(|(from, ports)| {
                let from = self.inner.nodes.at(from)?;
                Some(Edge { from, to, kind: EdgeKind::of(ports) })
            })
            .collect();
        edges.sort_unstable_by_key(|edge| edge.from);
        edges
    }

    /// All edges, those inside of nodes included.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`predecessors`](Self::predecessors).
    #[doc(alias = "cuGraphGetEdges")]
    pub fn edges(&self) -> Result<Vec<Edge>> {
        self.inner.edges_are_known()?;
        let mut edges = Vec::new();
        for (to, _) in self.inner.nodes.iter() {
            edges.extend(self.edges_to(to));
        }
        Ok(edges)
    }
}

fn places(edge: &Edge) -> (usize, usize) {
    (edge.from.key().index(), edge.to.key().index())
}

fn data_of(ports: Ports) -> CUgraphEdgeData {
    CUgraphEdgeData {
        from_port: ports.from,
        to_port: ports.to,
        type_: ports.kind,
        ..CUgraphEdgeData::default()
    }
}

/// Changes edges in one call.
///
/// # Safety
/// The nodes are live ones of the graph, as many of each as there are data.
unsafe fn call(
    calls: Calls<'_>,
    change: Change,
    graph: CUgraph,
    (from, to, data): (&[CUgraphNode], &[CUgraphNode], &[CUgraphEdgeData]),
) -> Result<(), Failure> {
    let is_plain = data.iter().all(|data| *data == CUgraphEdgeData::default());
    let list = if is_plain { ptr::null() } else { data.as_ptr() };
    let (from, to, count) = (from.as_ptr(), to.as_ptr(), data.len());
    let newest = match change {
        // SAFETY: the caller's promise; no data: usual edges.
        Change::Add => unsafe { calls.cuGraphAddDependencies_v2(graph, from, to, list, count) },
        // SAFETY: as above.
        Change::Remove => unsafe {
            calls.cuGraphRemoveDependencies_v2(graph, from, to, list, count)
        },
    };
    match newest {
        // Before 12.3 there are usual edges alone.
        Err(failure) if is_plain && failure.status == CUresult::MISSING => match change {
            // SAFETY: the caller's promise.
            Change::Add => unsafe { calls.cuGraphAddDependencies(graph, from, to, count) },
            // SAFETY: the caller's promise.
            Change::Remove => unsafe { calls.cuGraphRemoveDependencies(graph, from, to, count) },
        },
        answer => answer,
    }
}
