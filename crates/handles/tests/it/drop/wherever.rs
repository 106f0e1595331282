//! A `Drop` with any context current, on any thread, in any order: it leaves nothing and changes nothing.

use super::{Thing, each};
use crate::scope::{Situation, Stage};
use cuhold_driver_sys::Fault;
use cuhold_handles::{Closed, Device, EventOptions};
use cuhold_testkit::{run, run_simulated};
use std::{sync::Barrier, thread};

#[test]
fn a_drop_with_any_context_current_ends_the_object_and_leaves_the_thread_as_it_was() {
    run(|t| {
        each(|thing| {
            for situation in Situation::ALL {
                let made = thing.make(t);
                Stage::enter(t, situation, |stage| {
                    let hand = t.driver().reclaim().run_by_hand();
                    let live = thing.live(t);
                    drop(made.handle);
                    assert_eq!(t.driver().reclaim().pending(), u64::from(thing.waits()));
                    drop(hand);
                    assert_eq!(thing.live(t), live.map(|live| live - 1));
                    stage.is_as_before();
                });
            }
        });
    });
}

#[test]
fn a_failing_drop_with_any_context_current_leaves_the_thread_as_it_was() {
    run(|t| {
        each(|thing| {
            for situation in Situation::ALL {
                let made = thing.make(t);
                Stage::enter(t, situation, |stage| {
                    let capture = t.driver().reports().capture(4);
                    t.faults().arm(Fault::refused(crate::scope::status(1)).on(thing.end()).nth(1));
                    drop(made.handle);
                    assert_eq!(capture.take().len(), 1);
                    stage.is_as_before();
                });
                thing.sweep(t, made.raw);
            }
        });
    });
}

#[test]
fn objects_are_dropped_on_threads_that_never_used_cuda() {
    run(|t| {
        each(|thing| {
            let (made, live) = (thing.make(t), thing.live(t));
            thread::scope(|s| s.spawn(move || drop(made.handle)).join()).unwrap();
            t.driver().reclaim().drain(super::PATIENCE).unwrap();
            assert_eq!(thing.live(t), live.map(|live| live - 1));
        });
    });
}

/// Drops one of them on each thread, all at once.
fn drop_at_once<T: Send>(handles: Vec<T>) {
    let start = Barrier::new(handles.len());
    thread::scope(|s| {
        for handle in handles {
            s.spawn(|| {
                start.wait();
                drop(handle);
            });
        }
    });
}

#[test]
fn of_many_threads_that_drop_a_shared_handle_the_last_one_ends_the_object_once() {
    run(|t| {
        let ends = || [Thing::Stream, Thing::Event].map(|thing| t.counts().of(thing.end()));
        for _ in 0..200 {
            let stream = t.device().new_stream().unwrap();
            let event = stream.record_new(EventOptions::default()).unwrap();
            let before = ends();
            drop_at_once(vec![(event, stream); 8]);
            assert_eq!(ends(), before.map(|count| count + 1));
        }
    });
}

/// A stream's and an event's block keep their context, a kernel's its library: whatever goes first, the driver is asked
/// in the right order.
#[test]
fn what_an_object_refers_to_ends_after_it_in_whatever_order_handles_are_dropped() {
    run_simulated(|t, sim| {
        let context = cuhold_handles::Context::new(t.device(), Default::default()).unwrap();
        let stream = context.new_stream().unwrap();
        let kernel = t.kernels().kernel("nop").unwrap();
        drop(context);
        assert_eq!(sim.gone_with_context(), []);
        drop((stream, kernel));
        t.driver().reclaim().drain(super::PATIENCE).unwrap();
        assert_eq!(sim.gone_with_context(), []);
        assert_eq!(Thing::Library.live(t), Some(0));
    });
}

#[test]
fn after_its_last_object_a_driver_ends_and_nothing_of_it_is_left() {
    run_simulated(|t, sim| {
        let other = cuhold_driver_sim::Sim::new();
        let driver = cuhold_handles::Driver::from_api(other.clone());
        let device = Device::with_driver(&driver, 0).unwrap();
        let stream = device.new_stream().unwrap();
        stream.host_fn(|| ()).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
        drop((device, stream));
        driver.reclaim().drain(super::PATIENCE).unwrap();
        assert!(driver.is_unique());
        assert_eq!(driver.close().unwrap(), Closed::Destroyed);
        assert_eq!((other.leaks(), other.violations()), (Vec::new(), Vec::new()));
        assert_eq!(sim.violations(), []);
        drop(t.device().clone());
    });
}
