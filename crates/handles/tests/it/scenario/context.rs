//! Contexts: objects are made in their own, whatever is current; nothing stays current, and nothing stays retained.

use super::{ONE, context_of, two_contexts};
use crate::scope::{How, POP, PUSH, status};
use cuhold_driver_sim::{ObjectKind as SimKind, Sim, SimOptions};
use cuhold_driver_sys::{CUresult, Call, Fault, ffi::CUcontext, ffi::CUdevice_attribute};
use cuhold_handles::{
    Closed, Current, Device, Driver, EventOptions, Module, Note, ObjectKind, Retention, Stream,
    StreamOptions,
};
use cuhold_testkit::{Kit, PTX, run, run_simulated};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

const RETAIN: Call = Call::cuDevicePrimaryCtxRetain;
const RELEASE: Call = Call::cuDevicePrimaryCtxRelease_v2;

/// S01.
#[test]
fn an_object_is_made_in_its_own_context_although_another_one_is_current_or_none() {
    run(|t| {
        let (a, b) = two_contexts(t);
        let make = || {
            let before = t.stack();
            let (stream, event) = (b.new_stream().unwrap(), b.new_event().unwrap());
            assert_eq!(context_of(t, stream.raw()), b.as_raw());
            // An event is recorded only on streams of its own context.
            stream.record(&event).unwrap();
            let strange = a.new_stream().unwrap().record(&event).unwrap_err();
            assert!(strange.is(CUresult::INVALID_HANDLE), "{strange}");
            stream.synchronize().unwrap();
            assert_eq!(t.stack(), before);
        };
        make();
        a.with_current(make).unwrap();
        super::strange_on_purpose(t);
    });
}

/// S01: which context is waited for. A real device may be done with both at any time.
#[test]
fn waiting_for_a_context_waits_for_its_own_work_although_another_one_is_current() {
    run_simulated(|t, sim| {
        let (a, b) = two_contexts(t);
        let (of_a, of_b) = (a.new_stream().unwrap(), b.new_stream().unwrap());
        let ran = [Arc::<AtomicU32>::default(), Arc::default()];
        for (stream, ran) in [&of_a, &of_b].into_iter().zip(&ran) {
            let ran = Arc::clone(ran);
            let closure = move || _ = ran.fetch_add(1, Ordering::SeqCst);
            stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        }
        a.with_current(|| b.synchronize().unwrap()).unwrap();
        let counts = ran.each_ref().map(|ran| ran.load(Ordering::SeqCst));
        assert_eq!(counts, [0, 1]);
        sim.run_all();
    });
}

fn pop(t: &Kit) -> CUcontext {
    let mut raw = CUcontext::NULL;
    // SAFETY: *pointers*: a live local.
    unsafe { t.driver().calls().cuCtxPopCurrent_v2(&raw mut raw) }.unwrap();
    raw
}

/// S03.
#[test]
fn a_new_event_is_destroyed_again_where_the_caller_s_context_is_not_to_be_had_back() {
    run(|t| {
        let (a, b) = two_contexts(t);
        let live = || t.sim().map(|sim| sim.live(SimKind::Event));
        let before = live();
        for undo_fails in [false, true] {
            a.with_current(|| {
                t.faults().arm(Fault::refused(CUresult::INVALID_CONTEXT).on(POP).nth(1));
                if undo_fails {
                    let destroy = Call::cuEventDestroy_v2;
                    t.faults().arm(Fault::new(How::Done.with(status(2))).on(destroy).nth(1));
                }
                let error = b.new_event().unwrap_err();
                t.faults().disarm();
                assert!(error.is(CUresult::INVALID_CONTEXT), "{error}");
                assert_eq!(error.now_current(), Current::of(b.as_raw()));
                let is_undo = |note: &Note| matches!(note, Note::UndoFailed(_));
                assert_eq!(
                    error.notes().iter().filter(|note| is_undo(note)).count(),
                    usize::from(undo_fails)
                );
                assert_eq!(live(), before);
                assert_eq!(pop(t), b.as_raw());
            })
            .unwrap();
        }
    });
}

/// S07.
#[test]
fn a_kernel_is_launched_in_its_stream_s_context_from_a_cold_thread_and_from_one_in_another_context()
{
    run(|t| {
        let (a, b) = two_contexts(t);
        let (kernel, stream) = (t.kernels().kernel("nop").unwrap(), a.new_stream().unwrap());
        // SAFETY: the kernel has no parameters and touches no memory.
        let launch = || unsafe { kernel.launch(&stream, ONE, ()) };
        launch().unwrap();
        let launched = t.counts().of(Call::cuLaunchKernelEx);
        thread::scope(|s| {
            s.spawn(|| {
                launch().unwrap();
                assert_eq!(t.stack(), []);
            });
        });
        thread::scope(|s| {
            s.spawn(|| {
                b.with_current(|| {
                    launch().unwrap();
                    assert_eq!(t.stack(), [b.as_raw()]);
                })
                .unwrap();
            });
        });
        stream.synchronize().unwrap();
        assert_eq!(t.counts().of(Call::cuLaunchKernelEx), launched + 2);
        assert_eq!(context_of(t, stream.raw()), a.as_raw());
    });
}

/// S09: a default stream names its context, so there is nothing to remember wrongly.
#[test]
fn a_default_stream_is_its_context_s_whatever_becomes_current_and_keeps_no_other_alive() {
    run(|t| {
        let (a, b) = two_contexts(t);
        let (of_a, of_b) = (Stream::legacy(&a), Stream::legacy(&b));
        let (event_a, event_b) = (a.new_event().unwrap(), b.new_event().unwrap());
        let both = || {
            of_a.record(&event_a).unwrap();
            of_b.record(&event_b).unwrap();
            assert!(of_a.record(&event_b).unwrap_err().is(CUresult::INVALID_HANDLE));
        };
        both();
        a.with_current(both).unwrap();
        b.with_current(both).unwrap();
        super::strange_on_purpose(t);
        drop((of_a, event_a));
        assert_eq!(a.close().map_err(|refused| refused.error).unwrap(), Closed::Destroyed);
        of_b.record(&event_b).unwrap();
        of_b.synchronize().unwrap();
    });
}

/// S10.
#[test]
fn a_thread_without_a_context_is_nothing_out_of_the_ordinary_and_gets_none() {
    run(|t| {
        let (retains, creates) = (t.counts().of(RETAIN), t.counts().of(Call::cuCtxCreate_v4));
        thread::scope(|s| {
            s.spawn(|| {
                let again = Device::with_driver(t.driver(), 0).unwrap();
                assert!(!again.name().unwrap().is_empty());
                let stream = again.new_stream().unwrap();
                let event = stream.record_new(EventOptions::default()).unwrap();
                event.synchronize().unwrap();
                assert!(event.is_done().unwrap());
                assert_eq!(t.stack(), []);
            });
        });
        let now = (t.counts().of(RETAIN), t.counts().of(Call::cuCtxCreate_v4));
        assert_eq!(now, (retains, creates));
    });
}

fn is_active(driver: &Driver, device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: *pointers*: live locals.
    unsafe { driver.calls().cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active) }
        .unwrap();
    active != 0
}

/// S11.
#[test]
fn a_device_that_nobody_uses_gets_no_primary_context() {
    let sim = Sim::with_options(SimOptions::with_devices(2));
    let driver = Driver::from_api(sim.clone());
    sim.log().start();
    assert_eq!(driver.device_count().unwrap(), 2);
    assert!(!is_active(&driver, 0) && !is_active(&driver, 1), "counting retains nothing");
    let device = Device::with_driver(&driver, 1).unwrap();
    assert!(device.total_bytes().unwrap() > 0);
    assert_eq!(device.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE).unwrap(), 32);
    let stream = device.stream_with(StreamOptions::default()).unwrap();
    let event = stream.record_new(EventOptions::default()).unwrap();
    thread::scope(|s| s.spawn(|| event.is_done()).join()).unwrap().unwrap();
    stream.synchronize().unwrap();
    assert!(!is_active(&driver, 0) && is_active(&driver, 1));
    drop((event, stream, device));
    let observer = Driver::from_api(sim.clone());
    assert_eq!(driver.close().unwrap(), Closed::Destroyed);
    assert!(!is_active(&observer, 0) && !is_active(&observer, 1));
    let entries = sim.log().stop();
    let of = |call| entries.iter().filter(|entry| entry.call() == call).count();
    assert_eq!((of(RETAIN), of(RELEASE)), (1, 1));
}

/// S12.
#[test]
fn a_retain_is_given_back_once_although_what_came_after_it_failed() {
    for retention in [Retention::ByDriver, Retention::UntilLast] {
        for how in How::BOTH {
            let sim = Sim::new();
            let driver = Driver::from_api(sim.clone());
            sim.log().start();
            let device = Device::with_retention(&driver, 0, retention).unwrap();
            // What follows the first retain pushes the context; making it current for good sets it.
            for call in [PUSH, Call::cuCtxSetCurrent] {
                sim.faults().arm(Fault::new(how.with(status(1))).on(call).nth(1));
                let failed = match call {
                    PUSH => device.new_stream().map(drop),
                    _ => device.set_current(),
                };
                sim.faults().disarm();
                assert!(failed.unwrap_err().is(status(1)));
                let was_set = call == Call::cuCtxSetCurrent && how == How::Done;
                assert_eq!(sim.stack_depth(), usize::from(was_set));
                if was_set {
                    let mut raw = CUcontext::NULL;
                    // SAFETY: *pointers*: a live local.
                    unsafe { driver.calls().cuCtxPopCurrent_v2(&raw mut raw) }.unwrap();
                }
            }
            device.driver().reclaim().drain(crate::drop::PATIENCE).unwrap();
            drop(device);
            driver.reclaim().drain(crate::drop::PATIENCE).unwrap();
            assert_eq!(driver.close().unwrap(), Closed::Destroyed);
            let entries = sim.log().stop();
            let of = |call| entries.iter().filter(|entry| entry.call() == call).count();
            assert_eq!(of(RETAIN), of(RELEASE), "{retention:?}");
            assert_eq!(sim.live(SimKind::PrimaryRetain), 0);
            assert_eq!((sim.leaks(), sim.violations()), (Vec::new(), Vec::new()));
        }
    }
}

/// S13. Only on the simulated driver: a real one may end the process when what a reset took along is destroyed.
#[test]
fn after_somebody_s_reset_each_object_is_ended_once_and_told_at_most_once_and_a_new_retain_works() {
    let sim = Sim::new();
    let driver = Driver::from_api(sim.clone());
    let device = Device::with_driver(&driver, 0).unwrap();
    let (stream, event) =
        (device.new_stream().unwrap(), device.new_event(EventOptions::default()).unwrap());
    let module = Module::load(device.context(), PTX).unwrap();
    // SAFETY: what another library may do at any time.
    unsafe { driver.calls().cuDevicePrimaryCtxReset_v2(0) }.unwrap();
    sim.log().start();
    let capture = driver.reports().capture(16);
    drop((stream, event, module));
    let told = capture.take();
    let entries = sim.log().stop();
    let of = |call| entries.iter().filter(|entry| entry.call() == call).count();
    for call in [Call::cuStreamDestroy_v2, Call::cuEventDestroy_v2, Call::cuModuleUnload] {
        assert_eq!(of(call), 1, "{call}: made once, not retried");
    }
    for kind in [ObjectKind::Stream, ObjectKind::Event, ObjectKind::Module] {
        let about = told.iter().filter(|warning| warning.object().kind == kind).count();
        assert_eq!(about, 1, "{kind}: {told:?}");
    }
    // The dead context isn't asked whether it lives.
    let probes = [Call::cuCtxGetApiVersion, Call::cuCtxGetId, Call::cuCtxGetDevice];
    assert!(entries.iter().all(|entry| !probes.contains(&entry.call())), "{entries:?}");
    drop(capture);

    // A new retain makes the device usable again.
    drop(device.release_primary());
    let device = Device::with_driver(&driver, 0).unwrap();
    device.new_stream().unwrap().synchronize().unwrap();
    assert!(is_active(&driver, 0));
}
