//! What the driver says that there is: nodes, their kinds, their edges.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Entry, Graph, Inner, Inside, Kinds, Level, NodeKind};
use crate::{
    node::{Body, Keyed as _, Node},
    order::Ports,
};
use cuhold_handles::{
    self as handles, Error, Refused, Result,
    driver_sys::{Calls, Failure, ffi::*},
};
use std::{collections::BTreeMap, ptr};

/// An edge as the driver tells it.
type RawEdge = (CUgraphNode, CUgraphNode, Ports);

/// A graph as the driver tells it.
struct Told {
    nodes: Vec<(CUgraphNode, NodeKind)>,
    edges: Vec<RawEdge>,
}

impl Graph {
    /// Takes over a graph that was made by other means, with the nodes that it has by now. What those use isn't kept.
    ///
    /// Calls `cuGraphGetNodes`, `cuGraphNodeGetType` and `cuGraphGetEdges`.
    ///
    /// # Errors
    /// The calls' failures. The graph comes back.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{Graph, handles};
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let raw = handles::Graph::new(device.context())?;
    /// let graph = Graph::adopt(raw)?;
    /// assert!(graph.is_empty());
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    pub fn adopt(raw: handles::Graph) -> Result<Self, Refused<handles::Graph>> {
        let id = raw.driver().next_id();
        let inner = match Inner::new(id, raw.as_raw()) {
            Ok(inner) => Box::new(inner),
            Err(error) => return Err(Refused::new(error, raw)),
        };
        let root = inner.root;
        let mut graph = Self { raw, inner };
        match graph.read_into(root, Kinds::default()) {
            Ok(()) => Ok(graph),
            Err(error) => Err(Refused::new(error, graph.raw)),
        }
    }

    /// A graph inside of a node, in which nodes can be added: of a conditional node the body of this number, from 0 on; of a
    /// child node, which has one, the node's own copy of the graph.
    ///
    /// Calls nothing for the bodies of a conditional node; for a child node, the first time, `cuGraphChildGraphNodeGetGraph`,
    /// `cuGraphGetNodes`, `cuGraphNodeGetType` and `cuGraphGetEdges`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; one that has no such body; a conditional node of an
    /// [adopted](Self::adopt) graph, whose bodies aren't known; the calls' failures.
    #[doc(alias = "cuGraphChildGraphNodeGetGraph")]
    pub fn body(&mut self, node: Node, nth: usize) -> Result<Body> {
        let entry = self.inner.usable(node)?;
        let (raw, kind) = (entry.raw, entry.kind);
        let bodies = match (kind, entry.inside()) {
            (_, Inside::Bodies { bodies, .. }) => bodies,
            (_, Inside::Child { read: Some(body), .. }) => std::slice::from_ref(body),
            (NodeKind::Child, inside) => {
                let kinds = match inside {
                    Inside::Child { kinds, .. } => *kinds,
                    _ => Kinds::default(),
                };
                let child = self.child_of(raw)?;
                let body = self.read_inside(node, child, kinds)?;
                let detail = self.inner.nodes.get_mut(node)?.detail_mut();
                detail.inside = Inside::Child { read: Some(body), kinds };
                return self.body(node, nth);
            }
            (NodeKind::Conditional, _) => {
                return Err(Error::state(format!(
                    "{node:?}: its bodies aren't known, since it was added by other means"
                )));
            }
            _ => &[],
        };
        bodies.get(nth).copied().ok_or_else(|| {
            Error::argument(format!(
                "nth: {node:?}, of kind {kind}, has {} graphs inside, of which there is no number {nth}",
                bodies.len()
            ))
        })
    }

    fn child_of(&self, node: CUgraphNode) -> Result<CUgraph> {
        let (driver, mut child) = (self.driver(), CUgraph::NULL);
        // SAFETY: *pointers*: a live local; *handles*: a live node.
        unsafe { driver.callable()?.cuGraphChildGraphNodeGetGraph(node, &raw mut child) }
            .map_err(|failure| driver.error(failure))?;
        Ok(child)
    }

    /// Takes up a graph inside of a node, with what it has.
    fn read_inside(&mut self, node: Node, raw: CUgraph, kinds: Kinds) -> Result<Body> {
        let level = self.inner.level_inside(node, raw)?;
        self.inner.levels.reserve(1)?;
        let body = self.inner.levels.insert(level);
        match self.read_into(body, kinds) {
            Ok(()) => Ok(body),
            Err(error) => {
                self.inner.levels.remove(body)?;
                Err(error)
            }
        }
    }

    /// Reads the nodes and edges of a graph of these, of which none is known yet.
    pub(super) fn read_into(&mut self, level: Body, kinds: Kinds) -> Result<()> {
        let told = self.tell(self.inner.levels.get(level)?.raw)?;
        let inner = &mut *self.inner;
        inner.nodes.reserve(told.nodes.len())?;
        inner.order.reserve(told.nodes.len(), told.edges.len())?;
        let mut places = BTreeMap::new();
        for (raw, kind) in &told.nodes {
            let mut entry = Entry::new(*raw, *kind, level);
            if *kind == NodeKind::Child {
                entry.detail_mut().inside = Inside::Child { read: None, kinds };
            }
            let place = inner.nodes.insert(entry).key().index();
            inner.order.add_node(place);
            places.insert(raw.addr(), place);
        }
        inner.link(&told.edges, &places)
    }

    fn tell(&self, graph: CUgraph) -> Result<Told> {
        let driver = self.driver();
        let mut nodes = Vec::new();
        for node in self.raw_nodes(graph)? {
            let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            // SAFETY: *pointers*: a live local; *handles*: a node that the driver told just now.
            unsafe { driver.callable()?.cuGraphNodeGetType(node, &raw mut kind) }
                .map_err(|failure| driver.error(failure))?;
            nodes.push((node, NodeKind::of(kind)));
        }
        Ok(Told { nodes, edges: self.raw_edges(graph)? })
    }

    /// The nodes of a graph, as the driver tells them.
    pub(super) fn raw_nodes(&self, graph: CUgraph) -> Result<Vec<CUgraphNode>> {
        let (driver, mut count) = (self.driver(), 0);
        let ask = |nodes: *mut CUgraphNode, count: &mut usize| {
            // SAFETY: *pointers*: null, or as many places as are said; *handles*: this value's graph, or one inside of it.
            unsafe { driver.callable()?.cuGraphGetNodes(graph, nodes, count) }
                .map_err(|failure| driver.error(failure))
        };
        ask(ptr::null_mut(), &mut count)?;
        let mut nodes = vec![CUgraphNode::NULL; count];
        if count > 0 {
            ask(nodes.as_mut_ptr(), &mut count)?;
        }
        nodes.truncate(count);
        Ok(nodes)
    }

    /// The edges of a graph, as the driver tells them.
    pub(super) fn raw_edges(&self, graph: CUgraph) -> Result<Vec<RawEdge>> {
        let (driver, mut count) = (self.driver(), 0);
        let none = ptr::null_mut();
        // SAFETY: *pointers*: nowhere, and a live local; *handles*: this value's graph, or one inside of it.
        unsafe { get_edges(driver.callable()?, graph, (none, none, ptr::null_mut()), &mut count) }
            .map_err(|failure| driver.error(failure))?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let (mut from, mut to) = (vec![CUgraphNode::NULL; count], vec![CUgraphNode::NULL; count]);
        let mut data = vec![CUgraphEdgeData::default(); count];
        let lists = (from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr());
        // SAFETY: *pointers*: as many places as are said; *handles*: as above.
        unsafe { get_edges(driver.callable()?, graph, lists, &mut count) }
            .map_err(|failure| driver.error(failure))?;
        let ports = data.iter().map(|data| Ports {
            from: data.from_port,
            to: data.to_port,
            kind: data.type_,
        });
        let edges = from.into_iter().zip(to).zip(ports).take(count);
        Ok(edges.map(|((from, to), ports)| (from, to, ports)).collect())
    }

    /// Asks the driver which edges there are, after a call that changes some failed.
    pub(super) fn edges_again(&mut self) -> Result<()> {
        self.inner.edges_are_doubtful = true;
        let levels: Vec<(Body, CUgraph)> =
            self.inner.levels.iter().map(|(body, level)| (body, level.raw)).collect();
        let mut edges = Vec::new();
        for (_, raw) in levels {
            edges.extend(self.raw_edges(raw)?);
        }
        let inner = &mut *self.inner;
        let places: BTreeMap<usize, usize> = inner
            .nodes
            .iter()
            .map(|(node, entry)| (entry.raw.addr(), node.key().index()))
            .collect();
        inner.order.reserve(0, edges.len())?;
        inner.order.clear_edges(places.values().copied());
        inner.link(&edges, &places)?;
        inner.edges_are_doubtful = false;
        Ok(())
    }
}

/// # Safety
/// The lists are null, or have as many places as `count` says; `graph` is live.
unsafe fn get_edges(
    calls: Calls<'_>,
    graph: CUgraph,
    (from, to, data): (*mut CUgraphNode, *mut CUgraphNode, *mut CUgraphEdgeData),
    count: &mut usize,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    match unsafe { calls.cuGraphGetEdges_v2(graph, from, to, data, count) } {
        // Before 12.3 there is nothing to be told about edges.
        Err(failure) if failure.status == CUresult::MISSING => {
            // SAFETY: the caller's promise.
            unsafe { calls.cuGraphGetEdges(graph, from, to, count) }
        }
        answer => answer,
    }
}

impl Inner {
    /// What a graph inside of this node is.
    pub(super) fn level_inside(&self, node: Node, raw: CUgraph) -> Result<Level> {
        let entry = self.nodes.get(node)?;
        let outer = self.levels.get(entry.level)?;
        Ok(Level {
            raw,
            is_in_body: outer.is_in_body || entry.kind == NodeKind::Conditional,
            is_in_child: outer.is_in_child || entry.kind == NodeKind::Child,
        })
    }

    /// Adds edges between known nodes.
    fn link(&mut self, edges: &[RawEdge], places: &BTreeMap<usize, usize>) -> Result<()> {
        for (from, to, ports) in edges {
            let (Some(from), Some(to)) = (places.get(&from.addr()), places.get(&to.addr())) else {
                continue;
            };
            if self.order.add_edge(*from, *to, *ports).is_err() {
                return Err(Error::state("the graph's edges form a cycle"));
            }
        }
        Ok(())
    }

    /// Refuses to tell edges that aren't known.
    pub(crate) fn edges_are_known(&self) -> Result<()> {
        if self.edges_are_doubtful {
            return Err(Error::state(
                "which edges there are isn't known: a change of some failed, and so did asking the driver",
            ));
        }
        Ok(())
    }
}
