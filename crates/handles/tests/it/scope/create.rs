//! `create`: creations with their undo.

#![expect(unsafe_code, reason = "the operations are raw calls")]

use super::{ASK, How, POP, PUSH, Says, Situation, Stage, each, failure};
use cuhold_driver_sys::{
    Call, Calls, CaptureRule, Columns, ContextUse, Failure, Fault,
    ffi::{CUcontext, CUstream, CUstreamCaptureMode},
};
use cuhold_handles::{
    Current, Error, Note,
    scope::{self, Undo},
};
use std::cell::Cell;

const MAKE: Call = Call::cuStreamCreate;
const END: Call = Call::cuStreamDestroy_v2;
const MODE: Call = Call::cuThreadExchangeStreamCaptureMode;

/// What was made, and what was ended.
#[derive(Default)]
struct Ledger {
    made: Cell<CUstream>,
    ended: Cell<u32>,
}

impl Ledger {
    fn live(&self) -> bool {
        !self.made.get().is_null() && self.ended.get() == 0
    }

    /// Ends what a test left on purpose, so that it isn't found as a leak.
    fn sweep(&self, stage: &Stage<'_>) {
        stage.t.faults().disarm();
        if self.live() {
            // SAFETY: *handles*: live, and the test's own.
            unsafe { stage.t.driver().calls().cuStreamDestroy_v2(self.made.get()) }.unwrap();
        }
    }
}

/// Makes a stream; its destroy is said to have these columns.
fn make(stage: &Stage<'_>, ledger: &Ledger, columns: Columns) -> Result<CUstream, Error> {
    scope::create(
        stage.target(),
        |calls: Calls<'_>| {
            let mut raw = CUstream::NULL;
            // SAFETY: *pointers*: a live local.
            let result = unsafe { calls.cuStreamCreate(&raw mut raw, 1) };
            ledger.made.set(raw);
            result.map(|()| raw)
        },
        Undo {
            columns,
            destroy: |calls: Calls<'_>, raw| {
                // SAFETY: *handles*: just made.
                let result = unsafe { calls.cuStreamDestroy_v2(raw) };
                // One that is refused here is refused by the fault, and nothing is done.
                ledger.ended.set(ledger.ended.get() + u32::from(result.is_ok()));
                result
            },
            raw: |raw: CUstream| raw.addr() as u64,
        },
    )
}

fn columns(context: ContextUse) -> Columns {
    let mut columns = END.columns();
    columns.context = context;
    columns
}

fn unsafe_columns() -> Columns {
    let mut columns = END.columns();
    columns.capture = CaptureRule::Unsafe;
    columns
}

/// Makes a stream, which fails, and gives what is said.
fn fails(stage: &Stage<'_>, ledger: &Ledger, columns: Columns) -> Says {
    Says::of(&make(stage, ledger, columns).unwrap_err())
}

#[test]
fn a_creation_makes_its_object_in_the_context_and_the_caller_s_is_back() {
    each(&Situation::ALL, |stage, _| {
        let ledger = Ledger::default();
        let raw = make(stage, &ledger, END.columns()).unwrap();
        let mut context = CUcontext::NULL;
        // SAFETY: *pointers*: a live local; *handles*: just made.
        unsafe { stage.t.driver().calls().cuStreamGetCtx(raw, &raw mut context) }.unwrap();
        assert_eq!(context, stage.target.as_raw());
        stage.is_as_before();
        ledger.sweep(stage);
    });
}

#[test]
fn where_the_question_or_the_activation_fails_nothing_is_created() {
    each(&Situation::ALL, |stage, how| {
        let ledger = Ledger::default();
        stage.fail(ASK, 1, how, 1);
        assert_eq!(fails(stage, &ledger, END.columns()), Says::only(failure(ASK, 1)));
        assert!(ledger.made.get().is_null());
        stage.is_as_before();
    });
    each(&Situation::OTHERS, |stage, how| {
        let ledger = Ledger::default();
        stage.fail(PUSH, 1, how, 1);
        assert_eq!(fails(stage, &ledger, END.columns()), Says::only(failure(PUSH, 1)));
        assert!(ledger.made.get().is_null());
        stage.is_as_before();
    });
}

#[test]
fn where_the_creation_fails_the_caller_s_context_is_back() {
    each(&Situation::ALL, |stage, how| {
        let ledger = Ledger::default();
        stage.fail(MAKE, 1, how, 1);
        assert_eq!(fails(stage, &ledger, END.columns()), Says::only(failure(MAKE, 1)));
        stage.is_as_before();
        // A creation that fails has given nothing that could be undone: what a driver makes all the same is its own.
        assert_eq!(ledger.live(), how == How::Done);
        ledger.sweep(stage);
    });
}

#[test]
fn where_only_the_restore_fails_a_destroy_that_needs_no_context_undoes_the_creation() {
    for use_ in [ContextUse::Ignored, ContextUse::Device] {
        each(&Situation::OTHERS, |stage, how| {
            let ledger = Ledger::default();
            stage.fail(POP, 1, how, 1);
            let says = Says { now: stage.left_by(how), ..Says::only(failure(POP, 1)) };
            assert_eq!(fails(stage, &ledger, columns(use_)), says);
            assert!(!ledger.live());
            stage.is_left_by(how);
        });
    }
}

#[test]
fn where_only_the_restore_fails_a_destroy_that_needs_its_context_is_made_if_it_is_current() {
    each(&Situation::OTHERS, |stage, how| {
        let ledger = Ledger::default();
        stage.fail(POP, 1, how, 1);
        let says = Says { now: stage.left_by(how), ..Says::only(failure(POP, 1)) };
        let said = fails(stage, &ledger, columns(ContextUse::Owner));
        match how {
            How::Refused => assert_eq!(said, says),
            How::Done => {
                let notes = vec![Note::Leaked { raw: ledger.made.get().addr() as u64 }];
                assert_eq!(said, Says { notes, ..says });
            }
        }
        assert_eq!(ledger.live(), how == How::Done);
        stage.is_left_by(how);
        ledger.sweep(stage);
    });
}

#[test]
fn where_it_is_not_known_what_is_current_an_object_that_needs_its_context_is_leaked_by_name() {
    for use_ in [ContextUse::Ignored, ContextUse::Owner] {
        each(&Situation::OTHERS, |stage, how| {
            let ledger = Ledger::default();
            stage.fail(POP, 1, how, 1);
            stage.fail(ASK, 2, how, 2);
            let said = fails(stage, &ledger, columns(use_));
            let raw = ledger.made.get().addr() as u64;
            let leaked = use_ == ContextUse::Owner;
            let notes = if leaked { vec![Note::Leaked { raw }] } else { Vec::new() };
            let now = Current::Unknown(failure(ASK, 2));
            assert_eq!(said, Says { notes, now, ..Says::only(failure(POP, 1)) });
            assert_eq!(ledger.live(), leaked);
            stage.is_left_by(how);
            ledger.sweep(stage);
        });
    }
}

#[test]
fn a_failing_undo_is_a_note() {
    each(&Situation::OTHERS, |stage, how| {
        let ledger = Ledger::default();
        stage.fail(POP, 1, how, 1);
        stage.t.faults().arm(Fault::refused(super::status(2)).on(END).nth(1));
        let notes = vec![Note::UndoFailed(failure(END, 2))];
        let says = Says { notes, now: stage.left_by(how), ..Says::only(failure(POP, 1)) };
        assert_eq!(fails(stage, &ledger, END.columns()), says);
        stage.is_left_by(how);
        ledger.sweep(stage);
    });
}

#[test]
fn where_the_creation_and_the_restore_fail_the_second_is_a_note_and_nothing_is_undone() {
    each(&Situation::OTHERS, |stage, how| {
        let ledger = Ledger::default();
        stage.fail(MAKE, 1, How::Refused, 1);
        stage.fail(POP, 1, how, 2);
        let now = stage.left_by(how);
        let notes = vec![Note::NotRestored { failure: Some(failure(POP, 2)), now }];
        let says = Says { notes, now, ..Says::only(failure(MAKE, 1)) };
        assert_eq!(fails(stage, &ledger, END.columns()), says);
        assert_eq!(ledger.ended.get(), 0);
        stage.is_left_by(how);
    });
}

/// Undoing a load in the middle of somebody's capture would end that capture.
#[test]
fn an_undo_that_is_unsafe_in_captures_is_made_in_relaxed_mode() {
    each(&Situation::OTHERS, |stage, how| {
        let ledger = Ledger::default();
        stage.fail(POP, 1, how, 1);
        let (said, calls) = stage.t.calls(|| fails(stage, &ledger, unsafe_columns()));
        assert_eq!(said, Says { now: stage.left_by(how), ..Says::only(failure(POP, 1)) });
        assert_eq!(
            &calls[3..],
            ["cuCtxPopCurrent", "cuCtxGetCurrent", MODE.name(), END.name(), MODE.name()]
        );
        stage.is_left_by(how);
    });
}

#[test]
fn an_undo_whose_mode_is_refused_is_skipped_and_one_whose_mode_is_not_put_back_says_so() {
    each(&[Situation::Another], |stage, how| {
        let ledger = Ledger::default();
        stage.fail(POP, 1, how, 1);
        stage.fail(MODE, 1, How::Refused, 2);
        let said = fails(stage, &ledger, unsafe_columns());
        let raw = ledger.made.get().addr() as u64;
        assert_eq!(said.notes, [Note::Failed(failure(MODE, 2)), Note::Leaked { raw }]);
        assert!(ledger.live());
        stage.is_left_by(how);
        ledger.sweep(stage);

        let ledger = Ledger::default();
        stage.fail(POP, 1, how, 1);
        stage.fail(MODE, 2, How::Refused, 2);
        let said = fails(stage, &ledger, unsafe_columns());
        assert_eq!(said.notes, [Note::ModeNotRestored(failure(MODE, 2))]);
        assert!(!ledger.live());
        stage.is_left_by(how);
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: *pointers*: a live local.
        let back =
            unsafe { stage.t.driver().calls().cuThreadExchangeStreamCaptureMode(&raw mut mode) };
        back.unwrap();
        assert_eq!(mode, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED);
    });
}

#[test]
fn a_failure_of_the_creation_s_own_is_returned_as_it_is() {
    each(&Situation::ALL, |stage, _| {
        let own = Failure { call: Call::cuMemGetInfo_v2, ..failure(MAKE, 7) };
        let undo = Undo {
            columns: END.columns(),
            destroy: |_: Calls<'_>, ()| -> Result<(), Failure> { panic!("undone") },
            raw: |()| -> u64 { panic!("named") },
        };
        let error = scope::create(stage.target(), |_| Err::<(), _>(own), undo).unwrap_err();
        assert_eq!(Says::of(&error), Says::only(own));
        stage.is_as_before();
    });
}
