//! Executables that are changed: as a whole, node by node, and nodes left out.

use cuhold_driver_sim::{
    ObjectKind, Sim, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::{
    ask::{
        Asked, NON_BLOCKING, Runs, assert_clean, call, context, count, event, get, kinds, stream,
    },
    graph_exec::instantiate,
    graph_kit::{
        any, child, copy, copy_params, empty, fill, fill_params, graph, host, host_params,
        kernel_node, kernel_params, launch, memory, registered, run, seeded, words,
    },
};

const VALUE: Asked<()> = Err(CUresult::INVALID_VALUE);

/// The status, the result and the node of a whole update.
fn update(sim: &Sim, exec: CUgraphExec, graph: CUgraph) -> (Asked<()>, u32, CUgraphNode) {
    let mut info = CUgraphExecUpdateResultInfo::default();
    info.result.0 = 99;
    let answer = call!(sim, cuGraphExecUpdate_v2(exec, graph, &raw mut info));
    (answer, info.result.0, info.errorNode)
}

const FAILED: Asked<()> = Err(CUresult::GRAPH_EXEC_UPDATE_FAILURE);

#[test]
fn a_whole_update_takes_what_another_graph_does_and_lets_go_what_the_old_one_held() {
    let (sim, _) = seeded(1);
    let (at, ended) = (memory(&sim, 1), Runs::default());
    let graph_of = |value| {
        let g = graph(&sim);
        let first = fill(&sim, g, &[], fill_params(at, value, 1)).unwrap();
        empty(&sim, g, &[first]).unwrap();
        let object: CUuserObject =
            get!(sim, cuUserObjectCreate(out, ended.data(), Some(count), 1, 1)).unwrap();
        call!(sim, cuGraphRetainUserObject(g, object, 1, 1)).unwrap();
        g
    };
    let (one, two) = (graph_of(1), graph_of(2));
    let exec = instantiate(&sim, one).unwrap();
    call!(sim, cuGraphDestroy(one)).unwrap();
    assert_eq!(ended.count(), 0);
    assert_eq!(update(&sim, exec, two), (Ok(()), 0, CUgraphNode::NULL));
    assert_eq!(ended.count(), 1);
    call!(sim, cuGraphDestroy(two)).unwrap();
    launch(&sim, exec).unwrap();
    assert_eq!((words(&sim, at), ended.count()), ([2], 1));
    call!(sim, cuGraphExecDestroy(exec)).unwrap();
    assert_eq!((ended.count(), sim.live(ObjectKind::UserObject)), (2, 0));
    assert_clean(&sim);
}

#[test]
fn a_whole_update_that_fails_says_why_and_changes_nothing() {
    let (sim, _) = seeded(1);
    let (at, runs) = (memory(&sim, 2), Runs::default());
    let g = graph(&sim);
    let first = fill(&sim, g, &[], fill_params(at, 1, 1)).unwrap();
    empty(&sim, g, &[first]).unwrap();
    let exec = instantiate(&sim, g).unwrap();
    let other = graph(&sim);
    assert_eq!(update(&sim, exec, other), (FAILED, 2, CUgraphNode::NULL), "fewer nodes");
    let first = fill(&sim, other, &[], fill_params(at, 2, 1)).unwrap();
    let loose = empty(&sim, other, &[]).unwrap();
    assert_eq!(update(&sim, exec, other), (FAILED, 2, CUgraphNode::NULL), "another edge");
    let nowhere = call!(sim, cuGraphExecUpdate_v2(exec, other, std::ptr::null_mut()));
    assert_eq!(nowhere, FAILED, "where it failed needn't be told");
    call!(sim, cuGraphDestroyNode(loose)).unwrap();
    let hosted = host(&sim, other, &[first], &runs);
    assert_eq!(update(&sim, exec, other), (FAILED, 3, hosted), "another kind");
    call!(sim, cuGraphDestroyNode(hosted)).unwrap();
    call!(sim, cuGraphDestroyNode(first)).unwrap();
    let rows = CUDA_MEMSET_NODE_PARAMS { height: 2, pitch: 4, ..fill_params(at, 1, 1) };
    let first = fill(&sim, other, &[], rows).unwrap();
    empty(&sim, other, &[first]).unwrap();
    assert_eq!(update(&sim, exec, other), (FAILED, 5, first), "other rows");
    let last = crate::graph_kit::nodes(&sim, other)[1];
    call!(sim, cuGraphAddDependencies(other, &raw const last, &raw const first, 1)).unwrap();
    assert_eq!(update(&sim, exec, other).1, 1, "a cycle");
    launch(&sim, exec).unwrap();
    assert_eq!((words(&sim, at), runs.count()), ([1, 0], 0));
    call!(sim, cuGraphExecUpdate_v2(exec, g, std::ptr::null_mut())).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_kernel_of_another_context_is_an_unsupported_change() {
    let (sim, primary) = seeded(1);
    sim.register_kernel("nop", |_| Ok(()));
    let nop = registered(&sim, "nop", "");
    let other = context(&sim);
    let graph_in = |context| {
        let g = graph(&sim);
        let node = kernel_node(&sim, g, &[], kernel_params(nop, context, &mut [])).unwrap();
        (g, node)
    };
    let ((here, node), (there, foreign)) = (graph_in(primary), graph_in(other));
    let exec = instantiate(&sim, here).unwrap();
    assert_eq!(update(&sim, exec, there), (FAILED, 7, foreign));
    let params = kernel_params(nop, other, &mut []);
    assert_eq!(call!(sim, cuGraphExecKernelNodeSetParams_v2(exec, node, &raw const params)), VALUE);
    assert_clean(&sim);
}

#[test]
fn nodes_of_an_executable_are_changed_and_its_graph_s_are_not() {
    let (sim, context) = seeded(1);
    let (at, to) = (memory(&sim, 2), memory(&sim, 2));
    let (old, new) = (Runs::default(), Runs::default());
    let g = graph(&sim);
    let filled = fill(&sim, g, &[], fill_params(at, 1, 2)).unwrap();
    let copied = copy(&sim, g, &[filled], copy_params(to, at, 8)).unwrap();
    let hosted = host(&sim, g, &[copied], &old);
    let exec = instantiate(&sim, g).unwrap();
    let other = fill_params(at, 2, 1);
    call!(sim, cuGraphExecMemsetNodeSetParams(exec, filled, &raw const other, context)).unwrap();
    let less = copy_params(to, at, 4);
    call!(sim, cuGraphExecMemcpyNodeSetParams(exec, copied, &raw const less, context)).unwrap();
    let params = host_params(&new);
    call!(sim, cuGraphExecHostNodeSetParams(exec, hosted, &raw const params)).unwrap();
    launch(&sim, exec).unwrap();
    assert_eq!((words(&sim, at), words(&sim, to)), ([2, 0], [2, 0]));
    assert_eq!((old.count(), new.count()), (0, 1));
    run(&sim, g);
    assert_eq!((words(&sim, to), old.count()), ([1, 1], 1));
    let rows = CUDA_MEMSET_NODE_PARAMS { height: 2, pitch: 4, ..other };
    let refused =
        call!(sim, cuGraphExecMemsetNodeSetParams(exec, filled, &raw const rows, context));
    assert_eq!(refused, VALUE);
    let refused = call!(sim, cuGraphExecHostNodeSetParams(exec, filled, &raw const params));
    assert_eq!(refused, VALUE, "another kind");
    let foreign = host(&sim, graph(&sim), &[], &old);
    let refused = call!(sim, cuGraphExecHostNodeSetParams(exec, foreign, &raw const params));
    assert_eq!(refused, VALUE, "another graph's");
    let unmade = host(&sim, g, &[], &old);
    let refused = call!(sim, cuGraphExecHostNodeSetParams(exec, unmade, &raw const params));
    assert_eq!(refused, VALUE, "added since");
    assert_clean(&sim);
    call!(sim, cuGraphDestroyNode(hosted)).unwrap();
    call!(sim, cuGraphExecHostNodeSetParams(exec, hosted, &raw const params)).unwrap_err();
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::UseAfterDestroy]);
}

#[test]
fn events_of_an_executable_s_nodes_are_changed() {
    let (sim, _) = seeded(1);
    let (e, f) = (event(&sim), event(&sim));
    let g = graph(&sim);
    let none = std::ptr::null();
    let record: CUgraphNode = get!(sim, cuGraphAddEventRecordNode(out, g, none, 0, e)).unwrap();
    let wait: CUgraphNode = get!(sim, cuGraphAddEventWaitNode(out, g, none, 0, e)).unwrap();
    let exec = instantiate(&sim, g).unwrap();
    call!(sim, cuGraphExecEventRecordNodeSetEvent(exec, record, f)).unwrap();
    call!(sim, cuGraphExecEventWaitNodeSetEvent(exec, wait, f)).unwrap();
    assert_eq!(call!(sim, cuGraphExecEventWaitNodeSetEvent(exec, record, f)), VALUE);
    let s = stream(&sim, NON_BLOCKING);
    let runs = Runs::default();
    runs.queue(&sim, s).unwrap();
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    let asked = [e, f].map(|event| call!(sim, cuEventQuery(event)));
    assert_eq!(asked, [Ok(()), Err(CUresult::NOT_READY)]);
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_child_graph_of_an_executable_is_changed_for_one_of_the_same_shape() {
    let (sim, _) = seeded(1);
    let at = memory(&sim, 1);
    let inner_of = |value| {
        let inner = graph(&sim);
        fill(&sim, inner, &[], fill_params(at, value, 1)).unwrap();
        inner
    };
    let g = graph(&sim);
    let node = child(&sim, g, &[], inner_of(1)).unwrap();
    let exec = instantiate(&sim, g).unwrap();
    call!(sim, cuGraphExecChildGraphNodeSetParams(exec, node, inner_of(2))).unwrap();
    launch(&sim, exec).unwrap();
    assert_eq!(words(&sim, at), [2]);
    let embedded: CUgraph = get!(sim, cuGraphChildGraphNodeGetGraph(node, out)).unwrap();
    let inside = crate::graph_kit::nodes(&sim, embedded)[0];
    let other = fill_params(at, 3, 1);
    let ctx = crate::ask::current(&sim);
    call!(sim, cuGraphExecMemsetNodeSetParams(exec, inside, &raw const other, ctx)).unwrap();
    launch(&sim, exec).unwrap();
    assert_eq!(words(&sim, at), [3]);
    let longer = inner_of(4);
    empty(&sim, longer, &[]).unwrap();
    assert_eq!(call!(sim, cuGraphExecChildGraphNodeSetParams(exec, node, longer)), FAILED);
    assert_clean(&sim);
}

#[test]
fn any_kind_of_node_is_changed_by_parameters_that_say_which_but_memory_and_conditions() {
    let (sim, _) = seeded(1);
    let (old, new) = (Runs::default(), Runs::default());
    let g = graph(&sim);
    let hosted = host(&sim, g, &[], &old);
    let (memory, _) = crate::graph_memory::alloc(&sim, g, &[], 4).unwrap();
    let exec = instantiate(&sim, g).unwrap();
    let mut params = CUgraphNodeParams {
        type_: CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST,
        ..CUgraphNodeParams::default()
    };
    let of_host = host_params(&new);
    params.__bindgen_anon_1.host = CUDA_HOST_NODE_PARAMS_v2 {
        fn_: of_host.fn_,
        userData: of_host.userData,
        ..CUDA_HOST_NODE_PARAMS_v2::default()
    };
    call!(sim, cuGraphExecNodeSetParams(exec, hosted, &raw mut params)).unwrap();
    assert_eq!(call!(sim, cuGraphExecNodeSetParams(exec, memory, &raw mut params)), VALUE);
    params.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    let refused = Err(CUresult::NOT_SUPPORTED);
    assert_eq!(call!(sim, cuGraphExecNodeSetParams(exec, memory, &raw mut params)), refused);
    assert_eq!(call!(sim, cuGraphNodeSetParams(memory, &raw mut params)), refused);
    launch(&sim, exec).unwrap();
    assert_eq!((old.count(), new.count()), (0, 1));
    assert_clean(&sim);
}

#[test]
fn a_node_that_is_left_out_does_nothing_and_what_is_behind_it_goes_on() {
    let (sim, _) = seeded(1);
    let at = memory(&sim, 2);
    let g = graph(&sim);
    let first = fill(&sim, g, &[], fill_params(at, 1, 1)).unwrap();
    let second = fill(&sim, g, &[first], fill_params(at + 4, 1, 1)).unwrap();
    let hosted = host(&sim, g, &[second], &Runs::default());
    let exec = instantiate(&sim, g).unwrap();
    let enabled = || -> u32 { get!(sim, cuGraphNodeGetEnabled(exec, first, out)).unwrap() };
    assert_eq!(enabled(), 1);
    call!(sim, cuGraphNodeSetEnabled(exec, first, 0)).unwrap();
    assert_eq!(enabled(), 0);
    launch(&sim, exec).unwrap();
    assert_eq!(words(&sim, at), [0, 1]);
    // A change keeps it left out.
    let other = fill_params(at, 7, 1);
    let ctx = crate::ask::current(&sim);
    call!(sim, cuGraphExecMemsetNodeSetParams(exec, first, &raw const other, ctx)).unwrap();
    launch(&sim, exec).unwrap();
    assert_eq!(words(&sim, at), [0, 1]);
    call!(sim, cuGraphNodeSetEnabled(exec, first, 1)).unwrap();
    launch(&sim, exec).unwrap();
    assert_eq!(words(&sim, at), [7, 1]);
    assert_eq!(call!(sim, cuGraphNodeSetEnabled(exec, hosted, 0)), VALUE, "no host function");
    assert_clean(&sim);
}

#[test]
fn a_launch_under_way_does_what_it_was_launched_with() {
    let (sim, ctx) = seeded(1);
    let at = memory(&sim, 1);
    let g = graph(&sim);
    let node = fill(&sim, g, &[], fill_params(at, 1, 1)).unwrap();
    let exec = instantiate(&sim, g).unwrap();
    let s = stream(&sim, NON_BLOCKING);
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    let other = fill_params(at, 2, 1);
    call!(sim, cuGraphExecMemsetNodeSetParams(exec, node, &raw const other, ctx)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_eq!(words(&sim, at), [1]);
    launch(&sim, exec).unwrap();
    assert_eq!(words(&sim, at), [2]);
    let mut unknown = CUgraphNodeParams { type_: CUgraphNodeType(50), ..Default::default() };
    assert_eq!(any(&sim, g, &[], &mut unknown).map(|_| ()), VALUE);
    assert_clean(&sim);
}
