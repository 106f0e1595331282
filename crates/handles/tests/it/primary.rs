//! The primary context: how long it is kept, given back when asked, made current for good or for a closure.

#![expect(unsafe_code, reason = "asks the driver what is current")]

use cuhold_driver_sys::{CUresult, Call, Fault, ffi::CUcontext};
use cuhold_handles::{
    Closed, Context, ContextFlags, Device, Driver, ErrorKind, EventOptions, Retention,
};
use cuhold_testkit::{Kit, run};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

const E: CUresult = CUresult(9001);

/// A driver of its own over the test's, so that the test's own device isn't in the way.
fn own(t: &Kit) -> (Driver, Device) {
    let driver = t.driver().isolated();
    let device = Device::with_driver(&driver, 0).unwrap();
    (driver, device)
}

fn current(driver: &Driver) -> CUcontext {
    let mut now = CUcontext::NULL;
    // SAFETY: *pointers*: a live local.
    unsafe { driver.calls().cuCtxGetCurrent(&raw mut now) }.unwrap();
    now
}

#[test]
fn a_primary_context_is_given_back_once_nothing_refers_to_it() {
    run(|t| {
        let (driver, device) = own(t);
        let stream = device.new_stream().unwrap();
        let clone = device.clone();
        let other = Device::with_driver(&driver, 0).unwrap();
        for (released, why) in
            [(device, "a clone and a stream"), (clone, "a stream"), (other, "still the stream")]
        {
            let (closed, calls) = t.calls(|| released.release_primary().unwrap());
            assert_eq!((closed, calls.as_slice()), (Closed::StillShared, &[][..]), "{why}");
        }
        drop(stream);
        let last = Device::with_driver(&driver, 0).unwrap();
        let (closed, calls) = t.calls(|| last.release_primary().unwrap());
        assert_eq!(
            (closed, calls.as_slice()),
            (Closed::Destroyed, &["cuDevicePrimaryCtxRelease"][..])
        );
    });
}

#[test]
fn a_device_works_again_after_its_primary_context_was_given_back() {
    run(|t| {
        let (driver, device) = own(t);
        assert_eq!(device.release_primary().unwrap(), Closed::Destroyed);
        let (device, calls) = t.calls(|| Device::with_driver(&driver, 0).unwrap());
        assert_eq!(calls, ["cuDeviceGet", "cuDevicePrimaryCtxRetain"]);
        let stream = device.new_stream().unwrap();
        stream.record_new(EventOptions::default()).unwrap().synchronize().unwrap();
        // Its driver gives back the one retain that it has now, and no more.
        drop((stream, device));
        let (closed, calls) = t.calls(|| driver.close().unwrap());
        assert_eq!(
            (closed, calls.as_slice()),
            (Closed::Destroyed, &["cuDevicePrimaryCtxRelease"][..])
        );
    });
}

#[test]
fn a_release_that_failed_is_returned() {
    run(|t| {
        let (driver, device) = own(t);
        let call = Call::cuDevicePrimaryCtxRelease_v2;
        t.faults().arm(Fault::done_but_failed(E).on(call).nth(1));
        let refused = device.release_primary().unwrap_err();
        t.faults().disarm();
        assert!(refused.value.is_none());
        assert_eq!(refused.error.to_string(), "cuDevicePrimaryCtxRelease failed with status 9001");
        assert_eq!(driver.close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn a_primary_context_of_its_own_retain_ends_with_its_last_handle() {
    run(|t| {
        let driver = t.driver().isolated();
        let device = Device::with_retention(&driver, 0, Retention::UntilLast).unwrap();
        let stream = device.new_stream().unwrap();
        let by_hand = driver.reclaim().run_by_hand();
        assert_eq!(t.calls(|| drop(device)).1, [""; 0]);
        assert!(!by_hand.step(), "the stream keeps it");
        assert_eq!(t.calls(|| drop(stream)).1, ["cuStreamDestroy"]);
        // Releasing it may wait for its work, so it is left to the reclaimer.
        let (stepped, calls) = t.calls(|| by_hand.step());
        assert!(stepped && calls.contains(&"cuDevicePrimaryCtxRelease"), "{calls:?}");
        assert!(!by_hand.step());
    });
}

#[test]
fn the_retain_of_a_device_s_own_is_released_when_asked() {
    run(|t| {
        let driver = t.driver().isolated();
        let device = Device::with_retention(&driver, 0, Retention::UntilLast).unwrap();
        let clone = device.clone();
        assert_eq!(clone.release_primary().unwrap(), Closed::StillShared);
        let (closed, calls) = t.calls(|| device.release_primary().unwrap());
        assert_eq!(closed, Closed::Destroyed);
        let releases = calls.iter().filter(|call| **call == "cuDevicePrimaryCtxRelease").count();
        assert_eq!(releases, 1, "{calls:?}");
        // Nothing is left for the driver's end to release.
        let (closed, calls) = t.calls(|| driver.close().unwrap());
        assert_eq!((closed, calls.as_slice()), (Closed::Destroyed, &[][..]));
    });
}

/// What a thread of its own does, which has no context.
fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).unwrap()
}

#[test]
fn a_context_made_current_stays_so_and_usable_after_its_device_is_dropped() {
    run(|t| {
        for retention in [Retention::ByDriver, Retention::UntilLast] {
            elsewhere(|| {
                let driver = t.driver().isolated();
                let device = Device::with_retention(&driver, 0, retention).unwrap();
                let raw = device.context().as_raw();
                device.set_current().unwrap();
                drop(device);
                assert_eq!(current(&driver), raw);
                // SAFETY: no arguments; a live context is current.
                unsafe { driver.calls().cuCtxSynchronize() }.unwrap();
                let again = Device::with_driver(&driver, 0).unwrap();
                assert_eq!(again.context().as_raw(), raw);
                // Made current for good, so it isn't given back.
                assert_eq!(again.release_primary().unwrap(), Closed::StillShared);
                // SAFETY: *handles*: null is taken.
                unsafe { driver.calls().cuCtxSetCurrent(CUcontext::NULL) }.unwrap();
            });
        }
    });
}

#[test]
fn making_a_context_current_is_one_call_and_a_failure_leaves_the_old_one() {
    run(|t| {
        let (driver, device) = own(t);
        elsewhere(|| {
            t.faults().arm(Fault::refused(E).on(Call::cuCtxSetCurrent).nth(1));
            let error = device.set_current().unwrap_err();
            t.faults().disarm();
            assert!(error.is(E) && current(&driver).is_null(), "{error}");
            let ((), calls) = t.calls(|| device.set_current().unwrap());
            assert_eq!(calls, ["cuCtxSetCurrent"]);
            assert_eq!(current(&driver), device.context().as_raw());
            // SAFETY: *handles*: null is taken.
            unsafe { driver.calls().cuCtxSetCurrent(CUcontext::NULL) }.unwrap();
        });
    });
}

#[test]
fn a_closure_runs_with_the_context_current_and_the_caller_s_is_back_afterwards() {
    run(|t| {
        let driver = t.driver();
        let before = t.stack();
        let inside = t.device().with_current(|| current(driver)).unwrap();
        assert_eq!(inside, t.context().as_raw());
        assert_eq!(t.stack(), before);
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        other
            .with_current(|| {
                let back = t.device().with_current(|| current(driver)).unwrap();
                assert_eq!((back, current(driver)), (t.context().as_raw(), other.as_raw()));
            })
            .unwrap();
        assert_eq!(t.stack(), before);
    });
}

#[test]
fn a_panic_in_a_closure_goes_on_once_the_caller_s_context_is_back() {
    run(|t| {
        let before = t.stack();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            drop(t.device().with_current(|| -> u32 { panic!("the closure's own") }));
        }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"the closure's own"));
        assert_eq!(t.stack(), before);
        t.device().synchronize().unwrap();
    });
}

#[test]
fn a_closure_whose_context_cannot_be_made_current_is_not_called() {
    run(|t| {
        t.faults().arm(Fault::refused(E).on(Call::cuCtxPushCurrent_v2).nth(1));
        let error = t.device().with_current(|| panic!("called")).unwrap_err();
        t.faults().disarm();
        assert_eq!((error.kind(), error.completed()), (ErrorKind::Driver, None));
        assert!(error.is(E), "{error}");
    });
}
