//! The fault enumeration: every call of an operation fails, alone and with every later one.

use super::{
    Enrolled,
    check::{Complaint, Evidence},
    journal::{AnyFault, Made, statuses},
    place::Place,
    situation::{OF_STREAMS, Situation, USUAL},
    stage::{Performed, perform},
};
use cuhold_driver_sys::CUresult;
use cuhold_handles::Status;
use std::{collections::BTreeSet, fmt::Write as _};

/// The statuses of the first and of the second fault. No library answers them.
const FIRST: u32 = 9001;
const SECOND: u32 = 9002;

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
        for (at, made) in clean.calls().iter().enumerate() {
            for fault in made.ways(FIRST) {
                self.singles += 1;
                let single = self.run(operation, situation, &[fault]);
                let later = single.calls().get(at + 1..).unwrap_or_default();
                self.pairs(operation, situation, fault, later);
            }
            if let Some(fatal) = made.fatal(FATAL) {
                self.singles += 1;
                self.run(operation, situation, &[fatal]);
            }
        }
        clean.asks_for_stream
    }

    /// With the first fault, each of the calls that are then made later fails, too, whichever list it is of.
    fn pairs(
        &mut self,
        operation: &Enrolled,
        situation: Situation,
        first: AnyFault,
        later: &[Made],
    ) {
        for made in later {
            for second in made.ways(SECOND) {
                self.pairs += 1;
                self.run(operation, situation, &[first, second]);
            }
        }
    }

    fn run(&mut self, operation: &Enrolled, situation: Situation, faults: &[AnyFault]) -> Seen {
        let seen = once(operation, situation, faults);
        self.calls.extend(seen.calls().iter().map(|made| made.call.name()));
        if !seen.complaints.is_empty() {
            self.violations += 1;
            self.first.get_or_insert_with(|| told(operation, situation, faults, &seen));
        }
        seen
    }
}

/// What one run gave.
pub(super) struct Seen {
    pub(super) complaints: Vec<Complaint>,
    asks_for_stream: bool,
    evidence: Evidence,
}

impl Seen {
    /// The calls of every list, in the order in which they were made.
    fn calls(&self) -> &[Made] {
        &self.evidence.calls
    }
}

fn told(operation: &Enrolled, situation: Situation, faults: &[AnyFault], seen: &Seen) -> String {
    let mut text = format!("{} with {situation:?}", operation.path());
    for fault in faults {
        // Writing to a String can't fail.
        write!(text, "\n  fault {fault:?}").unwrap();
    }
    text + &seen.evidence.story(&seen.complaints)
}

/// Runs an operation once, on a driver of its own, and checks it.
pub(super) fn once(operation: &Enrolled, situation: Situation, faults: &[AnyFault]) -> Seen {
    let injected = [FIRST, SECOND].into_iter().flat_map(statuses).chain([Status::Driver(FATAL)]);
    let injected: Vec<_> = injected.collect();
    let performed = perform(operation, situation, Place::Here, faults, &injected).unwrap();
    let Performed { evidence, fired, asks_for_stream, .. } = performed;
    let mut complaints = Vec::new();
    let armed = faults.len();
    if fired < armed as u64 {
        complaints.push(format!("{armed} faults, of which only {fired} came about"));
    }
    complaints.extend(evidence.complaints());
    Seen { complaints, asks_for_stream, evidence }
}
