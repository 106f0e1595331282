//! Pools that are destroyed while work of a default stream on their memory is pending.

use cuhold_driver_sim::{
    Sim, ViolationKind,
    cuhold_driver_sys::{Call, DriverApi as _, ffi::*},
};

use crate::ask::{BLOCKING, NON_BLOCKING, assert_clean, call, get, sim_with_context, stream};

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

#[track_caller]
fn assert_ended_busy(sim: &Sim, by: &[Call]) {
    let violations = sim.take_violations();
    assert_eq!(violations.len(), 1, "{violations:#?}");
    let found = violations.first().unwrap();
    assert_eq!(found.kind, ViolationKind::PoolEndedBusy);
    assert_eq!(found.calls.iter().map(|site| site.call).collect::<Vec<_>>(), by);
    assert!(found.to_string().contains("wait for it before the memory is freed"), "{found}");
}

#[test]
fn a_pool_ends_too_early_for_a_default_stream_that_works_on_what_was_freed() {
    for default in [CUstream::NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD] {
        let (sim, _) = sim_with_context();
        let created = pool(&sim);
        let memory = allocate(&sim, created, default);
        fill(&sim, memory, default);
        free(&sim, memory, default);
        assert_clean(&sim);
        destroy(&sim, created);
        let calls = [Call::cuMemAllocFromPoolAsync, Call::cuMemsetD8Async, Call::cuMemPoolDestroy];
        assert_ended_busy(&sim, &calls);
    }
}

#[test]
fn allocating_and_freeing_alone_is_no_work() {
    let (sim, _) = sim_with_context();
    let created = pool(&sim);
    let both = [(); 2].map(|()| allocate(&sim, created, CU_STREAM_LEGACY));
    for memory in both {
        free(&sim, memory, CU_STREAM_LEGACY);
    }
    destroy(&sim, created);
    assert_clean(&sim);
}

#[test]
fn a_graph_s_launch_counts_as_work_on_what_was_allocated_before_it() {
    let (sim, _) = sim_with_context();
    let (created, later) = (pool(&sim), pool(&sim));
    let graph: CUgraph = get!(sim, cuGraphCreate(out, 0)).unwrap();
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS::default();
    let exec: CUgraphExec =
        get!(sim, cuGraphInstantiateWithParams(out, graph, &raw mut params)).unwrap();
    let s = stream(&sim, BLOCKING);
    fill(&sim, allocate(&sim, created, s), s);
    let memory = allocate(&sim, created, CU_STREAM_LEGACY);
    call!(sim, cuGraphLaunch(exec, CU_STREAM_LEGACY)).unwrap();
    let younger = allocate(&sim, later, CU_STREAM_LEGACY);
    free(&sim, younger, CU_STREAM_LEGACY);
    destroy(&sim, later);
    assert_clean(&sim);
    free(&sim, memory, CU_STREAM_LEGACY);
    destroy(&sim, created);
    let calls = [Call::cuMemAllocFromPoolAsync, Call::cuGraphLaunch, Call::cuMemPoolDestroy];
    assert_ended_busy(&sim, &calls);
}

#[test]
fn the_last_free_of_a_destroyed_pool_is_too_early_as_well() {
    let (sim, _) = sim_with_context();
    let created = pool(&sim);
    let memory = allocate(&sim, created, CU_STREAM_LEGACY);
    fill(&sim, memory, CU_STREAM_LEGACY);
    destroy(&sim, created);
    assert_clean(&sim);
    free(&sim, memory, CU_STREAM_LEGACY);
    let calls = [Call::cuMemAllocFromPoolAsync, Call::cuMemsetD8Async, Call::cuMemFreeAsync];
    assert_ended_busy(&sim, &calls);
}

#[test]
fn a_free_that_does_not_wait_for_the_stream_is_too_early_as_well() {
    let (sim, _) = sim_with_context();
    let created = pool(&sim);
    let memory = allocate(&sim, created, CU_STREAM_LEGACY);
    fill(&sim, memory, CU_STREAM_LEGACY);
    call!(sim, cuMemFree_v2(memory)).unwrap();
    destroy(&sim, created);
    let calls = [Call::cuMemAllocFromPoolAsync, Call::cuMemsetD8Async, Call::cuMemPoolDestroy];
    assert_ended_busy(&sim, &calls);
}

#[test]
fn waiting_before_the_free_or_before_the_destroy_is_in_time() {
    let (sim, _) = sim_with_context();
    let (before_free, before_destroy, after_destroy) = (pool(&sim), pool(&sim), pool(&sim));

    let memory = allocate(&sim, before_free, CU_STREAM_LEGACY);
    fill(&sim, memory, CU_STREAM_LEGACY);
    wait(&sim, CU_STREAM_LEGACY);
    free(&sim, memory, CU_STREAM_LEGACY);
    destroy(&sim, before_free);

    let memory = allocate(&sim, before_destroy, CU_STREAM_LEGACY);
    fill(&sim, memory, CU_STREAM_LEGACY);
    free(&sim, memory, CU_STREAM_LEGACY);
    wait(&sim, CU_STREAM_LEGACY);
    destroy(&sim, before_destroy);

    let memory = allocate(&sim, after_destroy, CU_STREAM_LEGACY);
    fill(&sim, memory, CU_STREAM_LEGACY);
    destroy(&sim, after_destroy);
    wait(&sim, CU_STREAM_LEGACY);
    free(&sim, memory, CU_STREAM_LEGACY);
    assert_clean(&sim);
}

#[test]
fn work_of_a_created_stream_may_go_on_when_its_pool_ends() {
    for flags in [BLOCKING, NON_BLOCKING] {
        let (sim, _) = sim_with_context();
        let (created, stream) = (pool(&sim), stream(&sim, flags));
        let memory = allocate(&sim, created, stream);
        fill(&sim, memory, stream);
        free(&sim, memory, stream);
        destroy(&sim, created);
        wait(&sim, stream);
        assert_clean(&sim);
    }
}

#[test]
fn work_of_a_default_stream_on_memory_of_a_created_stream_counts_and_other_work_does_not() {
    let (sim, _) = sim_with_context();
    let (one, other, stream) = (pool(&sim), pool(&sim), stream(&sim, NON_BLOCKING));
    let (mine, theirs) = (allocate(&sim, one, stream), allocate(&sim, other, stream));
    fill(&sim, theirs, CU_STREAM_LEGACY);
    free(&sim, mine, stream);
    destroy(&sim, one);
    assert_clean(&sim);
    free(&sim, theirs, stream);
    destroy(&sim, other);
    let calls = [Call::cuMemAllocFromPoolAsync, Call::cuMemsetD8Async, Call::cuMemPoolDestroy];
    assert_ended_busy(&sim, &calls);
}

#[test]
fn a_copy_of_a_default_stream_counts_for_both_of_its_pools() {
    let (sim, _) = sim_with_context();
    let (one, other, stream) = (pool(&sim), pool(&sim), stream(&sim, NON_BLOCKING));
    let (from, to) = (allocate(&sim, one, stream), allocate(&sim, other, stream));
    call!(sim, cuMemcpyDtoDAsync_v2(to, from, BYTES, CU_STREAM_PER_THREAD)).unwrap();
    for (memory, pool) in [(from, one), (to, other)] {
        free(&sim, memory, stream);
        destroy(&sim, pool);
        let copy = Call::cuMemcpyDtoDAsync_v2;
        assert_ended_busy(&sim, &[Call::cuMemAllocFromPoolAsync, copy, Call::cuMemPoolDestroy]);
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
