//! Nodes that record events and wait for them.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, NodeKind};
use crate::{keep::Operand, node::Node};
use cuhold_handles::{Event, Result};

impl Graph {
    /// Adds a node that records an event when it is run. The event is kept alive.
    ///
    /// Calls `cuGraphAddEventRecordNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; an event of another driver; the calls' failures, after which nothing
    /// was added.
    #[doc(alias = "cuGraphAddEventRecordNode")]
    pub fn record(&mut self, after: &[Node], event: &Event) -> Result<Node> {
        self.driver().check_same(event.driver(), "event")?;
        let operands = [Operand::Event(event.clone())];
        self.add(NodeKind::Record, after, operands, |calls, graph, after, raw| {
            // SAFETY: *pointers*: a live local, and live nodes of the number; *handles*: this value's graph, a live event.
            unsafe {
                calls.cuGraphAddEventRecordNode(
                    raw,
                    graph,
                    after.as_ptr(),
                    after.len(),
                    event.raw(),
                )
            }
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
    pub fn wait(&mut self, after: &[Node], event: &Event) -> Result<Node> {
        self.driver().check_same(event.driver(), "event")?;
        let operands = [Operand::Event(event.clone())];
        self.add(NodeKind::Wait, after, operands, |calls, graph, after, raw| {
            // SAFETY: as above.
            unsafe {
                calls.cuGraphAddEventWaitNode(raw, graph, after.as_ptr(), after.len(), event.raw())
            }
        })
    }
}
