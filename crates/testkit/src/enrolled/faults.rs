//! The fault enumeration: every call of an operation fails, alone and with every later one.

use super::{
    Enrolled,
    check::{Complaint, Evidence},
    place::Place,
    situation::{OF_STREAMS, Situation, USUAL},
    stage::{Performed, perform},
};
use cuhold_driver_sys::{CUresult, Call, Effect, Entry, Fault, Kind, Listed as _};
use std::{collections::BTreeSet, fmt::Write as _};

/// The statuses of the first and of the second fault. No driver answers them.
const FIRST: CUresult = CUresult(9001);
const SECOND: CUresult = CUresult(9002);

/// A status after which a driver answers nothing else.
const FATAL: CUresult = CUresult::ILLEGAL_ADDRESS;

/// What the enumeration of one operation gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(crate) singles: u64,
    pub(crate) pairs: u64,
    /// Runs in which a promise was broken.
    pub(crate) violations: u64,
    /// The first of those, told whole.
    pub(crate) first: Option<String>,
    /// Every call that was made in some run, by its documented name.
    pub(crate) calls: BTreeSet<&'static str>,
}

/// Runs an operation in every situation, with every fault.
pub(super) fn enumerate(operation: &Enrolled) -> Tally {
    let mut tally = Tally::default();
    let mut asks_for_stream = false;
    for situation in USUAL {
        asks_for_stream |= tally.of(operation, *situation);
    }
    if asks_for_stream {
        for situation in OF_STREAMS {
            tally.of(operation, *situation);
        }
    }
    tally
}

impl Tally {
    /// Clean, every single fault, every pair. Says whether the operation is about a stream.
    fn of(&mut self, operation: &Enrolled, situation: Situation) -> bool {
        let clean = self.run(operation, situation, &[]);
        for (nth, call) in (1..).zip(&clean.calls) {
            for fault in ways(*call, nth, FIRST) {
                self.singles += 1;
                let single = self.run(operation, situation, &[fault]);
                self.pairs(operation, situation, fault, nth, &single.calls);
            }
            if !call.survives_fatal() {
                self.singles += 1;
                let fatal = Fault::new(Effect::StickyFromHere(FATAL)).nth(nth);
                self.run(operation, situation, &[fatal]);
            }
        }
        clean.asks_for_stream
    }

    /// With the first fault, on the `nth` call, each later one of `calls` fails, too.
    fn pairs(
        &mut self,
        operation: &Enrolled,
        situation: Situation,
        first: Fault,
        nth: u64,
        calls: &[Call],
    ) {
        for (later, call) in (1..).zip(calls).filter(|(later, _)| *later > nth) {
            for second in ways(*call, later, SECOND) {
                self.pairs += 1;
                self.run(operation, situation, &[first, second]);
            }
        }
    }

    fn run(&mut self, operation: &Enrolled, situation: Situation, faults: &[Fault]) -> Seen {
        let seen = once(operation, situation, faults);
        self.calls.extend(seen.calls.iter().map(|call| call.name()));
        if !seen.complaints.is_empty() {
            self.violations += 1;
            self.first.get_or_insert_with(|| told(operation, situation, faults, &seen));
        }
        seen
    }
}

/// How the `nth` call may fail, this one.
fn ways(call: Call, nth: u64, status: CUresult) -> Vec<Fault> {
    let refused = Fault::refused(status).nth(nth);
    // A creation that is carried out and says otherwise has made what nobody can name.
    if call.columns().kind == Kind::Create {
        return vec![refused];
    }
    vec![refused, Fault::done_but_failed(status).nth(nth)]
}

/// What one run gave.
pub(super) struct Seen {
    pub(super) calls: Vec<Call>,
    pub(super) complaints: Vec<Complaint>,
    asks_for_stream: bool,
    evidence: Evidence,
}

fn told(operation: &Enrolled, situation: Situation, faults: &[Fault], seen: &Seen) -> String {
    let mut text = format!("{} with {situation:?}", operation.path());
    for fault in faults {
        // Writing to a String can't fail.
        write!(text, "\n  fault {fault:?}").unwrap();
    }
    text + &seen.evidence.story(&seen.complaints)
}

/// Runs an operation once, on a driver of its own, and checks it.
pub(super) fn once(operation: &Enrolled, situation: Situation, faults: &[Fault]) -> Seen {
    let injected = [FIRST, SECOND, FATAL];
    let performed = perform(operation, situation, Place::Here, faults, &injected).unwrap();
    let Performed { evidence, fired, asks_for_stream, .. } = performed;
    let mut complaints = Vec::new();
    let armed = faults.len();
    if fired < armed as u64 {
        complaints.push(format!("{armed} faults, of which only {fired} came about"));
    }
    complaints.extend(evidence.complaints());
    let calls = evidence.calls.iter().map(Entry::call).collect();
    Seen { calls, complaints, asks_for_stream, evidence }
}
