//! Conditionals in captures: bodies apart, in segments, directly.

use super::{MODES, begin, invalidate, launch, run, run_and_leak, run_simulated, stream};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_graph::{
    CaptureMode, CaptureStatus, ConditionalKind, GraphBuilder, NodeKind,
    handles::{Error, ErrorKind, EventOptions, Fate, LaunchConfig, Result},
};
use cuhold_memory::Buffer;
use cuhold_testkit::Kit;
use std::panic::{AssertUnwindSafe, catch_unwind};

const INJECTED: CUresult = CUresult(9001);

fn buffer(t: &Kit) -> Buffer<u32> {
    let stream = stream(t);
    let buffer = Buffer::zeroed(&stream, 16).unwrap();
    stream.synchronize().unwrap();
    buffer
}

#[test]
fn a_body_runs_or_not_by_its_condition_and_its_graph_is_known() {
    run(|t| {
        for mode in MODES {
            let stream = stream(t);
            let (mut yes, mut no, mut other) = (buffer(t), buffer(t), buffer(t));
            let mut builder = GraphBuilder::begin(&stream, mode).unwrap();
            let [one, two, three] =
                [Some(1), Some(0), Some(1)].map(|v| builder.condition(v).unwrap());
            builder.if_then(one, |body| body.fill(&mut yes, 1)).unwrap();
            builder.if_then(two, |body| body.fill(&mut no, 1)).unwrap();
            builder
                .switch(three, 2, |body, nth| match nth {
                    0 => body.fill(&mut other, 5),
                    _ => body.fill(&mut other, 6),
                })
                .unwrap();
            let mut graph = builder.end().unwrap();
            let nodes: Vec<_> = graph.nodes().collect();
            assert_eq!(nodes.len(), 3);
            assert_eq!(graph.predecessors(nodes[2]).unwrap(), [nodes[1]]);
            assert_eq!(graph.kind(nodes[0]).unwrap(), NodeKind::Conditional);
            let body = graph.body(nodes[0], 0).unwrap();
            let inside = graph.nodes_in(body).unwrap();
            assert_eq!(inside.len(), 1);
            assert_eq!(graph.kind(inside[0]).unwrap(), NodeKind::Child);
            assert!(graph.body(nodes[2], 1).is_ok() && graph.body(nodes[2], 2).is_err());
            launch(&mut graph, &stream);
            let values = [&yes, &no, &other].map(|buffer| buffer.to_vec().unwrap()[15]);
            assert_eq!(values, [1, 0, 6]);
        }
    });
}

#[test]
fn a_loop_runs_until_its_condition_is_0() {
    run_simulated(|t, sim| {
        let rounds = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = std::sync::Arc::clone(&rounds);
        sim.register_kernel("step", move |launch| {
            let condition: u64 = launch.param(0)?;
            let round = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            launch.set_condition(condition, u32::from(round < 4));
            Ok(())
        });
        let ptx = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry step(.param .u64 c) { ret; }";
        let step = t.device().load(ptx).unwrap().kernel("step").unwrap();
        let stream = stream(t);
        let mut builder = begin(&stream);
        let goes_on = builder.condition(Some(1)).unwrap();
        builder
            .while_loop(goes_on, |body| {
                // SAFETY: the kernel takes the condition alone.
                unsafe { body.launch(&step, LaunchConfig::for_len(1), (goes_on,)) }
            })
            .unwrap();
        let mut graph = builder.end().unwrap();
        drop(step);
        launch(&mut graph, &stream);
        assert_eq!(rounds.load(std::sync::atomic::Ordering::SeqCst), 5);
    });
}

#[test]
fn a_body_with_a_conditional_inside_is_captured_in_segments_that_run_in_order() {
    run(|t| {
        let stream = stream(t);
        let (mut a, mut b, mut c) = (buffer(t), buffer(t), buffer(t));
        let mut builder = begin(&stream);
        let [outer, inner, last] = [Some(1); 3].map(|value| builder.condition(value).unwrap());
        builder
            .if_else(
                outer,
                |body| {
                    body.fill(&mut a, 1)?;
                    body.if_then(inner, |inside| inside.copy(&mut b, &a))?;
                    let mut fork = body.fork()?;
                    let refused = body.if_then(last, |_| Ok(())).unwrap_err();
                    assert_eq!(refused.kind(), ErrorKind::State, "{refused}");
                    fork.copy(&mut c, &b)?;
                    body.join([fork])
                },
                |_| Ok(()),
            )
            .unwrap();
        let mut graph = builder.end().unwrap();
        let nodes: Vec<_> = graph.nodes().collect();
        let body = graph.body(nodes[0], 0).unwrap();
        let kinds: Vec<_> =
            graph.nodes_in(body).unwrap().iter().map(|node| graph.kind(*node).unwrap()).collect();
        assert_eq!(kinds, [NodeKind::Child, NodeKind::Conditional, NodeKind::Child]);
        // `last` is used by none, so that a conditional that does nothing uses it.
        assert_eq!(nodes.len(), 2);
        launch(&mut graph, &stream);
        assert_eq!(c.to_vec().unwrap(), [1; 16]);
    });
}

#[test]
fn scenario_s30_an_invalidated_body_leaves_its_parent_usable_200_rounds_in_each_mode() {
    run(|t| {
        let (stream, mut values) = (stream(t), buffer(t));
        for mode in MODES {
            for round in 0..200 {
                let mut builder = GraphBuilder::begin(&stream, mode).unwrap();
                let condition = builder.condition(Some(1)).unwrap();
                let error = builder
                    .if_then(condition, |body| {
                        body.fill(&mut values, 1)?;
                        invalidate(body);
                        let even = (round % 2 == 0).then_some(());
                        even.ok_or_else(|| Error::argument("the closure's"))
                    })
                    .unwrap_err();
                if round % 2 == 0 {
                    assert!(error.is(CUresult::STREAM_CAPTURE_INVALIDATED), "{error}");
                } else {
                    assert_eq!(
                        (error.kind(), error.notes().len()),
                        (ErrorKind::Argument, 1),
                        "{error}"
                    );
                }
                assert_eq!(builder.status().unwrap(), CaptureStatus::Capturing);
                if round % 3 == 0 {
                    // The condition can be used again, or not at all.
                    builder.if_then(condition, |body| body.fill(&mut values, round)).unwrap();
                }
                let mut graph = builder.end().unwrap();
                if round % 50 == 0 {
                    launch(&mut graph, &stream);
                }
            }
        }
        t.settle();
        values.to_vec().unwrap();
    });
}

/// As a closure may.
fn fails(panics: bool) -> Result<()> {
    if panics {
        std::panic::resume_unwind(Box::new("on purpose"));
    }
    Err(Error::argument("on purpose"))
}

#[test]
fn a_body_that_panics_or_fails_leaves_its_parent_and_its_conditions_usable() {
    run(|t| {
        for panics in [false, true] {
            let (stream, mut values) = (stream(t), buffer(t));
            let mut builder = begin(&stream);
            let [outer, inner] = [Some(1); 2].map(|value| builder.condition(value).unwrap());
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                builder.if_then(outer, |body| {
                    body.if_then(inner, |_| Ok(()))?;
                    fails(panics)
                })
            }));
            assert_eq!(outcome.is_err(), panics);
            builder.host(|| {}).unwrap();
            assert_eq!(builder.status().unwrap(), CaptureStatus::Capturing);
            builder
                .if_then(outer, |body| {
                    body.if_then(inner, |inside| inside.fill(&mut values, 7))?;
                    let error = body.if_then(inner, |_| Ok(())).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
                    Ok(())
                })
                .unwrap();
            let mut graph = builder.end().unwrap();
            launch(&mut graph, &stream);
            assert_eq!(values.to_vec().unwrap(), [7; 16]);
        }
    });
}

#[test]
fn what_a_body_can_not_hold_is_refused_when_it_is_asked_for() {
    run(|t| {
        let (stream, event) = (stream(t), t.device().new_event(EventOptions::default()).unwrap());
        let mut builder = begin(&stream);
        let condition = builder.condition(Some(0)).unwrap();
        builder
            .if_then(condition, |body| {
                let (errors, calls) = t.calls(|| {
                    [
                        body.host(|| {}).unwrap_err(),
                        body.record(&event).unwrap_err(),
                        body.wait(&event).unwrap_err(),
                        body.allocate::<u8>(1).unwrap_err(),
                    ]
                });
                for error in errors {
                    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
                }
                assert_eq!(calls, [""; 0]);
                assert_eq!(body.end().unwrap_err().kind(), ErrorKind::State);
                Ok(())
            })
            .unwrap();
        builder.end().unwrap().instantiate().unwrap();
    });
}

#[test]
fn scenario_s43_memory_of_the_parent_is_not_freed_in_a_body_and_comes_back() {
    run(|t| {
        let (stream, mut values) = (stream(t), buffer(t));
        let mut builder = begin(&stream);
        let memory = builder.allocate::<u32>(16).unwrap();
        let condition = builder.condition(Some(1)).unwrap();
        let mut left = Some(memory);
        builder
            .if_then(condition, |body| {
                let refused = body.free(left.take().unwrap()).unwrap_err();
                assert_eq!(refused.error.kind(), ErrorKind::Argument);
                left = refused.value;
                body.fill(&mut values, 1)
            })
            .unwrap();
        builder.free(left.unwrap()).unwrap();
        let mut graph = builder.end().unwrap();
        let kinds: Vec<_> = graph.nodes().map(|node| graph.kind(node).unwrap()).collect();
        assert_eq!(kinds, [NodeKind::Allocate, NodeKind::Conditional, NodeKind::Free]);
        launch(&mut graph, &stream);
        assert_eq!(values.to_vec().unwrap(), [1; 16]);
    });
}

#[test]
fn a_condition_is_for_one_node_of_its_own_capture() {
    run(|t| {
        let (one, two) = (stream(t), stream(t));
        let mut builder = GraphBuilder::begin(&one, CaptureMode::Relaxed).unwrap();
        let mut other = GraphBuilder::begin(&two, CaptureMode::Relaxed).unwrap();
        let condition = builder.condition(Some(0)).unwrap();
        assert_eq!(other.if_then(condition, |_| Ok(())).unwrap_err().kind(), ErrorKind::Argument);
        builder
            .if_then(condition, |body| {
                let error = body.if_then(condition, |_| Ok(())).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Argument);
                Ok(())
            })
            .unwrap();
        assert_eq!(builder.if_then(condition, |_| Ok(())).unwrap_err().kind(), ErrorKind::Argument);
        assert_eq!(
            builder.switch(condition, 0, |_, _| Ok(())).unwrap_err().kind(),
            ErrorKind::Argument
        );
        builder.end().unwrap().instantiate().unwrap();
        other.end().unwrap();
    });
}

#[test]
fn a_body_captured_directly_holds_a_conditional_beside_open_forks() {
    run(|t| {
        let stream = stream(t);
        let (mut a, mut b) = (buffer(t), buffer(t));
        let mut builder = begin(&stream);
        let (outer, inner) =
            (builder.condition(Some(1)).unwrap(), builder.condition(Some(1)).unwrap());
        builder
            .conditional_direct(outer, ConditionalKind::If, 1, |body, _| {
                let mut fork = body.fork()?;
                fork.fill(&mut a, 3)?;
                body.if_then(inner, |inside| inside.fill(&mut b, 4))?;
                body.join([fork])
            })
            .unwrap();
        let mut graph = builder.end().unwrap();
        launch(&mut graph, &stream);
        assert_eq!((a.to_vec().unwrap()[0], b.to_vec().unwrap()[0]), (3, 4));
    });
}

#[test]
fn an_invalidated_direct_body_poisons_its_capture_whose_graph_is_leaked_with_one_report() {
    run_and_leak(|device| {
        let (driver, stream) = (device.driver(), device.new_stream().unwrap());
        let mut builder = begin(&stream);
        let condition = builder.condition(Some(1)).unwrap();
        let error = builder
            .conditional_direct(condition, ConditionalKind::If, 1, |body, _| {
                invalidate(body);
                Ok(())
            })
            .unwrap_err();
        assert!(error.is(CUresult::STREAM_CAPTURE_INVALIDATED), "{error}");
        assert_eq!(builder.host(|| {}).unwrap_err().kind(), ErrorKind::State);
        let warnings = driver.reports().capture(8);
        let error = builder.end().unwrap_err();
        let told = warnings.take();
        assert_eq!(error.kind(), ErrorKind::State, "{error}");
        assert_eq!((told.len(), told[0].fate()), (1, Some(Fate::Leaked)), "{told:?}");
        assert_eq!(builder.status().unwrap(), CaptureStatus::NotCapturing);
        // The stream is free, and other graphs are built and run as ever.
        let mut values = Buffer::<u32>::zeroed(&stream, 16).unwrap();
        builder.begin_again(CaptureMode::Global).unwrap();
        let condition = builder.condition(Some(1)).unwrap();
        builder.if_then(condition, |body| body.fill(&mut values, 2)).unwrap();
        let mut graph = builder.end().unwrap();
        launch(&mut graph, &stream);
        assert_eq!(values.to_vec().unwrap(), [2; 16]);
    });
}

#[test]
fn a_direct_body_that_is_not_whole_spoils_its_capture_whose_graph_is_destroyed() {
    run(|t| {
        let stream = stream(t);
        let mut builder = begin(&stream);
        let condition = builder.condition(Some(1)).unwrap();
        let error = builder
            .conditional_direct(condition, ConditionalKind::If, 1, |_, _| {
                Err(Error::argument("the closure's"))
            })
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        let (error, calls) = t.calls(|| builder.end().unwrap_err());
        assert_eq!(error.kind(), ErrorKind::State, "{error}");
        assert!(calls.contains(&"cuGraphDestroy"), "{calls:?}");
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_body_that_can_not_be_put_into_its_node_spoils_the_capture() {
    run_simulated(|t, _| {
        let (stream, mut values) = (stream(t), buffer(t));
        let mut builder = begin(&stream);
        let condition = builder.condition(Some(1)).unwrap();
        t.faults().arm(Fault::refused(INJECTED).on(Call::cuGraphAddChildGraphNode));
        let error = builder.if_then(condition, |body| body.fill(&mut values, 1)).unwrap_err();
        t.faults().disarm();
        assert!(error.is(INJECTED), "{error}");
        assert_eq!(builder.host(|| {}).unwrap_err().kind(), ErrorKind::State);
        let error = builder.end().unwrap_err();
        assert!(error.to_string().contains("cuGraphAddChildGraphNode"), "{error}");
    });
}
