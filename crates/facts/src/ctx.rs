//! What a probe works with: the driver, and the answer that it puts together.

use core::fmt;
use std::{
    sync::Arc,
    thread::{self},
};

use cuhold_driver_sys::{CUresult, Call, DriverApi, Failure, ffi::CUstreamCaptureStatus};

use crate::export::{Export, Exported};

/// Has another process export something; `None` where it didn't.
type Exporter = Arc<dyn Fn(Export) -> Option<Exported> + Send + Sync>;

/// Ends the processes that exported something.
type End = Arc<dyn Fn() + Send + Sync>;

/// A driver to ask, in a fresh state: nothing was called on it yet.
#[derive(Clone)]
pub struct Subject {
    driver: Arc<dyn DriverApi>,
    violations: Option<Arc<dyn Fn() -> usize + Send + Sync>>,
    exporter: Option<(Exporter, End)>,
}

impl Subject {
    /// A driver that may end the process where its rules are broken.
    #[must_use]
    pub fn new(driver: Arc<dyn DriverApi>) -> Self {
        Self { driver, violations: None, exporter: None }
    }

    /// A driver that counts broken rules instead.
    #[must_use]
    pub fn checked(
        driver: Arc<dyn DriverApi>,
        violations: impl Fn() -> usize + Send + Sync + 'static,
    ) -> Self {
        Self { driver, violations: Some(Arc::new(violations)), exporter: None }
    }

    /// The same, with another process beside it for each thing that is exported; `end` ends them.
    pub(crate) fn beside(
        self,
        exporter: impl Fn(Export) -> Option<Exported> + Send + Sync + 'static,
        end: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { exporter: Some((Arc::new(exporter), Arc::new(end))), ..self }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("checked", &self.violations.is_some()).finish()
    }
}

/// Who hears each word of an answer as it is found: a process that the driver ends has said so much before.
pub(crate) type Hears = fn(&str);

/// A probe at work: the driver that it asks, and its answer so far.
///
/// An answer is one line of words: statuses in the order of asking (`SUCCESS`, or `label=SUCCESS`), and what was
/// observed (`depth=0`). No address, id or time stands in it.
pub struct Ctx {
    subject: Subject,
    words: Vec<String>,
    hears: Option<Hears>,
    observes: bool,
}

impl Ctx {
    pub(crate) fn new(subject: Subject, hears: Option<Hears>, observes: bool) -> Self {
        Self { subject, words: Vec::new(), hears, observes }
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &dyn DriverApi {
        &*self.subject.driver
    }

    /// The driver, to keep.
    pub(crate) fn driver_arc(&self) -> Arc<dyn DriverApi> {
        Arc::clone(&self.subject.driver)
    }

    /// What another process exports of this kind.
    pub(crate) fn exported(&self, what: Export) -> Result<Exported, Failure> {
        let call = match what {
            Export::Memory => Call::cuIpcGetMemHandle,
            Export::Event => Call::cuIpcGetEventHandle,
            Export::Pool | Export::HostPool => Call::cuMemPoolExportToShareableHandle,
        };
        let exporter = self.subject.exporter.as_ref();
        let (exporter, _) = exporter.ok_or(Failure { call, status: CUresult::MISSING })?;
        exporter(what).ok_or(Failure { call, status: CUresult::UNKNOWN })
    }

    /// Ends the processes that exported something, at once.
    pub(crate) fn end_others(&self) {
        if let Some((_, end)) = &self.subject.exporter {
            end();
        }
    }

    /// Whether more is wanted than the asked call's status. Not so during somebody's capture and without a context,
    /// where looking would change what is looked at.
    pub(crate) fn observes(&self) -> bool {
        self.observes
    }

    /// Takes a status into the answer.
    pub(crate) fn heard(&mut self, label: &str, status: CUresult) -> CUresult {
        if label.is_empty() {
            self.say(&word(status));
        } else {
            self.note(label, word(status));
        }
        status
    }

    /// Takes an observation into the answer.
    pub(crate) fn note(&mut self, name: &str, value: impl fmt::Display) {
        self.say(&format!("{name}={value}"));
    }

    /// Takes a yes or no into the answer.
    pub(crate) fn holds(&mut self, name: &str, value: bool) {
        self.note(name, if value { "yes" } else { "no" });
    }

    /// Takes a capture's state into the answer.
    pub(crate) fn note_capture(&mut self, name: &str, status: CUstreamCaptureStatus) {
        self.note(name, word_of(status));
    }

    /// How many rules were broken so far, where the driver counts them.
    /// Whether broken rules are counted, by a driver that does nothing by itself.
    pub(crate) fn is_simulated(&self) -> bool {
        self.subject.violations.is_some()
    }

    pub(crate) fn violations(&self) -> usize {
        self.subject.violations.as_ref().map_or(0, |count| count())
    }

    /// Takes into the answer that a call came back that ends a real driver's process.
    pub(crate) fn survived(&mut self, before: usize, status: CUresult) {
        if self.violations() > before {
            self.say(VIOLATION);
        } else {
            self.heard("survived", status);
        }
    }

    /// Runs `work` on a thread of its own, to its end, and takes its words into the answer.
    pub(crate) fn elsewhere(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), Failure> + Send,
    ) -> Result<(), Failure> {
        let mut there = Self::new(self.subject.clone(), self.hears, self.observes);
        let (there, done) = thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let done = work(&mut there);
                (there, done)
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        self.words.extend(there.words);
        done
    }

    /// The answer, as it stands.
    pub(crate) fn into_answer(mut self, done: Result<(), Failure>) -> String {
        if let Err(failure) = done {
            self.say(&format!("{SETUP}{}={}", failure.call, word(failure.status)));
        }
        self.words.join(" ")
    }

    /// The same driver, for what is said elsewhere in one word.
    pub(crate) fn aside(&self) -> Self {
        Self::new(self.subject.clone(), None, false)
    }

    pub(crate) fn say(&mut self, word: &str) {
        if let Some(hears) = self.hears {
            hears(word);
        }
        self.words.push(word.to_owned());
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("words", &self.words).finish_non_exhaustive()
    }
}

/// The word that stands where a simulated driver reported what ends a real one's process.
pub(crate) const VIOLATION: &str = "violation";
/// What a word begins with that says which call of a probe's set-up failed.
pub(crate) const SETUP: &str = "setup:";

/// A capture's state as a word of an answer.
pub(crate) fn word_of(status: CUstreamCaptureStatus) -> &'static str {
    match status {
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => "none",
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE => "active",
        CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED => "invalidated",
        _ => "unknown",
    }
}

/// A status as a word of an answer: CUDA's name without its prefix.
pub(crate) fn word(status: CUresult) -> String {
    match (status.name(), status) {
        (_, CUresult::MISSING) => "MISSING".to_owned(),
        (Some(name), _) => {
            let name = name.strip_prefix("CUDA_").unwrap_or(name);
            name.strip_prefix("ERROR_").unwrap_or(name).to_owned()
        }
        (None, CUresult(code)) => format!("status-{code}"),
    }
}
