//! What went wrong in other libraries: see `docs/scenarios.md`.

use super::{MODES, begin, invalidate, launch, run, run_simulated, stream};
use cuhold_driver_sys::{CUresult, Call, Fault, ffi::CUstreamCaptureMode};
use cuhold_graph::{
    CaptureMode, CaptureStatus, GraphBuilder, capture,
    handles::{Driver, Error, ErrorKind, Fate, Note},
};
use cuhold_memory::{Buffer, Pool, PoolOptions};
use cuhold_testkit::PTX;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

/// The thread's capture mode: read by an exchange, and put back by another one.
fn thread_mode(driver: &Driver) -> CUstreamCaptureMode {
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: *pointers*: a live local.
    unsafe { driver.calls().cuThreadExchangeStreamCaptureMode(&raw mut mode) }.unwrap();
    let found = mode;
    // SAFETY: as above.
    unsafe { driver.calls().cuThreadExchangeStreamCaptureMode(&raw mut mode) }.unwrap();
    found
}

#[test]
fn scenario_s28_an_invalidated_capture_s_graph_is_the_driver_s_200_rounds_in_each_mode() {
    run(|t| {
        let stream = stream(t);
        let used = Arc::new(());
        for mode in MODES {
            for round in 0..200 {
                let mut builder = GraphBuilder::begin(&stream, mode).unwrap();
                let keeps = Arc::clone(&used);
                builder.host(move || assert!(Arc::strong_count(&keeps) > 0)).unwrap();
                invalidate(&builder);
                if round % 2 == 0 {
                    let error = builder.end().unwrap_err();
                    assert!(error.is(CUresult::STREAM_CAPTURE_INVALIDATED), "{error}");
                    // It is told once: the builder has nothing left to end.
                    let ((), calls) = t.calls(|| drop(builder));
                    assert_eq!(calls, [""; 0]);
                } else {
                    let warnings = t.driver().reports().capture(8);
                    let ((), calls) = t.calls(|| drop(builder));
                    assert!(!calls.contains(&"cuGraphDestroy"), "{calls:?}");
                    let told = warnings.take();
                    assert_eq!(told.len(), 1, "{told:?}");
                    assert_eq!(told[0].status(), Some(CUresult::STREAM_CAPTURE_INVALIDATED));
                    assert_eq!(told[0].fate(), Some(Fate::Released));
                }
            }
        }
        stream.synchronize().unwrap();
        // What the graphs kept is let go of.
        t.becomes(|| Arc::strong_count(&used), 1);
    });
}

#[test]
fn scenario_s32_a_closure_that_fails_or_panics_leaves_no_capture() {
    run(|t| {
        let stream = stream(t);
        let used = Arc::new(());
        let body = |builder: &mut GraphBuilder| {
            let keeps = Arc::clone(&used);
            builder.host(move || assert!(Arc::strong_count(&keeps) > 0))?;
            invalidate(builder);
            Ok::<(), Error>(())
        };
        // A: its error is given back, and the end's is a note.
        let error = capture(&stream, CaptureMode::Global, |builder| {
            body(builder)?;
            Err::<(), _>(Error::argument("the closure's own"))
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        let second = |note: &Note| matches!(note, Note::Failed(failure) if failure.status == CUresult::STREAM_CAPTURE_INVALIDATED);
        assert!(error.notes().iter().any(second), "{error}");
        // B: a panic passes through, and one report tells of the invalidation.
        let warnings = t.driver().reports().capture(8);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            capture(&stream, CaptureMode::Global, |builder| {
                body(builder)?;
                std::panic::resume_unwind(Box::new("the closure's own"));
                #[expect(unreachable_code, reason = "says what the closure gives")]
                Ok(())
            })
        }))
        .unwrap_err();
        assert_eq!(panicked.downcast_ref::<&str>(), Some(&"the closure's own"));
        assert_eq!(warnings.take().len(), 1);
        drop(warnings);
        // The thread may allocate again, and the stream can be used.
        Buffer::<u8>::zeroed(&stream, 10).unwrap();
        stream.synchronize().unwrap();
        t.becomes(|| Arc::strong_count(&used), 1);
    });
}

/// Goes to another thread although it mustn't.
struct Sent<T>(T);

// SAFETY: the test's thread waits meanwhile.
#[expect(clippy::non_send_fields_in_send_ty, reason = "what the test is about")]
unsafe impl<T> Send for Sent<T> {}

#[test]
fn scenario_s32_a_builder_dropped_on_another_thread_is_one_report_and_no_crash() {
    run(|t| {
        for mode in MODES {
            let stream = stream(t);
            let mut builder = GraphBuilder::begin(&stream, mode).unwrap();
            builder.host(|| {}).unwrap();
            let sent = Sent(builder);
            let warnings = t.driver().reports().capture(8);
            thread::scope(|scope| {
                let sent = sent;
                scope.spawn(move || {
                    let sent = sent;
                    drop(sent);
                });
            });
            let told = warnings.take();
            drop(warnings);
            if mode == CaptureMode::Relaxed {
                assert_eq!(told, []);
            } else {
                assert_eq!(told.len(), 1, "{told:?}");
                assert_eq!(told[0].status(), Some(CUresult::STREAM_CAPTURE_WRONG_THREAD));
            }
            t.settle();
            // The capture is over (measured), so that the stream is free.
            stream.synchronize().unwrap();
        }
    });
}

#[test]
fn scenario_s35_the_library_s_own_polling_leaves_a_global_capture_alone() {
    run(|t| {
        let (stream, other) = (stream(t), stream(t));
        let mut buffer = Buffer::<u32>::zeroed(&other, 1000).unwrap();
        let mut pending = Some(buffer.write_from(vec![5; 1000]).unwrap());
        let mut builder = GraphBuilder::begin(&stream, CaptureMode::Global).unwrap();
        builder.host(|| {}).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let before = thread_mode(t.driver());
                let copy = pending.take().unwrap();
                for _ in 0..100 {
                    copy.is_done().unwrap();
                }
                assert_eq!(copy.wait().unwrap(), [5; 1000]);
                assert_eq!(thread_mode(t.driver()), before);
            });
        });
        assert_eq!(builder.status().unwrap(), CaptureStatus::Capturing);
        assert_eq!(builder.end().unwrap().len(), 1);
    });
}

#[test]
fn scenario_s35_a_question_that_the_user_asks_is_the_driver_s_and_both_hear_of_it() {
    run(|t| {
        let (stream, other) = (stream(t), stream(t));
        let event = other.record_new(Default::default()).unwrap();
        let mut builder = GraphBuilder::begin(&stream, CaptureMode::Global).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let error = event.is_done().unwrap_err();
                assert!(error.is(CUresult::STREAM_CAPTURE_UNSUPPORTED), "{error}");
            });
        });
        assert_eq!(builder.status().unwrap(), CaptureStatus::Invalidated);
        assert!(builder.end().unwrap_err().is(CUresult::STREAM_CAPTURE_INVALIDATED));
    });
}

#[test]
fn scenario_s36_code_is_loaded_and_unloaded_beside_a_capture() {
    run(|t| {
        for mode in MODES {
            let stream = stream(t);
            let unrelated = [t.device().load(PTX).unwrap(), t.device().load(PTX).unwrap()];
            let [here, there] = unrelated;
            let mut builder = GraphBuilder::begin(&stream, mode).unwrap();
            let nop = t.device().load(PTX).unwrap().kernel("nop").unwrap();
            let config = cuhold_graph::handles::LaunchConfig::for_len(1);
            // SAFETY: the kernel takes nothing and does nothing.
            unsafe { builder.launch(&nop, config, ()) }.unwrap();
            drop(here);
            thread::scope(|scope| {
                scope.spawn(|| drop(there));
            });
            t.settle();
            assert_eq!(builder.status().unwrap(), CaptureStatus::Capturing);
            let mut graph = builder.end().unwrap();
            drop(nop);
            launch(&mut graph, &stream);
        }
    });
}

#[test]
fn scenario_s37_a_builder_s_allocation_leaves_the_thread_s_mode_as_it_was() {
    const INJECTED: CUresult = CUresult(9001);
    run(|t| {
        let stream = stream(t);
        let before = thread_mode(t.driver());
        let mut builder = begin(&stream);
        t.faults().arm(Fault::refused(INJECTED).on(Call::cuMemAllocAsync));
        assert!(builder.allocate::<u8>(16).unwrap_err().is(INJECTED));
        t.faults().disarm();
        assert_eq!(thread_mode(t.driver()), before);
        let memory = builder.allocate::<u8>(16).unwrap();
        assert_eq!(thread_mode(t.driver()), before);
        builder.free(memory).unwrap();
        assert_eq!(builder.end().unwrap().len(), 2);
        assert_eq!(thread_mode(t.driver()), before);
    });
}

#[test]
fn scenario_s38_a_captured_upload_owns_what_it_reads() {
    run(|t| {
        let (stream, other) = (stream(t), stream(t));
        let mut buffer = Buffer::<u32>::zeroed(&other, 1000).unwrap();
        let mut builder = begin(&stream);
        {
            let temporary: Arc<[u32]> = (0..1000).collect();
            builder.copy_from_host(&mut buffer, temporary).unwrap();
        }
        let mut graph = builder.end().unwrap();
        let mut exec = graph.instantiate().unwrap();
        drop(graph);
        t.settle();
        for _ in 0..2 {
            // Other memory takes the place of what was let go of, if that was.
            let overwritten: Vec<Arc<[u32]>> = (0..64).map(|_| vec![9; 1000].into()).collect();
            buffer.view_mut(..).unwrap().fill(0).unwrap();
            other.synchronize().unwrap();
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(buffer.to_vec().unwrap(), (0..1000).collect::<Vec<_>>());
            drop(overwritten);
        }
    });
}

#[test]
fn scenario_s41_where_a_graph_can_not_be_made_executable_its_capture_was_ended_once() {
    const INJECTED: CUresult = CUresult(9001);
    run_simulated(|t, sim| {
        let stream = stream(t);
        t.faults().arm(Fault::refused(INJECTED).on(Call::cuGraphInstantiateWithParams));
        let (result, calls) = t.calls(|| {
            let (mut graph, ()) =
                capture(&stream, CaptureMode::Global, |builder| builder.host(|| {}))?;
            graph.instantiate().map(drop)
        });
        t.faults().disarm();
        assert!(result.unwrap_err().is(INJECTED));
        let count = |name| calls.iter().filter(|call| **call == name).count();
        assert_eq!((count("cuStreamEndCapture"), count("cuGraphDestroy")), (1, 1));
        assert_eq!(sim.captures(), 0);
    });
}

#[test]
fn scenario_s44_a_free_on_a_fork_comes_behind_what_the_fork_has_captured() {
    run(|t| {
        let stream = stream(t);
        let fill = t.kernels().kernel("fill").unwrap();
        let config = cuhold_graph::handles::LaunchConfig::for_len(16);
        let mut builder = begin(&stream);
        builder.host(|| {}).unwrap();
        let mut fork = builder.fork().unwrap();
        let memory = fork.allocate::<u32>(16).unwrap();
        // SAFETY: *layout*, *bounds*: 16 words of memory that is allocated in front and freed behind.
        unsafe { fork.launch(&fill, config, (&memory, 1_u32, 16_u32)) }.unwrap();
        fork.free(memory).unwrap();
        builder.join([fork]).unwrap();
        let mut graph = builder.end().unwrap();
        let nodes: Vec<_> = graph.nodes().collect();
        assert_eq!(nodes.len(), 4);
        assert_eq!(graph.predecessors(nodes[3]).unwrap(), [nodes[2]]);
        assert_eq!(graph.predecessors(nodes[2]).unwrap(), [nodes[1]]);
        launch(&mut graph, &stream);
    });
}

#[test]
fn a_pool_made_in_a_capture_disturbs_none() {
    run(|t| {
        let stream = stream(t);
        let mut builder = GraphBuilder::begin(&stream, CaptureMode::Global).unwrap();
        drop(Pool::new(t.device(), PoolOptions::default()).unwrap());
        assert_eq!(builder.end().unwrap().len(), 0);
    });
}
