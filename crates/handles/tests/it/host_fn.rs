//! Host functions: in order, once, and never lost between the caller and the driver.

use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{ErrorKind, EventOptions, PerThreadStream, WarningKind};
use cuhold_testkit::{Kit, run, run_simulated};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

fn counter() -> (Arc<AtomicU32>, impl FnOnce() + Send + 'static) {
    let ran = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ran);
    (ran, move || {
        counted.fetch_add(1, Ordering::SeqCst);
    })
}

#[test]
fn closures_run_in_the_stream_s_order() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..100 {
            let order = Arc::clone(&order);
            stream
                .host_fn(move || order.lock().push(number))
                .map_err(|refused| refused.error)
                .unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(*order.lock(), (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn a_closure_runs_on_the_default_streams_too() {
    run(|t| {
        let (ran, closure) = counter();
        t.device().legacy_stream().host_fn(closure).map_err(|refused| refused.error).unwrap();
        t.device().synchronize().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        let (ran, closure) = counter();
        let stream = PerThreadStream::new(t.context());
        stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_panic_in_a_closure_is_one_warning_and_the_stream_goes_on() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let heard = t.driver().reports().capture(4);
        stream.host_fn(|| panic!("on purpose")).map_err(|refused| refused.error).unwrap();
        let (ran, closure) = counter();
        stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        let warnings = heard.take();
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].kind(), WarningKind::Panicked);
        assert_eq!(warnings[0].text(), "on purpose");
    });
}

#[test]
fn operations_inside_a_closure_are_refused_before_the_driver_is_asked() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let kinds = Arc::new(Mutex::new(Vec::new()));
        let (device, inner, said) = (t.device().clone(), stream.clone(), Arc::clone(&kinds));
        let ask = move || {
            let mut said = said.lock();
            said.push(device.new_stream().unwrap_err().kind());
            said.push(device.new_event(EventOptions::default()).unwrap_err().kind());
            said.push(inner.host_fn(|| ()).unwrap_err().error.kind());
            said.push(device.with_current(|| ()).unwrap_err().kind());
        };
        let ((), entries) = t.entries(|| {
            stream.host_fn(ask).map_err(|refused| refused.error).unwrap();
            stream.synchronize().unwrap();
        });
        assert_eq!(*kinds.lock(), [ErrorKind::NotPermitted; 4]);
        let made = entries.iter().filter(|entry| entry.status() == CUresult::NOT_PERMITTED).count();
        assert_eq!(made, 0, "{entries:?}");
    });
}

#[test]
fn closures_of_a_stream_that_was_dropped_run_all_the_same() {
    run(|t| {
        let (ran, closure) = counter();
        let stream = t.device().new_stream().unwrap();
        stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        drop(stream);
        t.device().synchronize().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1);
    });
}

/// Launches a closure while its call fails, and says how often it ran in the end: by the driver, or given back.
fn launched(t: &Kit, fault: Fault) -> (u32, bool) {
    let stream = t.device().new_stream().unwrap();
    let (ran, closure) = counter();
    t.faults().arm(fault.on(Call::cuLaunchHostFunc).nth(1));
    let refused = stream.host_fn(closure).unwrap_err();
    t.faults().disarm();
    assert!(refused.error.is(CUresult::UNKNOWN), "{}", refused.error);
    let given_back = refused.value.is_some();
    if let Some(closure) = refused.value {
        closure();
    }
    stream.synchronize().unwrap();
    (ran.load(Ordering::SeqCst), given_back)
}

#[test]
fn a_closure_whose_call_was_refused_comes_back() {
    run(|t| assert_eq!(launched(t, Fault::refused(CUresult::UNKNOWN)), (1, true)));
}

#[test]
fn a_closure_that_was_queued_although_its_call_failed_runs_once_in_all() {
    run(|t| {
        let (ran, _) = launched(t, Fault::done_but_failed(CUresult::UNKNOWN));
        assert_eq!(ran, 1);
    });
}

#[test]
fn a_driver_that_lacks_host_functions_gives_the_closure_back() {
    run_simulated(|t, _| {
        let stream = t.device().new_stream().unwrap();
        t.faults().arm(Fault::refused(CUresult::MISSING).on(Call::cuLaunchHostFunc));
        let refused = stream.host_fn(|| ()).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::Missing);
        assert!(refused.value.is_some());
    });
}

#[test]
fn what_a_closure_owns_is_dropped_once_and_its_driver_ends() {
    run_simulated(|t, _| {
        let owned = Arc::new(());
        for _ in 0..100 {
            let stream = t.device().new_stream().unwrap();
            let kept = Arc::clone(&owned);
            stream.host_fn(move || drop(kept)).map_err(|refused| refused.error).unwrap();
            stream.synchronize().unwrap();
        }
        t.driver().reclaim().drain(std::time::Duration::from_secs(30)).unwrap();
        assert_eq!(Arc::strong_count(&owned), 1);
    });
}
