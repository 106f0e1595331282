//! Nodes that run a whole graph.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, NodeKind};
use crate::node::Node;
use cuhold_handles::Result;

impl Graph {
    /// Adds a node that runs a copy of another graph, as that is now; what the copy uses is kept alive with this graph.
    ///
    /// Calls `cuGraphAddChildGraphNode`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; a graph of another driver; the call's failure, after which nothing
    /// was added: `NOT_SUPPORTED` for a graph that allocates or frees memory, or has conditional nodes.
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
    /// graph.child(&[first], &mut step)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddChildGraphNode")]
    pub fn child(&mut self, after: &[Node], child: &mut Self) -> Result<Node> {
        self.driver().check_same(child.driver(), "child")?;
        // Also where it fails: it may have been copied all the same.
        child.operands.copied();
        let child = child.as_raw();
        self.add(NodeKind::Child, after, [], |calls, graph, after, raw| {
            // SAFETY: *pointers*: a live local, and live nodes of the number; *handles*: two graphs, which aren't the same:
            // both are borrowed mutably.
            unsafe {
                calls.cuGraphAddChildGraphNode(raw, graph, after.as_ptr(), after.len(), child)
            }
        })
    }
}
