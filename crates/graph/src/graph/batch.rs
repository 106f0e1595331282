//! Nodes that write single values to memory, and wait until memory holds some.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, NodeKind};
use crate::{
    keep::Operand,
    node::{After, Node},
};
use cuhold_handles::{Driver, Error, KeepAlive, Result, driver_sys::ffi::*};
use cuhold_memory::{BufferView, BufferViewMut, bytemuck::Pod};
use smallvec::SmallVec;
use std::fmt;

/// A number that a memory operation takes: [`u32`] or [`u64`].
///
/// # Safety
/// The operations are of the number's size.
pub unsafe trait Word: Pod {
    /// The operation that writes it.
    #[doc(hidden)]
    fn write(self, address: u64) -> CUstreamBatchMemOpParams;
    /// The operation that waits for it.
    #[doc(hidden)]
    fn wait(self, address: u64, flags: CUstreamWaitValue_flags) -> CUstreamBatchMemOpParams;
}

// SAFETY: the operations are those of 32 bits.
unsafe impl Word for u32 {
    fn write(self, address: u64) -> CUstreamBatchMemOpParams {
        let mut params = writes(CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32, address);
        params.__bindgen_anon_1.value = self;
        CUstreamBatchMemOpParams { writeValue: params }
    }

    fn wait(self, address: u64, flags: CUstreamWaitValue_flags) -> CUstreamBatchMemOpParams {
        let kind = CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_32;
        let mut params = waits(kind, address, flags);
        params.__bindgen_anon_1.value = self;
        CUstreamBatchMemOpParams { waitValue: params }
    }
}

// SAFETY: the operations are those of 64 bits.
unsafe impl Word for u64 {
    fn write(self, address: u64) -> CUstreamBatchMemOpParams {
        let mut params = writes(CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_64, address);
        params.__bindgen_anon_1.value64 = self;
        CUstreamBatchMemOpParams { writeValue: params }
    }

    fn wait(self, address: u64, flags: CUstreamWaitValue_flags) -> CUstreamBatchMemOpParams {
        let kind = CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_64;
        let mut params = waits(kind, address, flags);
        params.__bindgen_anon_1.value64 = self;
        CUstreamBatchMemOpParams { waitValue: params }
    }
}

type Writes = CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st;
type Waits = CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st;

fn writes(operation: CUstreamBatchMemOpType, address: u64) -> Writes {
    Writes { operation, address, ..Writes::default() }
}

fn waits(operation: CUstreamBatchMemOpType, address: u64, flags: CUstreamWaitValue_flags) -> Waits {
    Waits { operation, address, flags: flags.0, ..Waits::default() }
}

/// An operation on one value in memory, of 32 or 64 bits.
///
/// A wait that nothing fulfils keeps its launch, and what is queued behind it, from ever being done.
///
/// # Examples
/// ```
/// # use cuhold_graph::{BatchOperation, Graph};
/// # use cuhold_handles::{Device, Driver};
/// # use cuhold_memory::Buffer;
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let stream = device.new_stream()?;
/// let (flag, mut done) = (Buffer::<u32>::zeroed(&stream, 1)?, Buffer::<u64>::zeroed(&stream, 1)?);
/// let mut graph = Graph::new(device.context())?;
/// let wait = BatchOperation::wait_at_least(flag.as_view(), 1)?;
/// let write = BatchOperation::write(done.as_view_mut(), 1)?;
/// graph.batch(&[], &[wait, write])?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone)]
pub struct BatchOperation {
    params: CUstreamBatchMemOpParams,
    driver: Driver,
    kept: Option<KeepAlive>,
}

impl BatchOperation {
    /// Writes a value to the first element.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// No elements.
    pub fn write<T: Word>(dst: BufferViewMut<'_, T>, value: T) -> Result<Self> {
        let dst = dst.as_view();
        Self::of(&dst, "dst", |address| value.write(address))
    }

    /// Waits until the first element is this value.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// No elements.
    pub fn wait_equal<T: Word>(src: BufferView<'_, T>, value: T) -> Result<Self> {
        let flags = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ;
        Self::of(&src, "src", |address| value.wait(address, flags))
    }

    /// Waits until the first element is this value or greater, as counters that wrap around are compared: until their
    /// difference, as a signed number, isn't negative.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// No elements.
    pub fn wait_at_least<T: Word>(src: BufferView<'_, T>, value: T) -> Result<Self> {
        let flags = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ;
        Self::of(&src, "src", |address| value.wait(address, flags))
    }

    /// Waits until the first element has one of these bits.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// No elements.
    pub fn wait_any_bit<T: Word>(src: BufferView<'_, T>, bits: T) -> Result<Self> {
        let flags = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_AND;
        Self::of(&src, "src", |address| bits.wait(address, flags))
    }

    fn of<T: Word>(
        view: &BufferView<'_, T>,
        what: &str,
        params: impl FnOnce(u64) -> CUstreamBatchMemOpParams,
    ) -> Result<Self> {
        if view.is_empty() {
            return Err(Error::argument(format!("{what}: no elements")));
        }
        let params = params(view.device_ptr());
        Ok(Self { params, driver: view.driver().clone(), kept: view.keep() })
    }
}

impl fmt::Debug for BatchOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: every operation begins with its number.
        let operation = unsafe { self.params.operation };
        f.debug_struct("BatchOperation").field("operation", &operation.0).finish_non_exhaustive()
    }
}

impl Graph {
    /// The operations for a call, how many they are, and what is kept of them.
    pub(crate) fn operations(
        &self,
        operations: &[BatchOperation],
    ) -> Result<(Vec<CUstreamBatchMemOpParams>, u32, SmallVec<[Operand; 4]>)> {
        if operations.is_empty() {
            return Err(Error::argument("operations: none"));
        }
        let count = u32::try_from(operations.len()).map_err(|_too_many| {
            Error::argument(format!("operations: {} of them", operations.len()))
        })?;
        for operation in operations {
            self.driver().check_same(&operation.driver, "operations")?;
        }
        let list: Vec<_> = operations.iter().map(|operation| operation.params).collect();
        let kept = operations.iter().filter_map(|operation| operation.kept.clone());
        Ok((list, count, kept.map(Operand::Value).collect()))
    }

    /// Adds a node that does operations on values in memory, one after the other. The buffers are kept alive.
    ///
    /// Calls `cuGraphAddBatchMemOpNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; a place inside of a conditional body; no operations, or one of another
    /// driver; the calls' failures, after which nothing was added.
    #[doc(alias = "cuGraphAddBatchMemOpNode")]
    pub fn batch(&mut self, after: impl After, operations: &[BatchOperation]) -> Result<Node> {
        let (mut list, count, kept) = self.operations(operations)?;
        let params = CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: self.context().as_raw(),
            count,
            paramArray: list.as_mut_ptr(),
            flags: 0,
        };
        self.add_with(NodeKind::Batch, after.place(), kept.len(), |calls, to| {
            let (mut raw, after, count) = (CUgraphNode::NULL, to.after.as_ptr(), to.after.len());
            let (out, params) = (&raw mut raw, &raw const params);
            // SAFETY: *pointers*: live locals, live nodes of the number, operations of the number, on memory that is kept;
            // *handles*: this value's graph and its context.
            let made =
                unsafe { calls.cuGraphAddBatchMemOpNode(out, to.graph, after, count, params) };
            (made.map(|()| raw).map_err(|failure| to.context.driver().error(failure)), kept)
        })
    }

    /// Lets a node do other operations. Executables that were made before go on with what they have.
    ///
    /// Calls `cuGraphBatchMemOpNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, one that was removed, or one of another kind; no operations, or one of another driver; the
    /// calls' failures, after which all buffers are kept.
    #[doc(alias = "cuGraphBatchMemOpNodeSetParams")]
    pub fn set_batch(&mut self, node: Node, operations: &[BatchOperation]) -> Result<()> {
        let (mut list, count, kept) = self.operations(operations)?;
        let params = CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: self.context().as_raw(),
            count,
            paramArray: list.as_mut_ptr(),
            flags: 0,
        };
        self.change(node, NodeKind::Batch, (kept.len(), kept), |calls, raw| {
            // SAFETY: *pointers*: a live local, operations of the number, on memory that is kept; *handles*: a live node.
            unsafe { calls.cuGraphBatchMemOpNodeSetParams(raw, &raw const params) }
        })
    }
}
