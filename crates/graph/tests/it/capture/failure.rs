//! What is left where a builder's calls fail.

use super::{begin, invalidate, run, run_simulated, stream};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_graph::{
    CaptureMode, CaptureStatus, Graph, GraphBuilder,
    handles::{ErrorKind, Fate},
};

const INJECTED: CUresult = CUresult(9001);

#[test]
fn work_after_an_invalidation_is_refused_and_the_error_says_what_is_known() {
    run(|t| {
        let stream = stream(t);
        let mut builder = begin(&stream);
        invalidate(&builder);
        // Nobody here knows yet.
        let error = builder.host(|| {}).unwrap_err();
        assert!(error.is(CUresult::STREAM_CAPTURE_INVALIDATED), "{error}");
        let (error, calls) = t.calls(|| builder.host(|| {}).unwrap_err());
        assert_eq!((error.kind(), calls.len()), (ErrorKind::State, 0));
        assert!(
            error.to_string().contains("past its builders, before cuLaunchHostFunc"),
            "{error}"
        );
        let error = builder.fork().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State);
        assert_eq!(builder.status().unwrap(), CaptureStatus::Invalidated);
        assert!(builder.end().unwrap_err().is(CUresult::STREAM_CAPTURE_INVALIDATED));
        assert_eq!(builder.status().unwrap(), CaptureStatus::NotCapturing);
        builder.begin_again(CaptureMode::Relaxed).unwrap();
        builder.host(|| {}).unwrap();
        assert_eq!(builder.end().unwrap().len(), 1);
    });
}

#[test]
fn the_end_says_which_call_of_the_builder_invalidated_the_capture() {
    run_simulated(|t, _| {
        let stream = stream(t);
        let mut builder = begin(&stream);
        let merge = Fault::refused(CUresult::STREAM_CAPTURE_MERGE).on(Call::cuLaunchHostFunc);
        t.faults().arm(merge);
        assert!(builder.host(|| {}).unwrap_err().is(CUresult::STREAM_CAPTURE_MERGE));
        t.faults().disarm();
        invalidate(&builder);
        let error = builder.end().unwrap_err();
        assert!(error.is(CUresult::STREAM_CAPTURE_INVALIDATED));
        assert!(error.to_string().contains("invalidated by cuLaunchHostFunc"), "{error}");
    });
}

#[test]
fn a_status_that_is_asked_for_tells_of_an_invalidation_before_any_work_does() {
    run(|t| {
        let stream = stream(t);
        let mut builder = begin(&stream);
        invalidate(&builder);
        assert_eq!(builder.status().unwrap(), CaptureStatus::Invalidated);
        let (error, calls) = t.calls(|| builder.host(|| {}).unwrap_err());
        assert_eq!((error.kind(), calls.len()), (ErrorKind::State, 0));
        assert!(builder.end().is_err());
    });
}

#[test]
fn a_child_whose_place_is_not_known_spoils_the_capture_and_its_graph_is_not_handed_out() {
    run_simulated(|t, _| {
        let stream = stream(t);
        let mut step = Graph::new(t.context()).unwrap();
        let mut builder = begin(&stream);
        builder.child(&mut step).unwrap();
        t.faults().arm(Fault::refused(INJECTED).on(Call::cuStreamUpdateCaptureDependencies_v2));
        assert!(builder.child(&mut step).unwrap_err().is(INJECTED));
        t.faults().disarm();
        assert_eq!(builder.host(|| {}).unwrap_err().kind(), ErrorKind::State);
        let error = builder.end().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State);
        assert!(error.to_string().contains("cuStreamUpdateCaptureDependencies"), "{error}");
        stream.synchronize().unwrap();
    });
}

#[test]
fn scenario_s31_where_the_question_after_a_begin_fails_the_capture_is_ended() {
    run(|t| {
        let stream = stream(t);
        t.faults().arm(Fault::refused(INJECTED).on(Call::cuStreamGetCaptureInfo_v2));
        let (error, calls) =
            t.calls(|| GraphBuilder::begin(&stream, CaptureMode::Global).unwrap_err());
        t.faults().disarm();
        assert!(error.is(INJECTED), "{error}");
        assert!(error.notes().is_empty(), "{error}");
        assert_eq!(calls.last(), Some(&"cuGraphDestroy"), "{calls:?}");
        stream.synchronize().unwrap();
        let mut builder = begin(&stream);
        assert_eq!(builder.end().unwrap().len(), 0);
    });
}

#[test]
fn a_begin_that_was_carried_out_although_it_failed_leaves_no_capture() {
    run_simulated(|t, sim| {
        let stream = stream(t);
        t.faults().arm(Fault::done_but_failed(INJECTED).on(Call::cuStreamBeginCapture_v2));
        let error = GraphBuilder::begin(&stream, CaptureMode::Global).unwrap_err();
        t.faults().disarm();
        assert!(error.is(INJECTED) && error.notes().is_empty(), "{error}");
        assert_eq!(sim.captures(), 0);
        stream.synchronize().unwrap();
    });
}

#[test]
fn scenario_s33_where_the_end_itself_fails_the_books_say_what_the_driver_says() {
    run_simulated(|t, sim| {
        // The driver says that the stream isn't captured any more: an end of somebody else's came first.
        let stream = stream(t);
        let mut builder = begin(&stream);
        let memory = builder.allocate::<u8>(64).unwrap();
        t.faults().arm(Fault::refused(INJECTED).on(Call::cuStreamEndCapture));
        let warnings = t.driver().reports().capture(8);
        let error = builder.end().unwrap_err();
        t.faults().disarm();
        assert!(error.is(INJECTED), "{error}");
        // It says that it still is: the stream is lost to it, which is told once.
        let told = warnings.take();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].fate(), Some(Fate::Leaked));
        assert_eq!(told[0].object().raw, stream.raw().addr() as u64);
        drop(warnings);
        assert_eq!(sim.captures(), 1);
        assert_eq!(builder.status().unwrap(), CaptureStatus::Capturing);
        assert_eq!(stream.synchronize().unwrap_err().kind(), ErrorKind::State);
        assert_eq!(builder.end().unwrap_err().kind(), ErrorKind::State);
        let error = builder.begin_again(CaptureMode::Relaxed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State, "{error}");
        drop(memory);
        // Another stream is captured as ever.
        let other = t.device().new_stream().unwrap();
        assert_eq!(begin(&other).end().unwrap().len(), 0);
        let raw = stream.raw();
        drop((builder, stream));
        t.settle();
        // What the library has left alone for good.
        assert_eq!(sim.leaks().iter().filter(|leak| leak.raw == raw.addr() as u64).count(), 1);
        // SAFETY: *handles*: live, and nobody's any more.
        unsafe { t.driver().calls().cuStreamDestroy_v2(raw) }.unwrap();
    });
}
