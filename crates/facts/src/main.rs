//! `facts`: takes a reading of a driver, compares two, or counts what the simulated driver has.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, ValueEnum};
use cuhold_facts::{
    Export, Plan, Reading, Target, agreed, agreement, answer_alone, columns, committed, compare,
    describe_alone, export_alone,
};

/// What a CUDA driver answers, asked of any driver.
#[derive(Parser, Debug)]
#[command(version)]
struct Arguments {
    /// Whose answers to take.
    #[arg(long, value_enum)]
    driver: Option<Driver>,
    /// The real driver's file; without it, wherever it is found.
    #[arg(long)]
    libcuda: Option<PathBuf>,
    /// Where the reading goes; without it, to standard output.
    #[arg(long)]
    out: Option<PathBuf>,
    /// The day, written into the reading.
    #[arg(long, default_value = "unknown")]
    date: String,
    /// How many questions are asked at once.
    #[arg(long, default_value_t = 8)]
    at_once: usize,
    /// Asks the simulated driver, too, in a process for each question.
    #[arg(long)]
    in_processes: bool,
    /// Only questions whose name holds this text.
    #[arg(long)]
    only: Option<String>,
    /// Compares two readings: what differs, then how many functions agree. Fails if anything differs. Without files,
    /// compares what the driver answers now with the committed reading of a real one.
    #[arg(long, num_args = 0..=2, value_names = ["FIRST", "SECOND"])]
    compare: Option<Vec<PathBuf>>,
    /// Says what a reading shows of the list's capture and context columns, and marks where the list says otherwise.
    #[arg(long, value_name = "READING")]
    columns: Option<PathBuf>,
    /// Says how many functions the simulated driver has, by the committed reading, and how many questions and cells of
    /// captures were compared.
    #[arg(long)]
    count: bool,
    /// Asks one question in this process.
    #[arg(long, hide = true)]
    probe: Option<String>,
    /// Asks in this process who the driver is.
    #[arg(long, hide = true)]
    describe: bool,
    /// Exports something to the process that started this one, and waits for its end.
    #[arg(long, hide = true, value_enum)]
    export: Option<Export>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Driver {
    Sim,
    Real,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            // There is no better place to say it, and none to say that this failed.
            drop(writeln!(io::stderr(), "facts: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    if let Some(name) = &arguments.probe {
        drop(out);
        answer_alone(&target(arguments)?, name)?;
    } else if arguments.describe {
        drop(out);
        describe_alone(&target(arguments)?)?;
    } else if let Some(what) = arguments.export {
        drop(out);
        export_alone(&target(arguments)?, what)?;
    } else if let Some(files) = &arguments.compare {
        return match files.as_slice() {
            [] => compare_now(arguments, &mut out),
            [first, second] => {
                write_comparison(&Reading::load(first)?, &Reading::load(second)?, &mut out)
            }
            _ => Err(io::Error::other("a file is compared with another: name two, or none")),
        };
    } else if let Some(path) = &arguments.columns {
        write_columns(&Reading::load(path)?, &mut out)?;
    } else if arguments.count {
        let counted = agreement()?;
        writeln!(out, "functions_simulated: {}", counted.functions.len())?;
        writeln!(out, "facts_compared: {}", counted.compared)?;
        writeln!(out, "facts_agree: {}", counted.agree)?;
        writeln!(out, "capture_matrix_cells: {}", counted.capture_cells)?;
    } else {
        let text = take(arguments)?.to_json()?;
        match &arguments.out {
            Some(path) => fs::write(path, text)?,
            None => out.write_all(text.as_bytes())?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn target(arguments: &Arguments) -> io::Result<Target> {
    match arguments.driver {
        Some(Driver::Sim) => Ok(Target::Sim),
        Some(Driver::Real) => Ok(Target::Real(arguments.libcuda.clone())),
        None => Err(io::Error::other("nothing to do; --help says what there is")),
    }
}

fn take(arguments: &Arguments) -> io::Result<Reading> {
    let mut plan = Plan::simulated();
    plan.target = target(arguments)?;
    plan.in_processes = arguments.in_processes;
    plan.at_once = arguments.at_once;
    plan.only.clone_from(&arguments.only);
    plan.date.clone_from(&arguments.date);
    plan.take()
}

/// Compares a driver with the committed reading, as far as that was asked the same.
fn compare_now(arguments: &Arguments, out: &mut impl io::Write) -> io::Result<ExitCode> {
    let (mut now, mut committed) = (take(arguments)?, committed()?);
    if let Some(text) = &arguments.only {
        committed.answers.retain(|question, _| question.contains(text.as_str()));
    }
    let asked = now.answers.len();
    now.answers.retain(|question, _| committed.answer(question).is_some());
    writeln!(out, "questions added after the reading: {}", asked - now.answers.len())?;
    write_comparison(&now, &committed, out)
}

fn write_comparison(
    first: &Reading,
    second: &Reading,
    out: &mut impl io::Write,
) -> io::Result<ExitCode> {
    let differences = compare(first, second);
    for difference in &differences {
        writeln!(out, "{difference}")?;
    }
    writeln!(out, "answers: {} and {}", first.answers.len(), second.answers.len())?;
    writeln!(out, "differences: {}", differences.len())?;
    writeln!(out, "functions_agreed: {}", agreed(first, second).len())?;
    Ok(if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_columns(reading: &Reading, out: &mut impl io::Write) -> io::Result<()> {
    for column in columns(reading) {
        let listed = column.function.columns;
        let capture = format!("{:?}", listed.capture).to_lowercase();
        let mark = if capture == column.capture { "" } else { "   <- the list says " };
        let said = if mark.is_empty() { "" } else { capture.as_str() };
        writeln!(
            out,
            "{:<52} {:<10} {:<28} (list: {:?}){mark}{said}",
            column.function.name, column.capture, column.context, listed.context
        )?;
    }
    Ok(())
}
