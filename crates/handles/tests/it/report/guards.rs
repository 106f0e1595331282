//! `capture` and `deny`.

use super::{channel, fatal, ids, listener, warning};
use cuhold_handles::{Action, Deny, Filter, Reports, Sink};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// What the end of a denial says; `None` where it says nothing.
fn verdict(deny: Deny<'_>) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(|| drop(deny))).err()?;
    payload.downcast_ref::<String>().cloned()
}

// A denial must stay on its thread: this doesn't compile once it is `Send`.
const _: fn() = || {
    trait Ambiguous<Which> {
        fn check() {}
    }
    struct Send_;
    impl<T> Ambiguous<()> for T {}
    impl<T: Send> Ambiguous<Send_> for T {}
    <Deny<'static> as Ambiguous<_>>::check();
};

#[test]
fn a_capture_takes_what_the_sink_would_hear() {
    let (reports, heard) = channel();
    let capture = reports.capture(8);
    reports.raise(warning(1));
    reports.raise(warning(2));
    assert_eq!(capture.take(), [warning(1), warning(2)]);
    assert_eq!(ids(&heard), []);
    let counts = reports.counts();
    assert_eq!((counts.raised, counts.captured, counts.delivered, counts.leaked), (2, 2, 0, 2));
}

#[test]
fn a_capture_takes_what_would_be_escalated() {
    let (reports, _heard) = channel();
    let (hook, escalated) = listener();
    drop(reports.set_escalation(Some(hook)));
    drop(reports.set_filter(Filter::new(Action::Escalate)));
    let capture = reports.capture(1);
    reports.raise(warning(1));
    assert_eq!((capture.take(), ids(&escalated)), (vec![warning(1)], vec![]));
    assert_eq!(reports.counts().escalated, 0);
}

#[test]
fn a_capture_hears_every_thread_exactly() {
    const EACH: u64 = 200;
    let (reports, heard) = channel();
    let capture = reports.capture(8 * 200);
    let start = Barrier::new(8);
    thread::scope(|s| {
        for number in 0..8 {
            let (reports, start) = (&reports, &start);
            s.spawn(move || {
                start.wait();
                for id in 1..=EACH {
                    reports.raise(warning(number * EACH + id));
                }
            });
        }
    });
    let mut taken: Vec<_> = capture.take().iter().map(|warning| warning.object().id).collect();
    taken.sort_unstable();
    assert_eq!(taken, (1..=8 * EACH).collect::<Vec<_>>());
    assert_eq!((capture.over(), ids(&heard)), (0, vec![]));
}

#[test]
fn what_a_capture_has_no_room_for_is_counted() {
    let (reports, heard) = channel();
    let capture = reports.capture(2);
    for id in 1..=5 {
        reports.raise(warning(id));
    }
    assert_eq!(capture.over(), 3);
    assert_eq!(capture.take(), [warning(1), warning(2)]);
    assert_eq!((reports.counts().captured, ids(&heard)), (5, vec![]));
    // There is new room once it was read.
    reports.raise(warning(6));
    assert_eq!((capture.take(), capture.over()), (vec![warning(6)], 3));
}

#[test]
fn a_capture_without_room_takes_and_counts() {
    let (reports, heard) = channel();
    let capture = reports.capture(0);
    reports.raise(warning(1));
    assert_eq!((capture.take(), capture.over(), ids(&heard)), (vec![], 1, vec![]));
}

#[test]
fn the_sink_hears_again_when_the_capture_is_dropped() {
    let (reports, heard) = channel();
    drop(reports.capture(1));
    reports.raise(warning(1));
    assert_eq!(ids(&heard), [1]);
}

#[test]
fn the_innermost_capture_takes() {
    let (reports, _heard) = channel();
    let outer = reports.capture(4);
    reports.raise(warning(1));
    let inner = reports.capture(4);
    reports.raise(warning(2));
    assert_eq!(inner.take(), [warning(2)]);
    drop(inner);
    reports.raise(warning(3));
    assert_eq!(outer.take(), [warning(1), warning(3)]);
}

#[test]
fn captures_may_end_in_any_order() {
    let (reports, heard) = channel();
    let outer = reports.capture(4);
    let inner = reports.capture(4);
    drop(outer);
    reports.raise(warning(1));
    assert_eq!(inner.take(), [warning(1)]);
    drop(inner);
    reports.raise(warning(2));
    assert_eq!(ids(&heard), [2]);
}

#[test]
fn what_is_ignored_or_folded_is_not_captured() {
    let (reports, _heard) = channel();
    let capture = reports.capture(8);
    reports.raise(fatal(1));
    reports.raise(fatal(1));
    drop(reports.set_filter(Filter::new(Action::Ignore)));
    reports.raise(warning(1));
    assert_eq!(capture.take(), [fatal(1)]);
    let counts = reports.counts();
    assert_eq!((counts.captured, counts.folded, counts.ignored), (1, 1, 1));
}

#[test]
fn a_capture_is_empty_where_nothing_was_raised() {
    let (reports, heard) = channel();
    reports.raise(warning(1));
    assert_eq!(reports.capture(4).take(), []);
    assert_eq!(ids(&heard), [1]);
}

#[test]
fn a_denial_is_content_where_nothing_was_raised() {
    let (reports, _heard) = channel();
    reports.raise(warning(1));
    assert_eq!(verdict(reports.deny()), None);
}

#[test]
fn a_denial_panics_with_the_count_and_the_last_warning() {
    let (reports, heard) = channel();
    let deny = reports.deny();
    reports.raise(warning(1));
    reports.raise(warning(2));
    assert_eq!(
        verdict(deny).unwrap(),
        format!("2 warning(s) raised that no capture took, the last: {}", warning(2))
    );
    assert_eq!(ids(&heard), [1, 2]);
}

#[test]
fn a_denial_hears_other_threads() {
    let (reports, _heard) = channel();
    let deny = reports.deny();
    thread::scope(|s| s.spawn(|| reports.raise(warning(1))).join()).unwrap();
    assert!(verdict(deny).unwrap().starts_with("1 warning(s)"));
}

#[test]
fn a_denial_does_not_mind_what_a_capture_took() {
    let (reports, _heard) = channel();
    let deny = reports.deny();
    let capture = reports.capture(0);
    reports.raise(warning(1));
    reports.raise(fatal(2));
    reports.raise(fatal(2));
    assert_eq!(capture.over(), 2);
    drop(capture);
    assert_eq!(verdict(deny), None);
}

#[test]
fn a_denial_minds_what_comes_after_a_capture() {
    let (reports, _heard) = channel();
    let deny = reports.deny();
    let capture = reports.capture(1);
    reports.raise(warning(1));
    drop(capture);
    reports.raise(warning(2));
    assert!(verdict(deny).unwrap().starts_with("1 warning(s)"));
}

#[test]
fn a_denial_minds_what_the_filter_ignores_folds_and_escalates() {
    for action in [Action::Ignore, Action::Once, Action::Escalate] {
        let (reports, _heard) = channel();
        drop(reports.set_filter(Filter::new(action)));
        let deny = reports.deny();
        reports.raise(warning(1));
        reports.raise(warning(1));
        assert!(verdict(deny).unwrap().starts_with("2 warning(s)"), "{action:?}");
    }
}

#[test]
fn denials_nest_and_each_answers_for_its_own_span() {
    let (reports, _heard) = channel();
    let outer = reports.deny();
    reports.raise(warning(1));
    let inner = reports.deny();
    assert_eq!(verdict(inner), None);
    let inner = reports.deny();
    reports.raise(warning(2));
    assert!(verdict(inner).unwrap().starts_with("1 warning(s)"));
    assert!(verdict(outer).unwrap().starts_with("2 warning(s)"));
}

#[test]
fn a_denial_is_silent_while_its_thread_panics() {
    let (reports, heard) = channel();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _deny = reports.deny();
        reports.raise(warning(1));
        panic!("first, on purpose");
    }));
    assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&"first, on purpose"));
    assert_eq!(ids(&heard), [1]);
}

#[test]
fn a_denial_minds_although_another_thread_panics() {
    let (reports, _heard) = channel();
    let deny = reports.deny();
    let other = thread::scope(|s| s.spawn(|| panic!("another thread, on purpose")).join());
    assert!(other.is_err());
    reports.raise(warning(1));
    assert!(verdict(deny).is_some());
}

#[test]
fn a_capture_sees_what_a_sink_raises_inside_itself() {
    let captured = Arc::new(AtomicBool::new(false));
    let reports = Arc::new(Reports::new());
    let (mark, inner) = (Arc::clone(&captured), Arc::downgrade(&reports));
    drop(reports.set_sink(Sink::new(move |_| {
        let reports = inner.upgrade().unwrap();
        let capture = reports.capture(1);
        reports.raise(warning(2));
        mark.store(capture.take() == [warning(2)], Ordering::Relaxed);
    })));
    reports.raise(warning(1));
    assert!(captured.load(Ordering::Relaxed));
}
