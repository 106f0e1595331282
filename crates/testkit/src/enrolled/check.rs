//! The checker: what the policy promises, held against what one run of an operation left behind.

use super::{journal::Made, told::Told};
use crate::stack::ThreadState;
use cuhold_driver_sim::{Leak, ObjectKind};
use cuhold_handles::{Closed, Current, Status};
use std::fmt::{self, Write as _};

/// Something that was made and not ended, of the driver or of a compiler.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub(crate) raw: u64,
    /// What it is, in words.
    pub(crate) text: String,
}

impl Lost {
    /// The driver's; a pushed context is the thread's matter, and nothing that is lost.
    pub(crate) fn of(leaks: impl IntoIterator<Item = Leak>) -> impl Iterator<Item = Self> {
        let leaks = leaks.into_iter().filter(|leak| leak.kind != ObjectKind::PushedContext);
        leaks.map(|leak| Self { raw: leak.raw, text: leak.to_string() })
    }
}

/// What was seen of one run.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    /// The calls that the operation made.
    pub(crate) calls: Vec<Made>,
    /// The statuses that only the injector answers.
    pub(crate) injected: Vec<Status>,
    /// The thread before and right after the operation.
    pub(crate) before: ThreadState,
    pub(crate) after: ThreadState,
    pub(crate) told: Told,
    /// What a creation that failed left behind, right after it.
    pub(crate) created: Vec<Lost>,
    /// Of a second, unfaulted use of the same objects: what went wrong.
    pub(crate) unusable: Option<String>,
    /// What the driver's end gave.
    pub(crate) closed: Result<Closed, String>,
    /// What nobody ended.
    pub(crate) leaks: Vec<Lost>,
    pub(crate) violations: Vec<String>,
}

/// A promise that was broken, in words.
pub(crate) type Complaint = String;

impl Evidence {
    /// Every promise that this run broke.
    pub(crate) fn complaints(&self) -> Vec<Complaint> {
        let mut found = Vec::new();
        self.check_told(&mut found);
        self.check_thread(&mut found);
        self.check_objects(&mut found);
        found
    }

    /// Of a driver that is lost, where objects can't be ended any more.
    pub(crate) fn complaints_of_lost(&self) -> Vec<Complaint> {
        let mut found = self.violations();
        self.check_told(&mut found);
        self.check_thread(&mut found);
        found
    }

    /// What the simulated driver and the compilers noticed.
    pub(crate) fn violations(&self) -> Vec<Complaint> {
        self.violations.iter().map(|violation| format!("violation: {violation}")).collect()
    }

    /// What was broken, and what led to it.
    pub(crate) fn story(&self, complaints: &[Complaint]) -> String {
        let mut text = String::new();
        let mut line = |what: &str, of: &dyn fmt::Debug| {
            // Writing to a String can't fail.
            write!(text, "\n  {what} {of:?}").unwrap();
        };
        complaints.iter().for_each(|complaint| line("BROKEN", complaint));
        self.calls.iter().for_each(|made| line("call", &(made.call, made.status)));
        self.told.errors.iter().for_each(|error| line("error", error));
        self.told.warnings.iter().for_each(|warning| line("warning", &warning.to_string()));
        text
    }

    /// P1, P3, P4: every failed call is told exactly once.
    fn check_told(&self, found: &mut Vec<Complaint>) {
        for status in &self.injected {
            let failed = self.calls.iter().filter(|made| made.status == *status).count();
            let told = self.told.times(*status);
            if told != failed {
                found.push(format!(
                    "{failed} calls answered {status:?}, and it was told {told} times"
                ));
            }
        }
    }

    /// P2, P5, P11: the thread is as it was, or what was told names what is current.
    fn check_thread(&self, found: &mut Vec<Complaint>) {
        let now = Current::of(self.after.current());
        let currents = self.told.currents();
        let is_named =
            currents.iter().any(|told| *told == now || matches!(told, Current::Unknown(_)));
        if self.before.stack != self.after.stack && !is_named {
            found.push(format!(
                "the thread's contexts were {:?} and are {:?}, and nothing that was told names the current one",
                self.before.stack, self.after.stack
            ));
        }
        if !currents.is_empty() && !is_named {
            found.push(format!("current is {now:?}, and told was {currents:?}"));
        }
        if self.before.mode != self.after.mode && !self.told.is_mode_lost() {
            found.push(format!(
                "the capture mode was {:?} and is {:?}, and nobody was told",
                self.before.mode, self.after.mode
            ));
        }
    }

    /// P2, P6, P7: nothing is lost that wasn't told to be, nothing is ended twice or used after its end.
    fn check_objects(&self, found: &mut Vec<Complaint>) {
        self.check_lost("a creation failed, and left", &self.created, found);
        self.check_lost("nobody was told of the loss of", &self.leaks, found);
        found.extend(self.unusable.iter().map(|error| format!("a second use: {error}")));
        found.extend(self.violations());
        match &self.closed {
            Ok(Closed::Destroyed) => {}
            Ok(other) => found.push(format!("the driver's end gave {other:?}: something holds it")),
            Err(error) => found.push(format!("the driver's end failed: {error}")),
        }
    }

    fn check_lost(&self, what: &str, lost: &[Lost], found: &mut Vec<Complaint>) {
        let untold: Vec<_> =
            lost.iter().filter(|lost| !self.told.names_as_lost(lost.raw)).collect();
        // A closing that failed gave its error to the caller, who knows what was closed.
        if untold.len() > self.told.unnamed_losses() {
            found.extend(untold.iter().map(|lost| format!("{what} {}", lost.text)));
        }
    }
}
