//! Contexts that somebody else ended: one that is current while everything is dropped, and a primary context that was
//! reset under its objects.

use super::{THROUGH, everything, through, times};
use cuhold::{
    EventOptions,
    driver_sys::{DriverApi, ffi::CUcontext},
};
use cuhold_testkit::{Alone, Kit, is_alone, run};
use std::{ptr, thread};

/// Makes a context that is current on this thread, and has another thread destroy it.
fn stale(t: &Kit) -> CUcontext {
    let api: &dyn DriverApi = t.driver().api();
    let device = t.device().as_raw();
    let mut context = CUcontext::NULL;
    // SAFETY: *pointers*: a live local; no parameters are given.
    let made = unsafe { api.cuCtxCreate_v4(&raw mut context, ptr::null_mut(), 0, device) };
    assert!(made.is_success(), "{made}");
    thread::scope(|s| {
        // SAFETY: *handles*: made above; that it is current elsewhere is what is tested.
        s.spawn(|| assert!(unsafe { api.cuCtxDestroy_v2(context) }.is_success()));
    });
    context
}

fn current(t: &Kit) -> CUcontext {
    let mut context = CUcontext::NULL;
    // SAFETY: *pointers*: a live local.
    let asked = unsafe { t.driver().api().cuCtxGetCurrent(&raw mut context) };
    assert!(asked.is_success(), "{asked}");
    context
}

#[test]
fn with_a_destroyed_context_current_everything_is_made_and_dropped_and_it_stays_current() {
    const TEST: &str = "situation::gone::with_a_destroyed_context_current_everything_is_made_and_dropped_and_it_stays_current";
    if !is_alone(TEST) {
        Alone::new(TEST).run_to_exit(THROUGH);
        return;
    }
    run(|t| {
        let context = stale(t);
        let captured = t.driver().reports().capture(100);
        let made = everything(t);
        assert_eq!(current(t), context);
        drop(made);
        let warnings = captured.take();
        assert!(warnings.is_empty(), "{warnings:#?}");
        assert_eq!(current(t), context);
        through();
    });
}

/// The library must come through and tell of each object at most once. Streams and events are left out: what a destroy of
/// one does whose context is gone is the driver's luck (measured: a status or the end of the process), and a program that
/// resets a context under handles that own streams has asked for that.
#[test]
fn after_a_foreign_reset_nothing_is_told_twice_and_a_new_call_is_an_error() {
    const TEST: &str =
        "situation::gone::after_a_foreign_reset_nothing_is_told_twice_and_a_new_call_is_an_error";
    if !is_alone(TEST) {
        Alone::new(TEST).run_to_exit(THROUGH);
        return;
    }
    run(|t| {
        let captured = t.driver().reports().capture(100);
        let module = cuhold::Module::load(t.context(), cuhold_testkit::PTX).unwrap();
        let host = cuhold::HostBuffer::<u8>::zeroed(t.context(), 8).unwrap();
        let device = t.device().as_raw();
        // SAFETY: what foreign code may do; the objects of the context are gone.
        let reset = unsafe { t.driver().api().cuDevicePrimaryCtxReset_v2(device) };
        assert!(reset.is_success(), "{reset}");
        let error = t.device().new_event(EventOptions::default()).unwrap_err();
        assert!(error.status().is_some(), "{error}");
        drop((module, host));
        let warnings = captured.take();
        for (object, count) in times(warnings.iter().map(|warning| warning.object())) {
            assert_eq!(count, 1, "{object} is told of {count} times: {warnings:#?}");
        }
        assert!(!warnings.is_empty());
        through();
    });
}
