//! What goes into a graph through a builder, and what comes out when it is run.

use super::{MODES, begin, invalidate, launch, run, stream};
use crate::support::taken_back;
use cuhold_driver_sys::CUresult;
use cuhold_graph::{
    CaptureMode, CaptureStatus, Graph, GraphBuilder, NodeKind, SharedHost, capture,
    handles::{Error, ErrorKind, EventOptions, LaunchConfig, Stream},
};
use cuhold_memory::{Buffer, GraphMemory, HostBuffer, Pool};
use cuhold_testkit::Kit;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// On the stream of the launches, which puts them behind its zeros.
fn buffer(home: &Stream) -> Buffer<u32> {
    Buffer::zeroed(home, 100).unwrap()
}

#[test]
fn what_is_captured_runs_in_order_with_each_launch_and_not_before_in_every_mode() {
    run(|t| {
        for mode in MODES {
            let stream = stream(t);
            let (mut a, mut b) = (buffer(&stream), buffer(&stream));
            let calls = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&calls);
            let mut builder = GraphBuilder::begin(&stream, mode).unwrap();
            builder.fill(&mut a, 7).unwrap();
            builder.copy(&mut b, &a).unwrap();
            builder
                .host(move || {
                    count.fetch_add(1, Ordering::SeqCst);
                })
                .unwrap();
            assert_eq!(builder.status().unwrap(), CaptureStatus::Capturing);
            let mut graph = builder.end().unwrap();
            assert_eq!(builder.status().unwrap(), CaptureStatus::NotCapturing);
            assert_eq!(calls.load(Ordering::SeqCst), 0);
            assert_eq!(b.to_vec().unwrap(), [0; 100], "nothing has run yet");
            launch(&mut graph, &stream);
            assert_eq!((calls.load(Ordering::SeqCst), b.to_vec().unwrap()), (1, vec![7; 100]));
            launch(&mut graph, &stream);
            assert_eq!(calls.load(Ordering::SeqCst), 2);
        }
    });
}

#[test]
fn a_captured_kernel_s_buffer_lives_as_long_as_an_executable_that_uses_it() {
    run(|t| {
        let stream = stream(t);
        let pool = Pool::current_of(t.device()).unwrap();
        let before = pool.used_bytes().unwrap();
        let mut builder = begin(&stream);
        {
            let other = t.device().new_stream().unwrap();
            let words = Buffer::<u32>::uninit(&other, 100);
            // In this thread's capture an allocation elsewhere is forbidden; it is made on another one.
            drop(words);
        }
        let error = builder.end().unwrap_err();
        assert!(error.is(CUresult::STREAM_CAPTURE_INVALIDATED), "{error}");

        let fill = t.kernels().kernel("fill").unwrap();
        let words = Buffer::<u32>::zeroed(&stream, 100).unwrap();
        builder.begin_again(CaptureMode::Global).unwrap();
        // SAFETY: *layout*: a pointer and two words, as `fill` takes; *bounds*: it writes 100 words.
        unsafe { builder.launch(&fill, LaunchConfig::for_len(100), (&words, 7_u32, 100_u32)) }
            .unwrap();
        drop((words, fill));
        let mut graph = builder.end().unwrap();
        let mut exec = graph.instantiate().unwrap();
        drop(graph);
        t.settle();
        assert!(pool.used_bytes().unwrap() >= before + 400, "the executable keeps the buffer");
        exec.launch(&stream).unwrap();
        drop(exec);
        stream.synchronize().unwrap();
        t.becomes(|| pool.used_bytes().unwrap(), before);
    });
}

#[test]
fn a_captured_launch_is_one_call_and_two_more_every_256th() {
    run(|t| {
        let (stream, nop) = (stream(t), t.kernels().kernel("nop").unwrap());
        let mut builder = begin(&stream);
        let mut launch = || {
            // SAFETY: the kernel takes nothing and does nothing.
            unsafe { builder.launch(&nop, LaunchConfig::for_len(1), ()) }.unwrap();
        };
        let (_, first) = t.calls(&mut launch);
        assert_eq!(first, ["cuUserObjectCreate", "cuGraphRetainUserObject", "cuLaunchKernelEx"]);
        for _ in 1..256 {
            let (_, calls) = t.calls(&mut launch);
            assert_eq!(calls, ["cuLaunchKernelEx"]);
        }
        let (_, next) = t.calls(&mut launch);
        assert_eq!(next, first);
        let mut graph = builder.end().unwrap();
        assert_eq!(graph.len(), 257);
        graph.instantiate().unwrap();
    });
}

#[test]
fn the_nodes_of_a_captured_graph_are_known_with_their_kinds_and_edges() {
    run(|t| {
        let stream = stream(t);
        let event = t.device().new_event(EventOptions::default()).unwrap();
        let mut step = Graph::new(t.context()).unwrap();
        step.empty(&[]).unwrap();
        let mut builder = begin(&stream);
        builder.host(|| {}).unwrap();
        builder.record(&event).unwrap();
        builder.wait(&event).unwrap();
        builder.child(&mut step).unwrap();
        let mut graph = builder.end().unwrap();
        let nodes: Vec<_> = graph.nodes().collect();
        let kinds: Vec<_> = nodes.iter().map(|node| graph.kind(*node).unwrap()).collect();
        assert_eq!(kinds, [NodeKind::Host, NodeKind::Record, NodeKind::Wait, NodeKind::Child]);
        assert_eq!(graph.predecessors(nodes[3]).unwrap(), [nodes[2]]);
        // And more is added by definition.
        let last = graph.empty(&[nodes[3]]).unwrap();
        assert_eq!(graph.predecessors(last).unwrap(), [nodes[3]]);
        launch(&mut graph, &stream);
        assert!(event.is_done().unwrap());
    });
}

#[test]
fn memory_that_a_graph_allocates_is_there_between_the_allocation_and_the_free() {
    run(|t| {
        let stream = stream(t);
        let (mut from, other) = (buffer(&stream), t.device().new_stream().unwrap());
        let mut to = Buffer::<u32>::zeroed(&other, 100).unwrap();
        let memory = GraphMemory::new(t.device());
        let mut builder = begin(&stream);
        builder.fill(&mut from, 9).unwrap();
        let temporary = builder.allocate::<u32>(100).unwrap();
        // SAFETY: the memory is allocated in front and freed behind, and is as long.
        unsafe { builder.copy_raw(temporary.device_ptr(), from.device_ptr(), 400) }.unwrap();
        // SAFETY: as above.
        unsafe { builder.copy_raw(to.device_ptr(), temporary.device_ptr(), 400) }.unwrap();
        builder.free(temporary).unwrap();
        let mut graph = builder.end().unwrap();
        let mut exec = graph.instantiate().unwrap();
        for _ in 0..3 {
            to.view_mut(..).unwrap().fill(0).unwrap();
            other.synchronize().unwrap();
            exec.launch(&stream).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(to.to_vec().unwrap(), [9; 100]);
        }
        drop((exec, graph));
        stream.synchronize().unwrap();
        memory.trim().unwrap();
        assert_eq!(memory.usage().unwrap().used_bytes, 0);
    });
}

#[test]
fn memory_of_another_capture_is_not_freed() {
    run(|t| {
        let (one, two) = (stream(t), stream(t));
        let mut first = GraphBuilder::begin(&one, CaptureMode::Relaxed).unwrap();
        let mut second = GraphBuilder::begin(&two, CaptureMode::Relaxed).unwrap();
        let memory = first.allocate::<u8>(16).unwrap();
        let refused = second.free(memory).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::Argument);
        first.free(refused.value.unwrap()).unwrap();
        assert_eq!((first.end().unwrap().len(), second.end().unwrap().len()), (2, 0));
    });
}

#[test]
fn launches_read_and_write_memory_of_the_host_that_the_program_shares() {
    run(|t| {
        let stream = stream(t);
        let mut buffer = buffer(&stream);
        let host = |t: &Kit| SharedHost::new(HostBuffer::<u32>::zeroed(t.context(), 100).unwrap());
        let (input, output) = (host(t), host(t));
        let mut builder = begin(&stream);
        builder.copy_from_shared(&mut buffer, &input).unwrap();
        builder.copy_to_shared(&output, &buffer).unwrap();
        let error = builder.copy_from_host(&mut buffer, vec![0; 99]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        let mut graph = builder.end().unwrap();
        for value in [3, 4] {
            // SAFETY: no launch is under way.
            unsafe { input.copy_from_slice(&[value; 100]) }.unwrap();
            launch(&mut graph, &stream);
            // SAFETY: the launch is done.
            assert_eq!(unsafe { output.to_vec() }, [value; 100]);
        }
        let output = output.into_inner().unwrap_err();
        drop(graph);
        assert_eq!(taken_back(t, output)[0], 4);
    });
}

#[test]
fn safe_work_on_a_captured_stream_through_another_clone_is_refused_and_disturbs_nothing() {
    run(|t| {
        let stream = stream(t);
        let event = t.device().new_event(EventOptions::default()).unwrap();
        let recorded = stream.record_new(EventOptions::default()).unwrap();
        let mut buffer = Buffer::<u32>::zeroed(&stream, 100).unwrap();
        let mut builder = begin(&stream);
        let clone = stream.clone();
        let (errors, calls) = t.calls(|| {
            [
                clone.synchronize().unwrap_err(),
                clone.is_done().unwrap_err(),
                clone.record(&event).unwrap_err(),
                clone.wait_event(&recorded).unwrap_err(),
                Error::from(clone.host_fn(|| {}).unwrap_err()),
            ]
        });
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::State, "{error}");
        }
        assert!(
            calls.iter().all(|call| *call == "cuStreamIsCapturing"),
            "the driver isn't asked for any of it: {calls:?}"
        );
        let refused = [
            buffer.view_mut(..).unwrap().fill(1).unwrap_err(),
            buffer.to_vec().unwrap_err(),
            Buffer::<u8>::uninit(&stream, 1).unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::State, "{error}");
        }
        let nop = t.kernels().kernel("nop").unwrap();
        // SAFETY: the kernel takes nothing and does nothing.
        let error = unsafe { nop.launch(&stream, LaunchConfig::for_len(1), ()) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State, "{error}");
        assert_eq!(builder.status().unwrap(), CaptureStatus::Capturing);
        assert_eq!(builder.end().unwrap().len(), 0);
        // And it is free again.
        buffer.view_mut(..).unwrap().fill(1).unwrap();
        let ((), calls) = t.calls(|| stream.synchronize().unwrap());
        assert_eq!(calls, ["cuStreamSynchronize"]);
        assert!(!stream.is_exposed());
    });
}

#[test]
fn a_stream_is_captured_by_one_builder_at_a_time_and_default_streams_by_none() {
    run(|t| {
        let stream = stream(t);
        let mut builder = begin(&stream);
        let error = GraphBuilder::begin(&stream, CaptureMode::Relaxed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State, "{error}");
        assert_eq!(builder.begin_again(CaptureMode::Relaxed).unwrap_err().kind(), ErrorKind::State);
        assert_eq!(builder.end().unwrap().len(), 0);
        assert_eq!(builder.end().unwrap_err().kind(), ErrorKind::State, "it has ended");
        assert_eq!(builder.host(|| {}).unwrap_err().kind(), ErrorKind::State);
        let legacy = Stream::legacy(t.context());
        let error = GraphBuilder::begin(&legacy, CaptureMode::Relaxed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    });
}

#[test]
fn a_builder_can_begin_again_and_again() {
    run(|t| {
        let mut builder = GraphBuilder::on_own_stream(t.context(), CaptureMode::Global).unwrap();
        for (round, mode) in MODES.into_iter().enumerate() {
            for _ in 0..round {
                builder.host(|| {}).unwrap();
            }
            assert_eq!(builder.end().unwrap().len(), round);
            builder.begin_again(mode).unwrap();
        }
    });
}

#[test]
fn a_dropped_builder_ends_its_capture_and_lets_go_of_what_it_kept() {
    run(|t| {
        for mode in MODES {
            let stream = stream(t);
            let used = Arc::new(());
            let mut builder = GraphBuilder::begin(&stream, mode).unwrap();
            let keeps = Arc::clone(&used);
            builder.host(move || assert!(Arc::strong_count(&keeps) > 0)).unwrap();
            let ((), calls) = t.calls(|| drop(builder));
            assert_eq!(calls, ["cuStreamEndCapture", "cuGraphDestroy", "cuUserObjectRelease"]);
            t.becomes(|| Arc::strong_count(&used), 1);
            stream.synchronize().unwrap();
        }
    });
}

#[test]
fn a_foreign_capture_of_a_shared_stream_is_noticed() {
    run(|t| {
        let stream = stream(t);
        let foreign = cuhold_testkit::ForeignCapture::begin(
            t.driver(),
            &stream,
            cuhold_driver_sys::ffi::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        );
        let error = GraphBuilder::begin(&stream, CaptureMode::Relaxed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State);
        assert!(error.to_string().contains("somebody else"), "{error}");
        foreign.is_active();
        foreign.end();
        GraphBuilder::begin(&stream, CaptureMode::Relaxed).unwrap().end().unwrap();
    });
}

#[test]
fn a_capture_that_somebody_else_ended_is_an_error_and_the_stream_is_free() {
    run(|t| {
        let stream = stream(t);
        let mut builder = begin(&stream);
        let mut graph = cuhold_driver_sys::ffi::CUgraph::NULL;
        let calls = t.driver().calls();
        // SAFETY: *handles*: live; *pointers*: a live local.
        unsafe { calls.cuStreamEndCapture(builder.as_raw(), &raw mut graph) }.unwrap();
        assert_eq!(builder.status().unwrap(), CaptureStatus::NotCapturing);
        let error = builder.end().unwrap_err();
        assert!(error.is(CUresult::ILLEGAL_STATE), "{error}");
        // SAFETY: *handles*: given just now.
        unsafe { calls.cuGraphDestroy(graph) }.unwrap();
        stream.synchronize().unwrap();
    });
}

#[test]
fn the_closure_form_gives_the_graph_and_the_closure_s_value() {
    run(|t| {
        let stream = stream(t);
        let (graph, value) = capture(&stream, CaptureMode::ThreadLocal, |builder| {
            builder.host(|| {})?;
            Ok("value")
        })
        .unwrap();
        assert_eq!((graph.len(), value), (1, "value"));
        let error = capture(&stream, CaptureMode::ThreadLocal, |builder| {
            invalidate(builder);
            Ok(())
        })
        .unwrap_err();
        assert!(error.is(CUresult::STREAM_CAPTURE_INVALIDATED));
        stream.synchronize().unwrap();
    });
}
