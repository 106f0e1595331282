//! A graph as it is made executable: its nodes in an order that its edges allow, or why there is none.
//!
//! | it has | answers | told as |
//! |---|---|---|
//! | a cycle | `INVALID_VALUE` | invalid structure, the node that closes it (measured) |
//! | a node in a conditional body that may not be there | `INVALID_VALUE` | operation not supported, that node |
//! | a condition that no node uses | `INVALID_VALUE` | condition unused |
//!
//! The statuses, and the last row's result, are measured; the other results and nodes are as documented.

use std::{collections::BTreeMap, sync::Arc};

use cuhold_driver_sys::ffi::*;

use super::{Condition, Deed, Graph, GraphNode, NodeKind, task::Fixed};
use crate::world::{Key, State};

type Outcome = CUgraphInstantiateResult;

/// A graph as it was when it was made executable.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    /// In the order in which they were added.
    pub(super) nodes: Vec<BodyNode>,
    /// The places of all nodes, each behind those that it stands behind.
    pub(super) order: Vec<usize>,
    /// The references to user objects that the graph held, without those of graphs inside.
    pub(super) users: BTreeMap<usize, u64>,
}

/// A node as it was.
#[derive(Clone, Debug)]
pub(crate) struct BodyNode {
    pub(super) key: Key<GraphNode>,
    pub(super) kind: NodeKind,
    pub(super) deed: Deed<Arc<Body>>,
    pub(super) fixed: Fixed,
    /// The places of the nodes that it stands behind.
    pub(super) after: Vec<usize>,
    /// How many nodes stand behind it.
    pub(super) behind: usize,
    pub(super) enabled: bool,
}

/// Why a graph isn't made executable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfit {
    pub(super) status: CUresult,
    pub(super) outcome: Outcome,
    pub(super) node: CUgraphNode,
}

impl From<CUresult> for Unfit {
    fn from(status: CUresult) -> Self {
        let outcome = Outcome::CUDA_GRAPH_INSTANTIATE_ERROR;
        Self { status, outcome, node: CUgraphNode::NULL }
    }
}

impl Unfit {
    fn at(outcome: Outcome, node: Key<GraphNode>) -> Self {
        let node = CUgraphNode::from_addr(node.raw());
        Self { status: CUresult::INVALID_VALUE, outcome, node }
    }
}

impl Body {
    /// All references to user objects, those of graphs inside included.
    pub(super) fn all_users(&self) -> BTreeMap<usize, u64> {
        let mut users = self.users.clone();
        for inner in self.nodes.iter().flat_map(|node| node.deed.graphs()) {
            for (object, count) in inner.all_users() {
                *users.entry(object).or_default() += count;
            }
        }
        users
    }

    /// Calls `each` with every node, those of graphs inside included.
    pub(super) fn visit(&self, each: &mut impl FnMut(&BodyNode)) {
        for node in &self.nodes {
            each(node);
            node.deed.graphs().iter().for_each(|inner| inner.visit(each));
        }
    }
}

impl State {
    /// A graph as it is now.
    pub(super) fn body_of(&self, graph: Key<Graph>) -> Result<Body, Unfit> {
        self.body(graph, false)
    }

    fn body(&self, graph: Key<Graph>, inside_body: bool) -> Result<Body, Unfit> {
        let mut places = BTreeMap::new();
        for (key, _) in self.nodes_in(graph) {
            places.insert(key.id(), places.len());
        }
        let mut nodes = Vec::with_capacity(places.len());
        for (key, node) in self.nodes_in(graph) {
            if inside_body && !belongs_in_body(node.task.kind) {
                let outcome = Outcome::CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
                return Err(Unfit::at(outcome, key));
            }
            let inside_body = inside_body || node.task.kind == NodeKind::Conditional;
            let mut refused = None;
            let deed = node.task.deed.with(|inner| match self.body(*inner, inside_body) {
                Ok(body) => Some(Arc::new(body)),
                Err(unfit) => {
                    refused = Some(unfit);
                    None
                }
            });
            let Some(deed) = deed else {
                return Err(refused.unwrap_or(CUresult::INVALID_VALUE.into()));
            };
            let before = node.before.iter();
            let after = before.filter_map(|edge| places.get(&edge.node.id()).copied()).collect();
            let (kind, fixed, behind) = (node.task.kind, node.task.fixed, node.behind.len());
            nodes.push(BodyNode { key, kind, deed, fixed, after, behind, enabled: true });
        }
        let order = order(&nodes)?;
        let users = self.graphs.get(graph).map(|graph| graph.users.clone()).unwrap_or_default();
        Ok(Body { nodes, order, users })
    }

    /// The conditions of a graph and of those inside of it; `Unfit` if one of them is used by no node.
    pub(super) fn conditions_in(
        &self,
        graph: Key<Graph>,
        body: &Body,
    ) -> Result<Vec<Arc<Condition>>, Unfit> {
        let graphs = self.whole(graph).into_iter().filter_map(|graph| self.graphs.get(graph));
        let all: Vec<_> = graphs.flat_map(|graph| graph.conditions.iter().cloned()).collect();
        let mut used = Vec::new();
        body.visit(&mut |node| {
            if let Deed::Conditional { condition, .. } = &node.deed {
                used.push(condition.handle);
            }
        });
        if all.iter().all(|condition| used.contains(&condition.handle)) {
            return Ok(all);
        }
        let outcome = Outcome::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
        let (status, node) = (CUresult::INVALID_VALUE, CUgraphNode::NULL);
        Err(Unfit { status, outcome, node })
    }
}

/// Whether a conditional body may hold such a node (documented; measured of those that it may not hold).
const fn belongs_in_body(kind: NodeKind) -> bool {
    matches!(
        kind,
        NodeKind::Kernel
            | NodeKind::Empty
            | NodeKind::Child
            | NodeKind::Memset
            | NodeKind::Memcpy
            | NodeKind::Conditional
    )
}

/// An order in which each node comes behind those that it stands behind.
fn order(nodes: &[BodyNode]) -> Result<Vec<usize>, Unfit> {
    let mut waiting: Vec<usize> = nodes.iter().map(|node| node.after.len()).collect();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (place, node) in nodes.iter().enumerate() {
        for before in &node.after {
            if let Some(list) = behind.get_mut(*before) {
                list.push(place);
            }
        }
    }
    let roots = waiting.iter().enumerate().filter(|(_, count)| **count == 0);
    let mut order: Vec<usize> = roots.map(|(place, _)| place).collect();
    let mut at = 0;
    while let Some(done) = order.get(at).copied() {
        at += 1;
        for next in behind.get(done).into_iter().flatten() {
            let Some(count) = waiting.get_mut(*next) else { continue };
            *count -= 1;
            if *count == 0 {
                order.push(*next);
            }
        }
    }
    if order.len() == nodes.len() {
        return Ok(order);
    }
    let closing = closing(&behind).and_then(|place| nodes.get(place));
    let structure = Outcome::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    Err(closing.map_or(CUresult::INVALID_VALUE.into(), |node| Unfit::at(structure, node.key)))
}

/// The node whose edge closes the first cycle that is found, from the first node on (measured of a cycle of two).
fn closing(behind: &[Vec<usize>]) -> Option<usize> {
    let mut done = vec![false; behind.len()];
    for root in 0..behind.len() {
        // The way here: each node, and how many of its edges were followed.
        let mut way = vec![(root, 0)];
        while let Some((at, followed)) = way.last_mut() {
            let (at, next) = (*at, behind.get(*at).and_then(|list| list.get(*followed)).copied());
            *followed += 1;
            match next {
                Some(next) if way.iter().any(|(node, _)| *node == next) => return Some(at),
                Some(next) if done.get(next) == Some(&false) => way.push((next, 0)),
                Some(_) => {}
                None => {
                    way.pop();
                    if let Some(done) = done.get_mut(at) {
                        *done = true;
                    }
                }
            }
        }
    }
    None
}
