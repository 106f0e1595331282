//! Runs the workspace's tests on a real GPU, a process per test: here (`gpu-test`) or from a bundle (`gpu-run`).
//!
//! A test learns from the environment that it shall use the real driver (`CUHOLD_TEST_DRIVER=real`). One that isn't for
//! a real GPU, or lacks something on this one, prints `cuhold-skip: REASON` and returns; that is reported as skipped.

mod device;
mod harness;
mod report;

pub(crate) use harness::Binary;

use crate::{NO_GPU, Result, bundle, date, process, workspace};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

/// How to run, here or there.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where the reports go.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Processes at a time.
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Seconds for one test, after which it is killed.
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// Seconds after which no further test is begun.
    #[arg(long, default_value_t = 3600)]
    total: u64,
    /// Only tests whose full name contains this.
    #[arg(long, default_value = "")]
    filter: String,
    /// On the simulated driver, to try the runner itself where there is no GPU.
    #[arg(long)]
    simulated: bool,
}

/// The arguments of the runner inside a bundle.
#[derive(clap::Parser)]
#[command(name = "run.sh", about = "Runs a bundle on this machine's GPU")]
pub(crate) struct BundleOptions {
    /// The bundle's folder.
    #[arg(long)]
    bundle: PathBuf,
    #[command(flatten)]
    options: Options,
    /// What to run: tests, benches, or the name of a program; tests and all programs if none is given.
    parts: Vec<String>,
}

/// `bundle.json`: what the bundle holds, files relative to it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contents {
    pub(crate) tests: Vec<Binary>,
    pub(crate) benches: Vec<Binary>,
    pub(crate) programs: Vec<Program>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// A package whose tests aren't run on a GPU.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    pub(crate) package: String,
    pub(crate) reason: String,
}

/// A program that is run once and passes if it exits with 0.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) arguments: Vec<String>,
}

/// Stands in a program's arguments for the day on which it is run.
pub(crate) const TODAY: &str = "@TODAY@";
/// Stands there for the driver: `real` or `sim`.
pub(crate) const DRIVER: &str = "@DRIVER@";

/// Seconds for a program, which does more than a test.
const PROGRAM_LIMIT: u64 = 900;

/// The name of the file with the contents.
pub(crate) const CONTENTS: &str = "bundle.json";

/// `cargo xtask gpu-test`.
pub(crate) fn test_here(options: &Options) -> Result<ExitCode> {
    let Some(gpu) = options.gpu() else { return Ok(no_gpu()) };
    let tests = bundle::test_binaries()?;
    let out = options.out.clone().unwrap_or_else(|| workspace::target().join("gpu-test"));
    let mut cases = harness::run_all(&tests, &options.limits())?;
    cases.extend(bundle::left_out().iter().map(harness::Case::of_left_out));
    finish(&out, &gpu, &cases)
}

/// `run.sh` of a bundle.
pub(crate) fn run_bundle(options: &BundleOptions) -> Result<ExitCode> {
    let Some(gpu) = options.options.gpu() else { return Ok(no_gpu()) };
    let folder = fs::canonicalize(&options.bundle)
        .map_err(|e| format!("{}: {e}", options.bundle.display()))?;
    let file = folder.join(CONTENTS);
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let contents: Contents =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let out = options.options.out.clone().unwrap_or_else(|| folder.join("results"));
    fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;

    let wanted = |part: &str| options.parts.iter().any(|wanted| wanted == part);
    let all = options.parts.is_empty();
    let mut cases = Vec::new();
    for program in contents.programs.iter().filter(|program| all || wanted(&program.name)) {
        cases.push(run_program(&folder, program, &out, options.options.driver())?);
    }
    if all || wanted("tests") {
        let tests: Vec<Binary> = contents.tests.iter().map(|test| test.under(&folder)).collect();
        cases.extend(harness::run_all(&tests, &options.options.limits())?);
        cases.extend(contents.left_out.iter().map(harness::Case::of_left_out));
    }
    if wanted("benches") {
        for bench in &contents.benches {
            run_bench(&bench.under(&folder), &out, &gpu, options.options.driver())?;
        }
    }
    finish(&out, &gpu, &cases)
}

fn no_gpu() -> ExitCode {
    println!("no NVIDIA GPU on this machine: nothing was run");
    ExitCode::from(NO_GPU)
}

fn finish(out: &Path, gpu: &device::Gpu, cases: &[harness::Case]) -> Result<ExitCode> {
    let report = report::Report::new(gpu, cases);
    report.write(out)?;
    println!("{}", report.text());
    println!("reports: {}", out.display());
    Ok(if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Options {
    fn gpu(&self) -> Option<device::Gpu> {
        if self.simulated { Some(device::Gpu::simulated()) } else { device::find() }
    }

    /// What the environment says of the driver.
    fn driver(&self) -> &'static str {
        if self.simulated { "sim" } else { "real" }
    }

    fn limits(&self) -> harness::Limits {
        harness::Limits {
            jobs: self.jobs.max(1),
            each: Duration::from_secs(self.limit),
            all: Duration::from_secs(self.total),
            filter: self.filter.clone(),
            driver: self.driver(),
        }
    }
}

/// Runs a program in the folder of the reports; its output is kept there.
fn run_program(
    folder: &Path,
    program: &Program,
    out: &Path,
    driver: &str,
) -> Result<harness::Case> {
    let today = date::today();
    let mut command = Command::new(folder.join(&program.file));
    let fill_in = |argument: &String| argument.replace(TODAY, &today).replace(DRIVER, driver);
    command.args(program.arguments.iter().map(fill_in));
    command.env("CUHOLD_DRIVER", driver).current_dir(out);
    let ran = process::run(&mut command, Duration::from_secs(PROGRAM_LIMIT))?;
    print!("{}", ran.stdout);
    let file = out.join(format!("{}.txt", program.name));
    fs::write(&file, format!("{}{}", ran.stdout, ran.stderr))
        .map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(harness::Case::of_program(&program.name, &ran))
}

/// Runs one bench binary. Its lines for `bench-report` go to one file, which begins with a line about the machine.
fn run_bench(bench: &Binary, out: &Path, gpu: &device::Gpu, driver: &str) -> Result<()> {
    let lines = out.join("bench.jsonl");
    if !lines.exists() {
        let head = serde_json::json!({ "machine": gpu.name(), "driver": gpu.driver, "date": date::today() });
        fs::write(&lines, format!("{head}\n")).map_err(|e| format!("{}: {e}", lines.display()))?;
    }
    println!("bench {}", bench.name);
    workspace::run(
        Command::new(&bench.file)
            .arg("--bench")
            .env("CUHOLD_DRIVER", driver)
            .env("CUHOLD_TEST_DRIVER", driver)
            .env("CUHOLD_BENCH_OUT", &lines)
            .current_dir(out),
    )
}
