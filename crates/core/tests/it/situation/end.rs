//! The end of the process: objects that are dropped by exit handlers, registered before and after the driver's own, and by
//! the destructors of thread-locals. Nothing is written, nothing hangs, and the process ends with its own code.

use super::{THROUGH, everything, through_exit};
use crate::resources::Value;
use cuhold_testkit::{Alone, Kit, is_alone, run};
use std::{
    cell::RefCell,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
    thread,
};

type Objects = Vec<(Value, Value)>;

/// What the handler drops.
static LEFT: AtomicPtr<Objects> = AtomicPtr::new(ptr::null_mut());

extern "C" fn drop_what_is_left() {
    let left = LEFT.swap(ptr::null_mut(), Ordering::AcqRel);
    if !left.is_null() {
        // SAFETY: it came from `Box::into_raw`, and was taken out a moment ago.
        drop(unsafe { Box::from_raw(left) });
    }
}

fn at_exit() {
    // SAFETY: the handler doesn't unwind but by a failed test, and this image is never unloaded.
    assert_eq!(unsafe { libc::atexit(drop_what_is_left) }, 0);
}

fn leave(t: &Kit) {
    LEFT.store(Box::into_raw(Box::new(everything(t))), Ordering::Release);
}

#[test]
fn what_an_exit_handler_drops_after_the_driver_has_ended_goes_silently() {
    const TEST: &str =
        "situation::end::what_an_exit_handler_drops_after_the_driver_has_ended_goes_silently";
    if !is_alone(TEST) {
        Alone::new(TEST).run_to_silent_exit(THROUGH);
        return;
    }
    // Handlers run in the reverse of their order: this one after the driver's own.
    at_exit();
    run(|t| {
        leave(t);
        through_exit();
    });
}

#[test]
fn what_an_exit_handler_drops_before_the_driver_has_ended_goes_silently() {
    const TEST: &str =
        "situation::end::what_an_exit_handler_drops_before_the_driver_has_ended_goes_silently";
    if !is_alone(TEST) {
        Alone::new(TEST).run_to_silent_exit(THROUGH);
        return;
    }
    run(|t| {
        leave(t);
        at_exit();
        through_exit();
    });
}

thread_local! {
    static HELD: RefCell<Objects> = const { RefCell::new(Vec::new()) };
}

#[test]
fn what_a_thread_local_of_the_exiting_thread_holds_goes_silently() {
    const TEST: &str =
        "situation::end::what_a_thread_local_of_the_exiting_thread_holds_goes_silently";
    if !is_alone(TEST) {
        Alone::new(TEST).run_to_silent_exit(THROUGH);
        return;
    }
    run(|t| {
        HELD.with(|held| *held.borrow_mut() = everything(t));
        through_exit();
    });
}

#[test]
fn what_a_thread_local_of_an_ending_thread_holds_ends_there() {
    run(|t| {
        thread::scope(|s| {
            // Joined by hand: the scope itself doesn't wait for a thread's locals to be dropped.
            s.spawn(|| HELD.with(|held| *held.borrow_mut() = everything(t))).join().unwrap();
        });
        t.driver().reclaim().drain(std::time::Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn a_process_that_ends_with_objects_in_hand_ends_with_its_own_code() {
    const TEST: &str =
        "situation::end::a_process_that_ends_with_objects_in_hand_ends_with_its_own_code";
    if !is_alone(TEST) {
        Alone::new(TEST).run_to_silent_exit(THROUGH);
        return;
    }
    run(|t| {
        let made = everything(t);
        let drained = t.driver().reclaim().pending();
        assert_eq!((made.is_empty(), drained), (false, 0));
        through_exit();
    });
}
