//! Everything that the project does to itself, as `cargo xtask COMMAND`.
//!
//! Start reading at `ci`: it runs most of the rest. Rules that hold for every file are in `tidy`, the run on a GPU
//! is `bundle` here and `gpu` there. The code generator is a workspace of its own (`xtask/codegen`), because it
//! alone needs bindgen.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod bench_report;
mod bundle;
mod ci;
mod codegen;
mod cudarc_tests;
mod date;
mod figures;
mod gpu;
mod libcuda_sim;
#[expect(dead_code, reason = "the code generator shares this file and alone reads arguments")]
mod list;
mod mutants;
mod process;
mod resources;
mod sanitize;
mod tally;
mod tidy;
mod walk;
mod wheels;
mod workspace;

use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

/// What went wrong, said to whoever started the command.
type Result<T> = std::result::Result<T, String>;

/// Exit status of a command that needs a GPU where there is none.
const NO_GPU: u8 = 2;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own tasks")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// All checks, in order; stops at the first that fails.
    Ci(ci::Options),
    /// The rules that no lint covers: module docs, sizes, SAFETY comments, words, layers, the map.
    Tidy,
    /// Fetches the CUDA headers, makes the C types and compares the function list with the headers.
    Codegen {
        /// Compares with what is committed instead of writing.
        #[arg(long)]
        check: bool,
    },
    /// The probes: takes a reading of a driver, or compares two; arguments go to the program.
    Facts {
        /// Arguments of `facts`; `--help` says what there is.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Builds the simulated driver as a shared library, under the names by which programs look for a driver.
    LibcudaSim(libcuda_sim::Options),
    /// Runs cudarc's own tests, from its published package, on that library.
    CudarcTests,
    /// Takes mechanisms of the failure policy out, one at a time, and sees whether a test notices.
    Mutants,
    /// The tests under the address and thread sanitizers, and under Miri what it can take.
    Sanitize(sanitize::Options),
    /// The project's figures, one `name: value` per line, each read from code or from a test run.
    Figures,
    /// A folder for a GPU host that has no Rust: stripped tests, benches, examples and `run.sh`.
    Bundle {
        /// Where to.
        #[arg(long, default_value = "bundle")]
        out: PathBuf,
    },
    /// Every test on this machine's GPU, a process per test; exits with 2 where there is no GPU.
    GpuTest(gpu::Options),
    /// NVIDIA's Python packages `cuda-bindings` and `cuda-core`, step by step, on the simulated driver or a real one.
    Walk(walk::Options),
    /// A table and a plot from the lines that the benches wrote.
    BenchReport(bench_report::Options),
}

/// `cargo xtask`.
#[must_use]
pub fn xtask() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Ci(options) => ci::run(&options),
        Task::Tidy => tidy::run(),
        Task::Codegen { check } => codegen::run(check),
        Task::Facts { arguments } => facts(&arguments),
        Task::LibcudaSim(options) => libcuda_sim::run(&options),
        Task::CudarcTests => cudarc_tests::run().map(drop),
        Task::Mutants => mutants::run().map(drop),
        Task::Sanitize(options) => sanitize::run(&options),
        Task::Figures => figures::run(),
        Task::Bundle { out } => bundle::run(&out),
        Task::GpuTest(options) => return status(gpu::test_here(&options)),
        Task::Walk(options) => walk::run(&options),
        Task::BenchReport(options) => bench_report::run(&options),
    };
    status(done.map(|()| ExitCode::SUCCESS))
}

/// The runner inside a bundle, started by its `run.sh`.
#[must_use]
pub fn gpu_run() -> ExitCode {
    status(gpu::run_bundle(&gpu::BundleOptions::parse()))
}

fn facts(arguments: &[String]) -> Result<()> {
    let mut command =
        workspace::cargo(&["run", "--quiet", "-p", "cuhold-facts", "--bin", "facts", "--"]);
    workspace::run(command.args(arguments))
}

fn status(done: Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|message| {
        eprintln!("error: {message}");
        ExitCode::FAILURE
    })
}
