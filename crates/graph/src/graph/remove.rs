//! Nodes taken out.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, Inner, Inside};
use crate::node::{Body, Keyed as _, Node};
use cuhold_handles::{
    Driver, Error, Note, Result,
    driver_sys::{CUresult, ffi::CUgraphNode, mutant},
};

impl Graph {
    /// Removes a node with its edges, and with what is inside of it. What it uses is let go of, unless a copy or an executable
    /// was made from the graph since it was added: those may use it still.
    ///
    /// A conditional node's [condition](crate::Condition) is free then for another node; until one uses it, the graph can't be
    /// made executable.
    ///
    /// Calls `cuGraphDestroyNode`; where that failed also `cuGraphGetNodes`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the call's failure: `NOT_SUPPORTED` where nodes of the graph allocate
    /// or free memory. The node is then as it was, or gone if the error says
    /// [`completed`](cuhold_handles::Error::completed).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let node = graph.empty(&[])?;
    /// graph.remove(node)?;
    /// assert!(!graph.contains(node));
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphDestroyNode")]
    pub fn remove(&mut self, node: Node) -> Result<()> {
        let entry = self.inner.usable(node)?;
        let (raw, level) = (entry.raw, entry.level);
        let driver = self.driver();
        // SAFETY: *handles*: a live node of this value's graph, which is forgotten below.
        let removed = unsafe { driver.callable()?.cuGraphDestroyNode(raw) };
        let Err(failure) = removed else {
            self.forget(node);
            return Ok(());
        };
        let error = driver.error(failure);
        if error.is(CUresult::MISSING) || mutant::is_out("graph-doubt") {
            return Err(error);
        }
        Err(match self.is_there(level, raw) {
            Ok(true) => self.explained(error),
            Ok(false) => {
                self.forget(node);
                error.with_completed(1)
            }
            Err(second) => {
                // It may be gone: from here on the driver isn't handed it.
                self.inner.nodes.get_mut(node)?.detail_mut().is_doubtful = true;
                error.with_second(&second)
            }
        })
    }

    /// Whether the driver still has a node.
    fn is_there(&self, level: Body, node: CUgraphNode) -> Result<bool> {
        let graph = self.inner.levels.get(level)?.raw;
        Ok(self.raw_nodes(graph)?.iter().any(|there| there.addr() == node.addr()))
    }

    /// With why nodes and edges aren't taken out.
    pub(super) fn explained(&self, error: Error) -> Error {
        let kinds = self.inner.kinds();
        if error.is(CUresult::NOT_SUPPORTED) && kinds.uncopied().is_some_and(|k| k.is_memory()) {
            let why = "a graph that allocates or frees memory keeps its nodes and edges";
            return error.with_note(Note::Text(why.into()));
        }
        error
    }

    fn forget(&mut self, node: Node) {
        let Self { raw, inner } = self;
        inner.forget(node, raw.driver());
    }
}

impl Inner {
    /// A node is gone, with what is inside of it.
    fn forget(&mut self, node: Node, driver: &Driver) {
        let mut inside = self.forget_one(node, driver);
        while let Some(body) = inside.pop() {
            if self.levels.remove(body).is_err() {
                continue;
            }
            let nodes: Vec<Node> = self.nodes_of(body).collect();
            for node in nodes {
                inside.extend(self.forget_one(node, driver));
            }
        }
    }

    /// Gives the graphs that were inside of it.
    fn forget_one(&mut self, node: Node, driver: &Driver) -> Vec<Body> {
        let Ok(entry) = self.nodes.remove(node) else { return Vec::new() };
        self.order.remove_node(node.key().index());
        let inside = match entry.inside() {
            Inside::Nothing | Inside::Memory { .. } => Vec::new(),
            Inside::Child { read, .. } => read.iter().copied().collect(),
            Inside::Bodies { bodies, .. } => {
                let used = self.conditions.iter_mut().find(|(_, user)| *user == Some(node));
                if let Some((_, user)) = used {
                    *user = None;
                }
                bodies.to_vec()
            }
        };
        self.operands.release(entry.attached, driver);
        inside
    }

    /// The nodes of one graph of these.
    pub(crate) fn nodes_of(&self, level: Body) -> impl Iterator<Item = Node> {
        self.nodes.iter().filter(move |(_, entry)| entry.level == level).map(|(node, _)| node)
    }
}
