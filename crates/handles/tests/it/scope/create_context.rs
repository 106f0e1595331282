//! `create_context`: context creation, which pushes.

#![expect(unsafe_code, reason = "the operations are raw calls")]

use super::{ASK, How, Says, Situation, Stage, each, failure, status};
use cuhold_driver_sys::{Call, Calls, Failure, Fault, ffi::CUcontext};
use cuhold_handles::{Current, Error, Note, scope};
use std::{cell::Cell, ptr};

const MAKE: Call = Call::cuCtxCreate_v4;
const POP: Call = Call::cuCtxPopCurrent_v2;
const END: Call = Call::cuCtxDestroy_v2;

/// Makes a context; `made` is what the driver named.
fn make(stage: &Stage<'_>, made: &Cell<CUcontext>) -> Result<CUcontext, Error> {
    let device = stage.target.device();
    scope::create_context(stage.t.driver(), |calls: Calls<'_>, new| {
        // SAFETY: *pointers*: exclusive, and no parameters.
        let result = unsafe { calls.cuCtxCreate_v4(new, ptr::null_mut(), 0, device) };
        made.set(*new);
        result
    })
}

/// Makes a context, which fails, and gives what is said and what was named.
fn fails(stage: &Stage<'_>) -> (Says, CUcontext) {
    let made = Cell::new(CUcontext::NULL);
    let error = make(stage, &made).unwrap_err();
    (Says::of(&error), made.get())
}

/// Ends what a test left on purpose.
fn sweep(stage: &Stage<'_>, raw: CUcontext) {
    stage.t.faults().disarm();
    // SAFETY: *handles*: live, and the test's own.
    unsafe { stage.t.driver().calls().cuCtxDestroy_v2(raw) }.unwrap();
}

fn not_restored(lost: Failure, now: Current) -> Note {
    Note::NotRestored { failure: Some(lost), now }
}

#[test]
fn a_new_context_is_not_current_afterwards() {
    each(&Situation::ALL, |stage, _| {
        let made = Cell::new(CUcontext::NULL);
        let (raw, calls) = stage.t.calls(|| make(stage, &made).unwrap());
        assert_eq!(raw, made.get());
        assert_eq!(calls, ["cuCtxGetCurrent", "cuCtxCreate", "cuCtxPopCurrent"]);
        stage.is_as_before();
        sweep(stage, raw);
    });
}

#[test]
fn where_the_question_fails_no_context_is_made() {
    each(&Situation::ALL, |stage, how| {
        stage.fail(ASK, 1, how, 1);
        assert_eq!(fails(stage), (Says::only(failure(ASK, 1)), CUcontext::NULL));
        stage.is_as_before();
    });
}

#[test]
fn where_the_creation_fails_an_orphan_that_it_pushed_is_popped_and_ended() {
    each(&Situation::ALL, |stage, how| {
        stage.fail(MAKE, 1, how, 1);
        let ((said, _), calls) = stage.t.calls(|| fails(stage));
        assert_eq!(said, Says::only(failure(MAKE, 1)));
        stage.is_as_before();
        let ended = calls.iter().filter(|name| **name == END.name()).count();
        assert_eq!(ended, usize::from(how == How::Done));
    });
}

#[test]
fn an_orphan_that_can_not_be_popped_is_ended_which_pops_it() {
    each(&Situation::ALL, |stage, how| {
        stage.fail(MAKE, 1, How::Done, 1);
        stage.fail(POP, 1, how, 2);
        let (said, _) = fails(stage);
        let now = Current::of(stage.before.current);
        let notes = vec![not_restored(failure(POP, 2), now)];
        assert_eq!(said, Says { notes, now, ..Says::only(failure(MAKE, 1)) });
        stage.is_as_before();
    });
}

#[test]
fn where_it_is_not_known_what_is_current_only_what_the_creation_named_is_ended() {
    for made in How::BOTH {
        each(&Situation::ALL, |stage, how| {
            stage.fail(MAKE, 1, made, 1);
            stage.fail(ASK, 2, how, 2);
            let (said, named) = fails(stage);
            let unknown = Current::Unknown(failure(ASK, 2));
            let (note, now) = match made {
                How::Refused => (Note::NotRestored { failure: None, now: unknown }, unknown),
                How::Done => (Note::Failed(failure(ASK, 2)), Current::NotAsked),
            };
            assert_eq!(said, Says { notes: vec![note], now, ..Says::only(failure(MAKE, 1)) });
            assert_eq!(named.is_null(), made == How::Refused);
            stage.is_as_before();
        });
    }
}

/// A creation that names a context without having made or pushed it: what is popped is the caller's, and goes back.
#[test]
fn a_caller_s_context_that_was_popped_unseen_is_pushed_again() {
    each(&[Situation::Target, Situation::Another, Situation::Foreign], |stage, how| {
        stage.fail(ASK, 2, how, 2);
        let named = CUcontext::from_addr(0x7f00);
        let result = scope::create_context(stage.t.driver(), |_, new| {
            *new = named;
            Err(failure(MAKE, 1))
        });
        let says =
            Says { notes: vec![Note::Failed(failure(ASK, 2))], ..Says::only(failure(MAKE, 1)) };
        assert_eq!(Says::of(&result.unwrap_err()), says);
        stage.is_as_before();
    });
}

#[test]
fn an_orphan_that_can_not_be_ended_is_a_note() {
    each(&Situation::ALL, |stage, _| {
        stage.fail(MAKE, 1, How::Done, 1);
        stage.t.faults().arm(Fault::refused(status(2)).on(END).nth(1));
        let (said, named) = fails(stage);
        let notes = vec![Note::UndoFailed(failure(END, 2))];
        assert_eq!(said, Says { notes, ..Says::only(failure(MAKE, 1)) });
        stage.is_as_before();
        sweep(stage, named);
    });
}

#[test]
fn an_orphan_that_nobody_named_is_popped_and_leaked_by_its_value() {
    each(&Situation::ALL, |stage, _| {
        let orphan = Cell::new(CUcontext::NULL);
        let device = stage.target.device();
        let result = scope::create_context(stage.t.driver(), |calls: Calls<'_>, _| {
            let mut raw = CUcontext::NULL;
            // SAFETY: *pointers*: a live local, and no parameters.
            unsafe { calls.cuCtxCreate_v4(&raw mut raw, ptr::null_mut(), 0, device) }?;
            orphan.set(raw);
            Err(failure(MAKE, 1))
        });
        let raw = orphan.get();
        let notes = vec![Note::Leaked { raw: raw.addr() as u64 }];
        let says = Says { notes, ..Says::only(failure(MAKE, 1)) };
        assert_eq!(Says::of(&result.unwrap_err()), says);
        stage.is_as_before();
        sweep(stage, raw);
    });
}

#[test]
fn where_the_pop_fails_the_new_context_is_ended_which_pops_it() {
    each(&Situation::ALL, |stage, how| {
        stage.fail(POP, 1, how, 1);
        let ((said, _), calls) = stage.t.calls(|| fails(stage));
        let now = Current::of(stage.before.current);
        assert_eq!(said, Says { now, ..Says::only(failure(POP, 1)) });
        assert_eq!(calls[3..], ["cuCtxDestroy", "cuCtxGetCurrent"]);
        stage.is_as_before();
    });
}

#[test]
fn where_the_pop_and_the_destroy_fail_the_error_says_that_the_new_context_is_current() {
    each(&Situation::ALL, |stage, _| {
        stage.fail(POP, 1, How::Refused, 1);
        stage.fail(END, 1, How::Refused, 2);
        let (said, named) = fails(stage);
        let notes = vec![Note::UndoFailed(failure(END, 2))];
        assert_eq!(said, Says { notes, now: Current::of(named), ..Says::only(failure(POP, 1)) });
        // Destroyed while it is current, it is popped, too.
        sweep(stage, named);
        stage.is_as_before();
    });
}

#[test]
fn where_the_pop_and_the_question_fail_the_question_s_failure_is_carried() {
    each(&Situation::ALL, |stage, how| {
        stage.fail(POP, 1, how, 1);
        stage.fail(ASK, 2, how, 2);
        let (said, _) = fails(stage);
        let now = Current::Unknown(failure(ASK, 2));
        assert_eq!(said, Says { now, ..Says::only(failure(POP, 1)) });
        stage.is_as_before();
    });
}
