//! Values in memory that streams write and wait for.

use cuhold_driver_sim::{
    Sim, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use crate::{
    ask::{
        Asked, BLOCKING, NON_BLOCKING, Runs, assert_clean, call, context, get, kinds,
        sim_with_context, stream,
    },
    page_locked::host_alloc,
};

const GEQ: c_uint = 0;
const EQ: c_uint = 1;

/// Zeroed device memory.
fn memory(sim: &Sim) -> CUdeviceptr {
    let memory = get!(sim, cuMemAlloc_v2(out, 64)).unwrap();
    call!(sim, cuMemsetD32_v2(memory, 0, 16)).unwrap();
    call!(sim, cuCtxSynchronize()).unwrap();
    memory
}

fn read(sim: &Sim, address: CUdeviceptr) -> u64 {
    let mut value = 0_u64;
    call!(sim, cuMemcpyDtoH_v2((&raw mut value).cast(), address, 8)).unwrap();
    value
}

#[test]
fn a_write_takes_its_place_in_the_stream() {
    let (sim, _) = sim_with_context();
    let (memory, stream) = (memory(&sim), stream(&sim, NON_BLOCKING));
    call!(sim, cuStreamWriteValue32_v2(stream, memory, 7, 0)).unwrap();
    assert_eq!(read(&sim, memory), 0);
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, memory), 7);
    call!(sim, cuStreamWriteValue64_v2(stream, memory, u64::MAX - 1, 0)).unwrap();
    call!(sim, cuStreamWriteValue32_v2(stream, memory, 1, 0)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, memory), 0xffff_ffff_0000_0001);
    assert_clean(&sim);
}

#[test]
fn a_wait_holds_its_stream_up_until_another_stream_has_written() {
    let (sim, _) = sim_with_context();
    let (a, b) = (stream(&sim, NON_BLOCKING), stream(&sim, NON_BLOCKING));
    let (memory, runs) = (memory(&sim), Runs::default());
    call!(sim, cuStreamWaitValue32_v2(a, memory, 3, GEQ)).unwrap();
    runs.queue(&sim, a).unwrap();
    sim.run_all();
    assert_eq!((runs.count(), sim.pending()), (0, 2));
    assert!(!sim.stream_step(a));
    assert_eq!(call!(sim, cuStreamQuery(a)), Err(CUresult::NOT_READY));
    call!(sim, cuStreamWriteValue32_v2(b, memory, 2, 0)).unwrap();
    sim.run_all();
    assert_eq!(runs.count(), 0);
    call!(sim, cuStreamWriteValue32_v2(b, memory, 4, 0)).unwrap();
    call!(sim, cuStreamSynchronize(a)).unwrap();
    assert_eq!((runs.count(), sim.pending()), (1, 0));
    assert_clean(&sim);
}

#[test]
fn a_context_is_done_once_its_waits_are_over() {
    let (sim, _) = sim_with_context();
    let (a, b) = (stream(&sim, NON_BLOCKING), stream(&sim, BLOCKING));
    let memory = memory(&sim);
    call!(sim, cuStreamWaitValue64_v2(a, memory + 8, 1 << 40, EQ)).unwrap();
    call!(sim, cuStreamWriteValue32_v2(a, memory, 9, 0)).unwrap();
    call!(sim, cuStreamWaitValue32_v2(b, memory, 9, EQ)).unwrap();
    let other = context(&sim);
    let c = stream(&sim, NON_BLOCKING);
    call!(sim, cuStreamWriteValue64_v2(c, memory + 8, 1 << 40, 0)).unwrap();
    call!(sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
    call!(sim, cuCtxSynchronize()).unwrap();
    assert_eq!(sim.pending(), 0);
    call!(sim, cuCtxDestroy_v2(other)).unwrap();
    assert_clean(&sim);
}

#[test]
fn the_host_writes_what_a_stream_waits_for() {
    let (sim, _) = sim_with_context();
    let stream = stream(&sim, NON_BLOCKING);
    let word = host_alloc(&sim, 4, CU_MEMHOSTALLOC_DEVICEMAP).unwrap();
    call!(sim, cuStreamWaitValue32_v2(stream, word.addr() as u64, 1, EQ)).unwrap();
    // SAFETY: 4 aligned bytes of page-locked memory, which live until the end of this test.
    let place = unsafe { AtomicU32::from_ptr(word.cast()) };
    thread::scope(|scope| {
        scope.spawn(|| call!(sim, cuStreamSynchronize(stream)).unwrap());
        place.store(1, Ordering::Release);
    });
    call!(sim, cuStreamWriteValue32_v2(stream, word.addr() as u64, 5, 0)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(place.load(Ordering::Acquire), 5);
    assert_clean(&sim);
}

#[test]
fn values_have_a_place_and_flags_are_known() {
    let (sim, _) = sim_with_context();
    let (memory, stream) = (memory(&sim), stream(&sim, NON_BLOCKING));
    let managed = get!(sim, cuMemAllocManaged(out, 64, 1)).unwrap();
    let wait = |address, flags| call!(sim, cuStreamWaitValue32_v2(stream, address, 0, flags));
    let write = |address, flags| call!(sim, cuStreamWriteValue64_v2(stream, address, 0, flags));
    for address in [0, memory + 2, managed] {
        assert_eq!(wait(address, EQ), Err(CUresult::INVALID_VALUE), "{address:#x}");
        assert_eq!(write(address, 0), Err(CUresult::INVALID_VALUE), "{address:#x}");
    }
    assert_eq!(write(memory + 4, 0), Err(CUresult::INVALID_VALUE));
    assert_eq!(wait(memory, 4), Err(CUresult::INVALID_VALUE));
    assert_eq!(write(memory, 1), Err(CUresult::INVALID_VALUE));
    assert_eq!(wait(memory, EQ | 1 << 30), Err(CUresult::NOT_SUPPORTED));
    assert_clean(&sim);
    assert_eq!(wait(memory + 64, EQ), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::UnknownHandle]);
    assert_eq!(sim.pending(), 0);
}

/// An operation of a batch.
fn operation(kind: c_uint, address: CUdeviceptr, value: u64) -> CUstreamBatchMemOpParams {
    let mut operation = CUstreamBatchMemOpParams::default();
    operation.writeValue = CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st {
        operation: CUstreamBatchMemOpType(kind),
        address,
        ..Default::default()
    };
    operation.writeValue.__bindgen_anon_1.value64 = value;
    operation
}

fn batch(sim: &Sim, stream: CUstream, operations: &mut [CUstreamBatchMemOpParams]) -> Asked<()> {
    let count = operations.len().try_into().unwrap_or(c_uint::MAX);
    call!(sim, cuStreamBatchMemOp_v2(stream, count, operations.as_mut_ptr(), 0))
}

#[test]
fn a_batch_is_done_in_its_order_or_not_at_all() {
    const WAIT_32: c_uint = 1;
    const WRITE_32: c_uint = 2;
    const WRITE_64: c_uint = 5;
    const BARRIER: c_uint = 6;
    let (sim, _) = sim_with_context();
    let (memory, stream) = (memory(&sim), stream(&sim, NON_BLOCKING));
    let write = operation(WRITE_32, memory, 0xffff_0000_0002);
    let wait = operation(WAIT_32, memory, 2);
    let wide = operation(WRITE_64, memory + 8, 1 << 32);
    let barrier = operation(BARRIER, 0, 0);
    batch(&sim, stream, &mut [write, barrier, wait, wide]).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!((read(&sim, memory), read(&sim, memory + 8)), (2, 1 << 32));
    let bad = operation(99, memory, 0);
    let again = operation(WRITE_32, memory, 5);
    assert_eq!(batch(&sim, stream, &mut [again, bad]), Err(CUresult::INVALID_VALUE));
    assert_eq!(batch(&sim, stream, &mut []), Err(CUresult::INVALID_VALUE));
    assert_eq!(batch(&sim, stream, &mut vec![again; 256]), Err(CUresult::INVALID_VALUE));
    let (flush, reduction) = (operation(3, memory, 0), operation(8, memory, 0));
    assert_eq!(batch(&sim, stream, &mut [again, flush]), Err(CUresult::NOT_SUPPORTED));
    assert_eq!(batch(&sim, stream, &mut [again, reduction]), Err(CUresult::MISSING));
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, memory), 2);
    batch(&sim, stream, &mut vec![again; 255]).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, memory), 5);
    assert_clean(&sim);
}

#[test]
fn a_captured_batch_is_one_node_and_does_nothing_by_itself() {
    let (sim, _) = sim_with_context();
    let (memory, stream) = (memory(&sim), stream(&sim, NON_BLOCKING));
    call!(sim, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(0))).unwrap();
    let write = operation(2, memory, 3);
    batch(&sim, stream, &mut [write, write]).unwrap();
    let graph: CUgraph = get!(sim, cuStreamEndCapture(stream, out)).unwrap();
    let (mut nodes, mut count) = ([CUgraphNode::NULL; 4], 4);
    call!(sim, cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count)).unwrap();
    let [node, ..] = nodes;
    let mut kind = CUgraphNodeType(99);
    call!(sim, cuGraphNodeGetType(node, &raw mut kind)).unwrap();
    assert_eq!((count, kind), (1, CUgraphNodeType::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP));
    assert_eq!(read(&sim, memory), 0);
    call!(sim, cuGraphDestroy(graph)).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_wait_for_memory_that_was_freed_is_a_violation_and_a_fault() {
    let (sim, _) = sim_with_context();
    context(&sim);
    let memory = memory(&sim);
    let other = context(&sim);
    let stream = stream(&sim, NON_BLOCKING);
    call!(sim, cuStreamWaitValue32_v2(stream, memory, 1, EQ)).unwrap();
    // A free waits for the context that owns the memory alone.
    call!(sim, cuMemFree_v2(memory)).unwrap();
    assert_clean(&sim);
    assert_eq!(call!(sim, cuStreamSynchronize(stream)), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::UseAfterDestroy]);
    assert_eq!(crate::ask::current(&sim), other);
}
