//! The simulated driver against the committed reading of a real one.

use crate::known::{KNOWN, MISSING};
use cuhold_driver_sim::Sim;
use cuhold_driver_sys::Function;
use cuhold_facts::{
    Difference, Kind, Plan, Probe, Question, Situation, agreed, committed, compare, simulated,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
};

/// The functions because of which an answer is *missing*: the one that the question is about, and the one that its
/// set-up needs.
fn missing(difference: &Difference) -> Vec<&'static str> {
    let answer = difference.first.as_deref().unwrap_or_default();
    let Some(word) = answer.split(' ').find(|word| word.ends_with("MISSING")) else {
        return Vec::new();
    };
    let needed = word.strip_prefix("setup:").and_then(|word| word.strip_suffix("=MISSING"));
    let asked = Question::all().remove(&difference.question).unwrap().probe().function();
    let needed = needed.map(|name| Function::by_name(name).unwrap());
    needed.into_iter().chain([asked]).map(|function| function.name).collect()
}

/// What the simulated driver answers otherwise than the real one was heard to.
fn differences() -> Vec<Difference> {
    let sim = Plan::simulated().take().unwrap();
    let differences = compare(&sim, &committed().unwrap());
    // What the real driver wasn't asked yet can't be compared. It doesn't count either.
    differences.into_iter().filter(|difference| difference.second.is_some()).collect()
}

#[test]
fn the_simulated_driver_answers_as_the_real_one_did_or_says_that_it_can_t() {
    let known: BTreeMap<&str, &str> = KNOWN.iter().copied().collect();
    assert_eq!(known.len(), KNOWN.len(), "a question is listed twice");
    let listed = not_simulated();
    let (mut new, mut met) = (Vec::new(), BTreeSet::new());
    for difference in differences() {
        let functions = missing(&difference);
        if functions.first().is_some_and(|needed| listed.contains(needed)) {
            met.extend(functions.into_iter().map(str::to_owned));
        } else if known.contains_key(difference.question.as_str()) {
            met.insert(difference.question);
        } else {
            new.push(difference.to_string());
        }
    }
    assert!(new.is_empty(), "the simulated driver, then the real one:\n{new:#?}");
    let gone = known.keys().chain(&listed).filter(|name| !met.contains(**name));
    let gone: Vec<&&str> = gone.collect();
    assert!(gone.is_empty(), "nothing differs because of these, so they need no line: {gone:#?}");
}

/// The functions that are listed as missing, each once.
fn not_simulated() -> BTreeSet<&'static str> {
    let listed: Vec<&str> =
        MISSING.iter().flat_map(|(_, functions)| functions.iter().copied()).collect();
    let set: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(set.len(), listed.len(), "a function is listed twice");
    set
}

#[test]
fn no_function_that_is_listed_as_missing_is_there_or_counts() {
    let counted = simulated().unwrap();
    for name in not_simulated() {
        let function = Function::by_name(name).unwrap();
        assert!(!counted.contains(&function), "{name} counts");
        let there = function.forms.iter().find(|form| Sim::simulated().contains(form));
        assert_eq!(there, None, "a form of {name} is simulated: list the questions that differ");
    }
}

#[test]
fn at_least_120_functions_count_each_with_its_success_and_its_failure_on_both_drivers() {
    let (sim, real) = (Plan::simulated().take().unwrap(), committed().unwrap());
    let counted = agreed(&sim, &real);
    assert!(counted.len() >= 120, "{}", counted.len());
    for function in counted {
        for kind in [Kind::Success, Kind::Failure] {
            let probe = Probe::all().find(|p| p.function() == function && p.kind() == kind);
            let name = probe.unwrap_or_else(|| panic!("{} has no {kind:?}", function.name)).name();
            let (there, here) = (real.answer(name).unwrap(), sim.answer(name).unwrap());
            for answer in [there, here] {
                let first = answer.split(' ').next().and_then(|word| word.rsplit('=').next());
                let success = first == Some("SUCCESS");
                assert_eq!(success, kind == Kind::Success, "{}: {name}: {answer}", function.name);
                assert!(!answer.contains("signal") && !answer.contains("setup:"), "{name}");
            }
        }
    }
}

#[test]
fn what_ends_a_real_driver_s_process_is_a_violation_and_nothing_else_is() {
    let (sim, real) = (Plan::simulated().take().unwrap(), committed().unwrap());
    let crashes: BTreeSet<&str> =
        Probe::all().filter(|probe| probe.is_crash()).map(Probe::name).collect();
    assert!(crashes.len() >= 5, "{}", crashes.len());
    for (question, answer) in &sim.answers {
        // What it can't do ends nothing, and is compared nowhere.
        let missing = answer.contains("MISSING");
        let expected = crashes.contains(question.as_str()) && !missing;
        assert_eq!(answer.ends_with("violation"), expected, "simulated: {question}: {answer}");
    }
    for (question, answer) in &real.answers {
        let expected = crashes.contains(question.as_str());
        assert_eq!(answer.contains("signal "), expected, "real: {question}: {answer}");
    }
}

#[test]
fn the_reading_is_a_real_driver_s_and_answers_only_questions_that_there_are() {
    let real = committed().unwrap();
    assert_eq!(real.driver, "real");
    let questions = Question::all();
    let gone: Vec<&String> = real.answers.keys().filter(|q| !questions.contains_key(*q)).collect();
    assert!(gone.is_empty(), "answers without a question: {gone:#?}");
    let new: Vec<&Question> =
        questions.values().filter(|question| real.answer(question.name()).is_none()).collect();
    let plain = new.iter().filter(|question| question.situation() == Situation::Plain);
    let plain: Vec<&str> = plain.map(|question| question.name()).collect();
    let line = format!(
        "not yet asked of a real driver: {}, of which {} in special situations, and: {}\n",
        new.len(),
        new.len() - plain.len(),
        plain.join("; ")
    );
    io::stderr().write_all(line.as_bytes()).unwrap();
}

#[test]
fn the_simulated_driver_answers_the_same_twice() {
    let mut plan = Plan::simulated();
    let one = plan.take().unwrap();
    plan.at_once = 2;
    let two = plan.take().unwrap();
    assert_eq!(compare(&one, &two), []);
}

#[test]
fn every_question_has_an_answer() {
    let sim = Plan::simulated().take().unwrap();
    for (question, answer) in &sim.answers {
        assert!(!answer.is_empty(), "{question}");
        assert!(
            !answer.starts_with("panic") && !answer.contains("no answer"),
            "{question}: {answer}"
        );
    }
}
