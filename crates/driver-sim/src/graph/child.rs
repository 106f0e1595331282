//! Graphs inside of nodes: copied into them, or handed over to them.
//!
//! A graph that holds a conditional node can be neither copied nor handed over (measured); one that holds memory nodes
//! can be handed over (documented). A graph as its own child crashes the driver (measured).

use cuhold_driver_sys::ffi::*;

use super::{Deed, Graph, Inside, NodeKind, Params, Task, node};
use crate::{
    audit::ViolationKind,
    world::{Answer, In, Key, Out, Turn},
};

type Ownership = CUgraphChildGraphNodeOwnership;

impl Turn<'_> {
    /// A node with a graph inside. The graph is owned by it once it is there.
    pub(super) fn child(
        &mut self,
        graph: Key<Graph>,
        child: CUgraph,
        ownership: Ownership,
    ) -> Result<Task, CUresult> {
        let child = self.graph(child)?;
        self.not_inside_of(graph, child)?;
        self.not_poisoned(child)?;
        let moved = match ownership {
            Ownership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE => false,
            Ownership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE => true,
            _ => return Err(CUresult::INVALID_VALUE),
        };
        let inner = if moved { self.may_be_moved(child)? } else { self.copy_graph(child)? };
        Ok(Task::new(NodeKind::Child, Params::Child { moved }, Deed::Child(inner)))
    }

    fn not_inside_of(&mut self, graph: Key<Graph>, child: Key<Graph>) -> Answer {
        let mut at = Some(graph);
        while let Some(outer) = at {
            if outer == child {
                self.violate(ViolationKind::Crash, None, "a graph would be inside of itself");
                return Err(CUresult::INVALID_VALUE);
            }
            at = self.outside(outer);
        }
        Ok(())
    }

    fn may_be_moved(&mut self, child: Key<Graph>) -> Result<Key<Graph>, CUresult> {
        let data = self.graph_data(child)?;
        if data.owner.is_some() {
            // Measured.
            return Err(CUresult::NOT_SUPPORTED);
        }
        if data.execs > 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        self.not_being_captured(child)?;
        if self.state.has_inside(child, |kind| kind == NodeKind::Conditional) {
            return Err(CUresult::NOT_SUPPORTED);
        }
        Ok(child)
    }
}

pub(super) const fn inside(task: &Task) -> Inside {
    match task.params {
        Params::Child { moved: true } => Inside::Moved,
        Params::Conditional(_) => Inside::Body,
        _ => Inside::Copied,
    }
}

pub(crate) fn add_child(
    turn: &mut Turn<'_>,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    child: CUgraph,
) -> Answer {
    let clone = Ownership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
    let place = node::Place { graph, dependencies, data: In::null(), count };
    node::add(turn, out, place, |turn, graph| turn.child(graph, child, clone)).map(|_task| ())
}

/// The graph inside: the node's own, in which changes show.
pub(crate) fn child_graph(turn: &mut Turn<'_>, node: CUgraphNode, out: Out<CUgraph>) -> Answer {
    let out = out.required()?;
    let key = turn.node(node)?;
    let task = &turn.node_data(key)?.task;
    match task.deed {
        Deed::Child(graph) => out.write(CUgraph::from_addr(graph.raw())),
        _ => return Err(CUresult::INVALID_VALUE),
    }
    Ok(())
}
