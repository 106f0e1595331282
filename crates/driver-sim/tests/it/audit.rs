//! What the simulator notices: leaks, violations with the calls that led to them, the log of calls.

use cuhold_driver_sim::{
    ObjectKind, Sim,
    cuhold_driver_sys::{Call, DriverApi as _, ffi::*},
};
use std::thread;

use crate::{
    ask::{assert_clean, call, context, event, get, primary, sim, sim_with_context, stream},
    capture::{GLOBAL, RELAXED, begin},
};

#[test]
fn a_driver_that_ended_everything_leaks_nothing() {
    let sim = sim();
    let prim = primary(&sim, 0);
    call!(sim, cuCtxPushCurrent_v2(prim)).unwrap();
    let (s, e) = (stream(&sim, 0), event(&sim));
    call!(sim, cuEventDestroy_v2(e)).unwrap();
    call!(sim, cuStreamDestroy_v2(s)).unwrap();
    call!(sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
    call!(sim, cuDevicePrimaryCtxRelease_v2(0)).unwrap();
    assert_eq!(sim.leaks(), []);
    assert_eq!(sim.gone_with_context(), []);
    assert_clean(&sim);
}

#[test]
fn each_leak_names_its_kind_its_value_and_the_call_that_made_it() {
    let (sim, prim) = sim_with_context();
    let s = stream(&sim, 0);
    let a = context(&sim);
    let leaks = sim.leaks();
    let found = |kind, raw: usize, call| {
        leaks.iter().any(|l| l.kind == kind && l.raw == raw as u64 && l.made.call == call)
    };
    assert!(found(ObjectKind::PrimaryRetain, prim.addr(), Call::cuDevicePrimaryCtxRetain));
    assert!(found(ObjectKind::PushedContext, prim.addr(), Call::cuCtxSetCurrent));
    assert!(found(ObjectKind::PushedContext, a.addr(), Call::cuCtxCreate_v4));
    assert!(found(ObjectKind::Stream, s.addr(), Call::cuStreamCreate));
    assert!(found(ObjectKind::Context, a.addr(), Call::cuCtxCreate_v4));
    assert_eq!(leaks.len(), 5, "{leaks:#?}");
    assert!(leaks.iter().all(|leak| leak.made.thread == thread::current().id()));
}

#[test]
fn what_a_context_took_along_is_told_apart_from_leaks() {
    let sim = sim();
    let a = context(&sim);
    let e = event(&sim);
    call!(sim, cuCtxDestroy_v2(a)).unwrap();
    assert_eq!(sim.leaks(), []);
    let gone = sim.gone_with_context();
    assert_eq!(gone.len(), 1);
    assert_eq!((gone[0].kind, gone[0].raw), (ObjectKind::Event, e.addr() as u64));
}

#[test]
fn a_double_destroy_tells_who_made_and_who_destroyed_the_object() {
    let (sim, _) = sim_with_context();
    let e = event(&sim);
    thread::scope(|scope| {
        scope.spawn(|| call!(sim, cuEventDestroy_v2(e)).unwrap());
    });
    call!(sim, cuEventDestroy_v2(e)).unwrap_err();
    let violation = &sim.violations()[0];
    let calls: Vec<Call> = violation.calls.iter().map(|site| site.call).collect();
    assert_eq!(calls, [Call::cuEventCreate, Call::cuEventDestroy_v2, Call::cuEventDestroy_v2]);
    let here = thread::current().id();
    assert_eq!(violation.calls[0].thread, here);
    assert_ne!(violation.calls[1].thread, here);
    assert!(violation.calls.is_sorted_by_key(|site| site.number));
    assert!(violation.to_string().starts_with("double destroy of event 0x"), "{violation}");
}

#[test]
fn the_call_log_keeps_what_happened_in_order() {
    let (sim, _) = sim_with_context();
    let (s, entries) = sim.log().during(|| {
        let s = stream(&sim, 1);
        call!(sim, cuStreamDestroy_v2(s)).unwrap();
        s
    });
    let calls: Vec<_> = entries.iter().map(|entry| entry.call()).collect();
    assert_eq!(calls, [Call::cuStreamCreate, Call::cuStreamDestroy_v2]);
    assert_eq!(entries[1].arguments(), [s.addr() as u64]);
}

#[test]
fn clones_are_the_same_driver_and_others_are_not() {
    let sim = sim();
    let clone = sim.clone();
    let ctx = context(&clone);
    assert_eq!(get!(sim, cuCtxGetCurrent(out)), Ok(ctx));
    assert_eq!(sim.leaks(), clone.leaks());
    assert_eq!(Sim::new().leaks(), []);
}

#[test]
fn many_threads_may_call_at_once() {
    let (sim, prim) = sim_with_context();
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                call!(sim, cuCtxSetCurrent(prim)).unwrap();
                for _ in 0..50 {
                    let (s, e) = (stream(&sim, 0), event(&sim));
                    call!(sim, cuEventRecord(e, s)).unwrap();
                    call!(sim, cuEventSynchronize(e)).unwrap();
                    call!(sim, cuEventDestroy_v2(e)).unwrap();
                    call!(sim, cuStreamDestroy_v2(s)).unwrap();
                }
                call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
            });
        }
    });
    assert_eq!(sim.leaks().len(), 2, "the retain and this thread's stack");
    assert_clean(&sim);
}

#[test]
fn what_is_current_and_captured_can_be_seen_without_a_call() {
    let (sim, prim) = sim_with_context();
    let s = stream(&sim, 1);
    begin(&sim, s, GLOBAL).unwrap();
    let mut mode = RELAXED;
    call!(sim, cuThreadExchangeStreamCaptureMode(&raw mut mode)).unwrap();
    let (seen, made) =
        sim.log().during(|| (sim.current(), sim.stack_depth(), sim.capture_mode(), sim.captures()));
    assert_eq!((seen, made.len()), ((prim, 1, RELAXED, 1), 0));
    assert!(sim.leaks().iter().any(|leak| leak.made.call == Call::cuStreamBeginCapture_v2));
}
