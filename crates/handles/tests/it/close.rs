//! Closing, giving away, taking over, borrowing; and which handles are equal.

#![expect(unsafe_code, reason = "takes and gives raw handles")]

use crate::drop::PATIENCE;
use crate::scope::{How, status};
use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::{
    Call, Fault,
    ffi::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUcontext, CUevent, CUmodule, CUstream},
};
use cuhold_handles::{
    Closed, Context, ContextFlags, Device, Error, ErrorKind, Event, EventOptions, Module, Owner,
    Refused, Stream,
};
use cuhold_testkit::{Kit, PTX, run, run_with};
use std::{
    collections::BTreeSet,
    fmt::Debug,
    hash::{DefaultHasher, Hash, Hasher as _},
    ptr,
    sync::Arc,
};

/// A handle that can be closed, of whatever type.
trait Close: Clone + Sized {
    fn close(self) -> Result<Closed, Refused<Option<Self>>>;
}

macro_rules! close {
    ($($handle:ty)*) => { $(impl Close for $handle {
        fn close(self) -> Result<Closed, Refused<Option<Self>>> {
            Self::close(self)
        }
    })* };
}
close! { Context Stream Event cuhold_handles::Library Module }

/// Runs a body for a new object of each type that can be closed, with the call that ends it.
macro_rules! each {
    ($t:ident, |$handle:ident, $call:ident| $body:expr) => {{
        let (stream, event) = (Call::cuStreamDestroy_v2, Call::cuEventDestroy_v2);
        let (library, module) = (Call::cuLibraryUnload, Call::cuModuleUnload);
        let options = ContextFlags::default();
        let ($handle, $call) = (Context::new($t.device(), options).unwrap(), Call::cuCtxDestroy_v2);
        $body;
        let ($handle, $call) = ($t.device().new_stream().unwrap(), stream);
        $body;
        let ($handle, $call) = ($t.device().new_event(EventOptions::default()).unwrap(), event);
        $body;
        let ($handle, $call) = ($t.kernels(), library);
        $body;
        let ($handle, $call) = (Module::load($t.context(), PTX).unwrap(), module);
        $body;
    }};
}

fn closed<T: Close>(handle: T) -> Result<Closed, (Error, bool)> {
    handle.close().map_err(|refused| (refused.error, refused.value.is_some()))
}

#[test]
fn the_last_handle_that_is_closed_ends_the_object_here_and_now() {
    run(|t| {
        each!(t, |handle, call| {
            let (before, clone) = (t.counts().of(call), handle.clone());
            assert_eq!(closed(handle).unwrap(), Closed::StillShared);
            assert_eq!(t.counts().of(call), before);
            assert_eq!(closed(clone).unwrap(), Closed::Destroyed);
            assert_eq!(t.counts().of(call), before + 1);
            assert_eq!(t.driver().reclaim().pending(), 0);
        });
    });
}

#[test]
fn a_failing_close_returns_the_failure_reports_nothing_and_does_not_try_again() {
    for how in How::BOTH {
        run(|t| {
            each!(t, |handle, call| {
                let before = t.counts().of(call);
                t.faults().arm(Fault::new(how.with(status(1))).on(call).nth(1));
                let (error, came_back) = closed(handle).unwrap_err();
                t.faults().disarm();
                assert!(error.is(status(1)) && !came_back);
                assert_eq!(t.counts().of(call), before + 1);
                t.driver().reclaim().drain(PATIENCE).unwrap();
                assert_eq!(t.counts().of(call), before + 1);
            });
            if how == How::Refused {
                sweep(t);
            }
        });
    }
}

/// Ends what a refused close left on the simulated driver.
fn sweep(t: &Kit) {
    use cuhold_driver_sim::ObjectKind as Kind;
    let calls = t.driver().calls();
    let Some(sim) = t.sim() else { return };
    for leak in sim.leaks() {
        let raw = usize::try_from(leak.raw).unwrap();
        let result = match leak.kind {
            // SAFETY: *handles*: the simulated driver says that it is live, and the handle is gone.
            Kind::Context => unsafe { calls.cuCtxDestroy_v2(CUcontext::from_addr(raw)) },
            // SAFETY: as above.
            Kind::Stream => unsafe { calls.cuStreamDestroy_v2(CUstream::from_addr(raw)) },
            // SAFETY: as above.
            Kind::Event => unsafe { calls.cuEventDestroy_v2(CUevent::from_addr(raw)) },
            // SAFETY: as above.
            Kind::Module => unsafe { calls.cuModuleUnload(CUmodule::from_addr(raw)) },
            Kind::Library => {
                let library = cuhold_driver_sys::ffi::CUlibrary::from_addr(raw);
                // SAFETY: as above.
                unsafe { calls.cuLibraryUnload(library) }
            }
            _ => continue,
        };
        result.unwrap();
    }
}

/// Where the bracket can't be set up, the driver isn't asked, and the object is as it was.
#[test]
fn a_close_that_never_asks_the_driver_gives_the_handle_back() {
    run(|t| {
        let module = Module::load(t.context(), PTX).unwrap();
        let mode = Call::cuThreadExchangeStreamCaptureMode;
        t.faults().arm(Fault::refused(status(1)).on(mode).nth(1));
        let Refused { error, value, .. } = module.close().unwrap_err();
        assert!(error.is(status(1)));
        let module = value.unwrap();
        drop(module.function("nop").unwrap());
        assert_eq!(module.close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn a_library_or_module_whose_code_is_held_is_still_shared() {
    run(|t| {
        let (library, module) = (t.kernels(), Module::load(t.context(), PTX).unwrap());
        let (kernel, function) = (library.kernel("nop").unwrap(), module.function("nop").unwrap());
        assert_eq!(library.close().unwrap(), Closed::StillShared);
        assert_eq!(module.close().unwrap(), Closed::StillShared);
        assert_eq!(kernel.library().clone().close().unwrap(), Closed::StillShared);
        drop((kernel, function));
    });
}

/// A handle that ends nothing doesn't say that it did.
#[test]
fn closing_what_somebody_else_ends_says_that_it_goes_on() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        // SAFETY: the stream outlives the handle.
        let borrowed = unsafe { Stream::borrow_raw(t.context(), stream.as_raw(), None) }.unwrap();
        let (answers, calls) = t.calls(|| {
            [
                borrowed.close().unwrap(),
                t.device().legacy_stream().close().unwrap(),
                t.context().clone().close().unwrap(),
                Device::with_driver(t.driver(), 0).unwrap().context().clone().close().unwrap(),
            ]
        });
        assert_eq!(answers, [Closed::StillShared; 4]);
        assert!(!calls.iter().any(|name| name.contains("Destroy") || name.contains("Release")));
        stream.synchronize().unwrap();
    });
}

#[test]
fn an_object_that_was_given_away_is_not_ended_and_can_be_taken_over_again() {
    run(|t| {
        let (stream, event) = (
            t.device().new_stream().unwrap(),
            t.device().new_event(EventOptions::default()).unwrap(),
        );
        let raws = (stream.raw(), event.raw());
        let ((stream, event), calls) =
            t.calls(|| (stream.into_raw().unwrap(), event.into_raw().unwrap()));
        assert_eq!(((stream, event), calls.len()), (raws, 0));
        // SAFETY: live, and nobody else's.
        let stream = unsafe { Stream::from_raw(t.context(), stream) }.unwrap();
        // SAFETY: live, and nobody else's.
        let event = unsafe { Event::from_raw(t.context(), event) }.unwrap();
        stream.record(&event).unwrap();
        event.synchronize().unwrap();
        assert_eq!(event.close().unwrap(), Closed::Destroyed);
        assert_eq!(stream.close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn a_created_context_is_taken_over_and_ended() {
    run(|t| {
        let mut raw = CUcontext::NULL;
        let calls = t.driver().calls();
        // SAFETY: *pointers*: a live local, and no parameters.
        unsafe { calls.cuCtxCreate_v4(&raw mut raw, ptr::null_mut(), 0, t.context().device()) }
            .unwrap();
        // SAFETY: *pointers*: null is taken.
        unsafe { calls.cuCtxPopCurrent_v2(ptr::null_mut()) }.unwrap();
        // SAFETY: live, and nobody else's.
        let context = unsafe { Context::from_raw(t.driver(), raw) }.unwrap();
        assert_eq!((context.as_raw(), context.device()), (raw, t.context().device()));
        context.new_stream().unwrap().synchronize().unwrap();
        assert_eq!(context.close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn a_shared_or_borrowed_object_is_not_given_away() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let clone = stream.clone();
        let stream = stream.into_raw().unwrap_err();
        drop(clone);
        // SAFETY: the stream outlives the handle.
        let borrowed = unsafe { Stream::borrow_raw(t.context(), stream.as_raw(), None) }.unwrap();
        drop(borrowed.into_raw().unwrap_err());
        drop(t.device().legacy_stream().into_raw().unwrap_err());
        assert_eq!(stream.close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn null_and_default_streams_are_refused_where_a_created_object_is_wanted() {
    run(|t| {
        let context = t.context();
        let refused = |error: Error| {
            assert_eq!(error.kind(), ErrorKind::Argument);
            error.to_string()
        };
        for raw in [CUstream::NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD] {
            // SAFETY: refused.
            let taken = unsafe { Stream::from_raw(context, raw) };
            // SAFETY: refused.
            let borrowed = unsafe { Stream::borrow_raw(context, raw, None) };
            for error in [taken.unwrap_err(), borrowed.unwrap_err()] {
                assert_eq!(
                    refused(error),
                    "the raw stream is null or a default stream, which have constructors of their own"
                );
            }
        }
        // SAFETY: refused.
        let event = unsafe { Event::from_raw(context, CUevent::NULL) };
        assert_eq!(refused(event.unwrap_err()), "the raw event is null");
        // SAFETY: refused.
        let event = unsafe { Event::borrow_raw(context, CUevent::NULL, None) };
        assert_eq!(refused(event.unwrap_err()), "the raw event is null");
        // SAFETY: refused.
        let module = unsafe { Module::borrow_raw(context, CUmodule::NULL, None) };
        assert_eq!(refused(module.unwrap_err()), "the raw module is null");
        // SAFETY: refused.
        let taken = unsafe { Context::from_raw(t.driver(), CUcontext::NULL) };
        assert_eq!(refused(taken.unwrap_err()), "the raw context is null");
        // SAFETY: refused.
        let borrowed = unsafe { Context::borrow_raw(t.driver(), CUcontext::NULL, None) };
        assert_eq!(refused(borrowed.unwrap_err()), "the raw context is null");
    });
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[track_caller]
fn equal<T: PartialEq + Hash + Debug>(one: &T, two: &T) {
    assert_eq!(one, two);
    assert_eq!(hash(one), hash(two));
}

#[test]
fn clones_are_equal_and_so_are_two_handles_of_a_device_and_of_its_default_stream() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        equal(&stream, &stream.clone());
        let again = Device::with_driver(t.driver(), 0).unwrap();
        equal(&again, t.device());
        equal(again.context(), t.context());
        equal(&again.legacy_stream(), &t.device().legacy_stream());
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        assert_ne!(Stream::legacy(&other), t.device().legacy_stream());
        assert_ne!(stream, t.device().new_stream().unwrap());
    });
}

#[test]
fn two_borrowed_handles_of_one_object_are_not_equal() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let owner: Owner = Arc::new(());
        let borrow = || {
            // SAFETY: the stream outlives the handle.
            unsafe { Stream::borrow_raw(t.context(), stream.as_raw(), Some(Arc::clone(&owner))) }
                .unwrap()
        };
        let (one, two) = (borrow(), borrow());
        assert_ne!(one, two);
        assert_ne!(one, stream);
        equal(&one, &one.clone());
    });
}

/// A cache that is keyed by handles isn't fooled by a value that the driver gives again.
#[test]
fn an_object_with_a_reused_raw_value_is_not_equal_to_the_one_that_had_it() {
    let mut options = SimOptions::default();
    options.reuse_handles = true;
    run_with(options, |t| {
        let mut raws = BTreeSet::new();
        let mut old: Vec<(CUevent, Event)> = Vec::new();
        let mut reused = false;
        for _ in 0..10_000 {
            let event = t.device().new_event(EventOptions::default()).unwrap();
            if let Some((_, before)) = old.iter().find(|(raw, _)| *raw == event.raw()) {
                assert_ne!(*before, event);
                reused = true;
                break;
            }
            raws.insert(event.raw());
            // A borrowed handle keeps the old value and its number, though the event goes.
            // SAFETY: not used after the event but for comparison.
            let borrowed = unsafe { Event::borrow_raw(t.context(), event.raw(), None) }.unwrap();
            old.push((event.raw(), borrowed));
        }
        assert!(reused, "{} values and none came again", raws.len());
    });
}
