//! Copies of graphs.
//!
//! Graphs with memory nodes or conditional nodes, at any depth, can't be copied (measured). The copy holds what the
//! graph holds, and so does each copy of a graph inside.

use std::collections::BTreeMap;

use cuhold_driver_sys::ffi::*;

use super::{Edge, Graph, GraphNode, Inside, NodeKind, Params, Task};
use crate::world::{Answer, Key, Out, Turn};

impl Turn<'_> {
    /// Copies a graph with its nodes, and what is inside of them.
    pub(super) fn copy_graph(&mut self, original: Key<Graph>) -> Result<Key<Graph>, CUresult> {
        let is_bound = |kind: NodeKind| kind.is_memory() || kind == NodeKind::Conditional;
        if self.state.has_inside(original, is_bound) {
            return Err(CUresult::NOT_SUPPORTED);
        }
        self.copy_free(original)
    }

    /// The same of a graph that was found to be without such nodes.
    fn copy_free(&mut self, original: Key<Graph>) -> Result<Key<Graph>, CUresult> {
        let site = self.site;
        let users = self.graph_data(original)?.users.clone();
        let copy =
            self.state.graphs.insert(site, Graph { users: users.clone(), ..Graph::default() });
        for (object, count) in users {
            self.retain_user_object(object, count);
        }
        let originals: Vec<_> = self
            .state
            .nodes_in(original)
            .map(|(key, node)| (key, node.task.clone(), node.before.clone()))
            .collect();
        let mut copies = BTreeMap::new();
        for (key, task, _) in &originals {
            let task = self.copy_task(task)?;
            let Some(made) = self.state.add_node(copy, task, Vec::new(), site) else { continue };
            self.own_graphs(made, Inside::Copied);
            copies.insert(key.id(), made);
        }
        for (key, _, before) in &originals {
            if let Some(to) = copies.get(&key.id()).copied() {
                self.copy_edges(to, before, &copies);
            }
        }
        if let Some(copy) = self.state.graphs.get_mut(copy) {
            copy.copies = copies;
        }
        Ok(copy)
    }

    fn copy_task(&mut self, task: &Task) -> Result<Task, CUresult> {
        let mut task = task.clone();
        if let super::Deed::Child(child) = task.deed {
            task.deed = super::Deed::Child(self.copy_free(child)?);
            task.params = Params::Child { moved: false };
        }
        Ok(task)
    }

    fn copy_edges(
        &mut self,
        to: Key<GraphNode>,
        before: &[Edge],
        copies: &BTreeMap<u64, Key<GraphNode>>,
    ) {
        for edge in before {
            let Some(from) = copies.get(&edge.node.id()).copied() else { continue };
            if let Some(to) = self.state.nodes.get_mut(to) {
                to.before.push(Edge { node: from, data: edge.data });
            }
            if let Some(from) = self.state.nodes.get_mut(from) {
                from.behind.push(to);
            }
        }
    }
}

pub(crate) fn clone(turn: &mut Turn<'_>, out: Out<CUgraph>, original: CUgraph) -> Answer {
    let out = out.required()?;
    let original = turn.graph(original)?;
    turn.not_poisoned(original)?;
    out.write(CUgraph::from_addr(turn.copy_graph(original)?.raw()));
    Ok(())
}

/// The node of a copy, or of the graph inside of a child node, that is a copy of this one.
pub(crate) fn find_in_clone(
    turn: &mut Turn<'_>,
    out: Out<CUgraphNode>,
    original: CUgraphNode,
    copy: CUgraph,
) -> Answer {
    let out = out.required()?;
    let original = turn.node(original)?;
    let copy = turn.graph(copy)?;
    let found = turn.graph_data(copy)?.copies.get(&original.id()).copied();
    let found = found.filter(|key| turn.state.nodes.get(*key).is_some());
    let found = found.ok_or(CUresult::INVALID_VALUE)?;
    out.write(CUgraphNode::from_addr(found.raw()));
    Ok(())
}
