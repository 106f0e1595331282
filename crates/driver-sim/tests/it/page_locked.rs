//! Page-locked host memory.

use cuhold_driver_sim::{
    ObjectKind, Sim, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::ask::{Asked, call, get, sim_with_context};

pub(crate) fn host_alloc(sim: &Sim, size: usize, flags: c_uint) -> Asked<*mut c_void> {
    let mut pointer = core::ptr::null_mut();
    call!(sim, cuMemHostAlloc(&raw mut pointer, size, flags)).map(|()| pointer)
}

fn device_pointer(sim: &Sim, pointer: *mut c_void, flags: c_uint) -> Asked<CUdeviceptr> {
    get!(sim, cuMemHostGetDevicePointer_v2(out, pointer, flags))
}

fn kinds(sim: &Sim) -> Vec<ViolationKind> {
    sim.take_violations().into_iter().map(|violation| violation.kind).collect()
}

#[test]
fn a_block_is_the_host_s_and_its_device_pointer_is_its_address() {
    let (sim, _) = sim_with_context();
    let mut pointer = core::ptr::null_mut();
    call!(sim, cuMemAllocHost_v2(&raw mut pointer, 64)).unwrap();
    // SAFETY: 64 bytes of page-locked memory that nothing else uses.
    unsafe { pointer.cast::<u64>().write(5) };
    assert_eq!(device_pointer(&sim, pointer, 0), Ok(pointer.addr() as u64));
    assert_eq!(device_pointer(&sim, pointer, 1), Err(CUresult::INVALID_VALUE));
    assert_eq!(get!(sim, cuMemHostGetFlags(out, pointer)), Ok(CU_MEMHOSTALLOC_DEVICEMAP));
    call!(sim, cuMemFreeHost(pointer)).unwrap();
    assert_eq!(device_pointer(&sim, pointer, 0), Err(CUresult::INVALID_VALUE));
    let flags: Asked<c_uint> = get!(sim, cuMemHostGetFlags(out, pointer));
    assert_eq!(flags, Err(CUresult::INVALID_VALUE));
    assert!(sim.violations().is_empty());
}

#[test]
fn flags_are_kept_and_unknown_ones_refused() {
    let (sim, _) = sim_with_context();
    let pointer = host_alloc(&sim, 64, CU_MEMHOSTALLOC_PORTABLE).unwrap();
    let flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    assert_eq!(get!(sim, cuMemHostGetFlags(out, pointer)), Ok(flags));
    call!(sim, cuMemFreeHost(pointer)).unwrap();
    assert_eq!(host_alloc(&sim, 64, 0x100), Err(CUresult::INVALID_VALUE));
    assert_eq!(host_alloc(&sim, 0, 0), Ok(core::ptr::null_mut()));
    assert_eq!(host_alloc(&sim, usize::MAX / 2, 0), Err(CUresult::OUT_OF_MEMORY));
    assert_eq!(sim.live(ObjectKind::HostMemory), 0);
}

#[test]
fn only_what_was_allocated_so_can_be_freed_so() {
    let (sim, _) = sim_with_context();
    call!(sim, cuMemFreeHost(core::ptr::null_mut())).unwrap();
    let mut local = 0_u64;
    let on_stack = (&raw mut local).cast();
    assert_eq!(call!(sim, cuMemFreeHost(on_stack)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::UnknownHandle]);
    let pointer = host_alloc(&sim, 64, 0).unwrap();
    assert_eq!(call!(sim, cuMemFree_v2(pointer.addr() as u64)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), []);
    call!(sim, cuMemFreeHost(pointer)).unwrap();
    assert_eq!(call!(sim, cuMemFreeHost(pointer)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::DoubleDestroy]);
}

#[test]
fn a_range_can_be_registered_once_at_a_time() {
    let (sim, _) = sim_with_context();
    let mut block = vec![0_u8; 4096];
    let base: *mut c_void = block.as_mut_ptr().cast();
    let at = |offset: usize| base.wrapping_byte_add(offset);
    let register = |pointer, size| call!(sim, cuMemHostRegister_v2(pointer, size, 0));
    let unregister = |pointer| call!(sim, cuMemHostUnregister(pointer));
    assert_eq!(register(base, 0), Err(CUresult::INVALID_VALUE));
    assert_eq!(unregister(base), Err(CUresult::HOST_MEMORY_NOT_REGISTERED));
    register(base, 1024).unwrap();
    assert_eq!(sim.live(ObjectKind::HostRegistration), 1);
    assert_eq!(register(at(1000), 100), Err(CUresult::HOST_MEMORY_ALREADY_REGISTERED));
    assert_eq!(call!(sim, cuMemFreeHost(base)), Err(CUresult::INVALID_VALUE));
    assert_eq!(device_pointer(&sim, at(8), 0), Ok(at(8).addr() as u64));
    assert!(sim.take_violations().is_empty());
    assert_eq!(unregister(at(8)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::UnknownHandle]);
    unregister(base).unwrap();
    assert_eq!(unregister(base), Err(CUresult::HOST_MEMORY_NOT_REGISTERED));
    assert_eq!(kinds(&sim), [ViolationKind::DoubleDestroy]);
    register(at(1000), 100).unwrap();
    unregister(at(1000)).unwrap();
}

#[test]
fn a_block_whose_context_ended_is_gone_for_the_driver_and_still_there_for_the_host() {
    let (sim, _) = sim_with_context();
    let ctx: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    let pointer: *mut u64 = host_alloc(&sim, 64, 0).unwrap().cast();
    // SAFETY: 64 bytes of page-locked memory that nothing else uses.
    unsafe { pointer.write(5) };
    call!(sim, cuCtxDestroy_v2(ctx)).unwrap();
    assert_eq!(call!(sim, cuMemFreeHost(pointer.cast())), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::UseAfterContext]);
    // SAFETY: the simulated driver keeps such a block as long as it lives itself.
    assert_eq!(unsafe { pointer.read() }, 5);
}

#[test]
fn freeing_waits_for_queued_copies_of_the_owner_s_context() {
    let (sim, _) = sim_with_context();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    let device: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
    let pointer = host_alloc(&sim, 64, 0).unwrap();
    call!(sim, cuMemcpyHtoDAsync_v2(device, pointer, 64, stream)).unwrap();
    assert_eq!(sim.pending(), 1);
    call!(sim, cuMemFreeHost(pointer)).unwrap();
    assert_eq!(sim.pending(), 0);
    assert!(sim.violations().is_empty());
}

#[test]
fn a_copy_of_another_context_that_the_free_did_not_wait_for_fails_the_launch() {
    let (sim, _) = sim_with_context();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    let device: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
    let _: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    let pointer = host_alloc(&sim, 64, 0).unwrap();
    call!(sim, cuMemcpyHtoDAsync_v2(device, pointer, 64, stream)).unwrap();
    call!(sim, cuMemFreeHost(pointer)).unwrap();
    assert_eq!(call!(sim, cuStreamSynchronize(stream)), Err(CUresult::LAUNCH_FAILED));
    assert_eq!(sim.violations().len(), 1);
}
