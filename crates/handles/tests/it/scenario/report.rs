//! Errors and reports: each failure belongs to the call and the object that it came from, and to nothing later.

use super::{ONE, two_contexts};
use crate::drop::Thing;
use cuhold_driver_sim::{ObjectKind as SimKind, Sim, SimOptions};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{
    Device, Driver, EventOptions, Fate, Kernel, Note, ObjectKind, Refused, Stream,
};
use cuhold_testkit::{Kit, run};
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

const RELEASE: Call = Call::cuDevicePrimaryCtxRelease_v2;

/// S18.
#[test]
fn a_panic_over_live_objects_in_a_lost_driver_is_the_only_panic_and_each_object_is_told_once() {
    let sim = Sim::new();
    let driver = Driver::from_api(sim.clone());
    let device = Device::with_driver(&driver, 0).unwrap();
    let capture = driver.reports().capture(32);
    let made = Thing::ALL.map(|thing| thing.make_on(&device).handle);
    sim.poison(CUresult::ASSERT);
    sim.log().start();
    let payload = catch_unwind(AssertUnwindSafe(|| {
        let _all = made;
        panic!("the user's own");
    }));
    assert_eq!(payload.unwrap_err().downcast_ref(), Some(&"the user's own"));
    let told = capture.take();
    assert!(told.iter().all(|warning| warning.status() == Some(CUresult::ASSERT)), "{told:?}");
    // Each call that failed is told once; each object has one such call at most, and nothing is tried twice.
    let entries = sim.log().stop();
    let ends = Thing::ALL.map(Thing::end);
    let failed =
        entries.iter().filter(|entry| ends.contains(&entry.call()) && !entry.status().is_success());
    assert_eq!(told.len(), failed.count(), "{told:?}");
    assert!(told.len() >= 3, "streams, events and modules can't be ended now: {told:?}");
    let objects: BTreeSet<_> = told.iter().map(|warning| warning.object().id).collect();
    assert_eq!(objects.len(), told.len(), "{told:?}");
    for end in ends {
        assert_eq!(entries.iter().filter(|entry| entry.call() == end).count(), 1, "{end}");
    }
}

/// S20: a driver value stands for a retain per device. Of three the second one can't be given back.
#[test]
fn closing_what_is_made_of_several_releases_the_others_and_returns_the_failure() {
    let sim = Sim::with_options(SimOptions::with_devices(3));
    let driver = Driver::from_api(sim.clone());
    for ordinal in 0..3 {
        drop(Device::with_driver(&driver, ordinal).unwrap());
    }
    let raised = driver.reports().counts().raised;
    sim.faults().arm(Fault::refused(CUresult::INVALID_CONTEXT).on(RELEASE).nth(2));
    sim.log().start();
    let Refused { error, value, .. } = driver.close().unwrap_err();
    assert!(error.is(CUresult::INVALID_CONTEXT) && error.notes().is_empty(), "{error}");
    assert!(error.to_string().starts_with("cuDevicePrimaryCtxRelease "), "{error}");
    assert!(value.is_none(), "there is nothing left that a drop could do");
    let entries = sim.log().stop();
    assert_eq!(entries.iter().filter(|entry| entry.call() == RELEASE).count(), 3);
    assert_eq!((sim.live(SimKind::PrimaryRetain), raised), (1, 0));
}

/// S23: the text names what the two events must be, and work that isn't done is an answer.
#[test]
fn an_elapsed_time_that_cannot_be_had_says_what_the_events_lack_and_leaves_them_usable() {
    run(|t| {
        let (stream, timing) = (t.device().new_stream().unwrap(), EventOptions::timing());
        let event = |options| t.device().new_event(options).unwrap();
        let (start, end, plain) = (event(timing), event(timing), event(EventOptions::default()));
        let (other, _kept) = two_contexts(t);
        let elsewhere = cuhold_handles::Event::with_options(&other, timing).unwrap();

        let never_recorded = end.elapsed_ms_since(&start).unwrap_err();
        stream.record(&start).unwrap();
        stream.record(&plain).unwrap();
        other.new_stream().unwrap().record(&elsewhere).unwrap();
        stream.synchronize().unwrap();
        other.synchronize().unwrap();
        let without_timing = plain.elapsed_ms_since(&start).unwrap_err();
        let of_two_contexts = elsewhere.elapsed_ms_since(&start).unwrap_err();
        for error in [never_recorded, without_timing, of_two_contexts] {
            assert!(error.is(CUresult::INVALID_HANDLE), "{error}");
            let text = error.to_string();
            for part in ["cuEventElapsedTime", "timing", "recorded", "one context"] {
                assert!(text.contains(part), "{text}");
            }
        }

        super::strange_on_purpose(t);
        let _kernel = spin(t, &stream);
        stream.record(&end).unwrap();
        assert_eq!(end.elapsed_ms_since(&start).unwrap(), None, "no wait, no error");
        stream.synchronize().unwrap();
        assert!(end.elapsed_ms_since(&start).unwrap().is_some_and(|ms| ms >= 0.0));
    });
}

/// S25. That another context of the same process stays usable isn't shown: on the device that was measured it doesn't.
#[test]
fn in_a_lost_driver_many_objects_are_told_once_each_and_nothing_is_tried_again() {
    const EACH: usize = 40;
    let sim = Sim::new();
    let driver = Driver::from_api(sim.clone());
    let device = Device::with_driver(&driver, 0).unwrap();
    let made: Vec<_> = (0..EACH)
        .flat_map(|_| {
            [Thing::Stream, Thing::Event, Thing::Module].map(|thing| thing.make_on(&device))
        })
        .collect();
    let (capture, count) = (driver.reports().capture(4 * EACH), made.len());
    sim.poison(CUresult::ILLEGAL_ADDRESS);
    sim.log().start();
    drop(made);
    let told = capture.take();
    assert_eq!((told.len(), driver.reports().counts().folded), (count, 0));
    for warning in &told {
        assert_eq!(warning.status(), Some(CUresult::ILLEGAL_ADDRESS));
        assert_eq!(warning.fate(), Some(Fate::Leaked), "what answers so releases nothing");
    }
    let entries = sim.log().stop();
    let ends = [Call::cuStreamDestroy_v2, Call::cuEventDestroy_v2, Call::cuModuleUnload];
    let tried = entries.iter().filter(|entry| ends.contains(&entry.call())).count();
    assert_eq!(tried, count);
    assert!(driver.is_lost());
}

/// S19: "none" is an answer, whatever failed on this thread before.
#[test]
fn what_is_legitimately_none_is_no_error_although_calls_failed_before_it() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let start = stream.record_new(EventOptions::timing()).unwrap();
        let _kernel = spin(t, &stream);
        let end = stream.record_new(EventOptions::timing()).unwrap();
        t.faults().arm(Fault::refused(CUresult::OUT_OF_MEMORY).on(Call::cuEventRecord).nth(1));
        let undo = Fault::done_but_failed(CUresult::INVALID_HANDLE).on(Call::cuEventDestroy_v2);
        t.faults().arm(undo.nth(1));
        let error = stream.record_new(EventOptions::default()).unwrap_err();
        t.faults().disarm();
        assert!(error.is(CUresult::OUT_OF_MEMORY), "{error}");
        let [Note::UndoFailed(undo)] = error.notes() else { panic!("{error}") };
        assert_eq!(undo.status, CUresult::INVALID_HANDLE);
        assert_eq!(end.elapsed_ms_since(&start).unwrap(), None);
        stream.synchronize().unwrap();
        assert!(end.elapsed_ms_since(&start).unwrap().is_some());
    });
}

/// Keeps a stream busy: a fifth of a second on a real device, until a wait on the simulated one. The kernel is to be
/// kept as long: unloading its code waits.
#[must_use]
fn spin(t: &Kit, stream: &Stream) -> Kernel {
    let kernel = t.kernels().kernel("spin").unwrap();
    // SAFETY: the kernel takes a time in nanoseconds and touches no memory.
    unsafe { kernel.launch(stream, ONE, (200_000_000_u64,)) }.unwrap();
    kernel
}

/// S18's other half: what a drop can't return is told with the object's own name.
#[test]
fn a_report_names_the_object_that_it_is_about_and_no_later_call_pays_for_it() {
    run(|t| {
        let capture = t.driver().reports().capture(4);
        let stream = t.device().new_stream().unwrap();
        let raw = stream.raw().addr() as u64;
        let fault = Fault::done_but_failed(CUresult::NOT_SUPPORTED).on(Call::cuStreamDestroy_v2);
        t.faults().arm(fault.nth(1));
        drop(stream);
        t.faults().disarm();
        let told = capture.take();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].object().kind, told[0].object().raw), (ObjectKind::Stream, raw));
        t.device().new_stream().unwrap().synchronize().unwrap();
        t.device().new_event(EventOptions::default()).unwrap();
        assert_eq!(capture.take(), []);
    });
}
