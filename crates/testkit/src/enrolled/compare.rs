//! Comparing what is enrolled with what is public, and what was called with what is documented.

use super::{Enrolled, simulated_sources};
use crate::operations::{Operations, is_policy};
use std::{collections::BTreeSet, ffi::OsStr, fs, path::Path};

/// Says, of one operation, how the calls that it made differ from those that its documentation names.
pub(super) fn line(
    path: &str,
    made: &BTreeSet<&'static str>,
    documented: &Operations,
) -> Option<String> {
    let Some(operation) = documented.operations.get(path) else {
        return Some(format!("{path} is enrolled, and no public operation"));
    };
    let made: BTreeSet<&str> = made.iter().copied().filter(|call| !is_policy(call)).collect();
    let named: BTreeSet<&str> = operation.calls.iter().map(String::as_str).collect();
    let silent: Vec<_> = made.difference(&named).collect();
    let idle: Vec<_> = named.difference(&made).collect();
    let mut says = Vec::new();
    if !silent.is_empty() {
        says.push(format!("it calls {silent:?}, which its documentation doesn't name"));
    }
    if !idle.is_empty() {
        says.push(format!("its documentation names {idle:?}, which it never called"));
    }
    (!says.is_empty()).then(|| format!("{path}: {}", says.join("; ")))
}

/// The page that says what is enumerated and what isn't.
const PAGE: &str = "docs/enumeration.md";

/// Compares what is enrolled with the crate's public operations: each is either enrolled or exempt with a reason. The page
/// has the same exemptions, with the same reasons. Prints how many there are.
#[expect(clippy::print_stdout, reason = "figures are lines of a test's output")]
pub fn compare(manifest_folder: &str, enrolled: &[&[Enrolled]], exempt: &[(&str, &str)]) {
    let Some(public) = simulated_sources(manifest_folder) else { return };
    let enrolled: Vec<String> =
        enrolled.iter().flat_map(|list| list.iter().map(Enrolled::path)).collect();
    let mut wrong = differences(&public, &enrolled, exempt);
    let folder = Path::new(manifest_folder);
    let page = folder.join("../..").join(PAGE);
    let page = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
    let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
    wrong.extend(other_than_page(&page, name, exempt));
    println!("figure operations_public: {}", public.operations.len());
    println!("figure operations_enumerated: {}", enrolled.len());
    println!("figure operations_exempt: {}", exempt.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn differences(public: &Operations, enrolled: &[String], exempt: &[(&str, &str)]) -> Vec<String> {
    let mut wrong = public.mistakes.clone();
    let mut listed = BTreeSet::new();
    let all = enrolled.iter().map(String::as_str).chain(exempt.iter().map(|(path, _)| *path));
    for path in all {
        if !listed.insert(path) {
            wrong.push(format!("{path} is listed twice"));
        }
        if !public.operations.contains_key(path) {
            wrong.push(format!("{path} is listed, and no public operation"));
        }
    }
    for path in public.operations.keys().filter(|path| !listed.contains(path.as_str())) {
        wrong.push(format!("{path} isn't enrolled"));
    }
    let silent = exempt.iter().filter(|(_, reason)| reason.len() < 10);
    wrong.extend(silent.map(|(path, _)| format!("{path} is exempt without a reason")));
    wrong
}

/// How the page's rows of a crate, "| crate | `path` | reason |", differ from its exemptions.
fn other_than_page(page: &str, name: &str, exempt: &[(&str, &str)]) -> Vec<String> {
    let begin = format!("| {name} |");
    let rows: BTreeSet<String> =
        page.lines().filter(|line| line.starts_with(&begin)).map(str::to_owned).collect();
    let meant: BTreeSet<String> =
        exempt.iter().map(|(path, reason)| format!("{begin} `{path}` | {reason} |")).collect();
    let missing = meant.difference(&rows).map(|row| format!("{PAGE} lacks the row\n{row}"));
    let extra = rows.difference(&meant).map(|row| format!("{PAGE} has a row of its own\n{row}"));
    missing.chain(extra).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;

    fn public(path: &str, calls: &[&str]) -> Operations {
        let calls = calls.iter().map(|call| (*call).to_owned()).collect();
        let path = path.to_owned();
        let operation = Operation { path: path.clone(), calls, invalidates_captures: false };
        Operations { operations: [(path, operation)].into(), ..Operations::default() }
    }

    #[test]
    fn a_line_names_exactly_what_was_called_but_for_the_policy_s_own() {
        let documented = public("A::b", &["cuInit", "cuEventQuery"]);
        let line =
            |made: &[&'static str]| line("A::b", &made.iter().copied().collect(), &documented);
        assert_eq!(line(&["cuInit", "cuEventQuery", "cuCtxPushCurrent"]), None);
        assert!(
            line(&["cuInit"]).unwrap().contains("names [\"cuEventQuery\"], which it never called")
        );
        let silent = line(&["cuInit", "cuEventQuery", "cuEventRecord"]).unwrap();
        assert!(silent.contains("calls [\"cuEventRecord\"], which its documentation doesn't name"));
    }

    #[test]
    fn each_operation_is_listed_once() {
        let public = public("A::b", &["cuInit"]);
        let b = || vec!["A::b".to_owned()];
        let exempt = |path| [(path, "needs a real driver")];
        assert!(differences(&public, &b(), &[]).is_empty());
        assert!(differences(&public, &[], &exempt("A::b")).is_empty());
        assert_eq!(differences(&public, &[], &[]), ["A::b isn't enrolled"]);
        assert_eq!(differences(&public, &b(), &exempt("A::b")), ["A::b is listed twice"]);
        assert_eq!(differences(&public, &[], &[("A::b", "")]).len(), 1);
        assert_eq!(
            differences(&public, &b(), &exempt("A::c")),
            ["A::c is listed, and no public operation"]
        );
    }

    #[test]
    fn the_page_has_the_exemptions_of_each_crate_with_their_reasons() {
        let page =
            "| crate | operation | why |\n| a | `A::b` | it can't |\n| b | `C::d` | nor that |";
        assert!(other_than_page(page, "a", &[("A::b", "it can't")]).is_empty());
        assert!(other_than_page(page, "c", &[]).is_empty());
        assert_eq!(other_than_page(page, "a", &[("A::b", "another reason")]).len(), 2);
        assert_eq!(other_than_page(page, "a", &[]).len(), 1);
        assert_eq!(other_than_page(page, "a", &[("A::b", "it can't"), ("A::e", "too")]).len(), 1);
    }
}
