//! How far the simulated driver answers as a real driver did.

use std::{collections::BTreeMap, io};

use cuhold_driver_sys::Function;

use crate::{
    matrix::CELLS,
    probe::{Question, Situation},
    reading::{Reading, agreed, compare},
    run::Plan,
};

/// Part of the program, so that it can compare where there is a GPU and no source.
const READING: &str = include_str!("../data/h200-580.json");

/// The committed reading of a real driver.
///
/// # Errors
/// Where the committed file isn't a reading.
pub fn committed() -> io::Result<Reading> {
    Reading::from_json(READING)
}

/// How far two readings agree.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Agreement {
    /// The functions of which they tell the same, in the list's order.
    pub functions: Vec<&'static Function>,
    /// How many questions both answered. Those about a function during captures count as one.
    pub compared: usize,
    /// How many of them they answered alike.
    pub agree: usize,
    /// How many combinations of a function, a mode, a caller, and a stream that is captured both were asked in.
    pub capture_cells: usize,
}

impl Agreement {
    /// Of these two.
    #[must_use]
    pub fn of(first: &Reading, second: &Reading) -> Self {
        let questions = Question::all();
        let differ: Vec<String> =
            compare(first, second).into_iter().map(|difference| difference.question).collect();
        // By what counts as one: whether all of it agrees.
        let mut counted = BTreeMap::new();
        let mut capture_cells = 0;
        for name in first.answers.keys().filter(|name| second.answer(name).is_some()) {
            let Some(question) = questions.get(name) else { continue };
            let (counts_as, cells) = match question.situation() {
                Situation::Capture(..) => (question.probe().function().name, 1),
                Situation::Captures(_) => (question.probe().function().name, CELLS),
                Situation::Plain
                | Situation::NoContext
                | Situation::DestroyedContext
                | Situation::Fault
                | Situation::Busy => (name.as_str(), 0),
            };
            capture_cells += cells;
            *counted.entry(counts_as).or_insert(true) &= !differ.contains(name);
        }
        let agree = counted.values().filter(|agrees| **agrees).count();
        let functions = agreed(first, second);
        Self { functions, compared: counted.len(), agree, capture_cells }
    }
}

/// How far the simulated driver, asked now, and the committed reading agree.
///
/// # Errors
/// As [`committed`].
pub fn agreement() -> io::Result<Agreement> {
    Ok(Agreement::of(&Plan::simulated().take()?, &committed()?))
}

/// The functions that the simulated driver has: those of which it, asked now, and the committed reading tell the same, in
/// the list's order.
///
/// # Errors
/// As [`committed`].
pub fn simulated() -> io::Result<Vec<&'static Function>> {
    Ok(agreement()?.functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_of_a_function_count_as_one_and_each_of_their_cells_as_one() {
        let sim = Reading::from_json(
            r#"{"driver": "sim", "device": "", "version": 0, "date": "", "answers": {
                "a pool is made": "SUCCESS", "a pool is trimmed": "SUCCESS",
                "cuMemPoolCreate during every capture": "x",
                "cuMemPoolCreate during a global capture elsewhere, on another thread": "SUCCESS",
                "cuMemPoolCreate with no context current": "SUCCESS" }}"#,
        );
        let sim = sim.unwrap();
        let mut real = sim.clone();
        let all = Agreement::of(&sim, &real);
        assert_eq!((all.compared, all.agree, all.capture_cells), (4, 4, CELLS + 1));
        real.answers.insert("cuMemPoolCreate during every capture".into(), "y".into());
        real.answers.remove("a pool is trimmed");
        let some = Agreement::of(&sim, &real);
        assert_eq!((some.compared, some.agree, some.capture_cells), (3, 2, CELLS + 1));
    }
}
