//! The log: dumped to memory and to files, and told to callbacks.

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use std::{
    ffi::CString,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::ask::{Asked, Runs, assert_clean, call, count, get, kinds, sim_with, sim_with_context};

fn dump(sim: &Sim, iterator: &mut CUlogIterator, room: usize) -> Asked<String> {
    let mut buffer = vec![0x55; room.max(1)];
    let mut size = room;
    let (to, len) = (buffer.as_mut_ptr(), &raw mut size);
    call!(sim, cuLogsDumpToMemory(iterator, to, len, 0))?;
    let bytes: Vec<u8> = buffer.iter().take(size).map(|byte| byte.to_ne_bytes()[0]).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn the_log_has_a_line_for_each_call_that_failed() {
    let (sim, _) = sim_with_context();
    let mut at = get!(sim, cuLogsCurrent(out, 0)).unwrap();
    assert_eq!(dump(&sim, &mut at, 1000), Ok(String::new()));
    call!(sim, cuEventDestroy_v2(CUevent::NULL)).unwrap_err();
    let text = dump(&sim, &mut at, 1000).unwrap();
    assert!(text.contains("cuEventDestroy") && text.contains("INVALID_HANDLE"), "{text}");
    assert_eq!(dump(&sim, &mut at, 1000), Ok(String::new()), "the iterator moved on");
}

#[test]
fn a_log_buffer_too_small_for_any_line_is_refused() {
    let (sim, _) = sim_with_context();
    let mut at = get!(sim, cuLogsCurrent(out, 0)).unwrap();
    call!(sim, cuEventDestroy_v2(CUevent::NULL)).unwrap_err();
    assert_eq!(dump(&sim, &mut at, 4), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuLogsCurrent(std::ptr::null_mut(), 0)), Err(CUresult::INVALID_VALUE));
}

#[test]
fn the_log_keeps_the_last_hundred_lines() {
    let (sim, _) = sim_with_context();
    let mut begin = 0;
    for _ in 0..130 {
        call!(sim, cuEventDestroy_v2(CUevent::NULL)).unwrap_err();
    }
    assert_eq!(dump(&sim, &mut begin, 25_600).unwrap().lines().count(), 100);
    assert_eq!(begin, 130);
}

#[test]
fn the_log_goes_into_a_file_from_the_iterator_on() {
    let (sim, _) = sim_with_context();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver-sim-log.txt");
    let name = CString::new(path.to_str().unwrap()).unwrap();
    call!(sim, cuEventDestroy_v2(CUevent::NULL)).unwrap_err();
    let mut at = get!(sim, cuLogsCurrent(out, 0)).unwrap();
    call!(sim, cuStreamDestroy_v2(CUstream::NULL)).unwrap_err();
    call!(sim, cuLogsDumpToFile(&raw mut at, name.as_ptr(), 0)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("cuStreamDestroy") && !text.contains("cuEventDestroy"), "{text}");
    assert_eq!(get!(sim, cuLogsCurrent(out, 0)), Ok(at));
    call!(sim, cuLogsDumpToFile(std::ptr::null_mut(), name.as_ptr(), 0)).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    let flags = call!(sim, cuLogsDumpToFile(&raw mut at, name.as_ptr(), 1));
    assert_eq!(flags, Err(CUresult::INVALID_VALUE));
    let nowhere = c"no such folder/log.txt".as_ptr();
    let unwritten = call!(sim, cuLogsDumpToFile(&raw mut at, nowhere, 0));
    assert_eq!(unwritten, Err(CUresult::INVALID_VALUE));
}

fn register(sim: &Sim, function: CUlogsCallback, data: *mut c_void) -> Asked<CUlogsCallbackHandle> {
    let mut handle = CUlogsCallbackHandle::NULL;
    call!(sim, cuLogsRegisterCallback(function, data, &raw mut handle)).map(|()| handle)
}

unsafe extern "C" fn count_line(data: *mut c_void, _: CUlogLevel, _: *mut c_char, _: usize) {
    // SAFETY: the data is a `Runs` that outlives the driver's use of it.
    unsafe { count(data) };
}

/// What a callback was told.
type Told = Mutex<Vec<(CUlogLevel, String)>>;

unsafe extern "C" fn keep_line(
    data: *mut c_void,
    level: CUlogLevel,
    text: *mut c_char,
    len: usize,
) {
    // SAFETY: the text is as long as the driver says.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    // SAFETY: the data is a `Told` that outlives the driver's use of it.
    let told = unsafe { &*data.cast::<Told>() };
    told.lock().unwrap().push((level, String::from_utf8_lossy(bytes).into_owned()));
}

#[test]
fn a_callback_is_told_each_failure_until_it_is_unregistered() {
    let (sim, _) = sim_with_context();
    let told = Told::default();
    let handle = register(&sim, Some(keep_line), (&raw const told).cast_mut().cast()).unwrap();
    assert_eq!(sim.live(ObjectKind::LogCallback), 1);
    call!(sim, cuCtxSynchronize()).unwrap();
    call!(sim, cuEventDestroy_v2(CUevent::NULL)).unwrap_err();
    call!(sim, cuLogsUnregisterCallback(handle)).unwrap();
    call!(sim, cuEventDestroy_v2(CUevent::NULL)).unwrap_err();
    let told = told.into_inner().unwrap();
    let [(level, line)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(*level, CUlogLevel::CU_LOG_LEVEL_ERROR);
    assert!(line.contains("cuEventDestroy") && !line.contains('\n'), "{line}");
    assert_eq!(sim.live(ObjectKind::LogCallback), 0);
    assert_clean(&sim);
}

#[test]
fn a_callback_is_unregistered_once() {
    let (sim, _) = sim_with_context();
    let runs = Runs::default();
    assert_eq!(register(&sim, None, runs.data()), Err(CUresult::INVALID_VALUE));
    let null = CUlogsCallbackHandle::NULL;
    assert_eq!(call!(sim, cuLogsUnregisterCallback(null)), Err(CUresult::INVALID_VALUE));
    assert_clean(&sim);
    let handle = register(&sim, Some(count_line), runs.data()).unwrap();
    call!(sim, cuLogsUnregisterCallback(handle)).unwrap();
    assert_eq!(call!(sim, cuLogsUnregisterCallback(handle)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::DoubleDestroy]);
    assert_eq!(runs.count(), 0);
}

/// A callback's own driver, and how often the callback ran.
struct Nested {
    sim: Sim,
    runs: AtomicU32,
}

unsafe extern "C" fn fail_again(data: *mut c_void, _: CUlogLevel, _: *mut c_char, _: usize) {
    // SAFETY: the data is a `Nested` that outlives the driver's use of it.
    let nested = unsafe { &*data.cast::<Nested>() };
    nested.runs.fetch_add(1, Ordering::SeqCst);
    call!(nested.sim, cuEventDestroy_v2(CUevent::NULL)).unwrap_err();
}

#[test]
fn a_callback_that_fails_is_not_called_by_itself() {
    let nested = Nested { sim: sim_with(SimOptions::default()), runs: AtomicU32::new(0) };
    let data = (&raw const nested).cast_mut().cast();
    register(&nested.sim, Some(fail_again), data).unwrap();
    call!(nested.sim, cuEventDestroy_v2(CUevent::NULL)).unwrap_err();
    assert_eq!(nested.runs.load(Ordering::SeqCst), 1);
    assert_eq!(kinds(&nested.sim.take_violations()), [ViolationKind::CallInsideCallback]);
    let mut begin = 0;
    assert_eq!(dump(&nested.sim, &mut begin, 25_600).unwrap().lines().count(), 2);
}
