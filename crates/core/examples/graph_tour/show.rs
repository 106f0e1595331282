//! What the tour prints: lines as it goes, and its answer at the end.

use std::{fmt::Display, process::ExitCode};

/// What was shown so far.
#[derive(Default)]
pub(crate) struct Show {
    held: u32,
    failed: u32,
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
            self.failed += 1;
        }
    }

    /// The program's answer.
    pub(crate) fn end(self) -> ExitCode {
        println!("\n{} checks held, {} failed", self.held, self.failed);
        if self.failed == 0 && self.held > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
