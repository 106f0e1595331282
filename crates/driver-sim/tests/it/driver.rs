//! Initialization, names, symbols, exit and fork.

use cuhold_driver_sim::{
    Sim, SimOptions,
    cuhold_driver_sys::{Call, DriverApi as _, Life, Version, ffi::*},
};
use std::ffi::{CStr, CString};

use crate::ask::{Asked, assert_clean, call, get, sim, sim_with, sim_with_context};

fn text(sim: &Sim, error: CUresult) -> Asked<String> {
    let mut text = std::ptr::null();
    call!(sim, cuGetErrorName(error, &raw mut text))?;
    // SAFETY: the driver answers with a NUL-terminated string that lives as long as it.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[test]
fn before_cu_init_only_look_ups_are_answered() {
    let sim = Sim::new();
    assert_eq!(get!(sim, cuDriverGetVersion(out)), Ok(13_000));
    assert_eq!(text(&sim, CUresult::NOT_READY).unwrap(), "CUDA_ERROR_NOT_READY");
    assert_eq!(get!(sim, cuCtxGetCurrent(out)), Err::<CUcontext, _>(CUresult::NOT_INITIALIZED));
    assert_eq!(get!(sim, cuDeviceGetCount(out)), Err::<c_int, _>(CUresult::NOT_INITIALIZED));
    assert_eq!(get!(sim, cuDeviceGet(out, 0)), Err::<CUdevice, _>(CUresult::NOT_INITIALIZED));
    assert_eq!(call!(sim, cuInit(1)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuInit(0)), Ok(()));
    assert_eq!(call!(sim, cuInit(0)), Ok(()));
}

#[test]
fn without_a_device_cu_init_says_so() {
    let sim = Sim::with_options(SimOptions::with_devices(0));
    assert_eq!(call!(sim, cuInit(0)), Err(CUresult::NO_DEVICE));
    assert_eq!(get!(sim, cuDeviceGetCount(out)), Err::<c_int, _>(CUresult::NOT_INITIALIZED));
}

#[test]
fn an_unknown_code_is_refused_and_answered_with_null() {
    let sim = Sim::new();
    let mut text = c"set".as_ptr();
    let asked = call!(sim, cuGetErrorName(CUresult(9999), &raw mut text));
    assert_eq!(asked, Err(CUresult::INVALID_VALUE));
    assert!(text.is_null());
    let asked = call!(sim, cuGetErrorString(CUresult(9999), &raw mut text));
    assert_eq!(asked, Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuGetErrorString(CUresult::UNKNOWN, &raw mut text)), Ok(()));
    assert!(!text.is_null());
    let null = std::ptr::null_mut();
    assert_eq!(call!(sim, cuGetErrorName(CUresult::UNKNOWN, null)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuDriverGetVersion(std::ptr::null_mut())), Err(CUresult::INVALID_VALUE));
}

/// Status, address and query result of `cuGetProcAddress`.
fn proc_address(sim: &Sim, symbol: &str, version: c_int) -> (Asked<()>, usize, c_uint) {
    let symbol = CString::new(symbol).unwrap();
    let mut address = std::ptr::without_provenance_mut(7);
    let mut found = CUdriverProcAddressQueryResult(9);
    let (to, say) = (&raw mut address, &raw mut found);
    let asked = call!(sim, cuGetProcAddress_v2(symbol.as_ptr(), to, version, 0, say));
    (asked, address.addr(), found.0)
}

#[test]
fn a_missing_symbol_is_success_with_null() {
    let sim = sim();
    assert_eq!(proc_address(&sim, "cuNoSuchFunction", 13_000), (Ok(()), 0, 1));
    assert_eq!(proc_address(&sim, "cuCtxCreate", 11_000), (Ok(()), 0, 2));
    let refused = Err(CUresult::INVALID_VALUE);
    assert_eq!(proc_address(&sim, "cuCtxCreate", 99_000), (refused, 7, 9), "nothing is written");
    // The simulator itself has no C functions.
    assert_eq!(proc_address(&sim, "cuCtxCreate", 13_000), (Ok(()), 0, 1));
}

#[test]
fn a_resolver_is_asked_for_the_newest_form_not_above_the_version() {
    let mut options = SimOptions::default();
    options.symbols = Some(|call| std::ptr::without_provenance_mut(0x1000 + call as usize));
    let sim = sim_with(options);
    let address = |call: Call| 0x1000 + call as usize;
    let newest = address(Call::cuCtxCreate_v4);
    assert_eq!(proc_address(&sim, "cuCtxCreate", 13_000), (Ok(()), newest, 0));
    let older = address(Call::cuCtxCreate_v3);
    assert_eq!(proc_address(&sim, "cuCtxCreate", 12_040), (Ok(()), older, 0));
}

#[test]
fn a_form_newer_than_the_driver_is_missing() {
    let mut options = SimOptions::default();
    options.driver_version = Version(12_040);
    let sim = sim_with(options);
    let null = std::ptr::null_mut();
    let new: Asked<CUcontext> = get!(sim, cuCtxCreate_v4(out, null, 0, 0));
    assert_eq!(new, Err(CUresult::MISSING));
    let old: Asked<CUcontext> = get!(sim, cuCtxCreate_v3(out, std::ptr::null_mut(), 0, 0, 0));
    old.unwrap();
}

#[test]
fn what_is_not_simulated_is_missing() {
    let sim = sim();
    assert!(!Sim::simulated().contains(&Call::cuGraphicsGLRegisterBuffer));
    let mut resource = CUgraphicsResource::NULL;
    let registered = call!(sim, cuGraphicsGLRegisterBuffer(&raw mut resource, 1, 0));
    assert_eq!(registered, Err(CUresult::MISSING));
}

#[test]
fn after_exit_began_every_call_answers_deinitialized() {
    let (sim, _) = sim_with_context();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 0)).unwrap();
    assert_eq!(sim.life(), Life::Live);
    sim.begin_exit();
    assert_eq!(sim.life(), Life::Exiting);
    assert_eq!(call!(sim, cuStreamDestroy_v2(stream)), Err(CUresult::DEINITIALIZED));
    assert_eq!(call!(sim, cuInit(0)), Err(CUresult::DEINITIALIZED));
    assert_clean(&sim);
}

#[test]
fn a_forked_child_reaches_nothing_and_its_calls_are_counted() {
    let (sim, ctx) = sim_with_context();
    let child = sim.forked_child();
    assert_eq!(child.life(), Life::Forked);
    assert_eq!(call!(child, cuCtxDestroy_v2(ctx)), Err(CUresult::NOT_INITIALIZED));
    assert_eq!(call!(child, cuInit(0)), Err(CUresult::NOT_INITIALIZED));
    assert_eq!(sim.calls_of_forked_child(), 2);
    assert_eq!(sim.life(), Life::Live);
    assert_eq!(crate::ask::current(&sim), ctx);
    assert_clean(&sim);
}
