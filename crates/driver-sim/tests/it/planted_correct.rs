//! Correct programs that look wrong. Each leaves its ordering call out when it is asked to, and marks the two operations
//! that are unordered then.

use cuhold_driver_sim::cuhold_driver_sys::{DriverApi as _, ffi::*};

use crate::{
    ask::{Asked, BLOCKING, NON_BLOCKING, Runs, call, event, get, stream},
    graph_conditional::{condition, conditional},
    graph_exec::instantiate,
    graph_kit::{copy, copy_params, fill, fill_params, graph},
    planted::{Program, Stage, launch},
    virtual_memory::{BYTES, allow, physical, reserve},
};

pub(crate) const CORRECT: &[Program] = &[
    ("memory is freed on another stream, which waits for its use", freed_elsewhere),
    ("a blocking stream relies on the default stream's order", blocking_stream),
    ("pool memory is recycled in its stream's order, and then used on another", recycled),
    ("an event is waited for after its stream's end", stream_ended_before_the_wait),
    ("two streams fill columns of the same rows", columns),
    ("one stream's work is known to a third through a second", through_a_second),
    ("memory is freed after a query said that its work is done", asked_until_done),
    ("a host function says that a copy is done", told_by_a_host_function),
    ("branches of a graph write different halves, which a node behind both reads", branches),
    ("a value in memory holds a stream up until another has written it", held_up_by_a_value),
    ("another process's event is waited for", other_process_waited_for),
    ("a loop in a graph writes the same bytes again and again", loop_in_a_graph),
    ("two kernels count in one word, and a third reads it", atomic_counters),
    ("one executable is launched on two streams by turns", launched_by_turns),
    ("one physical allocation is used through two mappings", two_mappings),
    ("a stream waits for all work of a context", whole_context),
    ("page-locked memory is uploaded from twice, and filled in between", staging_used_twice),
    ("memory that a graph leaves is used and freed on a stream", graph_memory_outside),
];

fn freed_elsewhere(stage: &Stage) {
    let (sim, s, t) = (&stage.sim, stage.stream(), stage.stream());
    let memory: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, s)).unwrap();
    stage.mark(stage.launch("store", memory, s));
    stage.order(|| stage.wait(t, s));
    stage.mark(call!(sim, cuMemFreeAsync(memory, t)));
}

fn blocking_stream(stage: &Stage) {
    let (sim, memory) = (&stage.sim, stage.memory(64));
    let s = stream(sim, stage.choose(BLOCKING, NON_BLOCKING));
    stage.mark(call!(sim, cuMemsetD32_v2(memory, 0, 16)));
    stage.mark(stage.launch("store", memory, s));
    // And back: of a blocking stream that is gone, too.
    if stage.choose(true, false) {
        call!(sim, cuStreamDestroy_v2(s)).unwrap();
        stage.launch("load", memory, CU_STREAM_LEGACY).unwrap();
    }
}

fn recycled(stage: &Stage) {
    let (sim, s, t) = (&stage.sim, stage.stream(), stage.stream());
    for _ in 0..3 {
        let memory: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, s)).unwrap();
        stage.launch("store", memory, s).unwrap();
        call!(sim, cuMemFreeAsync(memory, s)).unwrap();
        stage.may_run();
    }
    let memory: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, s)).unwrap();
    stage.mark(stage.launch("store", memory, s));
    stage.order(|| stage.wait(t, s));
    stage.mark(stage.launch("load", memory, t));
    stage.wait(s, t);
    call!(sim, cuMemFreeAsync(memory, s)).unwrap();
}

fn stream_ended_before_the_wait(stage: &Stage) {
    let (sim, memory, s, t) = (&stage.sim, stage.memory(64), stage.stream(), stage.stream());
    let e = event(sim);
    stage.mark(stage.fill(memory, 16, s));
    call!(sim, cuEventRecord(e, s)).unwrap();
    call!(sim, cuStreamDestroy_v2(s)).unwrap();
    stage.may_run();
    stage.order(|| call!(sim, cuStreamWaitEvent(t, e, 0)).unwrap());
    call!(sim, cuEventDestroy_v2(e)).unwrap();
    stage.mark(stage.launch("load", memory, t));
}

/// Fills 16 bytes in each of some rows that are 64 bytes apart.
pub(crate) fn fill_column(stage: &Stage, to: CUdeviceptr, rows: usize, s: CUstream) -> Asked<()> {
    call!(stage.sim, cuMemsetD2D8Async(to, 64, 1, 16, rows, s))
}

fn columns(stage: &Stage) {
    let (memory, s, t, u) = (stage.memory(1024), stage.stream(), stage.stream(), stage.stream());
    stage.mark(fill_column(stage, memory, 16, s));
    fill_column(stage, memory + 16, 16, t).unwrap();
    stage.may_run();
    stage.order(|| stage.wait(u, s));
    stage.wait(u, t);
    stage.mark(call!(stage.sim, cuMemcpyDtoDAsync_v2(stage.memory(1024), memory, 1024, u)));
}

fn through_a_second(stage: &Stage) {
    let (memory, s, t, u) = (stage.memory(64), stage.stream(), stage.stream(), stage.stream());
    stage.mark(stage.fill(memory, 16, s));
    stage.order(|| stage.wait(t, s));
    stage.wait(u, t);
    stage.mark(stage.launch("load", memory, u));
}

fn asked_until_done(stage: &Stage) {
    let (sim, memory) = (&stage.sim, stage.memory(64));
    call!(sim, cuCtxPushCurrent_v2(stage.context())).unwrap();
    let s = stage.stream();
    stage.mark(stage.launch("store", memory, s));
    stage.order(|| {
        while call!(sim, cuStreamQuery(s)) == Err(CUresult::NOT_READY) {
            sim.stream_step(s);
        }
    });
    call!(sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
    stage.mark(call!(sim, cuMemFree_v2(memory)));
}

fn told_by_a_host_function(stage: &Stage) {
    let (sim, host) = (&stage.sim, stage.host(64));
    call!(sim, cuCtxPushCurrent_v2(stage.context())).unwrap();
    let (s, memory, runs) = (stage.stream(), stage.memory(64), Runs::default());
    stage.mark(call!(sim, cuMemcpyDtoHAsync_v2(host, memory, 64, s)));
    stage.order(|| runs.queue(sim, s).unwrap());
    // The program looks at what its function counts; nothing else tells it.
    sim.run_all();
    call!(sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
    stage.mark(call!(sim, cuMemFreeHost(host)));
}

fn branches(stage: &Stage) {
    let (sim, memory, seen) = (&stage.sim, stage.memory(64), stage.memory(64));
    let g = graph(sim);
    let one = fill(sim, g, &[], fill_params(memory, 5, 8)).unwrap();
    stage.mark(Ok(()));
    let other = fill(sim, g, &[], fill_params(memory + 32, 6, 8)).unwrap();
    let both = [one, other];
    let after: &[CUgraphNode] = stage.choose(&both, &both[1..]);
    copy(sim, g, after, copy_params(seen, memory, 64)).unwrap();
    stage.mark(Ok(()));
    let (exec, s) = (instantiate(sim, g).unwrap(), stage.stream());
    for _ in 0..2 {
        call!(sim, cuGraphLaunch(exec, s)).unwrap();
        stage.may_run();
    }
    stage.launch("load", seen, s).unwrap();
}

fn held_up_by_a_value(stage: &Stage) {
    let (sim, memory, flag) = (&stage.sim, stage.memory(64), stage.memory(4));
    let (s, t) = (stage.stream(), stage.stream());
    call!(sim, cuMemsetD32Async(flag, 0, 1, s)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
    // Put on before what it waits for.
    stage.order(|| call!(sim, cuStreamWaitValue32_v2(t, flag, 1, 1)).unwrap());
    stage.mark(stage.launch("load", memory, t));
    stage.mark(stage.fill(memory, 16, s));
    call!(sim, cuStreamWriteValue32_v2(s, flag, 1, 0)).unwrap();
}

fn other_process_waited_for(stage: &Stage) {
    const FLAGS: c_uint = 2 | 4;
    let (here, there) = (&stage.sim, stage.other_process());
    let memory = stage.memory(64);
    let handle: CUipcMemHandle = get!(here, cuIpcGetMemHandle(out, memory)).unwrap();
    let opened: CUdeviceptr = get!(there, cuIpcOpenMemHandle_v2(out, handle, 1)).unwrap();
    let e: CUevent = get!(here, cuEventCreate(out, FLAGS)).unwrap();
    let name: CUipcEventHandle = get!(here, cuIpcGetEventHandle(out, e)).unwrap();
    let theirs: CUevent = get!(there, cuIpcOpenEventHandle(out, name)).unwrap();
    let (s, t) = (stage.stream(), stream(&there, NON_BLOCKING));
    stage.mark(stage.fill(memory, 16, s));
    call!(here, cuEventRecord(e, s)).unwrap();
    stage.may_run();
    stage.order(|| call!(there, cuStreamWaitEvent(t, theirs, 0)).unwrap());
    stage.mark_of(&there, launch(&there, "load", opened, t));
    call!(there, cuStreamSynchronize(t)).unwrap();
    call!(there, cuIpcCloseMemHandle(opened)).unwrap();
}

fn loop_in_a_graph(stage: &Stage) {
    let (sim, memory, left) = (&stage.sim, stage.memory(64), stage.memory(4));
    sim.register_kernel("turn", |launch| {
        let left = launch.param::<u64>(1)?;
        let next = launch.read::<u32>(left)? - 1;
        launch.write(left, next)?;
        launch.set_condition(launch.param(0)?, u32::from(next > 0));
        Ok(())
    });
    let (g, s, t) = (graph(sim), stage.stream(), stage.stream());
    let mut handle = condition(sim, g, 1);
    let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE;
    let (_, bodies) = conditional(sim, g, &[], (handle, kind, 1)).unwrap();
    let body = *bodies.first().unwrap();
    let filled = fill(sim, body, &[], fill_params(memory, 5, 16)).unwrap();
    let (kernel, mut left_at) =
        (crate::graph_kit::registered(sim, "turn", ".param .u64 c, .param .u64 p"), left);
    let mut list = [(&raw mut handle).cast::<c_void>(), (&raw mut left_at).cast()];
    let params = crate::graph_kit::kernel_params(kernel, crate::ask::current(sim), &mut list);
    crate::graph_kit::kernel_node(sim, body, &[filled], params).unwrap();
    let exec = instantiate(sim, g).unwrap();
    call!(sim, cuMemsetD32Async(left, 4, 1, s)).unwrap();
    stage.mark(call!(sim, cuGraphLaunch(exec, s)));
    stage.order(|| stage.wait(t, s));
    stage.mark(stage.launch("load", memory, t));
}

fn atomic_counters(stage: &Stage) {
    let (word, s, t, u) = (stage.memory(64), stage.stream(), stage.stream(), stage.stream());
    stage.fill(word, 16, s).unwrap();
    stage.wait(t, s);
    stage.launch("count", word, s).unwrap();
    stage.mark(stage.launch("count", word, t));
    stage.wait(u, s);
    stage.order(|| stage.wait(u, t));
    stage.mark(stage.launch("store", word, u));
}

fn launched_by_turns(stage: &Stage) {
    let (sim, memory) = (&stage.sim, stage.memory(64));
    let g = graph(sim);
    fill(sim, g, &[], fill_params(memory, 5, 16)).unwrap();
    stage.mark(Ok(()));
    let exec = instantiate(sim, g).unwrap();
    let (s, t, u) = (stage.stream(), stage.stream(), stage.stream());
    // Launches of one executable come one after the other, whatever their streams.
    for stream in [s, t, s] {
        call!(sim, cuGraphLaunch(exec, stream)).unwrap();
        stage.may_run();
    }
    call!(sim, cuGraphLaunch(exec, t)).unwrap();
    stage.order(|| stage.wait(u, t));
    stage.mark(stage.launch("load", memory, u));
}

fn two_mappings(stage: &Stage) {
    let sim = &stage.sim;
    let handle = physical(sim, BYTES);
    let [one, other] = [(), ()].map(|()| {
        let start = reserve(sim, BYTES);
        call!(sim, cuMemMap(start, BYTES, 0, handle, 0)).unwrap();
        allow(sim, start, 0);
        start
    });
    let (s, t) = (stage.stream(), stage.stream());
    stage.mark(stage.launch("store", one, s));
    stage.launch("store", other + 64, t).unwrap();
    stage.order(|| stage.wait(t, s));
    stage.mark(stage.launch("load", other, t));
    // One of the two may end: the other's work doesn't need it.
    call!(sim, cuStreamSynchronize(s)).unwrap();
    call!(sim, cuMemUnmap(one, BYTES)).unwrap();
}

fn whole_context(stage: &Stage) {
    let (sim, memory, s) = (&stage.sim, stage.memory(64), stage.stream());
    let here = crate::ask::current(sim);
    let e = event(sim);
    stage.mark(stage.fill(memory, 16, s));
    call!(sim, cuCtxRecordEvent(here, e)).unwrap();
    let other = stage.context();
    call!(sim, cuCtxPushCurrent_v2(other)).unwrap();
    let t = stage.stream();
    stage.order(|| call!(sim, cuCtxWaitEvent(other, e)).unwrap());
    stage.mark(stage.launch("load", memory, t));
    call!(sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
}

fn staging_used_twice(stage: &Stage) {
    let (sim, memory, staging) = (&stage.sim, stage.memory(128), stage.host(64));
    let (s, t) = (stage.stream(), stage.stream());
    stage.mark(call!(sim, cuMemcpyHtoDAsync_v2(memory, staging, 64, s)));
    let e = event(sim);
    call!(sim, cuEventRecord(e, s)).unwrap();
    stage.order(|| call!(sim, cuEventSynchronize(e)).unwrap());
    stage.mark(call!(sim, cuMemcpyDtoHAsync_v2(staging, memory + 64, 64, t)));
    call!(sim, cuStreamSynchronize(t)).unwrap();
    call!(sim, cuMemcpyHtoDAsync_v2(memory, staging, 64, s)).unwrap();
}

fn graph_memory_outside(stage: &Stage) {
    let (sim, s, t) = (&stage.sim, stage.stream(), stage.stream());
    let g = graph(sim);
    let (begun, memory) = crate::graph_memory::alloc(sim, g, &[], 64).unwrap();
    fill(sim, g, &[begun], fill_params(memory, 5, 16)).unwrap();
    let exec = instantiate(sim, g).unwrap();
    for _ in 0..2 {
        call!(sim, cuGraphLaunch(exec, s)).unwrap();
        stage.launch("store", memory, s).unwrap();
        call!(sim, cuMemFreeAsync(memory, s)).unwrap();
        stage.may_run();
    }
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    stage.wait(t, s);
    stage.mark(stage.launch("load", memory, t));
    stage.order(|| stage.wait(s, t));
    stage.mark(call!(sim, cuMemFreeAsync(memory, s)));
}
