//! Semaphores and single values of an executable: nodes that signal, write and wait, changed one by one.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{GraphExec, node::Change};
use crate::{
    graph::{BatchOperation, Graph, NodeKind, semaphore_signal, semaphore_wait},
    node::Node,
};
use cuhold_handles::{
    ExternalSemaphore, Result,
    driver_sys::{Call, ffi::CUDA_BATCH_MEM_OP_NODE_PARAMS},
    scope,
};
use std::sync::Arc;

impl GraphExec {
    /// Lets a node signal other semaphores, or other values, from the next launch on. The semaphores are kept alive.
    ///
    /// Calls `cuGraphExecExternalSemaphoresSignalNodeSetParams`; where a change has replaced something that launches may use,
    /// also `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// A node that isn't of the graph that this was made from, or signals nothing; semaphores as of [`Graph::signal`]; the
    /// calls' failures, as of [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphExecExternalSemaphoresSignalNodeSetParams")]
    pub fn set_signal(
        &mut self,
        graph: &Graph,
        node: Node,
        semaphores: &[(Arc<ExternalSemaphore>, u64)],
    ) -> Result<()> {
        let mut of = graph.semaphores(semaphores, semaphore_signal)?;
        let (params, kept) = (of.params(), std::mem::take(&mut of.kept));
        let context = self.context().clone();
        let call = Call::cuGraphExecExternalSemaphoresSignalNodeSetParams;
        let change = Change::of((graph, node), NodeKind::Signal, call);
        self.change_scoped(&change, kept, |exec, node| {
            // Semaphores belong to a context, and the call isn't told which.
            scope::run(context.target(), |calls| {
                let params = &raw const params;
                // SAFETY: *pointers*: live locals, two lists as long as they say; *handles*: this value's executable, a live
                // node, live semaphores.
                unsafe {
                    calls.cuGraphExecExternalSemaphoresSignalNodeSetParams(exec, node, params)
                }
            })
        })
    }

    /// Lets a node wait for other semaphores, or other values, from the next launch on. The semaphores are kept alive.
    ///
    /// Calls `cuGraphExecExternalSemaphoresWaitNodeSetParams`; where a change has replaced something that launches may use,
    /// also `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// A node that isn't of the graph that this was made from, or doesn't wait for semaphores; otherwise as
    /// [`set_signal`](Self::set_signal).
    #[doc(alias = "cuGraphExecExternalSemaphoresWaitNodeSetParams")]
    pub fn set_await(
        &mut self,
        graph: &Graph,
        node: Node,
        semaphores: &[(Arc<ExternalSemaphore>, u64)],
    ) -> Result<()> {
        let mut of = graph.semaphores(semaphores, semaphore_wait)?;
        let (params, kept) = (of.params(), std::mem::take(&mut of.kept));
        let context = self.context().clone();
        let call = Call::cuGraphExecExternalSemaphoresWaitNodeSetParams;
        let change = Change::of((graph, node), NodeKind::Await, call);
        self.change_scoped(&change, kept, |exec, node| {
            scope::run(context.target(), |calls| {
                let params = &raw const params;
                // SAFETY: as above.
                unsafe { calls.cuGraphExecExternalSemaphoresWaitNodeSetParams(exec, node, params) }
            })
        })
    }

    /// Lets a node do other operations on values in memory, from the next launch on. The buffers are kept alive.
    ///
    /// Calls `cuGraphExecBatchMemOpNodeSetParams`; where a change has replaced something that launches may use, also
    /// `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// A node that isn't of the graph that this was made from, or does no such operations; operations as of
    /// [`Graph::batch`]; the calls' failures, as of [`set_kernel`](Self::set_kernel).
    #[doc(alias = "cuGraphExecBatchMemOpNodeSetParams")]
    pub fn set_batch(
        &mut self,
        graph: &Graph,
        node: Node,
        operations: &[BatchOperation],
    ) -> Result<()> {
        let (mut list, count, kept) = graph.operations(operations)?;
        let params = CUDA_BATCH_MEM_OP_NODE_PARAMS {
            ctx: self.context().as_raw(),
            count,
            paramArray: list.as_mut_ptr(),
            flags: 0,
        };
        let call = Call::cuGraphExecBatchMemOpNodeSetParams;
        let change = Change::of((graph, node), NodeKind::Batch, call);
        self.change(&change, kept, |calls, exec, node| {
            let params = &raw const params;
            // SAFETY: *pointers*: a live local, operations of the number, on memory that is kept; *handles*: this value's
            // executable and its context, a live node.
            unsafe { calls.cuGraphExecBatchMemOpNodeSetParams(exec, node, params) }
        })
    }
}
