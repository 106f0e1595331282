//! How executables are made and launched.

#![expect(unsafe_code, reason = "adds an edge by a raw call")]

use super::*;
use std::ptr;

#[test]
fn options_are_remembered_and_those_that_exclude_each_other_are_refused() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let mut graph = graph_of(t);
        graph.host(&[], || {}).unwrap();
        for options in [
            ExecOptions::default(),
            ExecOptions::default().auto_free(),
            ExecOptions::default().node_priority(),
            ExecOptions::default().auto_free().node_priority(),
        ] {
            let mut exec = graph.instantiate_with(options, Some(&stream)).unwrap();
            assert_eq!(exec.options(), options);
            exec.launch(&stream).unwrap();
        }
        let both = ExecOptions::default().auto_free().device_launch();
        let (refused, calls) = t.calls(|| graph.instantiate_with(both, None).unwrap_err());
        assert_eq!((refused.kind(), calls.len()), (ErrorKind::Argument, 0));
        stream.synchronize().unwrap();
    });
}

/// Lets `to` run after `from` without the library's knowledge, which refuses cycles.
fn add_edge_behind_its_back(graph: &Graph, from: Node, to: Node) {
    let (from, to) = (graph.raw_node(from).unwrap(), graph.raw_node(to).unwrap());
    let (calls, from, to) = (graph.driver().calls(), &raw const from, &raw const to);
    // SAFETY: *pointers*: one live node each; *handles*: of this graph.
    unsafe { calls.cuGraphAddDependencies_v2(graph.as_raw(), from, to, ptr::null(), 1) }.unwrap();
}

#[test]
fn a_graph_with_a_cycle_makes_no_executable_and_leaves_nothing_behind() {
    run(|t| {
        let mut graph = graph_of(t);
        let a = graph.empty(&[]).unwrap();
        let b = graph.empty(&[a]).unwrap();
        add_edge_behind_its_back(&graph, b, a);
        let error = graph.instantiate().unwrap_err();
        assert!(error.call().is_some(), "{error}");
        graph.remove(b).unwrap();
        graph.instantiate().unwrap();
    });
}

#[test]
fn the_node_that_keeps_a_graph_from_being_made_executable_is_named() {
    run_simulated(|t, _| {
        let mut graph = graph_of(t);
        let a = graph.empty(&[]).unwrap();
        let b = graph.empty(&[a]).unwrap();
        add_edge_behind_its_back(&graph, b, a);
        let text = graph.instantiate().unwrap_err().to_string();
        assert!(text.contains("the graph's edges form a cycle"), "{text}");
        assert!(text.contains("it is about node"), "{text}");
        assert_eq!(graph.kind(b).unwrap(), NodeKind::Empty);
    });
}

#[test]
fn a_launch_on_a_stream_that_is_being_captured_is_refused_and_the_capture_goes_on() {
    run(|t| {
        let (_graph, _, mut exec, stream) = of_one_host_node(t);
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let capture = ForeignCapture::begin(t.driver(), &stream, mode);
        let error = exec.launch(&stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State, "{error}");
        assert_eq!(exec.upload(&stream).unwrap_err().kind(), ErrorKind::State);
        capture.is_active();
        capture.end();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
    });
}

#[test]
fn an_executable_goes_from_thread_to_thread_and_threads_have_executables_of_their_own() {
    run(|t| {
        let ran = token();
        let mut graph = graph_of(t);
        let node = graph.host(&[], counting(&ran)).unwrap();
        let execs: Vec<_> = (0..4).map(|_| graph.instantiate().unwrap()).collect();
        thread::scope(|scope| {
            for mut exec in execs {
                let device = t.device();
                scope.spawn(move || {
                    let stream = device.new_stream().unwrap();
                    (0..50).for_each(|_| exec.launch(&stream).unwrap());
                    stream.synchronize().unwrap();
                });
            }
        });
        assert_eq!(calls(&ran), 200);
        graph.remove(node).unwrap();
        drop(graph);
        t.becomes(|| holders(&ran), 0);
    });
}

/// The order in which a launch of four independent nodes calls them, and whether the driver is the simulated one.
fn order_of_independent_nodes(seed: u64) -> (Vec<u32>, bool) {
    let (order, simulated) = (Arc::new(Mutex::new(Vec::new())), AtomicU32::new(0));
    let mut options = SimOptions::default();
    options.seed = seed;
    run_with(options, |t| {
        simulated.store(t.sim().is_some().into(), Ordering::SeqCst);
        let mut graph = graph_of(t);
        for value in 0..4 {
            let order = Arc::clone(&order);
            graph.host(&[], move || order.lock().unwrap().push(value)).unwrap();
        }
        let stream = t.device().new_stream().unwrap();
        let mut exec = graph.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        drop((exec, graph));
        t.settle();
    });
    let order = order.lock().unwrap().clone();
    (order, simulated.load(Ordering::SeqCst) > 0)
}

#[test]
fn nodes_without_an_edge_between_run_in_an_order_that_the_seed_draws() {
    let mut orders = BTreeSet::new();
    for seed in 0..20 {
        let (order, simulated) = order_of_independent_nodes(seed);
        assert_eq!(order.iter().sum::<u32>(), 6, "each runs once: {order:?}");
        if simulated {
            orders.insert(order);
        }
    }
    assert_ne!(orders.len(), 1, "{orders:?}");
}

#[test]
fn exact_counts_of_a_launch_one_call_and_four_where_something_was_replaced() {
    run(|t| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let (_, calls) = t.calls(|| exec.launch(&stream).unwrap());
        assert_eq!(calls, ["cuGraphLaunch"]);
        let (_, calls) = t.calls(|| exec.set_host(&graph, node, || {}).unwrap());
        assert_eq!(calls, ["cuGraphExecHostNodeSetParams"]);
        exec.launch(&stream).unwrap();
        let (_, calls) = t.calls(|| exec.set_host(&graph, node, || {}).unwrap());
        let change = ["cuGraphExecHostNodeSetParams", "cuCtxGetCurrent"];
        assert_eq!(calls[..2], change);
        assert_eq!(calls.last(), Some(&"cuEventRecord"));
        let (_, calls) = t.calls(|| exec.launch(&stream).unwrap());
        let exchange = "cuThreadExchangeStreamCaptureMode";
        assert_eq!(calls, [exchange, "cuEventQuery", exchange, "cuGraphLaunch"]);
        stream.synchronize().unwrap();
        exec.launch(&stream).unwrap();
        let (_, calls) = t.calls(|| exec.launch(&stream).unwrap());
        assert_eq!(calls, ["cuGraphLaunch"]);
        let (_, calls) = t.calls(|| exec.set_host(&graph, node, || {}).unwrap());
        assert_eq!(calls, ["cuGraphExecHostNodeSetParams", "cuEventRecord"]);
        let (_, calls) = t.calls(|| drop(exec));
        let bracketed = [exchange, "cuGraphExecDestroy", exchange];
        assert_eq!(calls[..3], bracketed);
        assert_eq!(calls[3..], ["cuEventDestroy", "cuUserObjectRelease"]);
        stream.synchronize().unwrap();
        t.settle();
    });
}
