//! Events.

use cuhold_driver_sim::{
    ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::ask::{
    Asked, Runs, assert_clean, call, context, event, get, kinds, sim_with_context, stream,
};

const TIMING_OFF: c_uint = 2;
const INTERPROCESS: c_uint = 4;

#[test]
fn an_event_that_was_never_recorded_counts_as_done() {
    let (sim, _) = sim_with_context();
    let e = event(&sim);
    call!(sim, cuEventQuery(e)).unwrap();
    call!(sim, cuEventSynchronize(e)).unwrap();
    call!(sim, cuStreamWaitEvent(stream(&sim, 1), e, 0)).unwrap();
    call!(sim, cuEventDestroy_v2(e)).unwrap();
    assert_clean(&sim);
}

#[test]
fn an_event_is_done_when_its_stream_got_there() {
    let (sim, _) = sim_with_context();
    let (s, e, runs) = (stream(&sim, 1), event(&sim), Runs::default());
    runs.queue(&sim, s).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    runs.queue(&sim, s).unwrap();
    assert_eq!(call!(sim, cuEventQuery(e)), Err(CUresult::NOT_READY));
    call!(sim, cuEventSynchronize(e)).unwrap();
    assert_eq!(runs.count(), 1, "what follows the record isn't waited for");
    call!(sim, cuEventQuery(e)).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    assert_eq!(call!(sim, cuEventQuery(e)), Err(CUresult::NOT_READY), "recorded again");
}

#[test]
fn a_record_with_nothing_before_it_is_done_at_once() {
    let (sim, _) = sim_with_context();
    let (s, e) = (stream(&sim, 1), event(&sim));
    call!(sim, cuEventRecord(e, s)).unwrap();
    call!(sim, cuEventQuery(e)).unwrap();
}

#[test]
fn a_pending_event_can_be_destroyed() {
    let (sim, _) = sim_with_context();
    let (s, e, runs) = (stream(&sim, 1), event(&sim), Runs::default());
    runs.queue(&sim, s).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    call!(sim, cuEventDestroy_v2(e)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_eq!(call!(sim, cuEventDestroy_v2(e)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::DoubleDestroy]);
}

#[test]
fn flags_are_checked() {
    let (sim, _) = sim_with_context();
    let create = |flags| -> Asked<CUevent> { get!(sim, cuEventCreate(out, flags)) };
    assert_eq!(create(8), Err(CUresult::INVALID_VALUE));
    assert_eq!(create(INTERPROCESS), Err(CUresult::INVALID_VALUE));
    create(INTERPROCESS | TIMING_OFF).unwrap();
    assert_eq!(call!(sim, cuEventCreate(std::ptr::null_mut(), 0)), Err(CUresult::INVALID_VALUE));
}

#[test]
fn null_events_are_refused_cleanly() {
    let (sim, _) = sim_with_context();
    let (s, null) = (stream(&sim, 1), CUevent::NULL);
    let handle = Err(CUresult::INVALID_HANDLE);
    assert_eq!(call!(sim, cuEventRecord(null, s)), handle);
    assert_eq!(call!(sim, cuEventDestroy_v2(null)), handle);
    assert_eq!(call!(sim, cuStreamWaitEvent(s, null, 0)), handle);
    assert_eq!(call!(sim, cuEventQuery(null)), handle);
    assert_eq!(call!(sim, cuEventSynchronize(null)), handle);
    assert_clean(&sim);
}

#[test]
fn an_event_is_recorded_in_its_own_context_only() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, 1);
    context(&sim);
    let e = event(&sim);
    assert_eq!(call!(sim, cuEventRecord(e, s)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::WrongContext]);
}

#[test]
fn a_stream_may_wait_for_an_event_of_another_context() {
    let (sim, _) = sim_with_context();
    let (s, e, runs) = (stream(&sim, 1), event(&sim), Runs::default());
    runs.queue(&sim, s).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    context(&sim);
    let t = stream(&sim, 1);
    call!(sim, cuStreamWaitEvent(t, e, 0)).unwrap();
    call!(sim, cuStreamSynchronize(t)).unwrap();
    assert_eq!(runs.count(), 1);
    assert_clean(&sim);
}

#[test]
fn external_flags_are_for_captures_only() {
    let (sim, _) = sim_with_context();
    let (s, e) = (stream(&sim, 1), event(&sim));
    assert_eq!(call!(sim, cuEventRecordWithFlags(e, s, 1)), Err(CUresult::ILLEGAL_STATE));
    assert_eq!(call!(sim, cuEventRecordWithFlags(e, s, 2)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuStreamWaitEvent(s, e, 1)), Err(CUresult::INVALID_VALUE));
    call!(sim, cuEventRecordWithFlags(e, s, 0)).unwrap();
}

#[test]
fn elapsed_time_follows_the_simulated_clock() {
    let (sim, _) = sim_with_context();
    let (s, a, b) = (stream(&sim, 1), event(&sim), event(&sim));
    call!(sim, cuEventRecord(a, s)).unwrap();
    sim.advance(2_500_000);
    call!(sim, cuEventRecord(b, s)).unwrap();
    let elapsed = |from, to| -> Asked<f32> { get!(sim, cuEventElapsedTime_v2(out, from, to)) };
    assert_eq!(elapsed(a, b), Ok(2.5));
    assert_eq!(elapsed(b, a), Ok(-2.5));
    assert_eq!(get!(sim, cuEventElapsedTime(out, a, b)), Ok(2.5));
}

#[test]
fn work_takes_time() {
    let (sim, _) = sim_with_context();
    let (s, a, b, runs) = (stream(&sim, 1), event(&sim), event(&sim), Runs::default());
    call!(sim, cuEventRecord(a, s)).unwrap();
    runs.queue(&sim, s).unwrap();
    call!(sim, cuEventRecord(b, s)).unwrap();
    let elapsed = || -> Asked<f32> { get!(sim, cuEventElapsedTime_v2(out, a, b)) };
    assert_eq!(elapsed(), Err(CUresult::NOT_READY));
    call!(sim, cuEventSynchronize(b)).unwrap();
    assert!(elapsed().unwrap() > 0.0);
}

#[test]
fn elapsed_time_needs_two_recorded_events_with_timing_of_one_context() {
    let (sim, _) = sim_with_context();
    let (s, a) = (stream(&sim, 1), event(&sim));
    let (untimed, never) = (get!(sim, cuEventCreate(out, TIMING_OFF)).unwrap(), event(&sim));
    call!(sim, cuEventRecord(a, s)).unwrap();
    call!(sim, cuEventRecord(untimed, s)).unwrap();
    let elapsed = |from, to| -> Asked<f32> { get!(sim, cuEventElapsedTime_v2(out, from, to)) };
    let handle = Err(CUresult::INVALID_HANDLE);
    assert_eq!(elapsed(a, never), handle);
    assert_eq!(elapsed(never, never), handle);
    assert_eq!(elapsed(a, untimed), handle);
    assert_eq!(elapsed(a, CUevent::NULL), handle);
    assert_clean(&sim);
    context(&sim);
    let foreign = event(&sim);
    call!(sim, cuEventRecord(foreign, CUstream::NULL)).unwrap();
    assert_eq!(elapsed(a, foreign), handle);
    assert_eq!(kinds(&sim.violations()), [ViolationKind::WrongContext]);
}

#[test]
fn only_interprocess_events_are_exported() {
    let (sim, _) = sim_with_context();
    let shared = get!(sim, cuEventCreate(out, INTERPROCESS | TIMING_OFF)).unwrap();
    let mut handle = CUipcEventHandle { reserved: [0; 64] };
    call!(sim, cuIpcGetEventHandle(&raw mut handle, shared)).unwrap();
    let open = |handle| -> Asked<CUevent> { get!(sim, cuIpcOpenEventHandle(out, handle)) };
    assert_eq!(open(handle), Err(CUresult::INVALID_CONTEXT), "in the process that made it");
    assert_eq!(open(CUipcEventHandle { reserved: [1; 64] }), Err(CUresult::MAP_FAILED));
    let asked = call!(sim, cuIpcGetEventHandle(&raw mut handle, event(&sim)));
    assert_eq!(asked, Err(CUresult::INVALID_HANDLE));
}

#[test]
fn an_event_can_stand_for_all_work_of_a_context() {
    let (sim, prim) = sim_with_context();
    let (s, t, e, runs) = (stream(&sim, 1), stream(&sim, 0), event(&sim), Runs::default());
    runs.queue(&sim, s).unwrap();
    runs.queue(&sim, t).unwrap();
    call!(sim, cuCtxRecordEvent(prim, e)).unwrap();
    runs.queue(&sim, s).unwrap();
    assert_eq!(call!(sim, cuEventQuery(e)), Err(CUresult::NOT_READY));
    call!(sim, cuEventSynchronize(e)).unwrap();
    assert_eq!(runs.count(), 2);
    context(&sim);
    let foreign = call!(sim, cuCtxRecordEvent(CUcontext::NULL, e));
    assert_eq!(foreign, Err(CUresult::INVALID_HANDLE), "null is the current context");
}

#[test]
fn all_later_work_of_a_context_can_wait_for_an_event() {
    let (sim, prim) = sim_with_context();
    let (first, later) = (Runs::default(), Runs::default());
    let (s, t, e) = (stream(&sim, 1), stream(&sim, 1), event(&sim));
    first.queue(&sim, s).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    call!(sim, cuCtxWaitEvent(prim, e)).unwrap();
    for waits in [t, stream(&sim, 1), CU_STREAM_PER_THREAD] {
        later.queue(&sim, waits).unwrap();
        assert!(sim.stream_step(waits));
        assert_eq!(first.count(), 1, "the step was made for what the stream waits for");
        call!(sim, cuStreamSynchronize(waits)).unwrap();
    }
    assert_eq!(later.count(), 3);
    let null = call!(sim, cuCtxWaitEvent(prim, CUevent::NULL));
    assert_eq!(null, Err(CUresult::INVALID_HANDLE));
}
