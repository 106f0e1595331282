//! `cargo xtask figures`: the project's figures, each read from the code by a parser or taken from a test run.
//!
//! Counts of driver calls and allocations come from tests: one whose name contains `exact_counts` prints lines
//! `figure NAME: VALUE`, and asserts the value, too. Nothing is typed in here but the names.

use crate::{
    Result, list,
    mutants::{self, Score},
    resources,
    tally::Tally,
    tidy::{self, unsafety},
    workspace,
};
use std::collections::BTreeMap;

/// What tests have to print.
const FROM_TESTS: &[&str] = &[
    "driver_calls_per_launch",
    "heap_allocations_per_launch",
    "driver_calls_per_stream_create",
    "driver_calls_per_pool_alloc",
    "driver_calls_per_pool_free",
    "driver_calls_per_cached_alloc",
    "heap_allocations_per_cached_alloc",
    "operations_public",
    "operations_enumerated",
    "operations_exempt",
    "faults_single",
    "faults_pairs",
    "policy_violations",
    "planted_faults",
    "planted_found",
    "correct_programs",
    "false_alarms",
];

/// Those of them that several tests print a part of: they are added up.
const ADDED_UP: &[&str] = &[
    "operations_public",
    "operations_enumerated",
    "operations_exempt",
    "faults_single",
    "faults_pairs",
    "policy_violations",
];

/// Prints every figure; an error names those that nothing gave.
pub(crate) fn run() -> Result<()> {
    let mut command = workspace::cargo(&["test", "--workspace", "--quiet"]);
    let (output, done) = workspace::tee(&mut command, |_| {})?;
    if done.is_err() {
        eprint!("{output}");
    }
    done?;
    print(Tally::of(&output), None)
}

/// Prints every figure, given the outcome of `cargo test --workspace`, and that of the mutants where they ran already.
pub(crate) fn print(tests: Tally, mutants: Option<Score>) -> Result<()> {
    let root = workspace::root();
    println!("functions_listed: {}", list::read(&root.join("crates/driver-sys/src/list"))?.len());
    for (name, value) in simulated()? {
        println!("{name}: {value}");
    }
    println!("resource_types: {}", resources::count(&root)?);
    println!("tests_passed: {}", tests.passed);
    println!("{}", mutants.map_or_else(mutants::count, Ok)?);
    from_sources()?;
    let printed = from_tests()?;
    for (name, value) in &printed {
        println!("{name}: {value}");
    }
    let missing: Vec<&str> =
        FROM_TESTS.iter().copied().filter(|name| !printed.contains_key(*name)).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("no test printed: {}", missing.join(", ")))
    }
}

/// What the probes' program counts.
const FROM_PROBES: [&str; 4] =
    ["functions_simulated", "facts_compared", "facts_agree", "capture_matrix_cells"];

/// Has the probes' program count what the simulated driver answers as a real one did.
fn simulated() -> Result<Vec<(&'static str, u32)>> {
    let mut command = workspace::cargo(&["run", "--quiet", "-p", "cuhold-facts", "--bin", "facts"]);
    let output = workspace::output(command.args(["--", "--count"]))?;
    let counted = FROM_PROBES.into_iter().map(|name| {
        let line = output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let count = line.and_then(|count| count.trim().parse().ok());
        count
            .map(|count| (name, count))
            .ok_or_else(|| format!("the probes' program said nothing of {name}: {output}"))
    });
    counted.collect()
}

fn from_sources() -> Result<()> {
    let (mut long, mut blocks, mut argued) = (0u32, 0u32, 0u32);
    for source in workspace::sources()?.iter().filter(|source| source.is_rust()) {
        long += u32::from(tidy::is_too_long(source));
        for claim in unsafety::claims(source)? {
            if claim.kind == unsafety::Kind::Block {
                blocks += 1;
                argued += u32::from(claim.argued);
            }
        }
    }
    println!("files_over_{}_lines: {long}", tidy::LINES_AT_MOST);
    println!("unsafe_blocks: {blocks}");
    println!("unsafe_blocks_argued: {argued}");
    Ok(())
}

/// Runs the tests that print figures.
fn from_tests() -> Result<BTreeMap<String, String>> {
    let mut command =
        workspace::cargo(&["test", "--workspace", "--quiet", "--lib", "--bins", "--tests"]);
    command.args(["exact_counts", "--", "--nocapture"]);
    read(&workspace::output(&mut command)?)
}

/// The lines `figure NAME: VALUE`, wherever they begin: the test harness may have written something before. A figure
/// printed twice with two values is an error, unless it is one that is added up.
fn read(output: &str) -> Result<BTreeMap<String, String>> {
    let mut figures = BTreeMap::new();
    for line in output.lines() {
        let Some((_, figure)) = line.split_once("figure ") else { continue };
        let Some((name, value)) = figure.split_once(": ") else { continue };
        let value = value.trim();
        if ADDED_UP.contains(&name) {
            add(&mut figures, name, value)?;
            continue;
        }
        if value.parse::<f64>().is_err() {
            return Err(format!("figure {name}: {value} isn't a number"));
        }
        match figures.insert(name.to_owned(), value.to_owned()) {
            Some(other) if other != value => {
                return Err(format!("figure {name} was printed as {other} and as {value}"));
            }
            _ => {}
        }
    }
    Ok(figures)
}

/// Adds a part to a figure.
fn add(figures: &mut BTreeMap<String, String>, name: &str, value: &str) -> Result<()> {
    let part: u64 = value.parse().map_err(|e| format!("figure {name}: {value}: {e}"))?;
    let sum = figures.entry(name.to_owned()).or_insert_with(|| "0".to_owned());
    let so_far: u64 = sum.parse().map_err(|e| format!("figure {name}: {sum}: {e}"))?;
    *sum = (so_far + part).to_string();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_anywhere_in_a_line() {
        let figures =
            read("test a ... figure calls: 3\nok\nfigure bytes: 0\nfigure bytes: 0\n").unwrap();
        assert_eq!(figures.get("calls").map(String::as_str), Some("3"));
        assert_eq!(figures.get("bytes").map(String::as_str), Some("0"));
        assert_eq!(figures.len(), 2);
    }

    #[test]
    fn parts_of_a_figure_are_added_up() {
        let figures = read("figure faults_pairs: 3\nfigure faults_pairs: 3\n").unwrap();
        assert_eq!(figures.get("faults_pairs").map(String::as_str), Some("6"));
        assert!(read("figure faults_pairs: many\n").is_err());
    }

    #[test]
    fn two_values_or_no_number_are_errors() {
        assert!(read("figure calls: 3\nfigure calls: 4\n").is_err());
        assert!(read("figure calls: three\n").is_err());
    }
}
