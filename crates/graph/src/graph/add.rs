//! How a node is added or changed: prepare, call, commit.
//!
//! ```text
//!   where to, what may be there ──► room for it and for what it uses ──► the driver's call ──► stores that can't fail
//! ```

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Entry, Graph, Level, NodeKind};
use crate::{
    keep::{Attached, Operand},
    node::{After, Body, Keyed as _, Node, Place},
    order::Ports,
};
use cuhold_handles::{
    Context, Error, Result,
    driver_sys::{Calls, Failure, ffi::*, mutant},
    scope,
};
use std::ptr;

/// Where a call adds a node.
#[derive(Clone, Copy)]
pub(super) struct To<'a> {
    pub(super) graph: CUgraph,
    /// Behind these.
    pub(super) after: &'a [CUgraphNode],
    pub(super) context: &'a Context,
}

impl Graph {
    /// Adds a node that does nothing, for edges to meet in.
    ///
    /// Calls `cuGraphAddEmptyNode`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the call's failure, after which nothing was added.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let (a, b) = (graph.host(&[], || {})?, graph.host(&[], || {})?);
    /// let both = graph.empty(&[a, b])?;
    /// # assert_eq!(graph.predecessors(both)?, [a, b]);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddEmptyNode")]
    pub fn empty(&mut self, after: impl After) -> Result<Node> {
        self.add(NodeKind::Empty, after.place(), [], |calls, to, raw| {
            let (after, count) = (to.after.as_ptr(), to.after.len());
            // SAFETY: *pointers*: a live local, and live nodes of the number; *handles*: this value's graph.
            unsafe { calls.cuGraphAddEmptyNode(raw, to.graph, after, count) }
        })
    }

    /// Adds a node by a call, which is told where the new one's handle goes.
    pub(super) fn add<const N: usize>(
        &mut self,
        kind: NodeKind,
        after: Place<'_>,
        operands: [Operand; N],
        make: impl FnOnce(Calls<'_>, To<'_>, *mut CUgraphNode) -> Result<(), Failure>,
    ) -> Result<Node> {
        self.add_with(kind, after, N, |calls, to| {
            let mut raw = CUgraphNode::NULL;
            let made = make(calls, to, &raw mut raw);
            (made.map(|()| raw).map_err(|failure| to.context.driver().error(failure)), operands)
        })
    }

    /// Adds a node that only the call for every kind of node makes. What the driver chose is told in the parameters.
    pub(super) fn add_node<const N: usize>(
        &mut self,
        kind: NodeKind,
        after: Place<'_>,
        params: &mut CUgraphNodeParams,
        operands: [Operand; N],
    ) -> Result<Node> {
        self.add(kind, after, operands, |calls, to, raw| {
            let (after, count) = (to.after.as_ptr(), to.after.len());
            let params = ptr::from_mut(params);
            let none = ptr::null();
            // SAFETY: *pointers*: live locals, live nodes of the number, no data: usual edges; *handles*: this value's graph,
            // and what the parameters name.
            match unsafe { calls.cuGraphAddNode_v2(raw, to.graph, after, none, count, params) } {
                Err(failure) if failure.status == CUresult::MISSING => {
                    // SAFETY: as above.
                    unsafe { calls.cuGraphAddNode(raw, to.graph, after, count, params) }
                }
                answer => answer,
            }
        })
    }

    /// Adds a node that uses `count` values at most.
    pub(super) fn add_with<I: IntoIterator<Item = Operand>>(
        &mut self,
        kind: NodeKind,
        after: Place<'_>,
        count: usize,
        make: impl FnOnce(Calls<'_>, To<'_>) -> (Result<CUgraphNode>, I),
    ) -> Result<Node> {
        let (level, graph) = self.look_up(kind, &after)?;
        let Self { raw, inner } = self;
        inner.nodes.reserve(1)?;
        inner.order.reserve(1, after.nodes().len())?;
        let reserved = inner.operands.prepare(raw, count)?;
        let to = To { graph, after: &inner.scratch, context: raw.context() };
        let (made, operands) = make(raw.driver().callable()?, to);
        // Also where the call failed: a node that was added all the same could run with the graph.
        let may_be_there = made.as_ref().err().is_none_or(|error| error.call().is_some());
        let may_be_there =
            may_be_there && !made.as_ref().is_err_and(|error| error.is(CUresult::MISSING));
        let attached = match may_be_there {
            true => inner.operands.commit(reserved, operands),
            false => Attached::default(),
        };
        let entry = Entry { attached, ..Entry::new(made?, kind, level) };
        let node = inner.nodes.insert(entry);
        let place = node.key().index();
        inner.order.add_node(place);
        for before in after.nodes() {
            let linked = inner.order.add_edge(before.key().index(), place, Ports::default());
            debug_assert!(linked.is_ok(), "a new node is behind all others");
        }
        Ok(node)
    }

    /// Looks up where a node of this kind is to go: in which graph, behind which nodes (in `scratch`).
    fn look_up(&mut self, kind: NodeKind, after: &Place<'_>) -> Result<(Body, CUgraph)> {
        let inner = &mut *self.inner;
        let mut scratch = std::mem::take(&mut inner.scratch);
        scratch.clear();
        let mut level = match *after {
            Place::In(body) => body,
            Place::One(_) | Place::All(_) => inner.root,
        };
        for (nth, node) in after.nodes().iter().enumerate() {
            let entry = inner.usable(*node)?;
            if nth > 0 && entry.level != level {
                return Err(Error::argument(format!(
                    "after: {node:?} isn't in the same graph as those before it"
                )));
            }
            level = entry.level;
            scratch.push(entry.raw);
        }
        inner.scratch = scratch;
        let level_data = inner.levels.get(level)?;
        may_be_in(kind, level_data)?;
        Ok((level, level_data.raw))
    }

    /// Changes a node by a call in the graph's context, which most of these calls take where they are told none (documented);
    /// what the node used is let go of, what it uses now is kept.
    ///
    /// After a failure both are kept.
    pub(super) fn change<I: IntoIterator<Item = Operand>>(
        &mut self,
        node: Node,
        kind: NodeKind,
        (count, operands): (usize, I),
        change: impl FnOnce(Calls<'_>, CUgraphNode) -> Result<(), Failure>,
    ) -> Result<()> {
        self.change_with(node, kind, (count, operands), |raw, context| {
            scope::run(context.target(), |calls| change(calls, raw))
        })
    }

    /// The same by several calls.
    pub(super) fn change_with<I: IntoIterator<Item = Operand>>(
        &mut self,
        node: Node,
        kind: NodeKind,
        (count, operands): (usize, I),
        change: impl FnOnce(CUgraphNode, &Context) -> Result<()>,
    ) -> Result<()> {
        let Self { raw, inner } = self;
        let entry = inner.usable(node)?;
        let raw_node = entry.raw;
        if entry.kind != kind {
            return Err(Error::argument(format!(
                "node: {node:?} is of kind {}, not {kind}",
                entry.kind
            )));
        }
        let reserved = inner.operands.prepare(raw, count)?;
        let changed = change(raw_node, raw.context());
        if changed.as_ref().is_err_and(|error| error.call().is_none()) {
            return changed;
        }
        // Also where the call failed: the node may be changed all the same.
        let attached = inner.operands.commit(reserved, operands);
        changed?;
        let former = std::mem::replace(&mut inner.nodes.get_mut(node)?.attached, attached);
        inner.operands.release(former, raw.driver());
        Ok(())
    }
}

/// Refuses a node that a graph inside of a node can't hold.
fn may_be_in(kind: NodeKind, level: &Level) -> Result<()> {
    if level.is_in_body && !kind.belongs_in_body() && !mutant::is_out("graph-body") {
        return Err(Error::argument(format!(
            "after: a conditional body can't hold a node of kind {kind}: CUDA takes it, and then refuses to make the graph \
             executable"
        )));
    }
    if level.is_in_child && kind.is_memory() {
        return Err(Error::argument(
            "after: CUDA neither allocates nor frees memory inside of child graphs",
        ));
    }
    Ok(())
}
