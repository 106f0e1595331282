//! What a process is told by its plan: faults, kernels, and that a plan that can't be read isn't replaced.

#![expect(unsafe_code, reason = "calls the driver")]

use core::ptr;

use cuhold::driver_sys::{Calls, Failure, Libcuda, ffi::*};

use crate::place::{Program, call, is_program};

/// The statuses of an answer.
fn status(answer: Result<(), Failure>) -> CUresult {
    answer.map_or_else(|failure| failure.status, |()| CUresult::SUCCESS)
}

/// Makes a context, and leaves it current.
fn begin(calls: Calls<'_>) {
    let mut context = CUcontext::NULL;
    call!(calls, cuInit(0)).unwrap();
    call!(calls, cuCtxCreate_v4(&raw mut context, ptr::null_mut(), 0, 0)).unwrap();
}

#[test]
fn a_fault_of_the_plan_fails_the_call_that_it_names() {
    const TEST: &str = "plan::a_fault_of_the_plan_fails_the_call_that_it_names";
    if is_program(TEST) {
        let driver = Libcuda::load().unwrap();
        let calls = Calls::new(&driver);
        begin(calls);
        let mut streams = [CUstream::NULL; 3];
        let made = streams.each_mut().map(|s| status(call!(calls, cuStreamCreate(s, 0))));
        assert_eq!(made, [CUresult::SUCCESS, CUresult::OUT_OF_MEMORY, CUresult::SUCCESS]);
        let ended = status(call!(calls, cuStreamDestroy_v2(streams[0])));
        assert_eq!(ended, CUresult::UNKNOWN, "done, and reported as failed");
        let lost = status(call!(calls, cuStreamSynchronize(streams[2])));
        let after = status(call!(calls, cuStreamDestroy_v2(streams[2])));
        assert_eq!([lost, after], [CUresult::ECC_UNCORRECTABLE; 2]);
        return;
    }
    let plan = r#"{ "faults": [
        { "call": "cuStreamCreate", "nth": 2, "status": "OUT_OF_MEMORY" },
        { "call": "cuStreamDestroy_v2", "nth": 1, "status": "CUDA_ERROR_UNKNOWN", "effect": "done_but_failed" },
        { "call": "cuStreamSynchronize", "status": "ECC_UNCORRECTABLE", "effect": "sticky_from_here" }
    ] }"#;
    assert_eq!(Program::new(TEST).with_plan(plan).run(), "");
}

#[test]
fn what_a_plan_or_a_variable_says_that_it_cannot_is_told_and_no_call_is_answered() {
    const TEST: &str =
        "plan::what_a_plan_or_a_variable_says_that_it_cannot_is_told_and_no_call_is_answered";
    if is_program(TEST) {
        let driver = Libcuda::load().unwrap();
        assert_eq!(status(call!(Calls::new(&driver), cuInit(0))), CUresult::SYSTEM_NOT_READY);
        return;
    }
    for (plan, said) in [
        ("{", "EOF while parsing"),
        (r#"{ "sede": 1 }"#, "unknown field `sede`"),
        (r#"{ "devices": 1000 }"#, "1000 devices are more than 64"),
        (
            r#"{ "faults": [{ "call": "cuNone", "status": "UNKNOWN" }] }"#,
            "cuNone, which isn't a function",
        ),
        (r#"{ "faults": [{ "status": "NONE" }] }"#, "a fault's status is NONE"),
        (r#"{ "faults": [{ "nth": 0, "status": "UNKNOWN" }] }"#, "counted from 1"),
        (r#"{ "kernels": [{ "name": "k", "does": "sort" }] }"#, "did not match"),
    ] {
        let heard = Program::new(TEST).with_plan(plan).run();
        assert!(heard.contains(said) && heard.contains("SYSTEM_NOT_READY"), "{plan}: {heard}");
    }
    for (variable, value, said) in [
        ("CUHOLD_SIM_SEED", "one", "CUHOLD_SIM_SEED is `one`: invalid digit"),
        ("CUHOLD_SIM_DEVICES", "65", "CUHOLD_SIM_DEVICES: 65 devices are more than 64"),
        ("CUHOLD_SIM_BACKGROUND", "2", "CUHOLD_SIM_BACKGROUND is 2, and neither 0 nor 1"),
        ("CUHOLD_SIM_PLAN", "/no/such/plan.json", "the plan /no/such/plan.json: No such file"),
    ] {
        let heard = Program::new(TEST).with(variable, value).run();
        assert!(heard.contains(said), "{variable}: {heard}");
    }
}

const PTX: &str = ".version 7.0\n.target sm_50\n.address_size 64\n\
    .visible .entry fill(.param .u64 to, .param .u32 value, .param .u32 len) { ret; }\n\
    .visible .entry copy(.param .u64 to, .param .u64 from, .param .u32 len) { ret; }\n\
    .visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 len) { ret; }\n\
    .visible .entry idle() { ret; }\n\
    .visible .entry other() { ret; }\n\0";

/// Launches a kernel of [`PTX`] with 32 threads, and waits.
fn launch(calls: Calls<'_>, module: CUmodule, name: &str, params: &mut [*mut c_void]) -> CUresult {
    let name = std::ffi::CString::new(name).unwrap();
    let mut function = CUfunction::NULL;
    call!(calls, cuModuleGetFunction(&raw mut function, module, name.as_ptr())).unwrap();
    let (none, params) = (ptr::null_mut(), params.as_mut_ptr());
    let stream = CUstream::NULL;
    let launched =
        call!(calls, cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, none));
    status(launched.and_then(|()| call!(calls, cuCtxSynchronize())))
}

#[test]
fn a_kernel_of_the_plan_does_what_it_says_and_another_is_not_supported() {
    const TEST: &str = "plan::a_kernel_of_the_plan_does_what_it_says_and_another_is_not_supported";
    if is_program(TEST) {
        let driver = Libcuda::load().unwrap();
        let calls = Calls::new(&driver);
        begin(calls);
        let mut module = CUmodule::NULL;
        let (mut x, mut y): (CUdeviceptr, CUdeviceptr) = (0, 0);
        call!(calls, cuModuleLoadData(&raw mut module, PTX.as_ptr().cast())).unwrap();
        call!(calls, cuMemAlloc_v2(&raw mut x, 16)).unwrap();
        call!(calls, cuMemAlloc_v2(&raw mut y, 16)).unwrap();
        let (mut len, mut bits, mut a) = (4_u32, 1.5_f32.to_bits(), 2.0_f32);
        let (px, py) = ((&raw mut x).cast(), (&raw mut y).cast());
        let (plen, pbits, pa) =
            ((&raw mut len).cast(), (&raw mut bits).cast(), (&raw mut a).cast());
        assert_eq!(launch(calls, module, "fill", &mut [px, pbits, plen]), CUresult::SUCCESS);
        assert_eq!(launch(calls, module, "copy", &mut [py, px, plen]), CUresult::SUCCESS);
        assert_eq!(launch(calls, module, "axpy", &mut [pa, px, py, plen]), CUresult::SUCCESS);
        assert_eq!(launch(calls, module, "idle", &mut []), CUresult::SUCCESS);
        let mut read = [0.0_f32; 4];
        call!(calls, cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), y, 16)).unwrap();
        assert_eq!(read, [4.5; 4]);
        assert_eq!(launch(calls, module, "other", &mut []), CUresult::NOT_SUPPORTED);
        return;
    }
    let plan = r#"{ "kernels": [ "idle", { "name": "fill", "does": "fill_u32" },
        { "name": "copy", "does": "copy_u32" }, { "name": "axpy", "does": "axpy_f32" } ] }"#;
    let said = Program::new(TEST).with_plan(plan).run();
    assert_eq!(said, "cuhold-libcuda-sim: not simulated: cuLaunchKernel, 1 calls\n");
}
