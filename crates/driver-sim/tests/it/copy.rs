//! Copies and fills: what they move, when, and what they refuse.

use cuhold_driver_sim::{
    Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::{
    ask::{Asked, call, context, get, sim_with, sim_with_context},
    page_locked::host_alloc,
};

fn alloc(sim: &Sim, size: usize) -> CUdeviceptr {
    get!(sim, cuMemAlloc_v2(out, size)).unwrap()
}

fn stream(sim: &Sim) -> CUstream {
    get!(sim, cuStreamCreate(out, 1)).unwrap()
}

fn write(sim: &Sim, to: CUdeviceptr, bytes: &[u8]) -> Asked<()> {
    call!(sim, cuMemcpyHtoD_v2(to, bytes.as_ptr().cast(), bytes.len()))
}

fn read(sim: &Sim, from: CUdeviceptr, len: usize) -> Asked<Vec<u8>> {
    let mut bytes = vec![0; len];
    call!(sim, cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), from, len)).map(|()| bytes)
}

fn kinds(sim: &Sim) -> Vec<ViolationKind> {
    sim.take_violations().into_iter().map(|violation| violation.kind).collect()
}

#[test]
fn bytes_go_there_and_back_in_every_blocking_form() {
    let (sim, _) = sim_with_context();
    let (a, b) = (alloc(&sim, 4), alloc(&sim, 4));
    write(&sim, a, &[1, 2, 3, 4]).unwrap();
    call!(sim, cuMemcpyDtoD_v2(b, a, 4)).unwrap();
    assert_eq!(read(&sim, b, 4), Ok(vec![1, 2, 3, 4]));
    let mut local = [0_u8; 2];
    let local_address = local.as_mut_ptr().expose_provenance() as u64;
    call!(sim, cuMemcpy(local_address, b + 1, 2)).unwrap();
    assert_eq!(local, [2, 3]);
    call!(sim, cuMemcpy(a, b + 2, 2)).unwrap();
    assert_eq!(read(&sim, a, 4), Ok(vec![3, 4, 3, 4]));
}

#[test]
fn memory_that_was_never_written_does_not_read_as_zeros() {
    let (sim, _) = sim_with_context();
    let address = alloc(&sim, 4);
    assert_ne!(read(&sim, address, 4), Ok(vec![0; 4]));
}

#[test]
fn blocking_forms_need_a_context_and_queued_ones_on_a_created_stream_do_not() {
    let (sim, _) = sim_with_context();
    let (address, stream) = (alloc(&sim, 4), stream(&sim));
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    assert_eq!(write(&sim, address, &[1]), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(read(&sim, address, 1), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(call!(sim, cuMemcpy(address, address, 1)), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(call!(sim, cuMemcpyDtoD_v2(address, address, 1)), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(call!(sim, cuMemsetD8_v2(address, 1, 1)), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(call!(sim, cuMemsetD32_v2(address, 1, 1)), Err(CUresult::INVALID_CONTEXT));
    let mut byte = 0_u8;
    call!(sim, cuMemsetD8Async(address, 6, 4, stream)).unwrap();
    call!(sim, cuMemcpyDtoHAsync_v2((&raw mut byte).cast(), address, 1, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(byte, 6);
}

#[test]
fn a_range_beyond_its_allocation_is_refused() {
    let (sim, _) = sim_with_context();
    let (a, b) = (alloc(&sim, 16), alloc(&sim, 16));
    let stream = stream(&sim);
    let calls: [&dyn Fn() -> Asked<()>; 7] = [
        &|| call!(sim, cuMemcpyDtoD_v2(a, b, 17)),
        &|| call!(sim, cuMemcpyDtoDAsync_v2(a + 8, b, 9, stream)),
        &|| call!(sim, cuMemcpyAsync(a, b + 15, 2, stream)),
        &|| write(&sim, a + 15, &[0; 2]),
        &|| read(&sim, a, 17).map(|_| ()),
        &|| call!(sim, cuMemsetD8Async(a, 0, 17, stream)),
        &|| call!(sim, cuMemsetD32Async(a, 0, 5, stream)),
    ];
    for make in calls {
        assert_eq!(make(), Err(CUresult::INVALID_VALUE));
        assert_eq!(kinds(&sim), [ViolationKind::OutOfBounds]);
    }
    assert_eq!(sim.pending(), 0);
}

#[test]
fn freed_memory_and_invented_addresses_are_refused() {
    let (sim, _) = sim_with_context();
    let (a, b) = (alloc(&sim, 16), alloc(&sim, 16));
    call!(sim, cuMemFree_v2(b)).unwrap();
    assert_eq!(call!(sim, cuMemcpyDtoD_v2(a, b + 3, 4)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::UseAfterDestroy]);
    assert_eq!(write(&sim, a + (1 << 40), &[1]), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::UnknownHandle]);
}

#[test]
fn null_is_refused_unless_nothing_is_to_be_moved() {
    let (sim, _) = sim_with_context();
    let address = alloc(&sim, 16);
    let null = core::ptr::null_mut();
    assert_eq!(call!(sim, cuMemcpyHtoD_v2(address, null, 1)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuMemcpyDtoH_v2(null, address, 1)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuMemsetD8_v2(0, 0, 1)), Err(CUresult::INVALID_VALUE));
    call!(sim, cuMemcpyHtoD_v2(0, null, 0)).unwrap();
    call!(sim, cuMemcpyDtoH_v2(null, 0, 0)).unwrap();
    call!(sim, cuMemsetD8_v2(0, 0, 0)).unwrap();
    assert!(sim.violations().is_empty());
}

#[test]
fn host_memory_where_the_device_s_is_meant_is_refused() {
    let (sim, _) = sim_with_context();
    let mut local = [0_u8; 4];
    let address = local.as_mut_ptr().expose_provenance() as u64;
    assert_eq!(write(&sim, address, &[1]), Err(CUresult::INVALID_VALUE));
    assert_eq!(read(&sim, address, 1), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuMemsetD8_v2(address, 1, 1)), Err(CUresult::INVALID_VALUE));
    assert!(sim.violations().is_empty());
}

#[test]
fn queued_copies_happen_when_the_stream_is_waited_for() {
    let (sim, _) = sim_with_context();
    let (address, stream) = (alloc(&sim, 4), stream(&sim));
    let pinned: *mut [u8; 4] = host_alloc(&sim, 4, 0).unwrap().cast();
    // SAFETY: 4 bytes of page-locked memory that no work uses yet.
    unsafe { pinned.write([1; 4]) };
    call!(sim, cuMemcpyHtoDAsync_v2(address, pinned.cast(), 4, stream)).unwrap();
    // SAFETY: as above; the queued copy reads it when it runs, on this thread.
    unsafe { pinned.write([2; 4]) };
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, address, 4), Ok(vec![2; 4]));
}

#[test]
fn pageable_memory_is_read_at_the_call_and_written_at_the_end() {
    let (sim, _) = sim_with_context();
    let (address, stream) = (alloc(&sim, 4), stream(&sim));
    let mut source = vec![1_u8; 4];
    call!(sim, cuMemcpyHtoDAsync_v2(address, source.as_ptr().cast(), 4, stream)).unwrap();
    source.fill(2);
    drop(source);
    let mut target = [0_u8; 4];
    let pointer: *mut u8 = target.as_mut_ptr();
    call!(sim, cuMemcpyDtoHAsync_v2(pointer.cast(), address, 4, stream)).unwrap();
    // SAFETY: the copy that writes it hasn't run: work runs on this thread only.
    assert_eq!(unsafe { pointer.read() }, 0);
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    // SAFETY: the array is alive and its copy done.
    assert_eq!(unsafe { pointer.cast::<[u8; 4]>().read() }, [1; 4]);
}

#[test]
fn pageable_memory_is_written_before_the_call_returns_where_that_is_asked_for() {
    let mut options = SimOptions::default();
    options.pageable_copies_wait = true;
    let sim = sim_with(options);
    context(&sim);
    let (address, stream) = (alloc(&sim, 4), stream(&sim));
    let mut target = [0_u8; 4];
    call!(sim, cuMemsetD8Async(address, 3, 4, stream)).unwrap();
    assert_eq!(sim.pending(), 1);
    call!(sim, cuMemcpyDtoHAsync_v2(target.as_mut_ptr().cast(), address, 4, stream)).unwrap();
    assert_eq!((target, sim.pending()), ([3; 4], 0));

    let pinned = host_alloc(&sim, 4, 0).unwrap();
    call!(sim, cuMemcpyDtoHAsync_v2(pinned, address, 4, stream)).unwrap();
    assert_eq!(sim.pending(), 1, "page-locked memory is written when the work is done");
}

#[test]
fn a_copy_between_host_addresses_is_done_when_it_returns() {
    let (sim, _) = sim_with_context();
    let stream = stream(&sim);
    let (from, mut to) = ([1_u8, 2], [0_u8; 2]);
    let source = from.as_ptr().expose_provenance() as u64;
    let target = to.as_mut_ptr().expose_provenance() as u64;
    call!(sim, cuMemcpyAsync(target, source, 2, stream)).unwrap();
    assert_eq!(to, [1, 2]);
}

#[test]
fn a_blocking_fill_returns_before_it_is_done_unless_the_memory_is_the_host_s() {
    let (sim, _) = sim_with_context();
    let address = alloc(&sim, 4);
    call!(sim, cuMemsetD32_v2(address, 0x0403_0201, 1)).unwrap();
    assert_eq!(sim.pending(), 1);
    assert_eq!(read(&sim, address, 4), Ok(vec![1, 2, 3, 4]));
    let pinned = host_alloc(&sim, 4, 0).unwrap();
    call!(sim, cuMemsetD8_v2(pinned.addr() as u64, 1, 4)).unwrap();
    assert_eq!(sim.pending(), 0);
}

#[test]
fn every_fill_writes_its_own_width_and_wants_its_own_alignment() {
    let (sim, _) = sim_with_context();
    let (address, stream) = (alloc(&sim, 16), stream(&sim));
    let fresh = || call!(sim, cuMemsetD8Async(address, 0, 16, stream)).unwrap();
    fresh();
    call!(sim, cuMemsetD16Async(address + 2, 0x0201, 2, stream)).unwrap();
    assert_eq!(sim.pending(), 2);
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, address, 7), Ok(vec![0, 0, 1, 2, 1, 2, 0]));
    fresh();
    call!(sim, cuMemsetD32Async(address + 4, 0x0403_0201, 1, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, address + 3, 6), Ok(vec![0, 1, 2, 3, 4, 0]));
    for (at, d16, d32) in [(1, true, true), (2, false, true)] {
        let odd = call!(sim, cuMemsetD16Async(address + at, 0, 1, stream));
        assert_eq!(odd.is_err(), d16);
        let odd = call!(sim, cuMemsetD32Async(address + at, 0, 1, stream));
        assert_eq!(odd.is_err(), d32);
    }
}

#[test]
fn rows_are_filled_and_what_lies_between_them_is_not() {
    let (sim, _) = sim_with_context();
    let (address, stream) = (alloc(&sim, 24), stream(&sim));
    call!(sim, cuMemsetD8Async(address, 0, 24, stream)).unwrap();
    call!(sim, cuMemsetD2D8Async(address, 8, 1, 2, 3, stream)).unwrap();
    call!(sim, cuMemsetD2D16Async(address + 2, 8, 0x0202, 1, 3, stream)).unwrap();
    call!(sim, cuMemsetD2D32Async(address + 4, 8, 0x0303_0303, 1, 2, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    let full = [1, 1, 2, 2, 3, 3, 3, 3];
    let last = [1, 1, 2, 2, 0, 0, 0, 0];
    assert_eq!(read(&sim, address, 24), Ok([full, full, last].concat()));
    let calls: [&dyn Fn() -> Asked<()>; 3] = [
        &|| call!(sim, cuMemsetD2D8Async(address, 1, 0, 2, 2, stream)),
        &|| call!(sim, cuMemsetD2D16Async(address, 3, 0, 1, 2, stream)),
        &|| call!(sim, cuMemsetD2D32Async(address, 6, 0, 1, 2, stream)),
    ];
    for make in calls {
        assert_eq!(make(), Err(CUresult::INVALID_VALUE));
    }
}

fn rectangle(source: CUdeviceptr, target: *mut u8) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: source,
        srcPitch: 4,
        srcXInBytes: 1,
        srcY: 1,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: target.cast(),
        dstPitch: 3,
        WidthInBytes: 2,
        Height: 2,
        ..CUDA_MEMCPY2D::default()
    }
}

#[test]
fn a_rectangle_is_copied_row_by_row() {
    let (sim, _) = sim_with_context();
    let (address, stream) = (alloc(&sim, 12), stream(&sim));
    write(&sim, address, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]).unwrap();
    let mut target = [0_u8; 6];
    let copy = rectangle(address, target.as_mut_ptr());
    call!(sim, cuMemcpy2DAsync_v2(&raw const copy, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(target, [5, 6, 0, 9, 10, 0]);
    let bad = [
        CUDA_MEMCPY2D { srcPitch: 2, ..copy },
        CUDA_MEMCPY2D { Height: 3, ..copy },
        CUDA_MEMCPY2D { srcMemoryType: CUmemorytype(0), ..copy },
        CUDA_MEMCPY2D { dstPitch: 1 << 40, ..copy },
    ];
    for copy in bad {
        let refused = call!(sim, cuMemcpy2DAsync_v2(&raw const copy, stream));
        assert_eq!(refused, Err(CUresult::INVALID_VALUE));
    }
    let array = CUDA_MEMCPY2D { srcMemoryType: CUmemorytype::CU_MEMORYTYPE_ARRAY, ..copy };
    let null = call!(sim, cuMemcpy2DAsync_v2(&raw const array, stream));
    assert_eq!(null, Err(CUresult::INVALID_VALUE));
    let nothing = CUDA_MEMCPY2D { WidthInBytes: 0, srcDevice: 0, ..copy };
    call!(sim, cuMemcpy2DAsync_v2(&raw const nothing, stream)).unwrap();
}

/// Two slices of two rows of two bytes, from the second byte of each row of the second slice on.
fn boxed(source: *const u8, target: CUdeviceptr) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: source.cast(),
        srcPitch: 3,
        srcHeight: 2,
        srcXInBytes: 1,
        srcZ: 1,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstDevice: target,
        dstPitch: 2,
        dstHeight: 3,
        WidthInBytes: 2,
        Height: 2,
        Depth: 2,
        ..CUDA_MEMCPY3D::default()
    }
}

#[test]
fn a_box_is_copied_slice_by_slice() {
    let (sim, _) = sim_with_context();
    let (address, stream) = (alloc(&sim, 12), stream(&sim));
    call!(sim, cuMemsetD8Async(address, 99, 12, stream)).unwrap();
    let source: Vec<u8> = (0..18).collect();
    let copy = boxed(source.as_ptr(), address);
    call!(sim, cuMemcpy3DAsync_v2(&raw const copy, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, address, 12), Ok(vec![7, 8, 10, 11, 99, 99, 13, 14, 16, 17, 99, 99]));
    let bad = [
        CUDA_MEMCPY3D { srcPitch: 2, ..copy },
        CUDA_MEMCPY3D { dstHeight: 1, ..copy },
        CUDA_MEMCPY3D { Depth: 3, ..copy },
        CUDA_MEMCPY3D { dstMemoryType: CUmemorytype(9), ..copy },
    ];
    for copy in bad {
        let refused = call!(sim, cuMemcpy3DAsync_v2(&raw const copy, stream));
        assert_eq!(refused, Err(CUresult::INVALID_VALUE));
    }
}

/// Two copies of two bytes each, from `from` to `to`.
fn batch(
    sim: &Sim,
    (to, from): (CUdeviceptr, CUdeviceptr),
    order: c_uint,
    indices: &mut [usize],
    stream: CUstream,
) -> Asked<()> {
    let order = CUmemcpySrcAccessOrder(order);
    let attribute = CUmemcpyAttributes { srcAccessOrder: order, ..CUmemcpyAttributes::default() };
    let (mut to, mut from, mut sizes) = ([to, to + 2], [from, from + 2], [2, 2]);
    let mut attributes = [attribute; 4];
    call!(
        sim,
        cuMemcpyBatchAsync_v2(
            to.as_mut_ptr(),
            from.as_mut_ptr(),
            sizes.as_mut_ptr(),
            2,
            attributes.as_mut_ptr(),
            indices.as_mut_ptr(),
            indices.len(),
            stream
        )
    )
}

#[test]
fn several_copies_are_made_all_or_none() {
    let (sim, _) = sim_with_context();
    let (from, to, stream) = (alloc(&sim, 4), alloc(&sim, 4), stream(&sim));
    write(&sim, from, &[1, 2, 3, 4]).unwrap();
    write(&sim, to, &[0; 4]).unwrap();
    let bad = Err(CUresult::INVALID_VALUE);
    assert_eq!(batch(&sim, (to, from), 0, &mut [0], stream), bad);
    assert_eq!(batch(&sim, (to, from), 1, &mut [], stream), bad);
    assert_eq!(batch(&sim, (to, from), 1, &mut [1], stream), bad);
    assert_eq!(batch(&sim, (to, from), 1, &mut [0, 2], stream), bad);
    assert_eq!(batch(&sim, (to, from), 1, &mut [0, 0], stream), bad);
    assert_eq!(batch(&sim, (to, from), 1, &mut [0], CUstream::NULL), bad);
    assert!(sim.violations().is_empty());
    assert_eq!(batch(&sim, (to + 1, from), 1, &mut [0], stream), bad);
    assert_eq!(kinds(&sim), [ViolationKind::OutOfBounds]);
    assert_eq!((sim.pending(), read(&sim, to, 4)), (0, Ok(vec![0; 4])));
    batch(&sim, (to, from), 3, &mut [0, 1], stream).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, to, 4), Ok(vec![1, 2, 3, 4]));
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    assert_eq!(batch(&sim, (to, from), 1, &mut [0], stream), bad);
}

#[test]
fn the_older_form_of_several_copies_does_not_say_which_failed() {
    let (sim, _) = sim_with_context();
    let (mut to, mut from, mut size) = (alloc(&sim, 4), alloc(&sim, 4), 5);
    let order = CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    let mut attribute =
        CUmemcpyAttributes { srcAccessOrder: order, ..CUmemcpyAttributes::default() };
    let (mut index, mut failed) = (0, 7);
    let refused = call!(
        sim,
        cuMemcpyBatchAsync(
            &raw mut to,
            &raw mut from,
            &raw mut size,
            1,
            &raw mut attribute,
            &raw mut index,
            1,
            &raw mut failed,
            stream(&sim)
        )
    );
    assert_eq!((refused, failed), (Err(CUresult::INVALID_VALUE), usize::MAX));
}

#[test]
fn the_blocking_forms_wait_for_memory_that_was_set_to_be_synchronous() {
    let (sim, _) = sim_with_context();
    let (from, to) = (alloc(&sim, 4), alloc(&sim, 4));
    call!(sim, cuMemcpyDtoD_v2(to, from, 4)).unwrap();
    assert_eq!(sim.pending(), 1);
    let sync = CUpointer_attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    let on = 1_u32;
    call!(sim, cuPointerSetAttribute((&raw const on).cast(), sync, to)).unwrap();
    call!(sim, cuMemcpyDtoD_v2(to, from, 4)).unwrap();
    assert_eq!(sim.pending(), 0);
    call!(sim, cuMemsetD8_v2(to, 1, 4)).unwrap();
    assert_eq!(sim.pending(), 0);
}

/// Two devices with their primary contexts, the first one's current.
fn two_devices() -> (Sim, [CUcontext; 2]) {
    let sim = Sim::with_options(SimOptions::with_devices(2));
    call!(sim, cuInit(0)).unwrap();
    let contexts = [0, 1].map(|device| get!(sim, cuDevicePrimaryCtxRetain(out, device)).unwrap());
    call!(sim, cuCtxSetCurrent(contexts[0])).unwrap();
    (sim, contexts)
}

#[test]
fn copies_of_pool_memory_are_refused_while_another_device_is_current() {
    let (sim, contexts) = two_devices();
    let stream = stream(&sim);
    let pooled: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, stream)).unwrap();
    let (owned, pinned) = (alloc(&sim, 64), host_alloc(&sim, 64, 0).unwrap());
    let copies: [&dyn Fn() -> Asked<()>; 7] = [
        &|| call!(sim, cuMemcpyAsync(owned, pooled, 64, stream)),
        &|| call!(sim, cuMemcpyAsync(pooled, owned, 64, stream)),
        &|| call!(sim, cuMemcpyAsync(pooled, pooled, 64, stream)),
        &|| call!(sim, cuMemcpyDtoDAsync_v2(owned, pooled, 64, stream)),
        &|| call!(sim, cuMemcpyHtoDAsync_v2(pooled, pinned, 64, stream)),
        &|| call!(sim, cuMemcpyDtoHAsync_v2(pinned, pooled, 64, stream)),
        &|| {
            let copy = CUDA_MEMCPY2D {
                dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
                dstDevice: pooled,
                ..rectangle(owned, core::ptr::null_mut())
            };
            call!(sim, cuMemcpy2DAsync_v2(&raw const copy, stream))
        },
    ];
    let other: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    for (current, expected) in [
        (contexts[0], Ok(())),
        (CUcontext::NULL, Ok(())),
        (other, Ok(())),
        (contexts[1], Err(CUresult::INVALID_VALUE)),
    ] {
        call!(sim, cuCtxSetCurrent(current)).unwrap();
        for make in copies {
            assert_eq!(make(), expected, "{current:?}");
        }
        call!(sim, cuMemcpyDtoDAsync_v2(owned, owned, 64, stream)).unwrap();
        call!(sim, cuMemsetD8Async(pooled, 0, 64, stream)).unwrap();
    }
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert!(sim.violations().is_empty());
}

#[test]
fn memory_of_two_devices_is_copied_with_both_contexts_named() {
    let (sim, [first, second]) = two_devices();
    let (from, stream) = (alloc(&sim, 4), stream(&sim));
    write(&sim, from, &[5; 4]).unwrap();
    call!(sim, cuCtxSetCurrent(second)).unwrap();
    let to = alloc(&sim, 4);
    call!(sim, cuMemcpyPeerAsync(to, second, from, first, 4, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, to, 4), Ok(vec![5; 4]));
    let null = CUcontext::NULL;
    let refused = call!(sim, cuMemcpyPeerAsync(to, null, from, first, 4, stream));
    assert_eq!(refused, Err(CUresult::INVALID_CONTEXT));
    let refused = call!(sim, cuMemcpyPeerAsync(to, second, from, first, 5, stream));
    assert_eq!(refused, Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_box_is_copied_between_two_devices_with_both_contexts_named() {
    let (sim, [first, second]) = two_devices();
    let (from, stream) = (alloc(&sim, 12), stream(&sim));
    write(&sim, from, &[0, 1, 9, 2, 3, 9, 4, 5, 9, 6, 7, 9]).unwrap();
    call!(sim, cuCtxSetCurrent(second)).unwrap();
    let to = alloc(&sim, 8);
    let copy = CUDA_MEMCPY3D_PEER {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: from,
        srcContext: first,
        srcPitch: 3,
        srcHeight: 2,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstDevice: to,
        dstContext: second,
        dstPitch: 2,
        dstHeight: 2,
        WidthInBytes: 2,
        Height: 2,
        Depth: 2,
        ..CUDA_MEMCPY3D_PEER::default()
    };
    call!(sim, cuMemcpy3DPeerAsync(&raw const copy, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, to, 8), Ok((0..8).collect::<Vec<u8>>()));
    let null = CUcontext::NULL;
    for (bad, answer) in [
        (CUDA_MEMCPY3D_PEER { dstContext: null, ..copy }, CUresult::INVALID_CONTEXT),
        (CUDA_MEMCPY3D_PEER { srcContext: null, ..copy }, CUresult::INVALID_CONTEXT),
        (CUDA_MEMCPY3D_PEER { srcPitch: 1, ..copy }, CUresult::INVALID_VALUE),
        (CUDA_MEMCPY3D_PEER { Depth: 3, ..copy }, CUresult::INVALID_VALUE),
    ] {
        let refused = call!(sim, cuMemcpy3DPeerAsync(&raw const bad, stream));
        assert_eq!(refused, Err(answer));
    }
}

#[test]
fn on_a_captured_stream_a_copy_is_a_node_and_nothing_moves() {
    let (sim, _) = sim_with_context();
    let (address, stream) = (alloc(&sim, 4), stream(&sim));
    write(&sim, address, &[0; 4]).unwrap();
    let source = [1_u8; 4];
    call!(sim, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(0))).unwrap();
    call!(sim, cuMemcpyHtoDAsync_v2(address, source.as_ptr().cast(), 4, stream)).unwrap();
    call!(sim, cuMemsetD8Async(address, 1, 4, stream)).unwrap();
    let refused = call!(sim, cuMemsetD8Async(address, 1, 5, stream));
    assert_eq!(refused, Err(CUresult::INVALID_VALUE));
    let graph: CUgraph = get!(sim, cuStreamEndCapture(stream, out)).unwrap();
    let (mut nodes, mut count) = ([CUgraphNode::NULL; 2], 2);
    call!(sim, cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count)).unwrap();
    let kinds = nodes.map(|node| {
        let mut kind = CUgraphNodeType(0);
        call!(sim, cuGraphNodeGetType(node, &raw mut kind)).map(|()| kind).unwrap()
    });
    assert_eq!(
        kinds,
        [CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY, CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET]
    );
    assert_eq!(read(&sim, address, 4), Ok(vec![0; 4]));
}

#[test]
fn beside_the_capture_of_a_blocking_stream_the_blocking_forms_conflict_with_it() {
    let (sim, _) = sim_with_context();
    let address = alloc(&sim, 4);
    let stream: CUstream = get!(sim, cuStreamCreate(out, 0)).unwrap();
    let calls: [&dyn Fn() -> Asked<()>; 4] = [
        &|| call!(sim, cuMemsetD8_v2(address, 1, 4)),
        &|| read(&sim, address, 4).map(|_| ()),
        &|| write(&sim, address, &[1]),
        &|| call!(sim, cuMemsetD8Async(address, 1, 4, CUstream::NULL)),
    ];
    for make in calls {
        call!(sim, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(2))).unwrap();
        assert_eq!(make(), Err(CUresult::STREAM_CAPTURE_IMPLICIT));
        let ended: Asked<CUgraph> = get!(sim, cuStreamEndCapture(stream, out));
        assert_eq!(ended, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
    }
}

#[test]
fn beside_the_capture_of_a_non_blocking_stream_the_blocking_forms_are_harmless() {
    let (sim, _) = sim_with_context();
    let (address, stream) = (alloc(&sim, 4), stream(&sim));
    call!(sim, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(0))).unwrap();
    write(&sim, address, &[1; 4]).unwrap();
    call!(sim, cuMemsetD8_v2(address, 1, 4)).unwrap();
    read(&sim, address, 4).unwrap();
    let graph: CUgraph = get!(sim, cuStreamEndCapture(stream, out)).unwrap();
    call!(sim, cuGraphDestroy(graph)).unwrap();
}
