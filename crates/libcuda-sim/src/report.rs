//! What is said when the process ends: calls that nothing could answer, violations, what was never ended.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
};

use cuhold_driver_sim::Sim;

use crate::record::Recorder;

/// Says one line on the standard error, in one write.
pub(crate) fn say(line: &str) {
    let line = format!("cuhold-libcuda-sim: {line}\n");
    // Nobody is left to be told where that fails.
    drop(io::stderr().write_all(line.as_bytes()));
}

/// Writes the report to its file. Without one the standard error hears of violations and of calls that nothing could
/// answer; if there are none, nothing is written.
pub(crate) fn write(sim: &Sim, recorder: &Recorder) {
    let findings = findings(sim, recorder);
    let Some(path) = recorder.report() else {
        for line in findings.lines() {
            say(line);
        }
        return;
    };
    let report = whole(sim, recorder, &findings);
    if let Err(error) = fs::write(path, report) {
        say(&format!("the report {}: {error}", path.display()));
    }
}

/// A line for each violation, and for each function that couldn't be answered.
fn findings(sim: &Sim, recorder: &Recorder) -> String {
    let mut text = String::new();
    for (call, count) in recorder.missing().iter() {
        // Writing to a text can't fail.
        let _: Result<(), _> = writeln!(text, "not simulated: {}, {count} calls", call.symbol());
    }
    for violation in sim.violations() {
        let _: Result<(), _> = writeln!(text, "violation: {violation}");
    }
    text
}

/// The findings, with how many calls there were, and what was never ended.
fn whole(sim: &Sim, recorder: &Recorder, findings: &str) -> String {
    let mut text = format!(
        "calls: {}\nfailed on purpose: {}\n{findings}",
        recorder.counts().total(),
        sim.faults().fired()
    );
    for leak in sim.leaks() {
        // As above.
        let _: Result<(), _> = writeln!(text, "never ended: {leak}");
    }
    text
}
