//! Pools that are destroyed while streams on which their memory was freed have work pending.

use cuhold_driver_sim::{
    Sim, ViolationKind,
    cuhold_driver_sys::{Call, DriverApi as _, ffi::*},
};

use crate::ask::{
    Asked, BLOCKING, NON_BLOCKING, assert_clean, call, get, sim_with_context, stream,
};

const BYTES: usize = 40;

fn pool(sim: &Sim) -> CUmemoryPool {
    let properties = CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        location: CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            ..CUmemLocation::default()
        },
        ..CUmemPoolProps::default()
    };
    get!(sim, cuMemPoolCreate(out, &raw const properties)).unwrap()
}

fn allocate(sim: &Sim, pool: CUmemoryPool, stream: CUstream) -> CUdeviceptr {
    get!(sim, cuMemAllocFromPoolAsync(out, BYTES, pool, stream)).unwrap()
}

fn fill(sim: &Sim, memory: CUdeviceptr, stream: CUstream) {
    call!(sim, cuMemsetD8Async(memory, 0, BYTES, stream)).unwrap();
}

fn free(sim: &Sim, memory: CUdeviceptr, stream: CUstream) {
    call!(sim, cuMemFreeAsync(memory, stream)).unwrap();
}

fn destroy(sim: &Sim, pool: CUmemoryPool) {
    call!(sim, cuMemPoolDestroy(pool)).unwrap();
}

fn wait(sim: &Sim, stream: CUstream) {
    call!(sim, cuStreamSynchronize(stream)).unwrap();
}

/// Runs the work of a stream that nobody waits for.
fn run(sim: &Sim, stream: CUstream) {
    while sim.stream_step(stream) {}
}

/// An event on a stream.
fn recorded(sim: &Sim, stream: CUstream) -> CUevent {
    let event: CUevent = get!(sim, cuEventCreate(out, 0)).unwrap();
    call!(sim, cuEventRecord(event, stream)).unwrap();
    event
}

/// A pool that was destroyed too early for a stream.
fn ended_early(sim: &Sim, stream: CUstream) {
    let created = pool(sim);
    let memory = allocate(sim, created, stream);
    fill(sim, memory, stream);
    free(sim, memory, stream);
    destroy(sim, created);
}

const EARLY: [Call; 3] =
    [Call::cuMemAllocFromPoolAsync, Call::cuMemFreeAsync, Call::cuMemPoolDestroy];

#[track_caller]
fn assert_ended_busy(sim: &Sim, by: &[Call]) {
    let violations = sim.take_violations();
    assert_eq!(violations.len(), 1, "{violations:#?}");
    let found = violations.first().unwrap();
    assert_eq!(found.kind, ViolationKind::PoolEndedBusy);
    assert_eq!(found.calls.iter().map(|site| site.call).collect::<Vec<_>>(), by);
    assert!(found.to_string().contains("wait for that stream before the pool"), "{found}");
    assert_eq!(sim.dangers(), [], "it was told");
}

#[test]
fn a_wait_for_a_stream_is_one_too_many_where_a_pool_ended_behind_its_frees() {
    type Wait = fn(&Sim, CUstream) -> Asked<()>;
    let waits: [(Call, Wait); 3] = [
        (Call::cuStreamSynchronize, |sim, stream| call!(sim, cuStreamSynchronize(stream))),
        (Call::cuCtxSynchronize, |sim, _| call!(sim, cuCtxSynchronize())),
        (Call::cuEventSynchronize, |sim, stream| {
            call!(sim, cuEventSynchronize(recorded(sim, stream)))
        }),
    ];
    for (by, wait) in waits {
        let (sim, _) = sim_with_context();
        let created = [BLOCKING, NON_BLOCKING].map(|flags| stream(&sim, flags));
        let default = [CUstream::NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD];
        for stream in default.into_iter().chain(created) {
            ended_early(&sim, stream);
            assert_clean(&sim);
            assert_eq!(sim.dangers().len(), 1);
            wait(&sim, stream).unwrap();
            assert_ended_busy(&sim, &[&EARLY[..], &[by]].concat());
            wait(&sim, stream).unwrap();
            assert_clean(&sim);
        }
    }
}

#[test]
fn a_wait_is_one_too_many_although_the_work_was_done_before_it() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, NON_BLOCKING);
    ended_early(&sim, s);
    run(&sim, s);
    call!(sim, cuStreamQuery(s)).unwrap();
    assert_clean(&sim);
    wait(&sim, s);
    assert_ended_busy(&sim, &[&EARLY[..], &[Call::cuStreamSynchronize]].concat());
}

#[test]
fn an_event_in_front_of_the_free_may_be_waited_for() {
    let (sim, _) = sim_with_context();
    let (created, s) = (pool(&sim), stream(&sim, NON_BLOCKING));
    let memory = allocate(&sim, created, s);
    fill(&sim, memory, s);
    let [before, behind] = [false, true].map(|is_freed| {
        if is_freed {
            free(&sim, memory, s);
        }
        recorded(&sim, s)
    });
    destroy(&sim, created);
    call!(sim, cuEventSynchronize(before)).unwrap();
    assert_clean(&sim);
    call!(sim, cuEventSynchronize(behind)).unwrap();
    assert_ended_busy(&sim, &[&EARLY[..], &[Call::cuEventSynchronize]].concat());
}

#[test]
fn frees_alone_are_no_work() {
    let (sim, _) = sim_with_context();
    let created = pool(&sim);
    let (s, other) = (stream(&sim, BLOCKING), stream(&sim, NON_BLOCKING));
    let both = [(); 2].map(|()| allocate(&sim, created, s));
    free(&sim, both[0], s);
    call!(sim, cuStreamWaitEvent(other, recorded(&sim, s), 0)).unwrap();
    free(&sim, both[1], other);
    destroy(&sim, created);
    assert_eq!(sim.dangers(), []);
}

#[test]
fn any_work_of_the_stream_that_is_in_front_of_the_free_counts() {
    let (sim, _) = sim_with_context();
    let (created, s) = (pool(&sim), stream(&sim, BLOCKING));
    let other: CUdeviceptr = get!(sim, cuMemAllocAsync(out, BYTES, s)).unwrap();
    let memory = allocate(&sim, created, s);
    fill(&sim, other, s);
    free(&sim, memory, s);
    destroy(&sim, created);
    wait(&sim, s);
    assert_ended_busy(&sim, &[&EARLY[..], &[Call::cuStreamSynchronize]].concat());
}

#[test]
fn work_of_the_legacy_stream_is_in_front_of_what_a_blocking_stream_frees() {
    for (flags, is_ordered) in [(BLOCKING, true), (NON_BLOCKING, false)] {
        let (sim, _) = sim_with_context();
        let (created, s) = (pool(&sim), stream(&sim, flags));
        let memory = allocate(&sim, created, s);
        fill(&sim, memory, CU_STREAM_LEGACY);
        free(&sim, memory, s);
        destroy(&sim, created);
        assert_eq!(sim.dangers().len(), usize::from(is_ordered));
    }
}

#[test]
fn the_last_free_of_a_destroyed_pool_is_too_early_as_well() {
    let (sim, _) = sim_with_context();
    let (created, s) = (pool(&sim), stream(&sim, BLOCKING));
    let memory = allocate(&sim, created, s);
    fill(&sim, memory, s);
    destroy(&sim, created);
    assert_eq!(sim.dangers(), []);
    free(&sim, memory, s);
    wait(&sim, s);
    let calls = [Call::cuMemAllocFromPoolAsync, Call::cuMemFreeAsync, Call::cuStreamSynchronize];
    assert_ended_busy(&sim, &calls);
}

#[test]
fn the_stream_that_frees_may_not_be_waited_for_and_the_one_that_works_may() {
    let (sim, _) = sim_with_context();
    let created = pool(&sim);
    let [works, frees] = [(); 2].map(|()| stream(&sim, NON_BLOCKING));
    let memory = allocate(&sim, created, works);
    fill(&sim, memory, works);
    call!(sim, cuStreamWaitEvent(frees, recorded(&sim, works), 0)).unwrap();
    free(&sim, memory, frees);
    destroy(&sim, created);
    wait(&sim, works);
    assert_clean(&sim);
    wait(&sim, frees);
    assert_ended_busy(&sim, &[&EARLY[..], &[Call::cuStreamSynchronize]].concat());
}

#[test]
fn a_stream_that_is_destroyed_or_never_waited_for_does_no_harm() {
    let (sim, _) = sim_with_context();
    let [gone, left, other] = [(); 3].map(|()| stream(&sim, NON_BLOCKING));
    ended_early(&sim, gone);
    ended_early(&sim, left);
    assert_eq!(sim.dangers().len(), 2);
    call!(sim, cuStreamDestroy_v2(gone)).unwrap();
    let memory: CUdeviceptr = get!(sim, cuMemAllocAsync(out, BYTES, other)).unwrap();
    fill(&sim, memory, other);
    wait(&sim, other);
    call!(sim, cuStreamDestroy_v2(left)).unwrap();
    call!(sim, cuCtxSynchronize()).unwrap();
    assert_clean(&sim);
    assert_eq!(sim.dangers().len(), 2, "though it might have");
}

#[test]
fn waiting_before_the_free_or_before_the_destroy_is_in_time() {
    for s in [None, Some(BLOCKING), Some(NON_BLOCKING)] {
        let (sim, _) = sim_with_context();
        let s = s.map_or(CU_STREAM_LEGACY, |flags| stream(&sim, flags));
        let (before_free, before_destroy, after_destroy) = (pool(&sim), pool(&sim), pool(&sim));

        let memory = allocate(&sim, before_free, s);
        fill(&sim, memory, s);
        wait(&sim, s);
        free(&sim, memory, s);
        destroy(&sim, before_free);

        let memory = allocate(&sim, before_destroy, s);
        fill(&sim, memory, s);
        let worked = recorded(&sim, s);
        free(&sim, memory, s);
        call!(sim, cuEventSynchronize(worked)).unwrap();
        destroy(&sim, before_destroy);

        let memory = allocate(&sim, after_destroy, s);
        fill(&sim, memory, s);
        destroy(&sim, after_destroy);
        wait(&sim, s);
        free(&sim, memory, s);
        assert_eq!(sim.dangers(), []);
        wait(&sim, s);
        assert_clean(&sim);
    }
}

#[test]
fn a_device_s_default_pool_may_have_work_pending_as_it_never_ends() {
    let (sim, _) = sim_with_context();
    let memory: CUdeviceptr = get!(sim, cuMemAllocAsync(out, BYTES, CU_STREAM_LEGACY)).unwrap();
    fill(&sim, memory, CU_STREAM_LEGACY);
    free(&sim, memory, CU_STREAM_LEGACY);
    wait(&sim, CU_STREAM_LEGACY);
    assert_clean(&sim);
}

#[test]
fn many_frees_behind_nothing_are_each_looked_at_once() {
    let (sim, _) = sim_with_context();
    let (created, s) = (pool(&sim), stream(&sim, NON_BLOCKING));
    for _ in 0..20_000 {
        let memory = allocate(&sim, created, s);
        free(&sim, memory, s);
    }
    fill(&sim, allocate(&sim, created, s), s);
    free(&sim, allocate(&sim, created, s), s);
    destroy(&sim, created);
    assert_eq!(sim.dangers().len(), 1);
}
