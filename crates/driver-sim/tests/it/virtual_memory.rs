//! Physical memory, reserved addresses, mappings: what is refused, what ends when, who sees which bytes.

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::ask::{assert_clean, call, get, kinds, sim, sim_with, sim_with_context, stream};

pub(crate) const BYTES: usize = 2 << 20;
const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
const READ_WRITE: CUmemAccess_flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

pub(crate) fn location(device: CUdevice) -> CUmemLocation {
    CUmemLocation::device(device)
}

pub(crate) fn physical(sim: &Sim, bytes: usize) -> CUmemGenericAllocationHandle {
    let props = CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: FILE,
        location: location(0),
        ..CUmemAllocationProp::default()
    };
    get!(sim, cuMemCreate(out, bytes, &raw const props, 0)).unwrap()
}

pub(crate) fn reserve(sim: &Sim, bytes: usize) -> CUdeviceptr {
    get!(sim, cuMemAddressReserve(out, bytes, 0, 0, 0)).unwrap()
}

pub(crate) fn allow(sim: &Sim, start: CUdeviceptr, device: CUdevice) {
    let access = [CUmemAccessDesc { location: location(device), flags: READ_WRITE }];
    call!(sim, cuMemSetAccess(start, BYTES, access.as_ptr(), 1)).unwrap();
}

/// A mapping that device 0 may use, and what is mapped.
fn mapped(sim: &Sim) -> (CUdeviceptr, CUmemGenericAllocationHandle) {
    let (start, handle) = (reserve(sim, BYTES), physical(sim, BYTES));
    call!(sim, cuMemMap(start, BYTES, 0, handle, 0)).unwrap();
    allow(sim, start, 0);
    (start, handle)
}

fn fill(sim: &Sim, start: CUdeviceptr, value: c_uint) {
    let s = stream(sim, 1);
    call!(sim, cuMemsetD32Async(start, value, 1, s)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
}

fn first(sim: &Sim, start: CUdeviceptr) -> u32 {
    let mut word = 0_u32;
    call!(sim, cuMemcpyDtoH_v2((&raw mut word).cast(), start, 4)).unwrap();
    word
}

fn free_bytes(sim: &Sim) -> usize {
    let mut total = 0;
    get!(sim, cuMemGetInfo_v2(out, &raw mut total)).unwrap()
}

#[test]
fn everything_that_was_made_and_ended_leaves_nothing() {
    let (sim, _) = sim_with_context();
    let before = free_bytes(&sim);
    let (start, handle) = mapped(&sim);
    assert_eq!(free_bytes(&sim), before - BYTES);
    let live = |kind| sim.live(kind);
    assert_eq!(live(ObjectKind::Mapping), 1);
    assert_eq!(live(ObjectKind::Reservation), 1);
    assert_eq!(live(ObjectKind::PhysicalAllocation), 1);
    call!(sim, cuMemRelease(handle)).unwrap();
    assert_eq!(free_bytes(&sim), before - BYTES, "it is mapped");
    call!(sim, cuMemUnmap(start, BYTES)).unwrap();
    assert_eq!(free_bytes(&sim), before);
    call!(sim, cuMemAddressFree(start, BYTES)).unwrap();
    for kind in [ObjectKind::Mapping, ObjectKind::Reservation, ObjectKind::PhysicalAllocation] {
        assert_eq!(sim.live(kind), 0, "{kind}");
    }
    assert_clean(&sim);
}

#[test]
fn two_mappings_of_the_same_physical_memory_hold_the_same_bytes() {
    let (sim, _) = sim_with_context();
    let (one, handle) = mapped(&sim);
    let two = reserve(&sim, BYTES);
    call!(sim, cuMemMap(two, BYTES, 0, handle, 0)).unwrap();
    allow(&sim, two, 0);
    fill(&sim, one, 0x1234);
    assert_eq!(first(&sim, two), 0x1234);
    call!(sim, cuMemUnmap(one, BYTES)).unwrap();
    assert_eq!(first(&sim, two), 0x1234);
}

#[test]
fn work_that_still_uses_what_was_unmapped_faults() {
    let (sim, _) = sim_with_context();
    let (start, _) = mapped(&sim);
    let s = stream(&sim, 1);
    call!(sim, cuMemsetD32Async(start, 1, 1, s)).unwrap();
    call!(sim, cuMemUnmap(start, BYTES)).unwrap();
    assert_eq!(call!(sim, cuStreamSynchronize(s)), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UseAfterDestroy]);
}

#[test]
fn a_device_without_access_reaches_nothing() {
    let sim = sim_with(SimOptions::with_devices(2));
    let other = crate::ask::primary(&sim, 1);
    call!(sim, cuCtxSetCurrent(other)).unwrap();
    let (start, _) = mapped(&sim);
    let mut word = 0_u32;
    let to = (&raw mut word).cast();
    assert_eq!(call!(sim, cuMemcpyDtoH_v2(to, start, 4)), Err(CUresult::INVALID_VALUE));
    allow(&sim, start, 1);
    call!(sim, cuMemcpyDtoH_v2(to, start, 4)).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_kernel_without_access_is_a_violation_also_on_the_memory_s_own_device() {
    let (sim, _) = sim_with_context();
    sim.register_kernel("axpy", |launch| launch.write(launch.param(1)?, 1_u32));
    let (start, handle) = (reserve(&sim, BYTES), physical(&sim, BYTES));
    call!(sim, cuMemMap(start, BYTES, 0, handle, 0)).unwrap();
    let function = crate::code::function(&sim, crate::code::ptx(&sim), "axpy").unwrap();
    let s = stream(&sim, 1);
    let (mut a, mut x, mut y, mut n) = (1.0_f32, start, start, 1_u32);
    let mut params: [*mut c_void; 4] =
        [(&raw mut a).cast(), (&raw mut x).cast(), (&raw mut y).cast(), (&raw mut n).cast()];
    let (list, none) = (params.as_mut_ptr(), core::ptr::null_mut());
    let launched = call!(sim, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, s, list, none));
    launched.unwrap();
    assert_eq!(call!(sim, cuStreamSynchronize(s)), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::NoAccess]);
}

#[test]
fn a_handle_ends_when_it_was_released_as_often_as_it_was_made() {
    let (sim, _) = sim_with_context();
    let (start, handle) = mapped(&sim);
    let address = core::ptr::without_provenance_mut(usize::try_from(start).unwrap());
    let again: u64 = get!(sim, cuMemRetainAllocationHandle(out, address)).unwrap();
    assert_eq!(again, handle);
    for _ in 0..2 {
        call!(sim, cuMemRelease(handle)).unwrap();
    }
    assert_eq!(call!(sim, cuMemRelease(handle)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::DoubleDestroy]);
    // What is mapped is reached through its address all the same.
    let back: u64 = get!(sim, cuMemRetainAllocationHandle(out, address)).unwrap();
    call!(sim, cuMemRelease(back)).unwrap();
    assert_clean(&sim);
}

#[cfg(unix)]
#[test]
fn an_open_file_keeps_physical_memory_and_the_last_close_gives_it_back() {
    use std::os::fd::{FromRawFd as _, OwnedFd};
    let (sim, _) = sim_with_context();
    let before = free_bytes(&sim);
    let handle = physical(&sim, BYTES);
    let mut number: c_int = -1;
    let to = (&raw mut number).cast();
    call!(sim, cuMemExportToShareableHandle(to, handle, FILE, 0)).unwrap();
    call!(sim, cuMemRelease(handle)).unwrap();
    let from = core::ptr::without_provenance_mut(usize::try_from(number).unwrap());
    let back: u64 = get!(sim, cuMemImportFromShareableHandle(out, from, FILE)).unwrap();
    call!(sim, cuMemRelease(back)).unwrap();
    assert_eq!(free_bytes(&sim), before - BYTES);
    // SAFETY: the driver gave it out for this test to close.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    // A machine looks at its files with the next call that has to do with them.
    call!(sim, cuMemRelease(physical(&sim, BYTES))).unwrap();
    assert_eq!(free_bytes(&sim), before);
    assert_clean(&sim);
}

#[test]
fn none_of_it_needs_a_context() {
    let sim = sim();
    let (start, handle) = mapped(&sim);
    let here = location(0);
    let flags: c_ulonglong = get!(sim, cuMemGetAccess(out, &raw const here, start)).unwrap();
    assert_eq!(flags, 3);
    call!(sim, cuMemUnmap(start, BYTES)).unwrap();
    call!(sim, cuMemAddressFree(start, BYTES)).unwrap();
    call!(sim, cuMemRelease(handle)).unwrap();
    assert_eq!(sim.leaks(), []);
    assert_clean(&sim);
}
