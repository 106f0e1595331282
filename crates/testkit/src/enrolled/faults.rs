//! The fault enumeration: every call of an operation fails, alone and with every later one.

use super::{
    Enrolled,
    check::{Complaint, Evidence},
    run::{Heard, Run},
    situation::{NowCurrent, OF_STREAMS, Situation, StreamKind, USUAL},
};
use crate::stack;
use cuhold_driver_sim::{Sim, SimOptions};
use cuhold_driver_sys::{CUresult, Call, Effect, Entry, Fault, Kind, Listed as _, ffi::CUstream};
use cuhold_handles::{Closed, Context, ContextFlags, Device, Driver, Stream};
use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeSet,
    fmt::{self, Write as _},
    sync::Arc,
};

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
    let Seen { complaints, evidence, .. } = seen;
    let mut text = format!("{} with {situation:?}", operation.path());
    let mut line = |what: &str, of: &dyn fmt::Debug| {
        // Writing to a String can't fail.
        write!(text, "\n  {what} {of:?}").unwrap();
    };
    complaints.iter().for_each(|complaint| line("BROKEN", complaint));
    faults.iter().for_each(|fault| line("fault", fault));
    evidence.calls.iter().for_each(|made| line("call", &(made.call(), made.status())));
    evidence.told.errors.iter().for_each(|error| line("error", error));
    evidence.told.warnings.iter().for_each(|warning| line("warning", &warning.to_string()));
    text
}

/// Runs an operation once, on a driver of its own, and checks it.
pub(super) fn once(operation: &Enrolled, situation: Situation, faults: &[Fault]) -> Seen {
    let sim = Sim::with_options(SimOptions::with_devices(2));
    let driver = Driver::from_api(sim.clone());
    let heard = Heard::default();
    heard.listen_to(&driver);
    let device = Device::with_driver(&driver, 0).unwrap();
    // Another library has a driver value of its own.
    let library = Driver::from_api(sim.clone());
    let other = OnceCell::new();
    let current = match situation.current {
        NowCurrent::Nothing => None,
        NowCurrent::Own => Some(device.context().clone()),
        NowCurrent::OfSameDevice => Some(Context::new(&device, ContextFlags::default()).unwrap()),
        NowCurrent::OfOtherDevice => {
            let other = other.get_or_init(|| Device::with_driver(&driver, 1).unwrap());
            Some(other.context().clone())
        }
        NowCurrent::OfUnknownDevice => {
            Some(Device::with_driver(&library, 1).unwrap().context().clone())
        }
    };
    if let Some(context) = &current {
        stack::push(&sim, context.as_raw());
    }
    let by_hand = driver.reclaim().run_by_hand();
    let run = Run {
        sim: &sim,
        device: &device,
        other,
        situation,
        stream: stream(&device, situation.stream),
        by_hand: &by_hand,
        faults,
        heard: heard.clone(),
        stream_was_asked_for: Cell::new(false),
        drivers: Arc::new(()),
        window: RefCell::new(None),
        unusable: RefCell::new(None),
    };
    (operation.body)(&run);
    run.put_thread_back();
    run.wait_for_new_drivers();
    let Run { stream, other, window, unusable, stream_was_asked_for, .. } = run;
    let window = window.into_inner().unwrap_or_else(|| panic!("{} does nothing", operation.path()));
    stack::take_down(&sim);
    drop((stream, current, by_hand, device, other));
    assert_eq!(library.close().unwrap(), Closed::Destroyed);
    let mut told = heard.take();
    told.folded = usize::try_from(driver.reports().counts().folded).unwrap();
    let closed = driver.close().map_err(|refused| refused.error.to_string());
    let calls: Vec<Call> = window.calls.iter().map(Entry::call).collect();
    let mut complaints = Vec::new();
    let (fired, armed) = (sim.faults().fired(), faults.len());
    let evidence = Evidence {
        calls: window.calls,
        injected: vec![FIRST, SECOND, FATAL],
        before: window.before,
        after: window.after,
        told,
        created: window.created,
        unusable: unusable.into_inner(),
        closed,
        leaks: sim.leaks().into_iter().chain(sim.gone_with_context()).collect(),
        violations: sim.violations(),
    };
    if fired < armed as u64 {
        complaints.push(format!("{armed} faults, of which only {fired} came about"));
    }
    complaints.extend(evidence.complaints());
    Seen { calls, complaints, asks_for_stream: stream_was_asked_for.get(), evidence }
}

fn stream(device: &Device, kind: StreamKind) -> Stream {
    match kind {
        StreamKind::Legacy => device.legacy_stream(),
        StreamKind::Created => device.new_stream().unwrap(),
        StreamKind::Exposed => {
            let stream = device.new_stream().unwrap();
            let _: CUstream = stream.as_raw();
            stream
        }
    }
}
