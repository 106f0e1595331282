//! Memory of a context: allocated, freed, asked about, and what frees wait for.

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{Call, DriverApi as _, ffi::*},
};

use crate::{
    ask::{Asked, call, get, sim, sim_with_context},
    page_locked::host_alloc,
};

fn alloc(sim: &Sim, size: usize) -> Asked<CUdeviceptr> {
    get!(sim, cuMemAlloc_v2(out, size))
}

fn kinds(sim: &Sim) -> Vec<ViolationKind> {
    sim.take_violations().into_iter().map(|violation| violation.kind).collect()
}

fn range(sim: &Sim, address: CUdeviceptr) -> Asked<(CUdeviceptr, usize)> {
    let mut size = 0;
    let base: CUdeviceptr = get!(sim, cuMemGetAddressRange_v2(out, &raw mut size, address))?;
    Ok((base, size))
}

#[test]
fn an_allocation_is_found_by_any_address_in_it_with_the_size_asked_for() {
    let (sim, _) = sim_with_context();
    let base = alloc(&sim, 100).unwrap();
    assert_eq!(range(&sim, base + 4), Ok((base, 100)));
    assert_eq!(range(&sim, base + 100), Err(CUresult::NOT_FOUND));
    call!(sim, cuMemGetAddressRange_v2(core::ptr::null_mut(), core::ptr::null_mut(), base))
        .unwrap();
    call!(sim, cuMemFree_v2(base)).unwrap();
    assert_eq!(range(&sim, base), Err(CUresult::NOT_FOUND));
    assert!(sim.violations().is_empty());
}

#[test]
fn sizes_that_can_not_be_are_refused() {
    let (sim, _) = sim_with_context();
    assert_eq!(alloc(&sim, 0), Err(CUresult::INVALID_VALUE));
    assert_eq!(alloc(&sim, 1 << 50), Err(CUresult::OUT_OF_MEMORY));
    assert_eq!(alloc(&sim, usize::MAX), Err(CUresult::OUT_OF_MEMORY));
    assert_eq!(call!(sim, cuMemAlloc_v2(core::ptr::null_mut(), 1)), Err(CUresult::INVALID_VALUE));
    assert_eq!(sim.live(ObjectKind::DeviceMemory), 0);
}

#[test]
fn allocating_needs_a_context_and_freeing_does_not() {
    let sim = sim();
    assert_eq!(alloc(&sim, 64), Err(CUresult::INVALID_CONTEXT));
    let ctx: CUcontext = get!(sim, cuDevicePrimaryCtxRetain(out, 0)).unwrap();
    call!(sim, cuCtxSetCurrent(ctx)).unwrap();
    let base = alloc(&sim, 64).unwrap();
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    call!(sim, cuMemFree_v2(base)).unwrap();
    assert!(sim.violations().is_empty());
}

#[test]
fn what_is_no_allocation_s_beginning_can_not_be_freed() {
    let (sim, _) = sim_with_context();
    let base = alloc(&sim, 64).unwrap();
    assert_eq!(call!(sim, cuMemFree_v2(base + 4)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::UnknownHandle]);
    call!(sim, cuMemFree_v2(base)).unwrap();
    assert_eq!(call!(sim, cuMemFree_v2(base)), Err(CUresult::INVALID_VALUE));
    let violations = sim.take_violations();
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].kind, ViolationKind::DoubleDestroy);
    assert_eq!(violations[0].object, Some((ObjectKind::DeviceMemory, base)));
    let calls: Vec<_> = violations[0].calls.iter().map(|site| site.call).collect();
    assert_eq!(calls, [Call::cuMemAlloc_v2, Call::cuMemFree_v2, Call::cuMemFree_v2]);
    call!(sim, cuMemFree_v2(0)).unwrap();
    assert!(sim.violations().is_empty());
}

#[test]
fn a_device_has_as_much_memory_as_it_is_set_up_with_and_gets_it_back() {
    let mut options = SimOptions::default();
    options.devices[0].memory_bytes = 1 << 20;
    let sim = Sim::with_options(options);
    call!(sim, cuInit(0)).unwrap();
    let ctx: CUcontext = get!(sim, cuDevicePrimaryCtxRetain(out, 0)).unwrap();
    call!(sim, cuCtxSetCurrent(ctx)).unwrap();
    let free = || {
        let mut total = 0;
        let free: usize = get!(sim, cuMemGetInfo_v2(out, &raw mut total)).unwrap();
        assert_eq!(total, 1 << 20);
        free
    };
    assert_eq!(free(), 1 << 20);
    let base = alloc(&sim, (1 << 20) - 512).unwrap();
    assert_eq!(free(), 512);
    assert_eq!(alloc(&sim, 513), Err(CUresult::OUT_OF_MEMORY));
    call!(sim, cuMemFree_v2(base)).unwrap();
    assert_eq!(free(), 1 << 20);
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    let mut total = 0;
    let asked: Asked<usize> = get!(sim, cuMemGetInfo_v2(out, &raw mut total));
    assert_eq!(asked, Err(CUresult::INVALID_CONTEXT));
}

#[test]
fn pitched_memory_has_rows_that_begin_aligned() {
    let (sim, _) = sim_with_context();
    let mut pitch = 0;
    let base: CUdeviceptr = get!(sim, cuMemAllocPitch_v2(out, &raw mut pitch, 100, 3, 4)).unwrap();
    assert_eq!(pitch, 512);
    assert_eq!(range(&sim, base), Ok((base, 3 * 512)));
    let bad: Asked<CUdeviceptr> = get!(sim, cuMemAllocPitch_v2(out, &raw mut pitch, 100, 3, 5));
    assert_eq!(bad, Err(CUresult::INVALID_VALUE));
    call!(sim, cuMemFree_v2(base)).unwrap();
}

#[test]
fn managed_memory_is_the_host_s_to_follow() {
    let (sim, _) = sim_with_context();
    let base: CUdeviceptr = get!(sim, cuMemAllocManaged(out, 4, 1)).unwrap();
    call!(sim, cuMemsetD8_v2(base, 7, 4)).unwrap();
    let on_host: *const [u8; 4] = core::ptr::with_exposed_provenance(base.try_into().unwrap());
    // SAFETY: managed memory of 4 bytes, and the blocking fill has waited.
    assert_eq!(unsafe { on_host.read() }, [7; 4]);
    call!(sim, cuMemFree_v2(base)).unwrap();
    let bad_flags: Asked<CUdeviceptr> = get!(sim, cuMemAllocManaged(out, 4, 7));
    assert_eq!(bad_flags, Err(CUresult::INVALID_VALUE));
    let nothing: Asked<CUdeviceptr> = get!(sim, cuMemAllocManaged(out, 0, 1));
    assert_eq!(nothing, Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_free_waits_for_the_work_of_the_owner_s_context_and_of_no_other() {
    let (sim, primary) = sim_with_context();
    let base = alloc(&sim, 64).unwrap();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    call!(sim, cuMemsetD8Async(base, 1, 64, stream)).unwrap();
    let other: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    let foreign = alloc(&sim, 64).unwrap();
    call!(sim, cuMemFree_v2(foreign)).unwrap();
    assert_eq!(sim.pending(), 1);
    call!(sim, cuMemFree_v2(base)).unwrap();
    assert_eq!(sim.pending(), 0);
    assert!(sim.violations().is_empty());
    call!(sim, cuCtxDestroy_v2(other)).unwrap();
    assert_ne!(primary, other);
}

#[test]
fn work_of_another_context_that_a_free_did_not_wait_for_faults() {
    let (sim, _) = sim_with_context();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    let other: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    let base = alloc(&sim, 64).unwrap();
    call!(sim, cuMemsetD8Async(base, 1, 64, stream)).unwrap();
    call!(sim, cuMemFree_v2(base)).unwrap();
    assert_eq!(call!(sim, cuStreamSynchronize(stream)), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(kinds(&sim), [ViolationKind::UseAfterDestroy]);
    assert_eq!(call!(sim, cuMemFree_v2(0)), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(alloc(&sim, 64), Err(CUresult::ILLEGAL_ADDRESS));
    assert_ne!(other, CUcontext::NULL);
}

#[test]
fn a_free_that_waits_for_a_fault_says_so_and_frees_nothing() {
    let (sim, _) = sim_with_context();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    let ctx: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    let foreign = alloc(&sim, 64).unwrap();
    call!(sim, cuMemsetD8Async(foreign, 1, 64, stream)).unwrap();
    call!(sim, cuMemFree_v2(foreign)).unwrap();
    let _: CUcontext = get!(sim, cuCtxPopCurrent_v2(out)).unwrap();
    let own = alloc(&sim, 64).unwrap();
    assert_eq!(call!(sim, cuMemFree_v2(own)), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(sim.live(ObjectKind::DeviceMemory), 1);
    assert_ne!(ctx, CUcontext::NULL);
}

#[test]
fn memory_ends_with_its_context() {
    let (sim, _) = sim_with_context();
    let other: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    let base = alloc(&sim, 64).unwrap();
    call!(sim, cuCtxDestroy_v2(other)).unwrap();
    assert_eq!(sim.gone_with_context().len(), 1);
    assert_eq!(call!(sim, cuMemFree_v2(base)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::UseAfterContext]);
    assert_eq!(sim.live(ObjectKind::DeviceMemory), 0);
}

#[test]
fn what_is_not_freed_is_a_leak_with_the_call_that_made_it() {
    let (sim, _) = sim_with_context();
    let base = alloc(&sim, 64).unwrap();
    let leaks: Vec<_> =
        sim.leaks().into_iter().filter(|leak| leak.kind == ObjectKind::DeviceMemory).collect();
    assert_eq!(leaks.len(), 1);
    assert_eq!((leaks[0].raw, leaks[0].made.call), (base, Call::cuMemAlloc_v2));
}

#[test]
fn a_capture_elsewhere_forbids_allocating_and_freeing_outside_of_relaxed_mode() {
    let (sim, _) = sim_with_context();
    let base = alloc(&sim, 64).unwrap();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    let status = |sim: &Sim| {
        let mut status = CUstreamCaptureStatus(0);
        call!(sim, cuStreamIsCapturing(stream, &raw mut status)).map(|()| status).unwrap()
    };
    let calls: [&dyn Fn() -> Asked<()>; 4] = [
        &|| alloc(&sim, 64).map(|_| ()),
        &|| call!(sim, cuMemFree_v2(base)),
        &|| host_alloc(&sim, 64, 0).map(|_| ()),
        &|| call!(sim, cuMemHostRegister_v2(core::ptr::without_provenance_mut(4096), 64, 0)),
    ];
    for make in calls {
        call!(sim, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(0))).unwrap();
        assert_eq!(make(), Err(CUresult::STREAM_CAPTURE_UNSUPPORTED));
        assert_eq!(status(&sim), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        let ended: Asked<CUgraph> = get!(sim, cuStreamEndCapture(stream, out));
        assert_eq!(ended, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
    }
    call!(sim, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(2))).unwrap();
    call!(sim, cuMemFree_v2(base)).unwrap();
    let graph: CUgraph = get!(sim, cuStreamEndCapture(stream, out)).unwrap();
    call!(sim, cuGraphDestroy(graph)).unwrap();
}

/// Makes the unsafe calls for memory and code among those simulated; on `stream` where they need one.
pub(crate) fn make_unsafe_call(sim: &Sim, unsafe_one: Call, stream: CUstream) -> Option<Asked<()>> {
    let (mut address, mut pitch, mut pointer) = (8, 0, core::ptr::without_provenance_mut(8));
    let (out, host) = (&raw mut address, &raw mut pointer);
    let pool: CUmemoryPool = get!(sim, cuDeviceGetDefaultMemPool(out, 0)).unwrap();
    let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let value = (&raw mut pitch).cast();
    Some(match unsafe_one {
        Call::cuMemAlloc_v2 => call!(sim, cuMemAlloc_v2(out, 64)),
        Call::cuMemAllocPitch_v2 => {
            call!(sim, cuMemAllocPitch_v2(out, &raw mut pitch, 64, 1, 4))
        }
        Call::cuMemAllocManaged => call!(sim, cuMemAllocManaged(out, 64, 1)),
        Call::cuMemFree_v2 => call!(sim, cuMemFree_v2(address)),
        Call::cuMemAllocHost_v2 => call!(sim, cuMemAllocHost_v2(host, 64)),
        Call::cuMemHostAlloc => call!(sim, cuMemHostAlloc(host, 64, 0)),
        Call::cuMemFreeHost => call!(sim, cuMemFreeHost(pointer)),
        Call::cuMemHostRegister_v2 => call!(sim, cuMemHostRegister_v2(pointer, 64, 0)),
        Call::cuMemHostUnregister => call!(sim, cuMemHostUnregister(pointer)),
        Call::cuMemAllocAsync => call!(sim, cuMemAllocAsync(out, 64, stream)),
        Call::cuMemAllocFromPoolAsync => {
            call!(sim, cuMemAllocFromPoolAsync(out, 64, pool, stream))
        }
        Call::cuMemFreeAsync => call!(sim, cuMemFreeAsync(address, stream)),
        Call::cuMemPoolCreate => {
            let properties = CUmemPoolProps::default();
            get!(sim, cuMemPoolCreate(out, &raw const properties)).map(|_: CUmemoryPool| ())
        }
        Call::cuMemPoolDestroy => call!(sim, cuMemPoolDestroy(pool)),
        Call::cuMemPoolTrimTo => call!(sim, cuMemPoolTrimTo(pool, 0)),
        Call::cuMemPoolSetAttribute => call!(sim, cuMemPoolSetAttribute(pool, threshold, value)),
        Call::cuMemPoolGetAttribute => call!(sim, cuMemPoolGetAttribute(pool, threshold, value)),
        Call::cuMemPoolSetAccess => call!(sim, cuMemPoolSetAccess(pool, core::ptr::null(), 0)),
        Call::cuMemPoolGetAccess => {
            let mut flags = CUmemAccess_flags(0);
            let mut location = CUmemLocation::default();
            call!(sim, cuMemPoolGetAccess(&raw mut flags, pool, &raw mut location))
        }
        Call::cuMemSetMemPool => {
            let device = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            let mut here = CUmemLocation { type_: device, ..CUmemLocation::default() };
            let pinned = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            call!(sim, cuMemSetMemPool(&raw mut here, pinned, pool))
        }
        Call::cuMemAdvise_v2 => {
            call!(sim, cuMemAdvise_v2(address, 1, CUmem_advise(1), CUmemLocation::default()))
        }
        Call::cuMemAdvise => call!(sim, cuMemAdvise(address, 1, CUmem_advise(1), 0)),
        Call::cuStreamAttachMemAsync => {
            call!(sim, cuStreamAttachMemAsync(stream, address, 0, 1))
        }
        Call::cuDeviceSetMemPool => call!(sim, cuDeviceSetMemPool(0, pool)),
        Call::cuPointerSetAttribute => {
            let sync = CUpointer_attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
            call!(sim, cuPointerSetAttribute(value, sync, address))
        }
        Call::cuModuleUnload => call!(sim, cuModuleUnload(CUmodule::from_addr(8))),
        Call::cuLibraryUnload => call!(sim, cuLibraryUnload(CUlibrary::from_addr(8))),
        _ => return None,
    })
}
