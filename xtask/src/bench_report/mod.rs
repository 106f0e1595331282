//! `cargo xtask bench-report FILE…`: a page with a table and a plot from the lines that benches wrote.
//!
//! A line is a JSON object. The first of a run tells about the machine: `machine`, `driver`, `date`. Each other one is a
//! measurement: `bench` (what was done), `subject` (by whom: `raw`, `cuhold`, `cudarc`, …), `min_ns`, `median_ns`,
//! `max_ns`, and `samples`. Subjects of one bench are measured in turn within one run, so that they may be compared. One of
//! several `threads` has tables and a plot apart.

mod plot;
mod threads;

use crate::{Result, date, workspace};
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Which lines, and what they don't say themselves.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Files of lines.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The machine, where the lines don't name it.
    #[arg(long)]
    machine: Option<String>,
    /// Where the page goes.
    #[arg(long, default_value = "docs/benchmarks")]
    out: PathBuf,
}

/// The subject that others are compared with.
const BASELINE: &str = "raw";

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Measurement {
    bench: String,
    subject: String,
    #[serde(default)]
    threads: Option<u32>,
    min_ns: f64,
    median_ns: f64,
    max_ns: f64,
    samples: u32,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Machine {
    machine: String,
    driver: String,
    date: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Machine(Machine),
    Measurement(Measurement),
}

/// A bench with what each subject took, in the order of the lines.
#[derive(Debug, PartialEq)]
struct Bench {
    name: String,
    measurements: Vec<Measurement>,
}

/// Reads the lines, writes the page and its plot.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut text = String::new();
    for file in &options.files {
        text.push_str(&fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?);
        text.push('\n');
    }
    let Lines { machine, benches, on_threads } = read(&text)?;
    let mut machine =
        machine.unwrap_or_else(|| Machine { date: date::today(), ..Machine::default() });
    if let Some(name) = &options.machine {
        machine.machine.clone_from(name);
    }
    if machine.machine.is_empty() {
        return Err("no line names the machine: give --machine".to_owned());
    }
    let name = format!("{}-{}", machine.date, file_name(&machine.machine));
    let out = workspace::root().join(&options.out);
    let mut page = heading(&machine);
    if !benches.is_empty() {
        let picture = format!("{name}.svg");
        write(&out, &picture, &plot::svg(&benches))?;
        page.extend(table(&benches, &picture));
    }
    if !on_threads.is_empty() {
        let picture = format!("{name}-threads.svg");
        write(&out, &picture, &threads::svg(&on_threads))?;
        page.extend(threads::tables(&on_threads));
        page.extend([String::new(), format!("![throughput over threads, medians]({picture})")]);
    }
    page.push(String::new());
    write(&out, &format!("{name}.md"), &page.join("\n"))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let file = folder.join(name);
    let made = fs::create_dir_all(folder).and_then(|()| fs::write(&file, text));
    made.map_err(|e| format!("{}: {e}", file.display()))?;
    println!("{}", file.display());
    Ok(())
}

/// What the lines say.
#[derive(Debug, Default)]
struct Lines {
    machine: Option<Machine>,
    benches: Vec<Bench>,
    /// Those of several threads.
    on_threads: Vec<threads::Bench>,
}

impl Lines {
    /// A later measurement of the same thing replaces an earlier one.
    fn add(&mut self, measurement: Measurement) {
        let named = |name: &String| *name == measurement.bench;
        let Some(number) = measurement.threads else {
            if !self.benches.iter().any(|bench| named(&bench.name)) {
                let name = measurement.bench.clone();
                self.benches.push(Bench { name, measurements: Vec::new() });
            }
            if let Some(bench) = self.benches.iter_mut().find(|bench| named(&bench.name)) {
                bench.measurements.retain(|other| other.subject != measurement.subject);
                bench.measurements.push(measurement);
            }
            return;
        };
        if !self.on_threads.iter().any(|bench| named(&bench.name)) {
            let name = measurement.bench.clone();
            self.on_threads.push(threads::Bench { name, measurements: Vec::new() });
        }
        if let Some(bench) = self.on_threads.iter_mut().find(|bench| named(&bench.name)) {
            let same =
                |(n, m): &(u32, Measurement)| *n == number && m.subject == measurement.subject;
            bench.measurements.retain(|other| !same(other));
            bench.measurements.push((number, measurement));
        }
    }
}

/// A later line about the machine replaces an earlier one.
fn read(text: &str) -> Result<Lines> {
    let mut lines = Lines::default();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let measurement =
            match serde_json::from_str(line).map_err(|e| format!("line {number}: {e}"))? {
                Line::Machine(found) => {
                    lines.machine = Some(found);
                    continue;
                }
                Line::Measurement(measurement) => measurement,
            };
        let Measurement { min_ns, median_ns, max_ns, .. } = measurement;
        if !(min_ns >= 0.0 && min_ns <= median_ns && median_ns <= max_ns) {
            return Err(format!("line {number}: not 0 <= min <= median <= max"));
        }
        if measurement.threads == Some(0) {
            return Err(format!("line {number}: on no threads"));
        }
        lines.add(measurement);
    }
    let is_empty = lines.benches.is_empty() && lines.on_threads.is_empty();
    if is_empty { Err("no measurements".to_owned()) } else { Ok(lines) }
}

/// Letters and digits in lower case, everything else a dash.
fn file_name(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

fn heading(machine: &Machine) -> Vec<String> {
    vec![
        format!("# Benchmarks, {}, {}", machine.machine, machine.date),
        String::new(),
        format!("Machine: {}. Driver: {}.", machine.machine, or_unknown(&machine.driver)),
        "Subjects of one bench were measured in turn within one run.".to_owned(),
    ]
}

fn table(benches: &[Bench], plot: &str) -> Vec<String> {
    let mut lines = vec![
        format!(
            "Times are nanoseconds per operation; *over {BASELINE}* and *ratio* (of medians) compare with the raw \
             driver call through a function pointer."
        ),
        String::new(),
        format!(
            "| bench | subject | min | median | max | min over {BASELINE} | median over {BASELINE} | ratio | samples |"
        ),
        "|---|---|---:|---:|---:|---:|---:|---:|---:|".to_owned(),
    ];
    for bench in benches {
        let raw = bench.measurements.iter().find(|m| m.subject == BASELINE);
        lines.extend(bench.measurements.iter().map(|m| row(m, raw)));
    }
    lines.extend([
        String::new(),
        format!("![medians, with lines from minimum to maximum, cut at the scale's end]({plot})"),
    ]);
    lines
}

fn row(m: &Measurement, raw: Option<&Measurement>) -> String {
    let over = raw.filter(|raw| raw.subject != m.subject).map(|raw| {
        let (min, median) = (m.min_ns - raw.min_ns, m.median_ns - raw.median_ns);
        format!("{} | {} | {:.3}", signed(min), signed(median), m.median_ns / raw.median_ns)
    });
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |",
        m.bench,
        m.subject,
        plain(m.min_ns),
        plain(m.median_ns),
        plain(m.max_ns),
        over.as_deref().unwrap_or(" | | "),
        m.samples
    )
}

/// Tenths where they say something.
fn plain(ns: f64) -> String {
    if ns.abs() < 10_000.0 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

fn signed(ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { "" } else { "+" }, plain(ns))
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "not said" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"
{"machine":"NVIDIA H200","driver":"580.1","date":"2026-01-31"}
{"bench":"launch","subject":"raw","min_ns":1900,"median_ns":2000.5,"max_ns":2500,"samples":20}
{"bench":"launch","subject":"cuhold","min_ns":1905,"median_ns":2006,"max_ns":2400,"samples":20}
{"bench":"record","subject":"cuhold","min_ns":1,"median_ns":2,"max_ns":3,"samples":20}
"#;

    #[test]
    fn lines_become_benches_in_their_order() {
        let lines = read(LINES).unwrap();
        assert_eq!(lines.machine.unwrap().machine, "NVIDIA H200");
        let names: Vec<_> =
            lines.benches.iter().map(|b| (b.name.as_str(), b.measurements.len())).collect();
        assert_eq!(names, [("launch", 2), ("record", 1)]);
        assert!(lines.on_threads.is_empty());
    }

    #[test]
    fn what_was_measured_on_threads_stands_apart_and_a_later_line_replaces_an_earlier_one() {
        let line = r#"{"bench":"launch","subject":"raw","threads":4,"min_ns":1,"median_ns":2,"max_ns":3,"samples":20}"#;
        let later = line.replace("\"median_ns\":2", "\"median_ns\":2.5");
        let lines = read(&[LINES, line, &later].join("\n")).unwrap();
        assert_eq!(lines.benches.len(), 2);
        let [bench] = &lines.on_threads[..] else { panic!("one bench") };
        let [(4, m)] = &bench.measurements[..] else { panic!("one measurement: {bench:?}") };
        assert_eq!(m.median_ns.to_string(), "2.5");
        assert!(read(&line.replace(":4", ":0")).unwrap_err().starts_with("line 1"));
    }

    #[test]
    fn the_table_has_the_difference_to_raw_where_there_is_a_raw_one() {
        let table = table(&read(LINES).unwrap().benches, "x.svg").join("\n");
        assert!(
            table.contains(
                "| launch | cuhold | 1905.0 | 2006.0 | 2400.0 | +5.0 | +5.5 | 1.003 | 20 |"
            ),
            "{table}"
        );
        assert!(table.contains("| record | cuhold | 1.0 | 2.0 | 3.0 |  | |  | 20 |"), "{table}");
    }

    #[test]
    fn what_is_not_a_measurement_is_an_error_with_its_line() {
        assert!(read("{\"bench\":\"launch\"}").unwrap_err().starts_with("line 1:"));
        let wrong = LINES.replace("\"min_ns\":1900", "\"min_ns\":2100");
        assert!(read(&wrong).unwrap_err().starts_with("line 3:"));
        assert!(read("").is_err());
    }

    #[test]
    fn a_machine_becomes_a_file_name() {
        assert_eq!(file_name("2 x NVIDIA H200 (SXM)"), "2-x-nvidia-h200-sxm");
    }
}
