//! The cache beside the ends of threads, drivers and processes.

use super::{WAYS, cache_of, forking::Forking, in_both_ways};
use cuhold_driver_sim::Sim;
use cuhold_handles::{Device, Driver, Error, ErrorKind};
use cuhold_memory::{Buffer, CachingOptions};
use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

thread_local! {
    static LEFT: RefCell<Option<Buffer<u8>>> = const { RefCell::new(None) };
}

#[test]
fn what_a_thread_leaves_in_a_thread_local_is_cached() {
    in_both_ways(|_, cache, stream| {
        for first in [true, false] {
            thread::scope(|scope| {
                let leaves = scope.spawn(|| {
                    // Before and after the thread's first bin.
                    let early = first.then(|| LEFT.take());
                    assert!(early.is_none_or(|left| left.is_none()));
                    let buffer = Buffer::<u8>::uninit_in(cache, stream, 1000).unwrap();
                    LEFT.with_borrow_mut(|left| *left = Some(buffer));
                });
                // Waits for the end of the thread, beyond that of its closure.
                leaves.join().unwrap();
            });
            let told = cache.statistics();
            assert_eq!((told.in_use_bytes, told.cached_bytes, told.misses), (0, 1024, 1), "{told}");
        }
    });
}

#[test]
fn threads_that_come_and_go_use_the_same_memory() {
    in_both_ways(|_, cache, stream| {
        drop(Buffer::<u8>::uninit_in(cache, stream, 1000).unwrap());
        cache.trim(0).unwrap();
        drop(Buffer::<u8>::uninit_in(cache, stream, 5 << 20).unwrap());
        let before = cache.statistics();
        for _ in 0..100 {
            thread::scope(|scope| {
                let make = || Buffer::<u8>::uninit_in(cache, stream, 1000).unwrap();
                scope.spawn(move || drop((make(), make()))).join().unwrap();
            });
        }
        let told = cache.statistics();
        assert_eq!(told.misses, before.misses + 2);
        assert_eq!(told.hits, before.hits + 198, "what ended threads counted isn't lost");
    });
}

#[test]
fn the_driver_ends_once_nothing_refers_to_the_cache() {
    for way in WAYS {
        let driver = Driver::from_api(Sim::new());
        let device = Device::with_driver(&driver, 0).unwrap();
        let (one, two) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let cache = cache_of(&device, CachingOptions::default().way(way));
        let buffer = Buffer::<u8>::uninit_in(&cache, &one, 1000).unwrap();
        let mut moved = Buffer::<u8>::uninit_in(&cache, &one, 1000).unwrap();
        moved.move_to(&two).unwrap();
        drop((cache, one, two, device));
        assert!(!driver.is_unique(), "the buffers keep what they need");
        drop((buffer, moved));
        // The pool waits for the streams on which its memory was freed.
        driver.reclaim().drain(std::time::Duration::from_secs(60)).unwrap();
        while !driver.is_unique() {
            thread::yield_now();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_is_served_nothing_and_lets_go_of_everything_without_a_call() {
    for way in WAYS {
        let sim = Sim::new();
        let is_child = Arc::<AtomicBool>::default();
        let (parent, child) = (sim.clone(), sim.forked_child());
        let forking = Forking::new(parent, child, Arc::clone(&is_child));
        let device = Device::with_driver(&Driver::from_api(forking), 0).unwrap();
        let stream = device.new_stream().unwrap();
        let cache = cache_of(&device, CachingOptions::default().way(way));
        let make = |bytes| Buffer::<u8>::uninit_in(&cache, &stream, bytes);
        let mine = Cell::new(Some(make(1000).unwrap()));
        let large = Cell::new(Some(make(5 << 20).unwrap()));
        drop(make(3000).unwrap());
        let code = cuhold_testkit::in_fork(|| {
            is_child.store(true, Ordering::Relaxed);
            let is_forked = |error: Error| error.kind() == ErrorKind::Forked;
            let is_refused =
                make(3000).is_err_and(is_forked) && cache.trim(0).is_err_and(is_forked);
            drop((mine.take(), large.take()));
            drop((cache.clone(), stream.clone()));
            i32::from(!is_refused || sim.calls_of_forked_child() > 0)
        });
        assert_eq!(code, 0);
        drop((mine.take(), large.take()));
        assert_eq!(cache.statistics().in_use_bytes, 0);
    }
}
