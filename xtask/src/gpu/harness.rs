//! Lists the tests of Rust test binaries and runs each in a process of its own.

use super::LeftOut;
use crate::{
    Result,
    process::{self, Ran},
};
use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// How a test says that it can't or needn't run here.
const SKIP: &str = "cuhold-skip:";
/// How much of a failed test's output is reported.
const OUTPUT_AT_MOST: usize = 4000;

/// A test or bench binary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Binary {
    /// `package::target`.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
}

impl Binary {
    /// The same with its file in `folder`.
    pub(super) fn under(&self, folder: &Path) -> Self {
        Self { name: self.name.clone(), file: folder.join(&self.file) }
    }
}

/// What bounds a run.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) jobs: usize,
    pub(super) each: Duration,
    pub(super) all: Duration,
    pub(super) filter: String,
    /// What the environment says of the driver: `real` or `sim`.
    pub(super) driver: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(super) enum Outcome {
    Passed,
    Failed { why: String, output: String },
    Skipped { reason: String },
}

/// One test that was run, or wasn't.
#[derive(Debug, Serialize)]
pub(super) struct Case {
    pub(super) binary: String,
    pub(super) test: String,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    pub(super) seconds: f64,
}

impl Case {
    /// Says at once how it ended.
    fn print(&self) {
        let word = match self.outcome {
            Outcome::Passed => "ok",
            Outcome::Failed { .. } => "FAILED",
            Outcome::Skipped { .. } => "skipped",
        };
        println!("{word:<7} {}::{}", self.binary, self.test);
    }

    /// All tests of a package in one line.
    pub(super) fn of_left_out(package: &LeftOut) -> Self {
        Self {
            binary: package.package.clone(),
            test: "(all)".to_owned(),
            outcome: Outcome::Skipped { reason: package.reason.clone() },
            seconds: 0.0,
        }
    }

    /// A program stands for itself.
    pub(super) fn of_program(name: &str, ran: &Ran) -> Self {
        let outcome = match failure(ran) {
            Some(why) => Outcome::Failed { why, output: tail(ran) },
            None => Outcome::Passed,
        };
        Self {
            binary: "program".to_owned(),
            test: name.to_owned(),
            outcome,
            seconds: ran.took.as_secs_f64(),
        }
    }
}

/// Runs every test of every binary; the result is in the order of their names.
pub(super) fn run_all(binaries: &[Binary], limits: &Limits) -> Result<Vec<Case>> {
    let begun = Instant::now();
    let mut tests = Vec::new();
    for binary in binaries {
        for test in list(binary)? {
            if format!("{}::{test}", binary.name).contains(&limits.filter) {
                tests.push((binary, test));
            }
        }
    }
    let next = AtomicUsize::new(0);
    let (sender, done) = mpsc::channel();
    // Takes the next test until none is left. Relaxed: the number alone is shared.
    let work = |sender: mpsc::Sender<_>| {
        while let Some((binary, test)) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let late = begun.elapsed() >= limits.all;
            let case = if late { not_run(binary, test) } else { run_one(binary, test, limits) };
            if sender.send(case).is_err() {
                return;
            }
        }
    };
    let mut cases: Vec<Case> = thread::scope(|scope| {
        for sender in vec![sender; limits.jobs] {
            scope.spawn(|| work(sender));
        }
        done.into_iter().inspect(Case::print).collect()
    });
    cases.sort_by(|a, b| (&a.binary, &a.test).cmp(&(&b.binary, &b.test)));
    Ok(cases)
}

fn not_run(binary: &Binary, test: &str) -> Case {
    let reason = "not begun: the time for all tests was up".to_owned();
    Case {
        binary: binary.name.clone(),
        test: test.to_owned(),
        outcome: Outcome::Skipped { reason },
        seconds: 0.0,
    }
}

/// The names of a binary's tests, those with `#[ignore]` as well.
fn list(binary: &Binary) -> Result<Vec<String>> {
    let mut command = Command::new(&binary.file);
    command.args(["--list", "--format", "terse", "--include-ignored"]);
    let output = command.output().map_err(|e| format!("{}: {e}", binary.file.display()))?;
    if !output.status.success() {
        return Err(format!("{}: listing its tests: {}", binary.name, output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

fn run_one(binary: &Binary, test: &str, limits: &Limits) -> Case {
    let mut command = Command::new(&binary.file);
    command
        .args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"])
        .env("CUHOLD_DRIVER", limits.driver)
        .env("CUHOLD_TEST_DRIVER", limits.driver);
    let (outcome, took) = match process::run(&mut command, limits.each) {
        Ok(ran) => (judge(&ran), ran.took),
        Err(why) => (Outcome::Failed { why, output: String::new() }, Duration::ZERO),
    };
    Case {
        binary: binary.name.clone(),
        test: test.to_owned(),
        outcome,
        seconds: took.as_secs_f64(),
    }
}

/// A test has passed only if the harness says that exactly one did.
fn judge(ran: &Ran) -> Outcome {
    if let Some(why) = failure(ran) {
        return Outcome::Failed { why, output: tail(ran) };
    }
    // With `--nocapture` and one thread the harness has written `test NAME ... ` before the test's first line.
    let skipped = ran.stdout.lines().find_map(|line| line.split_once(SKIP));
    if let Some((_, reason)) = skipped {
        return Outcome::Skipped { reason: reason.trim().to_owned() };
    }
    if ran.stdout.lines().any(|line| line.starts_with("test result: ok. 1 passed; 0 failed;")) {
        Outcome::Passed
    } else {
        Outcome::Failed { why: "exited with 0 without a result".to_owned(), output: tail(ran) }
    }
}

/// Why the process itself failed.
fn failure(ran: &Ran) -> Option<String> {
    if ran.timed_out {
        Some(format!("killed after {:.0} s", ran.took.as_secs_f64()))
    } else if ran.status.success() {
        None
    } else {
        Some(ran.status.to_string())
    }
}

/// The end of what it wrote.
fn tail(ran: &Ran) -> String {
    let text = format!("{}{}", ran.stdout, ran.stderr);
    let mut at = text.len().saturating_sub(OUTPUT_AT_MOST);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    text.get(at..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    fn ran(stdout: &str, status: i32) -> Ran {
        Ran {
            stdout: stdout.to_owned(),
            stderr: String::new(),
            status: ExitStatus::from_raw(status),
            timed_out: false,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn a_result_line_a_skip_line_and_neither_are_told_apart() {
        let passed = "test a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";
        assert_eq!(judge(&ran(passed, 0)), Outcome::Passed);
        let skipped = format!("test a ... cuhold-skip: one device\n{passed}");
        assert_eq!(judge(&ran(&skipped, 0)), Outcome::Skipped { reason: "one device".to_owned() });
        assert!(matches!(judge(&ran("", 0)), Outcome::Failed { .. }));
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored\n";
        assert!(matches!(judge(&ran(none, 0)), Outcome::Failed { .. }));
    }

    #[test]
    fn a_failure_wins_over_a_skip_line_and_a_signal_is_named() {
        let outcome = judge(&ran("cuhold-skip: one device\n", 11));
        let Outcome::Failed { why, .. } = outcome else { panic!("{outcome:?}") };
        assert!(why.contains("signal: 11"), "{why}");
    }

    /// This test's own binary is one to try the harness on.
    fn this_binary() -> Binary {
        Binary { name: "xtask::xtask".to_owned(), file: std::env::current_exe().unwrap() }
    }

    fn limits(filter: &str) -> Limits {
        Limits {
            jobs: 2,
            each: Duration::from_secs(60),
            all: Duration::from_secs(60),
            filter: filter.to_owned(),
            driver: "sim",
        }
    }

    #[test]
    fn each_test_of_a_binary_is_run_by_its_name() {
        let cases = run_all(&[this_binary()], &limits("tally::tests::")).unwrap();
        let passed: Vec<_> = cases.iter().map(|case| (case.test.as_str(), &case.outcome)).collect();
        assert_eq!(
            passed,
            [
                ("tally::tests::other_lines_count_nothing", &Outcome::Passed),
                ("tally::tests::results_of_several_binaries_add_up", &Outcome::Passed),
            ]
        );
    }

    #[test]
    fn tests_that_were_not_begun_in_time_are_said_to_be_so() {
        let limits = Limits { all: Duration::ZERO, ..limits("tally::tests::") };
        let cases = run_all(&[this_binary()], &limits).unwrap();
        assert_eq!(cases.len(), 2);
        assert!(cases.iter().all(|case| matches!(case.outcome, Outcome::Skipped { .. })));
    }
}
