//! Parameters of nodes, as they were given and as they are told.
//!
//! Arrays that are told (a kernel's parameters, operations of a batch) belong to the node, and are there until it ends
//! or is changed (documented). Of captured work that isn't a kernel, a copy of rows, a fill or a host function the
//! parameters aren't kept: *missing*.

#![expect(unsafe_code, reason = "parameters of every kind share a union")]

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{NodeKind, Task};
use crate::{
    code::NodeKernel,
    world::{Answer, In, Out, Turn, UserData},
};

/// Parameters of a node.
#[derive(Clone, Debug)]
pub(crate) enum Params {
    /// There are none.
    Nothing,
    /// They aren't kept.
    Unknown,
    Kernel(Arc<NodeKernel>),
    Memcpy(StoredCopy, CUcontext),
    Memset(CUDA_MEMSET_NODE_PARAMS_v2),
    Host(CUhostFn, UserData),
    Child {
        moved: bool,
    },
    Event(CUevent),
    Signal(Arc<Signals>),
    Wait(Arc<Waits>),
    Alloc(Arc<Allocated>),
    Free(u64),
    Batch(Arc<Operations>),
    Conditional(Arc<Bodies>),
}

macro_rules! stored {
    ($($(#[$doc:meta])* $name:ident { $($field:ident : $type:ty,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone)]
        pub(crate) struct $name {
            $(pub(super) $field: $type,)*
        }

        // SAFETY: pointers in C's structs are words of the caller that are handed back, and never followed here.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )* };
}

stored! {
    /// A copy.
    StoredCopy { params: CUDA_MEMCPY3D, }
    /// Operations of a batch.
    Operations { context: CUcontext, list: Vec<CUstreamBatchMemOpParams>, flags: c_uint, }
    /// Signals of semaphores.
    Signals { semaphores: Vec<CUexternalSemaphore>, list: Vec<Word<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS>>, }
    /// Waits for semaphores.
    Waits { semaphores: Vec<CUexternalSemaphore>, list: Vec<Word<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS>>, }
    /// An allocation.
    Allocated { params: CUDA_MEM_ALLOC_NODE_PARAMS_v2, access: Vec<CUmemAccessDesc>, }
    /// The bodies of a conditional node.
    Bodies { params: CUDA_CONDITIONAL_NODE_PARAMS, graphs: Vec<CUgraph>, }
}

/// One of the caller's structs, in an array that is told.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Word<T>(pub(super) T);

// SAFETY: as for what is stored: pointers are handed back, and never followed here.
unsafe impl<T: Copy> Send for Word<T> {}
// SAFETY: as above.
unsafe impl<T: Copy> Sync for Word<T> {}

impl StoredCopy {
    pub(crate) const fn new(params: CUDA_MEMCPY3D) -> Self {
        Self { params }
    }

    pub(super) fn hash(&self) -> u64 {
        super::task::hash_of(&self.params)
    }

    /// Whether it is of one row, of memory that isn't an array.
    pub(crate) fn is_row(&self) -> bool {
        let array = CUmemorytype::CU_MEMORYTYPE_ARRAY;
        self.params.Height <= 1
            && self.params.Depth <= 1
            && self.params.srcMemoryType != array
            && self.params.dstMemoryType != array
    }
}

impl Turn<'_> {
    /// The parameters of a node of this kind.
    fn params_of(&mut self, node: CUgraphNode, kind: NodeKind) -> Result<Params, CUresult> {
        let key = self.node(node)?;
        let data = self.node_data(key)?;
        if data.task.kind != kind {
            return Err(CUresult::INVALID_VALUE);
        }
        match &data.task.params {
            Params::Unknown => Err(CUresult::MISSING),
            params => Ok(params.clone()),
        }
    }
}

/// A kernel's parameters as C tells them.
pub(super) fn kernel_to_c(kernel: &NodeKernel) -> CUDA_KERNEL_NODE_PARAMS {
    let [grid_x, grid_y, grid_z] = kernel.shape.grid;
    let [block_x, block_y, block_z] = kernel.shape.block;
    CUDA_KERNEL_NODE_PARAMS {
        func: kernel.function,
        gridDimX: grid_x,
        gridDimY: grid_y,
        gridDimZ: grid_z,
        blockDimX: block_x,
        blockDimY: block_y,
        blockDimZ: block_z,
        sharedMemBytes: kernel.shape.shared_bytes,
        kernelParams: kernel.list(),
        extra: std::ptr::null_mut(),
        kern: kernel.kernel,
        ctx: kernel.told_context,
    }
}

fn kernel_to_any(kernel: &NodeKernel) -> CUDA_KERNEL_NODE_PARAMS_v3 {
    let c = kernel_to_c(kernel);
    CUDA_KERNEL_NODE_PARAMS_v3 {
        func: c.func,
        gridDimX: c.gridDimX,
        gridDimY: c.gridDimY,
        gridDimZ: c.gridDimZ,
        blockDimX: c.blockDimX,
        blockDimY: c.blockDimY,
        blockDimZ: c.blockDimZ,
        sharedMemBytes: c.sharedMemBytes,
        kernelParams: c.kernelParams,
        extra: c.extra,
        kern: c.kern,
        ctx: c.ctx,
    }
}

pub(crate) fn kernel_params(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    out: Out<CUDA_KERNEL_NODE_PARAMS>,
) -> Answer {
    let out = out.required()?;
    if let Params::Kernel(kernel) = turn.params_of(node, NodeKind::Kernel)? {
        out.write(kernel_to_c(&kernel));
    }
    Ok(())
}

pub(crate) fn memcpy_params(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    out: Out<CUDA_MEMCPY3D>,
) -> Answer {
    let out = out.required()?;
    if let Params::Memcpy(copy, _) = turn.params_of(node, NodeKind::Memcpy)? {
        out.write(copy.params);
    }
    Ok(())
}

pub(crate) fn memset_params(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    out: Out<CUDA_MEMSET_NODE_PARAMS>,
) -> Answer {
    let out = out.required()?;
    if let Params::Memset(fill) = turn.params_of(node, NodeKind::Memset)? {
        let CUDA_MEMSET_NODE_PARAMS_v2 { dst, pitch, value, elementSize, width, height, .. } = fill;
        out.write(CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height });
    }
    Ok(())
}

pub(crate) fn host_params(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    out: Out<CUDA_HOST_NODE_PARAMS>,
) -> Answer {
    let out = out.required()?;
    if let Params::Host(function, data) = turn.params_of(node, NodeKind::Host)? {
        out.write(CUDA_HOST_NODE_PARAMS { fn_: function, userData: data.0 });
    }
    Ok(())
}

pub(crate) fn record_event(turn: &mut Turn<'_>, node: CUgraphNode, out: Out<CUevent>) -> Answer {
    event_of(turn, node, NodeKind::EventRecord, out)
}

pub(crate) fn wait_event(turn: &mut Turn<'_>, node: CUgraphNode, out: Out<CUevent>) -> Answer {
    event_of(turn, node, NodeKind::EventWait, out)
}

fn event_of(turn: &mut Turn<'_>, node: CUgraphNode, kind: NodeKind, out: Out<CUevent>) -> Answer {
    let out = out.required()?;
    if let Params::Event(event) = turn.params_of(node, kind)? {
        out.write(event);
    }
    Ok(())
}

fn count_of<T>(list: &[T]) -> c_uint {
    c_uint::try_from(list.len()).unwrap_or(c_uint::MAX)
}

pub(crate) fn signal_params(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    out: Out<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS>,
) -> Answer {
    let out = out.required()?;
    if let Params::Signal(signals) = turn.params_of(node, NodeKind::SemaphoreSignal)? {
        out.write(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
            extSemArray: signals.semaphores.as_ptr().cast_mut(),
            paramsArray: signals.list.as_ptr().cast(),
            numExtSems: count_of(&signals.list),
        });
    }
    Ok(())
}

pub(crate) fn wait_params(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    out: Out<CUDA_EXT_SEM_WAIT_NODE_PARAMS>,
) -> Answer {
    let out = out.required()?;
    if let Params::Wait(waits) = turn.params_of(node, NodeKind::SemaphoreWait)? {
        out.write(CUDA_EXT_SEM_WAIT_NODE_PARAMS {
            extSemArray: waits.semaphores.as_ptr().cast_mut(),
            paramsArray: waits.list.as_ptr().cast(),
            numExtSems: count_of(&waits.list),
        });
    }
    Ok(())
}

fn batch_to_c(batch: &Operations) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
    CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: batch.context,
        count: count_of(&batch.list),
        paramArray: batch.list.as_ptr().cast_mut(),
        flags: batch.flags,
    }
}

pub(crate) fn batch_params(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    out: Out<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> Answer {
    let out = out.required()?;
    if let Params::Batch(batch) = turn.params_of(node, NodeKind::BatchMemOp)? {
        out.write(batch_to_c(&batch));
    }
    Ok(())
}

/// Parameters of any kind of node.
pub(crate) fn node_params(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    out: Out<CUgraphNodeParams>,
) -> Answer {
    let out = out.required()?;
    let key = turn.node(node)?;
    let task = &turn.node_data(key)?.task;
    let mut told = CUgraphNodeParams { type_: task.kind.as_c(), ..CUgraphNodeParams::default() };
    write_union(&mut told.__bindgen_anon_1, task)?;
    out.write(told);
    Ok(())
}

type Union = CUgraphNodeParams_st__bindgen_ty_1;

fn write_union(told: &mut Union, task: &Task) -> Answer {
    match &task.params {
        Params::Nothing => {}
        Params::Unknown => return Err(CUresult::MISSING),
        Params::Kernel(kernel) => told.kernel = kernel_to_any(kernel),
        Params::Memcpy(copy, context) => {
            told.memcpy = CUDA_MEMCPY_NODE_PARAMS {
                flags: 0,
                reserved: 0,
                copyCtx: *context,
                copyParams: copy.params,
            };
        }
        Params::Memset(fill) => told.memset = *fill,
        Params::Host(function, data) => {
            let host = CUDA_HOST_NODE_PARAMS_v2::default();
            told.host = CUDA_HOST_NODE_PARAMS_v2 { fn_: *function, userData: data.0, ..host };
        }
        // Who owns the child is told as invalid (documented).
        Params::Child { .. } => {
            let graph =
                task.graphs().next().map_or(CUgraph::NULL, |key| CUgraph::from_addr(key.raw()));
            let ownership = CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_INVALID;
            told.graph = CUDA_CHILD_GRAPH_NODE_PARAMS { graph, ownership };
        }
        Params::Event(event) if task.kind == NodeKind::EventWait => {
            told.eventWait = CUDA_EVENT_WAIT_NODE_PARAMS { event: *event };
        }
        Params::Event(event) => {
            let record = CUDA_EVENT_RECORD_NODE_PARAMS::default();
            told.eventRecord = CUDA_EVENT_RECORD_NODE_PARAMS { event: *event, ..record };
        }
        Params::Signal(signals) => {
            told.extSemSignal = CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 {
                extSemArray: signals.semaphores.as_ptr().cast_mut(),
                paramsArray: signals.list.as_ptr().cast(),
                numExtSems: count_of(&signals.list),
                ..CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2::default()
            };
        }
        Params::Wait(waits) => {
            told.extSemWait = CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 {
                extSemArray: waits.semaphores.as_ptr().cast_mut(),
                paramsArray: waits.list.as_ptr().cast(),
                numExtSems: count_of(&waits.list),
                ..CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2::default()
            };
        }
        Params::Alloc(made) => told.alloc = alloc_to_c(made),
        Params::Free(address) => told.free = CUDA_MEM_FREE_NODE_PARAMS { dptr: *address },
        Params::Batch(batch) => {
            let CUDA_BATCH_MEM_OP_NODE_PARAMS { ctx, count, paramArray, flags } = batch_to_c(batch);
            told.memOp = CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 { ctx, count, paramArray, flags };
        }
        Params::Conditional(bodies) => told.conditional = conditional_to_c(bodies),
    }
    Ok(())
}

pub(super) fn alloc_to_c(made: &Allocated) -> CUDA_MEM_ALLOC_NODE_PARAMS_v2 {
    let mut told = made.params;
    told.accessDescs = match made.access.as_slice() {
        [] => std::ptr::null(),
        list => list.as_ptr(),
    };
    told
}

/// The graphs are told in an array of the node's.
pub(super) fn conditional_to_c(bodies: &Bodies) -> CUDA_CONDITIONAL_NODE_PARAMS {
    CUDA_CONDITIONAL_NODE_PARAMS { phGraph_out: bodies.graphs.as_ptr().cast_mut(), ..bodies.params }
}

type Id = CUlaunchAttributeID;

/// What was set; of attributes that aren't kept nothing is known: *missing*.
pub(crate) fn node_attribute(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    attribute: CUkernelNodeAttrID,
    out: Out<CUkernelNodeAttrValue>,
) -> Answer {
    let out = out.required()?;
    let Params::Kernel(kernel) = turn.params_of(node, NodeKind::Kernel)? else {
        return Err(CUresult::MISSING);
    };
    let mut value = CUkernelNodeAttrValue::default();
    match attribute {
        Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
            value.cooperative = kernel.shape.cooperative.into();
        }
        Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
            if let Some([x, y, z]) = kernel.shape.cluster {
                value.clusterDim.x = x;
                value.clusterDim.y = y;
                value.clusterDim.z = z;
            }
        }
        Id::CU_LAUNCH_ATTRIBUTE_PRIORITY => value.priority = kernel.priority,
        _ if attribute.0 <= Id::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT.0 => {
            return Err(CUresult::MISSING);
        }
        _ => return Err(CUresult::INVALID_VALUE),
    }
    out.write(value);
    Ok(())
}

pub(crate) fn set_node_attribute(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    attribute: CUkernelNodeAttrID,
    value: In<CUkernelNodeAttrValue>,
) -> Answer {
    let value = value.read().ok_or(CUresult::INVALID_VALUE)?;
    let Params::Kernel(kernel) = turn.params_of(node, NodeKind::Kernel)? else {
        return Err(CUresult::MISSING);
    };
    let mut kernel = NodeKernel::clone(&kernel);
    if attribute == Id::CU_LAUNCH_ATTRIBUTE_PRIORITY {
        // SAFETY: the attribute's number says which view of the union was written.
        kernel.priority = unsafe { value.priority };
    } else {
        let attribute = CUlaunchAttribute { id: attribute, value, ..CUlaunchAttribute::default() };
        kernel = turn.kernel_with(&kernel, &attribute)?;
    }
    turn.replace_kernel(node, kernel)
}

/// Takes the attributes that are kept from another node.
pub(crate) fn copy_attributes(turn: &mut Turn<'_>, to: CUgraphNode, from: CUgraphNode) -> Answer {
    let from = turn.params_of(from, NodeKind::Kernel)?;
    let to_params = turn.params_of(to, NodeKind::Kernel)?;
    let (Params::Kernel(from), Params::Kernel(kernel)) = (from, to_params) else {
        return Err(CUresult::MISSING);
    };
    let kernel = turn.kernel_like(&kernel, &from)?;
    turn.replace_kernel(to, kernel)
}
