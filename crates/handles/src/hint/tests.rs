//! The list of known causes is about calls that are listed, and reads well.

use super::*;
use cuhold_driver_sys::Function;
use std::collections::BTreeSet;

#[test]
fn every_hint_is_about_calls_that_are_listed_and_statuses_that_are_known() {
    for hint in HINTS {
        assert!(CUresult::KNOWN.contains(&hint.status), "{hint:?}");
        for name in hint.calls {
            let listed = Function::ALL.iter().any(|function| is_named(function.name, name));
            assert!(listed, "no function {name}: {hint:?}");
        }
    }
}

#[test]
fn there_are_at_least_forty_pairs_and_each_is_found() {
    let mut pairs = BTreeSet::new();
    for hint in HINTS {
        let about = |call: &&Call| hint.is_about(**call, hint.status);
        let call = Call::ALL.iter().find(about).unwrap();
        // What is said of certain calls isn't hidden by what is said of all.
        let calls = Call::ALL.iter().filter(|call| of(**call, hint.status) == Some(hint));
        assert!(calls.count() > 0, "never found: {hint:?}, as with {call}");
        pairs.extend(hint.calls.iter().map(|name| (*name, hint.status)));
        if hint.calls.is_empty() {
            pairs.insert(("", hint.status));
        }
    }
    assert!(pairs.len() >= 40, "{}", pairs.len());
}

#[test]
fn no_pair_stands_in_the_list_twice() {
    let mut seen = BTreeSet::new();
    for hint in HINTS {
        for name in hint.calls.iter().copied().chain(hint.calls.is_empty().then_some("")) {
            assert!(seen.insert((name, hint.status)), "{name:?} twice: {hint:?}");
        }
    }
}

#[test]
fn every_sentence_is_in_the_grammar_of_errors() {
    for Hint { cause, next, .. } in HINTS.iter().chain([&FATAL]) {
        for text in [cause, next] {
            let begins_lower = text.starts_with(|c: char| c.is_lowercase());
            assert!(begins_lower, "begins in lower case: {text}");
            assert!(!text.ends_with(['.', ';', ':', ' ']), "ends without a mark: {text}");
            assert!(!text.contains("  ") && !text.contains(['\n', '.']), "one sentence: {text}");
            assert!(text.len() < 160 && text.len() > 15, "of a sentence's length: {text}");
        }
        assert_ne!(cause, next);
    }
}

#[test]
fn every_fatal_code_has_a_cause_and_a_next_step_whatever_the_call() {
    for status in CUresult::KNOWN.iter().filter(|status| status.is_fatal()) {
        assert!(Call::ALL.iter().all(|call| of(*call, *status).is_some()), "{status}");
    }
    assert_eq!(of(Call::cuStreamSynchronize, CUresult::INVALID_VALUE), None);
    assert_eq!(of(Call::cuStreamSynchronize, CUresult(9999)), None);
}

#[test]
fn a_call_s_own_cause_comes_before_that_of_all_calls() {
    let of_record = of(Call::cuEventRecord, CUresult::INVALID_HANDLE).unwrap();
    let of_query = of(Call::cuStreamQuery, CUresult::INVALID_HANDLE).unwrap();
    assert_ne!(of_record, of_query);
    assert_eq!(of_record.calls, ["cuEventRecord"]);
    assert!(of(Call::cuMemcpyDtoD_v2, CUresult::INVALID_VALUE).unwrap().cause.contains("range"));
}
