//! What the tour prints: lines as it goes, and a table at the end.

use cuhold::{
    Device, Result,
    driver_sys::{CallCounts, ffi::CUcontext},
};
use std::{fmt::Display, process::ExitCode};

/// What was shown so far.
#[derive(Default)]
pub(crate) struct Show {
    parts: Vec<(&'static str, u64)>,
    held: u32,
    failed: Vec<String>,
}

impl Show {
    /// A line.
    pub(crate) fn say(&mut self, what: &str, text: impl Display) {
        println!("{what:>20}  {text}");
    }

    /// A check.
    pub(crate) fn check(&mut self, what: &str, holds: bool) {
        self.say(if holds { "ok" } else { "FAILED" }, what);
        if holds {
            self.held += 1;
        } else {
            self.failed.push(what.to_owned());
        }
    }

    /// A part of the tour, with the driver calls that it takes.
    pub(crate) fn part(
        &mut self,
        counts: &CallCounts,
        name: &'static str,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        println!("\n{name}");
        let before = counts.total();
        let result = work(self);
        self.parts.push((name, counts.total() - before));
        result
    }

    /// The table, and the program's answer.
    pub(crate) fn table(self) -> ExitCode {
        println!("\n{:<20}  driver calls", "part");
        for (name, calls) in &self.parts {
            println!("{name:<20}  {calls:>12}");
        }
        println!("{:<20}  {:>12}", "all", self.parts.iter().map(|(_, calls)| calls).sum::<u64>());
        println!("\n{} checks held, {} failed", self.held, self.failed.len());
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// What is current on this thread.
pub(crate) fn current(device: &Device) -> Result<CUcontext> {
    let mut raw = CUcontext::NULL;
    // SAFETY: *pointers*: a live local.
    let result = unsafe { device.driver().calls().cuCtxGetCurrent(&raw mut raw) };
    result.map(|()| raw).map_err(|failure| device.driver().error(failure))
}
