//! `ARCHITECTURE.md` names what is there: a section for each folder under `crates/`, and no file that is gone.

use super::Finding;
use crate::workspace::{self, Source};
use std::{collections::BTreeSet, path::Path};

const MAP: &str = "ARCHITECTURE.md";
const LINES_AT_MOST: usize = 300;

/// What the map has too much or too little.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(map) = sources.iter().find(|source| source.path == MAP) else {
        return vec![Finding::new(MAP, 0, "isn't there")];
    };
    let folders = sources.iter().filter_map(|source| {
        let mut parts = source.path.split('/');
        (parts.next() == Some("crates")).then(|| parts.next()).flatten()
    });
    let mut found = compare(&map.text, &folders.collect());
    let root = workspace::root();
    for (line, path) in paths(&map.text) {
        if !exists(&root, path) {
            found.push(Finding::new(MAP, line, format!("{path} isn't there")));
        }
    }
    found
}

/// Headings `### crates/NAME` against the folders.
fn compare(map: &str, folders: &BTreeSet<&str>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |line, what: String| found.push(Finding::new(MAP, line, what));
    let mut mapped = BTreeSet::new();
    for (number, line) in (1..).zip(map.lines()) {
        let Some(rest) = line.strip_prefix("### `crates/").or(line.strip_prefix("### crates/"))
        else {
            continue;
        };
        let name = rest
            .split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_')
            .next()
            .unwrap_or(rest);
        if !folders.contains(name) {
            say(number, format!("the code map has crates/{name}, which isn't there"));
        }
        mapped.insert(name);
    }
    for folder in folders.difference(&mapped) {
        say(0, format!("the code map has no section for crates/{folder}"));
    }
    if map.lines().count() > LINES_AT_MOST {
        say(0, format!("has more than {LINES_AT_MOST} lines"));
    }
    found
}

/// Words in backticks or link targets that are paths: they have a slash or an ending that our files have. What has a
/// placeholder in capitals or a star (`crates/NAME`, `tests/it/*.rs`) isn't one.
fn paths(map: &str) -> Vec<(usize, &str)> {
    let mut paths = Vec::new();
    for (number, line) in (1..).zip(map.lines()) {
        let quoted = line.split('`').skip(1).step_by(2);
        let linked = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let words = quoted.chain(linked).filter(|word| is_path(word));
        paths.extend(words.map(|word| (number, word.trim_end_matches('/'))));
    }
    paths
}

fn is_path(word: &str) -> bool {
    let ending = [".rs", ".md", ".toml", ".txt", ".sh"].iter().any(|ending| word.ends_with(ending));
    let folder =
        word.contains('/') && word.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    let placeholder = word.split(['/', '.']).any(|part| {
        part.len() > 1
            && part.chars().all(|c| c.is_ascii_uppercase())
            && part != "ARCHITECTURE"
            && part != "README"
            && part != "CHANGELOG"
    });
    (ending || folder) && !word.contains(['*', ' ', ':', '<', '{', '…']) && !placeholder
}

/// Paths are given from the root, or from `crates/`.
fn exists(root: &Path, path: &str) -> bool {
    root.join(path).exists() || root.join("crates").join(path).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_sections_are_compared_both_ways() {
        let map = "### crates/a: the first\n### `crates/gone`\n";
        let found = compare(map, &BTreeSet::from(["a", "b"]));
        let text: Vec<String> = found.iter().map(Finding::to_string).collect();
        assert_eq!(
            text,
            [
                "ARCHITECTURE.md:2: the code map has crates/gone, which isn't there",
                "ARCHITECTURE.md: the code map has no section for crates/b"
            ]
        );
    }

    #[test]
    fn paths_are_found_and_other_code_is_not() {
        let map = "`a/src/b.rs` `cargo test` `Stream::new` [text](docs/c.md)\n`xtask/` `crates/NAME` `x/*.rs`";
        assert_eq!(paths(map), [(1, "a/src/b.rs"), (1, "docs/c.md"), (2, "xtask")]);
    }
}
