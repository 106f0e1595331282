//! Graphs and user objects.

use cuhold_driver_sim::{
    ObjectKind, Sim, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use std::{
    sync::Mutex,
    thread::{self, ThreadId},
};

use crate::ask::{Asked, Runs, assert_clean, call, count, get, kinds, sim};

fn graph(sim: &Sim) -> CUgraph {
    get!(sim, cuGraphCreate(out, 0)).unwrap()
}

fn user_object(sim: &Sim, runs: &Runs, references: c_uint) -> CUuserObject {
    get!(sim, cuUserObjectCreate(out, runs.data(), Some(count), references, 1)).unwrap()
}

#[test]
fn a_graph_is_made_and_destroyed_without_a_context() {
    let sim = sim();
    let g = graph(&sim);
    assert_eq!(sim.live(ObjectKind::Graph), 1);
    call!(sim, cuGraphDestroy(g)).unwrap();
    assert_eq!(sim.live(ObjectKind::Graph), 0);
    assert_clean(&sim);
}

#[test]
fn a_graph_destroyed_twice_is_refused() {
    let sim = sim();
    let g = graph(&sim);
    call!(sim, cuGraphDestroy(g)).unwrap();
    assert_eq!(call!(sim, cuGraphDestroy(g)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::DoubleDestroy]);
    assert_eq!(call!(sim, cuGraphDestroy(CUgraph::NULL)), Err(CUresult::INVALID_VALUE));
    let bad: Asked<CUgraph> = get!(sim, cuGraphCreate(out, 1));
    assert_eq!(bad, Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_user_object_s_destructor_runs_with_the_last_reference() {
    let (sim, runs) = (sim(), Runs::default());
    let u = user_object(&sim, &runs, 2);
    call!(sim, cuUserObjectRetain(u, 1)).unwrap();
    call!(sim, cuUserObjectRelease(u, 2)).unwrap();
    assert_eq!(runs.count(), 0);
    call!(sim, cuUserObjectRelease(u, 1)).unwrap();
    assert_eq!(runs.count(), 1);
    assert_clean(&sim);
}

#[test]
fn counts_and_flags_of_user_objects_are_checked() {
    let (sim, runs) = (sim(), Runs::default());
    let create = |count_, flags| -> Asked<CUuserObject> {
        get!(sim, cuUserObjectCreate(out, runs.data(), Some(count), count_, flags))
    };
    let value = Err(CUresult::INVALID_VALUE);
    assert_eq!(create(0, 1).map(|_| ()), value);
    assert_eq!(create(1, 0).map(|_| ()), value);
    let u = create(1, 1).unwrap();
    let g = graph(&sim);
    assert_eq!(call!(sim, cuUserObjectRetain(u, 0)), value);
    assert_eq!(call!(sim, cuUserObjectRelease(u, 0)), value);
    assert_eq!(call!(sim, cuUserObjectRelease(CUuserObject::NULL, 1)), value);
    assert_eq!(call!(sim, cuGraphRetainUserObject(g, u, 0, 0)), value);
    assert_eq!(call!(sim, cuGraphRetainUserObject(g, u, 1, 2)), value);
    assert_eq!(call!(sim, cuGraphReleaseUserObject(g, u, 0)), value);
    assert_eq!(call!(sim, cuGraphRetainUserObject(CUgraph::NULL, u, 1, 0)), value);
    assert_clean(&sim);
}

#[test]
fn a_graph_that_was_moved_a_reference_ends_the_object_with_itself() {
    let (sim, runs) = (sim(), Runs::default());
    let (g, u) = (graph(&sim), user_object(&sim, &runs, 1));
    call!(sim, cuGraphRetainUserObject(g, u, 1, 1)).unwrap();
    call!(sim, cuGraphDestroy(g)).unwrap();
    assert_eq!((runs.count(), sim.live(ObjectKind::UserObject)), (1, 0));
    assert_clean(&sim);
}

#[test]
fn a_graph_s_own_references_come_on_top_of_the_caller_s() {
    let (sim, runs) = (sim(), Runs::default());
    let (g, u) = (graph(&sim), user_object(&sim, &runs, 1));
    call!(sim, cuGraphRetainUserObject(g, u, 3, 0)).unwrap();
    call!(sim, cuUserObjectRelease(u, 1)).unwrap();
    call!(sim, cuGraphReleaseUserObject(g, u, 2)).unwrap();
    assert_eq!(runs.count(), 0);
    call!(sim, cuGraphReleaseUserObject(g, u, 1)).unwrap();
    assert_eq!(runs.count(), 1);
    call!(sim, cuGraphDestroy(g)).unwrap();
    assert_eq!(runs.count(), 1);
    assert_clean(&sim);
}

#[test]
fn releasing_a_moved_reference_ends_the_object_once_and_is_a_violation_later() {
    let (sim, runs) = (sim(), Runs::default());
    let (g, u) = (graph(&sim), user_object(&sim, &runs, 1));
    call!(sim, cuGraphRetainUserObject(g, u, 1, 1)).unwrap();
    call!(sim, cuUserObjectRelease(u, 1)).unwrap();
    assert_eq!(runs.count(), 1);
    call!(sim, cuGraphDestroy(g)).unwrap();
    assert_eq!(runs.count(), 1);
    assert_eq!(kinds(&sim.violations()), [ViolationKind::OverRelease]);
}

#[test]
fn references_that_a_graph_does_not_hold_are_taken_from_the_object() {
    let (sim, runs) = (sim(), Runs::default());
    let (g, u) = (graph(&sim), user_object(&sim, &runs, 1));
    call!(sim, cuGraphReleaseUserObject(g, u, 1)).unwrap();
    assert_eq!(runs.count(), 1);
    assert_eq!(kinds(&sim.violations()), [ViolationKind::OverRelease]);
}

type Seen = (Sim, Mutex<Vec<(ThreadId, Asked<()>)>>);

unsafe extern "C" fn looks_around(data: *mut c_void) {
    // SAFETY: the data is the address of the test's pair, which outlives the object.
    let (sim, seen) = unsafe { &*data.cast::<Seen>() };
    let made: Asked<CUgraph> = get!(sim, cuGraphCreate(out, 0));
    seen.lock().unwrap().push((thread::current().id(), made.map(|_| ())));
}

#[test]
fn a_destructor_runs_inside_the_destroy_and_may_not_call_the_driver() {
    let sim = sim();
    let seen: Seen = (sim.clone(), Mutex::new(Vec::new()));
    let data = (&raw const seen).cast_mut().cast();
    let u = get!(sim, cuUserObjectCreate(out, data, Some(looks_around), 1, 1)).unwrap();
    let g = graph(&sim);
    call!(sim, cuGraphRetainUserObject(g, u, 1, 1)).unwrap();
    call!(sim, cuGraphDestroy(g)).unwrap();
    let here = thread::current().id();
    assert_eq!(*seen.1.lock().unwrap(), [(here, Err(CUresult::NOT_PERMITTED))]);
    assert_eq!(kinds(&sim.violations()), [ViolationKind::CallInsideCallback]);
}

fn empty_node(sim: &Sim, graph: CUgraph, after: &[CUgraphNode]) -> Asked<CUgraphNode> {
    get!(sim, cuGraphAddEmptyNode(out, graph, after.as_ptr(), after.len()))
}

fn number_of_roots(sim: &Sim, graph: CUgraph) -> usize {
    get!(sim, cuGraphGetRootNodes(graph, std::ptr::null_mut(), out)).unwrap()
}

#[test]
fn a_node_stands_behind_nodes_of_its_own_graph_each_once() {
    let sim = sim();
    let (g, other) = (graph(&sim), graph(&sim));
    let (a, foreign) = (empty_node(&sim, g, &[]).unwrap(), empty_node(&sim, other, &[]).unwrap());
    empty_node(&sim, g, &[a]).unwrap();
    assert_eq!(empty_node(&sim, g, &[a, a]), Err(CUresult::INVALID_VALUE));
    assert_eq!(empty_node(&sim, g, &[foreign]), Err(CUresult::INVALID_VALUE));
    assert_eq!(empty_node(&sim, CUgraph::NULL, &[]), Err(CUresult::INVALID_VALUE));
    assert_eq!(number_of_roots(&sim, g), 1);
    let (mut nodes, mut count) = ([CUgraphNode::from_addr(8); 4], 4);
    call!(sim, cuGraphGetNodes(g, nodes.as_mut_ptr(), &raw mut count)).unwrap();
    assert_eq!((count, nodes[0], nodes[2], nodes[3]), (2, a, CUgraphNode::NULL, CUgraphNode::NULL));
    assert_clean(&sim);
}

#[test]
fn a_clone_has_nodes_of_its_own_and_holds_what_its_graph_holds() {
    let (sim, runs) = (sim(), Runs::default());
    let (g, u) = (graph(&sim), user_object(&sim, &runs, 1));
    let a = empty_node(&sim, g, &[]).unwrap();
    empty_node(&sim, g, &[a]).unwrap();
    call!(sim, cuGraphRetainUserObject(g, u, 1, 1)).unwrap();
    let copy: CUgraph = get!(sim, cuGraphClone(out, g)).unwrap();
    call!(sim, cuGraphDestroy(g)).unwrap();
    assert_eq!(runs.count(), 0);
    let (mut nodes, mut count) = ([CUgraphNode::NULL; 2], 2);
    call!(sim, cuGraphGetNodes(copy, nodes.as_mut_ptr(), &raw mut count)).unwrap();
    assert_eq!((count, number_of_roots(&sim, copy)), (2, 1));
    assert!(!nodes.contains(&a));
    call!(sim, cuGraphDestroy(copy)).unwrap();
    assert_eq!(runs.count(), 1);
    assert_clean(&sim);
    let null: Asked<CUgraph> = get!(sim, cuGraphClone(out, CUgraph::NULL));
    assert_eq!(null, Err(CUresult::INVALID_VALUE));
}

#[test]
fn no_memory_is_kept_for_graphs() {
    let sim = sim();
    call!(sim, cuDeviceGraphMemTrim(0)).unwrap();
    for attribute in (0..4).map(CUgraphMem_attribute) {
        let mut value = 9_u64;
        let at = (&raw mut value).cast();
        call!(sim, cuDeviceGetGraphMemAttribute(0, attribute, at)).unwrap();
        assert_eq!(value, 0, "{attribute:?}");
        let set = call!(sim, cuDeviceSetGraphMemAttribute(0, attribute, at));
        assert_eq!(set.is_ok(), attribute.0 % 2 == 1, "{attribute:?}");
        let mut one = 1_u64;
        let at = (&raw mut one).cast();
        let set = call!(sim, cuDeviceSetGraphMemAttribute(0, attribute, at));
        assert_eq!(set, Err(CUresult::INVALID_VALUE), "{attribute:?}");
    }
    assert_clean(&sim);
}
