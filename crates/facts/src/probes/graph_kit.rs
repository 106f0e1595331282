//! Graphs as probes build them.

use core::{
    ptr::{null, null_mut},
    sync::atomic::AtomicU32,
};

use cuhold_driver_sys::ffi::*;

use crate::{ctx::Ctx, host, setup::Made};

/// A node that counts its runs.
pub(super) fn host_node(c: &Ctx, graph: CUgraph, ran: &'static AtomicU32) -> Made<CUgraphNode> {
    let params = host_params(ran);
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddHostNode(&raw mut node, graph, null(), 0, &raw const params));
    Ok(node)
}

pub(super) fn host_params(ran: &'static AtomicU32) -> CUDA_HOST_NODE_PARAMS {
    CUDA_HOST_NODE_PARAMS { fn_: Some(host::count), userData: host::user(ran) }
}

pub(super) fn fill_params(to: CUdeviceptr, value: u32, words: usize) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS { dst: to, pitch: 0, value, elementSize: 4, width: words, height: 1 }
}

/// A node that fills words.
pub(super) fn fill_node(
    c: &Ctx,
    graph: CUgraph,
    params: CUDA_MEMSET_NODE_PARAMS,
) -> Made<CUgraphNode> {
    let context = c.what_is_current()?;
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddMemsetNode(&raw mut node, graph, null(), 0, &raw const params, context));
    Ok(node)
}

/// A copy of a row on the device.
pub(super) fn copy_params(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: from,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstDevice: to,
        WidthInBytes: bytes,
        Height: 1,
        Depth: 1,
        ..CUDA_MEMCPY3D::default()
    }
}

/// A node that copies.
pub(super) fn copy_node(c: &Ctx, graph: CUgraph, params: CUDA_MEMCPY3D) -> Made<CUgraphNode> {
    let context = c.what_is_current()?;
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddMemcpyNode(&raw mut node, graph, null(), 0, &raw const params, context));
    Ok(node)
}

/// One thread of a kernel without parameters.
pub(super) fn kernel_params(kernel: CUkernel, context: CUcontext) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        kern: kernel,
        ctx: context,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        ..CUDA_KERNEL_NODE_PARAMS::default()
    }
}

/// A node of the kernel that does nothing, and its parameters.
pub(super) fn kernel_node(c: &Ctx, graph: CUgraph) -> Made<(CUgraphNode, CUDA_KERNEL_NODE_PARAMS)> {
    let params = kernel_params(c.kernel(c"nop")?, c.what_is_current()?);
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddKernelNode_v2(&raw mut node, graph, null(), 0, &raw const params));
    Ok((node, params))
}

/// A node with a copy of a graph inside.
pub(super) fn child_node(c: &Ctx, graph: CUgraph, inner: CUgraph) -> Made<CUgraphNode> {
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddChildGraphNode(&raw mut node, graph, null(), 0, inner));
    Ok(node)
}

pub(super) fn instantiate(c: &Ctx, graph: CUgraph) -> Made<CUgraphExec> {
    let mut exec = CUgraphExec::NULL;
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS::default();
    must!(c.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut params));
    Ok(exec)
}

/// Why a graph isn't made executable: the status, the result, and whether a node is named.
pub(super) fn ask_to_instantiate(c: &mut Ctx, graph: CUgraph, label: &str) -> CUgraphNode {
    let mut exec = CUgraphExec::NULL;
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS {
        result_out: CUgraphInstantiateResult(99),
        ..CUDA_GRAPH_INSTANTIATE_PARAMS::default()
    };
    ask!(c.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut params), label);
    c.note("result", params.result_out.0);
    c.holds("node", !params.hErrNode_out.is_null());
    params.hErrNode_out
}

/// Launches an executable and waits for it.
pub(super) fn launch(c: &mut Ctx, exec: CUgraphExec) -> Made<()> {
    let stream = c.stream()?;
    ask!(c.cuGraphLaunch(exec, stream), "launch");
    ask!(c.cuStreamSynchronize(stream), "synchronize");
    Ok(())
}

/// The first word of device memory.
pub(super) fn word(c: &Ctx, from: CUdeviceptr) -> Made<u32> {
    let mut value = 0_u32;
    must!(c.cuMemcpyDtoH_v2((&raw mut value).cast(), from, 4));
    Ok(value)
}

/// Device memory with a first word of 0.
pub(super) fn zeroed(c: &Ctx, words: usize) -> Made<CUdeviceptr> {
    let memory = c.memory(words * 4)?;
    must!(c.cuMemsetD32_v2(memory, 0, words));
    must!(c.cuCtxSynchronize());
    Ok(memory)
}

/// How many nodes a graph has.
pub(super) fn count_nodes(c: &Ctx, graph: CUgraph) -> Made<usize> {
    let mut count = 0;
    must!(c.cuGraphGetNodes(graph, null_mut(), &raw mut count));
    Ok(count)
}

/// Parameters of any kind of node, with nothing in them yet.
pub(super) fn any_params(kind: CUgraphNodeType) -> CUgraphNodeParams {
    CUgraphNodeParams { type_: kind, ..CUgraphNodeParams::default() }
}

/// A condition that begins each launch with a value.
pub(super) fn condition(c: &Ctx, graph: CUgraph, value: u32) -> Made<CUgraphConditionalHandle> {
    let context = c.what_is_current()?;
    let mut handle = 0;
    let flags = CU_GRAPH_COND_ASSIGN_DEFAULT;
    must!(c.cuGraphConditionalHandleCreate(&raw mut handle, graph, context, value, flags));
    Ok(handle)
}

pub(super) fn conditional_params(
    c: &Ctx,
    handle: CUgraphConditionalHandle,
    kind: CUgraphConditionalNodeType,
    size: u32,
) -> Made<CUgraphNodeParams> {
    let mut params = any_params(CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL);
    params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
        handle,
        type_: kind,
        size,
        ctx: c.what_is_current()?,
        ..CUDA_CONDITIONAL_NODE_PARAMS::default()
    };
    Ok(params)
}

/// A conditional node with one body, which is done if the condition isn't 0.
pub(super) fn if_node(
    c: &Ctx,
    graph: CUgraph,
    handle: CUgraphConditionalHandle,
) -> Made<(CUgraphNode, CUgraph)> {
    let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
    let mut params = conditional_params(c, handle, kind, 1)?;
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddNode_v2(&raw mut node, graph, null(), null(), 0, &raw mut params));
    Ok((node, bodies(&params).first().copied().unwrap_or(CUgraph::NULL)))
}

/// The bodies that a driver told of a conditional node.
pub(super) fn bodies(params: &CUgraphNodeParams) -> Vec<CUgraph> {
    // SAFETY: the driver wrote this view of the union.
    let told = unsafe { params.__bindgen_anon_1.conditional };
    if told.phGraph_out.is_null() {
        return Vec::new();
    }
    let size = usize::try_from(told.size).unwrap_or(0);
    // SAFETY: the driver tells an array of as many graphs, there until the node ends.
    unsafe { core::slice::from_raw_parts(told.phGraph_out, size) }.to_vec()
}
