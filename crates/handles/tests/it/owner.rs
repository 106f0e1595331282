//! Owners: values that a borrowed object keeps alive, with a `Drop` of their own that may do anything.

#![expect(unsafe_code, reason = "borrows raw handles")]

use crate::drop::PATIENCE;
use cuhold_handles::{
    Context, CudaWarning, Event, EventOptions, Module, ObjectKind, Owner, Stream, WarningKind,
};
use cuhold_testkit::{Kit, PTX, run};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// Does something when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn owner(on_drop: impl Fn() + Send + Sync + 'static) -> Owner {
    Arc::new(OnDrop(on_drop))
}

/// The types that can be borrowed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Borrowed {
    Context,
    Stream,
    Event,
    Module,
}

impl Borrowed {
    const ALL: [Self; 4] = [Self::Context, Self::Stream, Self::Event, Self::Module];
}

/// Borrows an object that the test keeps alive, with this owner. Gives the handle, a clone of it, and the raw value.
fn borrow(t: &Kit, of: Borrowed, owner: Option<Owner>) -> (Box<dyn Any>, Box<dyn Any>, u64) {
    let context = t.context();
    match of {
        Borrowed::Context => {
            let raw = context.as_raw();
            // SAFETY: the device's context lives as long as the test.
            let handle = unsafe { Context::borrow_raw(t.driver(), raw, owner) }.unwrap();
            (Box::new(handle.clone()), Box::new(handle), raw.addr() as u64)
        }
        Borrowed::Stream => {
            let stream = t.device().new_stream().unwrap();
            let raw = stream.as_raw();
            // SAFETY: the stream is kept beside the handle.
            let handle = unsafe { Stream::borrow_raw(context, raw, owner) }.unwrap();
            (Box::new((handle.clone(), stream)), Box::new(handle), raw.addr() as u64)
        }
        Borrowed::Event => {
            let event = t.device().new_event(EventOptions::default()).unwrap();
            let raw = event.as_raw();
            // SAFETY: the event is kept beside the handle.
            let handle = unsafe { Event::borrow_raw(context, raw, owner) }.unwrap();
            (Box::new((handle.clone(), event)), Box::new(handle), raw.addr() as u64)
        }
        Borrowed::Module => {
            let module = Module::load(context, PTX).unwrap();
            let raw = module.as_raw();
            // SAFETY: the module is kept beside the handle.
            let handle = unsafe { Module::borrow_raw(context, raw, owner) }.unwrap();
            (Box::new((handle.clone(), module)), Box::new(handle), raw.addr() as u64)
        }
    }
}

fn each(t: &Kit, body: impl Fn(Borrowed)) {
    for of in Borrowed::ALL {
        let label = format!("{of:?}");
        let failed = crate::scope::Labelled(&label);
        body(of);
        drop(failed);
    }
    t.driver().reclaim().drain(PATIENCE).unwrap();
}

#[test]
fn an_owner_is_dropped_once_with_the_last_handle_of_what_it_owns() {
    run(|t| {
        each(t, |of| {
            let dropped = Arc::<AtomicU32>::default();
            let count = Arc::clone(&dropped);
            let owner = owner(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            let (clone, handle, _) = borrow(t, of, Some(owner));
            let ((), calls) = t.calls(|| drop(handle));
            assert_eq!((dropped.load(Ordering::SeqCst), calls.len()), (0, 0));
            drop(clone);
            assert_eq!(dropped.load(Ordering::SeqCst), 1);
        });
    });
}

#[test]
fn a_borrowed_object_is_never_ended_by_its_handle() {
    run(|t| {
        each(t, |of| {
            let (kept, handle, _) = borrow(t, of, None);
            let hand = t.driver().reclaim().run_by_hand();
            let live = t.counts().total();
            drop(handle);
            assert_eq!((t.counts().total(), t.driver().reclaim().pending()), (live, 0));
            drop(hand);
            drop(kept);
        });
    });
}

/// The one warning that an owner's panic leaves.
fn told(warnings: &[CudaWarning], raw: u64, text: &str) {
    let [warning] = warnings else { panic!("{warnings:?}") };
    assert_eq!((warning.kind(), warning.text()), (WarningKind::Panicked, text));
    let object = warning.object();
    assert_eq!((object.kind, object.raw), (ObjectKind::Owner, raw));
    assert_ne!(object.id, 0);
    assert_eq!(
        warning.to_string(),
        format!("panic caught in owner {raw:#x} (#{}): {text}", object.id)
    );
}

#[test]
fn an_owner_whose_drop_panics_is_one_warning() {
    run(|t| {
        each(t, |of| {
            let capture = t.driver().reports().capture(4);
            let panics = owner(|| panic!("in the owner, on purpose"));
            let (clone, handle, raw) = borrow(t, of, Some(panics));
            drop(handle);
            assert_eq!(capture.take(), []);
            drop(clone);
            told(&capture.take(), raw, "in the owner, on purpose");
        });
    });
}

#[test]
fn an_owner_whose_drop_panics_while_the_thread_unwinds_is_one_warning_and_no_abort() {
    run(|t| {
        each(t, |of| {
            let capture = t.driver().reports().capture(4);
            let panics = owner(|| panic!("in the owner, on purpose"));
            let (clone, handle, raw) = borrow(t, of, Some(panics));
            let payload = catch_unwind(AssertUnwindSafe(|| {
                let _both = (clone, handle);
                resume_unwind(Box::new("first"));
            }));
            assert_eq!(payload.unwrap_err().downcast_ref(), Some(&"first"));
            told(&capture.take(), raw, "in the owner, on purpose");
        });
    });
}

/// What is thrown is foreign, too.
#[test]
fn an_owner_that_throws_what_panics_when_it_is_dropped_is_one_warning() {
    run(|t| {
        each(t, |of| {
            let capture = t.driver().reports().capture(4);
            let throws = owner(|| {
                panic_any(OnDrop(|| panic_any(OnDrop(|| panic!("the payload, on purpose")))));
            });
            let (clone, handle, raw) = borrow(t, of, Some(throws));
            drop((clone, handle));
            told(&capture.take(), raw, "the panic has no text");
        });
    });
}

#[test]
fn an_owner_s_drop_may_use_the_library() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let driver = t.driver().clone();
        let device = t.device().clone();
        let used = Arc::<AtomicU32>::default();
        let count = Arc::clone(&used);
        let uses = owner(move || {
            let other = device.new_stream().unwrap();
            other.synchronize().unwrap();
            count.fetch_add(driver.device_count().unwrap(), Ordering::SeqCst);
        });
        // SAFETY: the stream outlives the handle.
        let borrowed = unsafe { Stream::borrow_raw(t.context(), stream.as_raw(), Some(uses)) };
        drop(borrowed.unwrap());
        assert!(used.load(Ordering::SeqCst) > 0);
    });
}

/// A handle of another of this library's objects is the usual owner.
#[test]
fn an_owner_may_be_a_handle() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let raw = stream.as_raw();
        let ends = t.counts().of(cuhold_driver_sys::Call::cuStreamDestroy_v2);
        let ended = || t.counts().of(cuhold_driver_sys::Call::cuStreamDestroy_v2) - ends;
        // SAFETY: the owner keeps it alive.
        let borrowed = unsafe { Stream::borrow_raw(t.context(), raw, Some(Arc::new(stream))) };
        let borrowed = borrowed.unwrap();
        borrowed.synchronize().unwrap();
        assert_eq!(ended(), 0);
        drop(borrowed);
        assert_eq!(ended(), 1);
    });
}

#[test]
fn a_panic_of_an_owner_that_goes_on_the_reclaimer_is_one_warning_too() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let capture = t.driver().reports().capture(4);
        let panics = owner(|| panic!("in the owner, on purpose"));
        let raw = stream.as_raw();
        // SAFETY: the stream outlives the handle.
        let borrowed = unsafe { Stream::borrow_raw(t.context(), raw, Some(panics)) }.unwrap();
        stream.host_fn(move || drop(borrowed)).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
        told(&capture.take(), raw.addr() as u64, "in the owner, on purpose");
    });
}
