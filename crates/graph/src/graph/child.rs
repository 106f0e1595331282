//! Nodes that run a whole graph.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, Inside, Kinds, NodeKind};
use crate::node::{After, Node, Place};
use cuhold_handles::{Error, Note, Refused, Result, driver_sys::ffi::*};

impl Graph {
    /// Adds a node that runs a copy of another graph, as that is now; what the copy uses is kept alive with this graph. The
    /// copy itself is the node's [`body`](Self::body).
    ///
    /// Calls `cuGraphAddChildGraphNode`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; a graph of another driver; for a place inside of a conditional body a
    /// graph of another context, or one with nodes that bodies can't hold; the call's failure, after which nothing was added:
    /// `NOT_SUPPORTED` for a graph that allocates or frees memory, or has conditional nodes.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut step = Graph::new(device.context())?;
    /// step.host(&[], || println!("step"))?;
    /// let mut graph = Graph::new(device.context())?;
    /// let first = graph.child(&[], &mut step)?;
    /// graph.child(first, &mut step)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddChildGraphNode")]
    pub fn child(&mut self, after: impl After, child: &mut Self) -> Result<Node> {
        let after = after.place();
        let kinds = self.check_child(&after, child)?;
        // Also where it fails: it may have been copied all the same.
        child.inner.operands.copied();
        let raw_child = child.as_raw();
        let added = self.add(NodeKind::Child, after, [], |calls, to, raw| {
            let (after, count) = (to.after.as_ptr(), to.after.len());
            // SAFETY: *pointers*: a live local, and live nodes of the number; *handles*: two graphs, which aren't the same:
            // both are borrowed mutably.
            unsafe { calls.cuGraphAddChildGraphNode(raw, to.graph, after, count, raw_child) }
        });
        self.added_child(added, kinds)
    }

    /// Adds a node that runs another graph, which is handed over: nothing is copied, and memory nodes may be in it. The graph
    /// itself is the node's [`body`](Self::body). CUDA 12.9.
    ///
    /// Calls `cuGraphAddNode` and `cuUserObjectRelease`.
    ///
    /// # Errors
    /// As [`child`](Self::child); `INVALID_VALUE` for a graph of which there are executables. The graph comes back.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut step = Graph::new(device.context())?;
    /// let inner = step.host(&[], || println!("step"))?;
    /// let mut graph = Graph::new(device.context())?;
    /// let node = graph.child_moved(&[], step)?;
    /// let body = graph.body(node, 0)?;
    /// assert_eq!(graph.nodes_in(body)?.len(), 1);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddNode")]
    pub fn child_moved(
        &mut self,
        after: impl After,
        child: Self,
    ) -> Result<Node, Refused<Box<Self>>> {
        let after = after.place();
        let kinds = match self.check_child(&after, &child) {
            Ok(kinds) => kinds,
            Err(error) => return Err(Refused::new(error, Box::new(child))),
        };
        let mut params = CUgraphNodeParams {
            type_: CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH,
            ..CUgraphNodeParams::default()
        };
        // Field by field: a whole struct would bring its padding along, and what means nothing has to be zero (measured).
        params.__bindgen_anon_1.graph.graph = child.as_raw();
        params.__bindgen_anon_1.graph.ownership =
            CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
        let added = self.add_node(NodeKind::Child, after, &mut params, []);
        match self.added_child(added, kinds) {
            Ok(node) => {
                let Self { raw, inner } = child;
                // The driver's graph is the node's now. Its own references to what it uses stay with it; this value's go.
                drop((raw.into_raw(), inner));
                Ok(node)
            }
            Err(error) => Err(Refused::new(error, Box::new(child))),
        }
    }

    /// What is inside of a graph that is to be a child.
    fn check_child(&self, after: &Place<'_>, child: &Self) -> Result<Kinds> {
        self.driver().check_same(child.driver(), "child")?;
        let kinds = child.inner.kinds();
        let level = match (*after, after.nodes().first()) {
            (Place::In(body), _) => body,
            (_, Some(node)) => self.inner.usable(*node)?.level,
            (_, None) => self.inner.root,
        };
        if !self.inner.levels.get(level)?.is_in_body {
            return Ok(kinds);
        }
        if let Some(kind) = kinds.outside_of_bodies() {
            return Err(Error::argument(format!(
                "child: it has a node of kind {kind}, which a conditional body can't hold: CUDA takes it, and then refuses to \
                 make the graph executable"
            )));
        }
        if self.context().as_raw() != child.context().as_raw() {
            return Err(Error::argument(
                "child: it is for another context, where all of a conditional body is for one",
            ));
        }
        Ok(kinds)
    }

    fn added_child(&mut self, added: Result<Node>, kinds: Kinds) -> Result<Node> {
        match added {
            Ok(node) => {
                let detail = self.inner.nodes.get_mut(node)?.detail_mut();
                detail.inside = Inside::Child { read: None, kinds };
                Ok(node)
            }
            Err(error) if error.is(CUresult::NOT_SUPPORTED) => {
                let Some(kind) = kinds.uncopied() else { return Err(error) };
                let why = format!("the child has a node of kind {kind}");
                Err(error.with_note(Note::Text(why.into())))
            }
            Err(error) => Err(error),
        }
    }
}
