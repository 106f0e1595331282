//! Edges: which node runs after which.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, Node};
use cuhold_handles::{
    Error, Note, Result,
    driver_sys::{Calls, Failure, ffi::*},
};
use std::{collections::BTreeSet, ptr};

impl Graph {
    /// Lets `to` run after `from`.
    ///
    /// Whether the edges then form a cycle is found where the graph is made executable.
    ///
    /// Calls `cuGraphAddDependencies`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; a node after itself; the call's failure: `INVALID_VALUE` for an edge
    /// that is there.
    #[doc(alias = "cuGraphAddDependencies")]
    pub fn add_edge(&mut self, from: Node, to: Node) -> Result<()> {
        self.add_edges(&[(from, to)])
    }

    /// Adds several edges in one call, each from its first node to its second.
    ///
    /// The driver doesn't undo those that it added before one that it refuses.
    ///
    /// Calls `cuGraphAddDependencies`.
    ///
    /// # Errors
    /// As [`add_edge`](Self::add_edge). After the call's failure some of the edges may be there, which the error says;
    /// [`successors`](Self::successors) tells which.
    #[doc(alias = "cuGraphAddDependencies")]
    pub fn add_edges(&mut self, edges: &[(Node, Node)]) -> Result<()> {
        self.with_edges(edges, |calls, graph, from, to, count| {
            // SAFETY: *pointers*: live nodes, as many of each as are said; no data: usual edges. *Handles*: this graph's.
            unsafe { calls.cuGraphAddDependencies_v2(graph, from, to, ptr::null(), count) }
        })
    }

    /// Lets `to` no longer run after `from`.
    ///
    /// Calls `cuGraphRemoveDependencies`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the call's failure: `INVALID_VALUE` for an edge that isn't there.
    #[doc(alias = "cuGraphRemoveDependencies")]
    pub fn remove_edge(&mut self, from: Node, to: Node) -> Result<()> {
        self.remove_edges(&[(from, to)])
    }

    /// Removes several edges in one call. The driver doesn't put back those that it removed before one that it refuses.
    ///
    /// Calls `cuGraphRemoveDependencies`.
    ///
    /// # Errors
    /// As [`remove_edge`](Self::remove_edge). After the call's failure some of the edges may be gone, which the error says.
    #[doc(alias = "cuGraphRemoveDependencies")]
    pub fn remove_edges(&mut self, edges: &[(Node, Node)]) -> Result<()> {
        self.with_edges(edges, |calls, graph, from, to, count| {
            // SAFETY: as in `add_edges`.
            unsafe { calls.cuGraphRemoveDependencies_v2(graph, from, to, ptr::null(), count) }
        })
    }

    fn with_edges(
        &mut self,
        edges: &[(Node, Node)],
        call: impl FnOnce(
            Calls<'_>,
            CUgraph,
            *const CUgraphNode,
            *const CUgraphNode,
            usize,
        ) -> Result<(), Failure>,
    ) -> Result<()> {
        if let Some((node, _)) = edges.iter().find(|(from, to)| from == to) {
            return Err(Error::argument(format!("edges: {node:?} after itself")));
        }
        let nodes: Vec<Node> =
            edges.iter().map(|edge| edge.0).chain(edges.iter().map(|edge| edge.1)).collect();
        self.look_up(&nodes)?;
        if edges.is_empty() {
            return Ok(());
        }
        let (from, to) = self.scratch.split_at(edges.len());
        let driver = self.driver();
        let result =
            call(driver.callable()?, self.as_raw(), from.as_ptr(), to.as_ptr(), edges.len());
        result.map_err(|failure| {
            let error = driver.error(failure);
            match edges.len() {
                1 => error,
                _ => error
                    .with_note(Note::Text("edges in front of the refused one were changed".into())),
            }
        })
    }

    /// The nodes after which a node runs.
    ///
    /// Calls `cuGraphNodeGetDependencies`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the call's failure.
    #[doc(alias = "cuGraphNodeGetDependencies")]
    pub fn predecessors(&self, node: Node) -> Result<Vec<Node>> {
        let raw = self.nodes.get(node)?.raw;
        self.neighbours(|calls, nodes, count| {
            // SAFETY: *pointers*: null, or as many places as are said; *handles*: a live node.
            unsafe { calls.cuGraphNodeGetDependencies_v2(raw, nodes, ptr::null_mut(), count) }
        })
    }

    /// The nodes that run after a node.
    ///
    /// Calls `cuGraphNodeGetDependentNodes`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the call's failure.
    #[doc(alias = "cuGraphNodeGetDependentNodes")]
    pub fn successors(&self, node: Node) -> Result<Vec<Node>> {
        let raw = self.nodes.get(node)?.raw;
        self.neighbours(|calls, nodes, count| {
            // SAFETY: as above.
            unsafe { calls.cuGraphNodeGetDependentNodes_v2(raw, nodes, ptr::null_mut(), count) }
        })
    }

    /// Asks how many there are, then for all of them.
    fn neighbours(
        &self,
        ask: impl Fn(Calls<'_>, *mut CUgraphNode, &mut usize) -> Result<(), Failure>,
    ) -> Result<Vec<Node>> {
        let (driver, mut count) = (self.driver(), 0);
        ask(driver.callable()?, ptr::null_mut(), &mut count)
            .map_err(|failure| driver.error(failure))?;
        let mut raw = vec![CUgraphNode::NULL; count];
        if count > 0 {
            ask(driver.callable()?, raw.as_mut_ptr(), &mut count)
                .map_err(|failure| driver.error(failure))?;
        }
        let raw: BTreeSet<usize> = raw.iter().take(count).map(|node| node.addr()).collect();
        let found = self.nodes.iter().filter(|(_, entry)| raw.contains(&entry.raw.addr()));
        Ok(found.map(|(node, _)| node).collect())
    }
}
