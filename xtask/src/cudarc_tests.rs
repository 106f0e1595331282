//! `cargo xtask cudarc-tests`: cudarc's own tests, from its published package, on the simulated driver's library.
//!
//! The package is that of `Cargo.lock`, copied out of cargo's registry; nothing of it is changed but that its manifest says
//! that it is a workspace of its own. Each test runs in a process of its own, with its queued work beside it.

use crate::{
    Result, libcuda_sim,
    process::{self, Ran},
    wheels, workspace,
};
use cargo_metadata::MetadataCommand;
use std::{
    ffi::{OsStr, OsString},
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

const PACKAGE: &str = "cudarc";
const FEATURES: &str = "std,driver,nvrtc,dynamic-loading,cuda-13000";
/// One test takes less than a second.
const LIMIT: Duration = Duration::from_secs(60);

/// Tests that aren't run, by the beginnings of their names.
const NOT_RUN: &[(&str, &str)] = &[
    ("driver::safe::launch::tests::", "it is about what a kernel computes"),
    (
        "driver::safe::core::tests::test_default_pinned_host_reads_are_faster_than_write_combined",
        "it measures the host's memory: nothing here is write-combined",
    ),
    (
        "driver::safe::core::tests::test_pinned_copy_is_faster",
        "it measures the bus: nothing here is transferred",
    ),
];

/// The driver is as new as the run-time compiler, whose PTX an older one refuses.
const PLAN: &str = r#"{ "driver_version": 13050, "background": true }"#;
/// What NVRTC asks a driver for and does without: no reason for a test to fail.
const GOES_WITHOUT: &str = "cuGetExportTable,";

/// How a test came out.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed(String),
    /// It needs what the simulated driver answers *missing* for.
    NotSimulated(String),
    NotRun(&'static str),
    /// Their own tests say so.
    Ignored,
}

/// How many came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) not_simulated: u64,
    pub(crate) not_run: u64,
    pub(crate) ignored: u64,
}

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        *match outcome {
            Outcome::Passed => &mut self.passed,
            Outcome::Failed(_) => &mut self.failed,
            Outcome::NotSimulated(_) => &mut self.not_simulated,
            Outcome::NotRun(_) => &mut self.not_run,
            Outcome::Ignored => &mut self.ignored,
        } += 1;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, not_simulated, not_run, ignored } = self;
        write!(
            f,
            "{passed} passed, {failed} failed, {not_simulated} need what isn't simulated, {not_run} not run, {ignored} ignored by themselves"
        )
    }
}

/// Runs them and prints how each came out; fails if one failed.
pub(crate) fn run() -> Result<Counts> {
    let (version, manifest) = package()?;
    let library = libcuda_sim::folder();
    libcuda_sim::build(&library, false)?;
    let folder = workspace::target().join("cudarc-tests");
    let program = build(&copy(&manifest, &folder.join(&version))?, &folder)?;
    let paths = library_path(&library)?;
    let (plan, report) = (folder.join("plan.json"), folder.join("report"));
    fs::write(&plan, PLAN).map_err(|e| format!("{}: {e}", plan.display()))?;

    println!("{PACKAGE} {version}, features {FEATURES}");
    let mut counts = Counts::default();
    for test in list(&program)? {
        let outcome = run_one(
            &program,
            &test,
            &[("CUHOLD_SIM_PLAN", plan.as_os_str()), ("LD_LIBRARY_PATH", paths.as_os_str())],
            &report,
        )?;
        println!("{:<13} {test}{}", outcome.word(), outcome.why());
        counts.add(&outcome);
    }
    println!("{PACKAGE} {version}: {counts}");
    if counts.failed > 0 {
        return Err(format!("{} of {PACKAGE}'s tests failed", counts.failed));
    }
    Ok(counts)
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "FAILED",
            Self::NotSimulated(_) => "not simulated",
            Self::NotRun(_) => "not run",
            Self::Ignored => "ignored",
        }
    }

    fn why(&self) -> String {
        match self {
            Self::Passed | Self::Ignored => String::new(),
            Self::NotRun(why) => format!(": {why}"),
            Self::Failed(why) | Self::NotSimulated(why) => format!(": {why}"),
        }
    }
}

/// The version that `Cargo.lock` names, and where cargo keeps its manifest.
fn package() -> Result<(String, PathBuf)> {
    let metadata = MetadataCommand::new()
        .current_dir(workspace::root())
        .exec()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    let found = metadata.packages.iter().find(|package| package.name.as_str() == PACKAGE);
    let package = found.ok_or_else(|| format!("{PACKAGE} isn't in Cargo.lock"))?;
    Ok((package.version.to_string(), package.manifest_path.clone().into_std_path_buf()))
}

/// Copies the package into `folder` and gives the copy's manifest.
fn copy(manifest: &Path, folder: &Path) -> Result<PathBuf> {
    let copied = folder.join("Cargo.toml");
    if copied.is_file() {
        return Ok(copied);
    }
    let from = manifest.parent().unwrap_or(manifest);
    copy_folder(from, folder).map_err(|e| format!("{}: {e}", from.display()))?;
    let said = |e: std::io::Error| format!("{}: {e}", copied.display());
    let text = fs::read_to_string(manifest).map_err(said)?;
    // Written last: it says that the copy is complete.
    fs::write(&copied, format!("{text}\n[workspace]\n")).map_err(said)?;
    Ok(copied)
}

/// All but the manifest.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&source, &target)?;
        } else if entry.file_name() != "Cargo.toml" {
            fs::write(target, fs::read(source)?)?;
        }
    }
    Ok(())
}

/// Builds the tests and gives the program.
fn build(manifest: &Path, folder: &Path) -> Result<PathBuf> {
    let mut command = workspace::cargo(&["test", "--lib", "--no-run", "--no-default-features"]);
    command.args([
        "--quiet",
        "--message-format",
        "json",
        "--features",
        FEATURES,
        "--manifest-path",
    ]);
    // Warnings about their code are theirs.
    command.arg(manifest).arg("--target-dir").arg(folder.join("build")).stderr(Stdio::inherit());
    let said = workspace::output(&mut command)?;
    let messages = said.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut programs = messages.filter_map(|message: serde_json::Value| {
        message.get("executable").and_then(|path| path.as_str()).map(PathBuf::from)
    });
    programs.next().ok_or_else(|| format!("cargo names no test program of {PACKAGE}"))
}

/// The library's folder, then that of the run-time compiler.
fn library_path(library: &Path) -> Result<OsString> {
    let compiler = wheels::fetch(wheels::NVRTC)?;
    let compiler = wheels::find(&compiler, "libnvrtc.so.13")?;
    let compiler = compiler.parent().unwrap_or(&compiler).to_path_buf();
    std::env::join_paths([library.to_path_buf(), compiler]).map_err(|e| e.to_string())
}

fn list(program: &Path) -> Result<Vec<String>> {
    let listed = workspace::output(Command::new(program).arg("--list"))?;
    Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

fn run_one(
    program: &Path,
    test: &str,
    variables: &[(&str, &OsStr)],
    report: &Path,
) -> Result<Outcome> {
    if let Some((_, why)) = NOT_RUN.iter().find(|(name, _)| test.starts_with(name)) {
        return Ok(Outcome::NotRun(why));
    }
    // Left by the test before; there need be none.
    drop(fs::remove_file(report));
    let mut command = Command::new(program);
    command.args(["--exact", test, "--test-threads=1"]);
    command.envs(variables.iter().copied());
    command.env("RUST_BACKTRACE", "0").env("CUHOLD_SIM_REPORT", report);
    let ran = process::run(&mut command, LIMIT)?;
    let report = fs::read_to_string(report).unwrap_or_default();
    Ok(judge(&ran, &report))
}

/// What the test's process and the library's report say together. A violation fails the test that passed.
fn judge(ran: &Ran, report: &str) -> Outcome {
    let said = |begin: &str| {
        let mut lines = report.lines().filter_map(|line| line.strip_prefix(begin));
        lines.find(|line| !line.starts_with(GOES_WITHOUT))
    };
    if ran.stdout.contains("1 ignored;") {
        return Outcome::Ignored;
    }
    let passed = ran.status.success() && ran.stdout.contains("1 passed;");
    match (passed, said("violation: "), said("not simulated: ")) {
        (true, None, _) => Outcome::Passed,
        (_, Some(violation), _) => Outcome::Failed(violation.to_owned()),
        (false, None, Some(missing)) => Outcome::NotSimulated(missing.to_owned()),
        (false, None, None) => Outcome::Failed(reason(ran)),
    }
}

/// What a failed test says: the line behind its panic, or how its process ended.
fn reason(ran: &Ran) -> String {
    if ran.timed_out {
        return format!("it ran longer than {} s", LIMIT.as_secs());
    }
    let mut lines = ran.stdout.lines().chain(ran.stderr.lines());
    let panicked = lines.by_ref().any(|line| line.contains(" panicked at "));
    let said = if panicked { lines.next() } else { None };
    said.map_or_else(|| ran.status.to_string(), str::to_owned)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    /// A process that wrote this and ended with this status.
    fn ran(stdout: &str, status: i32) -> Ran {
        let program = format!("printf '%s\\n' \"$1\"; exit {status}");
        let mut command = Command::new("sh");
        command.args(["-c", &program, "sh", stdout]);
        process::run(&mut command, Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn a_test_passes_if_it_says_so_and_the_report_has_no_violation() {
        let passed = "test result: ok. 1 passed; 0 failed; 0 ignored;";
        assert_eq!(judge(&ran(passed, 0), "calls: 3\n"), Outcome::Passed);
        let violated = judge(&ran(passed, 0), "calls: 3\nviolation: double destroy\n");
        assert_eq!(violated, Outcome::Failed("double destroy".to_owned()));
        assert_eq!(
            judge(&ran("test result: ok. 0 passed; 0 failed; 1 ignored;", 0), ""),
            Outcome::Ignored
        );
        let none = judge(&ran("test result: ok. 0 passed; 0 failed; 0 ignored;", 0), "");
        assert!(matches!(none, Outcome::Failed(_)), "{none:?}");
    }

    #[test]
    fn a_failed_test_that_asked_for_what_is_missing_is_not_simulated() {
        let panicked = "thread 't' (1) panicked at src/lib.rs:1:1:\nnot what was expected";
        let missing = judge(&ran(panicked, 101), "not simulated: cuLaunchKernel, 1 calls\n");
        assert_eq!(missing, Outcome::NotSimulated("cuLaunchKernel, 1 calls".to_owned()));
        let failed = judge(&ran(panicked, 101), "not simulated: cuGetExportTable, 1 calls\n");
        assert_eq!(failed, Outcome::Failed("not what was expected".to_owned()));
        let ended = judge(&ran("", 3), "");
        assert_eq!(ended, Outcome::Failed("exit status: 3".to_owned()));
    }
}
