//! `docs/scenarios.md` tells the truth: each test that it names exists, each scenario stands in it once, and each row says
//! which tests show it, or that it is open, or why it isn't covered.

use super::Finding;
use crate::workspace::Source;
use std::collections::BTreeSet;

const TABLE: &str = "docs/scenarios.md";

/// What is wrong with the table.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    match sources.iter().find(|source| source.path == TABLE) {
        Some(table) => compare(&table.text, &tests(sources)),
        None => vec![Finding::new(TABLE, 0, "isn't there")],
    }
}

/// Every test of every crate: `FOLDER::MODULE::NAME`, where the folder is the crate's under `crates/`.
fn tests(sources: &[Source]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for source in sources {
        let Some(module) = module(&source.path) else { continue };
        let mut is_test = false;
        for line in source.text.lines().map(str::trim_start) {
            match line.strip_prefix("fn ").and_then(|rest| rest.split_once('(')) {
                Some((name, _)) if is_test => _ = found.insert(format!("{module}::{name}")),
                _ => {}
            }
            // Between the mark and the function stand attributes and comments.
            is_test =
                line == "#[test]" || is_test && (line.starts_with("#[") || line.starts_with("//"));
        }
    }
    found
}

/// The module of a file of a test binary: `handles::scope::run` of `crates/handles/tests/it/scope/run.rs`.
fn module(path: &str) -> Option<String> {
    let (folder, file) = path.strip_prefix("crates/")?.split_once("/tests/it/")?;
    let file = file.strip_suffix(".rs")?;
    let file = file.strip_suffix("/mod").unwrap_or(file);
    Some(format!("{folder}::{}", file.replace('/', "::")))
}

fn compare(table: &str, tests: &BTreeSet<String>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (number, line) in (1..).zip(table.lines()) {
        let mut say = |what: String| found.push(Finding::new(TABLE, number, what));
        let Some((id, shown)) = row(line) else { continue };
        if !seen.insert(id) {
            say(format!("{id} stands here twice"));
        }
        let mut named = shown.split('`').skip(1).step_by(2).peekable();
        let said = shown == "open" || shown.starts_with("not covered: ");
        if named.peek().is_none() && !said {
            say(format!("{id} neither names a test nor says why not"));
        }
        for test in named.filter(|test| !tests.contains(*test)) {
            say(format!("{id} names `{test}`, which isn't there"));
        }
    }
    if seen.is_empty() {
        found.push(Finding::new(TABLE, 0, "has no row"));
    }
    found
}

/// The first and the last cell of a row `| S01 | … | … |`.
fn row(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').collect();
    let (id, shown) = (cells.first()?.trim(), cells.last()?.trim());
    let digits = id.strip_prefix('S')?;
    let is_id = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    (is_id && cells.len() > 1).then_some((id, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_crate_module_and_name() {
        let source =
            |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let sources = [
            source(
                "crates/a-b/tests/it/c/d.rs",
                "#[test]\n#[cfg(unix)]\nfn one() {}\nfn two() {}\nmod m {\n    #[test]\n    fn three() {}\n}",
            ),
            source("crates/a-b/tests/it/c/mod.rs", "#[test]\nfn four() {}"),
            source("crates/a-b/src/e.rs", "#[test]\nfn five() {}"),
        ];
        let expected = ["a-b::c::d::one", "a-b::c::d::three", "a-b::c::four"];
        assert!(tests(&sources).iter().eq(expected), "{:?}", tests(&sources));
    }

    #[test]
    fn rows_without_a_test_or_with_one_that_is_gone_or_twice_are_found() {
        let known = BTreeSet::from(["a::b::c".to_owned()]);
        let table = "| id | x |\n|---|---|\n| S01 | t | `a::b::c` |\n| S02 | t | open |\n\
            | S03 | t | not covered: y |\n| S04 | t | `a::b::d`<br>`a::b::c` |\n| S05 | t | |\n| S01 | t | open |\n";
        let found = compare(table, &known);
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [6, 7, 8]);
        assert_eq!(compare("", &known).len(), 1);
    }
}
