//! Graphs as tests build them: nodes behind nodes, launched and waited for.

use cuhold_driver_sim::{
    Sim, SimOptions,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::{
    ask::{Asked, NON_BLOCKING, Runs, call, count, get, primary, sim_with, stream},
    code::{kernel, library},
    graph_exec::instantiate,
};

pub(crate) fn graph(sim: &Sim) -> CUgraph {
    get!(sim, cuGraphCreate(out, 0)).unwrap()
}

/// A driver with the primary context current, whose orders are drawn with this seed.
pub(crate) fn seeded(seed: u64) -> (Sim, CUcontext) {
    let mut options = SimOptions::default();
    options.seed = seed;
    let sim = sim_with(options);
    let context = primary(&sim, 0);
    call!(sim, cuCtxSetCurrent(context)).unwrap();
    (sim, context)
}

pub(crate) fn empty(sim: &Sim, graph: CUgraph, after: &[CUgraphNode]) -> Asked<CUgraphNode> {
    get!(sim, cuGraphAddEmptyNode(out, graph, after.as_ptr(), after.len()))
}

pub(crate) fn host_params(runs: &Runs) -> CUDA_HOST_NODE_PARAMS {
    CUDA_HOST_NODE_PARAMS { fn_: Some(count), userData: runs.data() }
}

/// A node that counts.
pub(crate) fn host(sim: &Sim, graph: CUgraph, after: &[CUgraphNode], runs: &Runs) -> CUgraphNode {
    let params = host_params(runs);
    get!(sim, cuGraphAddHostNode(out, graph, after.as_ptr(), after.len(), &raw const params))
        .unwrap()
}

/// `words` times `value`, at an address.
pub(crate) fn fill_params(to: CUdeviceptr, value: u32, words: usize) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS { dst: to, pitch: 0, value, elementSize: 4, width: words, height: 1 }
}

/// A node that fills.
pub(crate) fn fill(
    sim: &Sim,
    graph: CUgraph,
    after: &[CUgraphNode],
    params: CUDA_MEMSET_NODE_PARAMS,
) -> Asked<CUgraphNode> {
    let context = crate::ask::current(sim);
    get!(
        sim,
        cuGraphAddMemsetNode(out, graph, after.as_ptr(), after.len(), &raw const params, context)
    )
}

/// A copy of a row on the device.
pub(crate) fn copy_params(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> CUDA_MEMCPY3D {
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
pub(crate) fn copy(
    sim: &Sim,
    graph: CUgraph,
    after: &[CUgraphNode],
    params: CUDA_MEMCPY3D,
) -> Asked<CUgraphNode> {
    let context = crate::ask::current(sim);
    get!(
        sim,
        cuGraphAddMemcpyNode(out, graph, after.as_ptr(), after.len(), &raw const params, context)
    )
}

pub(crate) fn child(
    sim: &Sim,
    graph: CUgraph,
    after: &[CUgraphNode],
    inner: CUgraph,
) -> Asked<CUgraphNode> {
    get!(sim, cuGraphAddChildGraphNode(out, graph, after.as_ptr(), after.len(), inner))
}

/// A node of any kind, with the parameters as the driver left them.
pub(crate) fn any(
    sim: &Sim,
    graph: CUgraph,
    after: &[CUgraphNode],
    params: &mut CUgraphNodeParams,
) -> Asked<CUgraphNode> {
    let no_data = std::ptr::null();
    get!(sim, cuGraphAddNode_v2(out, graph, after.as_ptr(), no_data, after.len(), params))
}

/// A kernel of this name, with parameters of these bytes each.
pub(crate) fn registered(sim: &Sim, name: &str, params: &str) -> CUkernel {
    let image = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {name}({params}) {{ ret; }}\0"
    );
    kernel(sim, library(sim, image.as_bytes()).unwrap(), name).unwrap()
}

/// A kernel node's parameters: one thread.
pub(crate) fn kernel_params(
    kernel: CUkernel,
    context: CUcontext,
    list: &mut [*mut c_void],
) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        kern: kernel,
        ctx: context,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        kernelParams: if list.is_empty() { std::ptr::null_mut() } else { list.as_mut_ptr() },
        ..CUDA_KERNEL_NODE_PARAMS::default()
    }
}

pub(crate) fn kernel_node(
    sim: &Sim,
    graph: CUgraph,
    after: &[CUgraphNode],
    params: CUDA_KERNEL_NODE_PARAMS,
) -> Asked<CUgraphNode> {
    get!(sim, cuGraphAddKernelNode_v2(out, graph, after.as_ptr(), after.len(), &raw const params))
}

/// Makes a graph executable and runs it once.
pub(crate) fn run(sim: &Sim, graph: CUgraph) -> CUgraphExec {
    let exec = instantiate(sim, graph).unwrap();
    launch(sim, exec).unwrap();
    exec
}

/// Launches, and waits for the end.
pub(crate) fn launch(sim: &Sim, exec: CUgraphExec) -> Asked<()> {
    let stream = stream(sim, NON_BLOCKING);
    call!(sim, cuGraphLaunch(exec, stream))?;
    call!(sim, cuStreamSynchronize(stream))?;
    call!(sim, cuStreamDestroy_v2(stream))
}

pub(crate) fn memory(sim: &Sim, words: usize) -> CUdeviceptr {
    let address: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, words * 4)).unwrap();
    call!(sim, cuMemsetD32_v2(address, 0, words)).unwrap();
    call!(sim, cuCtxSynchronize()).unwrap();
    address
}

pub(crate) fn words<const N: usize>(sim: &Sim, from: CUdeviceptr) -> [u32; N] {
    let mut words = [0; N];
    call!(sim, cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), from, N * 4)).unwrap();
    words
}

pub(crate) fn nodes(sim: &Sim, graph: CUgraph) -> Vec<CUgraphNode> {
    let mut number: usize = get!(sim, cuGraphGetNodes(graph, std::ptr::null_mut(), out)).unwrap();
    let mut nodes = vec![CUgraphNode::NULL; number];
    call!(sim, cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut number)).unwrap();
    nodes
}

pub(crate) fn kind(sim: &Sim, node: CUgraphNode) -> CUgraphNodeType {
    let mut kind = CUgraphNodeType(99);
    call!(sim, cuGraphNodeGetType(node, &raw mut kind)).unwrap();
    kind
}

/// Why a graph isn't made executable: the status, the result and the node.
pub(crate) fn refused(sim: &Sim, graph: CUgraph) -> (CUresult, u32, CUgraphNode) {
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS::default();
    let made: Asked<CUgraphExec> =
        get!(sim, cuGraphInstantiateWithParams(out, graph, &raw mut params));
    (made.unwrap_err(), params.result_out.0, params.hErrNode_out)
}
