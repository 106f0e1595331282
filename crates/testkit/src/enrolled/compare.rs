//! Comparing what is enrolled with what is public, and what was called with what is documented.

use super::{Enrolled, simulated_sources};
use crate::operations::{Operations, is_policy};
use std::collections::BTreeSet;

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

/// Compares what is enrolled with the crate's public operations: each is enrolled, exempt with a reason, or still to be
/// enrolled, and exactly one of the three. Prints how many there are.
#[expect(clippy::print_stdout, reason = "figures are lines of a test's output")]
pub fn compare(
    manifest_folder: &str,
    enrolled: &[&[Enrolled]],
    exempt: &[(&str, &str)],
    not_yet: &[&str],
) {
    let Some(public) = simulated_sources(manifest_folder) else { return };
    let enrolled: Vec<String> =
        enrolled.iter().flat_map(|list| list.iter().map(Enrolled::path)).collect();
    let wrong = differences(&public, &enrolled, exempt, not_yet);
    println!("figure operations_public: {}", public.operations.len());
    println!("figure operations_enumerated: {}", enrolled.len());
    println!("figure operations_exempt: {}", exempt.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn differences(
    public: &Operations,
    enrolled: &[String],
    exempt: &[(&str, &str)],
    not_yet: &[&str],
) -> Vec<String> {
    let mut wrong = public.mistakes.clone();
    let mut listed = BTreeSet::new();
    let all = enrolled
        .iter()
        .map(String::as_str)
        .chain(exempt.iter().map(|(path, _)| *path))
        .chain(not_yet.iter().copied());
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
        assert!(differences(&public, &b(), &[], &[]).is_empty());
        assert!(differences(&public, &[], &[("A::b", "needs a real driver")], &[]).is_empty());
        assert!(differences(&public, &[], &[], &["A::b"]).is_empty());
        assert_eq!(differences(&public, &[], &[], &[]), ["A::b isn't enrolled"]);
        assert_eq!(differences(&public, &b(), &[], &["A::b"]), ["A::b is listed twice"]);
        assert_eq!(differences(&public, &[], &[("A::b", "")], &[]).len(), 1);
        assert_eq!(
            differences(&public, &b(), &[], &["A::c"]),
            ["A::c is listed, and no public operation"]
        );
    }
}
