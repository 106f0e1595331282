//! Sinks that panic, call back, replace themselves, and are met at bad moments.

use super::{channel, ids, listener, warning};
use cuhold_handles::{Action, CudaWarning, Filter, Reports, Sink};
use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// Raises a warning when it is dropped, as any object of ours may.
struct RaisesInDrop(Arc<Reports>, u64);

impl Drop for RaisesInDrop {
    fn drop(&mut self) {
        self.0.raise(warning(self.1));
    }
}

/// What a sink captured whose `Drop` panics.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("captured value, on purpose");
    }
}

/// A channel whose sink is made by `make` from a weak reference to it, as a sink must refer to its driver.
fn channel_with(make: impl FnOnce(Weak<Reports>) -> Sink) -> Arc<Reports> {
    let reports = Arc::new(Reports::new());
    drop(reports.set_sink(make(Arc::downgrade(&reports))));
    reports
}

#[test]
fn a_boxed_closure_is_a_sink() {
    let heard = Arc::new(AtomicU64::new(0));
    let ear = Arc::clone(&heard);
    let closure: Box<dyn Fn(&CudaWarning) + Send + Sync> = Box::new(move |warning| {
        ear.store(warning.object().id, Ordering::Relaxed);
    });
    let reports = Reports::new();
    drop(reports.set_sink(closure.into()));
    reports.raise(warning(3));
    assert_eq!(heard.load(Ordering::Relaxed), 3);
}

#[test]
fn replacing_a_sink_returns_the_old_one_which_still_works() {
    let (reports, first) = channel();
    let (sink, second) = listener();
    let old = reports.set_sink(sink);
    reports.raise(warning(1));
    old.write(&warning(2));
    assert_eq!((ids(&first), ids(&second)), (vec![2], vec![1]));
    assert_eq!(reports.counts().raised, 1);
}

#[test]
fn a_sink_passes_on_to_the_one_that_it_replaced() {
    let (reports, heard) = channel();
    let old = reports.set_sink(Sink::default());
    drop(reports.set_sink(Sink::new(move |warning| old.write(&warning.with_text("passed on")))));
    reports.raise(warning(1));
    assert_eq!(heard.lock().unwrap()[0].text(), "passed on");
}

#[test]
fn a_sink_that_panics_stays_and_hears_the_next_warning() {
    let heard = Arc::new(AtomicU64::new(0));
    let ear = Arc::clone(&heard);
    let reports = Reports::new();
    drop(reports.set_sink(Sink::new(move |warning| {
        ear.fetch_add(warning.object().id, Ordering::Relaxed);
        panic!("sink, on purpose");
    })));
    reports.raise(warning(1));
    reports.raise(warning(10));
    assert_eq!(heard.load(Ordering::Relaxed), 11);
    assert_eq!(reports.counts().delivered, 2);
}

#[test]
fn a_sink_that_panics_while_the_thread_unwinds_does_not_end_the_process() {
    let reports = Arc::new(Reports::new());
    let was_unwinding = Arc::new(AtomicBool::new(false));
    let ear = Arc::clone(&was_unwinding);
    drop(reports.set_sink(Sink::new(move |_| {
        ear.store(thread::panicking(), Ordering::Relaxed);
        panic!("sink, on purpose");
    })));
    let raises = RaisesInDrop(Arc::clone(&reports), 1);
    let unwound = catch_unwind(AssertUnwindSafe(move || {
        let _raises = raises;
        panic!("first, on purpose");
    }));
    assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&"first, on purpose"));
    assert!(was_unwinding.load(Ordering::Relaxed));
    assert_eq!(reports.counts().delivered, 1);
}

#[test]
fn a_sink_may_use_the_whole_channel() {
    let counts = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&counts);
    let reports = channel_with(|reports| {
        Sink::new(move |_| {
            let reports = reports.upgrade().unwrap();
            drop(reports.set_escalation(Some(Sink::new(|_| ()))));
            drop(reports.set_filter(Filter::new(Action::Always)));
            let capture = reports.capture(1);
            reports.raise(warning(2));
            let taken = capture.take();
            *seen.lock().unwrap() = Some((reports.counts(), taken));
        })
    });
    reports.raise(warning(1));
    let (counts, taken) = counts.lock().unwrap().take().unwrap();
    assert_eq!((counts.raised, counts.delivered, counts.captured), (2, 1, 1));
    assert_eq!(taken, [warning(2)]);
}

#[test]
fn a_warning_that_a_sink_raises_inside_itself_is_folded_and_not_recursed() {
    let calls = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&calls);
    let reports = channel_with(|reports| {
        Sink::new(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            reports.upgrade().unwrap().raise(warning(2));
        })
    });
    reports.raise(warning(1));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let counts = reports.counts();
    assert_eq!((counts.raised, counts.delivered, counts.folded), (2, 1, 1));
    // The mark is gone with the sink's return.
    reports.raise(warning(3));
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[test]
fn what_was_folded_inside_a_sink_was_not_told_once() {
    let (sink, heard) = listener();
    let reports = channel_with(|reports| {
        Sink::new(move |warned| {
            sink.write(warned);
            reports.upgrade().unwrap().raise(warning(2));
        })
    });
    drop(reports.set_filter(Filter::new(Action::Once)));
    reports.raise(warning(1));
    reports.raise(warning(2));
    assert_eq!(ids(&heard), [1, 2]);
}

#[test]
fn a_panic_in_a_sink_takes_its_mark_away() {
    let calls = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&calls);
    let reports = channel_with(|reports| {
        Sink::new(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            reports.upgrade().unwrap().raise(warning(2));
            panic!("sink, on purpose");
        })
    });
    reports.raise(warning(1));
    reports.raise(warning(1));
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert_eq!(reports.counts().folded, 2);
}

#[test]
fn a_sink_may_raise_on_another_channel() {
    let (other, heard) = channel();
    let other = Arc::new(other);
    let reports = channel_with(|_| {
        let other = Arc::clone(&other);
        Sink::new(move |_| other.raise(warning(2)))
    });
    reports.raise(warning(1));
    assert_eq!(ids(&heard), [2]);
    assert_eq!((reports.counts().folded, other.counts().folded), (0, 0));
}

#[test]
fn two_channels_whose_sinks_raise_on_each_other_come_to_an_end() {
    let first = Arc::new(Reports::new());
    let second = Arc::new(Reports::new());
    for (on, to) in [(&first, &second), (&second, &first)] {
        let to = Arc::downgrade(to);
        drop(on.set_sink(Sink::new(move |warned| to.upgrade().unwrap().raise(*warned))));
    }
    first.raise(warning(1));
    let counts = (first.counts(), second.counts());
    assert_eq!((counts.0.raised, counts.0.delivered, counts.0.folded), (2, 1, 1));
    assert_eq!((counts.1.raised, counts.1.delivered, counts.1.folded), (1, 1, 0));
}

#[test]
fn a_sink_may_wait_for_another_thread_that_raises() {
    let (sink, heard) = listener();
    let reports = channel_with(|reports| {
        Sink::new(move |warned| {
            sink.write(warned);
            let reports = reports.upgrade().unwrap();
            if warned.object().id == 1 {
                thread::scope(|s| s.spawn(|| reports.raise(warning(2))).join()).unwrap();
            }
        })
    });
    reports.raise(warning(1));
    assert_eq!(ids(&heard), [1, 2]);
}

/// Another thread gets an answer from the channel while the sink runs: the wait is bounded, so that a lock that is held
/// shows as a failure.
#[test]
fn no_lock_is_held_while_a_sink_runs() {
    let answered = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&answered);
    let reports = channel_with(|reports| {
        Sink::new(move |_| {
            let (sender, answer) = mpsc::channel();
            let reports = reports.clone();
            thread::spawn(move || sender.send(reports.upgrade().map(|reports| reports.counts())));
            let counts = answer.recv_timeout(Duration::from_secs(10));
            seen.store(counts.is_ok_and(|counts| counts.is_some()), Ordering::Relaxed);
        })
    });
    reports.raise(warning(1));
    assert!(answered.load(Ordering::Relaxed));
}

#[test]
fn a_sink_runs_on_several_threads_at_once() {
    let both = Arc::new(Barrier::new(2));
    let inside = Arc::clone(&both);
    let reports = Reports::new();
    drop(reports.set_sink(Sink::new(move |_| {
        inside.wait();
    })));
    // Each waits for the other inside the sink.
    thread::scope(|s| {
        s.spawn(|| reports.raise(warning(1)));
        s.spawn(|| reports.raise(warning(2)));
    });
    assert_eq!(reports.counts().delivered, 2);
}

#[test]
fn a_sink_that_replaces_itself_runs_to_its_end() {
    let (next, heard) = listener();
    let done = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&done);
    let reports = channel_with(|reports| {
        Sink::new(move |_| {
            // Dropped here and now: the closure goes on running out of what the caller holds.
            drop(reports.upgrade().unwrap().set_sink(next.clone()));
            mark.store(true, Ordering::Relaxed);
        })
    });
    reports.raise(warning(1));
    assert!(done.load(Ordering::Relaxed));
    assert_eq!(ids(&heard), []);
    assert_eq!(Arc::strong_count(&done), 1, "the old sink is gone");
    reports.raise(warning(2));
    assert_eq!(ids(&heard), [2]);
}

#[test]
fn what_a_replaced_sink_raises_when_it_is_dropped_goes_to_the_new_one() {
    let (next, heard) = listener();
    let reports = channel_with(|reports| {
        let captured = RaisesInDrop(reports.upgrade().unwrap(), 5);
        Sink::new(move |_| {
            let _captured = &captured;
            drop(reports.upgrade().unwrap().set_sink(next.clone()));
        })
    });
    reports.raise(warning(1));
    assert_eq!(ids(&heard), [5]);
    assert_eq!(reports.counts().folded, 0);
}

#[test]
fn what_a_replaced_sink_captured_may_panic_when_it_is_dropped() {
    let (next, heard) = listener();
    let reports = channel_with(|reports| {
        let captured = PanicsInDrop;
        Sink::new(move |_| {
            let _captured = &captured;
            drop(reports.upgrade().unwrap().set_sink(next.clone()));
        })
    });
    reports.raise(warning(1));
    reports.raise(warning(2));
    assert_eq!(ids(&heard), [2]);
}

#[test]
fn a_channel_may_end_while_unwinding_with_a_sink_that_cannot_be_dropped() {
    let captured = PanicsInDrop;
    let reports = Reports::new();
    drop(reports.set_sink(Sink::new(move |_| {
        let _captured = &captured;
    })));
    let unwound = catch_unwind(AssertUnwindSafe(move || {
        let _reports = reports;
        panic!("first, on purpose");
    }));
    assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&"first, on purpose"));
}

#[test]
fn a_warning_is_delivered_while_its_thread_ends() {
    thread_local! { static LATE: RefCell<Option<RaisesInDrop>> = const { RefCell::new(None) }; }
    let (reports, heard) = channel();
    let reports = Arc::new(reports);
    let inner = Arc::clone(&reports);
    thread::spawn(move || LATE.set(Some(RaisesInDrop(inner, 9)))).join().unwrap();
    assert_eq!(ids(&heard), [9]);
}

#[test]
fn a_channel_and_its_sinks_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Reports>();
    shared::<Sink>();
}
