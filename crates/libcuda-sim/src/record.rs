//! What is remembered of the calls: their counts, and each of them in a file if one was asked for.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use cuhold_driver_sys::{CUresult, Call, CallCounts, Hook};

use crate::report;

/// The hook around every call that reaches the simulated driver.
#[derive(Debug)]
pub(crate) struct Recorder {
    counts: CallCounts,
    missing: CallCounts,
    calls: AtomicU64,
    log: Option<File>,
    report: Option<PathBuf>,
}

impl Recorder {
    /// Writes calls to the file `log`, and at the end of the process the report to the file `report`. A log that can't be
    /// made is said, and not kept.
    pub(crate) fn new(log: Option<PathBuf>, report: Option<PathBuf>) -> Self {
        let log = log.and_then(|path| {
            let made = File::create(&path);
            made.map_err(|e| report::say(&format!("the call log {}: {e}", path.display()))).ok()
        });
        let (counts, missing) = (CallCounts::new(), CallCounts::new());
        Self { counts, missing, calls: AtomicU64::new(0), log, report }
    }

    /// All calls.
    pub(crate) fn counts(&self) -> &CallCounts {
        &self.counts
    }

    /// Those that the simulated driver couldn't answer.
    pub(crate) fn missing(&self) -> &CallCounts {
        &self.missing
    }

    /// Where the report goes.
    pub(crate) fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }
}

impl Hook for Recorder {
    fn after(&self, call: Call, arguments: &[u64], status: CUresult) {
        self.counts.after(call, arguments, status);
        if status == CUresult::MISSING {
            self.missing.after(call, arguments, status);
        }
        let Some(mut log) = self.log.as_ref() else { return };
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let thread = thread::current().id();
        let line = format!("{number} {thread:?} {}{arguments:x?} -> {status}\n", call.symbol());
        // One write a line, so that lines of threads don't mix, and none is lost with a process that crashes. A full disk
        // loses lines: a call can't fail for that.
        drop(log.write_all(line.as_bytes()));
    }
}
