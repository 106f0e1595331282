//! Managed memory in batches, and one copy with a batch's attributes.

use cuhold_driver_sim::{
    Sim, SimOptions,
    cuhold_driver_sys::{DriverApi as _, Version, ffi::*},
};

use crate::ask::{Asked, assert_clean, call, get, primary, sim_with, sim_with_context};

const BYTES: usize = 1 << 12;
const BAD: Asked<()> = Err(CUresult::INVALID_VALUE);

fn location(kind: CUmemLocationType, id: c_int) -> CUmemLocation {
    let mut location = CUmemLocation { type_: kind, ..CUmemLocation::default() };
    location.__bindgen_anon_1.id = id;
    location
}

fn here() -> CUmemLocation {
    location(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, 0)
}

fn host() -> CUmemLocation {
    location(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0)
}

/// Two managed allocations and a stream.
fn two(sim: &Sim) -> ([CUdeviceptr; 2], CUstream) {
    let managed = || get!(sim, cuMemAllocManaged(out, BYTES, 1)).unwrap();
    ([managed(), managed()], get!(sim, cuStreamCreate(out, 1)).unwrap())
}

fn last_sent_to(sim: &Sim, from: CUdeviceptr) -> c_int {
    let mut value: c_int = 99;
    let which = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    call!(sim, cuMemRangeGetAttribute((&raw mut value).cast(), 4, which, from, BYTES)).unwrap();
    value
}

fn prefetch<const N: usize>(
    sim: &Sim,
    mut addresses: [CUdeviceptr; 2],
    places: [(CUmemLocation, usize); N],
    stream: CUstream,
) -> Asked<()> {
    let mut sizes = [BYTES; 2];
    let (mut locations, mut indices) = (places.map(|p| p.0), places.map(|p| p.1));
    let (to, bytes) = (addresses.as_mut_ptr(), sizes.as_mut_ptr());
    let (places, from) = (locations.as_mut_ptr(), indices.as_mut_ptr());
    call!(sim, cuMemPrefetchBatchAsync(to, bytes, 2, places, from, N, 0, stream))
}

#[test]
fn each_location_of_a_batch_holds_to_the_next_one_s_index() {
    let (sim, _) = sim_with_context();
    let (memory, stream) = two(&sim);
    prefetch(&sim, memory, [(here(), 0), (host(), 1)], stream).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(memory.map(|from| last_sent_to(&sim, from)), [0, CU_DEVICE_CPU]);
    prefetch(&sim, memory, [(host(), 0)], stream).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(memory.map(|from| last_sent_to(&sim, from)), [CU_DEVICE_CPU; 2]);
    assert_clean(&sim);
}

#[test]
fn a_batch_that_is_wrong_in_one_part_is_refused_as_a_whole() {
    let (sim, _) = sim_with_context();
    let (memory, stream) = two(&sim);
    let owned: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, BYTES)).unwrap();
    assert_eq!(prefetch(&sim, [memory[0], owned], [(here(), 0)], stream), BAD);
    assert_eq!(prefetch(&sim, memory, [(here(), 1)], stream), BAD);
    assert_eq!(prefetch(&sim, memory, [(here(), 0), (host(), 2)], stream), BAD);
    assert_eq!(prefetch(&sim, memory, [(here(), 0), (host(), 0)], stream), BAD);
    assert_eq!(prefetch(&sim, memory, [(here(), 0)], CUstream::NULL), BAD);
    assert_eq!(sim.pending(), 0);
    assert_clean(&sim);
}

#[test]
fn what_is_discarded_loses_its_content_and_is_usable_again() {
    let (sim, _) = sim_with_context();
    let (mut memory, stream) = two(&sim);
    let mut sizes = [BYTES; 2];
    let read = |from| {
        let mut byte = 0_u8;
        call!(sim, cuMemcpyDtoH_v2((&raw mut byte).cast(), from, 1)).unwrap();
        byte
    };
    let (to, bytes) = (memory.as_mut_ptr(), sizes.as_mut_ptr());
    call!(sim, cuMemsetD8Async(memory[0], 7, BYTES, stream)).unwrap();
    call!(sim, cuMemDiscardBatchAsync(to, bytes, 2, 0, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_ne!(read(memory[0]), 7);
    call!(sim, cuMemsetD8Async(memory[1], 7, BYTES, stream)).unwrap();
    let (mut place, mut first) = ([here()], [0]);
    let (places, from) = (place.as_mut_ptr(), first.as_mut_ptr());
    call!(sim, cuMemDiscardAndPrefetchBatchAsync(to, bytes, 2, places, from, 1, 0, stream))
        .unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_ne!(read(memory[1]), 7);
    assert_eq!(last_sent_to(&sim, memory[1]), 0);
    call!(sim, cuMemsetD8Async(memory[1], 9, BYTES, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(memory[1]), 9);
    assert_eq!(call!(sim, cuMemDiscardBatchAsync(to, bytes, 2, 1, stream)), BAD);
    assert_eq!(call!(sim, cuMemDiscardBatchAsync(to, bytes, 0, 0, stream)), BAD);
    assert_clean(&sim);
}

#[test]
fn one_copy_with_attributes_is_of_a_newer_driver_and_has_an_order() {
    let copy = |sim: &Sim, order, to, from, stream| {
        let mut attributes = CUmemcpyAttributes {
            srcAccessOrder: CUmemcpySrcAccessOrder(order),
            ..CUmemcpyAttributes::default()
        };
        let attributes = &raw mut attributes;
        call!(sim, cuMemcpyWithAttributesAsync(to, from, BYTES, attributes, stream))
    };
    let (old, _) = sim_with_context();
    let (memory, stream) = two(&old);
    assert_eq!(copy(&old, 1, memory[0], memory[1], stream), Err(CUresult::MISSING));
    let mut options = SimOptions::default();
    options.driver_version = Version(13_020);
    let sim = sim_with(options);
    call!(sim, cuCtxSetCurrent(primary(&sim, 0))).unwrap();
    let (memory, stream) = two(&sim);
    call!(sim, cuMemsetD8Async(memory[1], 5, BYTES, stream)).unwrap();
    copy(&sim, 1, memory[0], memory[1], stream).unwrap();
    assert_eq!(copy(&sim, 0, memory[0], memory[1], stream), BAD);
    assert_eq!(copy(&sim, 1, memory[0], memory[1], CUstream::NULL), BAD);
    let mut byte = 0_u8;
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    call!(sim, cuMemcpyDtoH_v2((&raw mut byte).cast(), memory[0], 1)).unwrap();
    assert_eq!(byte, 5);
    assert_clean(&sim);
}
