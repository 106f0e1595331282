//! Graphs that a capture has filled: their nodes are read back from the driver.

use super::{ConditionalKind, Graph, Inner, Inside, Kinds};
use crate::keep::Operands;
use cuhold_handles::{self as handles, Result, driver_sys::ffi::*};

/// A conditional node that a builder has put into a capture.
#[derive(Clone, Debug)]
pub(crate) struct CapturedConditional {
    pub(crate) node: CUgraphNode,
    pub(crate) handle: CUgraphConditionalHandle,
    pub(crate) kind: ConditionalKind,
    pub(crate) bodies: Vec<CUgraph>,
}

impl Graph {
    /// Takes over a graph that a capture has filled, of this number, with what that keeps.
    ///
    /// Calls `cuGraphGetNodes`, `cuGraphNodeGetType` and `cuGraphGetEdges`, for the graph and for each conditional body;
    /// `cuGraphDestroy` where that failed.
    pub(crate) fn captured(
        raw: handles::Graph,
        id: u64,
        operands: Operands,
        conditionals: &[CapturedConditional],
    ) -> Result<Self> {
        let inner = Box::new(Inner::new(id, raw.as_raw())?);
        let root = inner.root;
        let mut graph = Self { raw, inner };
        let read = graph
            .read_into(root, Kinds::default())
            .and_then(|()| conditionals.iter().try_for_each(|of| graph.know_bodies(of)));
        graph.inner.operands = operands;
        match read {
            Ok(()) => Ok(graph),
            Err(error) => {
                let Self { raw, inner: _inner } = graph;
                Err(match raw.close() {
                    Ok(_) => error,
                    Err(refused) => error.with_undo(&refused.error),
                })
            }
        }
    }

    /// Takes up the bodies of a conditional node. One inside of another's body comes behind that.
    fn know_bodies(&mut self, of: &CapturedConditional) -> Result<()> {
        let found = self.inner.nodes.iter().find(|(_, entry)| entry.raw == of.node);
        let Some(node) = found.map(|(node, _)| node) else { return Ok(()) };
        self.inner.levels.reserve(of.bodies.len())?;
        let mut bodies = Vec::with_capacity(of.bodies.len());
        for raw in &of.bodies {
            let level = self.inner.level_inside(node, *raw)?;
            let body = self.inner.levels.insert(level);
            self.read_into(body, Kinds::default())?;
            bodies.push(body);
        }
        let detail = self.inner.nodes.get_mut(node)?.detail_mut();
        detail.inside = Inside::Bodies { kind: of.kind, bodies: bodies.into_boxed_slice() };
        self.inner.conditions.push((of.handle, Some(node)));
        Ok(())
    }

    /// A copy of the graph is about to be made: what it keeps by now stays as long as that.
    pub(crate) fn about_to_be_copied(&mut self) {
        self.inner.operands.copied();
    }
}
