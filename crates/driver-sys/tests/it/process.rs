//! Forked children and exiting processes.

#![expect(unsafe_code, reason = "forks, exits, and calls a driver")]

use std::{
    env,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use cuhold_driver_sys::{
    DriverApi as _, Libcuda, Life,
    ffi::CUresult,
    process::{self, ForkWord},
};

use crate::{
    alone::{Alone, is_alone},
    fake::{self, Lookup, basics},
    libcuda::{every_form, load, stream_query},
};

const FAKE: &str = "CUHOLD_TEST_FAKE";

/// Where the fake lies that the test built before it ran again.
fn path() -> PathBuf {
    env::var_os(FAKE).unwrap().into()
}

fn init(driver: &Libcuda) -> CUresult {
    // SAFETY: the fake's `cuInit` asks for nothing.
    unsafe { driver.cuInit(0) }
}

fn calls_reached() -> u32 {
    fake::calls_reached(&path())
}

/// Forks; the child runs `child` and ends with the number that it gives, which is returned. 0 is good.
fn in_fork(child: impl FnOnce() -> u8) -> i32 {
    // SAFETY: this process has one thread, and the child ends by `_exit`.
    match unsafe { libc::fork() } {
        // SAFETY: ends the child without running anything of the parent's.
        0 => unsafe { libc::_exit(child().into()) },
        pid => wait_for(pid),
    }
}

fn wait_for(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the child is ours and not yet waited for; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "the child ended with {status:#x}");
    libc::WEXITSTATUS(status)
}

/// The number of the first check that doesn't hold, from 1; 0 if all do.
fn failing<const N: usize>(checks: [bool; N]) -> u8 {
    checks.iter().position(|holds| !holds).map_or(0, |index| u8::try_from(index + 1).unwrap())
}

/// Writes to standard output at once, at exit too.
fn say(text: &str) {
    // SAFETY: the text is readable for its length.
    unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
}

#[test]
fn a_forked_child_hears_not_initialized_and_the_driver_hears_nothing() {
    const TEST: &str = "process::a_forked_child_hears_not_initialized_and_the_driver_hears_nothing";
    if !is_alone(TEST) {
        let fake = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &basics());
        Alone::new(TEST).with(FAKE, &*fake).run();
        return;
    }
    let driver = load(&path()).unwrap();
    assert_eq!(init(&driver), CUresult::SUCCESS);
    assert_eq!(driver.life(), Life::Live);
    let before = calls_reached();
    let refused = || {
        let answers = every_form(&driver);
        failing([
            driver.life() == Life::Forked,
            stream_query(&driver) == CUresult::NOT_INITIALIZED,
            answers.iter().all(|(_, answer)| *answer == CUresult::NOT_INITIALIZED),
            calls_reached() == before,
        ])
    };
    assert_eq!(in_fork(refused), 0);
    let grandchild = || u8::try_from(in_fork(refused)).unwrap();
    assert_eq!(in_fork(grandchild), 0);
    assert_eq!(driver.life(), Life::Live);
    assert_eq!(stream_query(&driver), CUresult::NOT_READY);
    assert_eq!(calls_reached(), before + 1);
}

#[test]
fn who_forks_before_cuinit_may_use_cuda_in_both() {
    const TEST: &str = "process::who_forks_before_cuinit_may_use_cuda_in_both";
    if !is_alone(TEST) {
        let fake = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &basics());
        Alone::new(TEST).with(FAKE, &*fake).run();
        return;
    }
    let driver = load(&path()).unwrap();
    let usable = || {
        let own = driver.life() == Life::Live
            && init(&driver) == CUresult::SUCCESS
            && stream_query(&driver) == CUresult::NOT_READY;
        let child = || failing([stream_query(&driver) == CUresult::NOT_INITIALIZED]);
        failing([own, in_fork(child) == 0])
    };
    assert_eq!(in_fork(usable), 0);
    assert_eq!(usable(), 0);
}

#[test]
fn a_cuinit_that_failed_leaves_the_child_free() {
    const TEST: &str = "process::a_cuinit_that_failed_leaves_the_child_free";
    if !is_alone(TEST) {
        let mut functions = basics();
        functions[0].body.1 = "100".to_owned();
        let fake = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &functions);
        Alone::new(TEST).with(FAKE, &*fake).run();
        return;
    }
    let driver = load(&path()).unwrap();
    assert_eq!(init(&driver), CUresult::NO_DEVICE);
    let child = || failing([driver.life() == Life::Live, init(&driver) == CUresult::NO_DEVICE]);
    assert_eq!(in_fork(child), 0);
}

/// A driver that registers its own exit handler in `cuInit`, says so when it runs, and answers `DEINITIALIZED` after.
fn driver_with_exit_handler() -> fake::Built {
    let mut functions = basics();
    functions[0].body.1 = "unsafe {
        unsafe extern \"C\" { fn __cxa_atexit(f: extern \"C\" fn(*mut c_void), a: *mut c_void, d: *mut c_void) -> c_int;
            fn write(fd: c_int, text: *const c_void, len: usize) -> isize; }
        static DOWN: [u8; 13] = *b\"driver ended\\n\";
        extern \"C\" fn down(_: *mut c_void) {
            CALLS.store(1_000_000, Relaxed);
            unsafe { write(1, DOWN.as_ptr().cast(), DOWN.len()) };
        }
        __cxa_atexit(down, core::ptr::null_mut(), core::ptr::null_mut())
    }; 0"
        .to_owned();
    functions[2].body.1 = "if CALLS.load(Relaxed) > 1_000_000 { 4 } else { 600 }".to_owned();
    fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &functions)
}

#[test]
fn exit_hooks_run_while_the_driver_still_answers() {
    static DRIVER: OnceLock<Libcuda> = OnceLock::new();
    const TEST: &str = "process::exit_hooks_run_while_the_driver_still_answers";

    fn tell(who: &str) {
        let driver = DRIVER.get().unwrap();
        say(&format!("{who}: {:?}, {}\n", driver.life(), stream_query(driver)));
    }
    extern "C" fn registered_before_the_driver() {
        tell("last");
    }

    if !is_alone(TEST) {
        let printed = Alone::new(TEST).with(FAKE, &*driver_with_exit_handler()).run();
        let expected = "hook: Exiting, CUDA_ERROR_NOT_READY (600)\n\
            driver ended\n\
            last: Exiting, CUDA_ERROR_DEINITIALIZED (4)\n";
        assert!(printed.ends_with(expected), "{printed}");
        return;
    }
    // SAFETY: the handler doesn't unwind.
    assert_eq!(unsafe { libc::atexit(registered_before_the_driver) }, 0);
    let driver = DRIVER.get_or_init(|| load(&path()).unwrap());
    // A hook registered before `cuInit`, when exit was watched already, still runs before the driver's handler.
    Box::leak(Box::new(process::on_exit(|| tell("hook"))));
    assert_eq!(init(driver), CUresult::SUCCESS);
    assert_eq!(driver.life(), Life::Live);
    assert!(!process::exit_began());
}

#[test]
fn a_hook_that_panics_keeps_no_other_from_running() {
    const TEST: &str = "process::a_hook_that_panics_keeps_no_other_from_running";
    if !is_alone(TEST) {
        let printed = Alone::new(TEST).run();
        assert_eq!(printed.matches("hook ran").count(), 2, "{printed}");
        return;
    }
    let run = || say("hook ran\n");
    for hook in [
        process::on_exit(run),
        process::on_exit(|| panic!("a hook's own failure")),
        process::on_exit(run),
    ] {
        Box::leak(Box::new(hook));
    }
    drop(process::on_exit(|| say("hook ran although it was taken out\n")));
}

#[test]
fn a_child_that_exits_runs_its_own_hooks_and_not_its_parent_s() {
    const TEST: &str = "process::a_child_that_exits_runs_its_own_hooks_and_not_its_parent_s";
    if !is_alone(TEST) {
        let printed = Alone::new(TEST).run();
        assert_eq!(printed.matches("parent's hook").count(), 1, "{printed}");
        assert_eq!(printed.matches("child's hook").count(), 1, "{printed}");
        return;
    }
    Box::leak(Box::new(process::on_exit(|| say("parent's hook\n"))));
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            Box::leak(Box::new(process::on_exit(|| say("child's hook\n"))));
            // SAFETY: runs the exit handlers, which is what is looked at.
            unsafe { libc::exit(0) }
        }
        pid => assert_eq!(wait_for(pid), 0),
    }
    assert!(!process::exit_began());
}

#[test]
fn what_a_hook_owns_is_not_dropped_at_exit() {
    const TEST: &str = "process::what_a_hook_owns_is_not_dropped_at_exit";

    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            say("owner gone\n");
        }
    }

    if !is_alone(TEST) {
        let printed = Alone::new(TEST).run();
        assert!(printed.contains("hook ran") && !printed.contains("owner gone"), "{printed}");
        return;
    }
    let owned = Arc::new(Loud);
    let hook = process::on_exit(move || {
        say(if Arc::strong_count(&owned) == 1 { "hook ran\n" } else { "" });
    });
    Box::leak(Box::new(hook));
}

#[test]
fn a_fork_word_is_about_the_process_that_made_it() {
    let word = ForkWord::new();
    assert!(!word.forked());
    word.renew();
    assert!(!word.forked());
}
