//! What the library knows of its process: what it writes down, forks, and work beside the program.

#![expect(unsafe_code, reason = "calls the driver, and forks")]

use core::ptr;
use std::{fs, sync::mpsc, time::Duration};

use cuhold::driver_sys::{Calls, Libcuda, ffi::*};
use libloading::Library;

use crate::place::{Program, call, fresh, is_program};

/// Makes a context, which stays current, and a stream.
fn begin(calls: Calls<'_>) -> CUstream {
    let (mut context, mut stream) = (CUcontext::NULL, CUstream::NULL);
    call!(calls, cuInit(0)).unwrap();
    call!(calls, cuCtxCreate_v4(&raw mut context, ptr::null_mut(), 0, 0)).unwrap();
    call!(calls, cuStreamCreate(&raw mut stream, 0)).unwrap();
    stream
}

#[test]
fn calls_are_in_the_log_and_violations_and_leaks_in_the_report() {
    const TEST: &str = "process::calls_are_in_the_log_and_violations_and_leaks_in_the_report";
    if is_program(TEST) {
        let driver = Libcuda::load().unwrap();
        let calls = Calls::new(&driver);
        let stream = begin(calls);
        call!(calls, cuStreamDestroy_v2(stream)).unwrap();
        call!(calls, cuStreamDestroy_v2(stream)).unwrap_err();
        let mut table = ptr::null();
        call!(calls, cuGetExportTable(&raw mut table, ptr::null())).unwrap_err();
        return;
    }
    let folder = fresh("report");
    let (log, report) = (folder.join("log"), folder.join("report"));
    let run = || Program::new(TEST).with("CUHOLD_SIM_LOG", &log);
    assert_eq!(run().with("CUHOLD_SIM_REPORT", &report).run(), "");

    let log = fs::read_to_string(&log).unwrap();
    let ends: Vec<_> = log.lines().filter(|line| line.contains(" cuStreamDestroy_v2[")).collect();
    assert_eq!(ends.len(), 2, "{log}");
    assert!(ends[0].ends_with("] -> CUDA_SUCCESS (0)"), "{log}");
    assert!(ends[1].contains("] -> CUDA_ERROR_INVALID_HANDLE (400)"), "{log}");
    assert!(log.contains("-> missing function"), "{log}");

    let report = fs::read_to_string(&report).unwrap();
    for line in [
        "violation: double destroy of stream",
        "not simulated: cuGetExportTable, 1 calls",
        "never ended: context",
        "failed on purpose: 0",
    ] {
        assert!(report.contains(line), "no {line}: {report}");
    }

    // Without a file, the standard error hears what is amiss, and no more.
    let said = Program::new(TEST).run();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(said.contains("violation: double destroy of stream"), "{said}");
}

#[test]
fn a_child_of_a_fork_is_told_that_the_driver_is_not_initialized() {
    type Init = unsafe extern "C" fn(c_uint) -> c_uint;
    const TEST: &str = "process::a_child_of_a_fork_is_told_that_the_driver_is_not_initialized";
    if is_program(TEST) {
        // SAFETY: the library is this package's own.
        let library = unsafe { Library::new("libcuda.so.1") }.unwrap();
        // SAFETY: this is the function's signature.
        let init = unsafe { library.get::<Init>("cuInit") }.unwrap();
        let init = || {
            // SAFETY: the call takes no pointer.
            unsafe { init(0) }
        };
        let in_child = || in_child(init);
        assert_eq!(in_child(), 0, "a child of a process that has used nothing starts afresh");
        assert_eq!(init(), 0);
        assert_eq!(in_child(), CUresult::NOT_INITIALIZED.0);
        assert_eq!(init(), 0, "the parent goes on");
        return;
    }
    assert_eq!(Program::new(TEST).run(), "");
}

/// What `ask` gives in a forked child; less than 256.
fn in_child(ask: impl FnOnce() -> c_uint) -> c_uint {
    // SAFETY: the child calls the simulated driver, of which nothing is locked, and ends by `_exit`.
    match unsafe { libc::fork() } {
        // SAFETY: ends the child without running anything of the parent's.
        0 => unsafe { libc::_exit(ask().try_into().unwrap_or(255)) },
        pid => {
            let mut status = 0;
            // SAFETY: the child is ours and not yet waited for; `status` is writable.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert!(libc::WIFEXITED(status), "the child ended with {status:#x}");
            libc::WEXITSTATUS(status).try_into().unwrap()
        }
    }
}

/// Tells the receiver.
unsafe extern "C" fn tell(sender: *mut c_void) {
    // SAFETY: what `into_raw` gave, once.
    let sender = unsafe { Box::from_raw(sender.cast::<mpsc::Sender<()>>()) };
    sender.send(()).unwrap_or_default();
}

#[test]
fn work_in_the_background_runs_without_being_waited_for() {
    const TEST: &str = "process::work_in_the_background_runs_without_being_waited_for";
    if is_program(TEST) {
        let driver = Libcuda::load().unwrap();
        let calls = Calls::new(&driver);
        let stream = begin(calls);
        let (sender, receiver) = mpsc::channel::<()>();
        let sender = Box::into_raw(Box::new(sender));
        call!(calls, cuLaunchHostFunc(stream, Some(tell), sender.cast())).unwrap();
        receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        return;
    }
    assert_eq!(Program::new(TEST).with("CUHOLD_SIM_BACKGROUND", "1").run(), "");
    let plan = r#"{ "background": true }"#;
    assert_eq!(Program::new(TEST).with_plan(plan).run(), "");
}
