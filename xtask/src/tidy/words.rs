//! What no file may contain: paths of one machine, addresses nobody asked for, words about how the work was organised.

use super::Finding;
use crate::workspace::Source;

/// The rules stand here in full.
const THIS_FILE: &str = "xtask/src/tidy/words.rs";

/// The beginnings of paths that exist on one machine only.
const PATHS: &[&str] = &["/work/", "/tmp/", "/root/", "/home/", "/Users/"];

/// Hosts that a file may point to: specifications and this project's own surroundings.
const HOSTS: &[&str] = &[
    "crates.io",
    "doc.rust-lang.org",
    "docs.nvidia.com",
    "docs.rs",
    "github.com",
    "keepachangelog.com",
    "pypi.org",
    "semver.org",
    "www.apache.org",
    "www.w3.org",
];

/// Whole words, in lower case.
const WORDS: &[&str] = &[
    "agent",
    "agents",
    "assistant",
    "subagent",
    "subagents",
    "helper session",
    "language model",
    "worktree",
    "co-authored-by",
    "index-url",
];

/// Whole words, in this spelling: work that somebody meant to do isn't in the code.
const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

/// Every line that contains one of them.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    if source.path == THIS_FILE {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        let mut say = |what: String| found.push(Finding::new(&source.path, number, what));
        for path in PATHS.iter().filter(|path| names_path(line, path)) {
            say(format!("a path of one machine: {path}…"));
        }
        for host in hosts(line).filter(|host| !HOSTS.contains(host)) {
            say(format!("an address outside the list of hosts: {host}"));
        }
        let lower = line.to_lowercase();
        for word in WORDS.iter().filter(|word| has_word(&lower, word)) {
            say(format!("the word `{word}`"));
        }
        for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
            say(format!("the mark `{mark}`"));
        }
    }
    found
}

/// Whether `path` begins at the beginning of something, not inside a longer path.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-/)}$>".contains(c))
    })
}

/// The hosts of all addresses in the line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && !".-:@".contains(c));
        let host = rest.get(..end.unwrap_or(rest.len()))?;
        // Formatting and examples in prose (`http://{host}`) leave nothing.
        (!host.is_empty()).then(|| host.trim_end_matches(['.', ':']))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !part(before) && !part(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let source = Source { path: "a.md".to_owned(), text: text.to_owned() };
        check(&source).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn paths_of_one_machine_are_found_where_they_begin() {
        assert_eq!(found("see /tmp/x and \"/work/main\"").len(), 2);
        assert!(found("$OUT/tmp/x crates/work/src target/home/").is_empty());
    }

    #[test]
    fn addresses_outside_the_list_are_found() {
        assert!(found("https://docs.nvidia.com/cuda, registry+https://github.com/x.").is_empty());
        assert_eq!(found("http://mirror.local:8080/simple").len(), 1);
    }

    #[test]
    fn words_are_found_whole_and_in_any_case() {
        assert_eq!(found("Agents did it").len(), 1);
        assert!(found("reagents and a magenta toddler").is_empty());
        assert_eq!(found("// TODO: later").len(), 1);
        assert!(found("a clippy lint is called todo").is_empty());
    }
}
