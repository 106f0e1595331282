//! What stands behind what in a graph.

use cuhold_driver_sim::{
    Sim, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::{
    ask::{Asked, assert_clean, call, get, kinds, sim},
    graph_kit::{empty, graph, nodes, seeded},
};

const NONE: CUgraphNode = CUgraphNode::NULL;

fn add(sim: &Sim, graph: CUgraph, from: &[CUgraphNode], to: &[CUgraphNode]) -> Asked<()> {
    call!(sim, cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), from.len()))
}

fn remove(sim: &Sim, graph: CUgraph, from: &[CUgraphNode], to: &[CUgraphNode]) -> Asked<()> {
    call!(sim, cuGraphRemoveDependencies(graph, from.as_ptr(), to.as_ptr(), from.len()))
}

fn edges(sim: &Sim, graph: CUgraph) -> Vec<(CUgraphNode, CUgraphNode)> {
    let (mut from, mut to, mut count) = ([NONE; 8], [NONE; 8], 8);
    call!(sim, cuGraphGetEdges(graph, from.as_mut_ptr(), to.as_mut_ptr(), &raw mut count)).unwrap();
    from.into_iter().zip(to).take(count).collect()
}

#[test]
fn edges_are_listed_from_both_of_their_ends() {
    let sim = sim();
    let g = graph(&sim);
    let (a, b) = (empty(&sim, g, &[]).unwrap(), empty(&sim, g, &[]).unwrap());
    let c = empty(&sim, g, &[a]).unwrap();
    add(&sim, g, &[b], &[c]).unwrap();
    assert_eq!(edges(&sim, g), [(a, c), (b, c)]);
    let (mut list, mut count) = ([NONE; 3], 3);
    call!(sim, cuGraphNodeGetDependencies(c, list.as_mut_ptr(), &raw mut count)).unwrap();
    assert_eq!((list, count), ([a, b, NONE], 2));
    let none = std::ptr::null_mut();
    count = 3;
    call!(sim, cuGraphNodeGetDependentNodes(b, list.as_mut_ptr(), &raw mut count)).unwrap();
    assert_eq!((list, count), ([c, NONE, NONE], 1));
    call!(sim, cuGraphNodeGetDependentNodes(c, none, &raw mut count)).unwrap();
    assert_eq!(count, 0);
    remove(&sim, g, &[a], &[c]).unwrap();
    assert_eq!(edges(&sim, g), [(b, c)]);
    assert_eq!(remove(&sim, g, &[a], &[c]), Err(CUresult::INVALID_VALUE));
    assert_clean(&sim);
}

#[test]
fn an_edge_is_refused_twice_to_itself_and_between_graphs() {
    let sim = sim();
    let (g, other) = (graph(&sim), graph(&sim));
    let (a, foreign) = (empty(&sim, g, &[]).unwrap(), empty(&sim, other, &[]).unwrap());
    let b = empty(&sim, g, &[a]).unwrap();
    let refused = Err(CUresult::INVALID_VALUE);
    assert_eq!(add(&sim, g, &[a], &[b]), refused);
    assert_eq!(add(&sim, g, &[a], &[a]), refused);
    assert_eq!(add(&sim, g, &[a], &[foreign]), refused);
    assert_eq!(add(&sim, g, &[a], &[NONE]), refused);
    assert_eq!(edges(&sim, g), [(a, b)]);
    assert_clean(&sim);
}

#[test]
fn a_call_with_an_edge_that_is_refused_adds_and_removes_none() {
    let sim = sim();
    let g = graph(&sim);
    let [a, b, c, d] = [(); 4].map(|()| empty(&sim, g, &[]).unwrap());
    let added = add(&sim, g, &[a, b, b, c], &[b, b, c, d]);
    assert_eq!(added, Err(CUresult::INVALID_VALUE));
    assert_eq!(edges(&sim, g), []);
    add(&sim, g, &[a, b], &[b, c]).unwrap();
    assert_eq!(remove(&sim, g, &[a, a], &[b, b]), Err(CUresult::INVALID_VALUE));
    assert_eq!(edges(&sim, g), [(a, b), (b, c)]);
    add(&sim, g, &[], &[]).unwrap();
}

#[test]
fn a_cycle_is_found_when_the_graph_is_made_executable() {
    let (sim, _) = seeded(1);
    let g = graph(&sim);
    let a = empty(&sim, g, &[]).unwrap();
    let b = empty(&sim, g, &[a]).unwrap();
    add(&sim, g, &[b], &[a]).unwrap();
    let invalid_structure = 2;
    let told = crate::graph_kit::refused(&sim, g);
    assert_eq!(told, (CUresult::INVALID_VALUE, invalid_structure, b));
    remove(&sim, g, &[b], &[a]).unwrap();
    crate::graph_kit::run(&sim, g);
    assert_clean(&sim);
}

#[test]
fn data_of_edges_fits_their_nodes_and_is_not_lost() {
    let (sim, context) = seeded(1);
    sim.register_kernel("nop", |_| Ok(()));
    let nop = crate::graph_kit::registered(&sim, "nop", "");
    let g = graph(&sim);
    let kernel = || {
        let params = crate::graph_kit::kernel_params(nop, context, &mut []);
        crate::graph_kit::kernel_node(&sim, g, &[], params).unwrap()
    };
    let (a, b, e) = (kernel(), kernel(), empty(&sim, g, &[]).unwrap());
    let programmatic = CUgraphEdgeData { from_port: 1, type_: 1, ..CUgraphEdgeData::default() };
    let with = |from: CUgraphNode, to: CUgraphNode, data: CUgraphEdgeData| {
        call!(sim, cuGraphAddDependencies_v2(g, &raw const from, &raw const to, &raw const data, 1))
    };
    let refused = Err(CUresult::INVALID_VALUE);
    assert_eq!(with(e, b, programmatic), refused, "not a kernel's port");
    assert_eq!(with(a, e, programmatic), refused, "not to a kernel");
    assert_eq!(with(a, b, CUgraphEdgeData { from_port: 3, ..programmatic }), refused);
    assert_eq!(with(a, b, CUgraphEdgeData { to_port: 1, ..programmatic }), refused);
    with(a, b, programmatic).unwrap();
    let (mut from, mut to, mut count) = ([NONE; 2], [NONE; 2], 2);
    let (from_at, to_at) = (from.as_mut_ptr(), to.as_mut_ptr());
    let lossy = call!(sim, cuGraphGetEdges(g, from_at, to_at, &raw mut count));
    assert_eq!(lossy, Err(CUresult::LOSSY_QUERY));
    let mut data = [CUgraphEdgeData::default(); 2];
    call!(sim, cuGraphGetEdges_v2(g, from_at, to_at, data.as_mut_ptr(), &raw mut count)).unwrap();
    assert_eq!((count, from[0], to[0], data[0]), (1, a, b, programmatic));
    let list = data.as_ptr();
    let other = [CUgraphEdgeData { type_: 0, ..programmatic }];
    let removed = call!(sim, cuGraphRemoveDependencies_v2(g, from_at, to_at, other.as_ptr(), 1));
    assert_eq!(removed, refused, "another edge between the two isn't there");
    remove(&sim, g, &[a], &[b]).unwrap();
    with(a, b, programmatic).unwrap();
    call!(sim, cuGraphRemoveDependencies_v2(g, from_at, to_at, list, 1)).unwrap();
    assert_eq!(edges(&sim, g), []);
    assert_clean(&sim);
}

#[test]
fn a_node_that_was_taken_out_leaves_no_edges_and_is_a_stale_handle() {
    let sim = sim();
    let g = graph(&sim);
    let a = empty(&sim, g, &[]).unwrap();
    let b = empty(&sim, g, &[a]).unwrap();
    let c = empty(&sim, g, &[b]).unwrap();
    call!(sim, cuGraphDestroyNode(b)).unwrap();
    assert_eq!((edges(&sim, g), nodes(&sim, g)), (Vec::new(), vec![a, c]));
    assert_clean(&sim);
    let again = call!(sim, cuGraphDestroyNode(b));
    assert_eq!(again, Err(CUresult::INVALID_VALUE));
    assert_eq!(add(&sim, g, &[a], &[b]), Err(CUresult::INVALID_VALUE));
    assert_eq!(
        kinds(&sim.take_violations()),
        [ViolationKind::DoubleDestroy, ViolationKind::UseAfterDestroy]
    );
}

#[test]
fn a_capture_goes_on_behind_nodes_that_were_added_by_hand() {
    let (sim, _) = seeded(1);
    let s = crate::ask::stream(&sim, crate::ask::NON_BLOCKING);
    let g = graph(&sim);
    let (a, b) = (empty(&sim, g, &[]).unwrap(), empty(&sim, g, &[]).unwrap());
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let no_data = std::ptr::null();
    call!(sim, cuStreamBeginCaptureToGraph(s, g, &raw const a, no_data, 1, mode)).unwrap();
    let runs = crate::ask::Runs::default();
    runs.queue(&sim, s).unwrap();
    let mut set = [b];
    let replace = 1;
    call!(sim, cuStreamUpdateCaptureDependencies(s, set.as_mut_ptr(), 1, replace)).unwrap();
    runs.queue(&sim, s).unwrap();
    let (mut status, mut told) = (CUstreamCaptureStatus(9), (0, std::ptr::null(), 0_usize));
    let (mut id, mut data): (u64, *const CUgraphEdgeData) = (0, std::ptr::null());
    call!(
        sim,
        cuStreamGetCaptureInfo_v3(
            s,
            &raw mut status,
            &raw mut id,
            std::ptr::null_mut(),
            &raw mut told.1,
            &raw mut data,
            &raw mut told.2
        )
    )
    .unwrap();
    let last = nodes(&sim, g)[3];
    // SAFETY: the driver lent out one node, which is there until the stream is asked again.
    let lent = unsafe { *told.1 };
    assert_eq!((told.2, lent, data.is_null()), (1, last, false));
    told.0 = 1;
    let (ended, same) = crate::capture::end(&sim, s);
    ended.unwrap();
    assert_eq!((same, edges(&sim, g)), (g, vec![(a, nodes(&sim, g)[2]), (b, last)]));
    let found: Asked<CUgraphNode> = get!(sim, cuGraphNodeFindInClone(out, a, g));
    assert_eq!(found, Err(CUresult::INVALID_VALUE));
    crate::graph_kit::run(&sim, g);
    assert_eq!((runs.count(), told.0), (2, 1));
    assert_clean(&sim);
}
