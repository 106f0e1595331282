//! Nodes that copy memory: ranges and boxes of buffers, of a graph's own memory, of the host.
//!
//! Each is one node, which CUDA describes as a box.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, NodeKind};
use crate::{
    ends::{CopySource, CopyTarget, Ends, HasEnd, Kept},
    host_memory::SharedHost,
    keep::Operand,
    node::{After, Node, Place},
};
use cuhold_handles::{
    Context, Error, KeepAlive, Result,
    driver_sys::{Calls, ffi::*},
};
use cuhold_memory::{HostSource, bytemuck::Pod};

impl Graph {
    /// Adds a node that copies memory on the device: between buffers, ranges, or boxes of the same sizes. Both buffers are kept
    /// alive. They may be of different home streams: what orders the copy with other work is the order of the launches.
    ///
    /// Calls `cuGraphAddMemcpyNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; memory of another driver; different sizes; no bytes; the calls'
    /// failures, after which nothing was added.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::{Buffer, Grid};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let stream = device.new_stream()?;
    /// let image = Buffer::<u8>::zeroed(&stream, 640 * 480)?;
    /// let mut part = Buffer::<u8>::zeroed(&stream, 100)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let row = graph.copy(&[], &mut part, image.view(..100)?)?;
    /// let corner = image.as_view().grid(Grid::rect([10, 10]).pitch(640))?;
    /// graph.copy(row, part.as_view_mut().into_grid(Grid::rect([10, 10]))?, corner)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub fn copy<T: Pod>(
        &mut self,
        after: impl After,
        dst: impl CopyTarget<T>,
        src: impl CopySource<T>,
    ) -> Result<Node> {
        let (params, kept) = self.between(&dst, &src)?;
        self.add_copy(after.place(), &params, kept)
    }

    /// Adds a node that copies host memory to the device. The graph owns the memory from here on, so that nobody changes it
    /// while a launch reads it; [`SharedHost`] is for memory that is to change between launches. The elements are packed.
    ///
    /// Calls `cuGraphAddMemcpyNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy`](Self::copy); another number of elements.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<u32>::zeroed(&stream, 3)?;
    /// let mut graph = Graph::new(device.context())?;
    /// graph.copy_from_host(&[], &mut buffer, vec![1, 2, 3])?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub fn copy_from_host<T: Pod, S: HostSource<T>>(
        &mut self,
        after: impl After,
        dst: impl CopyTarget<T>,
        src: S,
    ) -> Result<Node> {
        let (params, kept) = self.read_host(&dst, src)?;
        self.add_copy(after.place(), &params, kept)
    }

    /// Adds a node that copies host memory, as it is at each launch, to the device. The elements are packed.
    ///
    /// Calls `cuGraphAddMemcpyNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy_from_host`](Self::copy_from_host).
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub fn copy_from_shared<T: Pod + Send>(
        &mut self,
        after: impl After,
        dst: impl CopyTarget<T>,
        src: &SharedHost<T>,
    ) -> Result<Node> {
        let (params, kept) = self.read_shared(&dst, src)?;
        self.add_copy(after.place(), &params, kept)
    }

    /// Adds a node that copies memory of the device to the host. The elements are packed.
    ///
    /// Calls `cuGraphAddMemcpyNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy_from_host`](Self::copy_from_host).
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub fn copy_to_shared<T: Pod + Send>(
        &mut self,
        after: impl After,
        dst: &SharedHost<T>,
        src: impl CopySource<T>,
    ) -> Result<Node> {
        let (params, kept) = self.write_shared(dst, &src)?;
        self.add_copy(after.place(), &params, kept)
    }

    /// Adds a node that copies a box, as CUDA describes it: arrays, for instance. What is named in `keep` is kept alive.
    ///
    /// Calls `cuGraphAddMemcpyNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the calls' failures, after which nothing was added.
    ///
    /// # Safety
    /// What `copy` names is kept alive by `keep` or by other means as long as the graph, a copy of it, an executable, or a
    /// launch, and isn't used in conflict while a launch copies.
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub unsafe fn copy_raw(
        &mut self,
        after: impl After,
        copy: &CUDA_MEMCPY3D,
        keep: impl IntoIterator<Item = KeepAlive>,
    ) -> Result<Node> {
        self.add_copy(after.place(), copy, keep.into_iter().map(Operand::Value).collect())
    }

    /// Lets a node copy other memory on the device. Executables that were made before go on with what they have.
    ///
    /// Calls `cuGraphMemcpyNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy`](Self::copy); a node that copies nothing. After the calls' failures all buffers are kept.
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    pub fn set_copy<T: Pod>(
        &mut self,
        node: Node,
        dst: impl CopyTarget<T>,
        src: impl CopySource<T>,
    ) -> Result<()> {
        let (params, kept) = self.between(&dst, &src)?;
        self.change_copy(node, &params, kept)
    }

    /// Lets a node copy host memory to the device, which the graph owns from here on. Executables that were made before go on
    /// with what they have.
    ///
    /// Calls `cuGraphMemcpyNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy_from_host`](Self::copy_from_host); a node that copies nothing. After the calls' failures all memory is kept.
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    pub fn set_copy_from_host<T: Pod, S: HostSource<T>>(
        &mut self,
        node: Node,
        dst: impl CopyTarget<T>,
        src: S,
    ) -> Result<()> {
        let (params, kept) = self.read_host(&dst, src)?;
        self.change_copy(node, &params, kept)
    }

    /// Lets a node copy host memory, as it is at each launch, to the device. Executables that were made before go on with what
    /// they have.
    ///
    /// Calls `cuGraphMemcpyNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`set_copy_from_host`](Self::set_copy_from_host).
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    pub fn set_copy_from_shared<T: Pod + Send>(
        &mut self,
        node: Node,
        dst: impl CopyTarget<T>,
        src: &SharedHost<T>,
    ) -> Result<()> {
        let (params, kept) = self.read_shared(&dst, src)?;
        self.change_copy(node, &params, kept)
    }

    /// Lets a node copy memory of the device to the host. Executables that were made before go on with what they have.
    ///
    /// Calls `cuGraphMemcpyNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`set_copy_from_host`](Self::set_copy_from_host).
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    pub fn set_copy_to_shared<T: Pod + Send>(
        &mut self,
        node: Node,
        dst: &SharedHost<T>,
        src: impl CopySource<T>,
    ) -> Result<()> {
        let (params, kept) = self.write_shared(dst, &src)?;
        self.change_copy(node, &params, kept)
    }

    fn change_copy(&mut self, node: Node, params: &CUDA_MEMCPY3D, kept: Kept) -> Result<()> {
        self.change(node, NodeKind::Copy, (kept.len(), kept), |calls, raw| {
            // SAFETY: *pointers*: live; both ends lie within memory that is kept; *handles*: a live node.
            unsafe { calls.cuGraphMemcpyNodeSetParams(raw, params) }
        })
    }

    /// The ends of copies in this graph.
    pub(super) fn ends(&self) -> Ends<'_> {
        Ends { driver: self.driver(), graph: self.inner.nodes.graph() }
    }

    /// What a copy on the device is described by.
    pub(crate) fn between(
        &self,
        dst: &impl HasEnd,
        src: &impl HasEnd,
    ) -> Result<(CUDA_MEMCPY3D, Kept)> {
        not_empty(self.ends().between(dst, src)?)
    }

    /// What a copy of host memory that is given away is described by.
    pub(crate) fn read_host<T: Pod, S: HostSource<T>>(
        &self,
        dst: &impl HasEnd,
        src: S,
    ) -> Result<(CUDA_MEMCPY3D, Kept)> {
        not_empty(self.ends().read_host(dst, src)?)
    }

    /// What a copy of shared host memory to the device is described by.
    pub(crate) fn read_shared<T: Pod + Send>(
        &self,
        dst: &impl HasEnd,
        src: &SharedHost<T>,
    ) -> Result<(CUDA_MEMCPY3D, Kept)> {
        not_empty(self.ends().read_shared(dst, src)?)
    }

    /// What a copy to shared host memory is described by.
    pub(crate) fn write_shared<T: Pod + Send>(
        &self,
        dst: &SharedHost<T>,
        src: &impl HasEnd,
    ) -> Result<(CUDA_MEMCPY3D, Kept)> {
        not_empty(self.ends().write_shared(dst, src)?)
    }

    fn add_copy(&mut self, after: Place<'_>, params: &CUDA_MEMCPY3D, kept: Kept) -> Result<Node> {
        self.add_with(NodeKind::Copy, after, kept.len(), |calls: Calls<'_>, to| {
            let (context, mut raw): (&Context, _) = (to.context, CUgraphNode::NULL);
            let (after, count) = (to.after.as_ptr(), to.after.len());
            // SAFETY: *pointers*: live locals, and live nodes of the number; both ends lie within memory that is kept, or are
            // the caller's promise; *handles*: this value's graph and its context.
            let made = unsafe {
                let out = &raw mut raw;
                calls.cuGraphAddMemcpyNode(out, to.graph, after, count, params, context.as_raw())
            };
            (made.map(|()| raw).map_err(|failure| context.driver().error(failure)), kept)
        })
    }
}

/// A node copies something.
fn not_empty((params, kept): (Option<CUDA_MEMCPY3D>, Kept)) -> Result<(CUDA_MEMCPY3D, Kept)> {
    let params = params.ok_or_else(|| Error::argument("dst: it has no bytes"))?;
    Ok((params, kept))
}
