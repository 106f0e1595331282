//! Pools of the host and of managed memory, and the pools that places have by default.

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{
        DriverApi as _,
        ffi::{CUmemAllocationType as Kind, CUmemLocationType as Type, *},
    },
};

use crate::ask::{
    Asked, assert_clean, call, get, kinds, primary, sim_with, sim_with_context, stream,
};

const PINNED: Kind = Kind::CU_MEM_ALLOCATION_TYPE_PINNED;
const MANAGED: Kind = Kind::CU_MEM_ALLOCATION_TYPE_MANAGED;

fn location(type_: Type, id: c_int) -> CUmemLocation {
    let mut location = CUmemLocation { type_, ..CUmemLocation::default() };
    location.__bindgen_anon_1.id = id;
    location
}

fn device(id: c_int) -> CUmemLocation {
    location(Type::CU_MEM_LOCATION_TYPE_DEVICE, id)
}

fn host() -> CUmemLocation {
    location(Type::CU_MEM_LOCATION_TYPE_HOST, 0)
}

fn numa() -> CUmemLocation {
    location(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0)
}

fn nowhere() -> CUmemLocation {
    location(Type::CU_MEM_LOCATION_TYPE_NONE, 0)
}

fn make(sim: &Sim, place: CUmemLocation, kind: Kind) -> Asked<CUmemoryPool> {
    let properties =
        CUmemPoolProps { allocType: kind, location: place, ..CUmemPoolProps::default() };
    get!(sim, cuMemPoolCreate(out, &raw const properties))
}

fn default_pool(sim: &Sim, place: CUmemLocation, kind: Kind) -> Asked<CUmemoryPool> {
    let mut place = place;
    get!(sim, cuMemGetDefaultMemPool(out, &raw mut place, kind))
}

fn current_pool(sim: &Sim, place: CUmemLocation, kind: Kind) -> Asked<CUmemoryPool> {
    let mut place = place;
    get!(sim, cuMemGetMemPool(out, &raw mut place, kind))
}

fn make_current(sim: &Sim, place: CUmemLocation, kind: Kind, pool: CUmemoryPool) -> Asked<()> {
    let mut place = place;
    call!(sim, cuMemSetMemPool(&raw mut place, kind, pool))
}

fn grant(sim: &Sim, pool: CUmemoryPool, place: CUmemLocation, flags: c_uint) -> Asked<()> {
    let entry = CUmemAccessDesc { location: place, flags: CUmemAccess_flags(flags) };
    call!(sim, cuMemPoolSetAccess(pool, &raw const entry, 1))
}

fn access(sim: &Sim, pool: CUmemoryPool, place: CUmemLocation) -> c_uint {
    let (mut flags, mut place) = (CUmemAccess_flags(77), place);
    call!(sim, cuMemPoolGetAccess(&raw mut flags, pool, &raw mut place)).unwrap();
    flags.0
}

fn allocate(sim: &Sim, pool: CUmemoryPool, stream: CUstream) -> CUdeviceptr {
    get!(sim, cuMemAllocFromPoolAsync(out, 64, pool, stream)).unwrap()
}

#[test]
fn each_place_has_its_own_default_pool_which_is_current_at_first_and_never_ends() {
    let (sim, _) = sim_with_context();
    let places = [
        (host(), PINNED),
        (numa(), PINNED),
        (device(0), PINNED),
        (device(0), MANAGED),
        (host(), MANAGED),
        (numa(), MANAGED),
        (nowhere(), MANAGED),
    ];
    let mut seen = Vec::new();
    for (place, kind) in places {
        let pool = default_pool(&sim, place, kind).unwrap();
        assert_eq!(default_pool(&sim, place, kind), Ok(pool));
        assert_eq!(current_pool(&sim, place, kind), Ok(pool));
        assert_eq!(call!(sim, cuMemPoolDestroy(pool)), Err(CUresult::INVALID_VALUE));
        assert!(!seen.contains(&pool));
        seen.push(pool);
    }
    assert_eq!(sim.live(ObjectKind::Pool), 0, "what is there anyway is no leak");
    assert_clean(&sim);
}

#[test]
fn a_place_that_is_none_has_no_pool() {
    let (sim, _) = sim_with_context();
    for (place, kind) in [
        (device(1), PINNED),
        (device(1), MANAGED),
        (location(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA, 9), PINNED),
        (nowhere(), PINNED),
        (device(0), Kind(0)),
        (device(0), Kind(77)),
    ] {
        assert_eq!(default_pool(&sim, place, kind), Err(CUresult::INVALID_VALUE));
        assert_eq!(current_pool(&sim, place, kind), Err(CUresult::INVALID_VALUE));
        assert_eq!(make(&sim, place, kind), Err(CUresult::INVALID_VALUE));
    }
    for type_ in [Type::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, Type(77)] {
        let place = location(type_, 0);
        assert_eq!(default_pool(&sim, place, PINNED), Err(CUresult::NOT_SUPPORTED));
        assert_eq!(current_pool(&sim, place, PINNED), Err(CUresult::NOT_SUPPORTED));
        assert_eq!(make(&sim, place, PINNED), Err(CUresult::INVALID_VALUE));
    }
}

#[test]
fn a_place_takes_a_pool_of_its_own_and_has_its_default_one_back_when_that_ends() {
    let (sim, _) = sim_with_context();
    let default = default_pool(&sim, host(), PINNED).unwrap();
    let own = make(&sim, host(), PINNED).unwrap();
    let managed = make(&sim, device(0), MANAGED).unwrap();
    for (place, kind, other) in [
        (numa(), PINNED, own),
        (device(0), PINNED, own),
        (device(0), PINNED, managed),
        (nowhere(), MANAGED, managed),
        (host(), MANAGED, own),
    ] {
        assert_eq!(make_current(&sim, place, kind, other), Err(CUresult::INVALID_VALUE));
    }
    assert_eq!(call!(sim, cuDeviceSetMemPool(0, managed)), Err(CUresult::INVALID_VALUE));
    make_current(&sim, host(), PINNED, own).unwrap();
    assert_eq!(current_pool(&sim, host(), PINNED), Ok(own));
    call!(sim, cuMemPoolDestroy(own)).unwrap();
    assert_eq!(current_pool(&sim, host(), PINNED), Ok(default));
    assert_clean(&sim);
}

#[test]
fn managed_memory_s_pools_take_no_limit_and_are_not_shared() {
    let (sim, _) = sim_with_context();
    let plain =
        CUmemPoolProps { allocType: MANAGED, location: device(0), ..CUmemPoolProps::default() };
    let file = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    for bad in [
        CUmemPoolProps { maxSize: 1 << 20, ..plain },
        CUmemPoolProps { handleTypes: file, ..plain },
        CUmemPoolProps { usage: 1, ..plain },
    ] {
        let made: Asked<CUmemoryPool> = get!(sim, cuMemPoolCreate(out, &raw const bad));
        assert_eq!(made, Err(CUresult::INVALID_VALUE));
    }
}

#[test]
fn managed_memory_of_a_pool_takes_no_advice_and_is_reached_by_host_and_device() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, 1);
    let pool = make(&sim, nowhere(), MANAGED).unwrap();
    let memory = allocate(&sim, pool, s);
    let advice = CUmem_advise::CU_MEM_ADVISE_SET_READ_MOSTLY;
    let advised = call!(sim, cuMemAdvise_v2(memory, 64, advice, device(0)));
    assert_eq!(advised, Err(CUresult::NOT_SUPPORTED));
    call!(sim, cuMemPrefetchAsync_v2(memory, 64, device(0), 0, s)).unwrap();
    call!(sim, cuMemsetD8Async(memory, 9, 64, s)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
    let on_host: *const [u8; 4] = core::ptr::with_exposed_provenance(memory.try_into().unwrap());
    // SAFETY: 4 bytes of managed memory, and the fill was waited for.
    assert_eq!(unsafe { on_host.read() }, [9; 4]);
    assert_eq!([device(0), host()].map(|place| access(&sim, pool, place)), [0, 0], "it tells none");
    call!(sim, cuMemFreeAsync(memory, s)).unwrap();
    call!(sim, cuMemPoolDestroy(pool)).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_pool_that_gets_a_destroyed_one_s_handle_begins_with_the_access_that_it_granted() {
    let mut options = SimOptions::with_devices(2);
    options.reuse_handles = true;
    let sim = sim_with(options);
    let old = make(&sim, device(0), PINNED).unwrap();
    grant(&sim, old, device(1), 3).unwrap();
    call!(sim, cuMemPoolDestroy(old)).unwrap();
    let new = make(&sim, device(0), PINNED).unwrap();
    assert_eq!(new, old);
    assert_eq!(access(&sim, new, device(1)), 3, "nobody granted it to this one");
    grant(&sim, new, device(1), 0).unwrap();
    call!(sim, cuMemPoolDestroy(new)).unwrap();
    let taken_back = make(&sim, device(0), PINNED).unwrap();
    assert_eq!(access(&sim, taken_back, device(1)), 0);
}

#[test]
fn a_kernel_reaches_the_host_s_pool_with_access_alone() {
    let (sim, _) = sim_with_context();
    sim.register_kernel("store", |launch| launch.write(launch.param(0)?, 1_u32));
    let image = c".version 7.0\n.target sm_52\n.address_size 64\n\
                  .visible .entry store(.param .u64 p)\n{\nret;\n}\n";
    let module: CUmodule = get!(sim, cuModuleLoadData(out, image.as_ptr().cast())).unwrap();
    let store: CUfunction = get!(sim, cuModuleGetFunction(out, module, c"store".as_ptr())).unwrap();
    let s = stream(&sim, 1);
    let pool = make(&sim, numa(), PINNED).unwrap();
    assert_eq!([device(0), host(), numa()].map(|place| access(&sim, pool, place)), [0, 3, 3]);
    let mut memory = allocate(&sim, pool, s);
    let mut params = [(&raw mut memory).cast::<c_void>()];
    let none = core::ptr::null_mut();
    let mut launch = || {
        call!(sim, cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, s, params.as_mut_ptr(), none))
            .unwrap();
        call!(sim, cuStreamSynchronize(s))
    };
    grant(&sim, pool, device(0), 3).unwrap();
    assert_eq!(launch(), Ok(()));
    assert_clean(&sim);
    grant(&sim, pool, device(0), 0).unwrap();
    assert_eq!(launch(), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::NoAccess]);
}

#[test]
fn a_pool_of_the_host_or_of_managed_memory_takes_access_of_host_and_devices_alike() {
    let (sim, _) = sim_with_context();
    let places = [device(0), host(), numa()];
    for (place, kind) in [
        (host(), PINNED),
        (numa(), PINNED),
        (device(0), MANAGED),
        (host(), MANAGED),
        (numa(), MANAGED),
        (nowhere(), MANAGED),
    ] {
        let pool = make(&sim, place, kind).unwrap();
        for place in places {
            grant(&sim, pool, place, 3).unwrap();
        }
        assert_eq!(places.map(|place| access(&sim, pool, place)), [3, 3, 3]);
        grant(&sim, pool, device(0), 0).unwrap();
        assert_eq!(places.map(|place| access(&sim, pool, place)), [0, 3, 3]);
    }
    let pool = make(&sim, device(0), PINNED).unwrap();
    assert_eq!(grant(&sim, pool, host(), 3), Err(CUresult::INVALID_DEVICE));
}

#[test]
fn a_fill_of_the_host_s_pool_is_for_the_device_of_its_stream() {
    let sim = sim_with(SimOptions::with_devices(2));
    let streams = [0, 1].map(|index| {
        let context = primary(&sim, index);
        call!(sim, cuCtxSetCurrent(context)).unwrap();
        stream(&sim, 1)
    });
    let pool = make(&sim, host(), PINNED).unwrap();
    let memory = allocate(&sim, pool, streams[0]);
    grant(&sim, pool, device(1), 3).unwrap();
    let fill = |stream| call!(sim, cuMemsetD8Async(memory, 0, 64, stream));
    assert_eq!(streams.map(fill), [Err(CUresult::INVALID_VALUE), Ok(())]);
    assert_clean(&sim);
}

#[test]
fn a_captured_stream_takes_no_memory_of_the_host_and_no_managed_memory() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, 1);
    let pools =
        [make(&sim, host(), PINNED), make(&sim, numa(), PINNED), make(&sim, nowhere(), MANAGED)];
    call!(sim, cuStreamBeginCapture_v2(s, CUstreamCaptureMode(2))).unwrap();
    let taken = pools.map(|pool| -> Asked<CUdeviceptr> {
        get!(sim, cuMemAllocFromPoolAsync(out, 64, pool.unwrap(), s))
    });
    let (not, bad) = (Err(CUresult::NOT_SUPPORTED), Err(CUresult::INVALID_VALUE));
    assert_eq!(taken, [not, not, bad]);
    let graph: CUgraph = get!(sim, cuStreamEndCapture(s, out)).unwrap();
    assert!(!graph.is_null(), "the capture went on");
    assert_clean(&sim);
}
