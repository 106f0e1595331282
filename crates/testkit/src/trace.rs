//! What is being called, written as it is: where a real driver ends the process, the last line says in which call.

use cuhold_driver_sys::{CUresult, Call, Hook, Verdict};
use std::{
    env,
    io::{self, Write as _},
};

/// Writes each call to standard error before it is made, and its status after it, where `CUHOLD_TEST_TRACE` is set.
#[derive(Debug)]
pub(crate) struct Trace {
    on: bool,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self { on: env::var_os("CUHOLD_TEST_TRACE").is_some() }
    }
}

/// Writes past the test harness.
pub(crate) fn say(line: &str) {
    // Where nobody reads it, nobody misses it.
    let _written: io::Result<()> = io::stderr().write_all(line.as_bytes());
}

impl Hook for Trace {
    fn before(&self, call: Call, arguments: &[u64]) -> Verdict {
        if self.on {
            say(&format!("  {call} {arguments:x?}\n"));
        }
        Verdict::Pass
    }

    fn after(&self, _: Call, _: &[u64], status: CUresult) {
        if self.on {
            say(&format!("    = {status}\n"));
        }
    }
}
