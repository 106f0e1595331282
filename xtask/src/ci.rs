//! `cargo xtask ci`: all checks, in order, each timed; stops at the first that fails and says its name.
//!
//! `.ci/run` installs what a bare machine lacks and calls this; there is no other logic.

use crate::{
    Result, codegen, cudarc_tests, figures,
    mutants::{self, Score},
    tally::Tally,
    tidy, walk, wheels, workspace,
};
use std::{process::Command, time::Instant};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Names of steps; all if none is given.
    steps: Vec<String>,
}

/// What one run carries from step to step.
#[derive(Default)]
struct Ci {
    /// All tests of all steps.
    tally: Tally,
    /// Those of `cargo test --workspace` alone.
    workspace: Option<Tally>,
    /// What the step `mutants` found.
    mutants: Option<Score>,
}

/// How a step ended that didn't fail.
enum Ended {
    Well,
    /// What it needs can't be had here.
    Skipped(String),
}

/// A step: its name and what it does.
type Step = (&'static str, fn(&mut Ci) -> Result<Ended>);

const STEPS: &[Step] = &[
    ("fmt", fmt),
    ("tidy", |_| tidy::run().map(|()| Ended::Well)),
    ("clippy", clippy),
    ("test", test),
    ("test-features", test_features),
    ("mutants", take_out),
    ("cudarc-tests", run_cudarc_tests),
    ("doc", doc),
    ("codegen", check_codegen),
    ("tour", tour),
    ("ipc_pipeline", ipc_pipeline),
    ("allocator_race", allocator_race),
    ("walk", walk_through),
    ("figures", print_figures),
];

/// Runs the steps; the last line reads like `cargo test`'s result, over all of them.
pub(crate) fn run(options: &Options) -> Result<()> {
    let known = |name: &String| STEPS.iter().any(|(step, _)| step == name);
    if let Some(unknown) = options.steps.iter().find(|name| !known(name)) {
        let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no step {unknown}; there are: {}", names.join(", ")));
    }
    let mut ci = Ci::default();
    let begun = Instant::now();
    let mut lines = Vec::new();
    let mut failed = None;
    for (name, step) in STEPS {
        if !options.steps.is_empty() && !options.steps.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("== {name}");
        let at = Instant::now();
        let ended = step(&mut ci);
        let seconds = at.elapsed().as_secs_f64();
        lines.push(match &ended {
            Ok(Ended::Well) => format!("{name:<14} {seconds:>7.1} s"),
            Ok(Ended::Skipped(reason)) => format!("{name:<14} {seconds:>7.1} s  skipped: {reason}"),
            Err(error) => format!("{name:<14} {seconds:>7.1} s  FAILED: {error}"),
        });
        if let Err(error) = ended {
            failed = Some(format!("step {name}: {error}"));
            break;
        }
    }
    println!("== summary");
    for line in lines {
        println!("{line}");
    }
    let word = if failed.is_none() { "ok" } else { "FAILED" };
    println!(
        "test result: {word}. {}; finished in {:.2}s",
        ci.tally,
        begun.elapsed().as_secs_f64()
    );
    failed.map_or(Ok(()), Err)
}

fn well(command: &mut Command) -> Result<Ended> {
    workspace::run(command).map(|()| Ended::Well)
}

/// Both workspaces.
fn fmt(_: &mut Ci) -> Result<Ended> {
    workspace::run(&mut workspace::cargo(&["fmt", "--all", "--check"]))?;
    well(&mut workspace::cargo(&[
        "fmt",
        "--all",
        "--check",
        "--manifest-path",
        "xtask/codegen/Cargo.toml",
    ]))
}

/// With every feature, and each published crate by itself with none: in the whole workspace features unify.
fn clippy(_: &mut Ci) -> Result<Ended> {
    let strict = ["--", "-D", "warnings"];
    let mut all = workspace::cargo(&["clippy", "--workspace", "--all-targets", "--all-features"]);
    workspace::run(all.args(strict))?;
    for name in [
        "cuhold-driver-sys",
        "cuhold-driver-sim",
        "cuhold-handles",
        "cuhold-memory",
        "cuhold-graph",
        "cuhold-cudarc",
        "cuhold",
    ] {
        workspace::run(
            workspace::cargo(&["clippy", "--no-default-features", "-p", name]).args(strict),
        )?;
    }
    Ok(Ended::Well)
}

/// The README's command, with the compilers where they can be had: tests that need one say so where it can't.
fn test(ci: &mut Ci) -> Result<Ended> {
    let tally = cargo_test(ci, &["--workspace"])?;
    ci.workspace = Some(tally);
    Ok(Ended::Well)
}

/// The tests that only a feature brings.
fn test_features(ci: &mut Ci) -> Result<Ended> {
    cargo_test(ci, &["-p", "cuhold-handles", "-p", "cuhold", "--all-features"])?;
    Ok(Ended::Well)
}

fn cargo_test(ci: &mut Ci, arguments: &[&str]) -> Result<Tally> {
    let mut command = workspace::cargo(&["test"]);
    command.args(arguments);
    with_compilers(&mut command);
    let (output, done) = workspace::tee(&mut command, |line| println!("{line}"))?;
    let tally = Tally::of(&output);
    ci.tally += tally;
    done.map(|()| tally)
}

/// Tells the command where the compilers are, those that can be had.
fn with_compilers(command: &mut Command) {
    for (variable, wheel, file) in [
        ("CUHOLD_NVRTC", wheels::NVRTC, "libnvrtc.so.13"),
        ("CUHOLD_NVVM", wheels::NVVM, "libnvvm.so.4"),
        ("CUHOLD_NVJITLINK", wheels::NVJITLINK, "libnvJitLink.so.13"),
    ] {
        match wheels::fetch(wheel).and_then(|folder| wheels::find(&folder, file)) {
            Ok(library) => _ = command.env(variable, library),
            Err(reason) => println!("without {file}: {reason}"),
        }
    }
}

/// Each mechanism of the failure policy taken out in turn; a test must notice.
fn take_out(ci: &mut Ci) -> Result<Ended> {
    ci.mutants = Some(mutants::run()?);
    Ok(Ended::Well)
}

/// Programs that nobody here wrote, on the simulated driver's library. Its own tests are among those of the workspace.
fn run_cudarc_tests(_: &mut Ci) -> Result<Ended> {
    if let Err(reason) = wheels::fetch(wheels::NVRTC) {
        return Ok(Ended::Skipped(reason));
    }
    cudarc_tests::run().map(|_counts| Ended::Well)
}

fn doc(_: &mut Ci) -> Result<Ended> {
    let mut command =
        workspace::cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    well(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// The generator's own tests need no header; the comparison does.
fn check_codegen(ci: &mut Ci) -> Result<Ended> {
    cargo_test(ci, &["--manifest-path", "xtask/codegen/Cargo.toml"])?;
    for wheel in [wheels::HEADERS, wheels::LIBCLANG] {
        if let Err(reason) = wheels::fetch(wheel) {
            return Ok(Ended::Skipped(reason));
        }
    }
    codegen::run(true).map(|()| Ended::Well)
}

/// The README's program, on the simulated driver.
fn tour(_: &mut Ci) -> Result<Ended> {
    example("tour", &[])
}

/// The pipeline between processes, as threads of one simulated world.
fn ipc_pipeline(_: &mut Ci) -> Result<Ended> {
    example("ipc_pipeline", &[])
}

/// The race of allocators, in its short form.
fn allocator_race(_: &mut Ci) -> Result<Ended> {
    example("allocator_race", &["0.05"])
}

/// NVIDIA's Python packages on the simulated driver.
fn walk_through(_: &mut Ci) -> Result<Ended> {
    match walk::packages() {
        Ok(_) => walk::on_sim().map(|()| Ended::Well),
        Err(reason) => Ok(Ended::Skipped(reason)),
    }
}

fn example(name: &str, arguments: &[&str]) -> Result<Ended> {
    let mut command = workspace::cargo(&[
        "run",
        "--release",
        "-p",
        "cuhold",
        "--features",
        "sim",
        "--example",
        name,
        "--",
    ]);
    command.args(arguments);
    with_compilers(&mut command);
    well(command.env("CUHOLD_DRIVER", "sim"))
}

fn print_figures(ci: &mut Ci) -> Result<Ended> {
    match ci.workspace {
        Some(tests) => figures::print(tests, ci.mutants),
        None => figures::run(),
    }
    .map(|()| Ended::Well)
}
