//! What graphs keep, for how long, in which order whatever ends, and what is known after a call that failed.

#![expect(unsafe_code, reason = "adds kernels")]

use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_graph::{
    Edge, Graph, NodeKind,
    handles::{ErrorKind, Kernel, LaunchConfig, Stream, WarningKind},
    memory::{Buffer, BufferView, Pool},
};
use cuhold_testkit::Kit;
use std::{sync::Arc, thread};

use super::support::{run, run_simulated};

fn graph(t: &Kit) -> Graph {
    Graph::new(t.context()).unwrap()
}

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

/// Something with a holder for each clone.
fn token() -> Arc<()> {
    Arc::new(())
}

fn holding(token: &Arc<()>) -> impl Fn() + Send + Sync + 'static {
    let token = Arc::clone(token);
    move || assert!(Arc::strong_count(&token) > 1)
}

fn holders(token: &Arc<()>) -> usize {
    Arc::strong_count(token) - 1
}

#[test]
fn scenario_s47_an_executable_goes_on_with_what_its_graph_had_when_it_was_made() {
    run(|t| {
        let stream = stream(t);
        let pool = Pool::current_of(t.device()).unwrap();
        let before = pool.used_bytes().unwrap();
        let (mut x, mut y) = (
            Buffer::<u32>::zeroed(&stream, 64).unwrap(),
            Buffer::<u32>::zeroed(&stream, 64).unwrap(),
        );
        stream.synchronize().unwrap();
        let mut graph = graph(t);
        let node = graph.fill(&[], &mut x, 1).unwrap();
        let mut exec = graph.instantiate().unwrap();
        graph.set_fill(node, &mut y, 2).unwrap();
        graph.remove(node).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(x.to_vec().unwrap(), [1; 64]);
        assert_eq!(y.to_vec().unwrap(), [0; 64]);
        drop((x, y));
        // That is `x`, which the executable fills.
        t.becomes(|| pool.used_bytes().unwrap(), before + 256);
        drop(graph);
        exec.launch(&stream).unwrap();
        drop(exec);
        stream.synchronize().unwrap();
        t.becomes(|| pool.used_bytes().unwrap(), before);
    });
}

#[test]
fn a_view_among_the_arguments_keeps_its_buffer() {
    run(|t| {
        let stream = stream(t);
        let pool = Pool::current_of(t.device()).unwrap();
        let before = pool.used_bytes().unwrap();
        let fill = t.kernels().kernel("fill").unwrap();
        let mut graph = graph(t);
        {
            let mut words = Buffer::<u32>::zeroed(&stream, 100).unwrap();
            let tail = words.view_mut(50..).unwrap();
            // SAFETY: *layout*: a pointer and two words, as `fill` takes; *bounds*: 50 words.
            unsafe { graph.kernel(&[], &fill, LaunchConfig::for_len(50), (tail, 7_u32, 50_u32)) }
                .unwrap();
        }
        t.becomes(|| pool.used_bytes().unwrap(), before + 400);
        let mut exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        drop((graph, exec));
        t.becomes(|| pool.used_bytes().unwrap(), before);
    });
}

#[test]
fn a_changed_node_lets_go_of_what_it_used_unless_a_copy_may_use_it() {
    run(|t| {
        let (first, second, third) = (token(), token(), token());
        let mut graph = graph(t);
        let node = graph.host(&[], holding(&first)).unwrap();
        graph.set_host(node, holding(&second)).unwrap();
        assert_eq!((holders(&first), holders(&second)), (0, 1));
        let copy = graph.try_clone().unwrap();
        graph.set_host(node, holding(&third)).unwrap();
        assert_eq!((holders(&second), holders(&third)), (1, 1), "the copy calls the second");
        drop(graph);
        t.becomes(|| holders(&second), 1);
        drop(copy);
        t.becomes(|| (holders(&second), holders(&third)), (0, 0));
    });
}

#[test]
fn a_copy_has_its_own_nodes_in_the_places_of_the_original_s() {
    run(|t| {
        let mut graph = graph(t);
        let gone = graph.empty(&[]).unwrap();
        let (a, b) = (graph.empty(&[]).unwrap(), graph.host(&[], || {}).unwrap());
        graph.add_edge(b, a).unwrap();
        graph.remove(gone).unwrap();
        let mut copy = graph.try_clone().unwrap();
        let (own_a, own_b) = (copy.own(a).unwrap(), copy.own(b).unwrap());
        assert_eq!(copy.kind(own_b).unwrap(), NodeKind::Host);
        assert_eq!(copy.predecessors(own_a).unwrap(), [own_b]);
        assert_eq!(copy.edges().unwrap(), [Edge::new(own_b, own_a)]);
        assert!(copy.empty(a).is_err() && graph.empty(own_a).is_err());
        for node in [gone, own_a] {
            assert_eq!(copy.own(node).unwrap_err().kind(), ErrorKind::Argument);
        }
        let later = graph.empty(&[]).unwrap();
        assert!(copy.own(later).is_err());
        copy.empty(own_a).unwrap();
        copy.remove(own_b).unwrap();
        assert_eq!((copy.len(), graph.len()), (2, 3));
        copy.instantiate().unwrap();
        graph.instantiate().unwrap();
    });
}

#[test]
fn in_whatever_order_graph_copy_child_and_executable_end_what_they_use_ends_once_with_the_last() {
    run(|t| {
        for order in 0..24_usize {
            let used = token();
            let mut graph = graph(t);
            graph.host(&[], holding(&used)).unwrap();
            let copy = graph.try_clone().unwrap();
            let mut parent = Graph::new(t.context()).unwrap();
            parent.child(&[], &mut graph).unwrap();
            let exec = graph.instantiate().unwrap();
            let mut left: Vec<Box<dyn std::any::Any>> =
                vec![Box::new(graph), Box::new(copy), Box::new(parent), Box::new(exec)];
            let mut order = order;
            for count in (1..=4).rev() {
                assert_eq!(holders(&used), 1);
                drop(left.remove(order % count));
                order /= count;
                t.settle();
            }
            assert_eq!(holders(&used), 0);
        }
    });
}

/// Makes graphs that fill the words, launches each once, and drops it while it runs.
fn build_run_and_drop(t: &Kit, fill: &Kernel, words: BufferView<'_, u32>) {
    let stream = stream(t);
    for _ in 0..10 {
        let mut graph = graph(t);
        // SAFETY: *layout*: as `fill` takes; *bounds*: 8 words, which nobody else writes.
        let node =
            unsafe { graph.kernel(&[], fill, LaunchConfig::for_len(8), (words, 7_u32, 8_u32)) }
                .unwrap();
        graph.host(node, || {}).unwrap();
        let mut exec = graph.instantiate().unwrap();
        drop(graph);
        exec.launch(&stream).unwrap();
        drop(exec);
        stream.synchronize().unwrap();
    }
}

#[test]
fn threads_build_run_and_drop_graphs_over_the_same_buffer_and_kernel() {
    run(|t| {
        let home = stream(t);
        let words = Buffer::<u32>::zeroed(&home, 64).unwrap();
        home.synchronize().unwrap();
        let fill = t.kernels().kernel("fill").unwrap();
        thread::scope(|scope| {
            for part in 0..8 {
                let part = words.view(8 * part..8 * (part + 1)).unwrap();
                let fill = &fill;
                scope.spawn(move || build_run_and_drop(t, fill, part));
            }
        });
        assert_eq!(words.to_vec().unwrap(), [7; 64]);
        drop((words, fill));
        t.settle();
    });
}

#[test]
fn twenty_thousand_nodes_with_owners_are_added_and_dropped_and_nothing_is_left() {
    run(|t| {
        let used = token();
        let mut graph = graph(t);
        let mut last = graph.empty(&[]).unwrap();
        let mut removed = 0;
        for nth in 0..20_000 {
            let node = graph.host(last, holding(&used)).unwrap();
            if nth % 4 == 0 {
                graph.remove(node).unwrap();
                removed += 1;
            } else {
                last = node;
            }
        }
        assert_eq!(holders(&used), 20_000 - removed);
        assert_eq!(graph.edges().unwrap().len(), 20_000 - removed);
        drop(graph);
        t.becomes(|| holders(&used), 0);
    });
}

/// Panics where it is dropped.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        assert!(thread::panicking(), "dropped");
    }
}

#[test]
fn functions_whose_drops_panic_are_a_warning_each() {
    run(|t| {
        let mut graph = graph(t);
        let panics = || {
            let value = PanicsInDrop;
            move || {
                let _: &PanicsInDrop = &value;
            }
        };
        let node = graph.host(&[], panics()).unwrap();
        for _ in 0..2 {
            graph.host(&[], panics()).unwrap();
        }
        let captured = t.driver().reports().capture(8);
        graph.remove(node).unwrap();
        drop(graph);
        t.settle();
        let warnings = captured.take();
        assert_eq!(warnings.len(), 3);
        assert!(warnings.iter().all(|warning| warning.kind() == WarningKind::Panicked));
    });
}

#[test]
fn a_removal_that_was_done_although_it_failed_is_found_out() {
    run_simulated(|t, _| {
        let mut graph = graph(t);
        let node = graph.empty(&[]).unwrap();
        t.faults().arm(Fault::done_but_failed(CUresult(9001)).on(Call::cuGraphDestroyNode));
        let error = graph.remove(node).unwrap_err();
        assert!(error.is(CUresult(9001)), "{error}");
        assert_eq!((error.completed(), graph.contains(node)), (Some(1), false));
        t.faults().disarm();
        let node = graph.empty(&[]).unwrap();
        t.faults().arm(Fault::refused(CUresult(9001)).on(Call::cuGraphDestroyNode));
        let error = graph.remove(node).unwrap_err();
        assert_eq!((error.completed(), graph.contains(node)), (None, true));
        t.faults().disarm();
        graph.remove(node).unwrap();
    });
}

#[test]
fn a_node_of_which_it_is_not_known_whether_it_was_removed_is_not_handed_to_the_driver() {
    run_simulated(|t, _| {
        let mut graph = graph(t);
        let node = graph.empty(&[]).unwrap();
        t.faults().arm(Fault::done_but_failed(CUresult(9001)).on(Call::cuGraphDestroyNode));
        t.faults().arm(Fault::refused(CUresult(9002)).on(Call::cuGraphGetNodes));
        let error = graph.remove(node).unwrap_err();
        assert_eq!(error.notes().len(), 1, "{error}");
        let ((), calls) = t.calls(|| {
            assert_eq!(graph.empty(node).unwrap_err().kind(), ErrorKind::State);
            assert_eq!(graph.remove(node).unwrap_err().kind(), ErrorKind::State);
            assert_eq!(graph.raw_node(node).unwrap_err().kind(), ErrorKind::State);
        });
        assert_eq!(calls, [""; 0]);
        graph.instantiate().unwrap();
    });
}

#[test]
fn a_cycle_of_many_nodes_is_refused_before_the_driver_is_asked() {
    run(|t| {
        let mut graph = graph(t);
        let nodes: Vec<_> = (0..50).map(|_| graph.empty(&[]).unwrap()).collect();
        // Against the order in which the nodes were added.
        let edges: Vec<_> = nodes.windows(2).map(|pair| Edge::new(pair[1], pair[0])).collect();
        graph.add_edges(&edges).unwrap();
        let (error, calls) = t.calls(|| graph.add_edge(nodes[0], nodes[49]).unwrap_err());
        assert_eq!((error.kind(), calls), (ErrorKind::Argument, Vec::new()));
        assert!(error.to_string().contains("would have a cycle"), "{error}");
        // All or nothing, as far as it is found before the call.
        let both = [Edge::new(nodes[49], nodes[0]), Edge::new(nodes[0], nodes[20])];
        graph.add_edges(&both).unwrap_err();
        assert_eq!(graph.edges().unwrap().len(), 49);
        graph.instantiate().unwrap();
    });
}

#[test]
fn of_several_edges_of_which_one_is_refused_the_error_says_how_many_are_there() {
    run(|t| {
        let mut graph = graph(t);
        let nodes: Vec<_> = (0..4).map(|_| graph.empty(&[]).unwrap()).collect();
        graph.add_edge(nodes[0], nodes[3]).unwrap();
        let edges = [
            Edge::new(nodes[0], nodes[1]),
            Edge::new(nodes[0], nodes[2]),
            Edge::new(nodes[0], nodes[3]),
            Edge::new(nodes[1], nodes[2]),
        ];
        let error = graph.add_edges(&edges).unwrap_err();
        assert!(error.is(CUresult::INVALID_VALUE), "{error}");
        let now = graph.successors(nodes[0]).unwrap();
        let added = u32::try_from(now.len() - 1).unwrap();
        assert_eq!(error.completed().unwrap_or(0), added, "{error}");
        assert!(graph.successors(nodes[1]).unwrap().is_empty());
    });
}

#[test]
fn edges_of_which_nothing_is_known_are_not_told_and_asked_for_with_the_next_change() {
    run_simulated(|t, _| {
        let mut graph = graph(t);
        let (a, b) = (graph.empty(&[]).unwrap(), graph.empty(&[]).unwrap());
        t.faults().arm(Fault::refused(CUresult(9001)).on(Call::cuGraphAddDependencies_v2));
        t.faults().arm(Fault::refused(CUresult(9002)).on(Call::cuGraphGetEdges_v2));
        let error = graph.add_edge(a, b).unwrap_err();
        assert!(error.is(CUresult(9001)), "{error}");
        assert_eq!(error.notes().len(), 1, "{error}");
        for unknown in [graph.successors(a).map(drop), graph.edges().map(drop)] {
            assert_eq!(unknown.unwrap_err().kind(), ErrorKind::State);
        }
        assert!(graph.add_edge(a, b).unwrap_err().is(CUresult(9002)));
        t.faults().disarm();
        let c = graph.empty(b).unwrap();
        graph.add_edge(c, a).unwrap();
        assert_eq!(graph.edges().unwrap(), [Edge::new(c, a), Edge::new(b, c)]);
    });
}
