//! A `Drop` during somebody's stream capture: the capture goes on, whatever its mode, whichever thread (P11).

#![expect(unsafe_code, reason = "captures as other libraries do")]

use super::{Made, PATIENCE, Thing, each};
use cuhold_driver_sys::ffi::CUstreamCaptureMode as Mode;
use cuhold_testkit::{ForeignCapture as Capture, Kit, run};
use std::thread;

/// Runs the body during a capture of each mode.
fn during(t: &Kit, body: impl Fn(&Capture<'_>)) {
    let stream = t.device().new_stream().unwrap();
    for mode in [
        Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
    ] {
        let capture = Capture::begin(t.driver(), &stream, mode);
        body(&capture);
        capture.is_active();
        capture.end();
    }
}

/// Drops it, and releases what the reclaimer has, in one of three ways.
#[derive(Clone, Copy, Debug)]
enum Way {
    ByHand,
    OnThreads,
    Elsewhere,
}

fn drop_by(way: Way, t: &Kit, made: Made) {
    let reclaim = t.driver().reclaim();
    match way {
        Way::ByHand => {
            let hand = reclaim.run_by_hand();
            drop(made.handle);
            drop(hand);
        }
        Way::OnThreads => drop(made.handle),
        Way::Elsewhere => thread::scope(|s| s.spawn(|| drop(made.handle)).join()).unwrap(),
    }
    reclaim.drain(PATIENCE).unwrap();
}

#[test]
fn a_drop_during_a_global_capture_leaves_it_active_whoever_makes_the_destroy() {
    run(|t| {
        each(|thing| {
            for way in [Way::ByHand, Way::OnThreads, Way::Elsewhere] {
                let stream = t.device().new_stream().unwrap();
                let made = thing.make(t);
                let capture =
                    Capture::begin(t.driver(), &stream, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL);
                // A capture makes a graph.
                let live = thing.live(t);
                drop_by(way, t, made);
                assert_eq!(thing.live(t), live.map(|live| live - 1));
                capture.is_active();
                capture.end();
            }
        });
    });
}

#[test]
fn closing_during_a_capture_leaves_it_active() {
    run(|t| {
        let (library, module) =
            (t.kernels(), cuhold_handles::Module::load(t.context(), cuhold_testkit::PTX).unwrap());
        let stream = t.device().new_stream().unwrap();
        let capture = Capture::begin(t.driver(), &stream, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL);
        library.close().map_err(|refused| refused.error).unwrap();
        module.close().map_err(|refused| refused.error).unwrap();
        capture.is_active();
        capture.end();
    });
}

#[test]
fn making_and_dropping_streams_and_events_during_a_capture_of_any_mode_leaves_it_active() {
    run(|t| {
        during(t, |capture| {
            drop((Thing::Stream.make(t), Thing::Event.make(t)));
            capture.is_active();
        });
    });
}

/// The mode that the thread had, whatever it was.
#[test]
fn a_bracketed_destroy_leaves_the_thread_s_capture_mode_as_it_was() {
    let exchange = |t: &Kit, mut mode: Mode| {
        // SAFETY: *pointers*: a live local.
        unsafe { t.driver().calls().cuThreadExchangeStreamCaptureMode(&raw mut mode) }.unwrap();
        mode
    };
    run(|t| {
        for mode in [
            Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
            Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
        ] {
            let before = exchange(t, mode);
            let hand = t.driver().reclaim().run_by_hand();
            drop((Thing::Library.make(t), Thing::Module.make(t)));
            drop(hand);
            assert_eq!(exchange(t, before), mode);
        }
    });
}
