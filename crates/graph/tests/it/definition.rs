//! Graphs by definition: what is refused, what runs, and what is kept for how long.

#![expect(unsafe_code, reason = "adds kernels and launches graphs")]

use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_graph::{
    Edge, Graph, NodeKind,
    handles::{ErrorKind, LaunchConfig, WarningKind},
};
use cuhold_memory::{Buffer, Pool};
use cuhold_testkit::{Kit, PTX, run, run_simulated};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

fn graph(t: &Kit) -> Graph {
    Graph::new(t.context()).unwrap()
}

#[test]
fn a_graph_runs_its_host_functions_in_the_order_of_its_edges() {
    run(|t| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut graph = graph(t);
        let push = |value: u32| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(value)
        };
        let last = graph.host(&[], push(3)).unwrap();
        let first = graph.host(&[], push(1)).unwrap();
        let middle = graph.empty(&[first]).unwrap();
        let second = graph.host(&[middle], push(2)).unwrap();
        graph.add_edge(second, last).unwrap();
        let stream = t.device().new_stream().unwrap();
        let mut exec = graph.instantiate().unwrap();
        drop(graph);
        for _ in 0..2 {
            exec.launch(&stream).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, 1, 2, 3]);
        drop(exec);
        // The functions are gone with the executable.
        t.becomes(|| Arc::strong_count(&order), 1);
    });
}

#[test]
fn scenario_s46_a_kernel_s_buffer_lives_as_long_as_an_executable_that_uses_it() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let fill = t.device().load(PTX).unwrap().kernel("fill").unwrap();
        let pool = Pool::current_of(t.device()).unwrap();
        let before = pool.used_bytes().unwrap();
        let mut graph = graph(t);
        let out = Buffer::<u32>::zeroed(&stream, 100).unwrap();
        {
            let words = Buffer::<u32>::zeroed(&stream, 100).unwrap();
            // SAFETY: *layout*: a pointer and two words, as `fill` takes; *bounds*: it writes 100 words.
            unsafe {
                graph.kernel(&[], &fill, LaunchConfig::for_len(100), (&words, 7_u32, 100_u32))
            }
            .unwrap();
        }
        drop(fill);
        let mut exec = graph.instantiate().unwrap();
        drop(graph);
        t.settle();
        assert!(pool.used_bytes().unwrap() >= before + 800, "the executable keeps the buffer");
        exec.launch(&stream).unwrap();
        drop(exec);
        stream.synchronize().unwrap();
        drop(out);
        t.becomes(|| pool.used_bytes().unwrap(), before);
    });
}

#[test]
fn a_removed_node_lets_go_of_what_it_used_unless_a_copy_may_use_it() {
    run(|t| {
        let mut graph = graph(t);
        let used = Arc::new(());
        let uses = || {
            let used = Arc::clone(&used);
            move || assert!(Arc::strong_count(&used) > 0)
        };
        let node = graph.host(&[], uses()).unwrap();
        graph.remove(node).unwrap();
        assert_eq!(Arc::strong_count(&used), 1);
        let node = graph.host(&[], uses()).unwrap();
        let exec = graph.instantiate().unwrap();
        graph.remove(node).unwrap();
        assert_eq!(Arc::strong_count(&used), 2, "the executable may call it");
        drop((graph, exec));
        t.becomes(|| Arc::strong_count(&used), 1);
    });
}

#[test]
fn stale_and_foreign_nodes_are_refused_before_the_driver_is_asked() {
    run(|t| {
        let (mut graph, mut other) = (graph(t), graph(t));
        let (stale, foreign) = (graph.empty(&[]).unwrap(), other.empty(&[]).unwrap());
        let kept = graph.empty(&[stale]).unwrap();
        graph.remove(stale).unwrap();
        let ((), calls) = t.calls(|| {
            for node in [stale, foreign] {
                for error in [
                    graph.empty(&[kept, node]).unwrap_err(),
                    graph.add_edge(kept, node).unwrap_err(),
                    graph.remove_edge(node, kept).unwrap_err(),
                    graph.remove(node).unwrap_err(),
                    graph.predecessors(node).unwrap_err(),
                    graph.kind(node).unwrap_err(),
                ] {
                    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
                }
            }
            assert!(graph.add_edge(kept, kept).is_err());
        });
        assert_eq!(calls, [""; 0]);
        assert_eq!((graph.len(), graph.kind(kept).unwrap()), (1, NodeKind::Empty));
        assert!(graph.contains(kept) && !graph.contains(stale) && !graph.contains(foreign));
    });
}

#[test]
fn edges_are_read_back_as_they_were_made() {
    run(|t| {
        let mut graph = graph(t);
        let (a, b) = (graph.empty(&[]).unwrap(), graph.empty(&[]).unwrap());
        let c = graph.empty(&[a, b]).unwrap();
        assert_eq!(graph.predecessors(c).unwrap(), [a, b]);
        assert_eq!(graph.successors(a).unwrap(), [c]);
        graph.remove_edge(a, c).unwrap();
        assert_eq!(graph.predecessors(c).unwrap(), [b]);
        graph.add_edges(&[Edge::new(a, b), Edge::new(a, c)]).unwrap();
        assert_eq!(graph.successors(a).unwrap(), [b, c]);
        graph.remove(b).unwrap();
        assert_eq!(graph.predecessors(c).unwrap(), [a]);
        graph.add_edges(&[]).unwrap();
    });
}

#[test]
fn a_cycle_is_refused_where_the_graph_is_made_executable_and_the_graph_is_as_it_was() {
    run(|t| {
        let mut graph = graph(t);
        let a = graph.empty(&[]).unwrap();
        let b = graph.empty(&[a]).unwrap();
        // The driver may refuse the edge, or the graph.
        if graph.add_edge(b, a).is_ok() {
            assert!(graph.instantiate().is_err());
            graph.remove_edge(b, a).unwrap();
        }
        graph.instantiate().unwrap();
    });
}

#[test]
fn a_child_graph_runs_as_it_was_when_it_was_added() {
    run(|t| {
        let calls = Arc::new(AtomicU32::new(0));
        let count = || {
            let calls = Arc::clone(&calls);
            move || {
                calls.fetch_add(1, Ordering::SeqCst);
            }
        };
        let mut child = graph(t);
        let node = child.host(&[], count()).unwrap();
        let mut parent = graph(t);
        let first = parent.child(&[], &mut child).unwrap();
        parent.child(&[first], &mut child).unwrap();
        assert_eq!(parent.kind(first).unwrap(), NodeKind::Child);
        child.remove(node).unwrap();
        drop(child);
        let stream = t.device().new_stream().unwrap();
        let mut exec = parent.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn events_order_a_graph_with_streams() {
    run(|t| {
        let event = t.context().new_event().unwrap();
        let mut graph = graph(t);
        let record = graph.record(&[], &event).unwrap();
        graph.wait(&[record], &event).unwrap();
        drop(event.clone());
        let stream = t.device().new_stream().unwrap();
        let mut exec = graph.instantiate().unwrap();
        drop(graph);
        exec.launch(&stream).unwrap();
        event.synchronize().unwrap();
        stream.synchronize().unwrap();
        drop(exec);
        t.settle();
    });
}

#[test]
fn a_panic_in_a_host_function_is_one_warning_and_the_launch_goes_on() {
    run(|t| {
        let reached = Arc::new(AtomicU32::new(0));
        let mut graph = graph(t);
        let bad = graph.host(&[], || panic!("no such luck")).unwrap();
        let after = Arc::clone(&reached);
        graph
            .host(&[bad], move || {
                after.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        let stream = t.device().new_stream().unwrap();
        let mut exec = graph.instantiate().unwrap();
        let captured = t.driver().reports().capture(4);
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        t.settle();
        let warnings = captured.take();
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].kind(), WarningKind::Panicked);
        assert_eq!(reached.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_node_whose_call_says_that_it_failed_is_none_and_what_it_may_use_is_kept() {
    run_simulated(|t, _| {
        let mut graph = graph(t);
        let used = Arc::new(());
        let held = Arc::clone(&used);
        let failed = CUresult(9001);
        t.faults().arm(Fault::done_but_failed(failed).on(Call::cuGraphAddHostNode));
        let error = graph.host(&[], move || assert!(Arc::strong_count(&held) > 0)).unwrap_err();
        assert!(error.is(failed), "{error}");
        assert!(graph.is_empty());
        assert_eq!(Arc::strong_count(&used), 2, "the driver may call it all the same");
        drop(graph);
        t.becomes(|| Arc::strong_count(&used), 1);
    });
}

#[test]
fn exact_counts_of_adding_nodes_one_call_each_and_two_more_every_256th() {
    run(|t| {
        let mut graph = graph(t);
        let (_, calls) = t.calls(|| graph.empty(&[]).unwrap());
        assert_eq!(calls, ["cuGraphAddEmptyNode"]);
        let mut others = Vec::new();
        for nth in 0..600 {
            let (_, calls) = t.calls(|| graph.host(&[], || {}).unwrap());
            if calls != ["cuGraphAddHostNode"] {
                assert_eq!(
                    calls,
                    ["cuUserObjectCreate", "cuGraphRetainUserObject", "cuGraphAddHostNode"]
                );
                others.push(nth);
            }
        }
        assert_eq!(others, [0, 256, 512]);
    });
}
