//! `run` and `call`: queries and mutations.

#![expect(unsafe_code, reason = "the operations are raw calls")]

use super::{ASK, How, POP, PUSH, Says, Situation, Stage, each, failure, seen_current};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::CUdevice};
use cuhold_handles::{Current, Error, Note, scope};
use std::{cell::Cell, ptr};

const OPERATION: Call = Call::cuCtxGetDevice;

/// Asks a question of the target, and counts that it was asked there.
fn query(stage: &Stage<'_>, ran: &Cell<u32>) -> Result<CUdevice, Error> {
    scope::run(stage.target(), |calls: Calls<'_>| {
        ran.set(ran.get() + 1);
        let mut device = -1;
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuCtxGetDevice(&raw mut device) }?;
        Ok(device)
    })
}

/// Runs the query, which fails, and gives what is said, and whether the query was run.
fn fails(stage: &Stage<'_>) -> (Says, bool) {
    let ran = Cell::new(0);
    let error = query(stage, &ran).unwrap_err();
    assert!(ran.get() <= 1);
    (Says::of(&error), ran.get() == 1)
}

#[test]
fn an_operation_runs_in_its_context_and_the_caller_s_is_back() {
    each(&Situation::ALL, |stage, _| {
        let ran = Cell::new(0);
        let (device, calls) = stage.t.calls(|| query(stage, &ran).unwrap());
        assert_eq!((device, ran.get()), (stage.target.device(), 1));
        stage.is_as_before();
        let names: &[_] = if stage.before.current == stage.target.as_raw() {
            &["cuCtxGetCurrent", "cuCtxGetDevice"]
        } else {
            &["cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxGetDevice", "cuCtxPopCurrent"]
        };
        assert_eq!(calls, names);
    });
}

#[test]
fn where_the_question_fails_an_operation_is_not_run() {
    each(&Situation::ALL, |stage, how| {
        stage.fail(ASK, 1, how, 1);
        assert_eq!(fails(stage), (Says::only(failure(ASK, 1)), false));
        stage.is_as_before();
    });
}

#[test]
fn where_the_activation_fails_an_operation_is_not_run_and_what_moved_is_put_back() {
    each(&Situation::OTHERS, |stage, how| {
        stage.fail(PUSH, 1, how, 1);
        assert_eq!(fails(stage), (Says::only(failure(PUSH, 1)), false));
        stage.is_as_before();
    });
}

/// What isn't known isn't moved: a destroyed context that is taken off can't be put there again.
#[test]
fn where_the_activation_and_the_question_after_it_fail_the_error_says_that_it_is_not_known() {
    for second in How::BOTH {
        each(&Situation::OTHERS, |stage, how| {
            stage.fail(PUSH, 1, how, 1);
            stage.fail(ASK, 2, second, 2);
            let now = Current::Unknown(failure(ASK, 2));
            let notes = vec![Note::NotRestored { failure: None, now }];
            let says = Says { notes, now, ..Says::only(failure(PUSH, 1)) };
            let (said, calls) = stage.t.calls(|| fails(stage));
            assert_eq!(said, (says, false));
            assert_eq!(calls, ["cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxGetCurrent"]);
            match how {
                How::Refused => stage.is_as_before(),
                How::Done => stage.is_left_in_target(),
            }
        });
    }
}

#[test]
fn where_an_activation_moved_the_context_and_it_is_not_put_back_the_note_says_what_is_current() {
    each(&Situation::OTHERS, |stage, how| {
        stage.fail(PUSH, 1, How::Done, 1);
        stage.fail(POP, 1, how, 2);
        let now = stage.left_by(how);
        let notes = vec![Note::NotRestored { failure: Some(failure(POP, 2)), now }];
        let says = Says { notes, now, ..Says::only(failure(PUSH, 1)) };
        assert_eq!(fails(stage), (says, false));
        stage.is_left_by(how);
    });
}

#[test]
fn where_an_operation_fails_the_caller_s_context_is_back() {
    each(&Situation::ALL, |stage, how| {
        stage.fail(OPERATION, 1, how, 1);
        assert_eq!(fails(stage), (Says::only(failure(OPERATION, 1)), true));
        stage.is_as_before();
    });
}

#[test]
fn where_only_the_restore_fails_the_error_says_completed_and_what_is_current() {
    each(&Situation::OTHERS, |stage, how| {
        stage.fail(POP, 1, how, 1);
        let now = stage.left_by(how);
        let says = Says { now, completed: Some(1), ..Says::only(failure(POP, 1)) };
        assert_eq!(fails(stage), (says, true));
        stage.is_left_by(how);
    });
}

#[test]
fn where_the_restore_and_the_question_after_it_fail_the_question_s_failure_is_carried() {
    for second in How::BOTH {
        each(&Situation::OTHERS, |stage, how| {
            stage.fail(POP, 1, how, 1);
            stage.fail(ASK, 2, second, 2);
            let now = Current::Unknown(failure(ASK, 2));
            let says = Says { now, completed: Some(1), ..Says::only(failure(POP, 1)) };
            assert_eq!(fails(stage), (says, true));
            stage.is_left_by(how);
        });
    }
}

#[test]
fn where_the_operation_and_the_restore_fail_the_second_is_a_note() {
    for second in How::BOTH {
        each(&Situation::OTHERS, |stage, how| {
            stage.fail(OPERATION, 1, second, 1);
            stage.fail(POP, 1, how, 2);
            let now = stage.left_by(how);
            let notes = vec![Note::NotRestored { failure: Some(failure(POP, 2)), now }];
            let says = Says { notes, now, ..Says::only(failure(OPERATION, 1)) };
            assert_eq!(fails(stage), (says, true));
            stage.is_left_by(how);
        });
    }
}

#[test]
fn what_an_operation_published_stays_where_only_the_restore_fails() {
    each(&Situation::OTHERS, |stage, how| {
        stage.fail(POP, 1, how, 1);
        let published = Cell::new(false);
        let result: Result<(), Error> = scope::run(stage.target(), |_| {
            published.set(true);
            Ok(())
        });
        assert_eq!(result.unwrap_err().completed(), Some(1));
        assert!(published.get());
        stage.is_left_by(how);
    });
}

#[test]
fn a_foreign_closure_is_called_in_the_context_or_not_at_all() {
    each(&Situation::OTHERS, |stage, how| {
        let inside = |called: &Cell<bool>| {
            scope::call(stage.target(), || {
                called.set(true);
                seen_current(stage.t)
            })
        };
        let called = Cell::new(false);
        assert_eq!(inside(&called).unwrap(), stage.target.as_raw());
        stage.is_as_before();

        let called = Cell::new(false);
        stage.fail(PUSH, 1, how, 1);
        let error = inside(&called).unwrap_err();
        assert_eq!(Says::of(&error), Says::only(failure(PUSH, 1)));
        assert!(!called.get());
        stage.is_as_before();
    });
}

/// A failing question is told by its status alone, so the words are worth a look of their own.
#[test]
fn a_lost_restore_reads_as_one_paragraph() {
    each(&[Situation::None], |stage, how| {
        if how == How::Done {
            return;
        }
        stage.fail(OPERATION, 1, how, 1);
        stage.fail(POP, 1, how, 2);
        let ran = Cell::new(0);
        let text = query(stage, &ran).unwrap_err().to_string();
        let target = stage.target.as_raw().addr();
        assert_eq!(
            text,
            format!(
                "cuCtxGetDevice failed with status 9001; the caller's context wasn't restored (cuCtxPopCurrent \
                 answered status 9002); context {target:#x} is current"
            )
        );
        stage.is_left_in_target();

        stage.fail(POP, 1, how, 1);
        let text = query(stage, &ran).unwrap_err().to_string();
        assert_eq!(
            text,
            format!(
                "cuCtxPopCurrent failed with status 9001; context {target:#x} is current; the operation itself was \
                 carried out"
            )
        );
        stage.is_left_in_target();
    });
}

/// The failure of a call that wasn't made by name.
#[test]
fn an_operation_s_own_failure_is_returned_as_it_is() {
    each(&Situation::ALL, |stage, _| {
        let own = Failure { call: Call::cuMemGetInfo_v2, ..failure(OPERATION, 7) };
        let error = scope::run(stage.target(), |_| Err::<(), _>(own)).unwrap_err();
        assert_eq!(Says::of(&error), Says::only(own));
        stage.is_as_before();
    });
}

/// What foreign code may leave on the thread's stack: what it was given popped, another context set in its place, or
/// one more on it.
#[test]
fn where_a_foreign_closure_changed_the_stack_the_caller_s_context_is_current_again() {
    each(&[Situation::None, Situation::Another, Situation::Foreign], |stage, how| {
        if how == How::Done {
            return;
        }
        let calls = stage.t.driver().calls();
        let pop = || {
            // SAFETY: *pointers*: null is taken.
            unsafe { calls.cuCtxPopCurrent_v2(ptr::null_mut()) }.unwrap();
        };
        // SAFETY: *handles*: live.
        let set = || unsafe { calls.cuCtxSetCurrent(stage.t.context().as_raw()) }.unwrap();
        // SAFETY: *handles*: live.
        let push = || unsafe { calls.cuCtxPushCurrent_v2(stage.t.context().as_raw()) }.unwrap();

        scope::call(stage.target(), set).unwrap();
        stage.is_as_before();

        scope::call(stage.target(), push).unwrap();
        stage.is_as_before();

        let several = || (0..5).for_each(|_| push());
        scope::call(stage.target(), several).unwrap();
        stage.is_as_before();

        let popped = scope::call(stage.target(), pop);
        match stage.before.current.is_null() {
            // An empty stack refuses to be popped, which is told.
            true => assert_eq!(popped.unwrap_err().now_current(), Current::None),
            false => popped.unwrap(),
        }
        stage.is_as_before();
    });
}
