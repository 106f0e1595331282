//! What is kept for launches, and for how long.

use super::*;

#[test]
fn what_a_change_replaced_is_kept_while_a_launch_under_way_may_use_it() {
    run(|t| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let (first, second) = (token(), token());
        exec.set_host(&graph, node, counting(&first)).unwrap();
        let open = gate(&stream);
        exec.launch(&stream).unwrap();
        exec.set_host(&graph, node, counting(&second)).unwrap();
        exec.drain().unwrap();
        assert_eq!((holders(&first), exec.retired()), (1, 1), "the launch is to call it yet");
        drop(open);
        stream.synchronize().unwrap();
        assert_eq!((calls(&first), calls(&second)), (1, 0));
        exec.drain().unwrap();
        assert_eq!((holders(&first), exec.retired()), (0, 0), "nothing can call it any more");
        assert_eq!(holders(&second), 1);
    });
}

#[test]
fn a_later_launch_lets_go_of_what_nothing_uses_any_more_and_so_does_a_later_change() {
    run(|t| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let tokens = [token(), token(), token()];
        for token in &tokens[..2] {
            exec.set_host(&graph, node, counting(token)).unwrap();
            exec.launch(&stream).unwrap();
        }
        exec.set_host(&graph, node, counting(&tokens[2])).unwrap();
        stream.synchronize().unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(tokens.each_ref().map(holders), [0, 0, 1]);
        exec.set_host(&graph, node, || {}).unwrap();
        stream.synchronize().unwrap();
        exec.set_host(&graph, node, || {}).unwrap();
        assert_eq!(holders(&tokens[2]), 0);
    });
}

#[test]
fn what_no_launch_has_used_goes_with_the_change_that_replaces_it() {
    run(|t| {
        let (graph, node, mut exec, _) = of_one_host_node(t);
        let tokens: Vec<_> = (0..5).map(|_| token()).collect();
        for token in &tokens {
            exec.set_host(&graph, node, counting(token)).unwrap();
        }
        assert_eq!(tokens.iter().map(holders).collect::<Vec<_>>(), [0, 0, 0, 0, 1]);
        assert_eq!(exec.retired(), 0);
    });
}

#[test]
fn an_executable_that_is_dropped_while_it_runs_leaves_the_launch_what_it_uses() {
    run(|t| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let (old, new) = (token(), token());
        exec.set_host(&graph, node, counting(&old)).unwrap();
        let open = gate(&stream);
        exec.launch(&stream).unwrap();
        exec.set_host(&graph, node, counting(&new)).unwrap();
        exec.launch(&stream).unwrap();
        drop((exec, graph));
        // Two launches are under way.
        t.becomes(|| (holders(&old), holders(&new)), (1, 1));
        drop(open);
        stream.synchronize().unwrap();
        assert_eq!((calls(&old), calls(&new)), (1, 1));
        // The driver lets go on a thread of its own, some time after the launch.
        while holders(&old) + holders(&new) > 0 {
            t.settle();
            thread::yield_now();
        }
    });
}

#[test]
fn a_change_that_says_it_failed_leaves_the_executable_as_it_was_and_keeps_what_either_needs() {
    run_simulated(|t, _| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let tokens = [token(), token(), token(), token()];
        let failed = CUresult(9001);
        exec.set_host(&graph, node, counting(&tokens[0])).unwrap();
        t.faults().arm(Fault::refused(failed).on(Call::cuGraphExecHostNodeSetParams));
        let error = exec.set_host(&graph, node, counting(&tokens[1])).unwrap_err();
        assert!(error.is(failed) && error.completed().is_none(), "{error}");
        t.faults().disarm();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(tokens.each_ref().map(calls), [1, 0, 0, 0]);
        assert_eq!(tokens.each_ref().map(holders), [1, 1, 0, 0]);

        // Carried out all the same: what is called is kept.
        t.faults().arm(Fault::done_but_failed(failed).on(Call::cuGraphExecHostNodeSetParams));
        exec.set_host(&graph, node, counting(&tokens[2])).unwrap_err();
        t.faults().disarm();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(tokens.each_ref().map(calls), [1, 0, 1, 0]);
        assert_eq!(tokens.each_ref().map(holders), [1, 1, 1, 0]);

        exec.set_host(&graph, node, counting(&tokens[3])).unwrap();
        stream.synchronize().unwrap();
        exec.drain().unwrap();
        assert_eq!(tokens.each_ref().map(holders), [0, 0, 0, 1]);
    });
}

#[test]
fn once_its_raw_value_was_taken_what_changes_replace_is_kept_until_the_end() {
    run(|t| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let replaced = token();
        exec.set_host(&graph, node, counting(&replaced)).unwrap();
        assert!(!exec.as_raw().is_null());
        exec.set_host(&graph, node, || {}).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        exec.drain().unwrap();
        assert_eq!(holders(&replaced), 1, "others may have launched it");
        drop((exec, graph));
        t.becomes(|| holders(&replaced), 0);
    });
}

#[test]
fn a_panic_in_the_drop_of_what_was_replaced_is_one_warning() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on its way out");
        }
    }
    run(|t| {
        let (graph, node, mut exec, _) = of_one_host_node(t);
        let panics = Panics;
        exec.set_host(&graph, node, move || {
            let _: &Panics = &panics;
        })
        .unwrap();
        let heard = t.driver().reports().capture(4);
        exec.set_host(&graph, node, || {}).unwrap();
        let warnings = heard.take();
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].kind(), WarningKind::Panicked);
    });
}

#[test]
fn while_a_builder_captures_the_stream_of_the_last_launch_what_changes_replace_waits_for_a_later_one()
 {
    run(|t| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let replaced = token();
        exec.set_host(&graph, node, counting(&replaced)).unwrap();
        exec.launch(&stream).unwrap();
        let mut builder = GraphBuilder::begin(&stream, CaptureMode::Relaxed).unwrap();
        exec.set_host(&graph, node, || {}).unwrap();
        exec.drain().unwrap();
        assert_eq!((holders(&replaced), exec.retired()), (1, 1));
        assert_eq!(exec.launch(&stream).unwrap_err().kind(), ErrorKind::State);
        assert!(builder.end().unwrap().is_empty(), "nothing of it is in the capture");
        exec.drain().unwrap();
        stream.synchronize().unwrap();
        exec.drain().unwrap();
        assert_eq!((holders(&replaced), exec.retired()), (0, 0));
    });
}

#[test]
fn scenario_s50_a_host_function_serves_every_launch_of_every_executable_and_goes_once() {
    run(|t| {
        let (ran, stream) = (token(), t.device().new_stream().unwrap());
        let mut graph = graph_of(t);
        graph.host(&[], counting(&ran)).unwrap();
        let mut execs = [graph.instantiate().unwrap(), graph.instantiate().unwrap()];
        drop(graph);
        for exec in &mut execs {
            for _ in 0..3 {
                exec.launch(&stream).unwrap();
            }
        }
        stream.synchronize().unwrap();
        assert_eq!(calls(&ran), 6);
        let [first, second] = execs;
        drop(first);
        // The other one may call it.
        t.becomes(|| holders(&ran), 1);
        drop(second);
        t.becomes(|| holders(&ran), 0);
    });
}

#[test]
fn where_the_driver_lets_go_later_what_an_executable_kept_goes_then_and_never_before() {
    let mut options = SimOptions::default();
    options.destructors = Destructors::Later;
    run_with(options, |t| {
        let Some(sim) = t.sim() else { return t.skip("when destructors run is the simulator's") };
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let (old, new) = (token(), token());
        exec.set_host(&graph, node, counting(&old)).unwrap();
        exec.launch(&stream).unwrap();
        exec.set_host(&graph, node, counting(&new)).unwrap();
        exec.launch(&stream).unwrap();
        drop((exec, graph));
        stream.synchronize().unwrap();
        // The driver hasn't called.
        t.becomes(|| (holders(&old), holders(&new)), (1, 1));
        sim.run_destructors();
        t.becomes(|| (calls(&old), calls(&new)), (1, 1));
        t.becomes(|| (holders(&old), holders(&new)), (0, 0));
    });
}
