//! Nodes added by hand, and copies of graphs.

use std::collections::BTreeMap;

use cuhold_driver_sys::ffi::*;

use super::{Deed, Graph, GraphNode, NodeKind, write_list};
use crate::world::{Answer, In, Key, Out, Turn};

impl Turn<'_> {
    /// The nodes in an array of the caller, all of this graph and none twice.
    #[expect(unsafe_code, reason = "reads an array of the caller")]
    pub(crate) fn nodes_of(
        &mut self,
        graph: Key<Graph>,
        nodes: In<CUgraphNode>,
        count: usize,
    ) -> Result<Vec<Key<GraphNode>>, CUresult> {
        // SAFETY: `count` is what the caller says that its array holds.
        let nodes = unsafe { nodes.read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
        let mut keys = Vec::with_capacity(nodes.len());
        for node in nodes {
            let key = self.find(|state| &state.nodes, node.addr(), CUresult::INVALID_VALUE)?;
            let elsewhere = self.state.nodes.get(key).is_none_or(|node| node.graph != graph);
            if elsewhere || keys.contains(&key) {
                return Err(CUresult::INVALID_VALUE);
            }
            keys.push(key);
        }
        Ok(keys)
    }
}

pub(crate) fn add_empty_node(
    turn: &mut Turn<'_>,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
) -> Answer {
    let out = out.required()?;
    let graph = turn.graph(graph)?;
    let after = turn.nodes_of(graph, dependencies, count)?;
    let site = turn.site;
    let node = turn.state.add_node(graph, NodeKind::Empty, Deed::NOTHING, after, site);
    out.write(CUgraphNode::from_addr(node.ok_or(CUresult::INVALID_VALUE)?.raw()));
    Ok(())
}

/// Copies a graph with its nodes; the copy holds what the graph holds. Memory nodes can't be copied (measured).
pub(crate) fn clone(turn: &mut Turn<'_>, out: Out<CUgraph>, original: CUgraph) -> Answer {
    let out = out.required()?;
    let original = turn.graph(original)?;
    let site = turn.site;
    let state = &mut *turn.state;
    let graph = state.graphs.get(original).ok_or(CUresult::INVALID_VALUE)?;
    let (nodes, users) = (graph.nodes.clone(), graph.users.clone());
    let kinds = nodes.iter().filter_map(|node| state.nodes.get(*node)).map(|node| node.kind);
    if kinds.into_iter().any(|kind| matches!(kind, NodeKind::MemAlloc | NodeKind::MemFree)) {
        return Err(CUresult::NOT_SUPPORTED);
    }
    let copy = state.graphs.insert(site, Graph { users: users.clone(), ..Graph::default() });
    let mut copies = BTreeMap::new();
    for node in nodes {
        let Some(data) = state.nodes.get(node) else { continue };
        let (kind, deed, after) = (data.kind, data.deed.clone(), &data.after);
        let after = after.iter().filter_map(|before| copies.get(&before.id()).copied()).collect();
        if let Some(made) = state.add_node(copy, kind, deed, after, site) {
            copies.insert(node.id(), made);
        }
    }
    for (object, count) in users {
        turn.retain_user_object(object, count);
    }
    out.write(CUgraph::from_addr(copy.raw()));
    Ok(())
}

/// The nodes that stand behind no other; with a null array only their number.
pub(crate) fn root_nodes(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    let count = count.required()?;
    let key = turn.graph(graph)?;
    let graph = turn.state.graphs.get(key).ok_or(CUresult::INVALID_VALUE)?;
    let is_root = |node: &&Key<GraphNode>| {
        turn.state.nodes.get(**node).is_some_and(|node| node.after.is_empty())
    };
    let roots = graph.nodes.iter().filter(is_root);
    let roots: Vec<_> = roots.map(|node| CUgraphNode::from_addr(node.raw())).collect();
    write_list(nodes, count, &roots);
    Ok(())
}
