//! Green contexts and device resources.

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, Version, ffi::*},
};

use crate::ask::{Asked, NON_BLOCKING, Runs, call, get, kinds, sim_with, sim_with_context, stream};

#[test]
fn a_green_context_shares_all_but_streams_with_the_primary_one() {
    let (sim, primary) = sim_with_context();
    let green = green(&sim, 0);
    let view: CUcontext = get!(sim, cuCtxFromGreenCtx(out, green)).unwrap();
    call!(sim, cuCtxSetCurrent(view)).unwrap();
    let memory: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
    let (s, work) = (stream(&sim, NON_BLOCKING), Runs::default());
    work.queue(&sim, s).unwrap();
    call!(sim, cuCtxSetCurrent(primary)).unwrap();
    call!(sim, cuCtxSynchronize()).unwrap();
    assert_eq!(work.count(), 1, "the primary context waits for its green ones");
    call!(sim, cuStreamDestroy_v2(s)).unwrap();
    call!(sim, cuGreenCtxDestroy(green)).unwrap();
    call!(sim, cuMemFree_v2(memory)).unwrap();
    assert_eq!(call!(sim, cuCtxPushCurrent_v2(view)), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UseAfterDestroy]);
}

#[test]
fn a_green_context_that_ends_with_work_in_flight_is_a_violation_and_takes_its_streams_along() {
    let (sim, _) = sim_with_context();
    let green = green(&sim, 0);
    let s: CUstream = get!(sim, cuGreenCtxStreamCreate(out, green, NON_BLOCKING, 0)).unwrap();
    let work = Runs::default();
    work.queue(&sim, s).unwrap();
    call!(sim, cuGreenCtxDestroy(green)).unwrap();
    assert_eq!(kinds(&sim.violations()), [ViolationKind::EndedBusy]);
    assert_eq!(work.count(), 1);
    assert_eq!(sim.gone_with_context().len(), 1);
    assert_eq!(sim.live(ObjectKind::GreenContext), 0);
}

#[test]
fn parts_of_two_devices_are_not_described_together() {
    let sim = sim_with(SimOptions::with_devices(2));
    let mut both = [part(&sim, 0), part(&sim, 1)];
    let described: Asked<CUdevResourceDesc> =
        get!(sim, cuDevResourceGenerateDesc(out, both.as_mut_ptr(), 2));
    assert_eq!(described, Err(CUresult::INVALID_RESOURCE_CONFIGURATION));
    let desc: CUdevResourceDesc =
        get!(sim, cuDevResourceGenerateDesc(out, both.as_mut_ptr(), 1)).unwrap();
    let elsewhere: Asked<CUgreenCtx> = get!(sim, cuGreenCtxCreate(out, desc, 1, 1));
    assert_eq!(elsewhere, Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_driver_older_than_green_contexts_lacks_them() {
    let mut options = SimOptions::default();
    options.driver_version = Version(12_030);
    let sim = sim_with(options);
    assert_eq!(call!(sim, cuGreenCtxDestroy(CUgreenCtx::NULL)), Err(CUresult::MISSING));
}

fn part(sim: &Sim, device: CUdevice) -> CUdevResource {
    let kind = CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
    let whole: CUdevResource = get!(sim, cuDeviceGetDevResource(device, out, kind)).unwrap();
    let (mut part, mut count) = (CUdevResource::default(), 1);
    let (to, rest) = (&raw mut part, std::ptr::null_mut());
    call!(sim, cuDevSmResourceSplitByCount(to, &raw mut count, &raw const whole, rest, 0, 16))
        .unwrap();
    part
}

fn green(sim: &Sim, device: CUdevice) -> CUgreenCtx {
    let mut part = part(sim, device);
    let desc: CUdevResourceDesc =
        get!(sim, cuDevResourceGenerateDesc(out, &raw mut part, 1)).unwrap();
    get!(sim, cuGreenCtxCreate(out, desc, device, 1)).unwrap()
}
