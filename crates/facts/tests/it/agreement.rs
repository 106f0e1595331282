//! The simulated driver against the committed reading of a real one.

use cuhold_facts::{Plan, Question, Reading, committed, compare};
use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

/// Questions that the simulated driver answers differently from the real one, each with the reason. A function with
/// such a question doesn't count as simulated, unless it is asked in another situation than its own.
const KNOWN: &[(&str, &str)] = &[];

fn real() -> io::Result<Option<Reading>> {
    let reading = committed()?;
    if reading.is_none() {
        io::stderr().write_all(b"data/h200-580.json is absent: nothing was compared\n")?;
    }
    Ok(reading)
}

#[test]
fn the_simulated_driver_answers_as_the_real_one_did_or_says_that_it_can_t() {
    let Some(real) = real().unwrap() else { return };
    let sim = Plan::simulated().take().unwrap();
    let known: BTreeMap<&str, &str> = KNOWN.iter().copied().collect();
    assert_eq!(known.len(), KNOWN.len(), "a question is listed twice");
    let differences: BTreeMap<String, String> = compare(&sim, &real)
        .into_iter()
        // Missing is no wrong answer, and what the real driver wasn't asked yet can't be compared. Neither counts.
        .filter(|d| !d.first.as_ref().is_some_and(|answer| answer.contains("MISSING")))
        .filter(|d| d.second.is_some())
        .map(|d| (d.question.clone(), d.to_string()))
        .collect();
    let new: Vec<&String> = differences
        .iter()
        .filter(|(question, _)| !known.contains_key(question.as_str()))
        .map(|(_, text)| text)
        .collect();
    assert!(new.is_empty(), "the simulated driver, then the real one:\n{new:#?}");
    let gone: Vec<&&str> = known.keys().filter(|q| !differences.contains_key(**q)).collect();
    assert!(gone.is_empty(), "these agree and need not be listed: {gone:#?}");
}

#[test]
fn the_reading_is_a_real_driver_s_and_answers_only_questions_that_there_are() {
    let Some(real) = real().unwrap() else { return };
    assert_eq!(real.driver, "real");
    let questions = Question::all();
    let gone: Vec<&String> = real.answers.keys().filter(|q| !questions.contains_key(*q)).collect();
    assert!(gone.is_empty(), "answers without a question: {gone:#?}");
    let new = questions.keys().filter(|question| real.answer(question).is_none()).count();
    let line = format!("{new} questions were added after the reading and aren't compared\n");
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
