//! Marks: where their events come from, and which go back. What becomes of them in a forked child stands in
//! `drop/process.rs`.

#![expect(unsafe_code, reason = "borrows a context")]

use cuhold_driver_sim::{ObjectKind as SimKind, Sim};
use cuhold_driver_sys::{CUresult, Fault, ffi::CUstreamCaptureMode as Mode};
use cuhold_handles::{
    Closed, Context, ContextFlags, Device, Driver, ErrorKind, Mark, PerThreadStream, Stream,
};
use cuhold_testkit::{ForeignCapture, Kit, run, run_simulated};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

const E: CUresult = CUresult::UNKNOWN;
const CREATE: &str = "cuEventCreate";
const RECORD: &str = "cuEventRecord";
const DESTROY: &str = "cuEventDestroy";

/// The calls, without those that make a context current.
fn own(calls: Vec<&'static str>) -> Vec<&'static str> {
    calls.into_iter().filter(|call| !call.starts_with("cuCtx")).collect()
}

fn created(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

fn exposed(t: &Kit) -> Stream {
    let stream = created(t);
    let _raw: cuhold_driver_sys::ffi::CUstream = stream.as_raw();
    stream
}

/// Has something run on a thread of the driver once everything queued so far is done.
fn host_fn(stream: &Stream, work: impl FnOnce() + Send + 'static) {
    assert!(stream.host_fn(work).is_ok());
}

/// What taking one, recording it on the stream and dropping it calls.
fn once(t: &Kit, stream: &Stream) -> Vec<&'static str> {
    own(t.calls(|| drop(stream.mark().unwrap())).1)
}

#[test]
fn exact_counts_of_marks() {
    run(|t| {
        let (stream, later) = (created(t), created(t));
        assert_eq!(once(t, &stream), [CREATE, RECORD], "the first of a context");
        assert_eq!(once(t, &stream), [RECORD]);
        let (mark, calls) = t.calls(|| Mark::take(t.context()).unwrap());
        assert_eq!(calls, [""; 0]);
        let unmarked = || {
            mark.hold_up(&stream).unwrap();
            mark.synchronize().unwrap();
            assert!(mark.is_done().unwrap());
        };
        assert_eq!(t.calls(unmarked).1, [""; 0], "it marks nothing");
        assert_eq!(t.calls(|| drop(mark.keep())).1, [""; 0]);
        let mark = stream.mark().unwrap();
        assert_eq!(t.calls(|| mark.hold_up(&later).unwrap()).1, ["cuStreamWaitEvent"]);
        assert_eq!(t.calls(|| mark.synchronize().unwrap()).1, ["cuEventSynchronize"]);
        assert_eq!(t.calls(|| assert!(mark.is_done().unwrap())).1, ["cuEventQuery"]);
    });
}

#[test]
fn what_is_queued_behind_a_mark_s_wait_comes_after_what_it_marks() {
    run_simulated(|t, _| {
        let (one, two) = (created(t), created(t));
        let order = Arc::new(AtomicU64::new(0));
        let [first, second] = [(); 2].map(|()| Arc::clone(&order));
        host_fn(&one, move || first.store(1, Ordering::SeqCst));
        let mark = one.mark().unwrap();
        mark.hold_up(&two).unwrap();
        // The event is idle from here on, and another mark uses it.
        drop(mark);
        let again = two.mark().unwrap();
        host_fn(&two, move || second.store(10 * second.load(Ordering::SeqCst), Ordering::SeqCst));
        two.synchronize().unwrap();
        assert_eq!(order.load(Ordering::SeqCst), 10);
        drop(again);
    });
}

#[test]
fn an_event_that_may_mark_work_of_a_capture_is_not_used_again() {
    run(|t| {
        let stream = exposed(t);
        let capture =
            ForeignCapture::begin(t.driver(), &stream, Mode::CU_STREAM_CAPTURE_MODE_RELAXED);
        let mark = stream.mark().unwrap();
        let ((), calls) = t.calls(|| drop(mark));
        assert_eq!(calls, [DESTROY]);
        capture.is_active();
        capture.end();
        // Nobody captures the stream any more, but it isn't asked about.
        assert_eq!(once(t, &stream), [CREATE, RECORD, DESTROY]);
        // A thread's own default stream may be captured, too.
        let own_stream = PerThreadStream::new(t.context());
        let mut mark = Mark::take(t.context()).unwrap();
        mark.record(&own_stream).unwrap();
        let ((), calls) = t.calls(|| drop(mark));
        assert_eq!(calls, [DESTROY]);
    });
}

#[test]
fn an_event_about_which_the_driver_answered_marks_no_capture_and_is_used_again() {
    run(|t| {
        let (stream, later) = (exposed(t), created(t));
        let answers: [fn(&Mark<'_>, &Stream); 3] = [
            |mark, _| mark.synchronize().unwrap(),
            |mark, _| assert!(mark.is_done().is_ok()),
            |mark, later| mark.hold_up(later).unwrap(),
        ];
        for answer in answers {
            let mark = stream.mark().unwrap();
            answer(&mark, &later);
            let ((), calls) = t.calls(|| drop(mark));
            assert_eq!(calls, [""; 0]);
        }
        // That of a stream that isn't asked tells nothing.
        let mark = stream.mark().unwrap();
        mark.hold_up(&exposed(t)).unwrap();
        let ((), calls) = t.calls(|| drop(mark));
        assert_eq!(calls, [DESTROY]);
        later.synchronize().unwrap();
    });
}

#[test]
fn a_stream_that_waits_for_a_mark_of_a_capture_is_known_to_be_captured() {
    run(|t| {
        let (stream, drawn_in) = (exposed(t), created(t));
        let capture =
            ForeignCapture::begin(t.driver(), &stream, Mode::CU_STREAM_CAPTURE_MODE_RELAXED);
        let mark = stream.mark().unwrap();
        mark.hold_up(&drawn_in).unwrap();
        assert!(drawn_in.is_exposed());
        let ((), calls) = t.calls(|| drop(mark));
        assert_eq!(calls, [DESTROY]);
        // Back into the capture's own stream, which can't end otherwise.
        drawn_in.mark().unwrap().hold_up(&stream).unwrap();
        capture.end();
    });
}

#[test]
fn an_event_whose_call_failed_is_not_used_again() {
    run_simulated(|t, sim| {
        let stream = created(t);
        let fails = [RECORD, "cuStreamWaitEvent", "cuEventQuery", "cuEventSynchronize"];
        for call in fails {
            let before = sim.live(SimKind::Event);
            let mut mark = Mark::take(t.context()).unwrap();
            t.faults().arm(Fault::refused(E).on_function(call).nth(1));
            let results = [
                mark.record(&stream),
                mark.hold_up(&stream),
                mark.is_done().map(drop),
                mark.synchronize(),
            ];
            assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1, "{call}");
            let ((), calls) = t.calls(|| drop(mark));
            assert_eq!(calls, [DESTROY], "{call}");
            assert!(sim.live(SimKind::Event) <= before, "{call}");
        }
        t.faults().arm(Fault::refused(E).on_function(RECORD).nth(1));
        let (refused, calls) = t.calls(|| stream.mark().map(drop));
        assert!(refused.unwrap_err().is(E));
        assert_eq!(own(calls), [CREATE, RECORD, DESTROY]);
    });
}

#[test]
fn events_stay_in_their_context_and_are_recorded_on_its_streams_alone() {
    run(|t| {
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        let (here, there) = (created(t), other.new_stream().unwrap());
        drop(here.mark().unwrap());
        assert_eq!(once(t, &there), [CREATE, RECORD], "that of another context isn't taken");
        let mut mark = Mark::take(t.context()).unwrap();
        let (refused, calls) = t.calls(|| mark.record(&there));
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), calls), (ErrorKind::Argument, vec![]));
        assert!(error.to_string().contains("stream"), "{error}");
        // It may be waited for there.
        mark.record(&here).unwrap();
        mark.hold_up(&there).unwrap();
        there.synchronize().unwrap();
    });
}

#[test]
fn a_mark_and_a_stream_of_another_driver_do_not_meet() {
    run_simulated(|t, _| {
        let elsewhere = Driver::from_api(Sim::new());
        let theirs = Device::with_driver(&elsewhere, 0).unwrap().new_stream().unwrap();
        let mut mark = created(t).mark().unwrap().keep();
        assert_eq!(mark.record(&theirs).unwrap_err().kind(), ErrorKind::Argument);
        assert_eq!(mark.hold_up(&theirs).unwrap_err().kind(), ErrorKind::Argument);
    });
}

#[test]
fn a_context_of_somebody_else_s_keeps_no_events() {
    run(|t| {
        let raw = t.context().as_raw();
        // SAFETY: the primary context outlives this handle.
        let theirs = unsafe { Context::borrow_raw(t.driver(), raw, None) }.unwrap();
        let stream = theirs.new_stream().unwrap();
        for _ in 0..2 {
            assert_eq!(once(t, &stream), [CREATE, RECORD, DESTROY]);
        }
    });
}

#[test]
fn idle_events_end_before_their_context() {
    run(|t| {
        let context = Context::new(t.device(), ContextFlags::default()).unwrap();
        let stream = context.new_stream().unwrap();
        let marks: Vec<Mark<'_>> = (0..20).map(|_| stream.mark().unwrap()).collect();
        drop(marks);
        thread::scope(|scope| {
            // One is left where another thread keeps its own.
            scope.spawn(|| drop(stream.mark().unwrap()));
        });
        let held = stream.mark().unwrap().keep();
        drop(stream);
        assert!(matches!(context.clone().close(), Ok(Closed::StillShared)));
        drop(held);
        let (closed, calls) = t.calls(|| context.close().unwrap());
        assert_eq!(closed, Closed::Destroyed);
        let ends: Vec<_> = calls.into_iter().filter(|call| call.ends_with("Destroy")).collect();
        let (last, events) = ends.split_last().unwrap();
        assert_eq!((*last, events.len()), ("cuCtxDestroy", 20));
        assert!(events.iter().all(|call| *call == DESTROY), "{events:?}");
    });
}

#[test]
fn idle_events_end_with_their_driver_and_do_not_keep_it() {
    let sim = Sim::new();
    let driver = Driver::from_api(sim.clone());
    let device = Device::with_driver(&driver, 0).unwrap();
    drop(device.new_stream().unwrap().mark().unwrap());
    assert_eq!(sim.live(SimKind::Event), 1);
    drop(device);
    assert!(driver.is_unique());
    assert_eq!(driver.close().unwrap(), Closed::Destroyed);
    assert_eq!((sim.live(SimKind::Event), sim.violations().len()), (0, 0));
}

#[test]
fn a_failed_end_of_an_idle_event_is_told() {
    run_simulated(|t, _| {
        let context = Context::new(t.device(), ContextFlags::default()).unwrap();
        drop(context.new_stream().unwrap().mark().unwrap());
        let capture = t.driver().reports().capture(2);
        t.faults().arm(Fault::refused(E).on_function(DESTROY).nth(1));
        context.close().unwrap();
        let [warning] = capture.take()[..] else { panic!("one warning") };
        assert_eq!(warning.status(), Some(E));
    });
}

#[test]
fn no_more_events_are_kept_than_there_is_room_for() {
    run_simulated(|t, sim| {
        let stream = created(t);
        let marks: Vec<Mark<'_>> = (0..200).map(|_| stream.mark().unwrap()).collect();
        assert_eq!(sim.live(SimKind::Event), 200);
        let ((), calls) = t.calls(|| drop(marks));
        assert_eq!(calls, [DESTROY; 200 - 71]);
        let (marks, calls) = t.calls(|| [(); 71].map(|()| Mark::take(t.context()).unwrap()));
        assert_eq!(calls, [""; 0]);
        drop(marks);
    });
}

#[test]
fn what_one_thread_gives_back_another_one_takes() {
    run_simulated(|t, sim| {
        let stream = created(t);
        // One thread takes what another one has waited for, and gives back, as a reader and a writer do.
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Mark<'static>>(4);
        thread::scope(|scope| {
            scope.spawn(move || receiver.iter().for_each(|mark| mark.synchronize().unwrap()));
            for _ in 0..1000 {
                sender.send(stream.mark().unwrap().keep()).unwrap();
            }
            drop(sender);
        });
        assert!(sim.live(SimKind::Event) < 20, "{}", sim.live(SimKind::Event));
    });
}

#[test]
fn inside_a_callback_a_mark_is_idle_again_without_a_call() {
    run(|t| {
        let stream = created(t);
        let mark = stream.mark().unwrap().keep();
        let driver = t.driver().clone();
        host_fn(&stream, move || {
            drop(mark);
            assert_eq!(driver.reclaim().pending(), 0);
        });
        stream.synchronize().unwrap();
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
        assert_eq!(once(t, &stream), [RECORD]);
    });
}

#[test]
fn inside_a_callback_an_event_that_is_not_used_again_is_left_to_the_reclaimer() {
    run(|t| {
        let (stream, shown) = (created(t), exposed(t));
        let mark = shown.mark().unwrap().keep();
        let by_hand = t.driver().reclaim().run_by_hand();
        host_fn(&stream, move || drop(mark));
        stream.synchronize().unwrap();
        let ((), calls) = t.calls(|| while by_hand.step() {});
        assert!(calls.contains(&DESTROY), "{calls:?}");
    });
}
