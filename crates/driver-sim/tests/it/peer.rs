//! Access of one device to another's memory, and what becomes of work that is queued when it ends.

use cuhold_driver_sim::{
    Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{Call, DriverApi as _, ffi::*},
};

use crate::ask::{call, get, primary, sim_with, stream};

/// Two devices, and the primary contexts of both; the second one's is current.
fn two_devices() -> (Sim, [CUcontext; 2]) {
    let sim = sim_with(SimOptions::with_devices(2));
    sim.register_kernel("store", |launch| launch.write(launch.param(0)?, 1_u32));
    let contexts = [primary(&sim, 0), primary(&sim, 1)];
    call!(sim, cuCtxSetCurrent(contexts[1])).unwrap();
    (sim, contexts)
}

fn location(id: c_int) -> CUmemLocation {
    let type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let mut location = CUmemLocation { type_, ..CUmemLocation::default() };
    location.__bindgen_anon_1.id = id;
    location
}

/// Memory of a pool of device 0, and a created stream of device 1.
pub(crate) fn pooled(sim: &Sim) -> (CUmemoryPool, CUdeviceptr, CUstream) {
    let properties = CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        location: location(0),
        ..CUmemPoolProps::default()
    };
    let pool: CUmemoryPool = get!(sim, cuMemPoolCreate(out, &raw const properties)).unwrap();
    let s = stream(sim, 1);
    let memory = get!(sim, cuMemAllocFromPoolAsync(out, 64, pool, s)).unwrap();
    (pool, memory, s)
}

pub(crate) fn grant(sim: &Sim, pool: CUmemoryPool, flags: c_uint) {
    let entry = CUmemAccessDesc { location: location(1), flags: CUmemAccess_flags(flags) };
    call!(sim, cuMemPoolSetAccess(pool, &raw const entry, 1)).unwrap();
}

/// Launches a kernel of the current context that writes to an address.
fn store(sim: &Sim, address: CUdeviceptr, s: CUstream) {
    let image = c".version 7.0\n.target sm_52\n.address_size 64\n\
                  .visible .entry store(.param .u64 p)\n{\nret;\n}\n";
    let module: CUmodule = get!(sim, cuModuleLoadData(out, image.as_ptr().cast())).unwrap();
    let store: CUfunction = get!(sim, cuModuleGetFunction(out, module, c"store".as_ptr())).unwrap();
    let mut address = address;
    let mut params = [(&raw mut address).cast::<c_void>()];
    let none = core::ptr::null_mut();
    call!(sim, cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, s, params.as_mut_ptr(), none)).unwrap();
}

#[track_caller]
fn assert_taken_away(sim: &Sim, calls: &[Call]) {
    let violations = sim.take_violations();
    assert_eq!(violations.len(), 1, "{violations:#?}");
    let found = violations.first().unwrap();
    assert_eq!(found.kind, ViolationKind::NoAccess);
    assert_eq!(found.calls.iter().map(|site| site.call).collect::<Vec<_>>(), calls);
    let text = found.to_string();
    assert!(text.contains("taken away while the work was queued or running"), "{text}");
}

#[test]
fn a_pool_s_access_taken_away_behind_a_peer_s_kernel_faults_it() {
    let (sim, _) = two_devices();
    let (pool, memory, t) = pooled(&sim);
    grant(&sim, pool, 3);
    store(&sim, memory, t);
    grant(&sim, pool, 0);
    assert_eq!(call!(sim, cuStreamSynchronize(t)), Err(CUresult::ILLEGAL_ADDRESS));
    let calls = [Call::cuMemAllocFromPoolAsync, Call::cuLaunchKernel, Call::cuMemPoolSetAccess];
    assert_taken_away(&sim, &calls);
}

#[test]
fn a_free_behind_a_peer_s_kernel_does_not_make_taking_its_access_away_right() {
    let (sim, _) = two_devices();
    let (pool, memory, t) = pooled(&sim);
    grant(&sim, pool, 3);
    store(&sim, memory, t);
    call!(sim, cuMemFreeAsync(memory, t)).unwrap();
    grant(&sim, pool, 0);
    assert_eq!(call!(sim, cuStreamSynchronize(t)), Err(CUresult::ILLEGAL_ADDRESS));
    let calls = [Call::cuMemAllocFromPoolAsync, Call::cuLaunchKernel, Call::cuMemPoolSetAccess];
    assert_taken_away(&sim, &calls);
}

#[test]
fn a_pool_that_ends_behind_a_peer_s_kernel_takes_no_access_from_it() {
    let (sim, _) = two_devices();
    let (pool, memory, t) = pooled(&sim);
    grant(&sim, pool, 3);
    store(&sim, memory, t);
    call!(sim, cuMemFreeAsync(memory, t)).unwrap();
    call!(sim, cuMemPoolDestroy(pool)).unwrap();
    call!(sim, cuStreamSynchronize(t)).unwrap();
    let kinds: Vec<_> = sim.take_violations().iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [ViolationKind::PoolEndedBusy], "its stream may not be waited for");
}

#[test]
fn a_peer_s_copy_needs_the_access_until_it_is_done() {
    let (sim, _) = two_devices();
    let (pool, memory, t) = pooled(&sim);
    let own: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
    let refused = call!(sim, cuMemcpyDtoDAsync_v2(own, memory, 64, t));
    assert_eq!(refused, Err(CUresult::INVALID_VALUE));
    grant(&sim, pool, 3);
    call!(sim, cuMemcpyDtoDAsync_v2(own, memory, 64, t)).unwrap();
    grant(&sim, pool, 0);
    assert_eq!(call!(sim, cuStreamSynchronize(t)), Err(CUresult::ILLEGAL_ADDRESS));
    let copy = Call::cuMemcpyDtoDAsync_v2;
    assert_taken_away(&sim, &[Call::cuMemAllocFromPoolAsync, copy, Call::cuMemPoolSetAccess]);
}

#[test]
fn contexts_access_that_ends_behind_a_kernel_faults_it() {
    let (sim, [owner, user]) = two_devices();
    call!(sim, cuCtxSetCurrent(owner)).unwrap();
    let memory: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
    call!(sim, cuCtxSetCurrent(user)).unwrap();
    call!(sim, cuCtxEnablePeerAccess(owner, 0)).unwrap();
    let t = stream(&sim, 1);
    store(&sim, memory, t);
    call!(sim, cuStreamSynchronize(t)).unwrap();
    store(&sim, memory, t);
    call!(sim, cuCtxDisablePeerAccess(owner)).unwrap();
    assert_eq!(call!(sim, cuStreamSynchronize(t)), Err(CUresult::ILLEGAL_ADDRESS));
    let calls = [Call::cuMemAlloc_v2, Call::cuLaunchKernel, Call::cuCtxDisablePeerAccess];
    assert_taken_away(&sim, &calls);
}

#[test]
fn devices_that_can_t_reach_each_other_say_so_and_are_given_no_access() {
    let mut options = SimOptions::with_devices(2);
    options.peer_access = false;
    let sim = sim_with(options);
    let can: c_int = get!(sim, cuDeviceCanAccessPeer(out, 0, 1)).unwrap();
    assert_eq!(can, 0);
    let owner = primary(&sim, 0);
    call!(sim, cuCtxSetCurrent(primary(&sim, 1))).unwrap();
    let unsupported = Err(CUresult::PEER_ACCESS_UNSUPPORTED);
    assert_eq!(call!(sim, cuCtxEnablePeerAccess(owner, 0)), unsupported);
    let (pool, ..) = pooled(&sim);
    let entry = CUmemAccessDesc { location: location(1), flags: CUmemAccess_flags(3) };
    let refused = call!(sim, cuMemPoolSetAccess(pool, &raw const entry, 1));
    assert_eq!(refused, Err(CUresult::INVALID_DEVICE));
}
