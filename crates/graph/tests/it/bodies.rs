//! Graphs inside of nodes: conditional bodies and child graphs.

#![expect(unsafe_code, reason = "adds kernels")]

use cuhold_graph::{
    BatchOperation, Body, ConditionalKind, Graph, NodeKind, NodeParams,
    handles::{ErrorKind, LaunchConfig, Stream},
    memory::Buffer,
};
use cuhold_testkit::Kit;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use super::support::{run, run_simulated};

fn graph(t: &Kit) -> Graph {
    Graph::new(t.context()).unwrap()
}

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

fn launch(graph: &mut Graph, stream: &Stream) {
    let mut exec = graph.instantiate().unwrap();
    exec.launch(stream).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn the_body_that_the_condition_picks_is_run() {
    run(|t| {
        let stream = stream(t);
        for value in 0..4_u32 {
            let mut seen = Buffer::<u32>::zeroed(&stream, 6).unwrap();
            stream.synchronize().unwrap();
            let mut graph = graph(t);
            let condition = graph.condition(Some(value)).unwrap();
            let then = graph.if_then(&[], condition).unwrap();
            let body = graph.body(then, 0).unwrap();
            graph.fill(body, seen.view_mut(..1).unwrap(), 1).unwrap();
            let condition = graph.condition(Some(value)).unwrap();
            let either = graph.if_else(then, condition).unwrap();
            for nth in 0..2 {
                let body = graph.body(either, nth).unwrap();
                graph.fill(body, seen.view_mut(1 + nth..2 + nth).unwrap(), 1).unwrap();
            }
            let condition = graph.condition(Some(value)).unwrap();
            let switch = graph.switch(either, condition, 3).unwrap();
            for nth in 0..3 {
                let body = graph.body(switch, nth).unwrap();
                graph.fill(body, seen.view_mut(3 + nth..4 + nth).unwrap(), 1).unwrap();
            }
            assert!(graph.body(switch, 3).is_err());
            let NodeParams::Conditional { kind, bodies } = graph.params(switch).unwrap() else {
                panic!()
            };
            assert_eq!((kind, bodies), (ConditionalKind::Switch, 3));
            launch(&mut graph, &stream);
            let is = |what: bool| u32::from(what);
            let expected = [
                is(value > 0),
                is(value > 0),
                is(value == 0),
                is(value == 0),
                is(value == 1),
                is(value == 2),
            ];
            assert_eq!(seen.to_vec().unwrap(), expected);
        }
    });
}

/// A kernel that counts a word down, and sets a condition to what is left.
const COUNT_DOWN: &str = ".version 7.0\n.target sm_50\n.address_size 64\n\
     .visible .entry count_down(.param .u64 left, .param .u64 goes_on) { ret; }";

#[test]
fn a_loop_goes_on_until_a_kernel_sets_its_condition_to_0() {
    run_simulated(|t, sim| {
        sim.register_kernel("count_down", |launch| {
            let (ptr, condition) = (launch.param::<u64>(0)?, launch.param::<u64>(1)?);
            let mut left = launch.slice_mut::<u32>(ptr, 1)?;
            left[0] -= 1;
            launch.set_condition(condition, left[0]);
            Ok(())
        });
        let stream = stream(t);
        let left = Buffer::from_slice(&stream, &[5_u32]).unwrap();
        let (mut rounds, ones) = (
            Buffer::<f32>::zeroed(&stream, 1).unwrap(),
            Buffer::<f32>::zeroed(&stream, 1).unwrap(),
        );
        let mut ones = ones;
        ones.fill(1.0).unwrap();
        stream.synchronize().unwrap();
        let step = t.device().load(COUNT_DOWN).unwrap().kernel("count_down").unwrap();
        let axpy = t.kernels().kernel("axpy").unwrap();
        let config = LaunchConfig::for_len(1);
        let mut graph = graph(t);
        let goes_on = graph.condition(Some(1)).unwrap();
        let repeat = graph.while_loop(&[], goes_on).unwrap();
        let body = graph.body(repeat, 0).unwrap();
        let args = (1.0_f32, &ones, &mut rounds, 1_u32);
        // SAFETY: *layout*: as `axpy` takes; *bounds*: one element each.
        let counted = unsafe { graph.kernel(body, &axpy, config, args) }.unwrap();
        // SAFETY: *layout*: a pointer and a condition; *bounds*: one word.
        unsafe { graph.kernel(counted, &step, config, (&left, goes_on)) }.unwrap();
        launch(&mut graph, &stream);
        assert_eq!(left.to_vec().unwrap(), [0]);
        assert_eq!(rounds.to_vec().unwrap(), [5.0]);
    });
}

#[test]
fn conditional_nodes_and_child_graphs_run_inside_of_bodies() {
    run(|t| {
        let stream = stream(t);
        let mut seen = Buffer::<u32>::zeroed(&stream, 2).unwrap();
        stream.synchronize().unwrap();
        let mut step = graph(t);
        step.fill(&[], seen.view_mut(1..).unwrap(), 7).unwrap();
        let mut graph = graph(t);
        let (outer, inner) = (graph.condition(Some(1)).unwrap(), graph.condition(Some(1)).unwrap());
        let node = graph.if_then(&[], outer).unwrap();
        let body = graph.body(node, 0).unwrap();
        let nested = graph.if_then(body, inner).unwrap();
        let nested_body = graph.body(nested, 0).unwrap();
        graph.fill(nested_body, seen.view_mut(..1).unwrap(), 6).unwrap();
        let child = graph.child(nested, &mut step).unwrap();
        assert_eq!(graph.containing(child).unwrap(), Some(body));
        assert_eq!(graph.containing(node).unwrap(), None);
        assert_eq!(graph.predecessors(child).unwrap(), [nested]);
        assert_eq!(graph.nodes_in(body).unwrap(), [nested, child]);
        assert_eq!(graph.nodes().collect::<Vec<_>>(), [node]);
        drop(step);
        launch(&mut graph, &stream);
        assert_eq!(seen.to_vec().unwrap(), [6, 7]);
    });
}

#[test]
fn what_a_body_cannot_hold_is_refused_before_the_driver_is_asked() {
    run(|t| {
        let stream = stream(t);
        let (event, mut word) =
            (t.context().new_event().unwrap(), Buffer::<u32>::zeroed(&stream, 1).unwrap());
        let write = BatchOperation::write(word.as_view_mut(), 1).unwrap();
        let (mut graph, mut child) = (graph(t), graph(t));
        child.host(&[], || {}).unwrap();
        let mut outer_child = Graph::new(t.context()).unwrap();
        outer_child.child(&[], &mut child).unwrap();
        let condition = graph.condition(Some(1)).unwrap();
        let node = graph.if_then(&[], condition).unwrap();
        let body = graph.body(node, 0).unwrap();
        let first = graph.empty(body).unwrap();
        let ((), calls) = t.calls(|| {
            for error in [
                graph.host(body, || {}).unwrap_err(),
                graph.host(first, || {}).unwrap_err(),
                graph.record(body, &event).unwrap_err(),
                graph.wait(body, &event).unwrap_err(),
                graph.allocate::<u32>(body, 1).unwrap_err(),
                graph.batch(body, &[write]).unwrap_err(),
                graph.child(body, &mut child).unwrap_err(),
                graph.child(first, &mut outer_child).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
                assert!(error.to_string().contains("conditional body can't hold"), "{error}");
            }
        });
        assert_eq!(calls, [""; 0]);
        graph.instantiate().unwrap();
    });
}

#[test]
fn a_moved_graph_that_a_body_cannot_hold_comes_back() {
    run(|t| {
        let (mut graph, mut child) = (graph(t), graph(t));
        let host = child.host(&[], || {}).unwrap();
        let condition = graph.condition(Some(1)).unwrap();
        let node = graph.if_then(&[], condition).unwrap();
        let body = graph.body(node, 0).unwrap();
        let refused = graph.child_moved(body, child).unwrap_err();
        assert!(refused.value.contains(host));
    });
}

#[test]
fn nodes_of_two_graphs_inside_are_no_place() {
    run(|t| {
        let mut graph = graph(t);
        let condition = graph.condition(Some(1)).unwrap();
        let node = graph.if_then(&[], condition).unwrap();
        let body = graph.body(node, 0).unwrap();
        let inside = graph.empty(body).unwrap();
        for error in
            [graph.empty(&[node, inside]).unwrap_err(), graph.add_edge(node, inside).unwrap_err()]
        {
            assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        }
    });
}

#[test]
fn scenario_s52_a_body_whose_node_was_removed_is_refused_however_its_handle_is_used_again() {
    run(|t| {
        let mut graph = graph(t);
        let condition = graph.condition(Some(1)).unwrap();
        let node = graph.if_then(&[], condition).unwrap();
        let body = graph.body(node, 0).unwrap();
        let inside = graph.empty(body).unwrap();
        let mut step = Graph::new(t.context()).unwrap();
        step.empty(&[]).unwrap();
        let child = graph.child(&[], &mut step).unwrap();
        let copy = graph.body(child, 0).unwrap();
        let copied = graph.nodes_in(copy).unwrap()[0];
        graph.remove(node).unwrap();
        graph.remove(child).unwrap();
        let used_again: Vec<Body> = (0..50)
            .map(|_| {
                let child = graph.child(&[], &mut step).unwrap();
                graph.body(child, 0).unwrap()
            })
            .collect();
        let ((), calls) = t.calls(|| {
            for error in [
                graph.empty(body).unwrap_err(),
                graph.empty(copy).unwrap_err(),
                graph.empty(inside).unwrap_err(),
                graph.empty(copied).unwrap_err(),
                graph.nodes_in(body).unwrap_err(),
                graph.body(node, 0).unwrap_err(),
                graph.remove(copied).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
            }
        });
        assert_eq!(calls, [""; 0]);
        assert!(!used_again.contains(&copy));
    });
}

#[test]
fn a_condition_is_for_one_node_of_its_graph_and_free_again_when_that_is_removed() {
    run(|t| {
        let (mut graph, mut other) = (graph(t), graph(t));
        let condition = graph.condition(None).unwrap();
        let node = graph.while_loop(&[], condition).unwrap();
        for error in [
            graph.if_then(&[], condition).unwrap_err(),
            other.if_then(&[], condition).unwrap_err(),
            graph.switch(&[], condition, 0).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        }
        graph.remove(node).unwrap();
        let error = graph.instantiate().unwrap_err();
        assert!(error.to_string().contains("no node uses"), "{error}");
        graph.if_then(&[], condition).unwrap();
        graph.instantiate().unwrap();
    });
}

#[test]
fn a_child_s_copy_can_be_added_to_and_a_moved_child_is_run() {
    run(|t| {
        let calls = Arc::new(AtomicU32::new(0));
        let count = |by: u32| {
            let calls = Arc::clone(&calls);
            move || {
                calls.fetch_add(by, Ordering::SeqCst);
            }
        };
        let (mut copied, mut moved) = (graph(t), graph(t));
        let first = copied.host(&[], count(1)).unwrap();
        copied.host(first, count(10)).unwrap();
        moved.host(&[], count(100)).unwrap();
        let mut graph = graph(t);
        let child = graph.child(&[], &mut copied).unwrap();
        let body = graph.body(child, 0).unwrap();
        let inside = graph.nodes_in(body).unwrap();
        assert_eq!(inside.len(), 2);
        assert_eq!(graph.kind(inside[0]).unwrap(), NodeKind::Host);
        let last =
            *inside.iter().find(|node| !graph.predecessors(**node).unwrap().is_empty()).unwrap();
        graph.host(last, count(1000)).unwrap();
        assert!(graph.allocate::<u8>(body, 1).is_err(), "memory isn't allocated in child graphs");
        graph.child_moved(child, moved).unwrap();
        drop(copied);
        launch(&mut graph, &stream(t));
        assert_eq!(calls.load(Ordering::SeqCst), 1111);
    });
}

#[test]
fn a_graph_with_a_conditional_node_is_no_child_and_the_error_says_why() {
    run(|t| {
        let (mut graph, mut child) = (graph(t), graph(t));
        let condition = child.condition(Some(1)).unwrap();
        child.if_then(&[], condition).unwrap();
        let error = graph.child(&[], &mut child).unwrap_err();
        assert!(error.to_string().contains("a node of kind conditional"), "{error}");
        let error = child.try_clone().unwrap_err();
        assert!(error.to_string().contains("a node of kind conditional"), "{error}");
    });
}
