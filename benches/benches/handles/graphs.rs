//! Graphs: nodes that are added, executables that are launched and changed.

use crate::{Bed, launch::PTX};
use criterion::Criterion;
use cuhold::{Buffer, Graph, Kernel, LaunchConfig, driver_sys::ffi::*};
use cuhold_benches::{Subject, compare};
use std::{cell::RefCell, ptr};

/// Nodes that are added to a graph before it is thrown away.
const NODES: u64 = 500;

fn shape() -> LaunchConfig {
    LaunchConfig::new([1, 1, 1], [32, 1, 1])
}

/// The same as CUDA describes it; `values` are the addresses of the arguments.
fn params(bed: &Bed, kernel: &Kernel, values: *mut *mut c_void) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: CUfunction::NULL,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: values,
        extra: ptr::null_mut(),
        kern: kernel.as_raw(),
        ctx: bed.device.context().as_raw(),
    }
}

pub(crate) fn benches(criterion: &mut Criterion, bed: &Bed) {
    launches(criterion, bed);
    changes(criterion, bed);
    nodes(criterion, bed);
}

/// An executable of one kernel that does nothing.
fn launches(criterion: &mut Criterion, bed: &Bed) {
    let nop = bed.device.load(PTX).unwrap().kernel("nop").unwrap();
    let (stream, raw_stream) = (bed.device.new_stream().unwrap(), bed.raw.new_stream());
    let mut graph = Graph::new(bed.device.context()).unwrap();
    // SAFETY: the kernel has no parameters and touches no memory.
    unsafe { graph.kernel(&[], &nop, shape(), ()) }.unwrap();
    let (mut exec, other) = (graph.instantiate().unwrap(), graph.instantiate().unwrap());
    let raw = other.as_raw();
    let peer = bed.peer.as_ref().map(|peer| {
        let module = peer.context.load_module(cudarc::nvrtc::Ptx::from_src(PTX)).unwrap();
        let (stream, function) =
            (peer.context.new_stream().unwrap(), module.load_function("nop").unwrap());
        let mode = cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        stream.begin_capture(mode).unwrap();
        let config = cudarc::driver::LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the kernel has no parameters and touches no memory.
        unsafe { stream.launch_builder(&function).launch(config) }.unwrap();
        let flags = cudarc::driver::sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        (stream.end_capture(flags).unwrap().unwrap(), stream)
    });
    let mut subjects = vec![
        Subject::new("raw", || bed.raw.cuGraphLaunch(raw, raw_stream))
            .settle(|| bed.raw.cuStreamSynchronize(raw_stream)),
        Subject::new("cuhold", || exec.launch(&stream).unwrap())
            .settle(|| stream.synchronize().unwrap()),
    ];
    if let Some((graph, stream)) = &peer {
        subjects.push(
            Subject::new("cudarc", || graph.launch().unwrap())
                .settle(|| stream.synchronize().unwrap()),
        );
    }
    compare(criterion, "graph_launch", 500, subjects);
    bed.raw.cuStreamDestroy_v2(raw_stream);
}

/// The arguments of an executable's kernel node are changed, with a buffer among them that is kept.
fn changes(criterion: &mut Criterion, bed: &Bed) {
    let kernel = bed.device.load(PTX).unwrap().kernel("nop3").unwrap();
    let stream = bed.device.new_stream().unwrap();
    let buffer = Buffer::<u32>::zeroed(&stream, 8).unwrap();
    let mut graph = Graph::new(bed.device.context()).unwrap();
    let args = || (&buffer, &buffer, 1_u32);
    // SAFETY: the kernel touches no memory.
    let node = unsafe { graph.kernel(&[], &kernel, shape(), args()) }.unwrap();
    let mut exec = graph.instantiate().unwrap();
    let mut raw_graph = CUgraph::NULL;
    bed.raw.cuGraphCreate(&raw mut raw_graph, 0);
    let (mut address, mut word) = (buffer.device_ptr(), 1_u32);
    let mut values: [*mut c_void; 3] =
        [(&raw mut address).cast(), (&raw mut address).cast(), (&raw mut word).cast()];
    let params = params(bed, &kernel, values.as_mut_ptr());
    let mut raw_node = CUgraphNode::NULL;
    bed.raw.cuGraphAddKernelNode_v2(
        &raw mut raw_node,
        raw_graph,
        ptr::null(),
        0,
        &raw const params,
    );
    let raw_exec = bed.raw.instantiate(raw_graph);
    let subjects = vec![
        Subject::new("raw", || {
            bed.raw.cuGraphExecKernelNodeSetParams_v2(raw_exec, raw_node, &raw const params);
        }),
        Subject::new("cuhold", || {
            // SAFETY: as above.
            unsafe { exec.set_kernel(&graph, node, &kernel, shape(), args()) }.unwrap();
        }),
    ];
    compare(criterion, "graph_set_kernel", 500, subjects);
    bed.raw.cuGraphExecDestroy(raw_exec);
    bed.raw.cuGraphDestroy(raw_graph);
}

/// Kernel nodes are added, with a buffer among the arguments that is kept.
fn nodes(criterion: &mut Criterion, bed: &Bed) {
    let kernel = bed.device.load(PTX).unwrap().kernel("nop3").unwrap();
    let stream = bed.device.new_stream().unwrap();
    let buffer = Buffer::<u32>::zeroed(&stream, 8).unwrap();
    let new_raw = || {
        let mut graph = CUgraph::NULL;
        bed.raw.cuGraphCreate(&raw mut graph, 0);
        graph
    };
    let raw_graph = RefCell::new(new_raw());
    let (mut address, mut word) = (buffer.device_ptr(), 1_u32);
    let mut values: [*mut c_void; 3] =
        [(&raw mut address).cast(), (&raw mut address).cast(), (&raw mut word).cast()];
    let params = params(bed, &kernel, values.as_mut_ptr());
    let new = || Graph::new(bed.device.context()).unwrap();
    let graph = RefCell::new(new());
    let subjects = vec![
        Subject::new("raw", || {
            let (mut node, graph) = (CUgraphNode::NULL, *raw_graph.borrow());
            bed.raw.cuGraphAddKernelNode_v2(
                &raw mut node,
                graph,
                ptr::null(),
                0,
                &raw const params,
            );
        })
        .settle(|| bed.raw.cuGraphDestroy(raw_graph.replace(new_raw()))),
        Subject::new("cuhold", || {
            // SAFETY: the kernel touches no memory.
            unsafe { graph.borrow_mut().kernel(&[], &kernel, shape(), (&buffer, &buffer, 1_u32)) }
                .unwrap();
        })
        .settle(|| drop(graph.replace(new()))),
    ];
    compare(criterion, "graph_node", NODES, subjects);
    bed.raw.cuGraphDestroy(raw_graph.into_inner());
}
