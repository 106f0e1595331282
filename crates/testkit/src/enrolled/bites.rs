//! The checker bites: operations that break one promise each, and what is then said.

#![expect(unsafe_code, reason = "misuses the driver")]

use super::{
    Enrolled, Place, Run,
    faults::{Seen, enumerate, once},
    journal::AnyFault,
    settings::broken,
    situation::PLAIN,
};
use crate::Operations;
use cuhold_driver_sys::{
    Calls, Effect, Fault,
    ffi::*,
    nvrtc::{NvrtcCalls, nvrtcProgram, nvrtcResult},
};
use cuhold_handles::{
    CompilerFailure, CudaWarning, Current, Error, Event, NvrtcProgram, Object, ObjectKind, Result,
};

/// The first call fails with the injector's first status.
const FAILS: AnyFault = AnyFault::Driver(Fault::refused(CUresult(9001)).nth(1));

/// The same of NVRTC's first call.
const NVRTC_FAILS: AnyFault =
    AnyFault::Nvrtc(Fault::with_effect(Effect::Refused(nvrtcResult(9001))).nth(1));

fn seen(body: fn(&Run<'_>), faults: &[AnyFault]) -> Seen {
    once(&Enrolled::new("Test :: body", body), PLAIN, faults)
}

/// The one complaint about this body.
fn complaint(body: fn(&Run<'_>), faults: &[AnyFault]) -> String {
    let mut complaints = seen(body, faults).complaints;
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    complaints.remove(0)
}

fn calls<'a>(run: &'a Run<'_>) -> Calls<'a> {
    Calls::new(run.simulated())
}

fn raw_stream(run: &Run<'_>) -> CUstream {
    run.context()
        .with_current(|| {
            let mut raw = CUstream::NULL;
            // SAFETY: *pointers*: a live local.
            unsafe { calls(run).cuStreamCreate(&raw mut raw, 0) }.unwrap();
            raw
        })
        .unwrap()
}

fn destroy(run: &Run<'_>, raw: CUstream) -> Result<()> {
    // SAFETY: *handles*: the simulated driver notices misuse.
    unsafe { calls(run).cuStreamDestroy_v2(raw) }.map_err(Error::from)
}

fn push(run: &Run<'_>) {
    // SAFETY: *handles*: the context is live.
    unsafe { calls(run).cuCtxPushCurrent_v2(run.context().as_raw()) }.unwrap();
}

fn record(run: &Run<'_>, event: &Event) -> Result<()> {
    run.stream().record(event)
}

#[test]
fn an_operation_that_keeps_the_promises_is_not_complained_of() {
    let body = |run: &Run<'_>| {
        let event = run.new_event();
        run.repeat(|| record(run, &event));
    };
    assert_eq!(seen(body, &[]).complaints, Vec::<String>::new());
    assert_eq!(seen(body, &[FAILS]).complaints, Vec::<String>::new());
}

#[test]
fn a_failure_that_nobody_was_told_of_is_found() {
    let body = |run: &Run<'_>| {
        let event = run.new_event();
        drop(run.op(|| record(run, &event)));
    };
    assert_eq!(seen(body, &[]).complaints, Vec::<String>::new());
    assert!(complaint(body, &[FAILS]).contains("it was told 0 times"));
}

#[test]
fn a_failure_that_was_told_twice_is_found() {
    let body = |run: &Run<'_>| {
        let event = run.new_event();
        let result = run.op(|| record(run, &event));
        run.keep(result.clone());
        run.keep(result);
    };
    assert!(complaint(body, &[FAILS]).contains("it was told 2 times"));
}

#[test]
fn a_fault_that_never_comes_about_is_found() {
    let body = |run: &Run<'_>| run.op(|| ());
    assert_eq!(complaint(body, &[FAILS]), "1 faults, of which only 0 came about");
}

/// Asks NVRTC for its version.
fn version(run: &Run<'_>) -> Result<()> {
    let (nvrtc, mut major, mut minor) = (run.nvrtc(), 0, 0);
    // SAFETY: *pointers*: live locals.
    let answer = unsafe { NvrtcCalls::new(&*nvrtc).nvrtcVersion(&raw mut major, &raw mut minor) };
    answer.map_err(|failure| CompilerFailure::Nvrtc(failure).into())
}

fn program(run: &Run<'_>) -> NvrtcProgram {
    NvrtcProgram::new(run.driver(), &run.nvrtc(), "", None, &[]).unwrap()
}

#[test]
fn a_compiler_s_failure_that_nobody_was_told_of_is_found() {
    let kept = |run: &Run<'_>| {
        run.repeat(|| version(run));
    };
    assert_eq!(seen(kept, &[NVRTC_FAILS]).complaints, Vec::<String>::new());
    let swallowed = |run: &Run<'_>| drop(run.op(|| version(run)));
    assert_eq!(seen(swallowed, &[]).complaints, Vec::<String>::new());
    assert!(complaint(swallowed, &[NVRTC_FAILS]).contains("it was told 0 times"));
}

#[test]
fn a_second_failure_of_another_list_that_nobody_was_told_of_is_found() {
    let body = |run: &Run<'_>| {
        let event = run.new_event();
        let result = run.op(|| {
            let (compiler, driver) = (version(run), event.synchronize());
            compiler.map_err(|error| match &driver {
                Err(second) => error.with_second(second),
                Ok(_) => error,
            })?;
            driver
        });
        run.keep(result);
    };
    let whole = enumerate(&Enrolled::new("Test :: body", body));
    assert_eq!((whole.violations, whole.first), (0, None));
    assert!(whole.pairs > 0);
    assert!(whole.calls.contains("nvrtcVersion") && whole.calls.contains("cuEventSynchronize"));

    let first_only = |run: &Run<'_>| {
        let event = run.new_event();
        let result = run.op(|| {
            let (compiler, driver) = (version(run), event.synchronize());
            compiler.and(driver)
        });
        run.keep(result);
    };
    let told = enumerate(&Enrolled::new("Test :: body", first_only));
    assert!(told.violations > 0);
    let first = told.first.unwrap();
    assert!(first.contains("Nvrtc(") && first.contains("Driver("), "{first}");
}

#[test]
fn a_compiler_s_handle_that_is_lost_without_a_word_or_ended_twice_is_found() {
    let lost = |run: &Run<'_>| {
        let program = program(run);
        let _: nvrtcProgram = run.op(|| program.into_raw());
    };
    assert!(complaint(lost, &[]).starts_with("nobody was told of the loss of NVRTC program"));
    let twice = |run: &Run<'_>| {
        let (nvrtc, program) = (run.nvrtc(), program(run));
        let mut raw = program.as_raw();
        run.op(|| drop(program));
        // SAFETY: *programs*: the small compiler notices misuse.
        let again = unsafe { NvrtcCalls::new(&*nvrtc).nvrtcDestroyProgram(&raw mut raw) };
        assert!(again.is_err());
    };
    assert!(complaint(twice, &[]).contains("is no live NVRTC program"));
}

#[test]
fn a_moved_context_is_found_unless_what_was_told_names_the_current_one() {
    let silent = |run: &Run<'_>| run.op(|| push(run));
    assert!(complaint(silent, &[]).contains("nothing that was told names the current one"));
    let told = |run: &Run<'_>| {
        run.op(|| push(run));
        let now = Current::of(run.context().as_raw());
        run.keep::<()>(Err(Error::state("moved").with_current(now)));
    };
    assert_eq!(seen(told, &[]).complaints, Vec::<String>::new());
    let wrong = |run: &Run<'_>| {
        run.op(|| ());
        let now = Current::of(run.context().as_raw());
        run.keep::<()>(Err(Error::state("not moved").with_current(now)));
    };
    assert!(complaint(wrong, &[]).starts_with("current is"));
}

#[test]
fn a_deeper_stack_with_the_same_context_on_top_is_found() {
    let body = |run: &Run<'_>| {
        push(run);
        run.op(|| push(run));
    };
    assert!(complaint(body, &[]).contains("nothing that was told names the current one"));
}

#[test]
fn a_capture_mode_that_was_not_put_back_is_found() {
    let body = |run: &Run<'_>| {
        run.op(|| {
            let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            // SAFETY: *pointers*: a live local.
            unsafe { calls(run).cuThreadExchangeStreamCaptureMode(&raw mut mode) }.unwrap();
        });
    };
    assert!(complaint(body, &[]).contains("the capture mode was"));
}

#[test]
fn an_object_that_is_lost_without_a_word_is_found() {
    let body = |run: &Run<'_>| {
        run.op(|| raw_stream(run));
    };
    assert!(complaint(body, &[]).starts_with("nobody was told of the loss of stream"));
}

#[test]
fn the_loss_of_one_object_that_was_told_does_not_cover_another() {
    let body = |run: &Run<'_>| {
        let stream = run.new_stream();
        run.op(|| {
            drop(stream);
            raw_stream(run);
        });
    };
    let complaints = seen(body, &[FAILS]).complaints;
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].starts_with("nobody was told of the loss of stream"));
}

#[test]
fn a_failed_creation_that_leaves_something_is_found() {
    let body = |run: &Run<'_>| {
        let left = std::cell::Cell::new(CUstream::NULL);
        run.create(|| {
            if !left.get().is_null() {
                return Ok(());
            }
            left.set(raw_stream(run));
            Err(Error::state("a creation failed"))
        });
        destroy(run, left.get()).unwrap();
    };
    assert!(complaint(body, &[]).starts_with("a creation failed, and left stream"));
}

#[test]
fn a_second_destroy_is_found() {
    let body = |run: &Run<'_>| {
        let stream = raw_stream(run);
        run.op(|| {
            destroy(run, stream).unwrap();
            drop(destroy(run, stream));
        });
    };
    assert!(complaint(body, &[]).starts_with("violation: double destroy of stream"));
}

#[test]
fn an_object_that_works_once_only_is_found() {
    let body = |run: &Run<'_>| {
        let done = std::cell::Cell::new(false);
        run.repeat(|| if done.replace(true) { Err(Error::state("used up")) } else { Ok(()) });
    };
    assert_eq!(complaint(body, &[]), "a second use: used up");
}

#[test]
fn something_that_holds_the_driver_for_good_is_found() {
    let body = |run: &Run<'_>| {
        run.op(|| Box::leak(Box::new(run.driver().clone())));
    };
    let complaints = seen(body, &[]).complaints;
    assert!(complaints.iter().any(|c| c.contains("something holds it")), "{complaints:?}");
}

/// What is said of a body that is done in a place.
fn said(path: &'static str, place: Place, body: fn(&Run<'_>)) -> String {
    broken(&[Enrolled::new(path, body)], place, None).wrong.join("\n")
}

fn synchronize(run: &Run<'_>) {
    run.repeat(|| run.stream().synchronize());
}

#[test]
fn an_operation_that_keeps_the_promises_is_complained_of_in_no_place() {
    for place in [
        Place::UnusedThread,
        Place::Unwinding,
        Place::Sink,
        Place::HostFunction,
        Place::DestroyedCurrent,
        Place::ForeignCapture,
        Place::Exiting,
        Place::ForkedChild,
        Place::Lost,
    ] {
        assert_eq!(said("Test::body", place, synchronize), "", "{place:?}");
    }
}

#[test]
fn a_call_inside_a_host_function_is_found() {
    let body = |run: &Run<'_>| {
        let mut now = CUcontext::NULL;
        run.op(|| {
            // SAFETY: *pointers*: a live local.
            let _: core::result::Result<(), _> =
                unsafe { calls(run).cuCtxGetCurrent(&raw mut now) };
        });
    };
    assert!(
        said("Test::body", Place::HostFunction, body).contains("driver call inside a callback")
    );
    assert_eq!(said("Test::body", Place::UnusedThread, body), "");
}

#[test]
fn an_end_that_is_lost_in_a_place_is_found() {
    let body = |run: &Run<'_>| {
        run.op(|| raw_stream(run));
    };
    for place in [Place::UnusedThread, Place::Unwinding, Place::Sink] {
        assert!(said("Test::drop", place, body).contains("nobody was told of the loss of stream"));
    }
}

#[test]
fn a_call_of_a_forked_child_s_end_is_found() {
    let body = |run: &Run<'_>| {
        run.op(|| {
            // SAFETY: no arguments.
            let _: core::result::Result<(), _> = unsafe { run.driver().calls().cuCtxSynchronize() };
        });
    };
    assert!(said("Test::drop", Place::ForkedChild, body).contains("the child made 1 calls"));
    let compiler = |run: &Run<'_>| run.op(|| version(run).unwrap());
    assert!(said("Test::drop", Place::ForkedChild, compiler).contains("the child made 1 calls"));
}

#[test]
fn a_warning_of_a_process_that_exits_is_found() {
    let body = |run: &Run<'_>| {
        let object = Object::nameless(ObjectKind::Stream);
        run.op(|| run.driver().reports().raise(CudaWarning::note(object, "late")));
    };
    assert!(said("Test::drop", Place::Exiting, body).contains("it warned: "));
    assert!(said("Test::drop", Place::ForkedChild, body).contains("it warned: "));
}

#[test]
fn a_drop_that_invalidates_a_capture_is_found_and_so_is_an_operation_that_does_not_say_so() {
    assert!(said("Test::drop", Place::ForeignCapture, synchronize).contains("a drop invalidated"));
    let of = |invalidates_captures| {
        let path = "Test::body".to_owned();
        let calls = std::collections::BTreeSet::new();
        let operation = crate::Operation { path: path.clone(), calls, invalidates_captures };
        Operations { operations: [(path, operation)].into(), ..Operations::default() }
    };
    let said = |body: fn(&Run<'_>), documented: &Operations| {
        broken(&[Enrolled::new("Test::body", body)], Place::ForeignCapture, Some(documented))
            .wrong
            .join("")
    };
    assert_eq!(said(synchronize, &of(true)), "");
    assert!(said(synchronize, &of(false)).contains("its documentation doesn't say"));
    assert!(said(|run| run.op(|| ()), &of(true)).contains("and didn't"));
}
