//! What a node was made with, read back from the driver.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{ConditionalKind, Graph, Inside, NodeKind, list};
use crate::node::Node;
use cuhold_handles::{
    Result,
    driver_sys::{Calls, Failure, ffi::*},
};

/// What a node was made with. Handles and addresses are the driver's, which stay others' to end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NodeParams {
    /// Of an empty node: nothing.
    Empty,
    /// A kernel's launch. Its arguments aren't told: how many there are, and of which size, isn't known of every kernel.
    Kernel {
        /// The kernel; null where the node was made from a function.
        kernel: CUkernel,
        /// The function; null where the node was made from a kernel.
        function: CUfunction,
        /// Blocks in x, y and z.
        grid: [u32; 3],
        /// Threads of a block in x, y and z.
        block: [u32; 3],
        /// Dynamic shared memory of a block, in bytes.
        shared_bytes: u32,
    },
    /// A copy, as CUDA describes it.
    Copy(Box<CUDA_MEMCPY3D>),
    /// A fill.
    Fill {
        /// Where it begins.
        dst: u64,
        /// From one row to the next, in bytes, where there are several.
        pitch_bytes: usize,
        /// What is filled in.
        value: u32,
        /// How many bytes of that: 1, 2 or 4.
        element_bytes: u32,
        /// How many values a row has.
        width: usize,
        /// How many rows.
        height: usize,
    },
    /// A function of the host.
    Host,
    /// An event's record.
    Record(CUevent),
    /// A wait for an event.
    Wait(CUevent),
    /// A child graph.
    Child,
    /// An allocation.
    Allocate {
        /// The address.
        ptr: u64,
        /// How many bytes.
        bytes: usize,
    },
    /// A free.
    Free {
        /// The address.
        ptr: u64,
    },
    /// Signals of semaphores, with the value of each.
    Signal(Vec<(CUexternalSemaphore, u64)>),
    /// Waits for semaphores, with the value of each.
    Await(Vec<(CUexternalSemaphore, u64)>),
    /// Operations on values in memory: how many.
    Batch(usize),
    /// A condition, if it was added here.
    Conditional {
        /// What is done by it.
        kind: ConditionalKind,
        /// How many bodies there are.
        bodies: usize,
    },
    /// Of a kind that this library doesn't know.
    Unknown,
}

impl Graph {
    /// What a node was made with, as the driver tells it. Of conditional nodes, which drivers before CUDA 13.2 don't tell, it
    /// is what they were added with.
    ///
    /// Calls by the node's kind one of `cuGraphKernelNodeGetParams`, `cuGraphMemcpyNodeGetParams`,
    /// `cuGraphMemsetNodeGetParams`, `cuGraphEventRecordNodeGetEvent`, `cuGraphEventWaitNodeGetEvent`,
    /// `cuGraphMemAllocNodeGetParams`, `cuGraphMemFreeNodeGetParams`, `cuGraphExternalSemaphoresSignalNodeGetParams`,
    /// `cuGraphExternalSemaphoresWaitNodeGetParams` and `cuGraphBatchMemOpNodeGetParams`, or none.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the call's failure.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{Graph, NodeParams};
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut buffer = Buffer::<u16>::zeroed(&device.new_stream()?, 10)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let node = graph.fill(&[], &mut buffer, 0x102)?;
    /// let NodeParams::Fill { value, width, .. } = graph.params(node)? else { panic!() };
    /// assert_eq!((value, width), (0x102, 10));
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    pub fn params(&self, node: Node) -> Result<NodeParams> {
        let entry = self.inner.usable(node)?;
        let (raw, driver) = (entry.raw, self.driver());
        let calls = driver.callable()?;
        let told = match entry.kind {
            NodeKind::Empty => Ok(NodeParams::Empty),
            NodeKind::Host => Ok(NodeParams::Host),
            NodeKind::Child => Ok(NodeParams::Child),
            NodeKind::Conditional => Ok(match entry.inside() {
                Inside::Bodies { kind, bodies } => {
                    NodeParams::Conditional { kind: *kind, bodies: bodies.len() }
                }
                _ => NodeParams::Unknown,
            }),
            NodeKind::Other(_) => Ok(NodeParams::Unknown),
            NodeKind::Kernel => kernel(calls, raw),
            NodeKind::Copy => copy(calls, raw),
            NodeKind::Fill => fill(calls, raw),
            kind => other(calls, raw, kind),
        };
        told.map_err(|failure| driver.error(failure))
    }
}

fn kernel(calls: Calls<'_>, node: CUgraphNode) -> Result<NodeParams, Failure> {
    let mut told = CUDA_KERNEL_NODE_PARAMS::default();
    // SAFETY: *pointers*: a live local; *handles*: a live node of the kind.
    unsafe { calls.cuGraphKernelNodeGetParams_v2(node, &raw mut told) }?;
    Ok(NodeParams::Kernel {
        kernel: told.kern,
        function: told.func,
        grid: [told.gridDimX, told.gridDimY, told.gridDimZ],
        block: [told.blockDimX, told.blockDimY, told.blockDimZ],
        shared_bytes: told.sharedMemBytes,
    })
}

fn copy(calls: Calls<'_>, node: CUgraphNode) -> Result<NodeParams, Failure> {
    let mut told = CUDA_MEMCPY3D::default();
    // SAFETY: as above.
    unsafe { calls.cuGraphMemcpyNodeGetParams(node, &raw mut told) }?;
    Ok(NodeParams::Copy(Box::new(told)))
}

fn fill(calls: Calls<'_>, node: CUgraphNode) -> Result<NodeParams, Failure> {
    let mut told = CUDA_MEMSET_NODE_PARAMS::default();
    // SAFETY: as above.
    unsafe { calls.cuGraphMemsetNodeGetParams(node, &raw mut told) }?;
    let CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height } = told;
    Ok(NodeParams::Fill {
        dst,
        pitch_bytes: pitch,
        value,
        element_bytes: elementSize,
        width,
        height,
    })
}

fn other(calls: Calls<'_>, node: CUgraphNode, kind: NodeKind) -> Result<NodeParams, Failure> {
    Ok(match kind {
        NodeKind::Record => {
            let mut event = CUevent::NULL;
            // SAFETY: as above.
            unsafe { calls.cuGraphEventRecordNodeGetEvent(node, &raw mut event) }?;
            NodeParams::Record(event)
        }
        NodeKind::Wait => {
            let mut event = CUevent::NULL;
            // SAFETY: as above.
            unsafe { calls.cuGraphEventWaitNodeGetEvent(node, &raw mut event) }?;
            NodeParams::Wait(event)
        }
        NodeKind::Allocate => {
            let mut told = CUDA_MEM_ALLOC_NODE_PARAMS::default();
            // SAFETY: as above.
            unsafe { calls.cuGraphMemAllocNodeGetParams(node, &raw mut told) }?;
            NodeParams::Allocate { ptr: told.dptr, bytes: told.bytesize }
        }
        NodeKind::Free => {
            let mut ptr = 0;
            // SAFETY: as above.
            unsafe { calls.cuGraphMemFreeNodeGetParams(node, &raw mut ptr) }?;
            NodeParams::Free { ptr }
        }
        NodeKind::Batch => {
            let mut told = CUDA_BATCH_MEM_OP_NODE_PARAMS::default();
            // SAFETY: as above.
            unsafe { calls.cuGraphBatchMemOpNodeGetParams(node, &raw mut told) }?;
            NodeParams::Batch(told.count as usize)
        }
        NodeKind::Signal => signals(calls, node)?,
        NodeKind::Await => awaits(calls, node)?,
        _ => NodeParams::Unknown,
    })
}

fn signals(calls: Calls<'_>, node: CUgraphNode) -> Result<NodeParams, Failure> {
    let mut told = CUDA_EXT_SEM_SIGNAL_NODE_PARAMS::default();
    // SAFETY: as above.
    unsafe { calls.cuGraphExternalSemaphoresSignalNodeGetParams(node, &raw mut told) }?;
    let count = told.numExtSems as usize;
    // SAFETY: the node's own list, which is as long as it says and there until the node is changed.
    let semaphores = unsafe { list(told.extSemArray, count) };
    // SAFETY: as above.
    let params = unsafe { list(told.paramsArray, count) };
    let values = params.iter().map(|params| params.params.fence.value);
    Ok(NodeParams::Signal(semaphores.iter().copied().zip(values).collect()))
}

fn awaits(calls: Calls<'_>, node: CUgraphNode) -> Result<NodeParams, Failure> {
    let mut told = CUDA_EXT_SEM_WAIT_NODE_PARAMS::default();
    // SAFETY: as above.
    unsafe { calls.cuGraphExternalSemaphoresWaitNodeGetParams(node, &raw mut told) }?;
    let count = told.numExtSems as usize;
    // SAFETY: the node's own list, which is as long as it says and there until the node is changed.
    let semaphores = unsafe { list(told.extSemArray, count) };
    // SAFETY: as above.
    let params = unsafe { list(told.paramsArray, count) };
    let values = params.iter().map(|params| params.params.fence.value);
    Ok(NodeParams::Await(semaphores.iter().copied().zip(values).collect()))
}
