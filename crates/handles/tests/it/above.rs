//! What the crates above build on: the capture-neutral bracket, calls of the *context* column "device", work left to
//! the reclaimer, what is kept for a context.

use cuhold_driver_sim::{Sim, SimOptions};
use cuhold_driver_sys::{
    CUresult, Call, Calls, Effect, Failure, Fault,
    ffi::{CUcontext, CUstreamCaptureMode},
};
use cuhold_handles::{
    Closed, Context, ContextFlags, CudaWarning, Current, Device, Driver, Error, Fate, Note, Object,
    ObjectKind, extra::ContextExtra, scope,
};
use cuhold_testkit::{Kit, run, run_with};
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

const E: CUresult = CUresult(9001);
const F: CUresult = CUresult(9002);
const EXCHANGE: Call = Call::cuThreadExchangeStreamCaptureMode;
const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;

/// The thread's capture mode.
#[expect(unsafe_code, reason = "asks the driver")]
fn mode(driver: &Driver) -> CUstreamCaptureMode {
    let (mut mode, mut back) = (GLOBAL, GLOBAL);
    // SAFETY: *pointers*: live locals.
    unsafe { driver.calls().cuThreadExchangeStreamCaptureMode(&raw mut mode) }.unwrap();
    back.clone_from(&mode);
    // SAFETY: as above.
    unsafe { driver.calls().cuThreadExchangeStreamCaptureMode(&raw mut back) }.unwrap();
    mode
}

fn completed(_: i32, error: Error) -> Error {
    error.with_completed(1)
}

#[test]
fn a_neutral_operation_runs_in_relaxed_mode_and_leaves_the_thread_s_mode() {
    run(|t| {
        let driver = t.driver();
        let inside = scope::neutral(driver, || Ok(mode(driver)), |_, error| error).unwrap();
        assert_eq!(inside, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED);
        assert_eq!(mode(driver), GLOBAL);
    });
}

#[test]
fn where_relaxed_mode_is_refused_a_neutral_operation_is_not_run() {
    for (effect, calls) in [(Effect::Refused(E), 1), (Effect::DoneButFailed(E), 2)] {
        run(|t| {
            t.faults().arm(Fault::new(effect).on(EXCHANGE).nth(1));
            let (result, made) = t.calls(|| {
                scope::neutral(t.driver(), || -> Result<i32, Error> { panic!("run") }, completed)
            });
            let error = result.unwrap_err();
            assert!(error.is(E) && error.notes().is_empty(), "{error}");
            assert_eq!(made.len(), calls, "{effect:?}");
            t.faults().disarm();
            assert_eq!(mode(t.driver()), GLOBAL);
        });
    }
}

/// Puts the thread's mode back where a test left it relaxed.
#[expect(unsafe_code, reason = "asks the driver")]
fn put_back(t: &Kit) {
    t.faults().disarm();
    let mut mode = GLOBAL;
    // SAFETY: *pointers*: a live local.
    unsafe { t.driver().calls().cuThreadExchangeStreamCaptureMode(&raw mut mode) }.unwrap();
}

#[test]
fn where_the_mode_is_not_put_back_what_was_made_is_undone_and_the_note_says_so() {
    let failure = Failure { call: EXCHANGE, status: E };
    let left = vec![Note::ModeNotRestored(failure)];
    for (effect, notes) in [(Effect::Refused(E), left), (Effect::DoneButFailed(E), Vec::new())] {
        run(|t| {
            t.faults().arm(Fault::new(effect).on(EXCHANGE).nth(2));
            let error = scope::neutral(t.driver(), || Ok(7), completed).unwrap_err();
            assert_eq!(error.notes(), notes);
            assert_eq!((error.is(E), error.completed()), (true, Some(1)));
            put_back(t);
        });
    }
}

#[test]
fn a_failing_neutral_operation_keeps_its_error_in_front_of_the_mode_s() {
    let failure = Failure { call: EXCHANGE, status: E };
    let (left, back) = (Note::ModeNotRestored(failure), Note::Failed(failure));
    for (effect, note) in [(Effect::Refused(E), left), (Effect::DoneButFailed(E), back)] {
        run(|t| {
            t.faults().arm(Fault::new(effect).on(EXCHANGE).nth(2));
            let failing = || Err::<i32, _>(Error::state("first"));
            let error = scope::neutral(t.driver(), failing, completed).unwrap_err();
            assert_eq!(error.notes(), [note]);
            assert_eq!((error.status(), error.completed()), (None, None));
            put_back(t);
        });
    }
}

#[test]
fn a_panic_in_a_neutral_operation_finds_the_mode_put_back() {
    run(|t| {
        let work =
            || scope::neutral(t.driver(), || -> Result<i32, Error> { panic!("x") }, completed);
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
        assert_eq!(mode(t.driver()), GLOBAL);
    });
}

/// A call that fails while a context of another device is current, as copies of pool memory do.
fn fussy<'a>(
    driver: &'a Driver,
    allowed: &'a [CUcontext],
) -> impl Fn(Calls<'_>) -> Result<CUcontext, Failure> + 'a {
    |_| {
        let now = current(driver);
        if now.is_null() || allowed.contains(&now) {
            return Ok(now);
        }
        let call = Call::cuMemcpyDtoDAsync_v2;
        Err(Failure { call, status: CUresult::INVALID_VALUE })
    }
}

#[expect(unsafe_code, reason = "asks the driver")]
fn current(driver: &Driver) -> CUcontext {
    let mut now = CUcontext::NULL;
    // SAFETY: *pointers*: a live local.
    unsafe { driver.calls().cuCtxGetCurrent(&raw mut now) }.unwrap();
    now
}

/// The other driver's second device is one that this test's driver value knows nothing of.
fn foreign(t: &Kit) -> Device {
    Device::with_driver(&t.driver().isolated(), 1).unwrap()
}

fn on_two_devices(body: impl FnOnce(&Kit)) {
    run_with(SimOptions::with_devices(2), |t| {
        if t.driver().device_count().unwrap() < 2 {
            return t.skip("needs two devices");
        }
        body(t);
    });
}

#[test]
fn exact_counts_of_a_call_that_minds_the_device() {
    on_two_devices(|t| {
        let driver = t.driver();
        let target = t.context().target();
        let allowed = [t.context().as_raw()];
        let count = || {
            let (result, made) = t.calls(|| scope::run_on_device(target, fussy(driver, &allowed)));
            result.unwrap();
            // The operation itself asks what is current, once a run.
            made.len() - 1
        };
        assert_eq!(count(), 0, "one device in use");
        let other = t.second_device().unwrap();
        assert_eq!(count(), 1, "none current");
        t.context().with_current(|| assert_eq!(count(), 1, "the target current")).unwrap();
        other.with_current(|| assert_eq!(count(), 3, "another device's current")).unwrap();
    });
}

#[test]
fn a_foreign_library_s_context_of_another_device_is_found_by_the_refusal() {
    on_two_devices(|t| {
        let driver = t.driver();
        let stranger = foreign(t);
        stranger
            .with_current(|| {
                let allowed = [t.context().as_raw()];
                let ran = scope::run_on_device(t.context().target(), fussy(driver, &allowed));
                assert_eq!(ran.unwrap(), allowed[0]);
                assert_eq!(current(driver), stranger.context().as_raw());
                t.faults().arm(Fault::refused(E).on(Call::cuCtxGetCurrent).nth(2));
                let ran = scope::run_on_device(t.context().target(), fussy(driver, &allowed));
                let error = ran.unwrap_err();
                assert!(error.is(CUresult::INVALID_VALUE), "{error}");
                assert_eq!(error.notes().len(), 1, "{error}");
                t.faults().disarm();
            })
            .unwrap();
    });
}

#[test]
fn a_refusal_with_the_right_context_current_is_not_asked_twice() {
    run(|t| {
        let asked = Cell::new(0);
        let refuse = |_: Calls<'_>| {
            asked.set(asked.get() + 1);
            let call = Call::cuMemcpyDtoDAsync_v2;
            Err::<(), _>(Failure { call, status: CUresult::INVALID_VALUE })
        };
        let error = scope::run_on_device(t.context().target(), refuse).unwrap_err();
        assert!(error.is(CUresult::INVALID_VALUE) && error.now_current() == Current::NotAsked);
        assert_eq!(asked.get(), 1);
    });
}

#[test]
fn deferred_work_runs_on_the_reclaimer_in_order_and_can_be_waited_for() {
    run(|t| {
        let (here, ran) = (thread::current().id(), Arc::new(AtomicU32::new(0)));
        for waits_for in [None, Some(t.context().as_raw())] {
            let ran = Arc::clone(&ran);
            t.driver().reclaim().inlet().defer(waits_for, move || {
                assert_ne!(thread::current().id(), here);
                ran.fetch_add(1, Ordering::SeqCst);
            });
        }
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 2);
    });
}

/// Counts how often it was ended, and warns each time.
#[derive(Default)]
struct Ended(Arc<AtomicU32>);

impl ContextExtra for Ended {
    fn end(&self, _: Calls<'_>, warn: &mut dyn FnMut(CudaWarning)) {
        self.0.fetch_add(1, Ordering::SeqCst);
        let failure = Failure { call: Call::cuEventDestroy_v2, status: F };
        warn(CudaWarning::failed(failure, Object::nameless(ObjectKind::Event), Fate::Leaked));
    }
}

#[test]
fn what_is_kept_for_a_created_context_ends_before_the_context_does() {
    run(|t| {
        let ended = Arc::<AtomicU32>::default();
        let context = Context::new(t.device(), ContextFlags::default()).unwrap();
        let clone = context.clone();
        let first = context.extra(|| Ended(Arc::clone(&ended))).unwrap().0.clone();
        assert!(Arc::ptr_eq(&first, &clone.extra(Ended::default).unwrap().0), "made once");
        drop(context);
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        let warnings = t.driver().reports().capture(8);
        clone.close().map_err(|refused| refused.error).unwrap();
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        assert_eq!(warnings.take().len(), 1);
    });
}

#[test]
fn what_is_kept_for_a_primary_context_is_shared_by_its_devices_and_ends_with_the_driver() {
    let ended = Arc::<AtomicU32>::default();
    let driver = Driver::from_api(Sim::new());
    let (one, two) =
        (Device::with_driver(&driver, 0).unwrap(), Device::with_driver(&driver, 0).unwrap());
    one.context().extra(|| Ended(Arc::clone(&ended))).unwrap();
    assert!(Arc::ptr_eq(&ended, &two.context().extra(Ended::default).unwrap().0));
    drop((one, two));
    assert_eq!(ended.load(Ordering::SeqCst), 0);
    let heard = Arc::<AtomicU32>::default();
    let ear = Arc::clone(&heard);
    drop(driver.reports().set_sink(cuhold_handles::Sink::new(move |_| {
        ear.fetch_add(1, Ordering::SeqCst);
    })));
    assert_eq!(driver.close().unwrap(), Closed::Destroyed);
    assert_eq!((ended.load(Ordering::SeqCst), heard.load(Ordering::SeqCst)), (1, 1));
}

#[test]
fn nothing_is_kept_for_a_context_of_somebody_else_s() {
    run(|t| {
        let raw = t.context().as_raw();
        // SAFETY: the device's context lives as long as the test's driver.
        #[expect(unsafe_code, reason = "borrows a raw context")]
        let borrowed = unsafe { Context::borrow_raw(t.driver(), raw, None) }.unwrap();
        assert!(borrowed.extra(Ended::default).is_none());
    });
}
