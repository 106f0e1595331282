//! Graphs: made by hand or by a capture, copied, ended; and what is done at a launch of them.
//!
//! ```text
//!   node.rs, params.rs   nodes added and changed        edge.rs       what stands behind what
//!   copy.rs, child.rs    copies, graphs inside nodes    condition.rs  what conditional nodes look at
//!   body.rs ─► exec.rs ─► launch.rs    a graph as it was when it was made executable, and its launches
//!   update.rs            executables changed            memory.rs     memory that nodes allocate
//!   dot.rs               pictures                       user_object.rs
//! ```
//!
//! A graph inside a node (a child graph, the body of a conditional node) is a graph like any other, owned by the node
//! and ended with it.
//!
//! Source: CUDA Driver API 13.x, "Graph Management"; what was measured is said where it is done.

mod body;
mod child;
mod condition;
mod copy;
mod dot;
mod edge;
mod exec;
mod launch;
mod memory;
mod node;
mod params;
mod task;
mod update;
mod user_object;

use std::{collections::BTreeMap, sync::Arc};

use cuhold_driver_sys::ffi::*;

pub(crate) use self::{
    child::{add_child, child_graph},
    condition::{Condition, Conditions, handle_create},
    copy::{clone, find_in_clone},
    dot::print,
    edge::{
        Edge, add_dependencies, add_dependencies_v2, dependencies, dependencies_v2, dependents,
        dependents_v2, edges, edges_v2, remove_dependencies, remove_dependencies_v2,
    },
    exec::{
        GraphExec, exec_destroy, exec_flags, exec_id, instantiate, instantiate_with_flags,
        instantiate_with_params, upload,
    },
    launch::{Branch, launch},
    memory::{
        add_alloc, add_free, alloc_params, device_memory, device_set_memory, device_trim,
        free_params,
    },
    node::{
        add_batch, add_empty, add_host, add_kernel, add_memcpy, add_memset, add_node, add_node_v2,
        add_record, add_signal, add_wait, add_wait_semaphores, destroy_node, exec_set_batch,
        exec_set_host, exec_set_kernel, exec_set_memcpy, exec_set_memset, exec_set_record,
        exec_set_signal, exec_set_wait, exec_set_wait_semaphores, set_batch, set_event, set_host,
        set_kernel, set_memcpy, set_memset, set_params, set_signal, set_wait_event,
        set_wait_semaphores,
    },
    params::{
        Params, StoredCopy, batch_params, copy_attributes, host_params, kernel_params,
        memcpy_params, memset_params, node_attribute, node_params, record_event,
        set_node_attribute, signal_params, wait_event, wait_params,
    },
    task::{Deed, Task},
    update::{exec_set_child, exec_set_node, exec_update, node_enabled, set_node_enabled},
    user_object::{
        UserObject, graph_release, graph_retain, user_object_create, user_object_release,
        user_object_retain,
    },
};

use crate::{
    audit::{CallSite, Leak, ViolationKind},
    capture::CaptureId,
    world::{Answer, Ending, Key, Out, State, Turn},
};

/// A graph.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// By the number of the key, which is the order in which they were added.
    pub(crate) nodes: BTreeMap<u64, Key<GraphNode>>,
    /// The capture that fills it now.
    pub(crate) capture: Option<CaptureId>,
    /// The references to user objects that it holds.
    pub(crate) users: BTreeMap<usize, u64>,
    /// The node that it is inside of.
    owner: Option<Owner>,
    /// Of a copy: its nodes, by the number of the node that each is a copy of.
    copies: BTreeMap<u64, Key<GraphNode>>,
    /// The conditions that were made for it.
    conditions: Vec<Arc<Condition>>,
    /// How many executables of it live.
    execs: u32,
    /// Whether there ever was one.
    was_executable: bool,
    /// Whether a node of it allocates or frees memory: then none is taken out any more.
    has_memory: bool,
    /// How many nodes were ever added to it.
    added: c_uint,
}

/// The node that a graph is inside of.
#[derive(Clone, Copy, Debug)]
struct Owner {
    node: Key<GraphNode>,
    inside: Inside,
}

/// As what a graph is inside of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Inside {
    /// A child graph that was copied.
    Copied,
    /// A child graph that was handed over.
    Moved,
    /// A body of a conditional node.
    Body,
}

/// A node of a graph.
#[derive(Debug)]
pub(crate) struct GraphNode {
    pub(crate) graph: Key<Graph>,
    pub(crate) task: Task,
    /// The nodes that it stands behind.
    pub(crate) before: Vec<Edge>,
    /// The nodes that stand behind it.
    behind: Vec<Key<Self>>,
    /// Its number in its graph.
    local_id: c_uint,
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum NodeKind {
    Kernel,
    Memcpy,
    Memset,
    Host,
    Child,
    Empty,
    EventWait,
    EventRecord,
    MemAlloc,
    MemFree,
    BatchMemOp,
    SemaphoreSignal,
    SemaphoreWait,
    Conditional,
}

impl Graph {
    /// The node that it is inside of.
    pub(crate) fn owner_node(&self) -> Option<Key<GraphNode>> {
        self.owner.map(|owner| owner.node)
    }
}

impl NodeKind {
    const fn as_c(self) -> CUgraphNodeType {
        match self {
            Self::Kernel => CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL,
            Self::Memcpy => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY,
            Self::Memset => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET,
            Self::Host => CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST,
            Self::Child => CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH,
            Self::Empty => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY,
            Self::EventWait => CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT,
            Self::EventRecord => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD,
            Self::MemAlloc => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
            Self::MemFree => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE,
            Self::BatchMemOp => CUgraphNodeType::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
            Self::SemaphoreSignal => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
            Self::SemaphoreWait => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
            Self::Conditional => CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL,
        }
    }

    const fn is_memory(self) -> bool {
        matches!(self, Self::MemAlloc | Self::MemFree)
    }
}

impl State {
    /// Appends a node to a graph.
    pub(crate) fn add_node(
        &mut self,
        graph: Key<Graph>,
        task: Task,
        before: Vec<Edge>,
        by: CallSite,
    ) -> Option<Key<GraphNode>> {
        let data = self.graphs.get_mut(graph)?;
        let local_id = data.added;
        data.added = data.added.wrapping_add(1);
        data.has_memory |= task.kind.is_memory();
        let ahead: Vec<_> = before.iter().map(|edge| edge.node).collect();
        let node = GraphNode { graph, task, before, behind: Vec::new(), local_id };
        let node = self.nodes.insert(by, node);
        self.graphs.get_mut(graph)?.nodes.insert(node.id(), node);
        for first in ahead {
            if let Some(first) = self.nodes.get_mut(first) {
                first.behind.push(node);
            }
        }
        Some(node)
    }

    /// The graphs that live, as leaks, without those inside of nodes, which aren't the caller's to destroy.
    pub(crate) fn graph_leaks(&self) -> impl Iterator<Item = Leak> {
        self.graphs.leaks().filter(|leak| {
            let key = usize::try_from(leak.raw).ok().and_then(|raw| self.graphs.find(raw));
            key.and_then(|key| self.graphs.get(key)).is_some_and(|graph| graph.owner.is_none())
        })
    }

    /// The nodes of a graph, in the order in which they were added.
    fn nodes_in(&self, graph: Key<Graph>) -> impl Iterator<Item = (Key<GraphNode>, &GraphNode)> {
        let keys = self.graphs.get(graph).into_iter().flat_map(|graph| graph.nodes.values());
        keys.filter_map(|key| self.nodes.get(*key).map(|node| (*key, node)))
    }

    /// The graphs directly inside of nodes of a graph, with their nodes.
    fn graphs_in(&self, graph: Key<Graph>) -> Vec<Key<Graph>> {
        self.nodes_in(graph).flat_map(|(_, node)| node.task.graphs()).collect()
    }

    /// Whether a graph, or one inside of it, has a node that `which` picks.
    fn has_inside(&self, graph: Key<Graph>, which: fn(NodeKind) -> bool) -> bool {
        let mut open = vec![graph];
        while let Some(graph) = open.pop() {
            if self.nodes_in(graph).any(|(_, node)| which(node.task.kind)) {
                return true;
            }
            open.extend(self.graphs_in(graph));
        }
        false
    }

    /// A graph and all that are inside of it, those that are no longer there included.
    fn whole(&self, graph: Key<Graph>) -> Vec<Key<Graph>> {
        let mut all = vec![graph];
        let mut at = 0;
        while let Some(next) = all.get(at).copied() {
            all.extend(self.graphs_in(next));
            at += 1;
        }
        all
    }

    /// Ends a graph, its nodes and the graphs inside of them. The references to user objects that they held are given
    /// back before the call returns.
    pub(crate) fn end_graph(&mut self, graph: Key<Graph>, by: CallSite) {
        for graph in self.whole(graph) {
            let Some(ended) = self.graphs.remove(graph, by, Ending::Destroyed) else { continue };
            for node in ended.nodes.into_values() {
                self.nodes.remove(node, by, Ending::Destroyed);
            }
            self.user_references.extend(ended.users);
            self.memory.end_graph(graph, by);
        }
    }
}

impl Turn<'_> {
    /// The live graph with this handle.
    pub(crate) fn graph(&mut self, raw: CUgraph) -> Result<Key<Graph>, CUresult> {
        self.find(|state| &state.graphs, raw.addr(), CUresult::INVALID_VALUE)
    }

    fn graph_data(&self, key: Key<Graph>) -> Result<&Graph, CUresult> {
        self.state.graphs.get(key).ok_or(CUresult::INVALID_VALUE)
    }

    /// The live node with this handle.
    fn node(&mut self, raw: CUgraphNode) -> Result<Key<GraphNode>, CUresult> {
        self.find(|state| &state.nodes, raw.addr(), CUresult::INVALID_VALUE)
    }

    fn node_data(&self, key: Key<GraphNode>) -> Result<&GraphNode, CUresult> {
        self.state.nodes.get(key).ok_or(CUresult::INVALID_VALUE)
    }

    /// A graph inside of which the driver has freed a body whose capture was invalidated: following it crashes
    /// (measured).
    fn not_poisoned(&mut self, graph: Key<Graph>) -> Answer {
        let whole = self.state.whole(graph);
        if whole.iter().all(|graph| self.state.graphs.get(*graph).is_some()) {
            return Ok(());
        }
        self.violate(ViolationKind::Crash, None, "the graph of one of its nodes was freed");
        Err(CUresult::INVALID_VALUE)
    }

    /// `ILLEGAL_STATE` while a capture fills a graph, or one inside of it.
    fn not_being_captured(&self, graph: Key<Graph>) -> Answer {
        let is_filled = |key: &Key<Graph>| {
            self.state.graphs.get(*key).is_some_and(|graph| graph.capture.is_some())
        };
        match self.state.whole(graph).iter().any(is_filled) {
            true => Err(CUresult::ILLEGAL_STATE),
            false => Ok(()),
        }
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
/// Refused with `ILLEGAL_STATE` while a capture fills it, and for a graph inside of a node (measured).
pub(crate) fn destroy(turn: &mut Turn<'_>, graph: CUgraph) -> Answer {
    let key = turn.graph(graph)?;
    turn.not_being_captured(key)?;
    if turn.graph_data(key)?.owner.is_some() {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.not_poisoned(key)?;
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
    list(turn, graph, nodes, count, |_| true)
}

/// The nodes that stand behind no other; with a null array only their number.
pub(crate) fn root_nodes(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    list(turn, graph, nodes, count, |node| node.before.is_empty())
}

fn list(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
    which: fn(&GraphNode) -> bool,
) -> Answer {
    let count = count.required()?;
    let key = turn.graph(graph)?;
    let picked = turn.state.nodes_in(key).filter(|(_, node)| which(node));
    let all: Vec<_> = picked.map(|(key, _)| CUgraphNode::from_addr(key.raw())).collect();
    write_list(nodes, count, &all, CUgraphNode::NULL);
    Ok(())
}

/// Writes as many as the caller has room for, `none` into the rest, and the number; with a null array the whole number.
#[expect(unsafe_code, reason = "writes into an array of the caller")]
fn write_list<T: Copy>(list: Out<T>, count: Out<usize>, all: &[T], none: T) {
    if list.is_null() {
        count.write(all.len());
        return;
    }
    let room = count.read().unwrap_or(0);
    let mut padded: Vec<_> = all.iter().copied().take(room).collect();
    let written = padded.len();
    padded.resize(room, none);
    // SAFETY: `count` says how many places the caller's array has, and `padded` is as long.
    unsafe { list.write_all(&padded) };
    count.write(written);
}

pub(crate) fn node_type(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    kind: Out<CUgraphNodeType>,
) -> Answer {
    let kind = kind.required()?;
    let key = turn.node(node)?;
    kind.write(turn.node_data(key)?.task.kind.as_c());
    Ok(())
}

pub(crate) fn containing_graph(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    out: Out<CUgraph>,
) -> Answer {
    let out = out.required()?;
    let key = turn.node(node)?;
    out.write(CUgraph::from_addr(turn.node_data(key)?.graph.raw()));
    Ok(())
}

pub(crate) fn local_id(turn: &mut Turn<'_>, node: CUgraphNode, id: Out<c_uint>) -> Answer {
    let id = id.required()?;
    let key = turn.node(node)?;
    id.write(turn.node_data(key)?.local_id);
    Ok(())
}

/// Its graph's number, and its own in there (documented so far as that it is unique).
pub(crate) fn tools_id(turn: &mut Turn<'_>, node: CUgraphNode, id: Out<c_ulonglong>) -> Answer {
    let id = id.required()?;
    let key = turn.node(node)?;
    let data = turn.node_data(key)?;
    id.write((data.graph.id() << 32) | u64::from(data.local_id));
    Ok(())
}

pub(crate) fn graph_id(turn: &mut Turn<'_>, graph: CUgraph, id: Out<c_uint>) -> Answer {
    let id = id.required()?;
    id.write(number_of(turn.graph(graph)?.id()));
    Ok(())
}

/// The low bits of a number that is never used again.
fn number_of(id: u64) -> c_uint {
    c_uint::try_from(id & u64::from(c_uint::MAX)).unwrap_or_default()
}
