//! Conditional nodes: bodies by a number that kernels set.

use cuhold_driver_sim::{
    ObjectKind, Sim, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::{
    ask::{Asked, NON_BLOCKING, Runs, assert_clean, call, event, get, kinds, stream},
    capture::end,
    graph_exec::instantiate,
    graph_kit::{
        any, child, empty, fill, fill_params, graph, host, kernel_node, kernel_params, launch,
        memory, nodes, refused, registered, run, seeded, words,
    },
};

type Kind = CUgraphConditionalNodeType;

const VALUE: Asked<()> = Err(CUresult::INVALID_VALUE);
const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;

pub(crate) fn condition(sim: &Sim, graph: CUgraph, default: u32) -> CUgraphConditionalHandle {
    let context = crate::ask::current(sim);
    get!(
        sim,
        cuGraphConditionalHandleCreate(out, graph, context, default, CU_GRAPH_COND_ASSIGN_DEFAULT)
    )
    .unwrap()
}

/// A conditional node with its bodies.
pub(crate) fn conditional(
    sim: &Sim,
    graph: CUgraph,
    after: &[CUgraphNode],
    (handle, kind, size): (CUgraphConditionalHandle, Kind, u32),
) -> Asked<(CUgraphNode, Vec<CUgraph>)> {
    let mut params = CUgraphNodeParams {
        type_: CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL,
        ..CUgraphNodeParams::default()
    };
    params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
        handle,
        type_: kind,
        size,
        ctx: crate::ask::current(sim),
        ..CUDA_CONDITIONAL_NODE_PARAMS::default()
    };
    let node = any(sim, graph, after, &mut params)?;
    // SAFETY: the driver wrote this view of the union.
    let told = unsafe { params.__bindgen_anon_1.conditional };
    // SAFETY: the driver tells an array of as many graphs, there until the node ends.
    let bodies = unsafe { std::slice::from_raw_parts(told.phGraph_out, size as usize) };
    Ok((node, bodies.to_vec()))
}

const IF: Kind = Kind::CU_GRAPH_COND_TYPE_IF;
const WHILE: Kind = Kind::CU_GRAPH_COND_TYPE_WHILE;
const SWITCH: Kind = Kind::CU_GRAPH_COND_TYPE_SWITCH;

#[test]
fn a_body_is_done_or_the_other_by_what_the_condition_begins_with() {
    for (default, expected) in [(1, [7, 0]), (0, [0, 8]), (5, [7, 0])] {
        let (sim, _) = seeded(1);
        let at = memory(&sim, 2);
        let g = graph(&sim);
        let handle = condition(&sim, g, default);
        let (_, bodies) = conditional(&sim, g, &[], (handle, IF, 2)).unwrap();
        fill(&sim, bodies[0], &[], fill_params(at, 7, 1)).unwrap();
        fill(&sim, bodies[1], &[], fill_params(at + 4, 8, 1)).unwrap();
        run(&sim, g);
        assert_eq!(words(&sim, at), expected, "{default}");
        assert_clean(&sim);
    }
}

#[test]
fn a_switch_takes_the_body_of_its_number_or_none() {
    for default in 0..4 {
        let (sim, _) = seeded(1);
        let at = memory(&sim, 3);
        let g = graph(&sim);
        let handle = condition(&sim, g, default);
        let (_, bodies) = conditional(&sim, g, &[], (handle, SWITCH, 3)).unwrap();
        for (body, place) in bodies.into_iter().zip(0_u64..) {
            fill(&sim, body, &[], fill_params(at + place * 4, 1, 1)).unwrap();
        }
        run(&sim, g);
        let mut expected = [0; 3];
        if let Some(word) = expected.get_mut(default as usize) {
            *word = 1;
        }
        assert_eq!(words(&sim, at), expected);
        assert_clean(&sim);
    }
}

/// A driver with a kernel that counts down and sets a condition by whether something is left.
fn counting() -> (Sim, CUcontext, CUkernel) {
    let (sim, context) = seeded(7);
    sim.register_kernel("count_down", |launch| {
        let (handle, counter) = (launch.param::<u64>(0)?, launch.param::<u64>(1)?);
        let left = launch.read::<u32>(counter)?.saturating_sub(1);
        launch.write(counter, left)?;
        launch.write(counter + 4, launch.read::<u32>(counter + 4)? + 1)?;
        launch.set_condition(handle, u32::from(left > 0));
        Ok(())
    });
    let kernel = registered(&sim, "count_down", ".param .u64 handle, .param .u64 counter");
    (sim, context, kernel)
}

fn count_down(
    sim: &Sim,
    graph: CUgraph,
    kernel: (CUkernel, CUcontext),
    (handle, counter): (u64, CUdeviceptr),
) -> CUgraphNode {
    let (mut handle, mut counter) = (handle, counter);
    let mut list = [(&raw mut handle).cast(), (&raw mut counter).cast()];
    kernel_node(sim, graph, &[], kernel_params(kernel.0, kernel.1, &mut list)).unwrap()
}

#[test]
fn a_loop_goes_on_until_a_kernel_in_it_says_otherwise_at_each_launch() {
    let (sim, context, kernel) = counting();
    let counter = memory(&sim, 2);
    let (g, runs) = (graph(&sim), Runs::default());
    let handle = condition(&sim, g, 1);
    let first = fill(&sim, g, &[], fill_params(counter, 10, 1)).unwrap();
    let (node, bodies) = conditional(&sim, g, &[first], (handle, WHILE, 1)).unwrap();
    count_down(&sim, bodies[0], (kernel, context), (handle, counter));
    host(&sim, g, &[node], &runs);
    let exec = run(&sim, g);
    assert_eq!((words(&sim, counter), runs.count()), ([0, 10], 1));
    launch(&sim, exec).unwrap();
    assert_eq!((words(&sim, counter), runs.count()), ([0, 20], 2));
    assert_clean(&sim);
}

#[test]
fn a_loop_s_body_may_be_a_graph_that_was_captured_apart_with_its_condition_inside() {
    let (sim, context, kernel) = counting();
    let counter = memory(&sim, 2);
    call!(sim, cuMemsetD32_v2(counter, 3, 1)).unwrap();
    call!(sim, cuCtxSynchronize()).unwrap();
    let (g, s) = (graph(&sim), stream(&sim, NON_BLOCKING));
    let handle = condition(&sim, g, 1);
    let (_, bodies) = conditional(&sim, g, &[], (handle, WHILE, 1)).unwrap();
    let apart = crate::graph_exec::captured(&sim, s, || {
        let (mut handle, mut at) = (handle, counter);
        let mut list = [(&raw mut handle).cast(), (&raw mut at).cast::<c_void>()];
        let (kernel, none) = (CUfunction(kernel.0), std::ptr::null_mut());
        call!(sim, cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, s, list.as_mut_ptr(), none))
            .unwrap();
    });
    child(&sim, bodies[0], &[], apart).unwrap();
    call!(sim, cuGraphDestroy(apart)).unwrap();
    run(&sim, g);
    assert_eq!(words(&sim, counter), [0, 3]);
    let _context = context;
    assert_clean(&sim);
}

#[test]
fn conditions_nest_and_may_be_those_of_the_graph_outside() {
    let (sim, _) = seeded(1);
    let at = memory(&sim, 1);
    let g = graph(&sim);
    let (outer, inner) = (condition(&sim, g, 1), condition(&sim, g, 1));
    let (_, bodies) = conditional(&sim, g, &[], (outer, IF, 1)).unwrap();
    let own = condition(&sim, bodies[0], 1);
    let (_, second) = conditional(&sim, bodies[0], &[], (inner, IF, 1)).unwrap();
    let (_, third) = conditional(&sim, second[0], &[], (own, IF, 1)).unwrap();
    fill(&sim, third[0], &[], fill_params(at, 9, 1)).unwrap();
    run(&sim, g);
    assert_eq!(words(&sim, at), [9]);
    let other = graph(&sim);
    assert_eq!(conditional(&sim, other, &[], (outer, IF, 1)).map(|_| ()), VALUE, "not inside");
    assert_clean(&sim);
}

#[test]
fn sizes_and_handles_of_conditional_nodes_are_checked() {
    let (sim, context) = seeded(1);
    let g = graph(&sim);
    let handle = condition(&sim, g, 0);
    for (kind, size) in
        [(IF, 0), (IF, 3), (WHILE, 2), (SWITCH, 0), (CUgraphConditionalNodeType(9), 1)]
    {
        assert_eq!(conditional(&sim, g, &[], (handle, kind, size)).map(|_| ()), VALUE, "{size}");
    }
    assert_eq!(conditional(&sim, g, &[], (0, IF, 1)).map(|_| ()), VALUE);
    let flags: Asked<u64> = get!(sim, cuGraphConditionalHandleCreate(out, g, context, 0, 2));
    assert_eq!(flags.map(|_| ()), VALUE);
    assert_clean(&sim);
    assert_eq!(conditional(&sim, g, &[], (77, IF, 1)).map(|_| ()), VALUE);
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::UnknownHandle]);
    assert_eq!(sim.live(ObjectKind::Graph), 1);
}

#[test]
fn a_condition_that_no_node_uses_keeps_the_graph_from_being_made_executable() {
    let (sim, _) = seeded(1);
    let g = graph(&sim);
    let handle = condition(&sim, g, 0);
    let handle_unused = 5;
    assert_eq!(refused(&sim, g), (CUresult::INVALID_VALUE, handle_unused, CUgraphNode::NULL));
    conditional(&sim, g, &[], (handle, IF, 1)).unwrap();
    run(&sim, g);
    assert_clean(&sim);
}

#[test]
fn a_graph_with_a_conditional_node_is_neither_copied_nor_moved_nor_twice_executable() {
    let (sim, _) = seeded(1);
    let (g, outer) = (graph(&sim), graph(&sim));
    let handle = condition(&sim, g, 0);
    let (node, bodies) = conditional(&sim, g, &[], (handle, IF, 1)).unwrap();
    let unsupported = Err(CUresult::NOT_SUPPORTED);
    let clone: Asked<CUgraph> = get!(sim, cuGraphClone(out, g));
    assert_eq!(clone.map(|_| ()), unsupported);
    assert_eq!(child(&sim, outer, &[], g).map(|_| ()), unsupported);
    assert_eq!(call!(sim, cuGraphDestroy(bodies[0])), VALUE);
    let exec = instantiate(&sim, g).unwrap();
    assert_eq!(instantiate(&sim, g).map(|_| ()), unsupported);
    call!(sim, cuGraphExecDestroy(exec)).unwrap();
    instantiate(&sim, g).unwrap();
    call!(sim, cuGraphDestroyNode(node)).unwrap();
    assert_eq!((nodes(&sim, g), sim.live(ObjectKind::Graph)), (Vec::new(), 2));
    assert_clean(&sim);
}

#[test]
fn nodes_that_a_body_may_not_hold_are_found_when_it_is_made_executable() {
    let (sim, _) = seeded(1);
    let (runs, e) = (Runs::default(), event(&sim));
    let not_supported = 3;
    let expect = |body: &dyn Fn(CUgraph) -> CUgraphNode| {
        let g = graph(&sim);
        let handle = condition(&sim, g, 0);
        let (_, bodies) = conditional(&sim, g, &[], (handle, IF, 1)).unwrap();
        let node = body(bodies[0]);
        assert_eq!(refused(&sim, g), (CUresult::INVALID_VALUE, not_supported, node));
    };
    expect(&|body| host(&sim, body, &[], &runs));
    expect(&|body| {
        get!(sim, cuGraphAddEventRecordNode(out, body, std::ptr::null(), 0, e)).unwrap()
    });
    expect(&|body| crate::graph_memory::alloc(&sim, body, &[], 64).unwrap().0);
    assert_clean(&sim);
}

/// A graph with a conditional node, whose body was captured into and then invalidated.
fn poisoned(sim: &Sim) -> (CUgraph, CUgraphNode, CUgraph) {
    let g = graph(sim);
    let handle = condition(sim, g, 1);
    let (node, bodies) = conditional(sim, g, &[], (handle, IF, 1)).unwrap();
    let body = bodies.first().copied().unwrap();
    let s = stream(sim, NON_BLOCKING);
    let (none, no_data) = (std::ptr::null(), std::ptr::null());
    call!(sim, cuStreamBeginCaptureToGraph(s, body, none, no_data, 0, GLOBAL)).unwrap();
    let refused: Asked<CUdeviceptr> = get!(sim, cuMemAlloc_v2(out, 64));
    refused.unwrap_err();
    assert_eq!(end(sim, s).0, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
    (g, node, body)
}

#[test]
fn a_body_whose_capture_was_invalidated_is_gone_under_its_node_and_what_follows_it_crashes() {
    let (sim, _) = seeded(1);
    let (g, node, body) = poisoned(&sim);
    assert_eq!((nodes(&sim, g), crate::graph_kit::kind(&sim, node).0), (vec![node], 13));
    assert_clean(&sim);
    let mut count = 0;
    let asked = call!(sim, cuGraphGetNodes(body, std::ptr::null_mut(), &raw mut count));
    assert_eq!(asked, VALUE);
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::UseAfterDestroy]);
    instantiate(&sim, g).unwrap_err();
    call!(sim, cuGraphDestroyNode(node)).unwrap_err();
    call!(sim, cuGraphDestroy(g)).unwrap_err();
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::Crash; 3]);
    // Left alone it harms nobody (measured).
    let (healthy, runs) = (graph(&sim), Runs::default());
    host(&sim, healthy, &[], &runs);
    run(&sim, healthy);
    assert_eq!(runs.count(), 1);
    assert_clean(&sim);
}

#[test]
fn a_graph_whose_body_is_being_captured_is_not_destroyed() {
    let (sim, _) = seeded(1);
    let g = graph(&sim);
    let handle = condition(&sim, g, 1);
    let (node, bodies) = conditional(&sim, g, &[], (handle, IF, 1)).unwrap();
    let (s, at) = (stream(&sim, NON_BLOCKING), memory(&sim, 1));
    let (none, no_data) = (std::ptr::null(), std::ptr::null());
    call!(sim, cuStreamBeginCaptureToGraph(s, bodies[0], none, no_data, 0, GLOBAL)).unwrap();
    call!(sim, cuMemsetD32Async(at, 6, 1, s)).unwrap();
    let state = Err(CUresult::ILLEGAL_STATE);
    assert_eq!(call!(sim, cuGraphDestroy(g)), state);
    assert_eq!(call!(sim, cuGraphDestroyNode(node)), state);
    let (ended, same) = end(&sim, s);
    ended.unwrap();
    assert_eq!(same, bodies[0]);
    run(&sim, g);
    assert_eq!(words(&sim, at), [6]);
    let _unused = empty(&sim, g, &[]).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_kernel_that_sets_a_condition_that_is_gone_is_a_violation() {
    let (sim, context, kernel) = counting();
    let counter = memory(&sim, 2);
    let (g, other) = (graph(&sim), graph(&sim));
    let handle = condition(&sim, other, 1);
    call!(sim, cuGraphDestroy(other)).unwrap();
    count_down(&sim, g, (kernel, context), (handle, counter));
    run(&sim, g);
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::UnknownHandle]);
}
