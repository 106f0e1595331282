//! Destroys that may wait for the GPU: never on the thread that drops, a worker for each context.

use super::{PATIENCE, Thing, each};
use cuhold_driver_sim::{ObjectKind as SimKind, Sim};
use cuhold_driver_sys::{Call, Hook, Verdict};
use cuhold_handles::{Closed, Context, ContextFlags, Device, Driver, Module};
use cuhold_testkit::{PTX, run, run_simulated};
use std::{
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, ThreadId},
};

#[test]
fn by_hand_a_waiting_destroy_is_made_when_it_is_stepped() {
    run(|t| {
        each(|thing| {
            let (made, hand) = (thing.make(t), t.driver().reclaim().run_by_hand());
            let ((), entries) = t.entries(|| drop(made.handle));
            let made_here = entries.iter().filter(|entry| entry.call() == thing.end()).count();
            assert_eq!(made_here, usize::from(!thing.waits()));
            assert_eq!(t.driver().reclaim().pending(), u64::from(thing.waits()));
            let (stepped, entries) = t.entries(|| hand.step());
            assert_eq!(stepped, thing.waits());
            let made_then = entries.iter().filter(|entry| entry.call() == thing.end()).count();
            assert_eq!(made_then, usize::from(thing.waits()));
            assert!(!hand.step());
        });
    });
}

#[test]
fn with_threads_a_waiting_destroy_is_made_on_another_thread() {
    run(|t| {
        each(|thing| {
            let made = thing.make(t);
            let ((), entries) = t.entries(|| {
                drop(made.handle);
                t.driver().reclaim().drain(PATIENCE).unwrap();
            });
            let here = thread::current().id();
            let mut on = entries.iter().filter(|entry| entry.call() == thing.end());
            assert_eq!(on.next().unwrap().thread() == here, !thing.waits());
            assert_eq!(on.next(), None);
        });
    });
}

#[test]
fn closing_waits_here_and_returns_the_answer() {
    run(|t| {
        let module = Module::load(t.context(), PTX).unwrap();
        let (closed, calls) = t.calls(|| module.close().unwrap());
        assert_eq!(closed, Closed::Destroyed);
        let relax = "cuThreadExchangeStreamCaptureMode";
        assert_eq!(calls, [relax, "cuModuleUnload", relax]);
        assert_eq!(t.driver().reclaim().pending(), 0);
    });
}

#[test]
fn a_drain_by_hand_releases_what_a_step_had_taken_along() {
    run(|t| {
        let hand = t.driver().reclaim().run_by_hand();
        drop((Thing::Module.make(t), Thing::Module.make(t), Thing::Library.make(t)));
        assert_eq!(t.driver().reclaim().pending(), 3);
        assert!(hand.step());
        t.driver().reclaim().drain(PATIENCE).unwrap();
        assert_eq!(t.driver().reclaim().pending(), 0);
        assert!(!hand.step());
    });
}

#[test]
fn of_two_guards_only_the_last_one_releases_what_is_left() {
    run(|t| {
        let (one, two) = (t.driver().reclaim().run_by_hand(), t.driver().reclaim().run_by_hand());
        drop(Thing::Module.make(t));
        drop(one);
        assert_eq!(t.driver().reclaim().pending(), 1);
        drop(two);
        assert_eq!(t.driver().reclaim().pending(), 0);
    });
}

#[test]
fn a_drain_that_runs_out_of_time_says_how_many_are_left() {
    run_simulated(|t, _| {
        let gate = Gate::new();
        let driver = t.driver().hooked(gate.hook());
        let device = Device::with_driver(&driver, 0).unwrap();
        let module = Module::load(device.context(), PTX).unwrap();
        gate.hold(module.as_raw().addr());
        drop(module);
        gate.entered();
        let error = driver.reclaim().drain(std::time::Duration::ZERO).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1 objects weren't released within 0ns; work on the GPU may hold them up"
        );
        gate.open();
        driver.reclaim().drain(PATIENCE).unwrap();
        drop(device);
        driver.close().unwrap();
    });
}

/// The records of one worker say nothing of those of another: a drain waits for each.
#[test]
fn a_drain_waits_for_what_was_there_before_however_much_of_what_came_later_is_released() {
    run_simulated(|t, _| {
        let gate = Gate::new();
        let driver = t.driver().hooked(gate.hook());
        let device = Device::with_driver(&driver, 0).unwrap();
        let (one, two) = contexts(&device);
        let stuck = Module::load(&one, PTX).unwrap();
        gate.hold(stuck.as_raw().addr());
        drop(stuck);
        gate.entered();
        thread::scope(|s| {
            let waiter = s.spawn(|| driver.reclaim().drain(PATIENCE));
            // Released by another worker meanwhile, many of them after the drain has begun.
            for _ in 0..300 {
                drop(Module::load(&two, PTX).unwrap());
                while driver.reclaim().pending() > 1 {
                    thread::yield_now();
                }
            }
            assert!(!waiter.is_finished());
            gate.open();
            waiter.join().unwrap().unwrap();
        });
        drop((one, two, device));
        driver.reclaim().drain(PATIENCE).unwrap();
        driver.close().unwrap();
    });
}

#[test]
fn work_that_never_ends_in_one_context_holds_up_no_other_context_s_releases() {
    run_simulated(|t, sim| {
        let gate = Gate::new();
        let driver = t.driver().hooked(gate.hook());
        let device = Device::with_driver(&driver, 0).unwrap();
        let (one, two) = contexts(&device);
        let (stuck, free) = (Module::load(&one, PTX).unwrap(), Module::load(&two, PTX).unwrap());
        let library = device.load(PTX).unwrap();
        gate.hold(stuck.as_raw().addr());
        drop(stuck);
        gate.entered();
        // Another context's module, a library, and a second module of the stuck context, which has to wait.
        let behind = Module::load(&one, PTX).unwrap();
        drop((free, library, behind));
        while driver.reclaim().pending() > 2 {
            thread::yield_now();
        }
        assert_eq!((sim.live(SimKind::Module), sim.live(SimKind::Library)), (2, 0));
        gate.open();
        driver.reclaim().drain(PATIENCE).unwrap();
        assert_eq!(sim.live(SimKind::Module), 0);
        drop((one, two, device));
        driver.reclaim().drain(PATIENCE).unwrap();
        driver.close().unwrap();
    });
}

/// Libraries belong to no context in particular: one that waits holds up no other one.
#[test]
fn a_library_that_waits_holds_up_no_other_library() {
    run_simulated(|t, sim| {
        let gate = Gate::new();
        let driver = t.driver().hooked(gate.hook());
        let device = Device::with_driver(&driver, 0).unwrap();
        let stuck = device.load(PTX).unwrap();
        let others: Vec<_> = (0..40).map(|_| device.load(PTX).unwrap()).collect();
        gate.hold(stuck.as_raw().addr());
        drop(stuck);
        gate.entered();
        drop(others);
        while sim.live(SimKind::Library) > 1 {
            thread::yield_now();
        }
        gate.open();
        drop(device);
        driver.reclaim().drain(PATIENCE).unwrap();
        driver.close().unwrap();
    });
}

/// A piece of queued work that doesn't end: the context of its stream goes when it does, another one at once.
#[test]
fn a_host_function_that_blocks_holds_up_its_own_context_alone() {
    let sim = Sim::new();
    let driver = Driver::from_api(sim.clone());
    let device = Device::with_driver(&driver, 0).unwrap();
    let (one, two) = contexts(&device);
    let modules = (Module::load(&one, PTX).unwrap(), Module::load(&two, PTX).unwrap());
    let stream = one.new_stream().unwrap();
    let ((begun, begins), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
    let closure = move || {
        begun.send(()).unwrap();
        ends.recv().unwrap();
    };
    stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
    // Unloading a module of the first context waits for the closure, which runs on the thread that waits.
    drop(modules.0);
    begins.recv().unwrap();
    drop(modules.1);
    while sim.live(SimKind::Module) > 1 {
        thread::yield_now();
    }
    end.send(()).unwrap();
    drop((one, two, stream, device));
    // What the closure left is handed over when it ends, which a drain that began before doesn't wait for.
    while !driver.is_unique() {
        thread::yield_now();
    }
    assert_eq!(driver.close().unwrap(), Closed::Destroyed);
    assert_eq!((sim.leaks(), sim.violations()), (Vec::new(), Vec::new()));
}

fn contexts(device: &Device) -> (Context, Context) {
    let created = || Context::new(device, ContextFlags::default()).unwrap();
    (created(), created())
}

/// Holds up the destroy of one object until it is opened.
struct Gate {
    held: Arc<Mutex<Option<u64>>>,
    entered: Receiver<ThreadId>,
    open: Sender<()>,
    hook: Mutex<Option<GateHook>>,
}

struct GateHook {
    held: Arc<Mutex<Option<u64>>>,
    entered: Mutex<Sender<ThreadId>>,
    opened: Mutex<Receiver<()>>,
}

impl Gate {
    fn new() -> Self {
        let held = Arc::new(Mutex::new(None));
        let ((enter, entered), (open, opened)) = (mpsc::channel(), mpsc::channel());
        let hook = GateHook {
            held: Arc::clone(&held),
            entered: Mutex::new(enter),
            opened: Mutex::new(opened),
        };
        Self { held, entered, open, hook: Mutex::new(Some(hook)) }
    }

    fn hook(&self) -> impl Hook + use<> {
        self.hook.lock().unwrap().take().unwrap()
    }

    fn hold(&self, raw: usize) {
        *self.held.lock().unwrap() = Some(raw as u64);
    }

    /// Waits until the object's destroy is being made, on another thread.
    fn entered(&self) {
        assert_ne!(self.entered.recv().unwrap(), thread::current().id());
    }

    fn open(&self) {
        self.open.send(()).unwrap();
    }
}

impl Hook for GateHook {
    fn before(&self, call: Call, arguments: &[u64]) -> Verdict {
        let unloads = matches!(call, Call::cuModuleUnload | Call::cuLibraryUnload);
        let held = *self.held.lock().unwrap();
        if unloads && held.is_some() && arguments.first() == held.as_ref() {
            self.entered.lock().unwrap().send(thread::current().id()).unwrap();
            self.opened.lock().unwrap().recv().unwrap();
        }
        Verdict::Pass
    }
}
