//! Devices and primary contexts: retained once, kept, given up; made current; and the driver's own end.

#![expect(unsafe_code, reason = "asks what is current, and is a driver")]

use crate::drop::PATIENCE;
use crate::scope::{ASK, How, POP, PUSH, seen_current, status};
use cuhold_driver_sim::{ObjectKind as SimKind, Sim, SimOptions};
use cuhold_driver_sys::{CUresult, Call, Entry, Fault, Hook, Verdict, Version};
use cuhold_handles::{
    Closed, Context, ContextFlags, Current, Device, Driver, ErrorKind, Fate, Refused, Retention,
    StreamOptions, WarningKind,
};
use cuhold_testkit::{Alone, is_alone};
use cuhold_testkit::{run, run_simulated, run_with};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Barrier, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

const RETAIN: Call = Call::cuDevicePrimaryCtxRetain;
const RELEASE: Call = Call::cuDevicePrimaryCtxRelease_v2;

/// A simulated driver of this test's own.
fn simulated() -> (Driver, Sim) {
    let sim = Sim::new();
    (Driver::from_api(sim.clone()), sim)
}

fn retains(sim: &Sim) -> usize {
    sim.live(SimKind::PrimaryRetain)
}

#[test]
fn a_driver_retains_a_primary_context_once_and_gives_it_back_once() {
    let (driver, sim) = simulated();
    let devices: Vec<_> = (0..10).map(|_| Device::with_driver(&driver, 0).unwrap()).collect();
    assert_eq!(retains(&sim), 1);
    drop(devices);
    assert_eq!(retains(&sim), 1, "kept by the driver");
    let (again, asked) = sim.log().during(|| Device::with_driver(&driver, 0).unwrap());
    assert_eq!(retains(&sim), 1);
    assert_eq!(asked.iter().map(Entry::call).collect::<Vec<_>>(), [Call::cuDeviceGet]);
    drop(again);
    let (closed, entries) = sim.log().during(|| driver.close().unwrap());
    assert_eq!(closed, Closed::Destroyed);
    assert_eq!(entries.iter().map(Entry::call).collect::<Vec<_>>(), [RELEASE]);
    assert_eq!((sim.leaks(), sim.violations()), (Vec::new(), Vec::new()));
}

#[test]
fn of_threads_that_use_a_device_first_at_once_one_retain_stays() {
    for _ in 0..50 {
        let (driver, sim) = simulated();
        let start = Barrier::new(4);
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    start.wait();
                    let device = Device::with_driver(&driver, 0).unwrap();
                    device.new_stream().unwrap().synchronize().unwrap();
                });
            }
        });
        assert_eq!(retains(&sim), 1);
        assert_eq!(driver.close().unwrap(), Closed::Destroyed);
        assert_eq!((sim.leaks(), sim.violations()), (Vec::new(), Vec::new()));
    }
}

#[test]
fn a_driver_that_is_dropped_gives_its_primary_contexts_back_on_a_thread_of_its_own() {
    let (driver, sim) = simulated();
    drop(Device::with_driver(&driver, 0).unwrap());
    let ((), entries) = sim.log().during(|| {
        drop(driver);
        while retains(&sim) > 0 {
            thread::yield_now();
        }
    });
    let [release] = entries[..] else { panic!("{entries:?}") };
    assert_eq!(release.call(), RELEASE);
    assert_ne!(release.thread(), thread::current().id());
    assert_eq!((sim.leaks(), sim.violations()), (Vec::new(), Vec::new()));
}

#[test]
fn a_failing_release_at_a_driver_s_end_is_returned_by_close_and_told_once_by_drop() {
    for how in How::BOTH {
        let (driver, sim) = simulated();
        drop(Device::with_driver(&driver, 0).unwrap());
        sim.faults().arm(Fault::new(how.with(status(1))).on(RELEASE));
        let Refused { error, value, .. } = driver.close().unwrap_err();
        assert!(error.is(status(1)) && value.is_none());

        let (driver, sim) = simulated();
        let context = Device::with_driver(&driver, 0).unwrap().context().as_raw().addr() as u64;
        let (tell, told) = mpsc::channel();
        let sink = cuhold_handles::Sink::new(move |warning| tell.send(*warning).unwrap());
        drop(driver.reports().set_sink(sink));
        sim.faults().arm(Fault::new(how.with(status(1))).on(RELEASE));
        drop(driver);
        let warning = told.recv().unwrap();
        assert_eq!(warning.kind(), WarningKind::Failed);
        assert_eq!(warning.call(), Some(RELEASE));
        assert_eq!((warning.status(), warning.fate()), (Some(status(1)), Some(Fate::Unknown)));
        assert_eq!(warning.object().raw, context);
        assert_eq!(told.recv().ok(), None, "told once, and the sink is dropped with the driver");
    }
}

#[test]
fn closing_a_driver_that_has_objects_says_so_and_ends_nothing() {
    run(|t| {
        let driver = t.driver().isolated();
        let device = Device::with_driver(&driver, 0).unwrap();
        let releases = t.counts().of(RELEASE);
        assert_eq!(driver.clone().close().unwrap(), Closed::StillShared);
        device.new_stream().unwrap().synchronize().unwrap();
        drop(device);
        assert_eq!(t.counts().of(RELEASE), releases);
        assert_eq!(driver.close().unwrap(), Closed::Destroyed);
        assert_eq!(t.counts().of(RELEASE), releases + 1);
    });
}

#[test]
fn a_primary_context_is_given_up_when_nothing_refers_to_it() {
    run(|t| {
        let driver = t.driver().isolated();
        let device = Device::with_driver(&driver, 0).unwrap();
        let stream = device.new_stream().unwrap();
        let clone = device.clone();
        let give_up = |device: Device| device.release_primary().map_err(|refused| refused.error);
        assert_eq!(give_up(clone).unwrap(), Closed::StillShared);
        assert_eq!(give_up(device).unwrap(), Closed::StillShared);
        drop(stream);
        let releases = t.counts().of(RELEASE);
        let device = Device::with_driver(&driver, 0).unwrap();
        assert_eq!(give_up(device).unwrap(), Closed::Destroyed);
        assert_eq!(t.counts().of(RELEASE), releases + 1);
        // Retained anew at the next use, and given back once.
        drop(Device::with_driver(&driver, 0).unwrap());
        driver.close().unwrap();
        assert_eq!(t.counts().of(RELEASE), releases + 2);
    });
}

#[test]
fn a_failing_release_is_returned_without_the_device() {
    for how in How::BOTH {
        run_simulated(|_, _| {
            let (driver, sim) = simulated();
            let device = Device::with_driver(&driver, 0).unwrap();
            sim.faults().arm(Fault::new(how.with(status(1))).on(RELEASE).nth(1));
            let Refused { error, value, .. } = device.release_primary().unwrap_err();
            assert!(error.is(status(1)) && value.is_none());
            assert_eq!(retains(&sim), usize::from(how == How::Refused));
            driver.close().unwrap();
        });
    }
}

#[test]
fn a_retain_until_the_last_handle_ends_with_it_and_not_before() {
    run(|t| {
        let (retains, releases) = (t.counts().of(RETAIN), t.counts().of(RELEASE));
        let device = Device::with_retention(t.driver(), 0, Retention::UntilLast).unwrap();
        let stream = device.new_stream().unwrap();
        assert_eq!(t.counts().of(RETAIN), retains + 1);
        drop(device);
        t.driver().reclaim().drain(PATIENCE).unwrap();
        assert_eq!(t.counts().of(RELEASE), releases);
        drop(stream);
        t.driver().reclaim().drain(PATIENCE).unwrap();
        assert_eq!(t.counts().of(RELEASE), releases + 1);
    });
}

/// Its own retain is what it gives up, not the one that the driver keeps for others.
#[test]
fn giving_up_a_retain_of_its_own_leaves_the_driver_s_alone() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let device = Device::with_retention(t.driver(), 0, Retention::UntilLast).unwrap();
        let releases = t.counts().of(RELEASE);
        let closed = device.release_primary().map_err(|refused| refused.error).unwrap();
        assert_eq!(closed, Closed::Destroyed);
        assert_eq!(t.counts().of(RELEASE), releases + 1);
        stream.synchronize().unwrap();
        t.device().new_stream().unwrap().synchronize().unwrap();
    });
}

/// While a retain is given back, another thread retains anew: each handle is counted off the retain that it used.
#[test]
fn a_handle_of_a_retain_that_was_given_up_is_not_counted_off_a_newer_one() {
    /// Says when the release is about to be made, and waits until it may be.
    struct Gate {
        reached: Mutex<Sender<()>>,
        open: Mutex<Receiver<()>>,
    }
    impl Hook for Gate {
        fn before(&self, call: Call, _: &[u64]) -> Verdict {
            if call == RELEASE && self.reached.lock().unwrap().send(()).is_ok() {
                // An error: nobody holds the gate any more.
                let _: Result<(), _> = self.open.lock().unwrap().recv();
            }
            Verdict::Pass
        }
    }
    let sim = Sim::new();
    let ((reach, reached), (open, opened)) = (mpsc::channel(), mpsc::channel());
    let gate = Gate { reached: Mutex::new(reach), open: Mutex::new(opened) };
    let driver = Driver::from_api(sim.clone()).hooked(gate);
    let old = Device::with_driver(&driver, 0).unwrap();
    let give_up = |device: Device| device.release_primary().map_err(|refused| refused.error);
    let new = thread::scope(|s| {
        let gives_up = s.spawn(|| give_up(old).unwrap());
        reached.recv().unwrap();
        let new = Device::with_driver(&driver, 0).unwrap();
        open.send(()).unwrap();
        assert_eq!(gives_up.join().unwrap(), Closed::Destroyed);
        new
    });
    drop((open, reached));
    // The new one is still in use, whatever became of the old one.
    let third = Device::with_driver(&driver, 0).unwrap();
    assert_eq!(give_up(third).unwrap(), Closed::StillShared);
    new.new_stream().unwrap().synchronize().unwrap();
    drop(new);
    assert_eq!(driver.close().unwrap(), Closed::Destroyed);
    assert_eq!((sim.leaks(), sim.violations()), (Vec::new(), Vec::new()));
}

/// A context that ended while it is current would be a stale pointer.
#[test]
fn a_device_that_was_made_current_keeps_its_context_for_the_life_of_the_driver() {
    for retention in [Retention::ByDriver, Retention::UntilLast] {
        run_simulated(|_, _| {
            let (driver, sim) = simulated();
            let device = Device::with_retention(&driver, 0, retention).unwrap();
            let raw = device.context().as_raw();
            let ((), entries) = sim.log().during(|| device.set_current().unwrap());
            let sets = entries.iter().filter(|entry| entry.call() == Call::cuCtxSetCurrent).count();
            assert_eq!(sets, 1);
            assert_eq!(sim.current(), raw);
            drop(device);
            driver.reclaim().drain(PATIENCE).unwrap();
            assert_eq!(retains(&sim), 1);
            let again = Device::with_driver(&driver, 0).unwrap();
            let closed = again.release_primary().map_err(|refused| refused.error).unwrap();
            assert_eq!(closed, Closed::StillShared);
            // SAFETY: *handles*: null is taken.
            unsafe { driver.calls().cuCtxSetCurrent(cuhold_driver_sys::ffi::CUcontext::NULL) }
                .unwrap();
            assert_eq!(driver.close().unwrap(), Closed::Destroyed);
            assert_eq!((sim.leaks(), sim.violations()), (Vec::new(), Vec::new()));
        });
    }
}

#[test]
fn a_failing_set_current_leaves_the_former_context_current() {
    run(|t| {
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        other
            .with_current(|| {
                t.faults().arm(Fault::refused(status(1)).on(Call::cuCtxSetCurrent).nth(1));
                let error = t.device().set_current().unwrap_err();
                assert!(error.is(status(1)) && error.now_current() == Current::NotAsked);
                assert_eq!(seen_current(t), other.as_raw());
            })
            .unwrap();
    });
}

#[test]
fn a_foreign_closure_is_called_with_the_device_current_and_its_panic_goes_on() {
    run(|t| {
        let before = seen_current(t);
        let value = t.device().with_current(|| seen_current(t)).unwrap();
        assert_eq!((value, seen_current(t)), (t.context().as_raw(), before));
        let panics = || t.device().with_current(|| -> () { resume_unwind(Box::new("on purpose")) });
        let payload = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
        assert_eq!(seen_current(t), before);
        for (call, completed) in [(ASK, None), (PUSH, None), (POP, Some(1))] {
            t.faults().arm(Fault::done_but_failed(status(1)).on(call).nth(1));
            let error = t.device().with_current(|| ()).unwrap_err();
            t.faults().disarm();
            assert_eq!((error.is(status(1)), error.completed()), (true, completed));
            assert_eq!(seen_current(t), before);
        }
    });
}

#[test]
fn an_ordinal_out_of_range_is_refused_by_the_driver_or_before_it() {
    run(|t| {
        let count = t.driver().device_count().unwrap();
        let error = Device::with_driver(t.driver(), count).unwrap_err();
        assert!(error.is(CUresult::INVALID_DEVICE));
        assert_eq!(
            error.to_string(),
            "cuDeviceGet failed with CUDA_ERROR_INVALID_DEVICE (101): there is no device of that number, or it \
             can't do what was asked; device ordinals count from 0 to one less than the device count; ask the \
             driver for its device count first"
        );
        let error = Device::with_driver(t.driver(), u32::MAX).unwrap_err();
        assert_eq!((error.kind(), error.call()), (ErrorKind::Argument, None));
        assert_eq!(
            error.to_string(),
            "ordinal: 4294967295: out of range integral type conversion attempted"
        );
    });
}

#[test]
fn a_driver_without_a_device_says_so() {
    run_simulated(|_, _| {
        let driver = Driver::from_api(Sim::with_options(SimOptions::with_devices(0)));
        let error = Device::with_driver(&driver, 0).unwrap_err();
        assert!(error.is(CUresult::NO_DEVICE));
        assert_eq!(
            error.to_string(),
            "cuInit failed with CUDA_ERROR_NO_DEVICE (100): no CUDA device was found; there is a driver, and no GPU that \
             this process may see; look at CUDA_VISIBLE_DEVICES, and at which devices a container was given"
        );
    });
}

#[test]
fn a_device_tells_what_it_is() {
    run(|t| {
        let device = t.device();
        assert_eq!((device.ordinal(), format!("{device:?}")), (0, "device 0".to_owned()));
        assert!(!device.name().unwrap().is_empty());
        assert!(device.total_bytes().unwrap() > 1 << 20);
        assert!(device.compute_capability().unwrap() >= (5, 0));
        assert!(t.driver().version().unwrap() >= Version(12_000));
        let stream = device.stream_with(StreamOptions::blocking().priority(-100)).unwrap();
        assert!(stream.priority().unwrap() > -100, "clamped");
        drop(device.new_stream().unwrap());
    });
}

#[test]
fn each_device_has_its_own_primary_context() {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(other) = t.second_device() else { return };
        assert_eq!(other.ordinal(), 1);
        assert_ne!(other, *t.device());
        assert_ne!(other.context().as_raw(), t.context().as_raw());
        let stream = other.new_stream().unwrap();
        stream.synchronize().unwrap();
        assert_eq!(stream.context(), other.context());
    });
}

/// Never a silent simulation.
#[test]
fn without_a_driver_the_first_device_is_an_error_that_lists_what_was_tried() {
    const TEST: &str =
        "device::without_a_driver_the_first_device_is_an_error_that_lists_what_was_tried";
    if !is_alone(TEST) {
        Alone::new(TEST).with("CUHOLD_LIBCUDA", "/nonexistent/libcuda.so.1").run();
        return;
    }
    let error = Device::new(0).unwrap_err();
    assert_eq!((error.kind(), error.call(), error.status()), (ErrorKind::Load, None, None));
    assert!(error.to_string().contains("/nonexistent/libcuda.so.1"), "{error}");
    // A failure isn't remembered.
    assert_eq!(Device::new(0).unwrap_err().kind(), ErrorKind::Load);
}

#[test]
fn the_simulated_driver_takes_the_real_one_s_place_only_where_it_is_asked_for() {
    const TEST: &str =
        "device::the_simulated_driver_takes_the_real_one_s_place_only_where_it_is_asked_for";
    if !is_alone(TEST) {
        Alone::new(TEST).with("CUHOLD_DRIVER", "sim").run();
        return;
    }
    let (one, two) = (Device::new(0).unwrap(), Device::new(0).unwrap());
    assert_eq!(one, two);
    assert!(one.driver().same(two.driver()));
    assert_eq!(one.name().unwrap(), "cuhold simulated device");
}

#[test]
fn a_word_that_names_no_driver_is_an_error() {
    const TEST: &str = "device::a_word_that_names_no_driver_is_an_error";
    if !is_alone(TEST) {
        Alone::new(TEST).with("CUHOLD_DRIVER", "rael").run();
        return;
    }
    let error = Device::new(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert_eq!(error.to_string(), "CUHOLD_DRIVER: `rael` is neither `real` nor `sim`");
}
