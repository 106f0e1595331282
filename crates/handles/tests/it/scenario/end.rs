//! The end of objects: at process exit, and while other threads still use what they came from.

use super::ONE;
use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{Call, Hook, Verdict, process};
use cuhold_handles::{Device, Driver, EventOptions, Kernel, Sink};
use cuhold_testkit::{Alone, is_alone, run};
use std::{
    any::Any,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
};

/// S82: objects in a static, and a thread that goes on making and dropping others while the process exits.
#[test]
fn objects_that_live_as_long_as_the_process_are_left_alone_at_its_exit() {
    const TEST: &str =
        "scenario::end::objects_that_live_as_long_as_the_process_are_left_alone_at_its_exit";
    static KEPT: OnceLock<Box<dyn Any + Send + Sync>> = OnceLock::new();
    /// Says when the driver is called by a thread other than the one that goes on, once exit began.
    struct Late;
    impl Hook for Late {
        fn before(&self, call: Call, _: &[u64]) -> Verdict {
            if process::exit_began() && thread::current().name() != Some("goes on") {
                say(&format!("late: {call}\n"));
            }
            Verdict::Pass
        }
    }
    if !is_alone(TEST) {
        let printed = Alone::new(TEST).run_to_exit(7);
        assert!(printed.contains("exits") && !printed.contains("late"), "{printed}");
        assert!(!printed.contains("warned"), "{printed}");
        return;
    }
    let driver = Driver::from_api(Sim::new()).hooked(Late);
    drop(driver.reports().set_sink(Sink::new(|warning| say(&format!("warned: {warning}\n")))));
    let device = Device::with_driver(&driver, 0).unwrap();
    let kept = (
        device.new_stream().unwrap(),
        device.new_event(EventOptions::default()).unwrap(),
        device.load(cuhold_testkit::PTX).unwrap(),
        device.clone(),
        driver,
    );
    assert!(KEPT.set(Box::new(kept)).is_ok());
    let going = Arc::<AtomicBool>::default();
    let begun = Arc::clone(&going);
    let goes_on = move || {
        while KEPT.get().is_some() {
            drop(device.new_stream());
            begun.store(true, Ordering::SeqCst);
        }
    };
    thread::Builder::new().name("goes on".into()).spawn(goes_on).unwrap();
    while !going.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    say("exits\n");
    std::process::exit(7);
}

/// Writes to standard output at once, at exit too.
fn say(text: &str) {
    // SAFETY: the text is readable for its length.
    unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
}

/// S82: an end that is asked for before exit works, and tells what it did.
#[test]
fn what_is_closed_before_the_exit_is_closed_as_ever() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let closed = stream.close().map_err(|refused| refused.error).unwrap();
        assert_eq!(closed, cuhold_handles::Closed::Destroyed);
    });
}

/// Counts launches that are under way, and says whether an unload met one.
#[derive(Default)]
struct Overlap {
    launching: AtomicU32,
    met: AtomicBool,
    unloads: AtomicU32,
}

impl Hook for Overlap {
    fn before(&self, call: Call, _: &[u64]) -> Verdict {
        match call {
            Call::cuLaunchKernelEx => _ = self.launching.fetch_add(1, Ordering::SeqCst),
            Call::cuLibraryUnload => {
                self.unloads.fetch_add(1, Ordering::SeqCst);
                self.met.fetch_or(self.launching.load(Ordering::SeqCst) > 0, Ordering::SeqCst);
            }
            _ => {}
        }
        Verdict::Pass
    }

    fn after(&self, call: Call, _: &[u64], _: cuhold_driver_sys::CUresult) {
        if call == Call::cuLaunchKernelEx {
            self.launching.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// S85: one thread launches while another one drops the library; the kernel's handle keeps the code.
#[test]
fn code_is_unloaded_after_the_last_kernel_handle_is_gone_and_never_under_a_launch() {
    const ROUNDS: u32 = 200;
    run(|t| {
        let hook = Arc::<Overlap>::default();
        let driver = t.driver().hooked(Arc::clone(&hook));
        let device = Device::with_driver(&driver, 0).unwrap();
        let stream = device.new_stream().unwrap();
        // SAFETY: the kernel has no parameters and touches no memory.
        let launch = |kernel: &Kernel| unsafe { kernel.launch(&stream, ONE, ()) }.unwrap();
        for _ in 0..ROUNDS {
            let library = device.load(cuhold_testkit::PTX).unwrap();
            let kernel = library.kernel("nop").unwrap();
            thread::scope(|s| {
                s.spawn(|| drop(library));
                s.spawn(|| {
                    (0..4).for_each(|_| launch(&kernel));
                    drop(kernel);
                });
            });
            // So that no launch of the next round is taken for one of this library's.
            driver.reclaim().drain(crate::drop::PATIENCE).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(hook.unloads.load(Ordering::SeqCst), ROUNDS);
        assert!(!hook.met.load(Ordering::SeqCst));
        drop((stream, device));
        driver.close().map_err(|refused| refused.error).unwrap();
    });
}
