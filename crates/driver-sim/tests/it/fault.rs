//! Faults: injected ones, and fatal ones that end all work.

use cuhold_driver_sim::{
    ViolationKind,
    cuhold_driver_sys::{Call, DriverApi as _, Fault, ffi::*},
};

use crate::ask::{
    Asked, Runs, assert_clean, call, context, current, event, get, kinds, primary,
    sim_with_context, stream,
};

const BAD: CUresult = CUresult::ILLEGAL_ADDRESS;

#[test]
fn after_a_fatal_error_calls_that_work_answer_it_and_those_that_look_do_not() {
    let (sim, prim) = sim_with_context();
    let (s, e) = (stream(&sim, 1), event(&sim));
    let g: CUgraph = get!(sim, cuGraphCreate(out, 0)).unwrap();
    sim.poison(BAD);
    let bad = Err(BAD);
    assert_eq!(call!(sim, cuStreamSynchronize(s)), bad);
    assert_eq!(call!(sim, cuStreamQuery(s)), bad);
    assert_eq!(call!(sim, cuEventQuery(e)), bad);
    assert_eq!(call!(sim, cuEventRecord(e, s)), bad);
    assert_eq!(call!(sim, cuEventDestroy_v2(e)), bad);
    assert_eq!(call!(sim, cuStreamDestroy_v2(s)), bad);
    assert_eq!(call!(sim, cuCtxSynchronize()), bad);
    assert_eq!(get!(sim, cuStreamCreate(out, 0)).map(|_: CUstream| ()), bad);
    assert_eq!(get!(sim, cuDevicePrimaryCtxRetain(out, 0)).map(|_: CUcontext| ()), bad);
    let null = std::ptr::null_mut();
    assert_eq!(get!(sim, cuCtxCreate_v4(out, null, 0, 0)).map(|_: CUcontext| ()), bad);

    assert_eq!(current(&sim), prim);
    call!(sim, cuCtxPushCurrent_v2(prim)).unwrap();
    call!(sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
    call!(sim, cuGraphDestroy(g)).unwrap();
    let _graph: CUgraph = get!(sim, cuGraphCreate(out, 0)).unwrap();
    call!(sim, cuDevicePrimaryCtxRelease_v2(0)).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_destroy_that_answers_a_fatal_error_releases_nothing_and_may_be_repeated() {
    let (sim, _) = sim_with_context();
    let e = event(&sim);
    sim.poison(BAD);
    assert_eq!(call!(sim, cuEventDestroy_v2(e)), Err(BAD));
    assert_eq!(call!(sim, cuEventDestroy_v2(e)), Err(BAD));
    assert_clean(&sim);
    assert!(sim.leaks().iter().any(|leak| leak.raw == e.addr() as u64));
}

#[test]
fn a_fatal_error_reaches_every_context_and_survives_a_reset() {
    let (sim, _) = sim_with_context();
    let other = context(&sim);
    sim.poison(CUresult::LAUNCH_FAILED);
    let made: Asked<CUevent> = get!(sim, cuEventCreate(out, 0));
    assert_eq!(made, Err(CUresult::LAUNCH_FAILED));
    call!(sim, cuCtxDestroy_v2(other)).unwrap();
    call!(sim, cuDevicePrimaryCtxReset_v2(0)).unwrap();
    let made: Asked<CUcontext> = get!(sim, cuDevicePrimaryCtxRetain(out, 0));
    assert_eq!(made, Err(CUresult::LAUNCH_FAILED));
    let made: Asked<CUevent> = get!(sim, cuEventCreate(out, 0));
    assert_eq!(made, Err(CUresult::CONTEXT_IS_DESTROYED));
}

#[test]
fn host_functions_behind_a_fault_never_run() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, 1), Runs::default());
    runs.queue(&sim, s).unwrap();
    sim.poison(BAD);
    assert_eq!(call!(sim, cuStreamSynchronize(s)), Err(BAD));
    assert_eq!(runs.queue(&sim, s), Err(BAD));
    sim.run_all();
    assert_eq!((runs.count(), sim.pending()), (0, 0));
}

#[test]
fn a_refused_call_has_no_effect() {
    let (sim, _) = sim_with_context();
    sim.faults().arm(Fault::refused(CUresult::OUT_OF_MEMORY).on(Call::cuStreamCreate));
    let made: Asked<CUstream> = get!(sim, cuStreamCreate(out, 0));
    assert_eq!(made, Err(CUresult::OUT_OF_MEMORY));
    assert_eq!(sim.leaks().len(), 2, "the retain and the stack");
    assert!(sim.denied().is_empty());
}

#[test]
fn a_destroy_that_was_done_but_denied_leaves_nothing_to_destroy_again() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, 1);
    sim.faults().arm(Fault::done_but_failed(CUresult::UNKNOWN).on(Call::cuStreamDestroy_v2).nth(1));
    assert_eq!(call!(sim, cuStreamDestroy_v2(s)), Err(CUresult::UNKNOWN));
    assert_eq!(sim.denied().len(), 1);
    assert!(sim.leaks().iter().all(|leak| leak.raw != s.addr() as u64));
    assert_clean(&sim);
    assert_eq!(call!(sim, cuStreamDestroy_v2(s)), Err(CUresult::INVALID_HANDLE));
    let violations = sim.take_violations();
    assert_eq!(kinds(&violations), [ViolationKind::DoubleDestroy]);
    assert!(violations[0].note.contains("reported as failed"), "{}", violations[0]);
    assert!(sim.violations().is_empty());
}

#[test]
fn a_denied_create_leaks_and_says_which_call_made_it() {
    let (sim, _) = sim_with_context();
    sim.faults().arm(Fault::done_but_failed(CUresult::UNKNOWN).on(Call::cuStreamCreate));
    let made: Asked<CUstream> = get!(sim, cuStreamCreate(out, 0));
    assert_eq!(made, Err(CUresult::UNKNOWN));
    let leak = sim.leaks().into_iter().find(|leak| leak.made.call == Call::cuStreamCreate);
    assert_eq!(sim.denied(), [leak.unwrap().made]);
}

#[test]
fn a_retain_that_was_done_but_denied_is_counted() {
    let (sim, _) = sim_with_context();
    sim.faults()
        .arm(Fault::done_but_failed(CUresult::UNKNOWN).on(Call::cuDevicePrimaryCtxRetain).nth(1));
    let made: Asked<CUcontext> = get!(sim, cuDevicePrimaryCtxRetain(out, 0));
    assert_eq!(made, Err(CUresult::UNKNOWN));
    primary(&sim, 0);
    for _ in 0..3 {
        call!(sim, cuDevicePrimaryCtxRelease_v2(0)).unwrap();
    }
    assert_clean(&sim);
}
