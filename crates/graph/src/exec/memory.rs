//! Copies and fills of an executable, changed one by one.
//!
//! The driver changes those of one row alone, and not the kind of memory that a copy reads or writes (documented); a whole
//! update changes the others.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{GraphExec, node::Change};
use crate::{
    ends::{CopySource, CopyTarget, Kept},
    graph::{Graph, NodeKind},
    host_memory::SharedHost,
    node::Node,
};
use cuhold_handles::{
    Result,
    driver_sys::{Call, ffi::CUDA_MEMCPY3D},
};
use cuhold_memory::{HostSource, bytemuck::Pod};

impl GraphExec {
    /// Lets a node fill other memory, or with another value, from the next launch on. The buffer is kept alive.
    ///
    /// Calls `cuGraphExecMemsetNodeSetParams`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// A node that isn't of the graph that this was made from, or fills nothing; memory and values as of
    /// [`Graph::fill`]; the calls' failures, as of [`set_kernel`](Self::set_kernel): `INVALID_VALUE` for several rows.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{Graph, handles::{Device, Driver}, memory::Buffer};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<u32>::zeroed(&stream, 4)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let node = graph.fill(&[], &mut buffer, 1)?;
    /// let mut exec = graph.instantiate()?;
    /// exec.set_fill(&graph, node, &mut buffer, 2)?;
    /// exec.launch(&stream)?;
    /// assert_eq!(buffer.to_vec()?, [2; 4]);
    /// # Ok::<(), cuhold_graph::handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphExecMemsetNodeSetParams")]
    pub fn set_fill<T: Pod>(
        &mut self,
        graph: &Graph,
        node: Node,
        dst: impl CopyTarget<T>,
        value: T,
    ) -> Result<()> {
        let (params, kept) = graph.fill_params(&dst, value)?;
        let context = self.context().as_raw();
        let call = Call::cuGraphExecMemsetNodeSetParams;
        let change = Change::of((graph, node), NodeKind::Fill, call);
        self.change(&change, kept, |calls, exec, node| {
            let params = &raw const params;
            // SAFETY: *pointers*: a live local; the rows lie within a buffer that is kept; *handles*: this value's executable and
            // its context, a live node.
            unsafe { calls.cuGraphExecMemsetNodeSetParams(exec, node, params, context) }
        })
    }

    /// Lets a node copy other memory on the device, from the next launch on. Both buffers are kept alive.
    ///
    /// Calls `cuGraphExecMemcpyNodeSetParams`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// A node that isn't of the graph that this was made from, or copies nothing; memory as of [`Graph::copy`]; the calls'
    /// failures, as of [`set_kernel`](Self::set_kernel): `INVALID_VALUE` for several rows, and for a node that copies from or
    /// to the host.
    #[doc(alias = "cuGraphExecMemcpyNodeSetParams")]
    pub fn set_copy<T: Pod>(
        &mut self,
        graph: &Graph,
        node: Node,
        dst: impl CopyTarget<T>,
        src: impl CopySource<T>,
    ) -> Result<()> {
        let copy = graph.between(&dst, &src)?;
        self.change_copy((graph, node), copy)
    }

    /// Lets a node copy other memory of the host to the device, from the next launch on. The executable owns the memory from
    /// here on.
    ///
    /// Calls `cuGraphExecMemcpyNodeSetParams`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// As [`set_copy`](Self::set_copy), memory as of [`Graph::copy_from_host`].
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{Graph, handles::{Device, Driver}, memory::Buffer};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<u32>::zeroed(&stream, 2)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let node = graph.copy_from_host(&[], &mut buffer, vec![1, 2])?;
    /// let mut exec = graph.instantiate()?;
    /// exec.set_copy_from_host(&graph, node, &mut buffer, vec![3, 4])?;
    /// exec.launch(&stream)?;
    /// assert_eq!(buffer.to_vec()?, [3, 4]);
    /// # Ok::<(), cuhold_graph::handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphExecMemcpyNodeSetParams")]
    pub fn set_copy_from_host<T: Pod, S: HostSource<T>>(
        &mut self,
        graph: &Graph,
        node: Node,
        dst: impl CopyTarget<T>,
        src: S,
    ) -> Result<()> {
        let copy = graph.read_host(&dst, src)?;
        self.change_copy((graph, node), copy)
    }

    /// Lets a node copy other shared memory of the host to the device, as it is at each launch from the next one on.
    ///
    /// Calls `cuGraphExecMemcpyNodeSetParams`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// As [`set_copy_from_host`](Self::set_copy_from_host).
    #[doc(alias = "cuGraphExecMemcpyNodeSetParams")]
    pub fn set_copy_from_shared<T: Pod + Send>(
        &mut self,
        graph: &Graph,
        node: Node,
        dst: impl CopyTarget<T>,
        src: &SharedHost<T>,
    ) -> Result<()> {
        let copy = graph.read_shared(&dst, src)?;
        self.change_copy((graph, node), copy)
    }

    /// Lets a node copy memory of the device to other shared memory of the host, from the next launch on.
    ///
    /// Calls `cuGraphExecMemcpyNodeSetParams`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// As [`set_copy_from_host`](Self::set_copy_from_host).
    #[doc(alias = "cuGraphExecMemcpyNodeSetParams")]
    pub fn set_copy_to_shared<T: Pod + Send>(
        &mut self,
        graph: &Graph,
        node: Node,
        dst: &SharedHost<T>,
        src: impl CopySource<T>,
    ) -> Result<()> {
        let copy = graph.write_shared(dst, &src)?;
        self.change_copy((graph, node), copy)
    }

    fn change_copy(
        &mut self,
        node: (&Graph, Node),
        (params, kept): (CUDA_MEMCPY3D, Kept),
    ) -> Result<()> {
        let context = self.context().as_raw();
        let change = Change::of(node, NodeKind::Copy, Call::cuGraphExecMemcpyNodeSetParams);
        self.change(&change, kept, |calls, exec, node| {
            let params = &raw const params;
            // SAFETY: *pointers*: a live local; both ends lie within memory that is kept; *handles*: this value's executable
            // and its context, a live node.
            unsafe { calls.cuGraphExecMemcpyNodeSetParams(exec, node, params, context) }
        })
    }
}
