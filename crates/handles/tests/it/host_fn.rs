//! Host functions: closures that the driver runs, once each or never, whatever fails.

#![expect(unsafe_code, reason = "captures as other libraries do")]

use crate::drop::PATIENCE;
use crate::scope::{ASK, How, POP, PUSH, status};
use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{
    CUresult, Call, Fault, Hook,
    ffi::{CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status},
};
use cuhold_handles::{
    Closed, Device, Driver, ErrorKind, EventOptions, ObjectKind, PerThreadStream, Refused, Stream,
    WarningKind,
};
use cuhold_testkit::{ForeignCapture as Capture, run, run_simulated};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

const LAUNCH: Call = Call::cuLaunchHostFunc;

/// A closure that counts its runs, and how many of it are alive.
fn counted() -> (Arc<AtomicU32>, impl FnOnce() + Send + 'static) {
    let runs = Arc::<AtomicU32>::default();
    let count = Arc::clone(&runs);
    (runs, move || {
        count.fetch_add(1, Ordering::SeqCst);
    })
}

fn ran(runs: &Arc<AtomicU32>) -> u32 {
    runs.load(Ordering::SeqCst)
}

/// The closure is gone.
fn is_gone(runs: &Arc<AtomicU32>) -> bool {
    Arc::strong_count(runs) == 1
}

#[test]
fn closures_run_in_the_order_of_the_stream() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let order = Arc::<Mutex<Vec<u32>>>::default();
        for number in 0..100 {
            let order = Arc::clone(&order);
            let closure = move || order.lock().unwrap().push(number);
            stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        }
        stream.synchronize().unwrap();
        assert!(order.lock().unwrap().iter().copied().eq(0..100));
    });
}

#[test]
fn closures_run_on_each_kind_of_stream() {
    run(|t| {
        let (created, legacy) = (t.device().new_stream().unwrap(), t.device().legacy_stream());
        let (runs, _) = counted();
        let count = || {
            let runs = Arc::clone(&runs);
            move || {
                runs.fetch_add(1, Ordering::SeqCst);
            }
        };
        created.host_fn(count()).map_err(|refused| refused.error).unwrap();
        legacy.host_fn(count()).map_err(|refused| refused.error).unwrap();
        let mine = PerThreadStream::new(t.context());
        mine.host_fn(count()).map_err(|refused| refused.error).unwrap();
        mine.synchronize().unwrap();
        created.synchronize().unwrap();
        legacy.synchronize().unwrap();
        assert_eq!(ran(&runs), 3);
    });
}

#[test]
fn a_panic_in_a_closure_is_one_warning_and_the_stream_goes_on() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let capture = t.driver().reports().capture(4);
        stream
            .host_fn(|| panic!("in the closure, on purpose"))
            .map_err(|refused| refused.error)
            .unwrap();
        let (runs, closure) = counted();
        stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
        let [warning] = capture.take()[..] else { panic!("not one warning") };
        assert_eq!(warning.kind(), WarningKind::Panicked);
        assert_eq!(warning.text(), "in the closure, on purpose");
        assert_eq!(warning.object().kind, ObjectKind::Callback);
        assert!(warning.object().id != 0 && ran(&runs) == 1);
    });
}

#[test]
fn a_stream_that_is_dropped_runs_its_closures_all_the_same() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (runs, closure) = counted();
        stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        drop(stream);
        t.device().synchronize().unwrap();
        t.driver().reclaim().drain(PATIENCE).unwrap();
        assert!(ran(&runs) == 1 && is_gone(&runs));
    });
}

#[test]
fn a_refused_launch_gives_the_closure_back() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (runs, closure) = counted();
        t.faults().arm(Fault::refused(status(1)).on(LAUNCH).nth(1));
        let Refused { error, value, .. } = stream.host_fn(closure).unwrap_err();
        assert!(error.is(status(1)) && error.completed().is_none());
        stream.synchronize().unwrap();
        assert_eq!(ran(&runs), 0);
        value.unwrap()();
        assert!(ran(&runs) == 1 && is_gone(&runs));
    });
}

/// The driver queued it and said that it failed: the closure is the caller's again, and the driver's call finds nothing.
#[test]
fn a_launch_that_was_made_all_the_same_runs_the_closure_once_or_gives_it_back() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (runs, closure) = counted();
        t.faults().arm(Fault::done_but_failed(status(1)).on(LAUNCH).nth(1));
        let Refused { error, value, .. } = stream.host_fn(closure).unwrap_err();
        assert!(error.is(status(1)));
        stream.synchronize().unwrap();
        t.driver().reclaim().drain(PATIENCE).unwrap();
        // On a real driver the closure may have been faster than the answer.
        if let Some(closure) = value {
            assert_eq!(ran(&runs), 0);
            closure();
        }
        assert!(ran(&runs) == 1 && is_gone(&runs));
    });
}

#[test]
fn a_closure_that_is_faster_than_its_failing_launch_has_run_and_does_not_come_back() {
    /// Runs all queued work before the caller hears of its launch.
    struct Fast(Sim);
    impl Hook for Fast {
        fn after(&self, call: Call, _: &[u64], _: CUresult) {
            if call == LAUNCH {
                self.0.run_all();
            }
        }
    }
    run_simulated(|t, sim| {
        let driver = t.driver().hooked(Fast(sim.clone()));
        let device = Device::with_driver(&driver, 0).unwrap();
        let stream = device.new_stream().unwrap();
        let (runs, closure) = counted();
        t.faults().arm(Fault::done_but_failed(status(1)).on(LAUNCH).nth(1));
        let Refused { error, value, .. } = stream.host_fn(closure).unwrap_err();
        assert!(error.is(status(1)) && value.is_none());
        driver.reclaim().drain(PATIENCE).unwrap();
        assert!(ran(&runs) == 1 && is_gone(&runs));
        drop((device, stream));
        assert_eq!(driver.close().unwrap(), Closed::Destroyed);
    });
}

/// A default stream's context has to be made current first: where that fails, the driver never heard of the closure.
#[test]
fn a_launch_that_was_never_made_gives_the_closure_back_and_keeps_nothing() {
    for call in [ASK, PUSH] {
        for how in How::BOTH {
            run(|t| {
                let driver = t.driver().isolated();
                let device = Device::with_driver(&driver, 0).unwrap();
                let (runs, closure) = counted();
                t.faults().arm(Fault::new(how.with(status(1))).on(call).nth(1));
                let Refused { error, value, .. } =
                    device.legacy_stream().host_fn(closure).unwrap_err();
                assert!(error.is(status(1)));
                drop(value.unwrap());
                assert!(ran(&runs) == 0 && is_gone(&runs));
                drop(device);
                assert!(driver.is_unique(), "the closure's box keeps the driver");
                driver.close().unwrap();
            });
        }
    }
}

#[test]
fn where_only_the_caller_s_context_is_lost_the_closure_runs_once() {
    for how in How::BOTH {
        run(|t| {
            let (runs, closure) = counted();
            let legacy = t.device().legacy_stream();
            t.faults().arm(Fault::new(how.with(status(1))).on(POP).nth(1));
            let Refused { error, value, .. } = legacy.host_fn(closure).unwrap_err();
            assert_eq!((error.completed(), value.is_none()), (Some(1), true));
            if how == How::Refused {
                // SAFETY: *pointers*: null is taken.
                unsafe { t.driver().calls().cuCtxPopCurrent_v2(std::ptr::null_mut()) }.unwrap();
            }
            legacy.synchronize().unwrap();
            t.driver().reclaim().drain(PATIENCE).unwrap();
            assert!(ran(&runs) == 1 && is_gone(&runs));
        });
    }
}

/// In a graph the closure would run with each launch.
#[test]
fn a_captured_stream_takes_no_closure_and_its_capture_goes_on() {
    run(|t| {
        let (stream, joined) = (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        let fork = t.device().new_event(EventOptions::default()).unwrap();
        let back = t.device().new_event(EventOptions::default()).unwrap();
        let capture = Capture::begin(t.driver(), &stream, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL);
        // A stream that nobody else knows is drawn into the capture by an event.
        stream.record(&fork).unwrap();
        joined.wait_event(&fork).unwrap();
        for stream in [&stream, &joined] {
            let (runs, closure) = counted();
            let Refused { error, value, .. } = stream.host_fn(closure).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::State);
            assert_eq!(
                error.to_string(),
                "the stream is being captured, and a closure that runs once can't be part of a graph"
            );
            assert!(value.is_some() && ran(&runs) == 0);
            capture.is_active();
        }
        joined.record(&back).unwrap();
        stream.wait_event(&back).unwrap();
        capture.end();
        let (runs, closure) = counted();
        stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(ran(&runs), 1);
    });
}

#[test]
fn a_per_thread_default_stream_that_is_captured_takes_no_closure() {
    run_simulated(|t, _| {
        let stream = PerThreadStream::new(t.context());
        let mut status = Status::CU_STREAM_CAPTURE_STATUS_NONE;
        let (begin, end) = t
            .context()
            .with_current(|| {
                let calls = t.driver().calls();
                let raw = cuhold_driver_sys::ffi::CU_STREAM_PER_THREAD;
                // SAFETY: *handles*: a default stream.
                let begin = unsafe {
                    calls.cuStreamBeginCapture_v2(raw, Mode::CU_STREAM_CAPTURE_MODE_RELAXED)
                };
                let (runs, closure) = counted();
                let refused = stream.host_fn(closure).unwrap_err();
                assert!(refused.error.kind() == ErrorKind::State && ran(&runs) == 0);
                // SAFETY: *pointers*: a live local.
                unsafe { calls.cuStreamIsCapturing(raw, &raw mut status) }.unwrap();
                let mut graph = cuhold_driver_sys::ffi::CUgraph::NULL;
                // SAFETY: *pointers*: a live local.
                let end = unsafe { calls.cuStreamEndCapture(raw, &raw mut graph) };
                // SAFETY: *handles*: given just now.
                unsafe { calls.cuGraphDestroy(graph) }.unwrap();
                (begin, end)
            })
            .unwrap();
        begin.unwrap();
        end.unwrap();
        assert_eq!(status, Status::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    });
}

#[test]
fn only_a_stream_that_others_may_capture_is_asked() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let launch = |stream: &Stream| {
            let launch = || stream.host_fn(|| ()).map_err(|refused| refused.error).unwrap();
            t.calls(launch).1
        };
        assert_eq!(launch(&stream), ["cuLaunchHostFunc"]);
        assert!(!stream.as_raw().is_null());
        assert_eq!(launch(&stream), ["cuStreamIsCapturing", "cuLaunchHostFunc"]);
        stream.synchronize().unwrap();
    });
}

/// What a lost driver was given it never calls: the closure goes with its stream.
#[test]
fn a_closure_that_a_lost_driver_never_called_is_dropped_with_its_stream_and_reported() {
    for close in [false, true] {
        let sim = Sim::new();
        let driver = Driver::from_api(sim.clone());
        let device = Device::with_driver(&driver, 0).unwrap();
        let stream = device.new_stream().unwrap();
        let capture = driver.reports().capture(8);
        let (runs, closure) = counted();
        stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        sim.poison(CUresult::ILLEGAL_ADDRESS);
        assert!(!is_gone(&runs));
        if close {
            let refused = stream.close().unwrap_err();
            assert!(refused.error.is(CUresult::ILLEGAL_ADDRESS));
        } else {
            drop(stream);
        }
        assert!(ran(&runs) == 0 && is_gone(&runs));
        let told = capture.take();
        let notes: Vec<_> =
            told.iter().filter(|warning| warning.kind() == WarningKind::Note).collect();
        let [note] = notes[..] else { panic!("{told:?}") };
        assert_eq!(note.object().kind, ObjectKind::Callback);
        assert!(
            note.to_string().ends_with(
                "the driver never called this closure, which is dropped with its stream"
            ),
            "{note}"
        );
        assert_eq!(told.len(), if close { 1 } else { 2 });
        drop((capture, device));
        assert!(driver.is_unique(), "the closure's box keeps the driver");
    }
}

#[test]
fn an_abandoned_closure_whose_drop_panics_is_reported_as_that_too() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in the closure's value, on purpose");
        }
    }
    let sim = Sim::new();
    let driver = Driver::from_api(sim.clone());
    let device = Device::with_driver(&driver, 0).unwrap();
    let stream = device.new_stream().unwrap();
    let capture = driver.reports().capture(8);
    let value = Panics;
    stream.host_fn(move || drop(value)).map_err(|refused| refused.error).unwrap();
    sim.poison(CUresult::LAUNCH_FAILED);
    drop(stream);
    let kinds: Vec<_> = capture.take().iter().map(|warning| warning.kind()).collect();
    assert_eq!(kinds, [WarningKind::Failed, WarningKind::Note, WarningKind::Panicked]);
}

/// A fatal answer to another object's destroy says nothing of this stream's closures.
#[test]
fn a_closure_that_is_still_to_run_is_not_abandoned() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (runs, closure) = counted();
        stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        let capture = t.driver().reports().capture(2);
        let event = t.device().new_event(EventOptions::default()).unwrap();
        let destroy = Call::cuEventDestroy_v2;
        t.faults().arm(Fault::done_but_failed(CUresult::ILLEGAL_ADDRESS).on(destroy).nth(1));
        drop(event);
        assert_eq!(capture.take().len(), 1);
        stream.synchronize().unwrap();
        t.driver().reclaim().drain(PATIENCE).unwrap();
        assert!(ran(&runs) == 1 && is_gone(&runs));
    });
}

#[test]
fn a_driver_that_lacks_host_functions_gives_the_closure_back() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        t.faults().arm(Fault::refused(CUresult::MISSING).on(LAUNCH));
        let refused = stream.host_fn(|| ()).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::Missing);
        assert!(refused.value.is_some());
    });
}
