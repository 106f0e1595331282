//! Forks and joins.

use super::{begin, launch, run, stream};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_graph::{
    CaptureMode, CaptureStatus, GraphBuilder,
    handles::{ErrorKind, Note},
};
use std::sync::{Arc, Mutex};

#[test]
fn forks_run_side_by_side_between_what_is_in_front_and_behind() {
    run(|t| {
        let stream = stream(t);
        let order = Arc::new(Mutex::new(Vec::new()));
        let push = |value: u32| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(value)
        };
        let mut builder = begin(&stream);
        builder.host(push(1)).unwrap();
        let mut forks: Vec<_> = (0..3).map(|_| builder.fork().unwrap()).collect();
        for (fork, value) in forks.iter_mut().zip(2..) {
            fork.host(push(value)).unwrap();
        }
        builder.host(push(5)).unwrap();
        builder.join(forks).unwrap();
        builder.host(push(6)).unwrap();
        let mut graph = builder.end().unwrap();
        let nodes: Vec<_> = graph.nodes().collect();
        for beside in &nodes[1..5] {
            assert_eq!(graph.predecessors(*beside).unwrap(), [nodes[0]]);
        }
        let mut behind = graph.predecessors(nodes[5]).unwrap();
        behind.sort_unstable();
        assert_eq!(behind, nodes[1..5]);
        launch(&mut graph, &stream);
        let order = order.lock().unwrap();
        assert_eq!((order.len(), order[0], order[5]), (6, 1, 6));
        drop(graph);
        t.settle();
    });
}

#[test]
fn a_fork_of_a_fork_is_joined_into_it_or_into_the_first_builder() {
    run(|t| {
        let stream = stream(t);
        let mut first = begin(&stream);
        let mut second = first.fork().unwrap();
        let mut third = second.fork().unwrap();
        let mut fourth = second.fork().unwrap();
        for builder in [&mut first, &mut second, &mut third, &mut fourth] {
            builder.host(|| {}).unwrap();
        }
        second.join([third]).unwrap();
        first.join([fourth, second]).unwrap();
        assert_eq!(first.end().unwrap().len(), 4);
    });
}

#[test]
fn a_builder_follows_another_one_without_ending_it() {
    run(|t| {
        let stream = stream(t);
        let mut left = begin(&stream);
        let mut right = left.fork().unwrap();
        left.host(|| {}).unwrap();
        right.follow(&left).unwrap();
        right.host(|| {}).unwrap();
        left.host(|| {}).unwrap();
        left.join([right]).unwrap();
        let graph = left.end().unwrap();
        let nodes: Vec<_> = graph.nodes().collect();
        assert_eq!(graph.predecessors(nodes[1]).unwrap(), [nodes[0]]);
        assert_eq!(graph.predecessors(nodes[2]).unwrap(), [nodes[0]]);
    });
}

#[test]
fn ending_a_fork_is_refused_before_the_driver_is_asked() {
    run(|t| {
        let stream = stream(t);
        let mut builder = begin(&stream);
        let mut fork = builder.fork().unwrap();
        let (error, calls) = t.calls(|| fork.end().unwrap_err());
        assert_eq!((error.kind(), calls.len()), (ErrorKind::State, 0), "{error}");
        assert_eq!(fork.begin_again(CaptureMode::Relaxed).unwrap_err().kind(), ErrorKind::State);
        builder.join([fork]).unwrap();
        builder.end().unwrap();
    });
}

#[test]
fn an_unjoined_fork_with_work_is_told_by_the_end_also_when_it_is_gone() {
    run(|t| {
        for dropped in [false, true] {
            let stream = stream(t);
            let mut builder = begin(&stream);
            let mut fork = builder.fork().unwrap();
            fork.host(|| {}).unwrap();
            let fork = if dropped { None } else { Some(fork) };
            let error = builder.end().unwrap_err();
            assert!(error.is(CUresult::STREAM_CAPTURE_UNJOINED), "{error}");
            assert!(error.to_string().contains("1 forks weren't joined"), "{error}");
            assert_eq!(builder.status().unwrap(), CaptureStatus::NotCapturing);
            if let Some(mut fork) = fork {
                assert_eq!(fork.host(|| {}).unwrap_err().kind(), ErrorKind::State);
            }
            stream.synchronize().unwrap();
            t.settle();
        }
    });
}

#[test]
fn a_builder_of_another_capture_is_neither_joined_nor_followed_and_both_captures_go_on() {
    run(|t| {
        let (one, two) = (stream(t), stream(t));
        let mut first = GraphBuilder::begin(&one, CaptureMode::Relaxed).unwrap();
        let mut second = GraphBuilder::begin(&two, CaptureMode::Relaxed).unwrap();
        let fork = second.fork().unwrap();
        assert_eq!(first.follow(&second).unwrap_err().kind(), ErrorKind::Argument);
        assert_eq!(first.join([fork]).unwrap_err().kind(), ErrorKind::Argument);
        first.host(|| {}).unwrap();
        second.host(|| {}).unwrap();
        assert_eq!((first.end().unwrap().len(), second.end().unwrap().len()), (1, 1));
    });
}

#[test]
fn scenario_s29_a_join_that_fails_half_way_leaves_forks_that_can_be_dropped() {
    const INJECTED: CUresult = CUresult(9001);
    run(|t| {
        for call in [Call::cuEventRecord, Call::cuStreamWaitEvent] {
            let stream = stream(t);
            let mut builder = begin(&stream);
            let mut forks: Vec<_> = (0..3).map(|_| builder.fork().unwrap()).collect();
            forks.iter_mut().for_each(|fork| fork.host(|| {}).unwrap());
            t.faults().arm(Fault::refused(INJECTED).on(call).nth(2));
            let (error, calls) = t.calls(|| builder.join(forks).unwrap_err());
            t.faults().disarm();
            assert!(error.is(INJECTED), "{error}");
            let orders = calls.iter().filter(|made| **made == "cuEventRecord").count();
            assert_eq!(orders, 2, "the third fork isn't reached: {calls:?}");
            let error = builder.end().unwrap_err();
            assert!(error.is(CUresult::STREAM_CAPTURE_UNJOINED), "{error}");
            assert!(error.to_string().contains("2 forks weren't joined"), "{error}");
            stream.synchronize().unwrap();
            t.settle();
        }
    });
}

#[test]
fn a_fork_whose_stream_can_not_be_destroyed_keeps_no_other_from_being_joined() {
    const INJECTED: CUresult = CUresult(9001);
    run(|t| {
        let stream = stream(t);
        let mut builder = begin(&stream);
        let mut forks: Vec<_> = (0..3).map(|_| builder.fork().unwrap()).collect();
        forks.iter_mut().for_each(|fork| fork.host(|| {}).unwrap());
        t.faults().arm(Fault::done_but_failed(INJECTED).on(Call::cuStreamDestroy_v2).nth(1));
        t.faults().arm(Fault::done_but_failed(CUresult(9002)).on(Call::cuStreamDestroy_v2).nth(2));
        let error = builder.join(forks).unwrap_err();
        t.faults().disarm();
        assert!(error.is(INJECTED), "{error}");
        let second =
            |note: &Note| matches!(note, Note::Failed(failure) if failure.status.0 == 9002);
        assert!(error.notes().iter().any(second), "{error}");
        assert_eq!(builder.end().unwrap().len(), 3);
    });
}
