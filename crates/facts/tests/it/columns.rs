//! The list's *capture* and *context* columns against the committed reading.

use cuhold_driver_sys::{CaptureRule, ContextUse, Waits};
use cuhold_facts::{ColumnReading, Plan, Question, Situation, columns, committed};
use std::collections::BTreeMap;

/// Functions of which the capture column says less than a reading, each with the reason. They are listed as neutral.
const CAPTURE: &[(&str, &str)] = &[
    (
        "cuCtxSynchronize",
        "refused because a stream of that context is captured, in every mode and by every caller: not by the column",
    ),
    (
        "cuCtxRecordEvent",
        "refused because a stream of that context is captured, as cuCtxSynchronize",
    ),
    ("cuCtxWaitEvent", "refused because a stream of that context is captured, as cuCtxSynchronize"),
];

/// Functions of which the context column says something else than a reading, each with the reason.
const CONTEXT: &[(&str, &str)] = &[
    (
        "cuMemcpyBatchAsync",
        "takes any context of the device, but not none, which it answers with INVALID_VALUE",
    ),
    ("cuLinkAddData", DESTROYED),
    ("cuLinkAddFile", DESTROYED),
    ("cuLinkComplete", DESTROYED),
    ("cuLinkDestroy", DESTROYED),
    ("cuMemHostUnregister", DESTROYED),
];

/// Seen of the last in the crate `handles` on an H200, where it answered `CONTEXT_IS_DESTROYED`; assumed of the linker.
const DESTROYED: &str = "works with none current, but not with one that was destroyed";

fn reading() -> Vec<ColumnReading> {
    let read = columns(&committed().unwrap());
    assert!(read.len() >= 190, "too few functions were read: {}", read.len());
    read
}

/// Fails unless exactly the functions of `exceptions` read otherwise than they are listed.
#[track_caller]
fn holds(exceptions: &[(&str, &str)], otherwise: impl Fn(&ColumnReading) -> Option<String>) {
    let known: BTreeMap<&str, &str> = exceptions.iter().copied().collect();
    assert_eq!(known.len(), exceptions.len(), "a function is listed twice");
    let found: BTreeMap<&str, String> = reading()
        .iter()
        .filter_map(|column| Some((column.function.name, otherwise(column)?)))
        .collect();
    let new: Vec<_> = found.iter().filter(|(name, _)| !known.contains_key(**name)).collect();
    assert!(new.is_empty(), "a real driver answers otherwise than the list says: {new:#?}");
    let gone: Vec<_> = known.keys().filter(|name| !found.contains_key(**name)).collect();
    assert!(gone.is_empty(), "the list says of these what was read: {gone:#?}");
}

#[test]
fn the_capture_column_says_what_a_real_driver_did_during_somebody_s_capture() {
    holds(CAPTURE, |column| {
        let listed = match column.function.columns.capture {
            CaptureRule::Neutral => "neutral",
            CaptureRule::Unsafe => "unsafe",
        };
        (column.capture != listed).then(|| format!("{}, listed as {listed}", column.capture))
    });
}

#[test]
fn what_the_capture_column_leaves_out_is_refused_in_every_mode_that_was_read() {
    let real = committed().unwrap();
    let mut relaxed = 0;
    for (name, _) in CAPTURE {
        let during = format!("{name} during ");
        for (question, answer) in real.answers.iter().filter(|(q, _)| q.starts_with(&during)) {
            assert_eq!(answer, "STREAM_CAPTURE_UNSUPPORTED capture=invalidated", "{question}");
            relaxed += usize::from(question.contains("a relaxed capture"));
        }
    }
    assert!(relaxed >= 2, "{relaxed}");
}

#[test]
fn the_context_column_says_what_a_real_driver_answered_with_none_current() {
    holds(CONTEXT, |column| {
        let listed = column.function.columns.context;
        let works = match listed {
            ContextUse::Ignored | ContextUse::Device => true,
            ContextUse::Owner => false,
        };
        ((column.context == "works") != works)
            .then(|| format!("{}, listed as {listed:?}", column.context))
    });
}

/// Functions of which the simulated driver waits otherwise than the waits column says, each with the reason.
const WAITS: &[(&str, &str)] = &[
    ("cuDevicePrimaryCtxRelease", "one of two retains is released, so that nothing ends"),
    ("cuLibraryUnload", "waits for the contexts that it was loaded in, and was loaded in none"),
    ("cuMemcpy", LEGACY),
    ("cuMemcpyDtoH", LEGACY),
    ("cuMemcpyHtoD", LEGACY),
];

const LEGACY: &str =
    "waits for the legacy default stream, with which the stream that works isn't ordered";

#[test]
fn the_waits_column_says_what_the_simulated_driver_waits_for_while_another_stream_works() {
    let sim = Plan::simulated().take().unwrap();
    let known: BTreeMap<&str, &str> = WAITS.iter().copied().collect();
    let (mut asked, mut found) = (0, BTreeMap::new());
    for question in Question::all().values().filter(|q| q.situation() == Situation::Busy) {
        let answer = sim.answer(question.name()).unwrap();
        let Some((_, waited)) = answer.split_once("waited=") else { continue };
        asked += 1;
        let function = question.probe().function();
        let listed = function.columns.waits;
        if (waited == "yes") != matches!(listed, Waits::Context | Waits::All) {
            found.insert(function.name, format!("{answer}, listed as {listed:?}"));
        }
    }
    assert!(asked >= 250, "{asked}");
    let new: Vec<_> = found.iter().filter(|(name, _)| !known.contains_key(**name)).collect();
    assert!(new.is_empty(), "the simulated driver waits otherwise than the list says: {new:#?}");
    let gone: Vec<_> = known.keys().filter(|name| !found.contains_key(**name)).collect();
    assert!(gone.is_empty(), "the list says of these what is simulated: {gone:#?}");
}
