//! Conditions: numbers that kernels set while a graph runs, and that conditional nodes look at.
//!
//! A condition belongs to the graph that it was made for, and lives as long as that or an executable of it. A node of
//! that graph, or of one inside of it, may use it, and no second one (measured); one that none uses keeps the graph from being made
//! executable (measured).
//!
//! What the number is at first, where nobody says it, isn't documented: 0 here.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU32, Ordering},
};

use cuhold_driver_sys::ffi::*;

use super::{
    Deed, Graph, Inside, NodeKind, Owner, Params, Task,
    params::{Bodies, conditional_to_c},
    task::Fixed,
};
use crate::{
    audit::{CallSite, ObjectKind, Violation, ViolationKind},
    world::{Absent, Answer, Key, Out, State, Turn},
};

type Kind = CUgraphConditionalNodeType;

/// A number that conditional nodes look at.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(super) handle: CUgraphConditionalHandle,
    graph: Key<Graph>,
    /// What each launch begins with, if it begins with anything.
    pub(super) default: Option<u32>,
    value: AtomicU32,
}

impl Condition {
    pub(super) fn value(&self) -> u32 {
        self.value.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, value: u32) {
        self.value.store(value, Ordering::Relaxed);
    }
}

/// All conditions by handle, those that are gone included.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Vec<Weak<Condition>>);

/// What a handle's value begins with, so that no address is taken for one.
const BASE: u64 = 0x5bc0 << 48;

impl Conditions {
    fn get(&self, handle: CUgraphConditionalHandle) -> Option<Arc<Condition>> {
        let number = handle.checked_sub(BASE)?.checked_sub(1)?;
        self.0.get(usize::try_from(number).ok()?)?.upgrade()
    }

    fn add(&mut self, graph: Key<Graph>, default: Option<u32>, value: u32) -> Arc<Condition> {
        let handle = BASE + self.0.len() as u64 + 1;
        let value = AtomicU32::new(value);
        let condition = Arc::new(Condition { handle, graph, default, value });
        self.0.push(Arc::downgrade(&condition));
        condition
    }
}

impl State {
    /// Sets a condition, as a kernel does. One that isn't there is a violation.
    pub(crate) fn set_condition(
        &mut self,
        handle: CUgraphConditionalHandle,
        value: u32,
        by: CallSite,
    ) {
        match self.conditions.get(handle) {
            Some(condition) => condition.set(value),
            None => self.violate(Violation {
                kind: ViolationKind::UnknownHandle,
                object: Some((ObjectKind::Condition, handle)),
                calls: vec![by],
                note: "in a kernel",
                operations: Vec::new(),
            }),
        }
    }
}

pub(crate) fn handle_create(
    turn: &mut Turn<'_>,
    out: Out<CUgraphConditionalHandle>,
    graph: CUgraph,
    context: CUcontext,
    default: c_uint,
    flags: c_uint,
) -> Answer {
    let out = out.required()?;
    let graph = turn.graph(graph)?;
    if flags & !CU_GRAPH_COND_ASSIGN_DEFAULT != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    // It is named, whatever is current (measured).
    turn.context(context)?;
    let assigned = (flags != 0).then_some(default);
    let condition = turn.state.conditions.add(graph, assigned, assigned.unwrap_or(0));
    out.write(condition.handle);
    if let Some(graph) = turn.state.graphs.get_mut(graph) {
        graph.conditions.push(condition);
    }
    Ok(())
}

impl Turn<'_> {
    /// A condition that a node of this graph may use.
    fn condition(
        &mut self,
        handle: CUgraphConditionalHandle,
        graph: Key<Graph>,
    ) -> Result<Arc<Condition>, CUresult> {
        let Some(condition) = self.state.conditions.get(handle) else {
            if handle != 0 {
                let site = self.site;
                let kind = ObjectKind::Condition;
                self.state.violate_absent(kind, handle, Absent::NeverGiven, site);
            }
            return Err(CUresult::INVALID_VALUE);
        };
        let mut at = Some(graph);
        while let Some(graph) = at.filter(|graph| *graph != condition.graph) {
            at = self.outside(graph);
        }
        let is_used = self.state.whole(condition.graph).into_iter().any(|graph| {
            let mut nodes = self.state.nodes_in(graph);
            nodes.any(|(_, node)| {
                matches!(&node.task.deed, Deed::Conditional { condition: used, .. } if used.handle == handle)
            })
        });
        at.filter(|_| !is_used).map(|_| condition).ok_or(CUresult::INVALID_VALUE)
    }

    /// The graph that a graph is inside of.
    pub(super) fn outside(&self, graph: Key<Graph>) -> Option<Key<Graph>> {
        let owner = self.state.graphs.get(graph)?.owner?;
        Some(self.state.nodes.get(owner.node)?.graph)
    }

    /// A conditional node with its bodies, which are owned by it once it is there.
    pub(super) fn conditional(
        &mut self,
        graph: Key<Graph>,
        params: CUDA_CONDITIONAL_NODE_PARAMS,
    ) -> Result<Task, CUresult> {
        let condition = self.condition(params.handle, graph)?;
        self.context_of_node(params.ctx)?;
        let fits = match params.type_ {
            Kind::CU_GRAPH_COND_TYPE_IF => (1..=2).contains(&params.size),
            Kind::CU_GRAPH_COND_TYPE_WHILE => params.size == 1,
            Kind::CU_GRAPH_COND_TYPE_SWITCH => params.size >= 1,
            _ => false,
        };
        if !fits {
            return Err(CUresult::INVALID_VALUE);
        }
        let site = self.site;
        let bodies: Vec<Key<Graph>> =
            (0..params.size).map(|_| self.state.graphs.insert(site, Graph::default())).collect();
        let graphs = bodies.iter().map(|key| CUgraph::from_addr(key.raw())).collect();
        let handles = &self.graph_data(condition.graph)?.conditions;
        let number = handles.iter().position(|other| other.handle == condition.handle);
        let fixed = Fixed::Condition(number.unwrap_or_default() as u64, bodies.len());
        let told = Params::Conditional(Arc::new(Bodies { params, graphs }));
        let deed = Deed::Conditional { condition, kind: params.type_, bodies };
        Ok(Task { fixed, ..Task::new(NodeKind::Conditional, told, deed) })
    }

    /// Says of the graphs inside of a node that they are its own.
    pub(super) fn own_graphs(&mut self, node: Key<super::GraphNode>, inside: Inside) {
        let graphs = self.state.nodes.get(node).map(|node| node.task.graphs());
        for graph in graphs.into_iter().flatten() {
            if let Some(graph) = self.state.graphs.get_mut(graph) {
                graph.owner = Some(Owner { node, inside });
            }
        }
    }
}

/// What the caller hears of a conditional node that it added.
pub(super) fn told(task: &Task) -> Option<CUDA_CONDITIONAL_NODE_PARAMS> {
    match &task.params {
        Params::Conditional(bodies) => Some(conditional_to_c(bodies)),
        _ => None,
    }
}
