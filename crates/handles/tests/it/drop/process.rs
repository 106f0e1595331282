//! Drops in a forked child, and once the process exits: silent, and the driver isn't reached.

#![expect(unsafe_code, reason = "is a driver, forks, exits")]

use super::{PATIENCE, Thing};
use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{
    Call, DriverApi, Fault, Hook, Verdict,
    ffi::*,
    forward_driver_api,
    process::{self, ForkWord},
};
use cuhold_handles::{
    Closed, ContextFlags, Device, Driver, ErrorKind, Event, EventOptions, Mark, Owner, Sink,
};
use cuhold_testkit::{Alone, in_fork, is_alone};
use cuhold_testkit::{PTX, run_real};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// A simulated driver that a test declares to be a forked child's.
struct Forkable {
    live: Sim,
    child: Sim,
    forked: Arc<AtomicBool>,
}

forward_driver_api!(Forkable, |this| this.api());

impl Forkable {
    fn api(&self) -> &dyn DriverApi {
        if self.forked.load(Ordering::SeqCst) { &self.child } else { &self.live }
    }
}

/// A driver, what makes this process its forked child, and what it looks like from below.
fn forkable() -> (Driver, Arc<AtomicBool>, Sim) {
    let sim = Sim::new();
    let forked = Arc::<AtomicBool>::default();
    let api =
        Forkable { live: sim.clone(), child: sim.forked_child(), forked: Arc::clone(&forked) };
    (Driver::from_api(api), forked, sim)
}

/// Counts what a driver's sink hears.
fn listen(driver: &Driver) -> Arc<AtomicBool> {
    let heard = Arc::<AtomicBool>::default();
    let ear = Arc::clone(&heard);
    drop(driver.reports().set_sink(Sink::new(move |_| ear.store(true, Ordering::SeqCst))));
    heard
}

#[test]
fn in_a_forked_child_every_drop_is_silent_and_makes_no_call() {
    for thing in Thing::ALL {
        let (driver, forked, sim) = forkable();
        let heard = listen(&driver);
        let device = Device::with_driver(&driver, 0).unwrap();
        let made = thing.make_on(&device);
        forked.store(true, Ordering::SeqCst);
        drop(made.handle);
        assert_eq!(driver.reclaim().pending(), 0, "{thing:?}");
        drop((device, driver));
        assert_eq!(sim.calls_of_forked_child(), 0, "{thing:?}");
        assert!(!heard.load(Ordering::SeqCst), "{thing:?}");
    }
}

#[test]
fn in_a_forked_child_an_owner_is_dropped_and_its_panic_is_silent() {
    struct Panics(Arc<AtomicBool>);
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
            panic!("on purpose");
        }
    }
    let (driver, forked, sim) = forkable();
    let heard = listen(&driver);
    let device = Device::with_driver(&driver, 0).unwrap();
    let event = device.new_event(EventOptions::default()).unwrap();
    let dropped = Arc::<AtomicBool>::default();
    let owner: Owner = Arc::new(Panics(Arc::clone(&dropped)));
    // SAFETY: the event outlives the handle.
    let borrowed = unsafe { Event::borrow_raw(device.context(), event.as_raw(), Some(owner)) };
    forked.store(true, Ordering::SeqCst);
    drop(borrowed.unwrap());
    assert!(dropped.load(Ordering::SeqCst) && !heard.load(Ordering::SeqCst));
    assert_eq!(sim.calls_of_forked_child(), 0);
}

#[test]
fn in_a_forked_child_marks_go_silently_and_none_is_taken() {
    let (driver, forked, sim) = forkable();
    let heard = listen(&driver);
    let device = Device::with_driver(&driver, 0).unwrap();
    let [stream, shown] = [(); 2].map(|()| device.new_stream().unwrap());
    let _raw: CUstream = shown.as_raw();
    // One is idle, one would be, one would be destroyed.
    let [idle, kept] = [(); 2].map(|()| stream.mark().unwrap());
    drop(idle);
    let lost = shown.mark().unwrap();
    forked.store(true, Ordering::SeqCst);
    drop((kept, lost));
    assert_eq!(Mark::take(device.context()).unwrap_err().kind(), ErrorKind::Forked);
    assert_eq!(stream.mark().unwrap_err().kind(), ErrorKind::Forked);
    assert_eq!(driver.reclaim().pending(), 0);
    drop((stream, shown, device, driver));
    assert_eq!(sim.calls_of_forked_child(), 0);
    assert!(!heard.load(Ordering::SeqCst));
}

#[test]
fn in_a_forked_child_a_new_call_is_an_error_that_says_so() {
    let (driver, forked, _) = forkable();
    let device = Device::with_driver(&driver, 0).unwrap();
    let (stream, event) =
        (device.new_stream().unwrap(), device.new_event(EventOptions::default()).unwrap());
    forked.store(true, Ordering::SeqCst);
    let errors = [
        Device::with_driver(&driver, 0).unwrap_err(),
        device.new_stream().unwrap_err(),
        device.new_event(EventOptions::default()).unwrap_err(),
        cuhold_handles::Context::new(&device, ContextFlags::default()).unwrap_err(),
        device.load(PTX).unwrap_err(),
        stream.record(&event).unwrap_err(),
        stream.synchronize().unwrap_err(),
        stream.host_fn(|| ()).unwrap_err().error,
        event.is_done().unwrap_err(),
        device.synchronize().unwrap_err(),
        device.name().unwrap_err(),
        driver.version().unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Forked, "{error}");
        assert!(error.is(CUresult::NOT_INITIALIZED), "{error}");
        assert_eq!(
            error.to_string(),
            "this process was forked from one that used CUDA, and CUDA can't be used in it"
        );
    }
    let refused = stream.close().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Forked);
    assert!(refused.value.is_some());
    let refused = driver.clone().close().unwrap_err();
    assert_eq!(refused.value, Some(driver));
}

#[test]
fn once_exit_began_every_drop_is_silent() {
    for thing in Thing::ALL {
        let sim = Sim::new();
        let driver = Driver::from_api(sim.clone());
        let heard = listen(&driver);
        let device = Device::with_driver(&driver, 0).unwrap();
        let made = thing.make_on(&device);
        sim.begin_exit();
        // Whatever it answers by then, nobody is to hear of it.
        sim.faults().arm(Fault::refused(CUresult::UNKNOWN).on(thing.end()));
        drop(made.handle);
        driver.reclaim().drain(PATIENCE).unwrap();
        drop((device, driver));
        assert!(!heard.load(Ordering::SeqCst), "{thing:?}");
    }
}

/// A simulated driver that knows a real fork as the loaded one does.
struct Forking {
    sim: Sim,
    child: Sim,
    word: ForkWord,
}

forward_driver_api!(Forking, |this| this.api());

impl Forking {
    fn api(&self) -> &dyn DriverApi {
        if self.word.forked() { &self.child } else { &self.sim }
    }
}

/// Threads of the parent keep every lock of the driver busy while it forks; the child drops what it inherited.
#[test]
fn a_child_of_a_real_fork_lets_go_and_waits_for_no_lock_that_the_parent_held() {
    const TEST: &str =
        "drop::process::a_child_of_a_real_fork_lets_go_and_waits_for_no_lock_that_the_parent_held";
    if !is_alone(TEST) {
        Alone::new(TEST).run();
        return;
    }
    let sim = Sim::new();
    let api = Forking { sim: sim.clone(), child: sim.forked_child(), word: ForkWord::new() };
    let driver = Driver::from_api(api);
    drop(driver.reports().set_sink(Sink::new(|_| ())));
    let device = Device::with_driver(&driver, 0).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    // The primary contexts' lock, the channel's, the reclaimer's, the waiting closures'.
                    drop(Device::with_driver(&driver, 0).unwrap());
                    drop(driver.reports().set_sink(Sink::new(|_| ())));
                    drop(device.load(PTX).unwrap());
                    let stream = device.new_stream().unwrap();
                    stream.host_fn(|| ()).map_err(|refused| refused.error).unwrap();
                    stream.synchronize().unwrap();
                }
            });
        }
        for _ in 0..50 {
            let made = Thing::ALL.map(|thing| thing.make_on(&device));
            let extra = Device::with_driver(&driver, 0).unwrap();
            let code = in_fork(|| {
                drop((made.map(|made| made.handle), extra));
                let refused = Device::with_driver(&driver, 0).is_err_and(|error| {
                    error.kind() == ErrorKind::Forked && error.is(CUresult::NOT_INITIALIZED)
                });
                i32::from(!refused) + 2 * i32::from(sim.calls_of_forked_child() > 0)
            });
            assert_eq!(code, 0);
        }
        stop.store(true, Ordering::SeqCst);
    });
    driver.reclaim().drain(PATIENCE).unwrap();
}

#[test]
fn a_child_of_a_process_that_uses_a_gpu_lets_go_silently_and_hears_that_it_is_one() {
    run_real(|t, _| {
        let heard = listen(t.driver());
        let made = Thing::ALL.map(|thing| thing.make(t));
        let device = t.device().clone();
        let code = in_fork(|| {
            drop(made.map(|made| made.handle));
            let refused = device.new_stream().is_err_and(|error| {
                error.kind() == ErrorKind::Forked && error.is(CUresult::NOT_INITIALIZED)
            });
            i32::from(!refused) + 2 * i32::from(heard.load(Ordering::SeqCst))
        });
        assert_eq!(code, 0);
        drop(t.driver().reports().set_sink(Sink::default()));
    });
}

/// The release that is under way when the process exits comes to its end first.
#[test]
fn exit_waits_for_the_release_in_hand_and_begins_no_other() {
    const TEST: &str = "drop::process::exit_waits_for_the_release_in_hand_and_begins_no_other";
    struct Slow {
        begun: Arc<AtomicBool>,
    }
    impl Hook for Slow {
        fn before(&self, call: Call, _: &[u64]) -> Verdict {
            if call == Call::cuModuleUnload {
                say("begun\n");
                self.begun.store(true, Ordering::SeqCst);
                while !process::exit_began() {
                    thread::yield_now();
                }
            }
            Verdict::Pass
        }
        fn after(&self, call: Call, _: &[u64], _: CUresult) {
            if call == Call::cuModuleUnload {
                say("ended\n");
            }
        }
    }
    if !is_alone(TEST) {
        let printed = Alone::new(TEST).run_to_exit(7);
        let count = |what| printed.lines().filter(|line| line.ends_with(what)).count();
        assert_eq!((count("begun"), count("ended")), (1, 1), "{printed}");
        return;
    }
    let begun = Arc::<AtomicBool>::default();
    let hook = Slow { begun: Arc::clone(&begun) };
    let driver = Driver::from_api(Sim::new()).hooked(hook);
    let device = Device::with_driver(&driver, 0).unwrap();
    drop((Thing::Module.make_on(&device), Thing::Module.make_on(&device)));
    while !begun.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    // SAFETY: ends this process, which runs nothing but this test.
    unsafe { libc::exit(7) };
}

/// Writes to standard output at once, at exit too.
fn say(text: &str) {
    // SAFETY: the text is readable for its length.
    unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
}

#[test]
fn nothing_initializes_the_driver_before_the_first_device() {
    let sim = Sim::new();
    let driver = Driver::from_api(sim.clone());
    let ((), entries) = sim.log().during(|| {
        let (isolated, clone) = (driver.isolated(), driver.clone());
        assert_eq!(driver.reports().counts().raised, 0);
        driver.reclaim().drain(PATIENCE).unwrap();
        assert_eq!(isolated.close().unwrap(), Closed::Destroyed);
        drop(clone);
    });
    assert_eq!(entries, []);
    drop(Device::with_driver(&driver, 0).unwrap());
    driver.close().unwrap();
    assert_eq!(sim.leaks(), []);
}
