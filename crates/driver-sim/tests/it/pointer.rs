//! What pointers are asked.

use cuhold_driver_sim::{
    Sim, ViolationKind,
    cuhold_driver_sys::{
        DriverApi as _,
        ffi::{CUpointer_attribute as Attribute, *},
    },
};

use crate::{
    ask::{Asked, call, get, sim_with_context},
    page_locked::host_alloc,
};

/// An attribute of at most 8 bytes, the rest zeros.
fn ask(sim: &Sim, attribute: Attribute, address: CUdeviceptr) -> Asked<u64> {
    let mut value = 0_u64;
    call!(sim, cuPointerGetAttribute((&raw mut value).cast(), attribute, address)).map(|()| value)
}

#[test]
fn device_memory_says_whose_it_is_and_where_it_lies() {
    let (sim, ctx) = sim_with_context();
    let base: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
    let at = base + 5;
    let device = u64::from(CUmemorytype::CU_MEMORYTYPE_DEVICE.0);
    for (attribute, expected) in [
        (Attribute::CU_POINTER_ATTRIBUTE_CONTEXT, Ok(ctx.addr() as u64)),
        (Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Ok(device)),
        (Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, Ok(at)),
        (Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER, Err(CUresult::INVALID_VALUE)),
        (Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, Ok(base)),
        (Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE, Ok(64)),
        (Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, Ok(0)),
        (Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, Ok(0)),
        (Attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, Ok(1)),
        (Attribute::CU_POINTER_ATTRIBUTE_MAPPED, Ok(1)),
        (Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, Ok(0)),
        (Attribute::CU_POINTER_ATTRIBUTE_P2P_TOKENS, Err(CUresult::MISSING)),
        (Attribute(0), Err(CUresult::INVALID_VALUE)),
        (Attribute(999), Err(CUresult::INVALID_VALUE)),
    ] {
        assert_eq!(ask(&sim, attribute, at), expected, "{attribute:?}");
    }
}

#[test]
fn host_and_pool_memory_say_what_they_are() {
    let (sim, _) = sim_with_context();
    let pinned = host_alloc(&sim, 64, 0).unwrap().addr() as u64;
    let host = u64::from(CUmemorytype::CU_MEMORYTYPE_HOST.0);
    assert_eq!(ask(&sim, Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned), Ok(host));
    assert_eq!(ask(&sim, Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER, pinned + 1), Ok(pinned + 1));
    let pool: CUmemoryPool = get!(sim, cuDeviceGetDefaultMemPool(out, 0)).unwrap();
    let pooled: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, CUstream::NULL)).unwrap();
    let handle = ask(&sim, Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pooled);
    assert_eq!(handle, Ok(pool.addr() as u64));
    let managed: CUdeviceptr = get!(sim, cuMemAllocManaged(out, 64, 1)).unwrap();
    assert_eq!(ask(&sim, Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, managed), Ok(1));
}

#[test]
fn buffer_ids_are_never_used_twice() {
    let (sim, _) = sim_with_context();
    let id = || {
        let base: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
        let id = ask(&sim, Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID, base).unwrap();
        call!(sim, cuMemFree_v2(base)).unwrap();
        id
    };
    assert_ne!(id(), id());
}

#[test]
fn an_unknown_pointer_is_refused_alone_and_answered_with_nothing_in_a_list() {
    let (sim, _) = sim_with_context();
    let local = 0_u8;
    let address = (&raw const local).addr() as u64;
    let kind = Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    assert_eq!(ask(&sim, kind, address), Err(CUresult::INVALID_VALUE));
    let (mut memory_type, mut base) = (77_u32, 77_u64);
    let mut attributes = [kind, Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR];
    let mut places = [(&raw mut memory_type).cast(), (&raw mut base).cast()];
    let mut list = |address| {
        call!(sim, cuPointerGetAttributes(2, attributes.as_mut_ptr(), places.as_mut_ptr(), address))
    };
    list(address).unwrap();
    let known: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
    assert_eq!((memory_type, base), (0, 0));
    list(known + 3).unwrap();
    assert_eq!((memory_type, base), (CUmemorytype::CU_MEMORYTYPE_DEVICE.0, known));
    let null = core::ptr::null_mut();
    let refused = call!(sim, cuPointerGetAttributes(1, null, null.cast(), known));
    assert_eq!(refused, Err(CUresult::INVALID_VALUE));
    assert!(sim.violations().is_empty());
}

#[test]
fn asking_about_memory_whose_free_was_enqueued_is_a_violation() {
    let (sim, _) = sim_with_context();
    let base: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, CUstream::NULL)).unwrap();
    call!(sim, cuMemFreeAsync(base, CUstream::NULL)).unwrap();
    let asked = ask(&sim, Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base);
    assert_eq!(asked, Err(CUresult::INVALID_VALUE));
    assert_eq!(sim.violations()[0].kind, ViolationKind::UseAfterDestroy);
}

#[test]
fn only_synchronous_memory_operations_can_be_set() {
    let (sim, _) = sim_with_context();
    let base: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
    let on = 1_u32;
    let set = |attribute, address| {
        call!(sim, cuPointerSetAttribute((&raw const on).cast(), attribute, address))
    };
    let sync = Attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    assert_eq!(ask(&sim, sync, base), Ok(0));
    set(sync, base + 1).unwrap();
    assert_eq!(ask(&sim, sync, base), Ok(1));
    let fixed = Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    assert_eq!(set(fixed, base), Err(CUresult::INVALID_VALUE));
    assert_eq!(set(sync, 64), Err(CUresult::INVALID_VALUE));
}
