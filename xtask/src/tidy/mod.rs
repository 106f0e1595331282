//! Rules for every file that no lint covers. `cargo xtask tidy` and a test of this crate run the same checks.

mod layers;
mod map;
mod places;
mod scenarios;
pub(crate) mod unsafety;
mod words;

use crate::{
    Result,
    workspace::{self, Source},
};
use std::fmt;

/// No longer file can be read in one go.
pub(crate) const LINES_AT_MOST: usize = 600;

/// One place where a rule doesn't hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// Counted from 1; 0 is the file as a whole.
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what } = self;
        match line {
            0 => write!(f, "{path}: {what}"),
            _ => write!(f, "{path}:{line}: {what}"),
        }
    }
}

/// Prints what was found and fails if that is anything.
pub(crate) fn run() -> Result<()> {
    let found = findings()?;
    for finding in &found {
        println!("{finding}");
    }
    match found.len() {
        0 => Ok(()),
        count => Err(format!("tidy: {count} findings")),
    }
}

/// Everything that isn't as it should be.
fn findings() -> Result<Vec<Finding>> {
    let sources = workspace::sources()?;
    let mut found = Vec::new();
    for source in &sources {
        found.extend(words::check(source));
        if source.is_rust() {
            found.extend(module_doc(source));
            found.extend(size(source));
            found.extend(places::check(source));
            found.extend(unsafety::check(source)?);
        }
    }
    found.extend(layers::check()?);
    found.extend(map::check(&sources));
    found.extend(scenarios::check(&sources));
    Ok(found)
}

/// Each file says first what it is for.
fn module_doc(source: &Source) -> Option<Finding> {
    (!source.text.starts_with("//! ")).then(|| {
        Finding::new(
            &source.path,
            1,
            "begins with `//!` and a sentence that says what the file is for",
        )
    })
}

/// Whether the file is longer than a file may be.
pub(crate) fn is_too_long(source: &Source) -> bool {
    source.text.lines().count() > LINES_AT_MOST && !source.is_generated()
}

fn size(source: &Source) -> Option<Finding> {
    is_too_long(source)
        .then(|| Finding::new(&source.path, 0, format!("has more than {LINES_AT_MOST} lines")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let found = findings().unwrap();
        let text: Vec<String> = found.iter().map(Finding::to_string).collect();
        assert!(found.is_empty(), "\n{}\n", text.join("\n"));
    }

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_file_without_module_doc_is_found() {
        assert!(module_doc(&source("a.rs", "// Not a doc.\n")).is_some());
        assert!(module_doc(&source("a.rs", "//! A doc.\n")).is_none());
    }

    #[test]
    fn a_long_file_is_found_unless_it_is_generated() {
        let text = "\n".repeat(LINES_AT_MOST + 1);
        assert!(size(&source("crates/a/src/b.rs", &text)).is_some());
        assert!(size(&source("crates/a/src/generated/b.rs", &text)).is_none());
        assert!(size(&source("crates/a/src/b.rs", text.trim_start_matches("\n\n"))).is_none());
    }
}
