//! Contexts: the stack of a thread, created and primary ones, settings, peers.

use cuhold_driver_sim::{
    Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use std::thread;

use crate::ask::{
    Asked, assert_clean, call, context, current, event, get, kinds, primary, sim, sim_with,
    sim_with_context, stream,
};

const NULL: CUcontext = CUcontext::NULL;

#[test]
fn with_no_context_current_calls_that_need_one_answer_invalid_context() {
    let sim = sim();
    assert_eq!(current(&sim), NULL);
    assert_eq!(get!(sim, cuCtxPopCurrent_v2(out)), Err::<CUcontext, _>(CUresult::INVALID_CONTEXT));
    assert_eq!(get!(sim, cuCtxGetDevice(out)), Err::<CUdevice, _>(CUresult::INVALID_CONTEXT));
    assert_eq!(get!(sim, cuStreamCreate(out, 0)), Err::<CUstream, _>(CUresult::INVALID_CONTEXT));
    assert_eq!(get!(sim, cuEventCreate(out, 0)), Err::<CUevent, _>(CUresult::INVALID_CONTEXT));
    assert_eq!(call!(sim, cuCtxSynchronize()), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(call!(sim, cuStreamSynchronize(CUstream::NULL)), Err(CUresult::INVALID_CONTEXT));
    assert_clean(&sim);
}

#[test]
fn create_pushes_and_set_current_replaces_the_top() {
    let sim = sim();
    let a = context(&sim);
    assert_eq!(current(&sim), a);
    let b = context(&sim);
    assert_eq!((current(&sim), sim.stack_depth()), (b, 2));
    call!(sim, cuCtxSetCurrent(a)).unwrap();
    assert_eq!((current(&sim), sim.stack_depth()), (a, 2));
    assert_eq!(get!(sim, cuCtxPopCurrent_v2(out)), Ok(a));
    assert_eq!((current(&sim), sim.stack_depth()), (a, 1));
}

#[test]
fn setting_null_pops_and_what_lay_under_becomes_current() {
    let sim = sim();
    let (a, b) = (context(&sim), context(&sim));
    assert_eq!(current(&sim), b);
    call!(sim, cuCtxSetCurrent(NULL)).unwrap();
    assert_eq!(current(&sim), a);
    call!(sim, cuCtxSetCurrent(NULL)).unwrap();
    call!(sim, cuCtxSetCurrent(NULL)).unwrap();
    assert_eq!((current(&sim), sim.stack_depth()), (NULL, 0));
}

#[test]
fn pushing_null_is_refused_and_popping_into_null_is_not() {
    let (sim, ctx) = sim_with_context();
    assert_eq!(call!(sim, cuCtxPushCurrent_v2(NULL)), Err(CUresult::INVALID_VALUE));
    call!(sim, cuCtxPushCurrent_v2(ctx)).unwrap();
    assert_eq!(sim.stack_depth(), 2);
    call!(sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
    assert_eq!(sim.stack_depth(), 1);
}

#[test]
fn each_thread_has_its_own_stack() {
    let (sim, ctx) = sim_with_context();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(current(&sim), NULL);
            let own = context(&sim);
            assert_eq!(current(&sim), own);
        });
    });
    assert_eq!((current(&sim), sim.stack_depth()), (ctx, 1));
}

#[test]
fn destroying_pops_only_the_top_and_leaves_the_rest_stale() {
    let (sim, prim) = sim_with_context();
    let a = context(&sim);
    call!(sim, cuCtxPushCurrent_v2(prim)).unwrap();
    call!(sim, cuCtxPushCurrent_v2(a)).unwrap();
    call!(sim, cuCtxDestroy_v2(a)).unwrap();
    let pops: Vec<Asked<CUcontext>> = (0..4).map(|_| get!(sim, cuCtxPopCurrent_v2(out))).collect();
    assert_eq!(pops, [Ok(prim), Ok(a), Ok(prim), Err(CUresult::INVALID_CONTEXT)]);
    assert_clean(&sim);
}

#[test]
fn a_destroyed_context_can_be_set_current_and_its_calls_say_so() {
    let (sim, prim) = sim_with_context();
    let a = context(&sim);
    call!(sim, cuCtxDestroy_v2(a)).unwrap();
    assert_eq!(current(&sim), prim);
    call!(sim, cuCtxSetCurrent(a)).unwrap();
    assert_eq!(current(&sim), a);
    let destroyed = CUresult::CONTEXT_IS_DESTROYED;
    assert_eq!(get!(sim, cuStreamCreate(out, 0)), Err::<CUstream, _>(destroyed));
    assert_eq!(get!(sim, cuCtxGetDevice(out)), Err::<CUdevice, _>(destroyed));
    assert_eq!(get!(sim, cuCtxGetId(NULL, out)), Err::<c_ulonglong, _>(destroyed));
    assert_clean(&sim);
    call!(sim, cuCtxSetCurrent(prim)).unwrap();
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UseAfterDestroy], "it may crash");
    assert_eq!(current(&sim), prim);
}

#[test]
fn a_context_destroyed_by_another_thread_stays_current_here() {
    let sim = sim();
    let a = context(&sim);
    let s = stream(&sim, 1);
    thread::scope(|scope| {
        scope.spawn(|| call!(sim, cuCtxDestroy_v2(a)).unwrap());
    });
    assert_eq!(current(&sim), a);
    assert_eq!(get!(sim, cuEventCreate(out, 0)), Err::<CUevent, _>(CUresult::CONTEXT_IS_DESTROYED));
    assert_eq!(call!(sim, cuStreamDestroy_v2(s)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UseAfterContext]);
}

#[test]
fn what_lived_in_a_destroyed_context_answers_that_it_is_destroyed() {
    let (sim, _) = sim_with_context();
    let a = context(&sim);
    let (s, e) = (stream(&sim, 1), event(&sim));
    call!(sim, cuCtxDestroy_v2(a)).unwrap();
    assert_eq!(call!(sim, cuEventDestroy_v2(e)), Err(CUresult::CONTEXT_IS_DESTROYED));
    assert_eq!(call!(sim, cuStreamDestroy_v2(s)), Err(CUresult::CONTEXT_IS_DESTROYED));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UseAfterContext; 2]);
    assert_eq!(sim.gone_with_context().len(), 2);
    context(&sim);
    assert_eq!(call!(sim, cuEventDestroy_v2(e)), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(call!(sim, cuStreamDestroy_v2(s)), Err(CUresult::INVALID_CONTEXT));
}

#[test]
fn garbage_can_be_set_current_but_not_used() {
    let sim = sim();
    let garbage = CUcontext::from_addr(0xdead_beef);
    call!(sim, cuCtxSetCurrent(garbage)).unwrap();
    assert_eq!(current(&sim), garbage);
    assert_clean(&sim);
    assert_eq!(get!(sim, cuStreamCreate(out, 0)), Err::<CUstream, _>(CUresult::INVALID_CONTEXT));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UnknownHandle]);
}

#[test]
fn contexts_that_cannot_be_destroyed_are_refused() {
    let (sim, prim) = sim_with_context();
    assert_eq!(call!(sim, cuCtxDestroy_v2(NULL)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuCtxDestroy_v2(prim)), Err(CUresult::INVALID_CONTEXT));
    assert_clean(&sim);
    let a = context(&sim);
    call!(sim, cuCtxDestroy_v2(a)).unwrap();
    assert_eq!(call!(sim, cuCtxDestroy_v2(a)), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::DoubleDestroy]);
}

#[test]
fn a_context_that_is_not_created_is_not_pushed() {
    let sim = sim();
    let null = std::ptr::null_mut();
    let bad: Asked<CUcontext> = get!(sim, cuCtxCreate_v4(out, null, 0, 3));
    assert_eq!(bad, Err(CUresult::INVALID_DEVICE));
    let bad: Asked<CUcontext> = get!(sim, cuCtxCreate_v4(out, null, 3, 0));
    assert_eq!(bad, Err(CUresult::INVALID_VALUE), "two scheduling modes");
    let bad: Asked<CUcontext> = get!(sim, cuCtxCreate_v4(out, null, 0x100, 0));
    assert_eq!(bad, Err(CUresult::INVALID_VALUE), "an unknown flag");
    assert_eq!(sim.stack_depth(), 0);
}

#[test]
fn the_primary_context_is_counted_and_not_pushed() {
    let sim = sim();
    let first = primary(&sim, 0);
    assert_eq!(current(&sim), NULL);
    assert_eq!(primary(&sim, 0), first);
    call!(sim, cuDevicePrimaryCtxRelease_v2(0)).unwrap();
    assert_eq!(state(&sim), (0, 1));
    call!(sim, cuDevicePrimaryCtxRelease_v2(0)).unwrap();
    assert_eq!(state(&sim), (0, 0));
    assert_clean(&sim);
    assert_eq!(call!(sim, cuDevicePrimaryCtxRelease_v2(0)), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::OverRelease]);
    let bad: Asked<CUcontext> = get!(sim, cuDevicePrimaryCtxRetain(out, 8));
    assert_eq!(bad, Err(CUresult::INVALID_DEVICE));
    assert_eq!(call!(sim, cuDevicePrimaryCtxRelease_v2(8)), Err(CUresult::INVALID_DEVICE));
}

/// Flags and activity of device 0's primary context.
fn state(sim: &Sim) -> (c_uint, c_int) {
    let (mut flags, mut active) = (9, 9);
    call!(sim, cuDevicePrimaryCtxGetState(0, &raw mut flags, &raw mut active)).unwrap();
    (flags, active)
}

#[test]
fn a_primary_context_comes_back_under_the_same_handle() {
    let (sim, prim) = sim_with_context();
    let s = stream(&sim, 1);
    call!(sim, cuDevicePrimaryCtxRelease_v2(0)).unwrap();
    assert_eq!(current(&sim), prim);
    assert_eq!(get!(sim, cuEventCreate(out, 0)), Err::<CUevent, _>(CUresult::CONTEXT_IS_DESTROYED));
    assert_eq!(primary(&sim, 0), prim);
    let _works: CUevent = event(&sim);
    assert_eq!(call!(sim, cuStreamQuery(s)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UseAfterContext]);
}

#[test]
fn a_reset_ends_the_primary_context_but_not_its_count() {
    let (sim, prim) = sim_with_context();
    call!(sim, cuDevicePrimaryCtxReset_v2(0)).unwrap();
    assert_eq!((current(&sim), state(&sim)), (prim, (0, 0)));
    assert_eq!(get!(sim, cuEventCreate(out, 0)), Err::<CUevent, _>(CUresult::CONTEXT_IS_DESTROYED));
    assert_eq!(primary(&sim, 0), prim);
    let _works: CUevent = event(&sim);
    call!(sim, cuDevicePrimaryCtxRelease_v2(0)).unwrap();
    assert_eq!(state(&sim), (0, 1));
    call!(sim, cuDevicePrimaryCtxRelease_v2(0)).unwrap();
    assert_eq!(state(&sim), (0, 0));
    assert_eq!(call!(sim, cuDevicePrimaryCtxReset_v2(1)), Err(CUresult::INVALID_DEVICE));
}

#[test]
fn primary_flags_hold_one_scheduling_mode() {
    let (sim, _) = sim_with_context();
    assert_eq!(call!(sim, cuDevicePrimaryCtxSetFlags_v2(0, 6)), Err(CUresult::INVALID_VALUE));
    call!(sim, cuDevicePrimaryCtxSetFlags_v2(0, 4)).unwrap();
    assert_eq!(state(&sim), (4, 1));
    assert_eq!(get!(sim, cuCtxGetFlags(out)), Ok(4));
    let (mut flags, null) = (0, std::ptr::null_mut());
    let asked = call!(sim, cuDevicePrimaryCtxGetState(0, &raw mut flags, null));
    assert_eq!(asked, Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_context_tells_its_device_its_id_and_its_version() {
    let sim = sim_with(SimOptions::with_devices(2));
    let one = primary(&sim, 1);
    let zero = context(&sim);
    assert_eq!(get!(sim, cuCtxGetDevice(out)), Ok(0));
    assert_eq!(get!(sim, cuCtxGetDevice_v2(out, one)), Ok(1));
    let id = |ctx| -> c_ulonglong { get!(sim, cuCtxGetId(ctx, out)).unwrap() };
    assert_eq!(id(NULL), id(zero));
    assert_ne!(id(zero), id(one));
    assert_eq!(get!(sim, cuCtxGetApiVersion(one, out)), Ok(3020));
    call!(sim, cuCtxSetCurrent(NULL)).unwrap();
    assert_eq!(
        get!(sim, cuCtxGetApiVersion(NULL, out)),
        Err::<c_uint, _>(CUresult::INVALID_CONTEXT)
    );
}

#[test]
fn an_id_is_not_given_to_the_next_activation() {
    let (sim, prim) = sim_with_context();
    let id = || -> c_ulonglong { get!(sim, cuCtxGetId(prim, out)).unwrap() };
    let before = id();
    call!(sim, cuDevicePrimaryCtxRelease_v2(0)).unwrap();
    primary(&sim, 0);
    assert_ne!(id(), before);
}

#[test]
fn limits_flags_and_preferences_are_kept_for_each_context() {
    let (sim, prim) = sim_with_context();
    let stack = CUlimit::CU_LIMIT_STACK_SIZE;
    assert_eq!(get!(sim, cuCtxGetLimit(out, stack)), Ok(1024));
    call!(sim, cuCtxSetLimit(stack, 4096)).unwrap();
    call!(sim, cuCtxSetFlags(1)).unwrap();
    call!(sim, cuCtxSetCacheConfig(CUfunc_cache(2))).unwrap();
    context(&sim);
    assert_eq!(get!(sim, cuCtxGetLimit(out, stack)), Ok(1024));
    assert_eq!(get!(sim, cuCtxGetFlags(out)), Ok(0));
    call!(sim, cuCtxSetCurrent(prim)).unwrap();
    assert_eq!(get!(sim, cuCtxGetLimit(out, stack)), Ok(4096));
    assert_eq!(get!(sim, cuCtxGetFlags(out)), Ok(1));
    let mut config = CUfunc_cache(9);
    call!(sim, cuCtxGetCacheConfig(&raw mut config)).unwrap();
    assert_eq!(config, CUfunc_cache(2));
}

#[test]
fn what_a_context_does_not_have_is_refused() {
    let (sim, _) = sim_with_context();
    let depth = CUlimit::CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH;
    assert_eq!(call!(sim, cuCtxSetLimit(depth, 2)), Err(CUresult::UNSUPPORTED_LIMIT));
    assert_eq!(call!(sim, cuCtxSetLimit(CUlimit(77), 2)), Err(CUresult::INVALID_VALUE));
    assert_eq!(get!(sim, cuCtxGetLimit(out, depth)), Err::<usize, _>(CUresult::UNSUPPORTED_LIMIT));
    assert_eq!(call!(sim, cuCtxSetFlags(5)), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuCtxSetCacheConfig(CUfunc_cache(9))), Err(CUresult::INVALID_VALUE));
    let null = std::ptr::null_mut();
    let sm = CUexecAffinityType::CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    assert_eq!(call!(sim, cuCtxGetExecAffinity(null, sm)), Err(CUresult::INVALID_VALUE));
    call!(sim, cuCtxResetPersistingL2Cache()).unwrap();
}

#[test]
fn priorities_range_from_zero_to_minus_five() {
    let (sim, _) = sim_with_context();
    let (mut least, mut greatest) = (9, 9);
    call!(sim, cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)).unwrap();
    assert_eq!((least, greatest), (0, -5));
    call!(sim, cuCtxGetStreamPriorityRange(std::ptr::null_mut(), std::ptr::null_mut())).unwrap();
}

#[test]
fn peer_access_is_a_switch_and_not_a_count() {
    let sim = sim_with(SimOptions::with_devices(2));
    let (zero, one) = (primary(&sim, 0), primary(&sim, 1));
    call!(sim, cuCtxSetCurrent(zero)).unwrap();
    call!(sim, cuCtxEnablePeerAccess(one, 0)).unwrap();
    let again = call!(sim, cuCtxEnablePeerAccess(one, 0));
    assert_eq!(again, Err(CUresult::PEER_ACCESS_ALREADY_ENABLED));
    call!(sim, cuCtxDisablePeerAccess(one)).unwrap();
    let again = call!(sim, cuCtxDisablePeerAccess(one));
    assert_eq!(again, Err(CUresult::PEER_ACCESS_NOT_ENABLED));
    let own = call!(sim, cuCtxEnablePeerAccess(zero, 0));
    assert_eq!(own, Err(CUresult::PEER_ACCESS_UNSUPPORTED));
    assert_eq!(call!(sim, cuCtxEnablePeerAccess(NULL, 0)), Err(CUresult::INVALID_CONTEXT));
    assert_eq!(call!(sim, cuCtxEnablePeerAccess(one, 1)), Err(CUresult::INVALID_VALUE));
}

#[test]
fn devices_without_peer_access_refuse_it() {
    let mut options = SimOptions::with_devices(2);
    options.peer_access = false;
    let sim = sim_with(options);
    let (zero, one) = (primary(&sim, 0), primary(&sim, 1));
    call!(sim, cuCtxSetCurrent(zero)).unwrap();
    let asked = call!(sim, cuCtxEnablePeerAccess(one, 0));
    assert_eq!(asked, Err(CUresult::PEER_ACCESS_UNSUPPORTED));
}
