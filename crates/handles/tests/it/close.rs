//! Ends that are asked for: closing, giving away and taking over, owners, equality, and the primary context.

#![expect(unsafe_code, reason = "takes over and refers to raw objects")]

use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::{
    CUresult, Call, Fault,
    ffi::{CUcontext, CUevent, CUstream},
};
use cuhold_handles::{
    Closed, Context, ContextFlags, Device, Error, ErrorKind, Event, EventOptions, Library, Module,
    ObjectKind, Owner, Refused, Stream, WarningKind,
};
use cuhold_testkit::{Kit, PTX, run, run_with};
use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
};

const E: CUresult = CUresult(9001);

/// An object that can be closed, whatever its type.
trait Close: Clone {
    /// The form that ends it.
    const DESTROY: Call;
    fn make(t: &Kit) -> Self;
    fn end(self) -> Result<Closed, Refused<Option<Self>>>;
}

macro_rules! close {
    ($($type:ident $call:ident |$t:ident| $make:expr;)*) => { $(impl Close for $type {
        const DESTROY: Call = Call::$call;
        fn make($t: &Kit) -> Self {
            $make.unwrap()
        }
        fn end(self) -> Result<Closed, Refused<Option<Self>>> {
            self.close()
        }
    })* };
}

close! {
    Stream cuStreamDestroy_v2 |t| t.device().new_stream();
    Event cuEventDestroy_v2 |t| t.device().new_event(EventOptions::default());
    Context cuCtxDestroy_v2 |t| Context::new(t.device(), ContextFlags::default());
    Module cuModuleUnload |t| Module::load(t.context(), PTX);
    Library cuLibraryUnload |t| t.device().load(PTX);
}

/// Runs a generic function for each type of object that is closed.
macro_rules! for_each_type {
    ($function:ident) => {
        run(|t| {
            $function::<Stream>(t);
            $function::<Event>(t);
            $function::<Context>(t);
            $function::<Module>(t);
            $function::<Library>(t);
        });
    };
}

#[test]
fn closing_the_last_handle_destroys_here_and_now_and_once() {
    fn check<T: Close>(t: &Kit) {
        let object = T::make(t);
        let (closed, calls) = t.calls(|| object.end());
        assert_eq!(closed.map_err(|refused| refused.error).unwrap(), Closed::Destroyed);
        let name = T::DESTROY.name();
        assert_eq!(calls.iter().filter(|call| **call == name).count(), 1, "{name}: {calls:?}");
        assert_eq!(t.driver().reclaim().pending(), 0);
    }
    for_each_type!(check);
}

#[test]
fn closing_a_handle_of_several_leaves_the_others_alone() {
    fn check<T: Close>(t: &Kit) {
        let object = T::make(t);
        let clone = object.clone();
        let (closed, calls) = t.calls(|| object.end());
        assert_eq!(closed.map_err(|refused| refused.error).unwrap(), Closed::StillShared);
        assert_eq!(calls, [""; 0]);
        assert_eq!(clone.end().map_err(|refused| refused.error).unwrap(), Closed::Destroyed);
    }
    for_each_type!(check);
}

#[test]
fn a_destroy_that_failed_is_returned_without_the_handle_and_is_not_tried_again() {
    fn check<T: Close>(t: &Kit) {
        let object = T::make(t);
        t.faults().arm(Fault::done_but_failed(E).on(T::DESTROY).nth(1));
        let (refused, calls) = t.calls(|| {
            let refused = object.end().err().unwrap();
            assert!(refused.value.is_none());
            refused
        });
        t.faults().disarm();
        let name = T::DESTROY.name();
        assert_eq!(refused.error.to_string(), format!("{name} failed with status 9001"));
        assert_eq!(calls.iter().filter(|call| **call == name).count(), 1);
    }
    for_each_type!(check);
}

#[test]
fn what_the_driver_was_not_asked_to_end_comes_back() {
    fn check<T: Close + Send + 'static>(t: &Kit) {
        let object = T::make(t);
        let (give, take) = mpsc::channel();
        let stream = t.device().new_stream().unwrap();
        let close = move || give.send(object.end()).unwrap();
        stream.host_fn(close).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
        let refused = take.recv().unwrap().err().unwrap();
        assert_eq!(refused.error.kind(), ErrorKind::NotPermitted);
        let object = refused.value.unwrap();
        assert_eq!(object.end().map_err(|refused| refused.error).unwrap(), Closed::Destroyed);
    }
    for_each_type!(check);
}

#[test]
fn code_whose_bracket_is_refused_comes_back_and_can_be_closed_again() {
    fn check<T: Close>(t: &Kit) {
        let object = T::make(t);
        let exchange = Call::cuThreadExchangeStreamCaptureMode;
        t.faults().arm(Fault::refused(E).on(exchange).nth(1));
        let (result, calls) = t.calls(|| object.end());
        t.faults().disarm();
        let refused = result.err().unwrap();
        assert!(refused.error.is(E), "{}", refused.error);
        assert!(!calls.contains(&T::DESTROY.name()), "{calls:?}");
        let object = refused.value.unwrap();
        assert_eq!(object.end().map_err(|refused| refused.error).unwrap(), Closed::Destroyed);
    }
    run(|t| {
        check::<Module>(t);
        check::<Library>(t);
    });
}

fn raw_stream(stream: Stream) -> CUstream {
    stream.into_raw().unwrap()
}

#[test]
fn a_stream_and_an_event_are_given_away_and_taken_over_again() {
    run(|t| {
        let (stream, event) = (Stream::make(t), Event::make(t));
        let ((stream, event), calls) = t.calls(|| (raw_stream(stream), event.into_raw().unwrap()));
        assert_eq!(calls, [""; 0]);
        // SAFETY: given away above, of this context, and used by nobody else.
        let stream = unsafe { Stream::from_raw(t.context(), stream) }.unwrap();
        // SAFETY: as above.
        let event = unsafe { Event::from_raw(t.context(), event) }.unwrap();
        stream.record(&event).unwrap();
        stream.synchronize().unwrap();
        let ((), calls) = t.calls(|| drop((stream, event)));
        assert_eq!(calls, ["cuStreamDestroy", "cuEventDestroy"]);
    });
}

#[test]
fn a_context_that_another_library_made_is_taken_over() {
    run(|t| {
        let mut raw = CUcontext::NULL;
        let device = t.context().device();
        let calls = t.driver().calls();
        // SAFETY: *pointers*: a live local, and no parameters.
        unsafe { calls.cuCtxCreate_v4(&raw mut raw, std::ptr::null_mut(), 0, device) }.unwrap();
        let mut popped = CUcontext::NULL;
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuCtxPopCurrent_v2(&raw mut popped) }.unwrap();
        assert_eq!(popped, raw);
        // SAFETY: made above, and nobody else ends it.
        let context = unsafe { Context::from_raw(t.driver(), raw) }.unwrap();
        assert_eq!((context.as_raw(), context.device()), (raw, device));
        context.new_stream().unwrap().synchronize().unwrap();
        assert_eq!(context.close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn what_others_hold_or_own_is_not_given_away() {
    run(|t| {
        let stream = Stream::make(t);
        let clone = stream.clone();
        let back = stream.into_raw().unwrap_err();
        assert_eq!(back, clone);
        drop(clone);
        // SAFETY: the stream outlives the handle that refers to it.
        let borrowed = unsafe { Stream::borrow_raw(t.context(), back.as_raw(), None) }.unwrap();
        assert!(borrowed.into_raw().is_err());
        assert!(t.device().legacy_stream().into_raw().is_err());
        let event = Event::make(t);
        let clone = event.clone();
        assert_eq!(event.into_raw().unwrap_err(), clone);
    });
}

#[test]
fn raw_values_that_name_no_object_of_their_own_are_refused() {
    const DEFAULT: &str =
        "the raw stream is null or a default stream, which have constructors of their own";
    fn is_refused<T>(result: Result<T, Error>, text: &str) {
        let error = result.err().unwrap();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Argument, text));
    }
    run(|t| {
        let (driver, context) = (t.driver(), t.context());
        let ((), calls) = t.calls(|| {
            for addr in 0..3 {
                let raw = CUstream::from_addr(addr);
                // SAFETY: refused.
                is_refused(unsafe { Stream::from_raw(context, raw) }, DEFAULT);
                // SAFETY: refused.
                is_refused(unsafe { Stream::borrow_raw(context, raw, None) }, DEFAULT);
            }
            let (event, null) = (CUevent::NULL, CUcontext::NULL);
            // SAFETY: refused.
            is_refused(unsafe { Event::from_raw(context, event) }, "the raw event is null");
            // SAFETY: refused.
            is_refused(unsafe { Event::borrow_raw(context, event, None) }, "the raw event is null");
            // SAFETY: refused.
            is_refused(unsafe { Context::from_raw(driver, null) }, "the raw context is null");
            // SAFETY: refused.
            is_refused(
                unsafe { Context::borrow_raw(driver, null, None) },
                "the raw context is null",
            );
        });
        assert_eq!(calls, [""; 0]);
    });
}

/// Counts its drops.
struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_owner_is_dropped_with_the_last_clone_of_what_refers_to_it() {
    run(|t| {
        let dropped = Arc::<AtomicU32>::default();
        let count = || dropped.load(Ordering::SeqCst);
        let (stream, event) = (Stream::make(t), Event::make(t));
        let owner = || -> Option<Owner> { Some(Arc::new(Counted(Arc::clone(&dropped)))) };
        // SAFETY: the stream outlives the handle that refers to it.
        let other = unsafe { Stream::borrow_raw(t.context(), stream.as_raw(), owner()) }.unwrap();
        let clone = other.clone();
        assert!(other.is_borrowed() && other.is_kept_alive());
        assert_eq!(t.calls(|| drop(other)).1, [""; 0]);
        assert_eq!(count(), 0);
        assert_eq!(clone.close().map_err(|refused| refused.error).unwrap(), Closed::StillShared);
        assert_eq!(count(), 1);
        // SAFETY: as above.
        drop(unsafe { Event::borrow_raw(t.context(), event.as_raw(), owner()) }.unwrap());
        assert_eq!(count(), 2);
        // SAFETY: as above.
        drop(unsafe { Context::borrow_raw(t.driver(), t.context().as_raw(), owner()) }.unwrap());
        assert_eq!(count(), 3);
        stream.record(&event).unwrap();
    });
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("the owner's own");
    }
}

/// A handle whose owner panics when it is dropped.
fn with_bad_owner(stream: &Stream) -> Stream {
    let owner: Owner = Arc::new(PanicsInDrop);
    // SAFETY: the tests let the stream outlive it.
    unsafe { Stream::borrow_raw(stream.context(), stream.as_raw(), Some(owner)) }.unwrap()
}

#[test]
fn an_owner_that_panics_when_it_is_dropped_is_one_warning() {
    run(|t| {
        let (stream, warnings) = (Stream::make(t), t.driver().reports().capture(8));
        let bad = with_bad_owner(&stream);
        let id = bad.id();
        drop(bad);
        let heard = warnings.take();
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert_eq!((heard[0].kind(), heard[0].text()), (WarningKind::Panicked, "the owner's own"));
        let object = heard[0].object();
        assert_eq!((object.kind, object.id, heard[0].failure()), (ObjectKind::Owner, id, None));
    });
}

#[test]
fn an_owner_that_panics_while_the_thread_unwinds_already_is_one_warning_too() {
    run(|t| {
        let (stream, warnings) = (Stream::make(t), t.driver().reports().capture(8));
        let bad = with_bad_owner(&stream);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _bad = bad;
            panic!("first");
        }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"first"));
        let heard = warnings.take();
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert_eq!((heard[0].kind(), heard[0].text()), (WarningKind::Panicked, "the owner's own"));
        stream.synchronize().unwrap();
    });
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn handles_are_equal_where_they_are_the_same_object_of_the_same_driver() {
    fn check<T: Close + Eq + Hash + std::fmt::Debug>(t: &Kit) {
        let (one, other) = (T::make(t), T::make(t));
        assert_eq!((&one, hash_of(&one)), (&one.clone(), hash_of(&one.clone())));
        assert_ne!(one, other);
    }
    for_each_type!(check);
    run(|t| {
        let driver = t.driver();
        let isolated = driver.isolated();
        let same = Device::with_driver(driver, 0).unwrap();
        assert_eq!((&same, hash_of(&same)), (t.device(), hash_of(t.device())));
        assert_eq!(t.device().legacy_stream(), same.legacy_stream());
        assert_eq!(hash_of(&t.device().legacy_stream()), hash_of(&same.legacy_stream()));
        let theirs = Device::with_driver(&isolated, 0).unwrap();
        assert_eq!(theirs.context().as_raw(), same.context().as_raw());
        assert_ne!(theirs, same);
        assert_ne!(&isolated, driver);
        // Two handles that somebody refers to one stream by are two objects.
        let stream = Stream::make(t);
        // SAFETY: the stream outlives the handle that refers to it.
        let borrowed = unsafe { Stream::borrow_raw(t.context(), stream.as_raw(), None) }.unwrap();
        assert_ne!(borrowed, stream);
        let kernels = t.kernels();
        assert_ne!(kernels.kernel("nop").unwrap(), kernels.kernel("fill").unwrap());
    });
}

#[test]
fn a_new_object_with_the_raw_value_of_an_ended_one_is_another_object() {
    let mut options = SimOptions::default();
    options.reuse_handles = true;
    run_with(options, |t| {
        let old = Stream::make(t);
        let (raw, id) = (old.raw(), old.id());
        // SAFETY: of this context; used for nothing but comparing once the stream has ended.
        let seen = unsafe { Stream::borrow_raw(t.context(), raw, None) }.unwrap();
        assert_eq!(old.close().unwrap(), Closed::Destroyed);
        let new = Stream::make(t);
        if t.sim().is_some() {
            assert_eq!(new.raw(), raw);
        }
        assert_ne!(new.id(), id);
        assert_ne!(new, seen);
    });
}
