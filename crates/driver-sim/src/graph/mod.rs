//! Graphs: made, filled by a capture, ended; and executables of them, in `exec.rs`.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

mod build;
mod exec;
mod memory;
mod user_object;

use std::collections::BTreeMap;

use cuhold_driver_sys::ffi::*;

pub(crate) use build::{add_empty_node, clone, root_nodes};
pub(crate) use exec::{
    Deed, GraphExec, exec_destroy, exec_flags, instantiate, instantiate_with_params, launch, upload,
};
pub(crate) use memory::{device_memory, device_set_memory, device_trim};
pub(crate) use user_object::{
    UserObject, graph_release, graph_retain, user_object_create, user_object_release,
    user_object_retain,
};

use crate::{
    audit::CallSite,
    capture::CaptureId,
    world::{Answer, Ending, Key, Out, State, Turn},
};

/// A graph.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Key<GraphNode>>,
    /// The capture that fills it now.
    pub(crate) capture: Option<CaptureId>,
    /// The references to user objects that it holds.
    pub(crate) users: BTreeMap<usize, u64>,
}

/// A node of a graph.
#[derive(Debug)]
pub(crate) struct GraphNode {
    pub(crate) graph: Key<Graph>,
    pub(crate) kind: NodeKind,
    /// What it does at each launch.
    pub(crate) deed: Deed,
    pub(crate) after: Vec<Key<Self>>,
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NodeKind {
    Kernel,
    Memcpy,
    Memset,
    Host,
    Empty,
    EventWait,
    EventRecord,
    MemAlloc,
    MemFree,
    BatchMemOp,
    SemaphoreSignal,
    SemaphoreWait,
}

impl NodeKind {
    fn as_c(self) -> CUgraphNodeType {
        match self {
            Self::Kernel => CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL,
            Self::Memcpy => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY,
            Self::Memset => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET,
            Self::Host => CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST,
            Self::Empty => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY,
            Self::EventWait => CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT,
            Self::EventRecord => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD,
            Self::MemAlloc => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
            Self::MemFree => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE,
            Self::BatchMemOp => CUgraphNodeType::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
            Self::SemaphoreSignal => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
            Self::SemaphoreWait => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
        }
    }
}

impl State {
    /// Appends a node to a graph.
    pub(crate) fn add_node(
        &mut self,
        graph: Key<Graph>,
        kind: NodeKind,
        deed: Deed,
        after: Vec<Key<GraphNode>>,
        by: CallSite,
    ) -> Option<Key<GraphNode>> {
        self.graphs.get(graph)?;
        let node = self.nodes.insert(by, GraphNode { graph, kind, deed, after });
        self.graphs.get_mut(graph)?.nodes.push(node);
        Some(node)
    }

    /// Ends a graph and its nodes. The references to user objects that it held are given back before the call returns.
    pub(crate) fn end_graph(&mut self, graph: Key<Graph>, by: CallSite) {
        let Some(ended) = self.graphs.remove(graph, by, Ending::Destroyed) else { return };
        self.end_graph_in_memory(graph, by);
        for node in ended.nodes {
            self.nodes.remove(node, by, Ending::Destroyed);
        }
        self.user_references.extend(ended.users);
    }
}

impl Turn<'_> {
    /// The live graph with this handle.
    pub(crate) fn graph(&mut self, raw: CUgraph) -> Result<Key<Graph>, CUresult> {
        self.find(|state| &state.graphs, raw.addr(), CUresult::INVALID_VALUE)
    }
}

pub(crate) fn create(turn: &mut Turn<'_>, out: Out<CUgraph>, flags: c_uint) -> Answer {
    let out = out.required()?;
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let site = turn.site;
    out.write(CUgraph::from_addr(turn.state.graphs.insert(site, Graph::default()).raw()));
    Ok(())
}

/// Ends a graph; destructors of user objects that it held last run before this returns, on the caller's thread.
/// Refused with `ILLEGAL_STATE` while a capture fills it (measured).
pub(crate) fn destroy(turn: &mut Turn<'_>, graph: CUgraph) -> Answer {
    let key = turn.graph(graph)?;
    if turn.state.graphs.get(key).is_some_and(|graph| graph.capture.is_some()) {
        return Err(CUresult::ILLEGAL_STATE);
    }
    let site = turn.site;
    turn.state.end_graph(key, site);
    Ok(())
}

/// The nodes, in the order in which they were added; with a null array only their number.
pub(crate) fn nodes(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    let count = count.required()?;
    let key = turn.graph(graph)?;
    let graph = turn.state.graphs.get(key).ok_or(CUresult::INVALID_VALUE)?;
    let all: Vec<_> = graph.nodes.iter().map(|node| CUgraphNode::from_addr(node.raw())).collect();
    write_list(nodes, count, &all);
    Ok(())
}

/// Writes as many as the caller has room for, null into the rest, and the number; with a null array the whole number.
#[expect(unsafe_code, reason = "writes into an array of the caller")]
fn write_list(nodes: Out<CUgraphNode>, count: Out<usize>, all: &[CUgraphNode]) {
    if nodes.is_null() {
        count.write(all.len());
        return;
    }
    let room = count.read().unwrap_or(0);
    let mut padded: Vec<_> = all.iter().copied().take(room).collect();
    let written = padded.len();
    padded.resize(room, CUgraphNode::NULL);
    // SAFETY: `count` says how many places the caller's array has, and `padded` is as long.
    unsafe { nodes.write_all(&padded) };
    count.write(written);
}

pub(crate) fn node_type(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    kind: Out<CUgraphNodeType>,
) -> Answer {
    let kind = kind.required()?;
    let key = turn.find(|state| &state.nodes, node.addr(), CUresult::INVALID_VALUE)?;
    let node = turn.state.nodes.get(key).ok_or(CUresult::INVALID_VALUE)?;
    kind.write(node.kind.as_c());
    Ok(())
}
