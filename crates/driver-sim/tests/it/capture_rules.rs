//! What captures forbid, and what that does to them.

use cuhold_driver_sim::{
    Sim, SimOptions,
    cuhold_driver_sys::{Call, CaptureRule, DriverApi as _, ffi::*},
};
use std::thread;

use crate::{
    ask::{
        Asked, BLOCKING, NON_BLOCKING, Runs, assert_clean, call, context, event, primary, sim_with,
        sim_with_context, stream,
    },
    capture::{
        ACTIVE, GLOBAL, INVALIDATED, MODES, Mode, NONE, RELAXED, THREAD_LOCAL, begin, capturing,
        end,
    },
};

const UNSUPPORTED: Asked<()> = Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
const IMPLICIT: Asked<()> = Err(CUresult::STREAM_CAPTURE_IMPLICIT);

pub(crate) fn set_mode(sim: &Sim, mut mode: Mode) {
    call!(sim, cuThreadExchangeStreamCaptureMode(&raw mut mode)).unwrap();
}

/// Whether an unsafe call is refused in a thread, and the capture's status afterwards.
fn unsafe_call(sim: &Sim, captured: CUstream, other: CUstream) -> (bool, CUstreamCaptureStatus) {
    let asked = call!(sim, cuStreamQuery(other));
    assert!(asked == Ok(()) || asked == UNSUPPORTED, "{asked:?}");
    (asked == UNSUPPORTED, capturing(sim, captured).unwrap())
}

#[test]
fn an_unsafe_call_is_refused_as_the_two_modes_say_and_invalidates_the_capture() {
    for capture in MODES {
        for caller in MODES {
            for same_thread in [true, false] {
                let (sim, _) = sim_with_context();
                let (s, other) = (stream(&sim, 1), stream(&sim, 1));
                begin(&sim, s, capture).unwrap();
                let make = || {
                    set_mode(&sim, caller);
                    unsafe_call(&sim, s, other)
                };
                let made = if same_thread {
                    make()
                } else {
                    thread::scope(|scope| scope.spawn(make).join()).unwrap()
                };
                let own = same_thread && capture != RELAXED;
                let refused = match caller {
                    GLOBAL => own || capture == GLOBAL,
                    THREAD_LOCAL => own,
                    _ => false,
                };
                let status = if refused { INVALIDATED } else { ACTIVE };
                let case = (capture, caller, same_thread);
                assert_eq!(made, (refused, status), "{case:?}");
            }
        }
    }
}

#[test]
fn a_capture_on_one_device_is_disturbed_by_unsafe_calls_on_another() {
    let sim = sim_with(SimOptions::with_devices(2));
    let (zero, one) = (primary(&sim, 0), primary(&sim, 1));
    call!(sim, cuCtxSetCurrent(one)).unwrap();
    let other = stream(&sim, 1);
    call!(sim, cuCtxSetCurrent(zero)).unwrap();
    let s = stream(&sim, 1);
    begin(&sim, s, GLOBAL).unwrap();
    call!(sim, cuCtxSynchronize_v2(one)).unwrap();
    assert_eq!(capturing(&sim, s), Ok(ACTIVE), "waiting for the other context is no such call");
    assert_eq!(call!(sim, cuStreamSynchronize(other)), UNSUPPORTED);
    assert_eq!(capturing(&sim, s), Ok(INVALIDATED));
}

#[test]
fn only_the_prohibiting_captures_are_invalidated() {
    let (sim, _) = sim_with_context();
    let (s, t, other) = (stream(&sim, 1), stream(&sim, 1), stream(&sim, 1));
    begin(&sim, s, RELAXED).unwrap();
    begin(&sim, t, THREAD_LOCAL).unwrap();
    assert_eq!(call!(sim, cuStreamQuery(other)), UNSUPPORTED);
    assert_eq!((capturing(&sim, s), capturing(&sim, t)), (Ok(ACTIVE), Ok(INVALIDATED)));
}

#[test]
fn neutral_calls_leave_a_global_capture_alone() {
    let (sim, prim) = sim_with_context();
    let s = stream(&sim, NON_BLOCKING);
    begin(&sim, s, GLOBAL).unwrap();
    let (t, e) = (stream(&sim, 1), event(&sim));
    call!(sim, cuEventRecord(e, t)).unwrap();
    call!(sim, cuStreamWaitEvent(t, e, 0)).unwrap();
    Runs::default().queue(&sim, CUstream::NULL).unwrap();
    call!(sim, cuEventDestroy_v2(e)).unwrap();
    call!(sim, cuStreamDestroy_v2(t)).unwrap();
    call!(sim, cuCtxSetCurrent(prim)).unwrap();
    let a = context(&sim);
    call!(sim, cuCtxDestroy_v2(a)).unwrap();
    primary(&sim, 0);
    call!(sim, cuDevicePrimaryCtxRelease_v2(0)).unwrap();
    assert_eq!(capturing(&sim, s), Ok(ACTIVE));
    assert_eq!(end(&sim, s).0, Ok(()));
    assert_clean(&sim);
}

#[test]
fn waiting_for_a_captured_stream_or_its_context_is_refused_in_every_mode() {
    type Wait = fn(&Sim, CUstream) -> Asked<()>;
    let waits: [(&str, Wait); 4] = [
        ("query", |sim, s| call!(sim, cuStreamQuery(s))),
        ("synchronize", |sim, s| call!(sim, cuStreamSynchronize(s))),
        ("context", |sim, _| call!(sim, cuCtxSynchronize())),
        ("named context", |sim, _| call!(sim, cuCtxSynchronize_v2(CUcontext::NULL))),
    ];
    for mode in MODES {
        for (name, wait) in waits {
            let (sim, _) = sim_with_context();
            let s = stream(&sim, 1);
            begin(&sim, s, mode).unwrap();
            set_mode(&sim, RELAXED);
            assert_eq!(wait(&sim, s), UNSUPPORTED, "{name} in {mode:?}");
            assert_eq!(capturing(&sim, s), Ok(INVALIDATED));
            let invalidated = Err(CUresult::STREAM_CAPTURE_INVALIDATED);
            assert_eq!(end(&sim, s), (invalidated, CUgraph::NULL));
            assert_eq!(capturing(&sim, s), Ok(NONE));
        }
    }
}

#[test]
fn a_captured_event_can_only_be_waited_for_inside_its_capture() {
    let (sim, _) = sim_with_context();
    let (s, t, e) = (stream(&sim, 1), stream(&sim, 1), event(&sim));
    begin(&sim, s, RELAXED).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    assert_eq!(call!(sim, cuEventQuery(e)), Err(CUresult::CAPTURED_EVENT));
    assert_eq!(capturing(&sim, s), Ok(INVALIDATED));
    assert_eq!(call!(sim, cuEventSynchronize(e)), Err(CUresult::INVALID_VALUE));
    assert_eq!(end(&sim, s).0, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
    assert_eq!(call!(sim, cuEventQuery(e)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuStreamWaitEvent(t, e, 0)), Err(CUresult::INVALID_VALUE));
    assert_eq!(capturing(&sim, t), Ok(NONE));
    call!(sim, cuEventRecord(e, s)).unwrap();
    call!(sim, cuEventQuery(e)).unwrap();
    call!(sim, cuEventDestroy_v2(e)).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_captured_event_is_no_good_after_a_capture_that_ended_well() {
    let (sim, _) = sim_with_context();
    let (s, t, e) = (stream(&sim, 1), stream(&sim, 1), event(&sim));
    begin(&sim, s, GLOBAL).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    assert_eq!(end(&sim, s).0, Ok(()));
    assert_eq!(call!(sim, cuEventQuery(e)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuStreamWaitEvent(t, e, 0)), Err(CUresult::INVALID_VALUE));
    call!(sim, cuEventDestroy_v2(e)).unwrap();
}

#[test]
fn a_captured_event_can_be_destroyed_during_its_capture() {
    let (sim, _) = sim_with_context();
    let (s, e) = (stream(&sim, 1), event(&sim));
    begin(&sim, s, GLOBAL).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    call!(sim, cuEventDestroy_v2(e)).unwrap();
    assert_eq!(capturing(&sim, s), Ok(ACTIVE));
    assert_eq!(end(&sim, s).0, Ok(()));
}

#[test]
fn captured_work_may_not_depend_on_work_outside() {
    for mode in MODES {
        let (sim, _) = sim_with_context();
        let (s, t, e) = (stream(&sim, 1), stream(&sim, 1), event(&sim));
        call!(sim, cuEventRecord(e, t)).unwrap();
        begin(&sim, s, mode).unwrap();
        let asked = call!(sim, cuStreamWaitEvent(s, e, 0));
        assert_eq!(asked, Err(CUresult::STREAM_CAPTURE_ISOLATION));
        assert_eq!(capturing(&sim, s), Ok(INVALIDATED));
    }
}

#[test]
fn captured_work_may_wait_for_an_event_that_was_never_recorded() {
    let (sim, _) = sim_with_context();
    let (s, e) = (stream(&sim, 1), event(&sim));
    begin(&sim, s, GLOBAL).unwrap();
    call!(sim, cuStreamWaitEvent(s, e, 0)).unwrap();
    assert_eq!(capturing(&sim, s), Ok(ACTIVE));
    assert_eq!(end(&sim, s).0, Ok(()));
}

#[test]
fn an_external_wait_or_record_becomes_a_node() {
    let (sim, _) = sim_with_context();
    let (s, e) = (stream(&sim, 1), event(&sim));
    call!(sim, cuEventRecord(e, stream(&sim, 1))).unwrap();
    begin(&sim, s, GLOBAL).unwrap();
    call!(sim, cuStreamWaitEvent(s, e, 1)).unwrap();
    call!(sim, cuEventRecordWithFlags(e, s, 1)).unwrap();
    let (asked, graph) = end(&sim, s);
    let mut count = 0;
    call!(sim, cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count)).unwrap();
    assert_eq!((asked, count), (Ok(()), 2));
}

#[test]
fn two_captures_may_not_be_merged() {
    let (sim, _) = sim_with_context();
    let (s, t, e) = (stream(&sim, 1), stream(&sim, 1), event(&sim));
    begin(&sim, s, GLOBAL).unwrap();
    begin(&sim, t, GLOBAL).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    let asked = call!(sim, cuStreamWaitEvent(t, e, 0));
    assert_eq!(asked, Err(CUresult::STREAM_CAPTURE_MERGE));
    assert_eq!((capturing(&sim, s), capturing(&sim, t)), (Ok(INVALIDATED), Ok(INVALIDATED)));
    assert_eq!(end(&sim, s).0, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
    assert_eq!(end(&sim, t).0, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
}

#[test]
fn a_stream_of_an_invalidated_capture_takes_no_work() {
    let (sim, _) = sim_with_context();
    let (s, e) = (stream(&sim, 1), event(&sim));
    begin(&sim, s, RELAXED).unwrap();
    call!(sim, cuStreamQuery(s)).unwrap_err();
    let invalidated = Err(CUresult::STREAM_CAPTURE_INVALIDATED);
    assert_eq!(Runs::default().queue(&sim, s), invalidated);
    assert_eq!(call!(sim, cuEventRecord(e, s)), invalidated);
}

#[test]
fn the_legacy_stream_may_not_be_used_beside_a_captured_blocking_one() {
    for mode in MODES {
        let (sim, _) = sim_with_context();
        let s = stream(&sim, BLOCKING);
        begin(&sim, s, mode).unwrap();
        set_mode(&sim, RELAXED);
        assert_eq!(capturing(&sim, CUstream::NULL), Err(CUresult::STREAM_CAPTURE_IMPLICIT));
        assert_eq!(capturing(&sim, s), Ok(ACTIVE), "asking does no harm");
        assert_eq!(Runs::default().queue(&sim, CUstream::NULL), IMPLICIT);
        assert_eq!(capturing(&sim, s), Ok(INVALIDATED));
        assert_eq!(end(&sim, s).0, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
    }
}

#[test]
fn the_legacy_stream_of_another_context_may_be_used() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, BLOCKING);
    begin(&sim, s, RELAXED).unwrap();
    context(&sim);
    Runs::default().queue(&sim, CUstream::NULL).unwrap();
    assert_eq!(capturing(&sim, s), Ok(ACTIVE));
}

/// Makes the unsafe calls among those simulated, each with arguments that are fine otherwise. What this doesn't know
/// fails the test, so that a new unsafe function is added here.
fn make_unsafe_call(sim: &Sim, unsafe_one: Call) -> Option<Asked<()>> {
    let (other, e) = (stream(sim, 1), event(sim));
    call!(sim, cuEventRecord(e, other)).unwrap();
    Some(match unsafe_one {
        Call::cuStreamQuery => call!(sim, cuStreamQuery(other)),
        Call::cuStreamSynchronize => call!(sim, cuStreamSynchronize(other)),
        Call::cuEventQuery => call!(sim, cuEventQuery(e)),
        Call::cuEventSynchronize => call!(sim, cuEventSynchronize(e)),
        Call::cuCtxSetLimit => call!(sim, cuCtxSetLimit(CUlimit::CU_LIMIT_STACK_SIZE, 2048)),
        Call::cuCtxSetCacheConfig => call!(sim, cuCtxSetCacheConfig(CUfunc_cache(1))),
        Call::cuCtxEnablePeerAccess => {
            call!(sim, cuCtxEnablePeerAccess(primary(sim, 1), 0))
        }
        Call::cuCtxDisablePeerAccess => {
            call!(sim, cuCtxDisablePeerAccess(primary(sim, 1)))
        }
        _ => {
            return crate::memory::make_unsafe_call(sim, unsafe_one, other)
                .or_else(|| crate::graph_exec::make_unsafe_call(sim, unsafe_one))
                .or_else(|| crate::image::make_unsafe_call(sim, unsafe_one))
                .or_else(|| crate::process::make_unsafe_call(sim, unsafe_one))
                .or_else(|| crate::external::make_unsafe_call(sim, unsafe_one));
        }
    })
}

#[test]
fn every_simulated_call_that_the_list_says_is_unsafe_is_refused_in_a_global_capture() {
    let is_unsafe = |call: &&Call| call.columns().capture == CaptureRule::Unsafe;
    for unsafe_one in Sim::simulated().iter().filter(is_unsafe) {
        let sim = sim_with(SimOptions::with_devices(2));
        call!(sim, cuCtxSetCurrent(primary(&sim, 0))).unwrap();
        let s = stream(&sim, 1);
        begin(&sim, s, GLOBAL).unwrap();
        let asked = make_unsafe_call(&sim, *unsafe_one);
        assert_eq!(asked, Some(UNSUPPORTED), "{unsafe_one:?}");
        assert_eq!(capturing(&sim, s), Ok(INVALIDATED), "{unsafe_one:?}");
    }
}

#[test]
fn calls_for_a_whole_context_and_callbacks_are_refused_beside_its_captured_stream() {
    let refused: [fn(&Sim, CUstream) -> Asked<()>; 3] = [
        |sim, _| call!(sim, cuCtxRecordEvent(CUcontext::NULL, event(sim))),
        |sim, _| call!(sim, cuCtxWaitEvent(CUcontext::NULL, event(sim))),
        |sim, s| call!(sim, cuStreamAddCallback(s, Some(never), std::ptr::null_mut(), 0)),
    ];
    for make in refused {
        let (sim, _) = sim_with_context();
        let s = stream(&sim, 1);
        begin(&sim, s, RELAXED).unwrap();
        assert_eq!(make(&sim, s), UNSUPPORTED);
        assert_eq!(capturing(&sim, s), Ok(INVALIDATED));
    }
}

unsafe extern "C" fn never(_: CUstream, _: CUresult, _: *mut c_void) {}
