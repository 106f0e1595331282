//! Nodes that are put into a capture by definition: behind what the stream has captured, and in front of what comes next.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{GraphBuilder, state::Role};
use crate::graph::Graph;
use cuhold_handles::{
    Error, Result,
    driver_sys::{Calls, Failure, ffi::*, mutant},
};
use std::{ptr, slice};

impl GraphBuilder {
    /// Captures a copy of another graph, as that is now; what the copy uses is kept alive with this one.
    ///
    /// Calls `cuStreamGetCaptureInfo`, `cuGraphAddChildGraphNode`, `cuStreamUpdateCaptureDependencies`.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; a graph of another driver; the
    /// calls' failures: `NOT_SUPPORTED` for a graph that allocates or frees memory, or has conditional nodes. Where only the
    /// last one failed the capture can't give what was asked for any more, and can only be ended.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{CaptureMode, Graph, GraphBuilder, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut step = Graph::new(device.context())?;
    /// step.host(&[], || println!("step"))?;
    /// let mut builder = GraphBuilder::begin(&stream, CaptureMode::ThreadLocal)?;
    /// builder.child(&mut step)?;
    /// builder.child(&mut step)?;
    /// assert_eq!(builder.end()?.len(), 2);
    /// # Ok::<(), cuhold_graph::handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddChildGraphNode")]
    pub fn child(&mut self, child: &mut Graph) -> Result<()> {
        self.driver().check_same(child.driver(), "child")?;
        if let Some(kind) = child.inner.kinds().outside_of_bodies() {
            self.not_in_body(kind)?;
        }
        // Also where it fails: it may have been copied all the same.
        child.about_to_be_copied();
        let child = child.as_raw();
        self.node(|calls, graph, after, raw| {
            // SAFETY: *pointers*: a live local, and live nodes of the number; *handles*: the captured graph, and another one
            // that is borrowed.
            unsafe {
                calls.cuGraphAddChildGraphNode(raw, graph, after.as_ptr(), after.len(), child)
            }
        })
    }

    /// Puts a node into the capture by a call, which is handed the graph, the raw nodes in front of it, and where the new one
    /// goes.
    pub(super) fn node(
        &mut self,
        make: impl FnOnce(Calls<'_>, CUgraph, &[CUgraphNode], &mut CUgraphNode) -> Result<(), Failure>,
    ) -> Result<()> {
        self.work([], |this| {
            let calls = this.driver().calls();
            let told = |failure| this.driver().error(failure);
            let graph = this.capture.lock().graph()?;
            let after = this.frontier(calls)?;
            let mut raw = CUgraphNode::NULL;
            make(calls, graph, &after, &mut raw).map_err(told)?;
            this.advance(calls, raw).map_err(|failure| {
                if !mutant::is_out("capture-spoilt") {
                    this.spoil(failure);
                }
                told(failure)
            })
        })
    }

    /// The graph isn't what was asked for, nor is the one that it is inside of.
    fn spoil(&self, failure: Failure) {
        self.capture.lock().state.spoilt(Some(failure));
        if self.capture.lock().state.role() == Role::Direct {
            self.root().lock().state.spoilt(Some(failure));
        }
    }

    /// The nodes that the stream's next work comes behind.
    fn frontier(&self, calls: Calls<'_>) -> Result<Vec<CUgraphNode>> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut nodes, mut count): (*const CUgraphNode, usize) = (ptr::null(), 0);
        // SAFETY: *handles*: the builder's stream; *pointers*: live locals, the others are optional.
        unsafe {
            calls.cuStreamGetCaptureInfo_v2(
                self.stream.raw(),
                &raw mut status,
                ptr::null_mut(),
                ptr::null_mut(),
                &raw mut nodes,
                &raw mut count,
            )
        }
        .map_err(|failure| self.driver().error(failure))?;
        if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE {
            let mut books = self.capture.lock();
            books.state.found_invalid();
            return Err(Error::state(books.state.why_not().unwrap_or_default()));
        }
        if nodes.is_null() || count == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: the driver's array of so many nodes, which lives until the stream is used or asked again.
        Ok(unsafe { slice::from_raw_parts(nodes, count) }.to_vec())
    }

    /// Puts the stream's next work behind this node alone.
    fn advance(&self, calls: Calls<'_>, mut node: CUgraphNode) -> Result<(), Failure> {
        let flags = CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES.0;
        let stream = self.stream.raw();
        // SAFETY: *handles*: the builder's stream, a node of its capture; *pointers*: one live node. No edge data.
        let newest = unsafe {
            calls.cuStreamUpdateCaptureDependencies_v2(stream, &raw mut node, ptr::null(), 1, flags)
        };
        match newest {
            Err(Failure { status: CUresult::MISSING, .. }) => {
                // SAFETY: as above.
                unsafe { calls.cuStreamUpdateCaptureDependencies(stream, &raw mut node, 1, flags) }
            }
            other => other,
        }
    }
}
