//! A destroy that fails in a `Drop`: one warning, no panic, no second destroy.

use super::{Thing, each};
use crate::scope::How;
use cuhold_driver_sys::{CUresult, Failure, Fault};
use cuhold_handles::{CudaWarning, Fate, WarningKind};
use cuhold_testkit::{Kit, run};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    thread,
};

/// Drops an object of this type, whose destroy fails so, and gives what is told.
fn fail(
    t: &Kit,
    thing: Thing,
    how: How,
    status: CUresult,
    drop_it: impl FnOnce(Box<dyn Send>),
) -> CudaWarning {
    let made = thing.make(t);
    let live = thing.live(t);
    let capture = t.driver().reports().capture(8);
    t.faults().arm(Fault::new(how.with(status)).on(thing.end()).nth(1));
    let (warnings, entries) = t.entries(|| {
        drop_it(made.handle);
        capture.take()
    });
    let ends = entries.iter().filter(|entry| entry.call() == thing.end()).count();
    assert_eq!(ends, 1, "one destroy, whatever it answers");
    let [warning] = warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(capture.over(), 0);
    assert_eq!(warning.kind(), WarningKind::Failed);
    assert_eq!(warning.failure(), Some(Failure { call: thing.end(), status }));
    assert_eq!((warning.object().kind, warning.object().raw), (thing.kind(), made.raw));
    assert_ne!(warning.object().id, 0);
    match how {
        How::Refused => {
            assert_eq!(thing.live(t), live);
            thing.sweep(t, made.raw);
        }
        How::Done => t.faults().disarm(),
    }
    assert_eq!(thing.live(t), live.map(|live| live - 1));
    warning
}

const FATES: [(CUresult, Fate); 4] = [
    (CUresult::INVALID_HANDLE, Fate::Unknown),
    (CUresult::CONTEXT_IS_DESTROYED, Fate::GoneWithContext),
    (CUresult::ILLEGAL_ADDRESS, Fate::Leaked),
    (CUresult(9999), Fate::Unknown),
];

#[test]
fn a_failing_destroy_in_a_drop_is_one_warning_with_call_object_status_and_fate() {
    for (status, fate) in FATES {
        run(|t| {
            each(|thing| {
                for how in How::BOTH {
                    let warning = fail(t, thing, how, status, drop);
                    assert_eq!(warning.fate(), Some(fate));
                }
            });
            assert_eq!(t.driver().is_lost(), status.is_fatal());
        });
    }
}

fn drop_unwinding(handle: Box<dyn Send>) {
    let payload = catch_unwind(AssertUnwindSafe(|| {
        let _handle = handle;
        panic_any("first, on purpose");
    }));
    assert_eq!(payload.unwrap_err().downcast_ref(), Some(&"first, on purpose"));
}

#[test]
fn a_failing_destroy_while_the_thread_unwinds_is_one_warning_and_no_abort() {
    run(|t| {
        each(|thing| {
            for how in How::BOTH {
                let warning = fail(t, thing, how, CUresult::UNKNOWN, drop_unwinding);
                assert_eq!(warning.fate(), Some(Fate::Unknown));
            }
        });
    });
}

#[test]
fn a_failing_destroy_on_a_thread_that_never_used_cuda_is_one_warning() {
    run(|t| {
        each(|thing| {
            for how in How::BOTH {
                let elsewhere = |handle: Box<dyn Send>| {
                    thread::scope(|s| s.spawn(move || drop(handle)).join()).unwrap();
                };
                let warning = fail(t, thing, how, CUresult::UNKNOWN, elsewhere);
                assert_eq!(warning.fate(), Some(Fate::Unknown));
            }
        });
    });
}

/// `DEINITIALIZED` is nobody's fault.
#[test]
fn a_driver_that_is_shutting_down_is_not_reported() {
    run(|t| {
        each(|thing| {
            let made = thing.make(t);
            let raised = t.driver().reports().counts().raised;
            t.faults().arm(Fault::refused(CUresult::DEINITIALIZED).on(thing.end()).nth(1));
            let hand = t.driver().reclaim().run_by_hand();
            drop(made.handle);
            drop(hand);
            assert_eq!(t.driver().reports().counts().raised, raised);
            thing.sweep(t, made.raw);
        });
    });
}

/// A function that the driver lacks: the object can't be ended.
#[test]
fn a_destroy_that_the_driver_lacks_leaks_the_object() {
    run(|t| {
        each(|thing| {
            let warning = fail(t, thing, How::Refused, CUresult::MISSING, drop);
            assert_eq!(warning.fate(), Some(Fate::Leaked));
            assert!(warning.to_string().contains("is missing from the driver"), "{warning}");
        });
    });
}

/// After a fatal code the rest of an object's warnings are folded; other objects have one each.
#[test]
fn a_lost_driver_is_told_once_an_object() {
    run(|t| {
        let reports = t.driver().reports();
        let capture = reports.capture(8);
        let (one, two) = (Thing::Stream.make(t), Thing::Event.make(t));
        t.faults().arm(Fault::refused(CUresult::ILLEGAL_ADDRESS).on(Thing::Stream.end()));
        t.faults().arm(Fault::refused(CUresult::ILLEGAL_ADDRESS).on(Thing::Event.end()));
        let (raws, folded) = ([one.raw, two.raw], reports.counts().folded);
        drop((one, two));
        let told: Vec<_> = capture.take().iter().map(|warning| warning.object().raw).collect();
        assert_eq!(told, raws);
        assert_eq!(reports.counts().folded, folded);
        assert!(t.driver().is_lost());
        Thing::Stream.sweep(t, raws[0]);
        Thing::Event.sweep(t, raws[1]);
    });
}
