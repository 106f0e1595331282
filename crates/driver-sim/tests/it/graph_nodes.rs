//! Nodes of every kind: added, asked, changed, copied.

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, Version, ffi::*},
};

use crate::{
    ask::{Asked, Runs, assert_clean, call, event, get, kinds, primary, sim_with},
    graph_kit::{
        any, child, copy, copy_params, empty, fill, fill_params, graph, host, host_params,
        kernel_node, kernel_params, kind, memory, nodes, registered, run, seeded, words,
    },
};

type Type = CUgraphNodeType;

const VALUE: Asked<()> = Err(CUresult::INVALID_VALUE);

fn with_kernel() -> (Sim, CUcontext, CUkernel) {
    let (sim, context) = seeded(1);
    sim.register_kernel("put", |launch| {
        launch.write(launch.param::<u64>(0)?, launch.param::<u32>(1)?)
    });
    let put = registered(&sim, "put", ".param .u64 at, .param .u32 value");
    (sim, context, put)
}

#[test]
fn a_kernel_node_tells_its_parameters_and_runs_with_others_once_changed() {
    let (sim, context, put) = with_kernel();
    let at = memory(&sim, 1);
    let (mut to, mut value) = (at, 7_u32);
    let mut list = [(&raw mut to).cast(), (&raw mut value).cast()];
    let params = kernel_params(put, context, &mut list);
    let g = graph(&sim);
    let node = kernel_node(&sim, g, &[], params).unwrap();
    value = 8;
    let mut told = CUDA_KERNEL_NODE_PARAMS::default();
    call!(sim, cuGraphKernelNodeGetParams_v2(node, &raw mut told)).unwrap();
    let function: CUfunction = get!(sim, cuKernelGetFunction(out, put)).unwrap();
    assert_eq!((told.kern, told.func, told.ctx, told.gridDimX), (put, function, context, 1));
    // SAFETY: the driver tells a list of two parameters, there until the node ends or is changed.
    let second = unsafe { told.kernelParams.add(1) };
    // SAFETY: as above.
    let second = unsafe { *second };
    // SAFETY: as above, of 4 bytes.
    let second = unsafe { second.cast::<u32>().read_unaligned() };
    assert_eq!((second, value), (7, 8));
    run(&sim, g);
    assert_eq!(words(&sim, at), [7]);
    call!(sim, cuGraphKernelNodeSetParams_v2(node, &raw const params)).unwrap();
    run(&sim, g);
    assert_eq!(words(&sim, at), [8]);
    assert_clean(&sim);
}

#[test]
fn a_kernel_node_needs_a_context_and_one_of_a_function_crashes_without() {
    let (sim, context, put) = with_kernel();
    let (mut to, mut value) = (0_u64, 0_u32);
    let mut list = [(&raw mut to).cast(), (&raw mut value).cast()];
    let g = graph(&sim);
    let function: CUfunction = get!(sim, cuKernelGetFunction(out, put)).unwrap();
    let of_kernel = kernel_params(put, context, &mut list);
    let unnamed = CUDA_KERNEL_NODE_PARAMS { ctx: CUcontext::NULL, ..of_kernel };
    let of_function = CUDA_KERNEL_NODE_PARAMS { func: function, ..of_kernel };
    let node = kernel_node(&sim, g, &[], of_function).unwrap();
    kernel_node(&sim, g, &[], unnamed).unwrap();
    let neither = CUDA_KERNEL_NODE_PARAMS { kern: CUkernel::NULL, ..of_kernel };
    let no_handle = Err(CUresult::INVALID_HANDLE);
    assert_eq!(kernel_node(&sim, g, &[], neither).map(|_| ()), no_handle);
    let cast = CUDA_KERNEL_NODE_PARAMS { func: CUfunction(put.0), ..neither };
    assert_eq!(kernel_node(&sim, g, &[], cast).map(|_| ()), no_handle);
    let flat = CUDA_KERNEL_NODE_PARAMS { gridDimX: 0, ..of_kernel };
    assert_eq!(kernel_node(&sim, g, &[], flat).map(|_| ()), VALUE);
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    kernel_node(&sim, g, &[], of_kernel).unwrap();
    assert_eq!(kernel_node(&sim, g, &[], unnamed), Err(CUresult::INVALID_CONTEXT));
    assert_clean(&sim);
    kernel_node(&sim, g, &[], of_function).unwrap_err();
    call!(sim, cuGraphKernelNodeSetParams_v2(node, &raw const of_function)).unwrap_err();
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::Crash; 2]);
}

#[test]
fn a_kernel_node_has_attributes_and_takes_those_of_another() {
    let (sim, context, put) = with_kernel();
    let (mut to, mut value) = (memory(&sim, 1), 0_u32);
    let mut list = [(&raw mut to).cast(), (&raw mut value).cast()];
    let g = graph(&sim);
    let params = kernel_params(put, context, &mut list);
    let [a, b] = [(); 2].map(|()| kernel_node(&sim, g, &[], params).unwrap());
    let priority = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY;
    let mut value = CUkernelNodeAttrValue::default();
    value.priority = -2;
    call!(sim, cuGraphKernelNodeSetAttribute(a, priority, &raw const value)).unwrap();
    call!(sim, cuGraphKernelNodeCopyAttributes(b, a)).unwrap();
    let mut seen = CUkernelNodeAttrValue::default();
    call!(sim, cuGraphKernelNodeGetAttribute(b, priority, &raw mut seen)).unwrap();
    // SAFETY: the attribute is a number, whatever the bytes are.
    assert_eq!(unsafe { seen.priority }, -2);
    let unknown = CUlaunchAttributeID(999);
    assert_eq!(call!(sim, cuGraphKernelNodeGetAttribute(b, unknown, &raw mut seen)), VALUE);
    let e = empty(&sim, g, &[]).unwrap();
    assert_eq!(call!(sim, cuGraphKernelNodeGetAttribute(e, priority, &raw mut seen)), VALUE);
    assert_clean(&sim);
}

#[test]
fn copies_and_fills_are_told_changed_and_checked() {
    let (sim, context) = seeded(1);
    let (from, to) = (memory(&sim, 4), memory(&sim, 4));
    let g = graph(&sim);
    let filled = fill(&sim, g, &[], fill_params(from, 3, 4)).unwrap();
    let copied = copy(&sim, g, &[filled], copy_params(to, from, 16)).unwrap();
    let mut fill_told = CUDA_MEMSET_NODE_PARAMS::default();
    call!(sim, cuGraphMemsetNodeGetParams(filled, &raw mut fill_told)).unwrap();
    assert_eq!(fill_told, fill_params(from, 3, 4));
    let mut copy_told = CUDA_MEMCPY3D::default();
    call!(sim, cuGraphMemcpyNodeGetParams(copied, &raw mut copy_told)).unwrap();
    assert_eq!(copy_told, copy_params(to, from, 16));
    let wider = fill_params(from, 4, 2);
    call!(sim, cuGraphMemsetNodeSetParams(filled, &raw const wider)).unwrap();
    let less = copy_params(to, from, 8);
    call!(sim, cuGraphMemcpyNodeSetParams(copied, &raw const less)).unwrap();
    run(&sim, g);
    assert_eq!((words(&sim, from), words(&sim, to)), ([4, 4, 0, 0], [4, 4, 0, 0]));
    let mut told = CUDA_MEMCPY3D::default();
    assert_eq!(
        call!(sim, cuGraphMemcpyNodeGetParams(filled, &raw mut told)),
        VALUE,
        "another kind"
    );
    assert_eq!(copy(&sim, g, &[], copy_params(to, from, 0)).map(|_| ()), VALUE);
    let odd = CUDA_MEMSET_NODE_PARAMS { elementSize: 3, ..wider };
    assert_eq!(fill(&sim, g, &[], odd).map(|_| ()), VALUE);
    let no_context = CUcontext::NULL;
    call!(sim, cuCtxSetCurrent(no_context)).unwrap();
    let mut node = CUgraphNode::NULL;
    let (wider, none) = (&raw const wider, std::ptr::null());
    call!(sim, cuGraphAddMemsetNode(&raw mut node, g, none, 0, wider, context)).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_copy_of_boxes_is_done_row_by_row() {
    let (sim, _) = seeded(1);
    let (from, to) = (memory(&sim, 16), memory(&sim, 16));
    let values: Vec<u32> = (0..16).collect();
    call!(sim, cuMemcpyHtoD_v2(from, values.as_ptr().cast(), 64)).unwrap();
    let g = graph(&sim);
    let params = CUDA_MEMCPY3D {
        srcPitch: 16,
        srcHeight: 2,
        dstPitch: 16,
        dstHeight: 2,
        WidthInBytes: 8,
        Height: 2,
        Depth: 2,
        ..copy_params(to, from, 0)
    };
    copy(&sim, g, &[], params).unwrap();
    run(&sim, g);
    assert_eq!(words(&sim, to), [0, 1, 0, 0, 4, 5, 0, 0, 8, 9, 0, 0, 12, 13, 0, 0]);
    assert_clean(&sim);
}

#[test]
fn host_and_event_nodes_are_told_and_changed() {
    let (sim, _) = seeded(1);
    let (first, second) = (Runs::default(), Runs::default());
    let g = graph(&sim);
    let node = host(&sim, g, &[], &first);
    let mut told = CUDA_HOST_NODE_PARAMS::default();
    call!(sim, cuGraphHostNodeGetParams(node, &raw mut told)).unwrap();
    assert_eq!(told.userData, first.data());
    let other = host_params(&second);
    call!(sim, cuGraphHostNodeSetParams(node, &raw const other)).unwrap();
    let (e, f) = (event(&sim), event(&sim));
    let none = std::ptr::null();
    let record: CUgraphNode = get!(sim, cuGraphAddEventRecordNode(out, g, none, 0, e)).unwrap();
    let wait: CUgraphNode = get!(sim, cuGraphAddEventWaitNode(out, g, none, 0, e)).unwrap();
    call!(sim, cuGraphEventRecordNodeSetEvent(record, f)).unwrap();
    call!(sim, cuGraphEventWaitNodeSetEvent(wait, f)).unwrap();
    let told: CUevent = get!(sim, cuGraphEventRecordNodeGetEvent(record, out)).unwrap();
    let waited: CUevent = get!(sim, cuGraphEventWaitNodeGetEvent(wait, out)).unwrap();
    assert_eq!((told, waited), (f, f));
    let wrong: Asked<CUevent> = get!(sim, cuGraphEventRecordNodeGetEvent(wait, out));
    assert_eq!(wrong.map(|_| ()), VALUE);
    assert_eq!(call!(sim, cuGraphEventRecordNodeSetEvent(wait, e)), VALUE);
    let nothing = CUDA_HOST_NODE_PARAMS::default();
    assert_eq!(call!(sim, cuGraphHostNodeSetParams(node, &raw const nothing)), VALUE);
    run(&sim, g);
    assert_eq!((first.count(), second.count()), (0, 1));
    assert_clean(&sim);
}

#[test]
fn a_child_graph_is_copied_into_its_node_and_ends_with_it() {
    let (sim, _) = seeded(1);
    let runs = Runs::default();
    let (g, inner) = (graph(&sim), graph(&sim));
    let original = host(&sim, inner, &[], &runs);
    let node = child(&sim, g, &[], inner).unwrap();
    let embedded: CUgraph = get!(sim, cuGraphChildGraphNodeGetGraph(node, out)).unwrap();
    assert_ne!(embedded, inner);
    let found: CUgraphNode = get!(sim, cuGraphNodeFindInClone(out, original, embedded)).unwrap();
    assert_eq!(nodes(&sim, embedded), [found]);
    // Changes of the original don't show, changes inside do.
    call!(sim, cuGraphDestroy(inner)).unwrap();
    host(&sim, embedded, &[], &runs);
    run(&sim, g);
    assert_eq!(runs.count(), 2);
    assert_eq!(call!(sim, cuGraphDestroy(embedded)), VALUE);
    assert_clean(&sim);
    call!(sim, cuGraphDestroyNode(node)).unwrap();
    let mut count = 0;
    let gone = call!(sim, cuGraphGetNodes(embedded, std::ptr::null_mut(), &raw mut count));
    assert_eq!(gone, VALUE);
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::UseAfterDestroy]);
    assert_eq!(sim.live(ObjectKind::Graph), 1);
}

/// A child node's parameters for a graph of either ownership.
fn child_params(inner: CUgraph, ownership: CUgraphChildGraphNodeOwnership) -> CUgraphNodeParams {
    let mut params =
        CUgraphNodeParams { type_: Type::CU_GRAPH_NODE_TYPE_GRAPH, ..CUgraphNodeParams::default() };
    params.__bindgen_anon_1.graph = CUDA_CHILD_GRAPH_NODE_PARAMS { graph: inner, ownership };
    params
}

const MOVE: CUgraphChildGraphNodeOwnership =
    CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;

#[test]
fn a_child_graph_that_is_moved_keeps_its_handle_and_is_nobody_else_s() {
    let (sim, _) = seeded(1);
    let runs = Runs::default();
    let (g, inner, other) = (graph(&sim), graph(&sim), graph(&sim));
    host(&sim, inner, &[], &runs);
    let node = any(&sim, g, &[], &mut child_params(inner, MOVE)).unwrap();
    let embedded: CUgraph = get!(sim, cuGraphChildGraphNodeGetGraph(node, out)).unwrap();
    assert_eq!(embedded, inner);
    assert_eq!(call!(sim, cuGraphDestroy(inner)), VALUE);
    let unsupported = Err(CUresult::NOT_SUPPORTED);
    assert_eq!(any(&sim, other, &[], &mut child_params(inner, MOVE)).map(|_| ()), unsupported);
    assert_eq!(crate::graph_exec::instantiate(&sim, inner).map(|_| ()), unsupported);
    run(&sim, g);
    assert_eq!(runs.count(), 1);
    call!(sim, cuGraphDestroy(g)).unwrap();
    assert_eq!(sim.live(ObjectKind::Graph), 1);
    assert_clean(&sim);
}

#[test]
fn a_graph_inside_of_itself_crashes_the_driver() {
    let (sim, _) = seeded(1);
    let g = graph(&sim);
    child(&sim, g, &[], g).unwrap_err();
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::Crash]);
    assert_eq!(nodes(&sim, g), []);
}

#[test]
fn a_copy_of_a_graph_has_copies_of_all_that_is_inside() {
    let (sim, _) = seeded(1);
    let runs = Runs::default();
    let (g, middle, inner) = (graph(&sim), graph(&sim), graph(&sim));
    host(&sim, inner, &[], &runs);
    child(&sim, middle, &[], inner).unwrap();
    let first = child(&sim, g, &[], middle).unwrap();
    let last = host(&sim, g, &[], &runs);
    // An edge to a node that was added before.
    call!(sim, cuGraphAddDependencies(g, &raw const last, &raw const first, 1)).unwrap();
    let clone: CUgraph = get!(sim, cuGraphClone(out, g)).unwrap();
    let there: CUgraphNode = get!(sim, cuGraphNodeFindInClone(out, first, clone)).unwrap();
    let mut count = 9;
    call!(sim, cuGraphNodeGetDependencies(there, std::ptr::null_mut(), &raw mut count)).unwrap();
    assert_eq!((count, nodes(&sim, clone).len()), (1, 2));
    call!(sim, cuGraphDestroy(g)).unwrap();
    run(&sim, clone);
    assert_eq!(runs.count(), 2);
    call!(sim, cuGraphDestroy(clone)).unwrap();
    assert_eq!(sim.live(ObjectKind::Graph), 2);
    assert_clean(&sim);
}

#[test]
fn any_kind_of_node_is_added_and_changed_by_parameters_that_say_which() {
    let (sim, context) = seeded(1);
    let at = memory(&sim, 2);
    let g = graph(&sim);
    let runs = Runs::default();
    let mut params = CUgraphNodeParams {
        type_: Type::CU_GRAPH_NODE_TYPE_MEMSET,
        ..CUgraphNodeParams::default()
    };
    params.__bindgen_anon_1.memset = CUDA_MEMSET_NODE_PARAMS_v2 {
        dst: at,
        value: 5,
        elementSize: 4,
        width: 1,
        height: 1,
        ctx: context,
        ..CUDA_MEMSET_NODE_PARAMS_v2::default()
    };
    let node = any(&sim, g, &[], &mut params).unwrap();
    params.__bindgen_anon_1.memset.width = 2;
    call!(sim, cuGraphNodeSetParams(node, &raw mut params)).unwrap();
    let mut hosted =
        CUgraphNodeParams { type_: Type::CU_GRAPH_NODE_TYPE_HOST, ..CUgraphNodeParams::default() };
    let of_host = host_params(&runs);
    hosted.__bindgen_anon_1.host = CUDA_HOST_NODE_PARAMS_v2 {
        fn_: of_host.fn_,
        userData: of_host.userData,
        ..CUDA_HOST_NODE_PARAMS_v2::default()
    };
    let other = any(&sim, g, &[node], &mut hosted).unwrap();
    assert_eq!(kind(&sim, other), Type::CU_GRAPH_NODE_TYPE_HOST);
    assert_eq!(call!(sim, cuGraphNodeSetParams(other, &raw mut params)), VALUE, "another kind");
    params.reserved2 = 1;
    assert_eq!(call!(sim, cuGraphNodeSetParams(node, &raw mut params)), VALUE);
    params.reserved2 = 0;
    params.type_ = CUgraphNodeType(99);
    assert_eq!(any(&sim, g, &[], &mut params).map(|_| ()), VALUE);
    run(&sim, g);
    assert_eq!((runs.count(), words(&sim, at)), (1, [5, 5]));
    assert_clean(&sim);
}

#[test]
fn batches_of_values_are_written_and_waited_for_in_a_graph() {
    let (sim, context) = seeded(3);
    let at = memory(&sim, 1);
    let operation = |kind, value: u32| {
        let mut operation = CUstreamBatchMemOpParams::default();
        operation.waitValue = CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st {
            operation: kind,
            address: at,
            ..CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st::default()
        };
        operation.waitValue.__bindgen_anon_1.value64 = value.into();
        operation
    };
    let g = graph(&sim);
    let batch = |operations: &mut [CUstreamBatchMemOpParams]| CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: context,
        count: operations.len().try_into().unwrap(),
        paramArray: operations.as_mut_ptr(),
        flags: 0,
    };
    type Kind = CUstreamBatchMemOpType;
    let add = |params: CUDA_BATCH_MEM_OP_NODE_PARAMS| -> Asked<CUgraphNode> {
        get!(sim, cuGraphAddBatchMemOpNode(out, g, std::ptr::null(), 0, &raw const params))
    };
    let wait = add(batch(&mut [operation(Kind::CU_STREAM_MEM_OP_WAIT_VALUE_32, 2)])).unwrap();
    let mut write = [operation(Kind::CU_STREAM_MEM_OP_WRITE_VALUE_32, 2)];
    let written = add(batch(&mut write)).unwrap();
    add(batch(&mut [])).unwrap();
    let unnamed = CUDA_BATCH_MEM_OP_NODE_PARAMS { ctx: CUcontext::NULL, ..batch(&mut write) };
    assert_eq!(add(unnamed).map(|_| ()), VALUE);
    let mut told = CUDA_BATCH_MEM_OP_NODE_PARAMS::default();
    call!(sim, cuGraphBatchMemOpNodeGetParams(written, &raw mut told)).unwrap();
    assert_eq!((told.ctx, told.count, told.paramArray.is_null()), (context, 1, false));
    write[0].waitValue.__bindgen_anon_1.value64 = 3;
    let params = batch(&mut write);
    call!(sim, cuGraphBatchMemOpNodeSetParams(written, &raw const params)).unwrap();
    assert_eq!(kind(&sim, wait), Type::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    run(&sim, g);
    assert_eq!(words(&sim, at), [3]);
    assert_clean(&sim);
}

#[test]
fn semaphores_of_other_apis_are_signalled_and_waited_for_in_a_graph() {
    let (sim, context) = seeded(1);
    let mut semaphore = sim.plant_external_semaphore(context);
    let g = graph(&sim);
    let mut signal = CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS::default();
    signal.params.fence.value = 4;
    let mut wait = CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS::default();
    wait.params.fence.value = 4;
    let signals = CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
        extSemArray: &raw mut semaphore,
        paramsArray: &raw const signal,
        numExtSems: 1,
    };
    let waits = CUDA_EXT_SEM_WAIT_NODE_PARAMS {
        extSemArray: &raw mut semaphore,
        paramsArray: &raw const wait,
        numExtSems: 1,
    };
    let none = std::ptr::null();
    let waiting: CUgraphNode =
        get!(sim, cuGraphAddExternalSemaphoresWaitNode(out, g, none, 0, &raw const waits)).unwrap();
    let signalling: CUgraphNode =
        get!(sim, cuGraphAddExternalSemaphoresSignalNode(out, g, none, 0, &raw const signals))
            .unwrap();
    let mut told = CUDA_EXT_SEM_SIGNAL_NODE_PARAMS::default();
    call!(sim, cuGraphExternalSemaphoresSignalNodeGetParams(signalling, &raw mut told)).unwrap();
    assert_eq!(told.numExtSems, 1);
    // SAFETY: the driver tells an array of one, there until the node ends.
    assert_eq!(unsafe { (*told.paramsArray).params.fence.value }, 4);
    call!(sim, cuGraphExternalSemaphoresSignalNodeSetParams(signalling, &raw const signals))
        .unwrap();
    call!(sim, cuGraphExternalSemaphoresWaitNodeSetParams(waiting, &raw const waits)).unwrap();
    let mut told = CUDA_EXT_SEM_WAIT_NODE_PARAMS::default();
    call!(sim, cuGraphExternalSemaphoresWaitNodeGetParams(waiting, &raw mut told)).unwrap();
    let nothing = CUDA_EXT_SEM_WAIT_NODE_PARAMS { numExtSems: 0, ..waits };
    assert_eq!(told.numExtSems, 1);
    call!(sim, cuGraphExternalSemaphoresWaitNodeSetParams(waiting, &raw const nothing)).unwrap();
    run(&sim, g);
    assert_clean(&sim);
}

#[test]
fn what_drivers_of_13_1_and_later_tell_of_nodes_is_told() {
    let mut options = SimOptions::default();
    options.driver_version = Version(13_020);
    let sim = sim_with(options);
    call!(sim, cuCtxSetCurrent(primary(&sim, 0))).unwrap();
    let g = graph(&sim);
    let (a, b) = (empty(&sim, g, &[]).unwrap(), empty(&sim, g, &[]).unwrap());
    let inside: CUgraph = get!(sim, cuGraphNodeGetContainingGraph(a, out)).unwrap();
    let ids = [a, b].map(|node| -> u32 { get!(sim, cuGraphNodeGetLocalId(node, out)).unwrap() });
    let tools = [a, b].map(|node| -> u64 { get!(sim, cuGraphNodeGetToolsId(node, out)).unwrap() });
    let graph_id: u32 = get!(sim, cuGraphGetId(g, out)).unwrap();
    let exec = run(&sim, g);
    let exec_id: u32 = get!(sim, cuGraphExecGetId(exec, out)).unwrap();
    assert_eq!((inside, ids), (g, [0, 1]));
    assert!(tools[0] != tools[1] && graph_id != 0 && exec_id != 0);
    let mut told = CUgraphNodeParams::default();
    call!(sim, cuGraphNodeGetParams(a, &raw mut told)).unwrap();
    assert_eq!(told.type_, Type::CU_GRAPH_NODE_TYPE_EMPTY);
    let (sim, _) = seeded(1);
    let old: Asked<u32> = get!(sim, cuGraphGetId(graph(&sim), out));
    assert_eq!(old, Err(CUresult::MISSING));
    assert_clean(&sim);
}

#[test]
fn a_picture_of_a_graph_names_its_nodes_and_edges() {
    let (sim, _) = seeded(1);
    let g = graph(&sim);
    let a = empty(&sim, g, &[]).unwrap();
    empty(&sim, g, &[a]).unwrap();
    let path = std::env::temp_dir().join(format!("cuhold-sim-{}.dot", std::process::id()));
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    call!(sim, cuGraphDebugDotPrint(g, name.as_ptr(), 0)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(text.starts_with("digraph") && text.contains("->") && text.contains("Empty"), "{text}");
    let nowhere = c"/nonexistent/folder/graph.dot".as_ptr();
    assert_eq!(call!(sim, cuGraphDebugDotPrint(g, nowhere, 0)), Err(CUresult::OPERATING_SYSTEM));
    assert_eq!(call!(sim, cuGraphDebugDotPrint(g, std::ptr::null(), 0)), VALUE);
}

#[test]
fn captured_work_is_told_as_nodes_are() {
    let (sim, _, put) = with_kernel();
    let at = memory(&sim, 2);
    let s = crate::ask::stream(&sim, crate::ask::NON_BLOCKING);
    let g = crate::graph_exec::captured(&sim, s, || {
        call!(sim, cuMemsetD16Async(at, 9, 4, s)).unwrap();
        call!(sim, cuMemcpyDtoDAsync_v2(at + 4, at, 4, s)).unwrap();
        let (mut to, mut value) = (at, 7_u32);
        let mut list = [(&raw mut to).cast(), (&raw mut value).cast::<c_void>()];
        let (put, none) = (CUfunction(put.0), std::ptr::null_mut());
        call!(sim, cuLaunchKernel(put, 2, 1, 1, 1, 1, 1, 0, s, list.as_mut_ptr(), none)).unwrap();
    });
    let [filled, copied, launched] = nodes(&sim, g).try_into().unwrap();
    let mut fill = CUDA_MEMSET_NODE_PARAMS::default();
    call!(sim, cuGraphMemsetNodeGetParams(filled, &raw mut fill)).unwrap();
    assert_eq!((fill.dst, fill.value, fill.elementSize, fill.width, fill.height), (at, 9, 2, 4, 1));
    let mut copy = CUDA_MEMCPY3D::default();
    call!(sim, cuGraphMemcpyNodeGetParams(copied, &raw mut copy)).unwrap();
    assert_eq!((copy.dstDevice, copy.srcDevice, copy.WidthInBytes), (at + 4, at, 4));
    let mut kernel = CUDA_KERNEL_NODE_PARAMS::default();
    call!(sim, cuGraphKernelNodeGetParams_v2(launched, &raw mut kernel)).unwrap();
    assert_eq!((kernel.gridDimX, kernel.kernelParams.is_null()), (2, false));
    run(&sim, g);
    assert_eq!(words(&sim, at), [7, 0x0009_0009]);
    assert_clean(&sim);
}

#[test]
fn a_node_of_an_event_names_one_and_an_empty_node_leaves_nothing_behind() {
    let (sim, _) = seeded(1);
    let (g, none) = (graph(&sim), std::ptr::null());
    let event = CUevent::NULL;
    let record: Asked<CUgraphNode> = get!(sim, cuGraphAddEventRecordNode(out, g, none, 0, event));
    let wait: Asked<CUgraphNode> = get!(sim, cuGraphAddEventWaitNode(out, g, none, 0, event));
    assert_eq!([record, wait].map(|added| added.map(|_| ())), [VALUE, VALUE]);
    let mut params =
        CUgraphNodeParams { type_: Type::CU_GRAPH_NODE_TYPE_EMPTY, ..CUgraphNodeParams::default() };
    let node = any(&sim, g, &[], &mut params).unwrap();
    call!(sim, cuGraphNodeSetParams(node, &raw mut params)).unwrap();
    let mut words = [0; 29];
    words[28] = 1;
    params.__bindgen_anon_1.reserved1 = words;
    assert_eq!(any(&sim, g, &[], &mut params).map(|_| ()), VALUE);
    assert_clean(&sim);
}
