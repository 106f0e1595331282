//! Nodes that fill memory.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, NodeKind};
use crate::{
    ends::{CopyTarget, Kept},
    node::{After, Node},
};
use cuhold_handles::{Error, Result, driver_sys::ffi::*};
use cuhold_memory::bytemuck::Pod;

impl Graph {
    /// Adds a node that fills memory with a value: all of a buffer, a range, or rows of a box. The buffer is kept alive.
    ///
    /// The value's bytes are one, two or four that repeat: a `u64` of 0 can be filled in, one of 1 can't.
    ///
    /// Calls `cuGraphAddMemsetNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; memory of another driver; a value whose bytes don't repeat; memory of
    /// no bytes; a box with gaps between its slices, which takes a node a slice; the calls' failures, after which nothing was
    /// added.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<f32>::zeroed(&stream, 100)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let all = graph.fill(&[], &mut buffer, 1.0)?;
    /// graph.fill(all, buffer.view_mut(..10)?, 2.0)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddMemsetNode")]
    pub fn fill<T: Pod>(
        &mut self,
        after: impl After,
        dst: impl CopyTarget<T>,
        value: T,
    ) -> Result<Node> {
        let (params, kept) = self.fill_params(&dst, value)?;
        self.add_with(NodeKind::Fill, after.place(), kept.len(), |calls, to| {
            let (context, mut raw) = (to.context, CUgraphNode::NULL);
            let (after, count) = (to.after.as_ptr(), to.after.len());
            let (out, params) = (&raw mut raw, &raw const params);
            // SAFETY: *pointers*: live locals, and live nodes of the number; the rows lie within a buffer that is kept;
            // *handles*: this value's graph and its context.
            let made = unsafe {
                calls.cuGraphAddMemsetNode(out, to.graph, after, count, params, context.as_raw())
            };
            (made.map(|()| raw).map_err(|failure| context.driver().error(failure)), kept)
        })
    }

    /// Lets a node fill other memory, or with another value. Executables that were made before go on with what they have.
    ///
    /// Calls `cuGraphMemsetNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`fill`](Self::fill); a node that fills nothing. After the calls' failures both buffers are kept.
    #[doc(alias = "cuGraphMemsetNodeSetParams")]
    pub fn set_fill<T: Pod>(
        &mut self,
        node: Node,
        dst: impl CopyTarget<T>,
        value: T,
    ) -> Result<()> {
        let (params, kept) = self.fill_params(&dst, value)?;
        self.change(node, NodeKind::Fill, (kept.len(), kept), |calls, raw| {
            // SAFETY: *pointers*: a live local; the rows lie within a buffer that is kept; *handles*: a live node.
            unsafe { calls.cuGraphMemsetNodeSetParams(raw, &raw const params) }
        })
    }

    /// What a fill is described by.
    pub(crate) fn fill_params<T: Pod>(
        &self,
        dst: &impl CopyTarget<T>,
        value: T,
    ) -> Result<(CUDA_MEMSET_NODE_PARAMS, Kept)> {
        let (params, kept) = self.ends().fill(dst, value)?;
        let params = params.ok_or_else(|| Error::argument("dst: it has no bytes"))?;
        Ok((params, kept))
    }
}
