//! Memory that graphs allocate.

use cuhold_driver_sim::{
    Sim,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::{
    ask::{Asked, NON_BLOCKING, assert_clean, call, get, stream},
    graph_exec::{captured, instantiate},
    graph_kit::{
        child, copy, copy_params, empty, fill, fill_params, graph, launch, memory, run, seeded,
        words,
    },
};

const VALUE: Asked<()> = Err(CUresult::INVALID_VALUE);
const UNSUPPORTED: Asked<()> = Err(CUresult::NOT_SUPPORTED);

fn props() -> CUmemPoolProps {
    CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        location: CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            ..CUmemLocation::default()
        },
        ..CUmemPoolProps::default()
    }
}

/// A node that allocates on device 0, and the address.
pub(crate) fn alloc(
    sim: &Sim,
    graph: CUgraph,
    after: &[CUgraphNode],
    bytes: usize,
) -> Asked<(CUgraphNode, CUdeviceptr)> {
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps: props(),
        bytesize: bytes,
        ..CUDA_MEM_ALLOC_NODE_PARAMS::default()
    };
    let (list, count) = (after.as_ptr(), after.len());
    let node = get!(sim, cuGraphAddMemAllocNode(out, graph, list, count, &raw mut params))?;
    Ok((node, params.dptr))
}

pub(crate) fn free(
    sim: &Sim,
    graph: CUgraph,
    after: &[CUgraphNode],
    address: CUdeviceptr,
) -> Asked<CUgraphNode> {
    get!(sim, cuGraphAddMemFreeNode(out, graph, after.as_ptr(), after.len(), address))
}

#[test]
fn memory_is_used_by_nodes_between_the_one_that_allocates_and_the_one_that_frees() {
    let (sim, _) = seeded(1);
    let seen = memory(&sim, 2);
    let g = graph(&sim);
    let (made, at) = alloc(&sim, g, &[], 8).unwrap();
    let filled = fill(&sim, g, &[made], fill_params(at, 5, 2)).unwrap();
    let copied = copy(&sim, g, &[filled], copy_params(seen, at, 8)).unwrap();
    let freed = free(&sim, g, &[copied], at).unwrap();
    let told: CUdeviceptr = get!(sim, cuGraphMemFreeNodeGetParams(freed, out)).unwrap();
    let mut params = CUDA_MEM_ALLOC_NODE_PARAMS::default();
    call!(sim, cuGraphMemAllocNodeGetParams(made, &raw mut params)).unwrap();
    assert_eq!((told, params.dptr, params.bytesize), (at, at, 8));
    let exec = run(&sim, g);
    launch(&sim, exec).unwrap();
    assert_eq!(words(&sim, seen), [5, 5]);
    // It isn't there for the world outside.
    assert_eq!(call!(sim, cuMemcpyDtoD_v2(seen, at, 8)), VALUE);
    assert_eq!(call!(sim, cuMemFree_v2(at)), VALUE);
    assert_clean(&sim);
}

#[test]
fn memory_that_a_graph_leaves_is_the_caller_s_until_it_is_freed_and_then_launched_again() {
    let (sim, _) = seeded(1);
    let (g, s, seen) = (graph(&sim), stream(&sim, NON_BLOCKING), memory(&sim, 1));
    let (made, at) = alloc(&sim, g, &[], 4).unwrap();
    fill(&sim, g, &[made], fill_params(at, 3, 1)).unwrap();
    let exec = instantiate(&sim, g).unwrap();
    assert_eq!(call!(sim, cuMemFreeAsync(at, s)), VALUE, "never launched");
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    assert_eq!(call!(sim, cuGraphLaunch(exec, s)), VALUE, "not freed");
    call!(sim, cuMemcpyDtoDAsync_v2(seen, at, 4, s)).unwrap();
    call!(sim, cuMemFreeAsync(at, s)).unwrap();
    assert_eq!(call!(sim, cuMemFreeAsync(at, s)), VALUE, "freed before");
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    call!(sim, cuMemFree_v2(at)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_eq!(words(&sim, seen), [3]);
    assert_clean(&sim);
}

#[test]
fn an_executable_that_frees_first_is_launched_again_and_again() {
    let (sim, _) = seeded(1);
    let g = graph(&sim);
    let (_, at) = alloc(&sim, g, &[], 4).unwrap();
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS { flags: 1, ..Default::default() };
    let exec: CUgraphExec =
        get!(sim, cuGraphInstantiateWithParams(out, g, &raw mut params)).unwrap();
    for _ in 0..3 {
        launch(&sim, exec).unwrap();
    }
    call!(sim, cuGraphExecDestroy(exec)).unwrap();
    call!(sim, cuGraphDestroy(g)).unwrap();
    // It outlives both until it is freed.
    call!(sim, cuMemFree_v2(at)).unwrap();
    assert_clean(&sim);
}

#[test]
fn another_graph_may_free_what_a_graph_left() {
    let (sim, _) = seeded(1);
    let (making, freeing) = (graph(&sim), graph(&sim));
    let (_, at) = alloc(&sim, making, &[], 4).unwrap();
    free(&sim, freeing, &[], at).unwrap();
    let (making, freeing) =
        (instantiate(&sim, making).unwrap(), instantiate(&sim, freeing).unwrap());
    assert_eq!(launch(&sim, freeing), VALUE, "nothing is there");
    for _ in 0..2 {
        launch(&sim, making).unwrap();
        launch(&sim, freeing).unwrap();
    }
    assert_clean(&sim);
}

#[test]
fn graphs_with_memory_are_not_copied_lose_no_nodes_and_have_one_executable() {
    let (sim, _) = seeded(1);
    let (g, outer) = (graph(&sim), graph(&sim));
    let (made, at) = alloc(&sim, g, &[], 4).unwrap();
    let other = empty(&sim, g, &[made]).unwrap();
    let clone: Asked<CUgraph> = get!(sim, cuGraphClone(out, g));
    assert_eq!(clone.map(|_| ()), UNSUPPORTED);
    assert_eq!(child(&sim, outer, &[], g).map(|_| ()), UNSUPPORTED);
    assert_eq!(call!(sim, cuGraphDestroyNode(made)), UNSUPPORTED);
    assert_eq!(call!(sim, cuGraphDestroyNode(other)), UNSUPPORTED);
    let edge = call!(sim, cuGraphRemoveDependencies(g, &raw const made, &raw const other, 1));
    assert_eq!(edge, UNSUPPORTED);
    let exec = instantiate(&sim, g).unwrap();
    assert_eq!(instantiate(&sim, g).map(|_| ()), UNSUPPORTED);
    assert_eq!(free(&sim, g, &[], at).map(|_| ()), VALUE, "it was made executable");
    call!(sim, cuGraphExecDestroy(exec)).unwrap();
    assert_eq!(free(&sim, g, &[made], at).map(|_| ()), VALUE, "it was");
    let g = graph(&sim);
    let (made, at) = alloc(&sim, g, &[], 4).unwrap();
    free(&sim, g, &[made], at).unwrap();
    assert_eq!(free(&sim, g, &[made], at).map(|_| ()), VALUE, "twice");
    assert_eq!(free(&sim, g, &[], 64).map(|_| ()), VALUE, "no graph's memory");
    assert_eq!(alloc(&sim, g, &[], 0).map(|_| ()), VALUE);
    assert_clean(&sim);
}

#[test]
fn a_device_counts_what_graphs_have_out_and_what_is_kept_for_them() {
    let (sim, _) = seeded(1);
    let count = |attribute: u32| {
        let mut value = 0_u64;
        let at = (&raw mut value).cast();
        call!(sim, cuDeviceGetGraphMemAttribute(0, CUgraphMem_attribute(attribute), at)).unwrap();
        value
    };
    let g = graph(&sim);
    let (_, at) = alloc(&sim, g, &[], 100).unwrap();
    assert_eq!([0, 1, 2, 3].map(count), [0; 4]);
    run(&sim, g);
    assert_eq!([0, 1].map(count), [100, 100]);
    let reserved = count(2);
    assert!(reserved >= 100);
    call!(sim, cuMemFree_v2(at)).unwrap();
    assert_eq!([0, 1, 2].map(count), [0, 100, reserved]);
    call!(sim, cuDeviceGraphMemTrim(0)).unwrap();
    let mut zero = 0_u64;
    let high = CUgraphMem_attribute(1);
    call!(sim, cuDeviceSetGraphMemAttribute(0, high, (&raw mut zero).cast())).unwrap();
    assert_eq!([0, 1, 2, 3].map(count), [0, 0, 0, reserved]);
    assert_clean(&sim);
}

#[test]
fn memory_that_was_captured_is_the_graph_s() {
    let (sim, _) = seeded(1);
    let (s, seen) = (stream(&sim, NON_BLOCKING), memory(&sim, 1));
    let mut at = 0;
    let g = captured(&sim, s, || {
        at = get!(sim, cuMemAllocAsync(out, 4, s)).unwrap();
        call!(sim, cuMemsetD32Async(at, 4, 1, s)).unwrap();
        call!(sim, cuMemcpyDtoDAsync_v2(seen, at, 4, s)).unwrap();
        call!(sim, cuMemFreeAsync(at, s)).unwrap();
        assert_eq!(call!(sim, cuMemFreeAsync(at, s)), VALUE, "twice");
    });
    run(&sim, g);
    assert_eq!((words(&sim, seen), call!(sim, cuMemFreeAsync(at, s))), ([4], VALUE));
    assert_clean(&sim);
}
