//! `cleanup`: destroys in a `Drop` or a close, what they leave behind, and how that is told.

#![expect(unsafe_code, reason = "the operations are raw calls")]

use super::{ASK, How, POP, PUSH, Situation, Stage, each, failure};
use cuhold_driver_sys::{
    CUresult, Call, Calls, CaptureRule, Columns, ContextUse, Failure,
    ffi::{CUstream, CUstreamCaptureMode},
};
use cuhold_handles::{
    Current, Fate, Note, Object, ObjectKind, WarningKind,
    scope::{self, Lost, ModeLost, Outcome},
};
use cuhold_testkit::{Kit, run};
use std::cell::Cell;

const END: Call = Call::cuStreamDestroy_v2;
const MODE: Call = Call::cuThreadExchangeStreamCaptureMode;

const fn columns(context: ContextUse, capture: CaptureRule) -> Columns {
    let mut columns = END.columns();
    columns.context = context;
    columns.capture = capture;
    columns
}

/// A destroy that needs its context, one that is unsafe in captures, one that is both.
const OWNER: Columns = columns(ContextUse::Owner, CaptureRule::Neutral);
const UNSAFE: Columns = columns(ContextUse::Ignored, CaptureRule::Unsafe);
const BOTH: Columns = columns(ContextUse::Owner, CaptureRule::Unsafe);

/// A warning, by what it says.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Told {
    kind: WarningKind,
    failure: Failure,
    fate: Option<Fate>,
    current: Current,
}

impl Told {
    fn failed(failure: Failure, fate: Fate) -> Self {
        let current = Current::NotAsked;
        Self { kind: WarningKind::Failed, failure, fate: Some(fate), current }
    }

    fn skipped(failure: Failure) -> Self {
        Self { kind: WarningKind::Skipped, ..Self::failed(failure, Fate::Leaked) }
    }

    fn not_restored(failure: Failure, current: Current) -> Self {
        Self { kind: WarningKind::RestoreRefused, failure, fate: None, current }
    }

    fn mode(failure: Failure) -> Self {
        let current = Current::NotAsked;
        Self { kind: WarningKind::ModeNotRestored, failure, fate: None, current }
    }
}

/// A call that fails: the n-th of this form, in this way, with the status of this number.
type Fails = (Call, u64, How, u32);

struct Cleaned {
    outcome: Outcome,
    told: Vec<Told>,
    asked: bool,
    calls: Vec<&'static str>,
}

/// Destroys a stream that was made for it.
fn clean(stage: &Stage<'_>, columns: Columns, faults: &[Fails]) -> Cleaned {
    let driver = stage.t.driver();
    let made = scope::run(stage.target(), |calls: Calls<'_>| {
        let mut raw = CUstream::NULL;
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuStreamCreate(&raw mut raw, 1) }?;
        Ok(raw)
    });
    let (raw, asked) = (made.unwrap(), Cell::new(false));
    for (call, nth, how, n) in faults {
        stage.fail(*call, *nth, *how, *n);
    }
    let (outcome, calls) = stage.t.calls(|| {
        scope::cleanup(driver, Some(stage.target.as_raw()), columns, |calls| {
            asked.set(true);
            // SAFETY: *handles*: made above.
            unsafe { calls.cuStreamDestroy_v2(raw) }
        })
    });
    let refused = faults.iter().any(|(call, _, how, _)| *call == END && *how == How::Refused);
    if !asked.get() || refused {
        // Left on purpose.
        stage.t.faults().disarm();
        // SAFETY: *handles*: made above, and not destroyed.
        unsafe { driver.calls().cuStreamDestroy_v2(raw) }.unwrap();
    }
    let told = told(stage.t, outcome, raw);
    Cleaned { outcome, told, asked: asked.get(), calls }
}

fn told(t: &Kit, outcome: Outcome, raw: CUstream) -> Vec<Told> {
    let driver = t.driver();
    let capture = driver.reports().capture(8);
    let object = Object { kind: ObjectKind::Stream, raw: raw.addr() as u64, id: 77 };
    outcome.warn(driver, object, END);
    let told = capture.take().into_iter().map(|warning| {
        assert_eq!(warning.object(), object);
        let skipped = (warning.kind() == WarningKind::Skipped).then_some(END);
        assert_eq!(warning.skipped_call(), skipped);
        Told {
            kind: warning.kind(),
            failure: warning.failure().unwrap(),
            fate: warning.fate(),
            current: warning.current(),
        }
    });
    told.collect()
}

#[test]
fn a_destroy_that_needs_its_context_is_made_in_it_and_the_caller_s_is_back() {
    each(&Situation::ALL, |stage, _| {
        let done = clean(stage, OWNER, &[]);
        assert!(done.outcome.is_clean() && done.told.is_empty() && done.asked);
        let switches = if stage.before.current == stage.target.as_raw() { 2 } else { 4 };
        assert_eq!(done.calls.len(), switches, "{:?}", done.calls);
        stage.is_as_before();
    });
}

#[test]
fn a_destroy_that_needs_no_context_asks_for_none() {
    for use_ in [ContextUse::Ignored, ContextUse::Device] {
        each(&Situation::ALL, |stage, _| {
            let done = clean(stage, columns(use_, CaptureRule::Neutral), &[]);
            assert_eq!(done.calls, [END.name()]);
            stage.is_as_before();
        });
    }
}

#[test]
fn where_the_question_or_the_activation_fails_the_destroy_is_skipped_and_the_object_leaks() {
    each(&Situation::ALL, |stage, how| {
        let done = clean(stage, OWNER, &[(ASK, 1, how, 1)]);
        assert_eq!(done.told, [Told::skipped(failure(ASK, 1))]);
        assert_eq!((done.asked, done.outcome.fate()), (false, Fate::Leaked));
        stage.is_as_before();
    });
    each(&Situation::OTHERS, |stage, how| {
        let done = clean(stage, OWNER, &[(PUSH, 1, how, 1)]);
        assert_eq!(done.told, [Told::skipped(failure(PUSH, 1))]);
        assert!(!done.asked);
        stage.is_as_before();
    });
}

#[test]
fn where_an_activation_moved_the_context_and_it_is_not_put_back_there_are_two_warnings() {
    each(&Situation::OTHERS, |stage, how| {
        let done = clean(stage, OWNER, &[(PUSH, 1, How::Done, 1), (POP, 1, how, 2)]);
        let second = Told::not_restored(failure(POP, 2), stage.left_by(how));
        assert_eq!(done.told, [Told::skipped(failure(PUSH, 1)), second]);
        stage.is_left_by(how);
    });
}

#[test]
fn a_question_that_fails_after_the_activation_did_is_a_warning_of_its_own() {
    for second in How::BOTH {
        each(&Situation::OTHERS, |stage, how| {
            let done = clean(stage, OWNER, &[(PUSH, 1, how, 1), (ASK, 2, second, 2)]);
            let unknown = Current::Unknown(failure(ASK, 2));
            let asked = Told { current: unknown, ..Told::failed(failure(ASK, 2), Fate::Unknown) };
            assert_eq!(done.told, [Told::skipped(failure(PUSH, 1)), asked]);
            match how {
                How::Refused => stage.is_as_before(),
                How::Done => stage.is_left_in_target(),
            }
        });
    }
}

#[test]
fn where_the_destroy_fails_the_caller_s_context_is_back_before_anybody_is_told() {
    each(&Situation::ALL, |stage, how| {
        let done = clean(stage, OWNER, &[(END, 1, how, 1)]);
        assert_eq!(done.told, [Told::failed(failure(END, 1), Fate::Unknown)]);
        assert_eq!(done.outcome.status(), Some(super::status(1)));
        stage.is_as_before();
    });
}

#[test]
fn where_only_the_restore_fails_one_warning_says_what_is_current() {
    each(&Situation::OTHERS, |stage, how| {
        let done = clean(stage, OWNER, &[(POP, 1, how, 1)]);
        assert_eq!(done.told, [Told::not_restored(failure(POP, 1), stage.left_by(how))]);
        assert_eq!(done.outcome.fate(), Fate::Released);
        stage.is_left_by(how);
    });
    for second in How::BOTH {
        each(&Situation::OTHERS, |stage, how| {
            let done = clean(stage, OWNER, &[(POP, 1, how, 1), (ASK, 2, second, 2)]);
            let unknown = Current::Unknown(failure(ASK, 2));
            assert_eq!(done.told, [Told::not_restored(failure(POP, 1), unknown)]);
            stage.is_left_by(how);
        });
    }
}

#[test]
fn where_the_destroy_and_the_restore_fail_there_are_two_warnings_in_order() {
    for second in How::BOTH {
        each(&Situation::OTHERS, |stage, how| {
            let done = clean(stage, OWNER, &[(END, 1, second, 1), (POP, 1, how, 2)]);
            let restore = Told::not_restored(failure(POP, 2), stage.left_by(how));
            assert_eq!(done.told, [Told::failed(failure(END, 1), Fate::Unknown), restore]);
            stage.is_left_by(how);
        });
    }
}

#[test]
fn a_destroy_that_is_unsafe_in_captures_is_bracketed_whatever_is_current() {
    each(&Situation::ALL, |stage, _| {
        assert_eq!(clean(stage, UNSAFE, &[]).calls, [MODE.name(), END.name(), MODE.name()]);
        let around = clean(stage, BOTH, &[]).calls;
        assert_eq!((around[0], around[around.len() - 1]), (MODE.name(), MODE.name()));
        assert_eq!(mode(stage.t), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL);
        stage.is_as_before();
    });
}

/// Not in relaxed mode, the destroy would end somebody's capture.
#[test]
fn where_relaxed_mode_is_refused_the_destroy_is_skipped_and_the_object_leaks() {
    each(&Situation::ALL, |stage, how| {
        let done = clean(stage, BOTH, &[(MODE, 1, how, 1)]);
        match how {
            How::Refused => {
                assert_eq!(done.told, [Told::skipped(failure(MODE, 1))]);
                assert_eq!(done.calls, [MODE.name()]);
            }
            How::Done => assert_eq!(done.told, [Told::failed(failure(MODE, 1), Fate::Released)]),
        }
        assert_eq!(done.asked, how == How::Done);
        assert_eq!(mode(stage.t), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL);
        stage.is_as_before();
    });
}

#[test]
fn a_mode_that_is_not_put_back_is_told_and_so_is_one_that_was_all_the_same() {
    each(&Situation::ALL, |stage, how| {
        let done = clean(stage, UNSAFE, &[(MODE, 2, how, 1)]);
        let lost = failure(MODE, 1);
        let (expected, left_relaxed) = match how {
            How::Refused => (Told::mode(lost), true),
            How::Done => (Told::failed(lost, Fate::Released), false),
        };
        assert_eq!(done.told, [expected]);
        assert_eq!(done.outcome.mode, Some(ModeLost { failure: lost, left_relaxed }));
        stage.t.faults().disarm();
        let left = mode(stage.t);
        set_mode(stage.t, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL);
        assert_eq!(left == CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED, left_relaxed);
    });
}

#[test]
fn a_thread_that_is_relaxed_already_stays_so_and_is_never_said_to_be_left_so() {
    run(|t| {
        let relaxed = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        set_mode(t, relaxed);
        for how in How::BOTH {
            Stage::enter(t, Situation::Another, |stage| {
                let done = clean(stage, UNSAFE, &[(MODE, 2, how, 1)]);
                assert_eq!(done.told, [Told::failed(failure(MODE, 1), Fate::Released)]);
                stage.t.faults().disarm();
                assert_eq!(mode(t), relaxed);
            });
        }
        set_mode(t, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL);
    });
}

#[test]
fn five_failures_are_five_warnings_in_the_order_of_the_calls() {
    each(&Situation::OTHERS, |stage, how| {
        let faults = [
            (MODE, 1, How::Done, 1),
            (END, 1, how, 2),
            (POP, 1, how, 3),
            (ASK, 2, how, 4),
            (MODE, 2, How::Done, 5),
        ];
        let done = clean(stage, BOTH, &faults);
        let unknown = Current::Unknown(failure(ASK, 4));
        let expected = [
            Told::failed(failure(MODE, 1), Fate::Unknown),
            Told::failed(failure(END, 2), Fate::Unknown),
            Told::not_restored(failure(POP, 3), unknown),
            Told::failed(failure(MODE, 5), Fate::Unknown),
        ];
        // The question's failure is part of what it was asked for.
        assert_eq!(done.told, expected);
        stage.is_left_by(how);
    });
}

#[test]
fn a_fate_is_told_from_the_status_of_the_destroy() {
    let of = |status| Outcome::of(Err(Failure { call: END, status })).fate();
    assert_eq!(Outcome::of(Ok(())).fate(), Fate::Released);
    assert_eq!(of(CUresult::CONTEXT_IS_DESTROYED), Fate::GoneWithContext);
    assert_eq!(of(CUresult::MISSING), Fate::Leaked);
    assert_eq!(of(CUresult::ILLEGAL_ADDRESS), Fate::Leaked);
    assert_eq!(of(CUresult::INVALID_HANDLE), Fate::Unknown);
    assert_eq!(of(CUresult(9999)), Fate::Unknown);
}

/// What a close returns of an outcome.
#[test]
fn an_outcome_is_an_error_with_the_first_failure_in_front_and_the_others_as_notes() {
    run(|t| {
        let driver = t.driver();
        let error = |outcome: Outcome| outcome.into_error(driver);
        assert!(error(Outcome::default()).is_none());

        let destroy = Outcome::of(Err(failure(END, 1)));
        let said = error(destroy).unwrap();
        assert!(said.is(super::status(1)) && said.completed().is_none());

        let lost = Some(Lost { restore: Some(failure(POP, 2)), now: Current::None });
        let said = error(Outcome { lost, ..Outcome::default() }).unwrap();
        assert_eq!((said.now_current(), said.completed()), (Current::None, Some(1)));

        let mode = Some(ModeLost { failure: failure(MODE, 3), left_relaxed: true });
        let said = error(Outcome { relax: Some(failure(MODE, 4)), lost, mode, ..destroy }).unwrap();
        let not_restored = Note::NotRestored { failure: Some(failure(POP, 2)), now: Current::None };
        let notes =
            [Note::Failed(failure(END, 1)), not_restored, Note::ModeNotRestored(failure(MODE, 3))];
        assert_eq!((said.notes(), said.completed()), (&notes[..], None));

        let said = error(Outcome { relax: Some(failure(MODE, 4)), ..Outcome::default() }).unwrap();
        assert_eq!(said.completed(), Some(1), "the exchange was done, and so was the destroy");
        let skipped =
            Outcome { activate: Some(failure(PUSH, 5)), skipped: true, ..Outcome::default() };
        assert_eq!(error(skipped).unwrap().completed(), None);
    });
}

fn mode(t: &Kit) -> CUstreamCaptureMode {
    let mode = set_mode(t, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL);
    set_mode(t, mode);
    mode
}

/// Sets the thread's capture mode, and gives the former one.
fn set_mode(t: &Kit, mode: CUstreamCaptureMode) -> CUstreamCaptureMode {
    let mut mode = mode;
    // SAFETY: *pointers*: a live local.
    unsafe { t.driver().calls().cuThreadExchangeStreamCaptureMode(&raw mut mode) }.unwrap();
    mode
}
