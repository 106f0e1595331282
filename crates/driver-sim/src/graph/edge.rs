//! Which nodes stand behind which.
//!
//! All edges of one call are added, or none (measured; of removing them a choice). An edge between two nodes that have one
//! already, from a node to itself, or between graphs is refused (measured); what makes a cycle is accepted, and found when
//! the graph is made executable (measured).

#![expect(unsafe_code, reason = "reads and writes arrays of the caller")]

use std::collections::BTreeSet;

use cuhold_driver_sys::ffi::*;

use super::{Graph, GraphNode, NodeKind, write_list};
use crate::world::{Answer, In, Key, Out, State, Turn};

/// What a node stands behind, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) node: Key<GraphNode>,
    pub(crate) data: CUgraphEdgeData,
}

impl Edge {
    /// An edge like most: the one node is done before the other begins.
    pub(crate) const fn plain(node: Key<GraphNode>) -> Self {
        Self { node, data: NO_DATA }
    }

    pub(crate) fn has_data(&self) -> bool {
        self.data != NO_DATA
    }
}

const NO_DATA: CUgraphEdgeData =
    CUgraphEdgeData { from_port: 0, to_port: 0, type_: 0, reserved: [0; 5] };

fn raw(node: Key<GraphNode>) -> CUgraphNode {
    CUgraphNode::from_addr(node.raw())
}

impl Turn<'_> {
    /// The nodes in an array of the caller, all of this graph and none twice, with what another array says of the edges.
    pub(crate) fn nodes_of(
        &mut self,
        graph: Key<Graph>,
        nodes: In<CUgraphNode>,
        data: In<CUgraphEdgeData>,
        count: usize,
    ) -> Result<Vec<Edge>, CUresult> {
        let nodes = read_nodes(nodes, count)?;
        let data = read_data(data, count)?;
        let mut seen = BTreeSet::new();
        let mut edges = Vec::with_capacity(nodes.len());
        for (node, data) in nodes.into_iter().zip(data) {
            let (key, data) = (self.node_in(graph, node)?, data.unwrap_or(NO_DATA));
            if !seen.insert(key.id()) {
                return Err(CUresult::INVALID_VALUE);
            }
            self.data_fits(data, key, None)?;
            edges.push(Edge { node: key, data });
        }
        Ok(edges)
    }

    /// A node of this graph.
    fn node_in(&mut self, graph: Key<Graph>, raw: CUgraphNode) -> Result<Key<GraphNode>, CUresult> {
        let key = self.node(raw)?;
        if self.node_data(key)?.graph == graph { Ok(key) } else { Err(CUresult::INVALID_VALUE) }
    }

    /// Whether an edge may be like that: ports are a kernel's, and a programmatic edge leads from one to another.
    fn data_fits(
        &self,
        data: CUgraphEdgeData,
        from: Key<GraphNode>,
        to: Option<Key<GraphNode>>,
    ) -> Answer {
        if data == NO_DATA {
            return Ok(());
        }
        let is_kernel = |key: Key<GraphNode>| {
            self.state.nodes.get(key).is_some_and(|node| node.task.kind == NodeKind::Kernel)
        };
        let programmatic = CUgraphDependencyType::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.0;
        let fits = u32::from(data.from_port) <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER
            && data.to_port == 0
            && u32::from(data.type_) <= programmatic
            && data.reserved == [0; 5]
            && (data.from_port == 0 || is_kernel(from))
            && (u32::from(data.type_) != programmatic
                || (data.from_port != 0 && is_kernel(from) && to.is_none_or(is_kernel)));
        if fits { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
    }

    fn add_edge(
        &mut self,
        graph: Key<Graph>,
        edge: (CUgraphNode, CUgraphNode),
        data: Option<CUgraphEdgeData>,
    ) -> Answer {
        let data = data.unwrap_or(NO_DATA);
        let (from, to) = (self.node_in(graph, edge.0)?, self.node_in(graph, edge.1)?);
        self.data_fits(data, from, Some(to))?;
        let there = self.node_data(to)?.before.iter().any(|edge| edge.node == from);
        if there || from == to {
            return Err(CUresult::INVALID_VALUE);
        }
        if let Some(to) = self.state.nodes.get_mut(to) {
            to.before.push(Edge { node: from, data });
        }
        if let Some(from) = self.state.nodes.get_mut(from) {
            from.behind.push(to);
        }
        Ok(())
    }

    /// Without data the edge is removed whatever its own is (measured).
    fn remove_edge(
        &mut self,
        graph: Key<Graph>,
        edge: (CUgraphNode, CUgraphNode),
        data: Option<CUgraphEdgeData>,
    ) -> Answer {
        let (from, to) = (self.node_in(graph, edge.0)?, self.node_in(graph, edge.1)?);
        let before = &self.node_data(to)?.before;
        let is_meant = |edge: &Edge| edge.node == from && data.is_none_or(|data| edge.data == data);
        let at = before.iter().position(is_meant);
        let at = at.ok_or(CUresult::INVALID_VALUE)?;
        if let Some(to) = self.state.nodes.get_mut(to) {
            to.before.remove(at);
        }
        if let Some(from) = self.state.nodes.get_mut(from) {
            from.behind.retain(|node| *node != to);
        }
        Ok(())
    }
}

fn read_nodes(nodes: In<CUgraphNode>, count: usize) -> Result<Vec<CUgraphNode>, CUresult> {
    // SAFETY: `count` is what the caller says that its array holds.
    unsafe { nodes.read_all(count) }.ok_or(CUresult::INVALID_VALUE)
}

/// What an array says of edges; nothing if there is none.
fn read_data(
    data: In<CUgraphEdgeData>,
    count: usize,
) -> Result<Vec<Option<CUgraphEdgeData>>, CUresult> {
    if data.is_null() {
        return Ok(vec![None; count]);
    }
    // SAFETY: `count` is what the caller says that its array holds.
    let data = unsafe { data.read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    Ok(data.into_iter().map(Some).collect())
}

/// What one edge does to a graph.
type Change =
    fn(&mut Turn<'_>, Key<Graph>, (CUgraphNode, CUgraphNode), Option<CUgraphEdgeData>) -> Answer;

fn change(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    (from, to): (In<CUgraphNode>, In<CUgraphNode>),
    data: In<CUgraphEdgeData>,
    count: usize,
    change: Change,
) -> Answer {
    let graph = turn.graph(graph)?;
    let (from, to) = (read_nodes(from, count)?, read_nodes(to, count)?);
    let data = read_data(data, count)?;
    let was: Vec<_> = turn
        .state
        .nodes_in(graph)
        .map(|(key, node)| (key, node.before.clone(), node.behind.clone()))
        .collect();
    for (edge, data) in from.into_iter().zip(to).zip(data) {
        if let Err(status) = change(turn, graph, edge, data) {
            for (key, before, behind) in was {
                if let Some(node) = turn.state.nodes.get_mut(key) {
                    (node.before, node.behind) = (before, behind);
                }
            }
            return Err(status);
        }
    }
    Ok(())
}

pub(crate) fn add_dependencies(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    count: usize,
) -> Answer {
    add_dependencies_v2(turn, graph, from, to, In::null(), count)
}

pub(crate) fn add_dependencies_v2(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
) -> Answer {
    change(turn, graph, (from, to), data, count, |turn, graph, edge, data| {
        turn.add_edge(graph, edge, data)
    })
}

pub(crate) fn remove_dependencies(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    count: usize,
) -> Answer {
    remove_dependencies_v2(turn, graph, from, to, In::null(), count)
}

pub(crate) fn remove_dependencies_v2(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
) -> Answer {
    keeps_edges(turn, graph)?;
    change(turn, graph, (from, to), data, count, |turn, graph, edge, data| {
        turn.remove_edge(graph, edge, data)
    })
}

/// A graph with memory nodes loses no edge (documented; the status is that of removing its nodes).
fn keeps_edges(turn: &mut Turn<'_>, graph: CUgraph) -> Answer {
    let graph = turn.graph(graph)?;
    match turn.graph_data(graph)?.has_memory {
        true => Err(CUresult::NOT_SUPPORTED),
        false => Ok(()),
    }
}

type Listed = Vec<(Key<GraphNode>, Key<GraphNode>, CUgraphEdgeData)>;

impl State {
    /// The edges that begin at a node, in the order in which they were added.
    fn edges_from(&self, from: Key<GraphNode>) -> Listed {
        let behind = self.nodes.get(from).into_iter().flat_map(|node| &node.behind);
        let edges = behind.filter_map(|to| {
            let edge = self.nodes.get(*to)?.before.iter().find(|edge| edge.node == from)?;
            Some((from, *to, edge.data))
        });
        edges.collect()
    }
}

/// Where edges are written.
#[derive(Clone, Copy)]
struct Lists {
    from: Option<Out<CUgraphNode>>,
    to: Option<Out<CUgraphNode>>,
    data: Out<CUgraphEdgeData>,
    count: Out<usize>,
}

/// Writes edges, or their number. Without a place for them data may not be lost.
fn write_edges(lists: Lists, edges: &Listed) -> Answer {
    let Lists { from, to, data, count } = lists;
    let nowhere = |list: Option<Out<CUgraphNode>>| list.is_none_or(Out::is_null);
    if nowhere(from) && nowhere(to) {
        if !data.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        count.write(edges.len());
        return Ok(());
    }
    let both = from.is_none_or(|from| !from.is_null()) && to.is_none_or(|to| !to.is_null());
    if !both {
        return Err(CUresult::INVALID_VALUE);
    }
    let room = count.read().unwrap_or(0);
    if data.is_null() && edges.iter().take(room).any(|(_, _, data)| *data != NO_DATA) {
        return Err(CUresult::LOSSY_QUERY);
    }
    if !data.is_null() {
        let all: Vec<_> = edges.iter().map(|(_, _, data)| *data).collect();
        count.write(room);
        write_list(data, count, &all, NO_DATA);
    }
    if let Some(from) = from {
        let all: Vec<_> = edges.iter().map(|(from, _, _)| raw(*from)).collect();
        count.write(room);
        write_list(from, count, &all, CUgraphNode::NULL);
    }
    if let Some(to) = to {
        let all: Vec<_> = edges.iter().map(|(_, to, _)| raw(*to)).collect();
        count.write(room);
        write_list(to, count, &all, CUgraphNode::NULL);
    }
    Ok(())
}

pub(crate) fn edges(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    from: Out<CUgraphNode>,
    to: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    edges_v2(turn, graph, from, to, Out::null(), count)
}

/// The edges, by the nodes that they begin at, in the order in which those were added; of each in the order of the edges
/// (measured).
pub(crate) fn edges_v2(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    from: Out<CUgraphNode>,
    to: Out<CUgraphNode>,
    data: Out<CUgraphEdgeData>,
    count: Out<usize>,
) -> Answer {
    let count = count.required()?;
    let graph = turn.graph(graph)?;
    let nodes: Vec<_> = turn.state.nodes_in(graph).map(|(key, _)| key).collect();
    let all: Listed = nodes.into_iter().flat_map(|from| turn.state.edges_from(from)).collect();
    write_edges(Lists { from: Some(from), to: Some(to), data, count }, &all)
}

pub(crate) fn dependencies(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    dependencies_v2(turn, node, nodes, Out::null(), count)
}

pub(crate) fn dependencies_v2(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    nodes: Out<CUgraphNode>,
    data: Out<CUgraphEdgeData>,
    count: Out<usize>,
) -> Answer {
    let count = count.required()?;
    let to = turn.node(node)?;
    let before = &turn.node_data(to)?.before;
    let all: Listed = before.iter().map(|edge| (edge.node, to, edge.data)).collect();
    write_edges(Lists { from: Some(nodes), to: None, data, count }, &all)
}

pub(crate) fn dependents(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    dependents_v2(turn, node, nodes, Out::null(), count)
}

pub(crate) fn dependents_v2(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    nodes: Out<CUgraphNode>,
    data: Out<CUgraphEdgeData>,
    count: Out<usize>,
) -> Answer {
    let count = count.required()?;
    let from = turn.node(node)?;
    let all: Listed = turn.state.edges_from(from);
    write_edges(Lists { from: None, to: Some(nodes), data, count }, &all)
}
