//! Every pair and triple of failures, at every call of each operation, in both ways, in every situation: held to what
//! the policy promises of all of them, whatever the cell.
//!
//! - a failure isn't lost, nor told twice: each has a status of its own, and is counted (P1, P3, P4);
//! - without a failure nothing fails;
//! - the thread's context and the depth of its stack are what they were, or the error says what is current, and it is
//!   (P2, P5);
//! - a creation that failed left nothing, but for what it names (P2);
//! - an operation that was carried out is said to be completed, and no other one (P2).

#![expect(unsafe_code, reason = "the operations are raw calls")]

use super::{How, Labelled, Situation, Stage, status};
use cuhold_driver_sim::{ObjectKind as SimKind, Sim};
use cuhold_driver_sys::{Call, Calls, CaptureRule, ContextUse, Fault, ffi::*};
use cuhold_handles::{
    Current, Error, Note, Object, ObjectKind, Status,
    scope::{self, Undo},
};
use cuhold_testkit::{Kit, run_simulated};
use std::{cell::Cell, ptr};

/// Where a call of the operation fails, by its number, and how.
type Plan<'a> = &'a [(u64, How)];

/// What an operation did, as far as it can be told from outside.
#[derive(Default)]
struct Did {
    error: Option<Error>,
    /// Statuses that were told, in order.
    told: Vec<CUresult>,
    /// What is current, if it is said not to be the caller's.
    now: Option<Current>,
    /// Whether the operation itself was carried out, as far as it said.
    done: bool,
    /// What it may have left behind, by name.
    leaked: Vec<u64>,
}

impl Did {
    fn failed(error: Error, done: bool) -> Self {
        let mut did = Self { done, ..Self::default() };
        if let Some(Status::Driver(status)) = error.status() {
            did.told.push(status);
        }
        did.now = Some(error.now_current()).filter(|now| *now != Current::NotAsked);
        for note in error.notes() {
            match note {
                Note::NotRestored { failure, .. } => {
                    did.told.extend(failure.map(|failure| failure.status));
                }
                Note::UndoFailed(failure)
                | Note::Failed(failure)
                | Note::ModeNotRestored(failure) => {
                    did.told.push(failure.status);
                }
                Note::Leaked { raw } => did.leaked.push(*raw),
                other => panic!("{other}"),
            }
        }
        if let Some(Current::Unknown(failure)) = did.now {
            did.told.push(failure.status);
        }
        did.error = Some(error);
        did
    }
}

fn run(stage: &Stage<'_>) -> Did {
    let done = Cell::new(false);
    let result = scope::run(stage.target(), |calls: Calls<'_>| {
        let mut device = -1;
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuCtxGetDevice(&raw mut device) }?;
        assert!(!done.replace(true));
        Ok(device)
    });
    match result {
        Ok(_) => Did { done: done.get(), ..Did::default() },
        Err(error) => Did::failed(error, done.get()),
    }
}

fn create(stage: &Stage<'_>, context: ContextUse, capture: CaptureRule) -> Did {
    let mut columns = Call::cuStreamDestroy_v2.columns();
    (columns.context, columns.capture) = (context, capture);
    let undo = Undo {
        columns,
        // SAFETY: *handles*: made below.
        destroy: |calls: Calls<'_>, raw| unsafe { calls.cuStreamDestroy_v2(raw) },
        raw: |raw: CUstream| raw.addr() as u64,
    };
    let make = |calls: Calls<'_>| {
        let mut raw = CUstream::NULL;
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuStreamCreate(&raw mut raw, 1) }?;
        Ok(raw)
    };
    match scope::create(stage.target(), make, undo) {
        Ok(raw) => Did { leaked: vec![raw.addr() as u64], ..Did::default() },
        Err(error) => Did::failed(error, false),
    }
}

fn create_context(stage: &Stage<'_>) -> Did {
    let device = stage.target.device();
    let result = scope::create_context(stage.t.driver(), |calls: Calls<'_>, new| {
        // SAFETY: *pointers*: exclusive, and no parameters.
        unsafe { calls.cuCtxCreate_v4(new, ptr::null_mut(), 0, device) }
    });
    match result {
        Ok(raw) => Did { leaked: vec![raw.addr() as u64], ..Did::default() },
        Err(error) => Did::failed(error, false),
    }
}

fn cleanup(stage: &Stage<'_>, raw: CUstream, context: ContextUse, capture: CaptureRule) -> Did {
    let mut columns = Call::cuStreamDestroy_v2.columns();
    (columns.context, columns.capture) = (context, capture);
    let driver = stage.t.driver();
    let outcome = scope::cleanup(driver, Some(stage.target.as_raw()), columns, |calls| {
        // SAFETY: *handles*: made for this.
        unsafe { calls.cuStreamDestroy_v2(raw) }
    });
    stage.t.faults().disarm();
    let mut did = Did::default();
    let object = Object { kind: ObjectKind::Stream, raw: 0, id: 0 };
    outcome.warn_to(object, Call::cuStreamDestroy_v2, outcome.fate(), &mut |warning| {
        did.told.push(warning.failure().unwrap().status);
        match warning.current() {
            Current::NotAsked => {}
            // A warning of the question itself has it twice, and is one.
            Current::Unknown(failure) if Some(failure) == warning.failure() => {
                did.now = Some(warning.current());
            }
            Current::Unknown(failure) => {
                did.told.push(failure.status);
                did.now = Some(warning.current());
            }
            now => did.now = Some(now),
        }
    });
    // The same outcome as an error tells the same.
    if let Some(error) = outcome.into_error(driver) {
        let (mut same, mut told) = (Did::failed(error, false).told, did.told.clone());
        same.sort();
        // A mode that isn't put back is the error and its note where it is the only failure.
        same.dedup();
        told.sort();
        assert_eq!(same, told);
    }
    did
}

/// An operation: what it does, and what it works on, made before any fault is armed.
struct Operation {
    name: &'static str,
    /// How many calls it can make at most, failures on the way out included.
    calls: u64,
    prepare: fn(&Stage<'_>) -> CUstream,
    act: fn(&Stage<'_>, CUstream) -> Did,
}

fn nothing(_: &Stage<'_>) -> CUstream {
    CUstream::NULL
}

fn a_stream(stage: &Stage<'_>) -> CUstream {
    let made = scope::run(stage.target(), |calls: Calls<'_>| {
        let mut raw = CUstream::NULL;
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuStreamCreate(&raw mut raw, 1) }?;
        Ok(raw)
    });
    made.unwrap()
}

const OPERATIONS: &[Operation] = &[
    Operation { name: "run", calls: 7, prepare: nothing, act: |stage, _| run(stage) },
    Operation {
        name: "create",
        calls: 8,
        prepare: nothing,
        act: |stage, _| create(stage, ContextUse::Ignored, CaptureRule::Neutral),
    },
    Operation {
        name: "create, bracketed undo",
        calls: 9,
        prepare: nothing,
        act: |stage, _| create(stage, ContextUse::Owner, CaptureRule::Unsafe),
    },
    Operation {
        name: "create_context",
        calls: 8,
        prepare: nothing,
        act: |stage, _| create_context(stage),
    },
    Operation {
        name: "cleanup",
        calls: 8,
        prepare: a_stream,
        act: |stage, raw| cleanup(stage, raw, ContextUse::Owner, CaptureRule::Neutral),
    },
    Operation {
        name: "cleanup, bracketed",
        calls: 10,
        prepare: a_stream,
        act: |stage, raw| cleanup(stage, raw, ContextUse::Owner, CaptureRule::Unsafe),
    },
];

/// Does what `operation` does with these calls failing, and checks all promises. Says how many failed.
fn check(sim: &Sim, stage: &Stage<'_>, operation: &Operation, plan: Plan<'_>) -> usize {
    let driver = stage.t.driver();
    let work = (operation.prepare)(stage);
    let live = |kind| sim.live(kind);
    let (streams, contexts) = (live(SimKind::Stream), live(SimKind::Context));
    let (faults, mut armed) = (stage.t.faults(), Vec::new());
    for (number, (nth, how)) in (1..).zip(plan) {
        // Each with a status of its own. One that hits a create is refused: what a driver makes and doesn't name can't
        // be found.
        faults.arm(Fault::new(how.with(status(number))).on_this_thread().nth(*nth));
        armed.push(status(number));
    }
    let denied_before = sim.denied().len();
    let (mut did, entries) = stage.t.entries(|| (operation.act)(stage, work));
    faults.disarm();
    let fired = entries.iter().filter(|entry| armed.contains(&entry.status())).count();

    // Told once each.
    let mut told = did.told.clone();
    told.sort();
    let unique = told.len();
    told.dedup();
    assert_eq!(told.len(), unique, "told twice: {:?}", did.error);
    assert_eq!(told.len(), fired, "{fired} failed, told: {:?}, {:?}", did.told, did.error);
    assert!(told.iter().all(|status| armed.contains(status)));

    // The thread.
    let seen = stage.seen();
    match did.now {
        None => assert_eq!(seen, stage.before, "{:?}", did.error),
        Some(Current::Unknown(_)) => {}
        Some(now) => assert_eq!(now, Current::of(seen.current), "{:?}", did.error),
    }
    let relaxed = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let left_relaxed = sim.capture_mode() == relaxed;

    // What was carried out.
    if operation.name == "run"
        && let Some(error) = &did.error
    {
        assert_eq!(error.completed(), did.done.then_some(1), "{error}");
    }
    // What was made. A creation that was done without a word has left what nobody could name.
    let made_unseen = sim.denied()[denied_before..]
        .iter()
        .filter(|site| matches!(site.call, Call::cuStreamCreate))
        .count();
    let kept: usize = if operation.name.starts_with("cleanup") { 0 } else { did.leaked.len() };
    if operation.name.starts_with("create") && undone(&did) {
        let (streams_now, contexts_now) = (live(SimKind::Stream), live(SimKind::Context));
        assert_eq!(streams_now + contexts_now, streams + contexts + kept + made_unseen);
    }

    put_back(stage, driver.calls(), left_relaxed);
    sweep(sim, stage, &mut did);
    fired
}

/// Whether what was made is gone, if undoing it didn't fail.
fn undone(did: &Did) -> bool {
    let undo_failed = |note: &Note| matches!(note, Note::UndoFailed(_));
    !did.error.as_ref().is_some_and(|error| error.notes().iter().any(undo_failed))
}

/// Puts the thread back where it was, for the next plan.
fn put_back(stage: &Stage<'_>, calls: Calls<'_>, left_relaxed: bool) {
    if left_relaxed {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuThreadExchangeStreamCaptureMode(&raw mut mode) }.unwrap();
    }
    if stage.seen() != stage.before {
        stage.set_up_again();
    }
}

/// Ends every stream and context that isn't the stage's.
fn sweep(sim: &Sim, stage: &Stage<'_>, did: &mut Did) {
    did.leaked.clear();
    let calls = stage.t.driver().calls();
    for leak in sim.leaks() {
        let raw = usize::try_from(leak.raw).unwrap();
        match leak.kind {
            SimKind::Stream => {
                // SAFETY: *handles*: the simulated driver says that it is live.
                unsafe { calls.cuStreamDestroy_v2(CUstream::from_addr(raw)) }.unwrap();
            }
            SimKind::Context if !stage.owns(raw) => {
                // SAFETY: *handles*: the simulated driver says that it is live.
                unsafe { calls.cuCtxDestroy_v2(CUcontext::from_addr(raw)) }.unwrap();
            }
            _ => {}
        }
    }
}

/// Does it with every plan. Says how many calls failed.
fn every_plan(t: &Kit, sim: &Sim, operation: &Operation, situation: Situation) -> usize {
    let mut fired = 0;
    Stage::enter(t, situation, |stage| {
        each_plan(operation.calls, |plan| {
            let label = format!("{}, {situation:?} current, {plan:?}", operation.name);
            let failed = Labelled(&label);
            fired += check(sim, stage, operation, plan);
            drop(failed);
        });
    });
    fired
}

#[test]
fn every_single_failure_pair_and_triple_keeps_the_promises() {
    run_simulated(|t, sim| {
        for operation in OPERATIONS {
            for situation in Situation::ALL {
                let fired = every_plan(t, sim, operation, situation);
                assert!(fired > 0, "{}: no fault was ever met", operation.name);
            }
        }
    });
}

/// Every choice of up to three of the calls, each in both ways; none at first.
fn each_plan(calls: u64, mut visit: impl FnMut(Plan<'_>)) {
    visit(&[]);
    let ways = |nth| How::BOTH.map(|how| (nth, how));
    for one in (1..=calls).flat_map(ways) {
        visit(&[one]);
        for two in (one.0 + 1..=calls).flat_map(ways) {
            visit(&[one, two]);
            for three in (two.0 + 1..=calls).flat_map(ways) {
                visit(&[one, two, three]);
            }
        }
    }
}
