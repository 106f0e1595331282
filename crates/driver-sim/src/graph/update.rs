//! Executables changed: as a whole after another graph, node by node, and nodes left out.
//!
//! Launches under way go on as they began. A whole update pairs the nodes of the two graphs in the order in which they
//! were added. A failed one changes nothing, and says what it was:
//!
//! | the other graph | result |
//! |---|---|
//! | has another number of nodes | topology changed, no node (measured) |
//! | has a node of another kind | node type changed, that node |
//! | has a node behind others | topology changed, no node (measured) |
//! | has a kernel of another context | unsupported function change, that node |
//! | differs in what can't be changed | parameters changed, that node |
//! | can't be made executable | error |

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{
    Deed, Graph, GraphExec, GraphNode, NodeKind, Task,
    body::{Body, BodyNode},
    node::may_change,
    task::Fixed,
};
use crate::world::{Answer, Key, Out, Turn};

type Outcome = CUgraphExecUpdateResult;

/// Why an update isn't made, and at which node.
type Differs = (Outcome, CUgraphNode);

fn raw(node: &BodyNode) -> CUgraphNode {
    CUgraphNode::from_addr(node.key.raw())
}

/// Why `new` can't take the place of `old`, if it can't.
fn compare(old: &Body, new: &Body) -> Result<(), Differs> {
    if old.nodes.len() != new.nodes.len() {
        let changed = Outcome::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        return Err((changed, CUgraphNode::NULL));
    }
    for (old, new) in old.nodes.iter().zip(&new.nodes) {
        if old.kind != new.kind {
            return Err((Outcome::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, raw(new)));
        }
        let (mut before, mut after) = (old.after.clone(), new.after.clone());
        before.sort_unstable();
        after.sort_unstable();
        if before != after {
            let changed = Outcome::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
            return Err((changed, CUgraphNode::NULL));
        }
        if old.fixed != new.fixed {
            let outcome = match old.fixed {
                Fixed::Context(_) => {
                    Outcome::CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
                }
                _ => Outcome::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
            };
            return Err((outcome, raw(new)));
        }
        for (old, new) in old.deed.graphs().iter().zip(new.deed.graphs()) {
            compare(old, new)?;
        }
    }
    Ok(())
}

/// What `new` does, for the nodes that `old` names.
fn renamed(old: &Body, new: &Body) -> Body {
    let nodes = old.nodes.iter().zip(&new.nodes).map(|(old, new)| {
        let mut inner = old.deed.graphs().iter();
        let deed = new.deed.with(|body| Some(Arc::new(renamed(inner.next()?, body))));
        let deed = deed.unwrap_or_else(|| new.deed.clone());
        BodyNode { key: old.key, enabled: old.enabled, deed, ..new.clone() }
    });
    Body { nodes: nodes.collect(), order: new.order.clone(), users: new.users.clone() }
}

impl Turn<'_> {
    /// Puts another body into an executable, which holds what that one's graph holds from now on.
    fn replace_body(&mut self, exec: Key<GraphExec>, body: Body) {
        for (object, count) in body.all_users() {
            self.retain_user_object(object, count);
        }
        if let Some(exec) = self.state.execs.get_mut(exec) {
            let before = std::mem::replace(&mut exec.body, Arc::new(body));
            self.state.user_references.extend(before.all_users());
        }
    }

    /// Changes one node of an executable.
    pub(super) fn set_in_exec(
        &mut self,
        exec: CUgraphExec,
        node: CUgraphNode,
        make: impl FnOnce(&mut Self, Key<Graph>) -> Result<Task, CUresult>,
    ) -> Answer {
        let exec = self.exec(exec)?;
        let node = self.node(node)?;
        let graph = self.node_data(node)?.graph;
        let body = Arc::clone(&self.exec_data(exec)?.body);
        let mut place = None;
        body.visit(&mut |found| {
            if found.key == node {
                place = Some((found.kind, found.fixed));
            }
        });
        let (kind, fixed) = place.ok_or(CUresult::INVALID_VALUE)?;
        let task = make(self, graph)?;
        let stays = match (fixed, task.fixed) {
            (Fixed::Rows(_), _) | (_, Fixed::Rows(_)) => false,
            (old, new) => old == new,
        };
        if task.kind != kind || !stays {
            return Err(CUresult::INVALID_VALUE);
        }
        let deed = task.deed.with(|_| None).ok_or(CUresult::INVALID_VALUE)?;
        self.put(exec, &body, node, &deed);
        Ok(())
    }

    fn put(
        &mut self,
        exec: Key<GraphExec>,
        body: &Body,
        node: Key<GraphNode>,
        deed: &Deed<Arc<Body>>,
    ) {
        let mut body = body.clone();
        change(&mut body, node, &mut |found| found.deed = deed.clone());
        self.replace_body(exec, body);
    }

    /// Puts another graph into a child node of an executable.
    fn set_child_in_exec(
        &mut self,
        exec: CUgraphExec,
        node: CUgraphNode,
        child: CUgraph,
    ) -> Answer {
        let exec = self.exec(exec)?;
        let node = self.node(node)?;
        let child = self.graph(child)?;
        self.not_poisoned(child)?;
        let body = Arc::clone(&self.exec_data(exec)?.body);
        let mut there = None;
        body.visit(&mut |found| {
            if let (true, Deed::Child(inner)) = (found.key == node, &found.deed) {
                there = Some(Arc::clone(inner));
            }
        });
        let old = there.ok_or(CUresult::INVALID_VALUE)?;
        let new = self.state.body_of(child).map_err(|unfit| unfit.status)?;
        compare(&old, &new).map_err(|_differs| CUresult::GRAPH_EXEC_UPDATE_FAILURE)?;
        let deed = Deed::Child(Arc::new(renamed(&old, &new)));
        self.put(exec, &body, node, &deed);
        Ok(())
    }

    /// A node that can be left out: a kernel, a copy or a fill (documented).
    fn switchable(
        &mut self,
        exec: CUgraphExec,
        node: CUgraphNode,
    ) -> Result<(Key<GraphExec>, Key<GraphNode>, bool), CUresult> {
        let exec = self.exec(exec)?;
        let node = self.node(node)?;
        let mut place = None;
        self.exec_data(exec)?.body.visit(&mut |found| {
            if found.key == node {
                place = Some((found.kind, found.enabled));
            }
        });
        match place {
            Some((NodeKind::Kernel | NodeKind::Memcpy | NodeKind::Memset, enabled)) => {
                Ok((exec, node, enabled))
            }
            _ => Err(CUresult::INVALID_VALUE),
        }
    }
}

/// Changes the node of a body, or of one inside of it.
fn change(body: &mut Body, node: Key<GraphNode>, with: &mut impl FnMut(&mut BodyNode)) {
    for found in &mut body.nodes {
        if found.key == node {
            with(found);
            continue;
        }
        let inner = match &mut found.deed {
            Deed::Child(inner) => std::slice::from_mut(inner),
            Deed::Conditional { bodies, .. } => bodies.as_mut_slice(),
            _ => &mut [],
        };
        for inner in inner {
            change(Arc::make_mut(inner), node, with);
        }
    }
}

pub(crate) fn exec_update(
    turn: &mut Turn<'_>,
    exec: CUgraphExec,
    graph: CUgraph,
    info: Out<CUgraphExecUpdateResultInfo>,
) -> Answer {
    let exec = turn.exec(exec)?;
    let graph = turn.graph(graph)?;
    turn.not_poisoned(graph)?;
    if turn.graph_data(graph)?.owner.is_some() {
        return Err(CUresult::INVALID_VALUE);
    }
    let old = Arc::clone(&turn.exec_data(exec)?.body);
    let error = Outcome::CU_GRAPH_EXEC_UPDATE_ERROR;
    let made = turn.state.body_of(graph).and_then(|new| {
        let conditions = turn.state.conditions_in(graph, &new)?;
        Ok((new, conditions))
    });
    let fits = match &made {
        Ok((new, _)) => compare(&old, new),
        Err(unfit) => Err((error, unfit.node)),
    };
    let (result, node) =
        fits.err().unwrap_or((Outcome::CU_GRAPH_EXEC_UPDATE_SUCCESS, CUgraphNode::NULL));
    info.write(CUgraphExecUpdateResultInfo {
        result,
        errorNode: node,
        errorFromNode: CUgraphNode::NULL,
    });
    let (Ok((new, conditions)), Ok(())) = (made, fits) else {
        return Err(CUresult::GRAPH_EXEC_UPDATE_FAILURE);
    };
    turn.replace_body(exec, renamed(&old, &new));
    if let Some(exec) = turn.state.execs.get_mut(exec) {
        exec.conditions = conditions;
    }
    Ok(())
}

pub(crate) fn exec_set_child(
    turn: &mut Turn<'_>,
    exec: CUgraphExec,
    node: CUgraphNode,
    child: CUgraph,
) -> Answer {
    turn.set_child_in_exec(exec, node, child)
}

pub(crate) fn exec_set_node(
    turn: &mut Turn<'_>,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: Out<CUgraphNodeParams>,
) -> Answer {
    let given = params.read().ok_or(CUresult::INVALID_VALUE)?;
    if given.type_ == CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
        #[expect(unsafe_code, reason = "parameters of every kind share a union")]
        // SAFETY: the type says which view of the union was written; a handle is a word.
        let child = unsafe { given.__bindgen_anon_1.graph };
        return turn.set_child_in_exec(exec, node, child.graph);
    }
    let key = turn.node(node)?;
    let kind = turn.node_data(key)?.task.kind;
    if given.type_ != kind.as_c() {
        return Err(CUresult::INVALID_VALUE);
    }
    may_change(kind)?;
    turn.set_in_exec(exec, node, |turn, graph| turn.task_of(graph, &given))
}

pub(crate) fn set_node_enabled(
    turn: &mut Turn<'_>,
    exec: CUgraphExec,
    node: CUgraphNode,
    enabled: c_uint,
) -> Answer {
    let (exec, node, _) = turn.switchable(exec, node)?;
    if let Some(exec) = turn.state.execs.get_mut(exec) {
        change(Arc::make_mut(&mut exec.body), node, &mut |found| found.enabled = enabled != 0);
    }
    Ok(())
}

pub(crate) fn node_enabled(
    turn: &mut Turn<'_>,
    exec: CUgraphExec,
    node: CUgraphNode,
    enabled: Out<c_uint>,
) -> Answer {
    let enabled = enabled.required()?;
    let (_, _, is_enabled) = turn.switchable(exec, node)?;
    enabled.write(is_enabled.into());
    Ok(())
}
