//! What is dropped inside a callback of the driver, where no call may be made: it goes to the reclaimer and ends there.

#![expect(unsafe_code, reason = "queues callbacks as other libraries do")]

use super::{PATIENCE, Thing, each};
use cuhold_driver_sim::{ObjectKind as SimKind, ViolationKind};
use cuhold_driver_sys::{Call, ffi::c_void};
use cuhold_handles::{Closed, Device, Driver, Owner, Stream};
use cuhold_testkit::{Kit, run, run_simulated};
use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Runs a closure as a host function, to its end.
fn inside(stream: &Stream, closure: impl FnOnce() + Send + 'static) {
    stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn what_is_dropped_in_a_host_function_ends_on_the_reclaimer() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        each(|thing| {
            let hand = t.driver().reclaim().run_by_hand();
            let (made, live) = (thing.make(t), thing.live(t));
            let ends = t.counts().of(thing.end());
            inside(&stream, move || drop(made.handle));
            assert_eq!(t.counts().of(thing.end()), ends, "a call was made in the callback");
            // The object, and what the call itself left.
            assert_eq!(t.driver().reclaim().pending(), 2);
            while hand.step() {}
            assert_eq!(t.counts().of(thing.end()), ends + 1);
            assert_eq!(thing.live(t), live.map(|live| live - 1));
        });
    });
}

#[test]
fn a_hundred_thousand_objects_are_dropped_in_one_host_function() {
    run_simulated(|t, sim| {
        const MANY: usize = 100_000;
        let stream = t.device().new_stream().unwrap();
        let hand = t.driver().reclaim().run_by_hand();
        let events: Vec<_> = (0..MANY).map(|_| t.context().new_event().unwrap()).collect();
        inside(&stream, move || drop(events));
        assert_eq!(t.driver().reclaim().pending(), MANY as u64 + 1);
        assert_eq!(sim.live(SimKind::Event), MANY);
        drop(hand);
        assert_eq!(sim.live(SimKind::Event), 0);
    });
}

/// An object that isn't ended by its handle still has something to let go of.
#[test]
fn what_ends_nothing_is_let_go_of_on_the_reclaimer_too() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let hand = t.driver().reclaim().run_by_hand();
        let owner: Owner = Arc::new("owner");
        // SAFETY: the stream outlives this handle.
        let borrowed =
            unsafe { Stream::borrow_raw(t.context(), stream.as_raw(), Some(Arc::clone(&owner))) };
        let kernel = t.kernels().kernel("nop").unwrap();
        let handles = (borrowed.unwrap(), kernel, t.device().legacy_stream());
        inside(&stream, move || drop(handles));
        assert_eq!(Arc::strong_count(&owner), 2, "the owner goes on the reclaimer");
        while hand.step() {}
        assert_eq!(Arc::strong_count(&owner), 1);
        assert_eq!(Thing::Library.live(t).unwrap_or_default(), 0);
    });
}

#[test]
fn a_handle_that_is_not_the_last_one_is_dropped_in_a_host_function_at_no_cost() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let hand = t.driver().reclaim().run_by_hand();
        let clone = stream.clone();
        inside(&stream, move || drop(clone));
        assert_eq!(t.driver().reclaim().pending(), 1, "what the call itself left");
        drop(hand);
        stream.synchronize().unwrap();
    });
}

/// Its users are counted, and one that isn't counted off would keep the context for good.
#[test]
fn a_device_that_is_dropped_in_a_host_function_is_counted_off() {
    run_simulated(|t, sim| {
        let driver = t.driver().isolated();
        let (one, two) =
            (Device::with_driver(&driver, 0).unwrap(), Device::with_driver(&driver, 0).unwrap());
        let retains = sim.live(SimKind::PrimaryRetain);
        let stream = one.new_stream().unwrap();
        inside(&stream, move || drop(two));
        drop(stream);
        driver.reclaim().drain(PATIENCE).unwrap();
        let closed = one.release_primary().map_err(|refused| refused.error).unwrap();
        assert_eq!(closed, Closed::Destroyed);
        assert_eq!(sim.live(SimKind::PrimaryRetain), retains - 1);
        driver.close().unwrap();
    });
}

/// Queues a foreign callback that drops a value, and waits for it.
fn in_foreign_callback(t: &Kit, value: Box<dyn Any + Send>) {
    unsafe extern "C" fn drop_it(data: *mut c_void) {
        // SAFETY: the pointer is that of the box below, and this is called once.
        drop(unsafe { Box::from_raw(data.cast::<Box<dyn Any + Send>>()) });
    }
    let stream = t.device().new_stream().unwrap();
    let data = Box::into_raw(Box::new(value));
    // SAFETY: *handles*: live. *Calls back*: `drop_it` takes the box, and doesn't unwind: nothing here panics in a `Drop`.
    let queued =
        unsafe { t.driver().calls().cuLaunchHostFunc(stream.raw(), Some(drop_it), data.cast()) };
    queued.unwrap();
    stream.synchronize().unwrap();
}

/// A driver that answers `NOT_PERMITTED` there has done nothing. A real one was seen to end events and streams in a host
/// function all the same: then there is nothing left to do.
#[test]
fn what_is_dropped_in_a_callback_of_somebody_else_s_ends_on_the_reclaimer() {
    run(|t| {
        each(|thing| {
            let hand = t.driver().reclaim().run_by_hand();
            let (made, live) = (thing.make(t), thing.live(t));
            in_foreign_callback(t, made.handle);
            if t.sim().is_some() {
                assert_eq!(thing.live(t), live);
                assert_eq!(t.driver().reclaim().pending(), 1);
            }
            let left = t.driver().reclaim().pending();
            assert_eq!(hand.step(), left == 1);
            assert_eq!(t.driver().reclaim().pending(), 0);
            assert_eq!(thing.live(t), live.map(|live| live - 1));
        });
        if let Some(sim) = t.sim() {
            // The simulated driver takes it for what it is: the calls that were tried.
            let tried = sim.take_violations();
            assert!(tried.iter().all(|of| of.kind == ViolationKind::CallInsideCallback));
        }
    });
}

/// Only a driver that says so runs a callback: else the destroy has failed, and isn't made again.
#[test]
fn a_destroy_that_answers_not_permitted_outside_a_callback_is_not_made_again() {
    use cuhold_driver_sys::{CUresult, Fault};
    run(|t| {
        let capture = t.driver().reports().capture(2);
        let made = Thing::Event.make(t);
        let ends = t.counts().of(Thing::Event.end());
        t.faults().arm(Fault::done_but_failed(CUresult::NOT_PERMITTED).on(Thing::Event.end()));
        drop(made.handle);
        assert_eq!(capture.take().len(), 1);
        assert_eq!(t.counts().of(Thing::Event.end()), ends + 1);
    });
}

#[test]
fn closing_in_a_callback_gives_the_handle_back_whosever_callback_it_is() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let event = t.context().new_event().unwrap();
        let came_back = Arc::new(AtomicBool::new(false));
        let said = Arc::clone(&came_back);
        inside(&stream, move || {
            let refused = event.close().unwrap_err();
            said.store(refused.value.is_some(), Ordering::SeqCst);
        });
        assert!(came_back.swap(false, Ordering::SeqCst));

        struct Closes(Option<cuhold_handles::Event>, Arc<AtomicBool>, bool);
        impl Drop for Closes {
            fn drop(&mut self) {
                // Ended there, by a driver that permits it, or given back.
                let closed = self.0.take().unwrap().close();
                let whole = closed.map_or_else(|refused| refused.value.is_some(), |_| !self.2);
                self.1.store(whole, Ordering::SeqCst);
            }
        }
        let event = t.context().new_event().unwrap();
        let simulated = t.sim().is_some();
        in_foreign_callback(t, Box::new(Closes(Some(event), Arc::clone(&came_back), simulated)));
        assert!(came_back.load(Ordering::SeqCst));
        t.driver().reclaim().drain(PATIENCE).unwrap();
        if let Some(sim) = t.sim() {
            drop(sim.take_violations());
        }
    });
}

/// Whatever the callback, no call is made in it: the primary contexts are given back on a thread of the reclaimer's.
#[test]
fn a_driver_whose_last_value_goes_in_a_callback_ends_elsewhere() {
    fn user(t: &Kit) -> Driver {
        let driver = t.driver().isolated();
        drop(Device::with_driver(&driver, 0).unwrap());
        assert!(driver.is_unique());
        driver
    }
    run(|t| {
        let released = || t.counts().of(Call::cuDevicePrimaryCtxRelease_v2);
        let wait_for = |count| {
            while released() < count {
                thread::yield_now();
            }
        };
        let before = released();
        in_foreign_callback(t, Box::new(user(t)));
        wait_for(before + 1);

        let stream = t.device().new_stream().unwrap();
        let last = user(t);
        inside(&stream, move || drop(last));
        wait_for(before + 2);
        drop(stream);
        t.driver().reclaim().drain(PATIENCE).unwrap();
    });
}
