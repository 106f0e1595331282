//! A reading: what one driver answered to every question, as it is written down and compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    path::Path,
};

use cuhold_driver_sys::Function;
use serde::{Deserialize, Serialize};

use crate::{
    ctx::{SETUP, VIOLATION},
    probe::{Caller, Kind, Mode, Probe, Question, Situation},
};

/// What one driver answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reading {
    /// `real` or `sim`.
    pub driver: String,
    /// The device's name, as the driver gives it.
    pub device: String,
    /// The driver's CUDA version, as it counts it: 13000 is 13.0.
    pub version: i32,
    /// The day of the reading, as it was told.
    pub date: String,
    /// The answers by question.
    pub answers: BTreeMap<String, String>,
}

impl Reading {
    /// Reads one from a file.
    ///
    /// # Errors
    /// Where the file can't be read, or isn't a reading.
    pub fn load(path: &Path) -> io::Result<Self> {
        Self::from_json(&fs::read_to_string(path)?)
    }

    /// Reads one that was written down.
    ///
    /// # Errors
    /// Where the text isn't a reading.
    pub fn from_json(text: &str) -> io::Result<Self> {
        serde_json::from_str(text).map_err(io::Error::other)
    }

    /// As it is written down: one line an answer, sorted.
    ///
    /// # Errors
    /// Where it can't be put into JSON.
    pub fn to_json(&self) -> io::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(io::Error::other)
    }

    /// The answer to a question.
    #[must_use]
    pub fn answer(&self, question: &str) -> Option<&str> {
        self.answers.get(question).map(String::as_str)
    }
}

/// Two drivers that answer one question differently.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub struct Difference {
    /// The question.
    pub question: String,
    /// The first reading's answer; `None` if it wasn't asked.
    pub first: Option<String>,
    /// The second reading's answer.
    pub second: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |answer: &Option<String>| answer.clone().unwrap_or_else(|| "not asked".into());
        writeln!(f, "{}", self.question)?;
        writeln!(f, "    {}", text(&self.first))?;
        write!(f, "    {}", text(&self.second))
    }
}

/// The questions of either reading that the two answer differently, by name.
#[must_use]
pub fn compare(first: &Reading, second: &Reading) -> Vec<Difference> {
    let names: BTreeSet<&String> = first.answers.keys().chain(second.answers.keys()).collect();
    names
        .into_iter()
        .map(|name| (name, first.answer(name), second.answer(name)))
        .filter(|(_, a, b)| !matches!((a, b), (Some(a), Some(b)) if same(a, b)))
        .map(|(name, a, b)| Difference {
            question: name.clone(),
            first: a.map(str::to_owned),
            second: b.map(str::to_owned),
        })
        .collect()
}

/// Whether two answers say the same: a violation of a simulated driver is what ends a real one's process.
fn same(first: &str, second: &str) -> bool {
    let whole = |answer: &str| -> String {
        match answer.split_once("signal ") {
            Some((before, _)) => format!("{before}{VIOLATION}"),
            None => answer.to_owned(),
        }
    };
    whole(first) == whole(second)
}

/// Whether the answer is one to the question, not to its set-up, and of a driver that has the function.
fn is_telling(probe: &Probe, answer: &str) -> bool {
    let first = answer.split(' ').next().unwrap_or_default();
    let first = first.rsplit('=').next().unwrap_or_default();
    let asked = !answer.contains(SETUP) && !answer.contains("MISSING") && !answer.is_empty();
    asked
        && match probe.kind() {
            Kind::Success => first == "SUCCESS",
            Kind::Failure => !["SUCCESS", "signal", VIOLATION].contains(&first),
            Kind::Case => true,
        }
}

/// The functions of which the two readings tell the same: each has a probe for its success and one for its failure,
/// both with a telling answer, and no probe of it in its plain situation differs. A further case that one of them wasn't
/// asked yet says nothing.
#[must_use]
pub fn agreed(first: &Reading, second: &Reading) -> Vec<&'static Function> {
    Function::ALL
        .iter()
        .copied()
        .filter(|function| {
            let probes: Vec<_> = Probe::all().filter(|p| p.function() == *function).collect();
            let agrees =
                |probe: &Probe| match (first.answer(probe.name()), second.answer(probe.name())) {
                    (Some(a), Some(b)) => is_telling(probe, a) && same(a, b),
                    _ => probe.kind() == Kind::Case,
                };
            let has = |kind| probes.iter().any(|p| p.kind() == kind);
            has(Kind::Success) && has(Kind::Failure) && probes.iter().all(|p| agrees(p))
        })
        .collect()
}

/// What a reading says about two columns of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ColumnReading {
    /// The function.
    pub function: &'static Function,
    /// During a global capture of another stream: `neutral`, `unsafe`, or the answer where it is neither.
    pub capture: String,
    /// With no context current: `works`, or the status.
    pub context: String,
}

/// What a reading says about the columns of each function that was asked in those situations, in the list's order.
#[must_use]
pub fn columns(reading: &Reading) -> Vec<ColumnReading> {
    let mut found: BTreeMap<&str, (String, String)> = BTreeMap::new();
    for question in Question::all().values() {
        // What wasn't asked yet says nothing.
        let Some(answer) = reading.answer(question.name()) else { continue };
        let entry = found.entry(question.probe().function().name).or_default();
        match question.situation() {
            Situation::Capture(Mode::Global, Caller::Same) => {
                entry.0 = match answer {
                    "SUCCESS capture=active" => "neutral".to_owned(),
                    "STREAM_CAPTURE_UNSUPPORTED capture=invalidated" => "unsafe".to_owned(),
                    other => other.to_owned(),
                }
            }
            Situation::NoContext => {
                entry.1 = if answer == "SUCCESS" { "works".to_owned() } else { answer.to_owned() };
            }
            Situation::Plain
            | Situation::Capture(..)
            | Situation::Captures(_)
            | Situation::DestroyedContext
            | Situation::Fault
            | Situation::Busy => {}
        }
    }
    Function::ALL
        .iter()
        .copied()
        .filter_map(|function| {
            let (capture, context) = found.remove(function.name)?;
            (!capture.is_empty()).then_some(ColumnReading { function, capture, context })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(answers: &[(&str, &str)]) -> Reading {
        Reading {
            driver: "sim".into(),
            device: "none".into(),
            version: 13000,
            date: "today".into(),
            answers: answers.iter().map(|(q, a)| ((*q).to_owned(), (*a).to_owned())).collect(),
        }
    }

    #[test]
    fn a_violation_is_a_signal() {
        let sim = reading(&[("a", "SUCCESS violation")]);
        let real = reading(&[("a", "SUCCESS signal 11")]);
        assert_eq!(compare(&sim, &real), []);
        let other = reading(&[("a", "SUCCESS survived=SUCCESS")]);
        assert_eq!(compare(&sim, &other).len(), 1);
    }

    #[test]
    fn a_question_that_only_one_was_asked_is_a_difference() {
        let one = reading(&[("a", "SUCCESS"), ("b", "SUCCESS")]);
        let two = reading(&[("a", "SUCCESS")]);
        let differences = compare(&one, &two);
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].question, "b");
        assert_eq!(differences[0].second, None);
    }

    #[test]
    fn a_crash_is_no_refusal() {
        let refuses = Probe::all().find(|p| p.kind() == Kind::Failure).unwrap();
        assert!(is_telling(refuses, "INVALID_VALUE"));
        assert!(is_telling(refuses, "label=INVALID_VALUE"));
        for answer in ["SUCCESS", "signal 11", VIOLATION, "setup:cuInit=NO_DEVICE", "MISSING"] {
            assert!(!is_telling(refuses, answer), "{answer}");
        }
    }

    #[test]
    fn what_no_driver_answered_is_not_agreed() {
        let empty = reading(&[]);
        assert_eq!(agreed(&empty, &empty), Vec::<&Function>::new());
        let missing: BTreeMap<_, _> =
            Probe::all().map(|p| (p.name().to_owned(), "MISSING".to_owned())).collect();
        let missing = Reading { answers: missing, ..empty };
        assert_eq!(agreed(&missing, &missing), Vec::<&Function>::new());
    }

    #[test]
    fn a_case_that_was_not_asked_yet_says_nothing_and_one_that_differs_counts() {
        let function = Probe::all().find(|p| p.kind() == Kind::Case).unwrap().function();
        let of = |kind| Probe::all().filter(move |p| p.function() == function && p.kind() == kind);
        let pair = of(Kind::Success).map(|p| (p.name(), "SUCCESS"));
        let pair = pair.chain(of(Kind::Failure).map(|p| (p.name(), "INVALID_VALUE")));
        let mut one = reading(&pair.collect::<Vec<_>>());
        let mut two = one.clone();
        assert_eq!(agreed(&one, &two), [function]);
        let case = of(Kind::Case).next().unwrap().name().to_owned();
        one.answers.insert(case.clone(), "SUCCESS".into());
        assert_eq!(agreed(&one, &two), [function]);
        two.answers.insert(case, "INVALID_VALUE".into());
        assert_eq!(agreed(&one, &two), Vec::<&Function>::new());
    }

    #[test]
    fn a_reading_survives_being_written_down() {
        let one = reading(&[("a", "SUCCESS depth=0")]);
        let text = one.to_json().unwrap();
        assert_eq!(Reading::from_json(&text).unwrap(), one);
        assert!(text.ends_with("}\n"));
    }
}
