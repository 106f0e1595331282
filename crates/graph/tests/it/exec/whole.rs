//! Executables that are changed as a whole.

use super::*;

#[test]
fn a_whole_update_does_what_the_other_graph_does_and_keeps_what_that_keeps() {
    run(|t| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let (old, new) = (token(), token());
        exec.set_host(&graph, node, counting(&old)).unwrap();
        exec.launch(&stream).unwrap();
        let mut other = graph_of(t);
        other.host(&[], counting(&new)).unwrap();
        exec.update(&mut other).unwrap();
        drop(other);
        t.settle();
        stream.synchronize().unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((calls(&old), calls(&new)), (1, 1));
        assert_eq!((holders(&old), holders(&new)), (0, 1));
        // The nodes are still those of the graph that it was made from.
        exec.set_host(&graph, node, || {}).unwrap();
        drop((exec, graph));
        t.becomes(|| holders(&new), 0);
    });
}

#[test]
fn what_a_node_is_given_after_a_whole_update_outlives_the_executable_as_well() {
    run(|t| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let mut other = graph_of(t);
        other.host(&[], || {}).unwrap();
        exec.update(&mut other).unwrap();
        drop(other);
        let late = token();
        exec.set_host(&graph, node, counting(&late)).unwrap();
        let open = gate(&stream);
        exec.launch(&stream).unwrap();
        drop((exec, graph));
        t.becomes(|| holders(&late), 1);
        drop(open);
        stream.synchronize().unwrap();
        assert_eq!(calls(&late), 1);
        while holders(&late) > 0 {
            t.settle();
            thread::yield_now();
        }
    });
}

#[test]
fn a_refused_update_names_the_reason_and_the_node_and_the_executable_runs_as_before() {
    run(|t| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let (kept, never) = (token(), token());
        exec.set_host(&graph, node, counting(&kept)).unwrap();

        let mut more = graph_of(t);
        let first = more.host(&[], counting(&never)).unwrap();
        more.empty(&[first]).unwrap();
        let refused = exec.update(&mut more).unwrap_err();
        assert_eq!(refused.reason, Some(UpdateReason::Topology));
        assert!(refused.error.is(CUresult::GRAPH_EXEC_UPDATE_FAILURE), "{refused}");

        let mut other = graph_of(t);
        let kind = other.empty(&[]).unwrap();
        let refused = exec.update(&mut other).unwrap_err();
        assert_eq!((refused.reason, refused.node), (Some(UpdateReason::Kind), Some(kind)));
        let text = refused.to_string();
        assert!(text.contains("of another kind"), "{text}");
        assert!(text.contains("node 0, of the kind Empty"), "{text}");

        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((calls(&kept), calls(&never)), (1, 0));
        drop((more, other));
        t.becomes(|| (holders(&kept), holders(&never)), (1, 0));
    });
}

#[test]
fn an_update_whose_failure_is_untrue_leaves_nothing_dangling() {
    run_simulated(|t, _| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let (given, taken) = (token(), token());
        exec.set_host(&graph, node, counting(&given)).unwrap();
        let mut other = graph_of(t);
        other.host(&[], counting(&taken)).unwrap();
        t.faults().arm(Fault::done_but_failed(CUresult(9001)).on(Call::cuGraphExecUpdate_v2));
        let refused = exec.update(&mut other).unwrap_err();
        t.faults().disarm();
        assert_eq!(refused.reason, None, "the driver gave none");
        drop(other);
        t.settle();
        exec.launch(&stream).unwrap();
        // What comes now is kept for the launch as well, although the driver has changed the executable.
        exec.set_host(&graph, node, counting(&given)).unwrap();
        let open = gate(&stream);
        exec.launch(&stream).unwrap();
        drop((exec, graph));
        t.settle();
        assert!(holders(&given) > 0);
        drop(open);
        stream.synchronize().unwrap();
        t.becomes(|| (calls(&taken), calls(&given)), (1, 1));
        t.becomes(|| (holders(&taken), holders(&given)), (0, 0));
    });
}

#[test]
fn scenario_s48_a_refused_update_and_a_failed_fallback_leave_the_old_executable() {
    run_simulated(|t, _| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let kept = token();
        exec.set_host(&graph, node, counting(&kept)).unwrap();
        let mut other = graph_of(t);
        let first = other.host(&[], || {}).unwrap();
        other.host(first, || {}).unwrap();
        let refused = exec.update(&mut other).unwrap_err();
        assert!(refused.error.is(CUresult::GRAPH_EXEC_UPDATE_FAILURE), "{refused}");
        assert_eq!(refused.reason, Some(UpdateReason::Topology));

        let out_of_memory = CUresult::OUT_OF_MEMORY;
        t.faults().arm(Fault::refused(out_of_memory).on(Call::cuGraphInstantiateWithParams));
        let error = other.instantiate().unwrap_err();
        assert!(error.is(out_of_memory), "{error}");
        t.faults().disarm();

        for _ in 0..3 {
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
        }
        assert_eq!(calls(&kept), 3);
        exec = other.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        // The old one is gone.
        t.becomes(|| holders(&kept), 0);
    });
}
