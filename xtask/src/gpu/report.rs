//! What a run on a GPU gave: as text for people, as JSON, and as JUnit for machines.

use super::{
    device::Gpu,
    harness::{Case, Outcome},
};
use crate::{Result, date};
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

/// The cases of one run with the machine they ran on.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    gpu: String,
    driver: String,
    date: String,
    cases: &'a [Case],
}

/// How many cases ended how.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    passed: usize,
    failed: usize,
    skipped: usize,
    seconds: f64,
}

impl Row {
    fn add(&mut self, case: &Case) {
        match case.outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed { .. } => self.failed += 1,
            Outcome::Skipped { .. } => self.skipped += 1,
        }
        self.seconds += case.seconds;
    }

    fn line(self, name: &str) -> String {
        format!(
            "{name:<40} {:>6} {:>6} {:>7} {:>8.1}",
            self.passed, self.failed, self.skipped, self.seconds
        )
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(gpu: &Gpu, cases: &'a [Case]) -> Self {
        Self { gpu: gpu.name(), driver: gpu.driver.clone(), date: date::today(), cases }
    }

    pub(super) fn failed(&self) -> usize {
        self.total().failed
    }

    fn total(&self) -> Row {
        let mut row = Row::default();
        self.cases.iter().for_each(|case| row.add(case));
        row
    }

    /// Writes `report.txt`, `report.json` and `junit.xml`.
    pub(super) fn write(&self, out: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
        for (name, text) in
            [("report.txt", self.text()), ("report.json", json), ("junit.xml", self.junit())]
        {
            let file = out.join(name);
            fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        Ok(())
    }

    fn by_binary(&self) -> BTreeMap<&str, Vec<&Case>> {
        let mut binaries: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
        for case in self.cases {
            binaries.entry(&case.binary).or_default().push(case);
        }
        binaries
    }

    /// The table, then every failure with its output, then the skipped ones by reason.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![
            format!("{}, driver {}, {}", self.gpu, self.driver, self.date),
            String::new(),
            format!(
                "{:<40} {:>6} {:>6} {:>7} {:>8}",
                "binary", "pass", "fail", "skipped", "seconds"
            ),
        ];
        for (binary, cases) in self.by_binary() {
            let mut row = Row::default();
            cases.iter().for_each(|case| row.add(case));
            lines.push(row.line(binary));
        }
        lines.push(self.total().line("all"));
        let mut skipped: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for case in self.cases {
            let name = format!("{}::{}", case.binary, case.test);
            match &case.outcome {
                Outcome::Failed { why, output } => {
                    lines.push(format!("\nFAILED {name}: {why}"));
                    lines.extend(output.lines().map(|line| format!("    {line}")));
                }
                Outcome::Skipped { reason } => skipped.entry(reason).or_default().push(name),
                Outcome::Passed => {}
            }
        }
        for (reason, names) in skipped {
            lines.push(format!("\nskipped, {}, because {reason}", names.len()));
            lines.extend(names.iter().map(|name| format!("    {name}")));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    fn junit(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        for (binary, cases) in self.by_binary() {
            let mut row = Row::default();
            cases.iter().for_each(|case| row.add(case));
            line(
                &mut xml,
                format_args!(
                    "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
                    escape(binary),
                    cases.len(),
                    row.failed,
                    row.skipped,
                    row.seconds
                ),
            );
            for case in cases {
                let inner = match &case.outcome {
                    Outcome::Passed => String::new(),
                    Outcome::Failed { why, output } => {
                        format!("<failure message=\"{}\">{}</failure>", escape(why), escape(output))
                    }
                    Outcome::Skipped { reason } => {
                        format!("<skipped message=\"{}\"/>", escape(reason))
                    }
                };
                let (name, seconds) = (escape(&case.test), case.seconds);
                line(
                    &mut xml,
                    format_args!(
                        "<testcase classname=\"{}\" name=\"{name}\" time=\"{seconds:.3}\">{inner}</testcase>",
                        escape(binary)
                    ),
                );
            }
            xml.push_str("</testsuite>\n");
        }
        xml.push_str("</testsuites>\n");
        xml
    }
}

/// Writing to a string doesn't fail.
fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    let written = writeln!(text, "{line}");
    debug_assert!(written.is_ok());
}

/// Text for XML 1.0: marks replaced, control characters (which it can't hold at all) left out.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> Vec<Case> {
        let case = |test: &str, outcome| Case {
            binary: "cuhold::it".to_owned(),
            test: test.to_owned(),
            outcome,
            seconds: 0.5,
        };
        vec![
            case("a", Outcome::Passed),
            case(
                "b",
                Outcome::Failed {
                    why: "signal: 11".to_owned(),
                    output: "x < \"y\"\u{1b}\nz".to_owned(),
                },
            ),
            case("c", Outcome::Skipped { reason: "one device".to_owned() }),
        ]
    }

    #[test]
    fn the_text_has_counts_failures_with_output_and_reasons() {
        let cases = cases();
        let text = Report::new(&Gpu::for_test(&["G"]), &cases).text();
        assert!(text.starts_with("G, driver 1.2.3, "), "{text}");
        let row = text.lines().find(|line| line.starts_with("all")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["all", "1", "1", "1", "1.5"]);
        assert!(text.contains("FAILED cuhold::it::b: signal: 11\n    x < "), "{text}");
        assert!(text.contains("skipped, 1, because one device\n    cuhold::it::c"), "{text}");
    }

    #[test]
    fn the_junit_file_is_escaped_and_counts_right() {
        let cases = cases();
        let xml = Report::new(&Gpu::for_test(&["G"]), &cases).junit();
        assert!(xml.contains("tests=\"3\" failures=\"1\" skipped=\"1\" time=\"1.500\""), "{xml}");
        assert!(
            xml.contains("<failure message=\"signal: 11\">x &lt; &quot;y&quot;\nz</failure>"),
            "{xml}"
        );
        assert!(xml.contains("<skipped message=\"one device\"/>"), "{xml}");
    }

    #[test]
    fn the_json_file_holds_outcome_and_reason_as_data() {
        let cases = cases();
        let json = serde_json::to_value(Report::new(&Gpu::for_test(&["G"]), &cases)).unwrap();
        assert_eq!(json["cases"][2]["outcome"], "skipped");
        assert_eq!(json["cases"][2]["reason"], "one device");
        assert_eq!(json["cases"][1]["why"], "signal: 11");
    }
}
