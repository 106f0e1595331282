//! What is ignored, told once, always, escalated; what is folded after a fatal code; and that the counts add up.

use super::{channel, failure, fatal, ids, listener, stream, warning};
use cuhold_driver_sys::{CUresult, Call};
use cuhold_handles::{Action, Counts, CudaWarning, Fate, Filter, Reports, Rule, WarningKind};
use std::{sync::Barrier, thread};

/// That nothing got lost between raised and told; gives the counts back.
fn balanced(reports: &Reports) -> Counts {
    let counts = reports.counts();
    let ends = counts.delivered + counts.captured + counts.escalated + counts.folded;
    assert_eq!(counts.raised, ends + counts.ignored, "{counts:?}");
    counts
}

#[test]
fn without_a_filter_each_warning_is_delivered_each_time() {
    let (reports, heard) = channel();
    for id in [1, 1, 2] {
        reports.raise(warning(id));
    }
    assert_eq!(ids(&heard), [1, 1, 2]);
    let counts = balanced(&reports);
    assert_eq!((counts.raised, counts.delivered), (3, 3));
}

#[test]
fn what_is_ignored_is_counted_and_not_delivered() {
    let (reports, heard) = channel();
    drop(reports.set_filter(Filter::new(Action::Ignore)));
    reports.raise(warning(1));
    assert_eq!(ids(&heard), []);
    let counts = balanced(&reports);
    assert_eq!((counts.raised, counts.ignored, counts.leaked), (1, 1, 1));
}

#[test]
fn a_rule_ignores_by_kind_status_or_call_and_leaves_the_rest() {
    let (reports, heard) = channel();
    let other = CudaWarning::failed(failure(CUresult::UNKNOWN), stream(2), Fate::Leaked);
    for rule in [
        Rule::new(Action::Ignore).kind(WarningKind::Failed).status(CUresult::INVALID_HANDLE),
        Rule::new(Action::Ignore).call(Call::cuStreamDestroy_v2).status(CUresult::INVALID_HANDLE),
        Rule::new(Action::Ignore).status(CUresult::INVALID_HANDLE),
    ] {
        drop(reports.set_filter(Filter::default().rule(rule)));
        reports.raise(warning(1));
        reports.raise(other);
    }
    assert_eq!(ids(&heard), [2, 2, 2]);
    assert_eq!(balanced(&reports).ignored, 3);
}

#[test]
fn once_is_by_call_status_and_id_although_raw_values_are_the_same() {
    let (reports, heard) = channel();
    drop(reports.set_filter(Filter::new(Action::Once)));
    for id in [1, 2, 1, 2, 1] {
        reports.raise(warning(id));
    }
    let other_status = CudaWarning::failed(failure(CUresult::UNKNOWN), stream(1), Fate::Leaked);
    let other_call = CudaWarning::failed(
        cuhold_driver_sys::Failure { call: Call::cuStreamQuery, ..failure(CUresult::UNKNOWN) },
        stream(1),
        Fate::Leaked,
    );
    for other in [other_status, other_call, other_status, other_call] {
        reports.raise(other);
    }
    assert_eq!(*heard.lock().unwrap(), [warning(1), warning(2), other_status, other_call]);
    assert_eq!(balanced(&reports).folded, 5);
}

#[test]
fn a_full_table_of_once_delivers_what_it_has_no_room_for() {
    const KEYS: u64 = 5000;
    let (reports, heard) = channel();
    drop(reports.set_filter(Filter::new(Action::Once)));
    for id in 1..=KEYS {
        reports.raise(warning(id));
    }
    assert_eq!(heard.lock().unwrap().len() as u64, KEYS, "no two are mistaken for one");
    for id in 1..=KEYS {
        reports.raise(warning(id));
    }
    let counts = balanced(&reports);
    assert!(counts.folded > 0 && counts.folded < KEYS, "{counts:?}");
    assert_eq!(counts.raised, 2 * KEYS);
}

#[test]
fn a_filter_that_is_set_again_has_told_nothing_yet() {
    let (reports, heard) = channel();
    for _ in 0..2 {
        drop(reports.set_filter(Filter::new(Action::Once)));
        reports.raise(warning(1));
        reports.raise(warning(1));
    }
    assert_eq!(ids(&heard), [1, 1]);
}

#[test]
fn setting_a_filter_returns_the_one_that_was_set() {
    let reports = Reports::new();
    let filter = Filter::new(Action::Once).rule(Rule::new(Action::Ignore));
    assert_eq!(reports.set_filter(filter.clone()), Filter::default());
    assert_eq!(reports.set_filter(Filter::default()), filter);
}

#[test]
fn what_is_escalated_goes_to_the_hook_instead_of_the_sink() {
    let (reports, heard) = channel();
    let (hook, escalated) = listener();
    assert!(reports.set_escalation(Some(hook)).is_none());
    let rule = Rule::new(Action::Escalate).status(CUresult::INVALID_HANDLE);
    drop(reports.set_filter(Filter::default().rule(rule)));
    reports.raise(warning(1));
    reports.raise(CudaWarning::failed(failure(CUresult::UNKNOWN), stream(2), Fate::Released));
    assert_eq!((ids(&escalated), ids(&heard)), (vec![1], vec![2]));
    let counts = balanced(&reports);
    assert_eq!((counts.escalated, counts.delivered, counts.leaked), (1, 1, 1));
}

#[test]
fn what_is_escalated_without_a_hook_goes_to_the_sink_and_counts_as_escalated() {
    let (reports, heard) = channel();
    drop(reports.set_filter(Filter::new(Action::Escalate)));
    reports.raise(warning(1));
    assert_eq!(ids(&heard), [1]);
    let counts = balanced(&reports);
    assert_eq!((counts.escalated, counts.delivered), (1, 0));
}

#[test]
fn setting_a_hook_returns_the_one_that_was_set() {
    let reports = Reports::new();
    let (hook, escalated) = listener();
    drop(reports.set_escalation(Some(hook)));
    let old = reports.set_escalation(None).unwrap();
    old.write(&warning(7));
    assert_eq!(ids(&escalated), [7]);
    assert!(reports.set_escalation(None).is_none());
}

#[test]
fn a_hook_that_panics_is_held_to_what_a_sink_is() {
    let (reports, heard) = channel();
    let hook = cuhold_handles::Sink::new(|_| panic!("hook, on purpose"));
    drop(reports.set_escalation(Some(hook)));
    drop(reports.set_filter(Filter::new(Action::Escalate)));
    reports.raise(warning(1));
    reports.raise(warning(2));
    assert_eq!(ids(&heard), []);
    assert_eq!(balanced(&reports).escalated, 2);
}

#[test]
fn after_a_fatal_code_an_object_has_one_more_warning() {
    let (reports, heard) = channel();
    reports.raise(warning(1));
    for id in [1, 2, 1, 2, 2] {
        reports.raise(fatal(id));
    }
    let mut expected = vec![warning(1), fatal(1), fatal(2)];
    assert_eq!(*heard.lock().unwrap(), expected);
    // What isn't fatal has nothing to do with it.
    reports.raise(warning(1));
    expected.push(warning(1));
    assert_eq!(*heard.lock().unwrap(), expected);
    assert_eq!(balanced(&reports).folded, 3);
}

#[test]
fn fatal_codes_of_different_calls_and_codes_fold_for_one_object() {
    let (reports, heard) = channel();
    reports.raise(fatal(1));
    let skipped = Call::cuEventDestroy_v2;
    reports.raise(CudaWarning::skipped(skipped, stream(1), failure(CUresult::LAUNCH_FAILED)));
    assert_eq!(ids(&heard), [1]);
    assert_eq!(balanced(&reports).folded, 1);
}

#[test]
fn what_has_no_id_is_not_folded_after_a_fatal_code() {
    let (reports, heard) = channel();
    reports.raise(fatal(0));
    reports.raise(fatal(0));
    assert_eq!(ids(&heard), [0, 0]);
}

#[test]
fn an_ignored_fatal_warning_does_not_silence_the_next_one() {
    let (reports, heard) = channel();
    drop(reports.set_filter(Filter::new(Action::Ignore)));
    reports.raise(fatal(1));
    drop(reports.set_filter(Filter::default()));
    reports.raise(fatal(1));
    assert_eq!(ids(&heard), [1]);
}

#[test]
fn fatal_warnings_of_more_objects_than_there_is_room_for_are_delivered() {
    const OBJECTS: u64 = 3000;
    let (reports, heard) = channel();
    for id in 1..=OBJECTS {
        reports.raise(fatal(id));
    }
    assert_eq!(heard.lock().unwrap().len() as u64, OBJECTS);
}

#[test]
fn that_the_driver_is_shutting_down_is_not_reported() {
    let (reports, heard) = channel();
    let deny = reports.deny();
    reports.raise(CudaWarning::failed(
        failure(CUresult::DEINITIALIZED),
        stream(1),
        Fate::GoneWithContext,
    ));
    drop(deny);
    assert_eq!((ids(&heard), reports.counts().raised), (vec![], 0));
}

#[test]
fn many_threads_at_once_are_counted_exactly() {
    const THREADS: u64 = 8;
    const EACH: u64 = 500;
    let released = |status, id| CudaWarning::failed(failure(status), stream(id), Fate::Released);
    let (reports, heard) = channel();
    let (hook, escalated) = listener();
    drop(reports.set_escalation(Some(hook)));
    drop(
        reports.set_filter(
            Filter::default()
                .rule(Rule::new(Action::Ignore).status(CUresult::UNKNOWN))
                .rule(Rule::new(Action::Once).status(CUresult::NOT_FOUND))
                .rule(Rule::new(Action::Escalate).status(CUresult::NOT_SUPPORTED)),
        ),
    );
    let start = Barrier::new(8);
    thread::scope(|s| {
        for number in 0..THREADS {
            let (reports, start) = (&reports, &start);
            s.spawn(move || {
                start.wait();
                for id in 1..=EACH {
                    reports.raise(warning(number * EACH + id));
                    reports.raise(released(CUresult::UNKNOWN, id));
                    reports.raise(released(CUresult::NOT_FOUND, id));
                    reports.raise(released(CUresult::NOT_SUPPORTED, id));
                }
            });
        }
    });
    let all = THREADS * EACH;
    let counts = balanced(&reports);
    assert_eq!((counts.raised, counts.ignored, counts.escalated), (4 * all, all, all));
    // Each thread tells the same ones; the table has room for them.
    assert_eq!((counts.delivered, counts.folded), (all + EACH, all - EACH));
    assert_eq!(counts.leaked, all);
    assert_eq!(heard.lock().unwrap().len() as u64, all + EACH);
    assert_eq!(escalated.lock().unwrap().len() as u64, all);
    let mut own: Vec<_> = heard.lock().unwrap().clone();
    own.retain(|warning| warning.status() == Some(CUresult::INVALID_HANDLE));
    let mut own: Vec<_> = own.iter().map(|warning| warning.object().id).collect();
    own.sort_unstable();
    assert_eq!(own, (1..=all).collect::<Vec<_>>());
}
