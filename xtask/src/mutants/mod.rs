//! `cargo xtask mutants`: whether the tests notice when a mechanism of the failure policy is taken out.
//!
//! The tests are built once with `--cfg mutants`, in a target folder of their own. Each test that the table names is run
//! first as it is, and must pass; then with its mechanism taken out, and must fail: reported as failed by the harness for a
//! panic in the test's own code, not killed by the time limit, not ended by a signal.

mod memory;
mod table;

use crate::{
    Result,
    bundle::{self, Executable},
    process::{self, Ran},
    workspace,
};
use std::{
    collections::BTreeSet,
    fmt,
    process::Command,
    time::{Duration, Instant},
};
use table::{Mutant, Test};

/// As in `crates/driver-sys/src/mutant.rs`.
const VARIABLE: &str = "CUHOLD_MUTANT";
/// A test that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// How many mechanisms were taken out, and how often a test noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Score {
    mutants: usize,
    caught: usize,
}

/// As `cargo xtask figures` prints it.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mutants, caught } = self;
        write!(f, "mutants: {mutants}\nmutants_caught: {caught}")
    }
}

impl Score {
    fn verdict(self) -> Result<()> {
        match self.mutants - self.caught {
            0 => Ok(()),
            survived => Err(format!("{survived} mutants survived")),
        }
    }
}

/// All of them.
fn mutants() -> impl Iterator<Item = &'static Mutant> {
    table::MUTANTS.iter().chain(memory::MUTANTS)
}

/// Runs all of them, prints a table, and fails if one survives.
pub(crate) fn run() -> Result<Score> {
    let score = score(true)?;
    println!("{score}");
    score.verdict().map(|()| score)
}

/// Runs all of them and counts.
pub(crate) fn count() -> Result<Score> {
    score(false)
}

fn score(told: bool) -> Result<Score> {
    let binaries = build()?;
    let tests: BTreeSet<Test> = mutants().map(|mutant| mutant.test).collect();
    for test in tests {
        check_sound(&binaries, test)?;
    }
    let mut score = Score { mutants: mutants().count(), caught: 0 };
    for Mutant { name, without, test } in mutants() {
        let begun = Instant::now();
        let ran = run_test(&binaries, *test, Some(name))?;
        let ended = Ended::of(&ran, *test)?;
        score.caught += usize::from(ended == Ended::Failed);
        if told || ended != Ended::Failed {
            let seconds = begun.elapsed().as_secs_f64();
            println!("{name:<18} {:<9} {seconds:>5.1} s  {without}", ended.word());
            println!("{:>37}{}", "", failed_at(&ran.stdout).unwrap_or("no place of a panic"));
        }
    }
    Ok(score)
}

/// What the tests that the table names have, each once.
fn each(of: impl Fn(&Test) -> &'static str) -> BTreeSet<&'static str> {
    mutants().map(|mutant| of(&mutant.test)).collect()
}

fn build() -> Result<Vec<Executable>> {
    let mut command = workspace::cargo(&["test", "--no-run", "--lib"]);
    for target in each(|test| test.target).into_iter().filter(|target| *target != "lib") {
        command.args(["--test", target]);
    }
    for package in each(|test| test.package) {
        command.args(["-p", package]);
    }
    let target = workspace::target().join("mutants");
    command.arg("--target-dir").arg(target).env("RUSTFLAGS", "--cfg mutants");
    bundle::executables_of(&mut command)
}

/// The binary that holds the test.
fn binary(binaries: &[Executable], test: Test) -> Result<&Executable> {
    // A library's own tests have the library's name, which is its package's.
    let own = test.package.replace('-', "_");
    let target = if test.target == "lib" { own.as_str() } else { test.target };
    binaries
        .iter()
        .filter(|binary| binary.profile_test)
        .find(|binary| binary.package == test.package && binary.target == target)
        .ok_or_else(|| format!("no test binary {} of {}", test.target, test.package))
}

fn run_test(binaries: &[Executable], test: Test, without: Option<&str>) -> Result<Ran> {
    let mut command = Command::new(&binary(binaries, test)?.file);
    command.args(["--exact", test.name]).env_remove(VARIABLE);
    if let Some(name) = without {
        command.env(VARIABLE, name);
    }
    process::run(&mut command, LIMIT)
}

/// The test passes as long as nothing is taken out.
fn check_sound(binaries: &[Executable], test: Test) -> Result<()> {
    let ran = run_test(binaries, test, None)?;
    match Ended::of(&ran, test)? {
        Ended::Passed => Ok(()),
        other => Err(format!(
            "{} {} with nothing taken out:\n{}{}",
            test.name,
            other.word(),
            ran.stdout,
            ran.stderr
        )),
    }
}

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    Passed,
    /// An assertion of the test failed, and the harness says so.
    Failed,
    /// Something else panicked.
    Panicked,
    /// Killed when its time was up.
    Hung,
    /// The process ended without a word of the harness.
    Died,
}

impl Ended {
    /// Fails where the name matches no test.
    fn of(ran: &Ran, test: Test) -> Result<Self> {
        if !ran.stdout.contains("running 1 test") {
            return Err(format!("no test {} in {} of {}", test.name, test.target, test.package));
        }
        let says = |result: &str| ran.stdout.lines().any(|line| line.starts_with(result));
        Ok(if ran.timed_out {
            Self::Hung
        } else if ran.status.success() && says("test result: ok. 1 passed; 0 failed;") {
            Self::Passed
        } else if ran.status.code() == Some(101) && says("test result: FAILED. 0 passed; 1 failed;")
        {
            match failed_at(&ran.stdout) {
                Some(place) if is_test_code(place, test) => Self::Failed,
                _ => Self::Panicked,
            }
        } else {
            Self::Died
        })
    }

    fn word(self) -> &'static str {
        match self {
            Self::Passed => "SURVIVED",
            Self::Failed => "caught",
            Self::Panicked => "PANICKED",
            Self::Hung => "HUNG",
            Self::Died => "DIED",
        }
    }
}

/// Where the last panic was, which is the one that ended the test: those before it were caught.
fn failed_at(output: &str) -> Option<&str> {
    let place = output.rsplit_once(" panicked at ").and_then(|(_, rest)| rest.lines().next());
    place.map(|place| place.trim_end_matches(':'))
}

/// Whether a test's own code is there: a test's file, the test kit's, the guard that tests hold, or for tests inside the
/// crate the crate's own.
fn is_test_code(place: &str, test: Test) -> bool {
    const OURS: &[&str] = &["crates/testkit/", "crates/handles/src/report/guards.rs:"];
    place.contains("/tests/")
        || OURS.iter().any(|ours| place.starts_with(ours))
        || test.target == "lib"
}

/// The names of mechanisms that a source asks for.
#[cfg(test)]
fn asked_for(text: &str) -> impl Iterator<Item = &str> {
    text.split("is_out(\"").skip(1).filter_map(|rest| rest.split_once("\")")).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_sources_name_the_same_mechanisms_each_once() {
        let sources = workspace::sources().unwrap();
        let policy = sources.iter().filter(|source| source.path.starts_with("crates/"));
        let mut found: Vec<&str> = policy.flat_map(|source| asked_for(&source.text)).collect();
        found.sort_unstable();
        let mut named: Vec<&str> = mutants().map(|mutant| mutant.name).collect();
        named.sort_unstable();
        assert_eq!(found, named);
    }

    #[test]
    fn names_are_found_where_they_stand() {
        let text = "if mutant::is_out(\"a\") || !is_out(\"b-c\") { is_out(name) }";
        assert_eq!(asked_for(text).collect::<Vec<_>>(), ["a", "b-c"]);
    }

    /// What the shell does in a test binary's place.
    fn ended(script: &str) -> Result<Ended> {
        let ran = process::run(Command::new("sh").args(["-c", script]), Duration::from_secs(60))?;
        Ended::of(&ran, Test { package: "p", target: "it", name: "n" })
    }

    #[test]
    fn only_what_the_harness_says_counts() {
        let begun = "echo 'running 1 test'; ";
        let says = |rest: &str| ended(&format!("{begun}{rest}")).unwrap();
        let ok = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        let result = "echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101";
        let bad = format!("echo 't panicked at crates/p/tests/it/a.rs:1:2:'; {result}");
        let elsewhere = format!("echo 't panicked at crates/p/src/a.rs:1:2:'; {result}");
        assert_eq!(says(ok), Ended::Passed);
        assert_eq!(says(&bad), Ended::Failed);
        assert_eq!(says(&elsewhere), Ended::Panicked);
        assert_eq!(says(result), Ended::Panicked);
        assert_eq!(says("kill -ABRT $$"), Ended::Died);
        assert_eq!(says("exit 101"), Ended::Died);
        assert_eq!(says("exit 0"), Ended::Died);
        assert!(ended("echo 'running 0 tests'").is_err());
    }

    #[test]
    fn a_mutant_that_survives_is_a_failure() {
        assert!(Score { mutants: 3, caught: 3 }.verdict().is_ok());
        assert!(Score { mutants: 3, caught: 2 }.verdict().is_err());
        let text = Score { mutants: 3, caught: 2 }.to_string();
        assert_eq!(text, "mutants: 3\nmutants_caught: 2");
    }
}
