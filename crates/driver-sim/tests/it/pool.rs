//! Pools and stream-ordered memory.

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{
        DriverApi as _,
        ffi::{CUmemPool_attribute as Attribute, *},
    },
};

use crate::ask::{Asked, call, get, sim, sim_with_context};

const CHUNK: u64 = 32 << 20;

fn properties(kind: CUmemLocationType, id: c_int) -> CUmemPoolProps {
    CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        location: location(kind, id),
        ..CUmemPoolProps::default()
    }
}

fn location(kind: CUmemLocationType, id: c_int) -> CUmemLocation {
    let mut location = CUmemLocation { type_: kind, ..CUmemLocation::default() };
    location.__bindgen_anon_1.id = id;
    location
}

const DEVICE: CUmemLocationType = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;

fn create(sim: &Sim, properties: CUmemPoolProps) -> Asked<CUmemoryPool> {
    get!(sim, cuMemPoolCreate(out, &raw const properties))
}

fn pool(sim: &Sim) -> CUmemoryPool {
    create(sim, properties(DEVICE, 0)).unwrap()
}

fn counter(sim: &Sim, pool: CUmemoryPool, attribute: Attribute) -> u64 {
    let mut value = 0_u64;
    call!(sim, cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast())).unwrap();
    value
}

/// Used, reserved, and the highest of both.
fn counters(sim: &Sim, pool: CUmemoryPool) -> [u64; 4] {
    [
        Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
        Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH,
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
    ]
    .map(|attribute| counter(sim, pool, attribute))
}

fn set(sim: &Sim, pool: CUmemoryPool, attribute: Attribute, mut value: u64) -> Asked<()> {
    call!(sim, cuMemPoolSetAttribute(pool, attribute, (&raw mut value).cast()))
}

fn from_pool(sim: &Sim, size: usize, pool: CUmemoryPool, stream: CUstream) -> Asked<CUdeviceptr> {
    get!(sim, cuMemAllocFromPoolAsync(out, size, pool, stream))
}

fn stream(sim: &Sim) -> CUstream {
    get!(sim, cuStreamCreate(out, 1)).unwrap()
}

fn kinds(sim: &Sim) -> Vec<ViolationKind> {
    sim.take_violations().into_iter().map(|violation| violation.kind).collect()
}

#[test]
fn the_counters_of_a_pool_move_as_they_were_measured() {
    let (sim, _) = sim_with_context();
    let (pool, stream) = (pool(&sim), stream(&sim));
    assert_eq!(counters(&sim, pool), [0, 0, 0, 0]);
    let address = from_pool(&sim, 1000, pool, stream).unwrap();
    assert_eq!(counters(&sim, pool), [1000, CHUNK, 1000, CHUNK]);
    call!(sim, cuMemsetD8Async(address, 0, 1000, stream)).unwrap();
    call!(sim, cuMemFreeAsync(address, stream)).unwrap();
    assert_eq!(counters(&sim, pool), [0, CHUNK, 1000, CHUNK]);
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(counters(&sim, pool), [0, 0, 1000, CHUNK]);
    call!(sim, cuMemPoolTrimTo(pool, 0)).unwrap();
    assert_eq!(counters(&sim, pool), [0, 0, 1000, CHUNK]);
    set(&sim, pool, Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0).unwrap();
    assert_eq!(counters(&sim, pool), [0, 0, 0, CHUNK]);
    for (attribute, value) in [
        (Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 5),
        (Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0),
        (Attribute(99), 0),
    ] {
        assert_eq!(set(&sim, pool, attribute, value), Err(CUresult::INVALID_VALUE));
    }
    assert!(sim.violations().is_empty());
}

#[test]
fn a_threshold_keeps_what_trimming_gives_back() {
    let (sim, _) = sim_with_context();
    let (pool, stream) = (pool(&sim), stream(&sim));
    set(&sim, pool, Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX).unwrap();
    let address = from_pool(&sim, 1 << 20, pool, stream).unwrap();
    call!(sim, cuMemFreeAsync(address, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(counters(&sim, pool)[1], CHUNK);
    call!(sim, cuMemPoolTrimTo(pool, 0)).unwrap();
    assert_eq!(counters(&sim, pool)[1], 0);
    assert_eq!(call!(sim, cuMemPoolTrimTo(CUmemoryPool::NULL, 0)), Err(CUresult::INVALID_VALUE));
}

#[test]
fn an_allocation_of_nothing_is_a_success_and_null() {
    let (sim, _) = sim_with_context();
    let (pool, stream) = (pool(&sim), stream(&sim));
    assert_eq!(from_pool(&sim, 0, pool, stream), Ok(0));
    assert_eq!(get!(sim, cuMemAllocAsync(out, 0, stream)), Ok(0));
    call!(sim, cuMemFreeAsync(0, stream)).unwrap();
    assert_eq!(counters(&sim, pool), [0; 4]);
}

#[test]
fn a_pool_stays_within_its_limit_and_its_device() {
    let (sim, _) = sim_with_context();
    let stream = stream(&sim);
    let capped =
        create(&sim, CUmemPoolProps { maxSize: 32 << 20, ..properties(DEVICE, 0) }).unwrap();
    from_pool(&sim, 32 << 20, capped, stream).unwrap();
    assert_eq!(from_pool(&sim, 1, capped, stream), Err(CUresult::OUT_OF_MEMORY));
    let whole: Asked<CUdeviceptr> = get!(sim, cuMemAllocAsync(out, 1 << 40, stream));
    assert_eq!(whole, Err(CUresult::OUT_OF_MEMORY));
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    let small: Asked<CUdeviceptr> = get!(sim, cuMemAllocAsync(out, 1, stream));
    assert!(small.is_ok());
}

#[test]
fn stream_ordered_calls_on_a_created_stream_need_no_context() {
    let (sim, _) = sim_with_context();
    let stream = stream(&sim);
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    let pool = pool(&sim);
    let address = from_pool(&sim, 64, pool, stream).unwrap();
    call!(sim, cuMemFreeAsync(address, stream)).unwrap();
    for address in [address, 1234] {
        let freed = call!(sim, cuMemFreeAsync(address, CUstream::NULL));
        assert_eq!(freed, Err(CUresult::INVALID_CONTEXT));
    }
    call!(sim, cuMemPoolDestroy(pool)).unwrap();
    assert!(sim.violations().is_empty());
}

#[test]
fn memory_is_freed_once_whichever_call_does_it() {
    let (sim, _) = sim_with_context();
    let stream = stream(&sim);
    let get = || -> CUdeviceptr { get!(sim, cuMemAllocAsync(out, 100, stream)).unwrap() };
    let pooled = get();
    call!(sim, cuMemFree_v2(pooled)).unwrap();
    assert_eq!(call!(sim, cuMemFreeAsync(pooled, stream)), Err(CUresult::INVALID_VALUE));
    let pooled = get();
    call!(sim, cuMemFreeAsync(pooled, stream)).unwrap();
    assert_eq!(call!(sim, cuMemFreeAsync(pooled, stream)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuMemFree_v2(pooled)), Err(CUresult::INVALID_VALUE));
    let owned: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 100)).unwrap();
    call!(sim, cuMemFreeAsync(owned, stream)).unwrap();
    call!(sim, cuCtxSynchronize()).unwrap();
    assert_eq!(call!(sim, cuMemFree_v2(owned)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::DoubleDestroy; 4]);
    assert_eq!(sim.live(ObjectKind::DeviceMemory), 0);
}

#[test]
fn a_free_happens_in_its_stream_s_order() {
    let (sim, _) = sim_with_context();
    let (s, t) = (stream(&sim), stream(&sim));
    let address: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, s)).unwrap();
    call!(sim, cuMemsetD8Async(address, 1, 64, s)).unwrap();
    call!(sim, cuMemsetD8Async(address, 2, 64, t)).unwrap();
    call!(sim, cuMemFreeAsync(address, s)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert!(sim.violations().is_empty());
    call!(sim, cuStreamSynchronize(t)).unwrap();
    assert_eq!(kinds(&sim), [ViolationKind::UseAfterDestroy]);
}

#[test]
fn after_a_free_was_enqueued_new_work_may_not_name_the_memory() {
    let (sim, _) = sim_with_context();
    let stream = stream(&sim);
    let address: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, stream)).unwrap();
    call!(sim, cuMemFreeAsync(address, stream)).unwrap();
    let used = call!(sim, cuMemsetD8Async(address, 1, 64, stream));
    assert_eq!(used, Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::UseAfterDestroy]);
}

#[test]
fn a_destroyed_pool_s_memory_lives_until_it_is_freed() {
    let (sim, _) = sim_with_context();
    let (pool, stream) = (pool(&sim), stream(&sim));
    let address = from_pool(&sim, 64, pool, stream).unwrap();
    call!(sim, cuMemPoolDestroy(pool)).unwrap();
    assert_eq!(from_pool(&sim, 64, pool, stream), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::UseAfterDestroy]);
    call!(sim, cuMemsetD8Async(address, 1, 64, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    call!(sim, cuMemFreeAsync(address, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(call!(sim, cuMemPoolDestroy(pool)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::DoubleDestroy]);
    let mut total = 0;
    let free: usize = get!(sim, cuMemGetInfo_v2(out, &raw mut total)).unwrap();
    assert_eq!(free, total);
}

#[test]
fn pool_memory_outlives_the_context_it_was_allocated_in() {
    let (sim, _) = sim_with_context();
    let ctx: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    let address: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, CUstream::NULL)).unwrap();
    call!(sim, cuCtxDestroy_v2(ctx)).unwrap();
    call!(sim, cuMemFreeAsync(address, CUstream::NULL)).unwrap();
    assert!(sim.violations().is_empty());
}

#[test]
fn a_device_has_a_default_pool_that_comes_back_when_the_current_one_ends() {
    let sim = sim();
    let default: CUmemoryPool = get!(sim, cuDeviceGetDefaultMemPool(out, 0)).unwrap();
    let current = || -> CUmemoryPool { get!(sim, cuDeviceGetMemPool(out, 0)).unwrap() };
    assert_eq!(current(), default);
    assert_eq!(counter(&sim, default, Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
    assert_eq!(call!(sim, cuMemPoolDestroy(default)), Err(CUresult::INVALID_VALUE));
    let own = pool(&sim);
    call!(sim, cuDeviceSetMemPool(0, own)).unwrap();
    assert_eq!(current(), own);
    call!(sim, cuMemPoolDestroy(own)).unwrap();
    assert_eq!(current(), default);
    assert_eq!(sim.live(ObjectKind::Pool), 0);
    let missing: Asked<CUmemoryPool> = get!(sim, cuDeviceGetDefaultMemPool(out, 1));
    assert_eq!(missing, Err(CUresult::INVALID_DEVICE));
    let missing: Asked<CUmemoryPool> = get!(sim, cuDeviceGetMemPool(out, 1));
    assert_eq!(missing, Err(CUresult::INVALID_VALUE));
    let host = create(&sim, properties(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0)).unwrap();
    assert_eq!(call!(sim, cuDeviceSetMemPool(0, host)), Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_location_s_pools_are_its_device_s() {
    let sim = sim();
    let pinned = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    let default: CUmemoryPool = get!(sim, cuDeviceGetDefaultMemPool(out, 0)).unwrap();
    let (mut here, mut nowhere) = (location(DEVICE, 0), location(DEVICE, 9));
    let (here, nowhere) = (&raw mut here, &raw mut nowhere);
    let asked: Asked<CUmemoryPool> = get!(sim, cuMemGetDefaultMemPool(out, here, pinned));
    assert_eq!(asked, Ok(default));
    let own = pool(&sim);
    call!(sim, cuMemSetMemPool(here, pinned, own)).unwrap();
    let current: Asked<CUmemoryPool> = get!(sim, cuMemGetMemPool(out, here, pinned));
    assert_eq!(current, Ok(own));
    assert_eq!(get!(sim, cuDeviceGetMemPool(out, 0)), Ok(own));
    let none: Asked<CUmemoryPool> = get!(sim, cuMemGetDefaultMemPool(out, nowhere, pinned));
    assert_eq!(none, Err(CUresult::INVALID_VALUE));
    let none: Asked<CUmemoryPool> = get!(sim, cuMemGetMemPool(out, nowhere, pinned));
    assert_eq!(none, Err(CUresult::INVALID_VALUE));
    let null = call!(sim, cuMemSetMemPool(here, pinned, CUmemoryPool::NULL));
    assert_eq!(null, Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_pool_is_made_for_a_place_that_exists() {
    let sim = sim();
    create(&sim, properties(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0)).unwrap();
    let exportable = CUmemPoolProps {
        handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        ..properties(DEVICE, 0)
    };
    create(&sim, exportable).unwrap();
    let mut reserved = properties(DEVICE, 0);
    reserved.reserved[52] = 1;
    for bad in [
        properties(DEVICE, 9),
        properties(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0),
        CUmemPoolProps { allocType: CUmemAllocationType(0), ..properties(DEVICE, 0) },
        CUmemPoolProps { handleTypes: CUmemAllocationHandleType(64), ..properties(DEVICE, 0) },
        reserved,
    ] {
        assert_eq!(create(&sim, bad), Err(CUresult::INVALID_VALUE));
    }
}

#[test]
fn the_467th_pool_without_a_limit_is_refused_on_a_device_of_the_measured_size() {
    let mut options = SimOptions::default();
    options.devices[0].memory_bytes = 143_156 << 20;
    let sim = Sim::with_options(options);
    call!(sim, cuInit(0)).unwrap();
    let pools: Vec<_> = (0..466).map(|_| pool(&sim)).collect();
    let refused = Err(CUresult::OUT_OF_MEMORY);
    assert_eq!(create(&sim, properties(DEVICE, 0)), refused);
    create(&sim, CUmemPoolProps { maxSize: 1 << 20, ..properties(DEVICE, 0) }).unwrap();
    // A destroyed pool's addresses are taken until the last of its memory is freed.
    let ctx: CUcontext = get!(sim, cuDevicePrimaryCtxRetain(out, 0)).unwrap();
    call!(sim, cuCtxSetCurrent(ctx)).unwrap();
    let stream = stream(&sim);
    let address = from_pool(&sim, 64, pools[7], stream).unwrap();
    call!(sim, cuMemPoolDestroy(pools[7])).unwrap();
    call!(sim, cuMemFreeAsync(address, stream)).unwrap();
    assert_eq!(create(&sim, properties(DEVICE, 0)), refused);
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    create(&sim, properties(DEVICE, 0)).unwrap();
}

fn access(sim: &Sim, pool: CUmemoryPool, device: c_int) -> Asked<CUmemAccess_flags> {
    let mut place = location(DEVICE, device);
    let mut flags = CUmemAccess_flags(77);
    call!(sim, cuMemPoolGetAccess(&raw mut flags, pool, &raw mut place)).map(|()| flags)
}

#[test]
fn access_is_granted_by_a_whole_list_or_not_at_all() {
    let sim = Sim::with_options(SimOptions::with_devices(2));
    call!(sim, cuInit(0)).unwrap();
    let pool = pool(&sim);
    let entry = |device, flags| CUmemAccessDesc {
        location: location(DEVICE, device),
        flags: CUmemAccess_flags(flags),
    };
    let set =
        |list: &[CUmemAccessDesc]| call!(sim, cuMemPoolSetAccess(pool, list.as_ptr(), list.len()));
    let (none, read, write) = (0, 1, 3);
    for (bad, status) in [
        (entry(0, none), CUresult::INVALID_DEVICE),
        (entry(0, read), CUresult::NOT_SUPPORTED),
        (entry(9, write), CUresult::INVALID_DEVICE),
    ] {
        assert_eq!(set(&[entry(1, write), bad]), Err(status));
        assert_eq!(access(&sim, pool, 1), Ok(CUmemAccess_flags(none)));
    }
    set(&[entry(0, write), entry(1, write)]).unwrap();
    set(&[]).unwrap();
    assert_eq!(access(&sim, pool, 1), Ok(CUmemAccess_flags(write)));
    assert_eq!(access(&sim, pool, 0), Ok(CUmemAccess_flags(write)));
    set(&[entry(1, none)]).unwrap();
    assert_eq!(access(&sim, pool, 1), Ok(CUmemAccess_flags(none)));
    assert_eq!(access(&sim, pool, 9), Err(CUresult::INVALID_VALUE));
    let nothing = call!(sim, cuMemPoolSetAccess(pool, core::ptr::null(), 0));
    assert_eq!(nothing, Err(CUresult::INVALID_VALUE));
}

#[test]
fn on_a_captured_stream_an_allocation_is_the_graph_s() {
    let (sim, _) = sim_with_context();
    let (s, t) = (stream(&sim), stream(&sim));
    let before: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, s)).unwrap();
    call!(sim, cuStreamBeginCapture_v2(s, CUstreamCaptureMode(2))).unwrap();
    assert_eq!(call!(sim, cuMemFreeAsync(before, s)), Err(CUresult::INVALID_VALUE));
    let kept: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, s)).unwrap();
    let freed: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, s)).unwrap();
    call!(sim, cuMemsetD8Async(kept, 0, 64, s)).unwrap();
    call!(sim, cuMemFreeAsync(freed, s)).unwrap();
    assert_eq!(call!(sim, cuMemFree_v2(kept)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuMemsetD8Async(kept, 0, 64, t)), Err(CUresult::INVALID_VALUE));
    let graph: CUgraph = get!(sim, cuStreamEndCapture(s, out)).unwrap();
    let mut count = 0;
    call!(sim, cuGraphGetNodes(graph, core::ptr::null_mut(), &raw mut count)).unwrap();
    assert_eq!(count, 4);
    assert_eq!(call!(sim, cuMemFreeAsync(kept, s)), Err(CUresult::INVALID_VALUE));
    call!(sim, cuGraphDestroy(graph)).unwrap();
    assert!(sim.take_violations().is_empty());
    call!(sim, cuMemFreeAsync(before, s)).unwrap();
    assert_eq!(sim.live(ObjectKind::DeviceMemory), 0);
}

#[test]
fn beside_a_capture_pools_are_unsafe_to_use_and_harmless_to_look_up() {
    let (sim, _) = sim_with_context();
    let (s, t) = (stream(&sim), stream(&sim));
    let default: CUmemoryPool = get!(sim, cuDeviceGetDefaultMemPool(out, 0)).unwrap();
    let address: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, t)).unwrap();
    let mut value = 0_u64;
    let value = (&raw mut value).cast();
    let threshold = Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let calls: [&dyn Fn() -> Asked<()>; 8] = [
        &|| create(&sim, properties(DEVICE, 0)).map(|_| ()),
        &|| call!(sim, cuMemPoolDestroy(default)),
        &|| call!(sim, cuMemPoolGetAttribute(default, threshold, value)),
        &|| call!(sim, cuMemPoolSetAttribute(default, threshold, value)),
        &|| call!(sim, cuMemPoolTrimTo(default, 0)),
        &|| call!(sim, cuMemPoolSetAccess(default, core::ptr::null(), 0)),
        &|| get!(sim, cuMemAllocAsync(out, 64, t)).map(|_: CUdeviceptr| ()),
        &|| call!(sim, cuMemFreeAsync(address, t)),
    ];
    for make in calls {
        call!(sim, cuStreamBeginCapture_v2(s, CUstreamCaptureMode(0))).unwrap();
        let _: CUmemoryPool = get!(sim, cuDeviceGetMemPool(out, 0)).unwrap();
        assert_eq!(make(), Err(CUresult::STREAM_CAPTURE_UNSUPPORTED));
        let ended: Asked<CUgraph> = get!(sim, cuStreamEndCapture(s, out));
        assert_eq!(ended, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
    }
    assert!(sim.violations().is_empty());
}

#[test]
fn host_pools_give_memory_that_the_host_may_follow() {
    let (sim, _) = sim_with_context();
    let stream = stream(&sim);
    let pool = create(&sim, properties(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0)).unwrap();
    let address = from_pool(&sim, 4, pool, stream).unwrap();
    let fill = || call!(sim, cuMemsetD8Async(address, 9, 4, stream));
    // The device reaches it once it was said that it may (measured).
    assert_eq!(fill(), Err(CUresult::INVALID_VALUE));
    let access = CUmemAccessDesc {
        location: location(DEVICE, 0),
        flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    call!(sim, cuMemPoolSetAccess(pool, &raw const access, 1)).unwrap();
    fill().unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    let on_host: *const [u8; 4] = core::ptr::with_exposed_provenance(address.try_into().unwrap());
    // SAFETY: 4 bytes of host memory, and the fill was waited for.
    assert_eq!(unsafe { on_host.read() }, [9; 4]);
    call!(sim, cuMemFreeAsync(address, stream)).unwrap();
}

#[test]
fn each_device_has_its_own_memory() {
    let mut options = SimOptions::with_devices(2);
    options.devices[1].memory_bytes = 64 << 20;
    let sim = Sim::with_options(options);
    call!(sim, cuInit(0)).unwrap();
    let small: CUcontext = get!(sim, cuDevicePrimaryCtxRetain(out, 1)).unwrap();
    call!(sim, cuCtxSetCurrent(small)).unwrap();
    let stream = stream(&sim);
    let big: Asked<CUdeviceptr> = get!(sim, cuMemAllocAsync(out, 128 << 20, stream));
    assert_eq!(big, Err(CUresult::OUT_OF_MEMORY));
    let from_the_other = pool(&sim);
    from_pool(&sim, 128 << 20, from_the_other, stream).unwrap();
}

const PINNED: CUmemAllocationType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
const MANAGED: CUmemAllocationType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED;
const HOST: CUmemLocationType = CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST;
const NOWHERE: CUmemLocationType = CUmemLocationType::CU_MEM_LOCATION_TYPE_NONE;

#[test]
fn a_pool_of_managed_memory_has_no_limit_no_use_and_no_handle() {
    let (sim, _) = sim_with_context();
    let good = CUmemPoolProps { allocType: MANAGED, ..properties(NOWHERE, 0) };
    let pool = create(&sim, good).unwrap();
    let handle = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    for bad in [
        CUmemPoolProps { maxSize: 1 << 20, ..good },
        CUmemPoolProps { usage: 1, ..good },
        CUmemPoolProps { handleTypes: handle, ..good },
        properties(NOWHERE, 0),
    ] {
        assert_eq!(create(&sim, bad), Err(CUresult::INVALID_VALUE));
    }
    let stream = stream(&sim);
    let address = from_pool(&sim, 1000, pool, stream).unwrap();
    let mut is_managed = false;
    let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED;
    let to = (&raw mut is_managed).cast();
    call!(sim, cuPointerGetAttribute(to, attribute, address)).unwrap();
    assert!(is_managed);
    call!(sim, cuMemPrefetchAsync_v2(address, 1000, location(DEVICE, 0), 0, stream)).unwrap();
    call!(sim, cuMemFreeAsync(address, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    call!(sim, cuMemPoolDestroy(pool)).unwrap();
    assert!(sim.violations().is_empty());
}

#[test]
fn each_place_has_a_default_and_a_current_pool() {
    let (sim, _) = sim_with_context();
    for (kind, place) in [(PINNED, HOST), (MANAGED, HOST), (MANAGED, DEVICE), (MANAGED, NOWHERE)] {
        let mut place = location(place, 0);
        let default = get!(sim, cuMemGetDefaultMemPool(out, &raw mut place, kind)).unwrap();
        assert_eq!(get!(sim, cuMemGetMemPool(out, &raw mut place, kind)), Ok(default));
        assert_eq!(call!(sim, cuMemPoolDestroy(default)), Err(CUresult::INVALID_VALUE));
        let props = CUmemPoolProps { allocType: kind, location: place, ..Default::default() };
        let own = create(&sim, props).unwrap();
        call!(sim, cuMemSetMemPool(&raw mut place, kind, own)).unwrap();
        assert_eq!(get!(sim, cuMemGetMemPool(out, &raw mut place, kind)), Ok(own));
        call!(sim, cuMemPoolDestroy(own)).unwrap();
        assert_eq!(get!(sim, cuMemGetMemPool(out, &raw mut place, kind)), Ok(default));
    }
    let (mut host, of_device) = (location(HOST, 0), pool(&sim));
    let wrong = call!(sim, cuMemSetMemPool(&raw mut host, PINNED, of_device));
    assert_eq!(wrong, Err(CUresult::INVALID_VALUE));
    let mut nowhere = location(NOWHERE, 0);
    let pinned = get!(sim, cuMemGetMemPool(out, &raw mut nowhere, PINNED));
    assert_eq!(pinned, Err(CUresult::INVALID_VALUE));
}
