//! The reclaimer's list: never full, exact under threads, released without recursion.

#![expect(unsafe_code, reason = "makes records of its own")]

use cuhold_handles::{
    Object, ObjectKind, Reclaim, WarningKind,
    reclaim::{Record, Recorded},
};
use cuhold_testkit::run_simulated;
use std::{
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Something to release: counts that it was, and adds up its number.
#[repr(C)]
struct Thing {
    record: Record,
    number: u64,
    sums: Arc<[AtomicU64; 2]>,
    /// The worker that must release it; 0 is none.
    worker: usize,
}

impl Thing {
    fn push(reclaim: &Reclaim, number: u64, worker: usize, sums: &Arc<[AtomicU64; 2]>) {
        let thing = Self { record: Record::of::<Self>(), number, sums: Arc::clone(sums), worker };
        let thing = NonNull::from(Box::leak(Box::new(thing)));
        // SAFETY: the front of a leaked box that nobody else has, on no list.
        unsafe { reclaim.inlet().push(thing.cast()) };
    }
}

// SAFETY: *first field*: `repr(C)`, the record in front. *Release*: a box of plain data.
unsafe impl Recorded for Thing {
    unsafe fn release(record: NonNull<Record>) {
        // SAFETY: leaked by `push`, released once.
        let thing = unsafe { Box::from_raw(record.cast::<Self>().as_ptr()) };
        thing.sums[0].fetch_add(1, Ordering::Relaxed);
        thing.sums[1].fetch_add(thing.number, Ordering::Relaxed);
    }
    unsafe fn worker(record: NonNull<Record>) -> Option<usize> {
        // SAFETY: the front of a live thing.
        let worker = unsafe { record.cast::<Self>().as_ref() }.worker;
        (worker != 0).then_some(worker)
    }
}

fn sums() -> Arc<[AtomicU64; 2]> {
    Arc::new([AtomicU64::new(0), AtomicU64::new(0)])
}

/// How many were released, and the sum of their numbers.
fn seen(sums: &[AtomicU64; 2]) -> (u64, u64) {
    (sums[0].load(Ordering::Relaxed), sums[1].load(Ordering::Relaxed))
}

const MILLION: u64 = 1_000_000;
const ALL: (u64, u64) = (MILLION, MILLION * (MILLION - 1) / 2);

/// Every fourth number, from `first` on. Most never wait; every eighth goes to one of three workers.
fn push_a_quarter(reclaim: &Reclaim, first: u64, sums: &Arc<[AtomicU64; 2]>) {
    for number in (first..MILLION).step_by(4) {
        let worker = if number % 8 == 0 { number % 3 + 1 } else { 0 };
        Thing::push(reclaim, number, usize::try_from(worker).unwrap(), sums);
    }
}

#[test]
fn a_million_records_that_four_threads_push_are_each_released_once() {
    run_simulated(|t, _| {
        let (reclaim, sums) = (t.driver().reclaim(), sums());
        thread::scope(|scope| {
            for first in 0..4 {
                let sums = &sums;
                scope.spawn(move || push_a_quarter(reclaim, first, sums));
            }
        });
        reclaim.drain(PATIENCE).unwrap();
        assert_eq!(seen(&sums), ALL);
        assert_eq!(reclaim.pending(), 0);
    });
}

#[test]
fn a_million_records_wait_on_the_list_and_are_released_by_hand_without_recursion() {
    run_simulated(|t, _| {
        let (reclaim, sums) = (t.driver().reclaim(), sums());
        let by_hand = reclaim.run_by_hand();
        for number in 0..MILLION {
            Thing::push(reclaim, number, 1, &sums);
        }
        assert_eq!(reclaim.pending(), MILLION);
        assert_eq!(seen(&sums), (0, 0));
        assert!(by_hand.step());
        assert_eq!(seen(&sums), (1, 0), "the oldest is released first");
        reclaim.drain(PATIENCE).unwrap();
        assert_eq!(seen(&sums), ALL);
        assert!(!by_hand.step());
    });
}

#[test]
fn what_is_pushed_while_the_list_is_released_is_released_too() {
    run_simulated(|t, _| {
        let sums = sums();
        for _ in 0..200 {
            let (left, right) = (t.driver().reclaim(), t.driver().reclaim());
            thread::scope(|scope| {
                scope.spawn(|| (0..50).for_each(|number| Thing::push(left, number, 0, &sums)));
                scope.spawn(|| right.drain(PATIENCE).unwrap());
            });
        }
        t.driver().reclaim().drain(PATIENCE).unwrap();
        assert_eq!(seen(&sums).0, 200 * 50);
    });
}

/// A bug of whoever made the record: it is told, and what comes after it is released all the same.
#[test]
fn a_release_that_panics_is_one_warning_and_the_threads_go_on() {
    run_simulated(|t, _| {
        let (reclaim, sums) = (t.driver().reclaim(), sums());
        for waits in [false, true] {
            let capture = t.driver().reports().capture(4);
            push_panicking(reclaim, waits);
            Thing::push(reclaim, 1, usize::from(waits), &sums);
            let [warning] = capture.take()[..] else { panic!("not one warning") };
            assert_eq!(warning.kind(), WarningKind::Panicked);
            assert_eq!(warning.object(), Object::nameless(ObjectKind::Reclaimer));
            assert_eq!(warning.text(), "in the release, on purpose");
        }
        assert_eq!((seen(&sums), reclaim.pending()), ((2, 2), 0));
    });
}

/// A record without anything, whose release panics.
#[repr(C)]
struct Panicking {
    record: Record,
    waits: bool,
}

fn push_panicking(reclaim: &Reclaim, waits: bool) {
    let panicking = Box::leak(Box::new(Panicking { record: Record::of::<Panicking>(), waits }));
    // SAFETY: the front of a leaked box that nobody else has, on no list.
    unsafe { reclaim.inlet().push(NonNull::from(panicking).cast()) };
}

// SAFETY: *first field*: `repr(C)`, the record in front. *Release*: plain data.
unsafe impl Recorded for Panicking {
    unsafe fn release(_: NonNull<Record>) {
        panic!("in the release, on purpose");
    }
    unsafe fn worker(record: NonNull<Record>) -> Option<usize> {
        // SAFETY: the front of a live record.
        unsafe { record.cast::<Self>().as_ref() }.waits.then_some(1)
    }
}
