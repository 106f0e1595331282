//! Managed memory: advised, prefetched, attached to streams.

use cuhold_driver_sim::{
    Sim,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

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
    assert_eq!(advise(managed, BYTES, 3, 9), BAD);
    advise(managed, BYTES, 1, 9).unwrap();
    call!(sim, cuMemAdvise(managed, BYTES, CUmem_advise(3), CU_DEVICE_CPU)).unwrap();
    assert_eq!(call!(sim, cuMemAdvise(owned, BYTES, CUmem_advise(3), 0)), BAD);
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    assert_eq!(advise(managed, BYTES, 1, 0), Err(CUresult::INVALID_CONTEXT));
}

#[test]
fn advice_names_a_place_and_which_ones_do_depends_on_its_kind() {
    use CUmemLocationType as Type;
    let (sim, _) = sim_with_context();
    let managed: CUdeviceptr = get!(sim, cuMemAllocManaged(out, BYTES, 1)).unwrap();
    let places = [
        (HERE, 9),
        (Type::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0),
        (Type::CU_MEM_LOCATION_TYPE_HOST_NUMA, 9),
        (Type::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0),
        (Type(77), 0),
    ];
    let taken = |advice| {
        places.map(|(kind, id)| {
            let location = location(kind, id);
            call!(sim, cuMemAdvise_v2(managed, BYTES, CUmem_advise(advice), location)).is_ok()
        })
    };
    assert_eq!([1, 2, 4].map(taken), [[true, true, true, true, false]; 3]);
    assert_eq!(taken(3), [false, true, false, true, false]);
    assert_eq!([5, 6].map(taken), [[false; 5]; 2]);
    assert!(sim.violations().is_empty());
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

fn ask(sim: &Sim, attribute: c_uint, from: CUdeviceptr, count: usize) -> Asked<c_int> {
    let mut value: c_int = 99;
    let (to, attribute) = ((&raw mut value).cast(), CUmem_range_attribute(attribute));
    call!(sim, cuMemRangeGetAttribute(to, 4, attribute, from, count)).map(|()| value)
}

#[test]
fn a_range_tells_what_all_of_its_pages_were_advised() {
    let (sim, _) = sim_with_context();
    let managed: CUdeviceptr = get!(sim, cuMemAllocManaged(out, 4 * BYTES, 1)).unwrap();
    let half = managed + 2 * BYTES as CUdeviceptr;
    let advise = |address, count, advice, kind| {
        let location = location(kind, 0);
        call!(sim, cuMemAdvise_v2(address, count, CUmem_advise(advice), location)).unwrap();
    };
    assert_eq!(ask(&sim, 1, managed, 4 * BYTES), Ok(0));
    assert_eq!(ask(&sim, 2, managed, 4 * BYTES), Ok(CU_DEVICE_INVALID));
    advise(managed, 2 * BYTES, 1, HERE);
    advise(half, 1, 3, HERE);
    assert_eq!(ask(&sim, 1, managed, 2 * BYTES), Ok(1));
    assert_eq!(ask(&sim, 1, managed, 2 * BYTES + 1), Ok(0));
    assert_eq!(ask(&sim, 2, half, BYTES), Ok(0));
    assert_eq!((ask(&sim, 5, half, BYTES), ask(&sim, 6, half, BYTES)), (Ok(1), Ok(0)));
    assert_eq!(ask(&sim, 5, half, BYTES + 1), Ok(0));
    advise(managed, 4 * BYTES, 3, CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST);
    assert_eq!(ask(&sim, 2, managed, 4 * BYTES), Ok(CU_DEVICE_CPU));
    advise(managed, 4 * BYTES, 4, HERE);
    assert_eq!(ask(&sim, 2, managed, 4 * BYTES), Ok(CU_DEVICE_INVALID));
    assert!(sim.violations().is_empty());
}

#[test]
fn a_range_tells_where_a_stream_has_sent_it() {
    let (sim, _) = sim_with_context();
    let managed: CUdeviceptr = get!(sim, cuMemAllocManaged(out, BYTES, 1)).unwrap();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    call!(sim, cuMemPrefetchAsync(managed, BYTES, 0, stream)).unwrap();
    assert_eq!(ask(&sim, 4, managed, BYTES), Ok(CU_DEVICE_INVALID));
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(ask(&sim, 4, managed, BYTES), Ok(0));
    assert_eq!((ask(&sim, 7, managed, BYTES), ask(&sim, 8, managed, BYTES)), (Ok(1), Ok(0)));
}

#[test]
fn a_range_s_answers_have_their_size_and_are_written_all_or_none() {
    let (sim, _) = sim_with_context();
    let managed: CUdeviceptr = get!(sim, cuMemAllocManaged(out, BYTES, 1)).unwrap();
    let owned: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, BYTES)).unwrap();
    for device in [CU_DEVICE_CPU, 0] {
        call!(sim, cuMemAdvise(managed, BYTES, CUmem_advise(5), device)).unwrap();
    }
    let asks = |attributes: [c_uint; 2], mut sizes: [usize; 2]| {
        let (mut one, mut all) = ([9_i32; 1], [9_i32; 3]);
        let mut data: [*mut c_void; 2] = [one.as_mut_ptr().cast(), all.as_mut_ptr().cast()];
        let mut attributes = attributes.map(CUmem_range_attribute);
        let (to, sizes, of) = (data.as_mut_ptr(), sizes.as_mut_ptr(), attributes.as_mut_ptr());
        let asked = call!(sim, cuMemRangeGetAttributes(to, sizes, of, 2, managed, BYTES));
        (asked, one, all)
    };
    assert_eq!(asks([1, 3], [4, 12]), (Ok(()), [0], [0, CU_DEVICE_CPU, CU_DEVICE_INVALID]));
    assert_eq!(asks([1, 3], [4, 4]), (Ok(()), [0], [0, 9, 9]));
    assert_eq!(asks([1, 3], [4, 6]), (BAD, [9], [9; 3]));
    assert_eq!(asks([1, 99], [4, 4]), (BAD, [9], [9; 3]));
    assert_eq!(ask(&sim, 0, managed, BYTES), Err(CUresult::INVALID_VALUE));
    assert_eq!(ask(&sim, 1, owned, BYTES), Err(CUresult::INVALID_VALUE));
    assert!(sim.violations().is_empty());
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    assert_eq!(ask(&sim, 1, managed, BYTES), Err(CUresult::INVALID_CONTEXT));
}
