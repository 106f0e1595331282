//! Nodes that record events and wait for them.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, NodeKind};
use crate::{
    keep::Operand,
    node::{After, Node},
};
use cuhold_handles::{Event, Result};

impl Graph {
    /// Adds a node that records an event when it is run. The event is kept alive.
    ///
    /// Calls `cuGraphAddEventRecordNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; a place inside of a conditional body; an event of another driver; the
    /// calls' failures, after which nothing was added.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let event = device.context().new_event()?;
    /// let mut graph = Graph::new(device.context())?;
    /// let record = graph.record(&[], &event)?;
    /// graph.wait(record, &event)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddEventRecordNode")]
    pub fn record(&mut self, after: impl After, event: &Event) -> Result<Node> {
        self.driver().check_same(event.driver(), "event")?;
        let operands = [Operand::Event(event.clone())];
        self.add(NodeKind::Record, after.place(), operands, |calls, to, raw| {
            let (after, count) = (to.after.as_ptr(), to.after.len());
            // SAFETY: *pointers*: a live local, and live nodes of the number; *handles*: this value's graph, a live event.
            unsafe { calls.cuGraphAddEventRecordNode(raw, to.graph, after, count, event.raw()) }
        })
    }

    /// Adds a node that is done when the event is, as it is recorded at the time of the launch. The event is kept alive.
    ///
    /// Calls `cuGraphAddEventWaitNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    #[doc(alias = "cuGraphAddEventWaitNode")]
    pub fn wait(&mut self, after: impl After, event: &Event) -> Result<Node> {
        self.driver().check_same(event.driver(), "event")?;
        let operands = [Operand::Event(event.clone())];
        self.add(NodeKind::Wait, after.place(), operands, |calls, to, raw| {
            let (after, count) = (to.after.as_ptr(), to.after.len());
            // SAFETY: as above.
            unsafe { calls.cuGraphAddEventWaitNode(raw, to.graph, after, count, event.raw()) }
        })
    }

    /// Lets a node record another event, or wait for another one, whichever it does. Executables that were made before go on
    /// with the former one.
    ///
    /// Calls `cuGraphEventRecordNodeSetEvent` or `cuGraphEventWaitNodeSetEvent`; every 256th time that something is kept also
    /// `cuUserObjectCreate` and `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, one that was removed, or one that has no event; an event of another driver; the calls'
    /// failures, after which both events are kept.
    #[doc(alias = "cuGraphEventRecordNodeSetEvent")]
    #[doc(alias = "cuGraphEventWaitNodeSetEvent")]
    pub fn set_event(&mut self, node: Node, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        let kind = match self.kind(node)? {
            NodeKind::Wait => NodeKind::Wait,
            _ => NodeKind::Record,
        };
        let operands = [Operand::Event(event.clone())];
        self.change(node, kind, (1, operands), |calls, raw| match kind {
            // SAFETY: *handles*: a live node of the kind, a live event.
            NodeKind::Wait => unsafe { calls.cuGraphEventWaitNodeSetEvent(raw, event.raw()) },
            // SAFETY: as above.
            _ => unsafe { calls.cuGraphEventRecordNodeSetEvent(raw, event.raw()) },
        })
    }
}
