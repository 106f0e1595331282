//! `cargo xtask sanitize`: the tests under the address and the thread sanitizer, and under Miri what it can take.
//!
//! All three need the nightly toolchain with its `rust-src` (and `miri`), which this fetches where rustup can. The two
//! sanitizers build the standard library, too: without that, what it does with threads looks like races.

use crate::{Result, workspace};
use std::process::Command;

/// Which checks to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Their names; all if none is given.
    #[arg(value_enum)]
    checks: Vec<Check>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Check {
    /// Wrong accesses to memory.
    Address,
    /// Races between threads.
    Thread,
    /// Undefined behaviour of any kind, on the simulated driver.
    Miri,
}

/// What the sanitizers are run over.
const SANITIZED: &[&str] = &[
    "cuhold-driver-sys",
    "cuhold-driver-sim",
    "cuhold-handles",
    "cuhold-memory",
    "cuhold-graph",
    "cuhold",
];

/// What Miri is run over: it starts no process and loads no library.
const INTERPRETED: &[&str] = &["cuhold-driver-sim", "cuhold-handles", "cuhold-memory", "cuhold"];

/// Runs the checks, each to its end; an error names those that found something.
pub(crate) fn run(options: &Options) -> Result<()> {
    let all = [Check::Address, Check::Thread, Check::Miri];
    fetch()?;
    let mut found = Vec::new();
    for check in all {
        if !options.checks.is_empty() && !options.checks.contains(&check) {
            continue;
        }
        println!("== {check:?}");
        if workspace::run(&mut command(check)).is_err() {
            found.push(format!("{check:?}"));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("found something: {}", found.join(", "))) }
}

fn fetch() -> Result<()> {
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add", "--toolchain", "nightly", "rust-src", "miri"]);
    workspace::run(&mut rustup)
}

fn command(check: Check) -> Command {
    let (sanitizer, packages) = match check {
        Check::Address => (Some("address"), SANITIZED),
        Check::Thread => (Some("thread"), SANITIZED),
        Check::Miri => (None, INTERPRETED),
    };
    // Not the cargo of the toolchain that runs this.
    let mut cargo = Command::new("rustup");
    cargo.current_dir(workspace::root()).args(["run", "nightly", "cargo"]);
    match sanitizer {
        Some(name) => {
            let target = workspace::target().join(format!("sanitize-{name}"));
            cargo
                .args([
                    "test",
                    "-Zbuild-std",
                    "--target",
                    "x86_64-unknown-linux-gnu",
                    "--target-dir",
                ])
                .arg(target)
                .env("RUSTFLAGS", format!("-Zsanitizer={name}"))
                // What the policy leaks on purpose isn't a finding.
                .env("ASAN_OPTIONS", "detect_leaks=0")
                .env("TSAN_OPTIONS", "die_after_fork=0");
        }
        None => {
            cargo
                .args(["miri", "test", "--target-dir"])
                .arg(workspace::target().join("miri"))
                .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks");
        }
    }
    for package in packages {
        cargo.args(["-p", package]);
    }
    cargo.args(["--lib", "--tests", "--no-fail-fast"]);
    cargo
}
