//! Managed memory: advised, prefetched, attached to streams.

use cuhold_driver_sim::cuhold_driver_sys::{DriverApi as _, ffi::*};

use crate::ask::{Asked, call, get, sim_with_context};

fn location(kind: CUmemLocationType, id: c_int) -> CUmemLocation {
    let mut location = CUmemLocation { type_: kind, ..CUmemLocation::default() };
    location.__bindgen_anon_1.id = id;
    location
}

const HERE: CUmemLocationType = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
const BYTES: usize = 1 << 12;
const BAD: Asked<()> = Err(CUresult::INVALID_VALUE);

#[test]
fn advice_is_taken_for_managed_memory_alone() {
    let (sim, _) = sim_with_context();
    let managed: CUdeviceptr = get!(sim, cuMemAllocManaged(out, BYTES, 1)).unwrap();
    let owned: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, BYTES)).unwrap();
    let advise = |address, count, advice, id| {
        let location = location(HERE, id);
        call!(sim, cuMemAdvise_v2(address, count, CUmem_advise(advice), location))
    };
    for advice in 1..=6 {
        advise(managed, BYTES, advice, 0).unwrap();
    }
    assert_eq!(advise(owned, BYTES, 1, 0), BAD);
    assert_eq!(advise(managed, BYTES, 99, 0), BAD);
    assert_eq!(advise(managed, 0, 1, 0), BAD);
    assert!(sim.violations().is_empty());
    assert_eq!(advise(managed, BYTES, 3, 9), Err(CUresult::INVALID_DEVICE));
    call!(sim, cuMemAdvise(managed, BYTES, CUmem_advise(3), CU_DEVICE_CPU)).unwrap();
    assert_eq!(call!(sim, cuMemAdvise(owned, BYTES, CUmem_advise(3), 0)), BAD);
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    assert_eq!(advise(managed, BYTES, 1, 0), Err(CUresult::INVALID_CONTEXT));
}

#[test]
fn managed_memory_is_prefetched_in_a_stream_s_order() {
    let (sim, _) = sim_with_context();
    let managed: CUdeviceptr = get!(sim, cuMemAllocManaged(out, BYTES, 1)).unwrap();
    let owned: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, BYTES)).unwrap();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    let prefetch = |address, count, flags| {
        let location = location(HERE, 0);
        call!(sim, cuMemPrefetchAsync_v2(address, count, location, flags, stream))
    };
    call!(sim, cuMemsetD8Async(managed, 0, BYTES, stream)).unwrap();
    prefetch(managed, BYTES, 0).unwrap();
    call!(sim, cuMemPrefetchAsync(managed, BYTES, CU_DEVICE_CPU, stream)).unwrap();
    assert_eq!(sim.pending(), 3);
    assert_eq!(prefetch(owned, BYTES, 0), BAD);
    assert_eq!(prefetch(managed, BYTES, 1), BAD);
    assert_eq!(prefetch(managed, 0, 0), BAD);
    assert_eq!(call!(sim, cuMemPrefetchAsync(owned, BYTES, 0, stream)), BAD);
    call!(sim, cuStreamSynchronize(stream)).unwrap();
}

#[test]
fn managed_memory_is_attached_as_a_whole_and_not_during_a_capture() {
    let (sim, _) = sim_with_context();
    let managed: CUdeviceptr = get!(sim, cuMemAllocManaged(out, BYTES, 1)).unwrap();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    let attach = |to, size, flags| call!(sim, cuStreamAttachMemAsync(to, managed, size, flags));
    attach(stream, 0, 4).unwrap();
    attach(stream, BYTES, 1).unwrap();
    assert_eq!(attach(stream, 1, 1), BAD);
    assert_eq!(attach(stream, 0, 9), BAD);
    assert_eq!(attach(CUstream::NULL, 0, 4), BAD);
    call!(sim, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(2))).unwrap();
    assert_eq!(attach(stream, 0, 4), Err(CUresult::STREAM_CAPTURE_UNSUPPORTED));
}
