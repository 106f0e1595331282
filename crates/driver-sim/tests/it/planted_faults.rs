//! Programs with a planted fault: each marks the two operations that nothing orders.

use cuhold_driver_sim::cuhold_driver_sys::{DriverApi as _, ffi::*};

use crate::{
    ask::{NON_BLOCKING, call, event, get, primary, stream},
    graph_exec::{captured, instantiate},
    graph_kit::{fill, fill_params, graph},
    peer::{grant, pooled},
    planted::{Program, Stage, launch},
    virtual_memory::{BYTES, allow, physical, reserve},
};

pub(crate) const FAULTS: &[Program] = &[
    #[cfg(unix)]
    ("a shared import is freed on the idle stream", shared_import_freed_on_the_idle_stream),
    ("a pool is revoked under a peer's kernel", pool_revoked_under_a_peer_s_kernel),
    ("memory of one context is freed under another's kernel", freed_under_another_context_s_kernel),
    ("a free node stands behind the wrong stream's frontier", free_node_behind_the_wrong_frontier),
    ("an upload from a temporary is captured and replayed", upload_from_a_temporary_replayed),
    ("a captured upload's source is used again before the replay is over", source_used_again),
    ("a non-blocking stream takes the default stream's order for granted", default_stream_trusted),
    ("two streams write the same bytes", two_writers),
    ("a download's target is uploaded from on another stream", host_buffer_passed_on_too_early),
    ("a download's target is read by the next call", host_memory_read_too_early),
    ("pool memory is used on a stream that doesn't wait for its allocation", used_before_begun),
    ("pool memory is freed on a stream that doesn't wait for its use", freed_on_the_wrong_stream),
    ("a mapping ends under a kernel", unmapped_under_a_kernel),
    ("an event is recorded before the work that it stands for", recorded_too_early),
    ("another process's event is recorded before the work", told_too_early),
    ("two branches of a graph write the same bytes", branches_without_an_edge),
    ("a graph's result is used without a wait for the launch", launch_not_waited_for),
    ("one physical allocation is written through two mappings", two_mappings_of_one_memory),
    ("a peer context's access ends under its kernel", peer_access_ended_under_a_kernel),
    ("page-locked memory is freed under another context's copy", host_memory_freed_under_a_copy),
    ("a graph's memory is used by a node behind its end", used_behind_the_free_node),
    ("two copies of boxes overlap in a column", boxes_that_overlap),
];

#[cfg(unix)]
fn shared_import_freed_on_the_idle_stream(stage: &Stage) {
    use crate::pool_process::{allocate, export, exported, import, import_memory, on_device};
    let here = &stage.sim;
    let pool = on_device(here);
    let memory = allocate(here, pool, stage.stream());
    let file = export(here, pool);
    let data = exported(here, memory);
    let there = stage.other_process();
    let imported = import(&there, &file).unwrap();
    let shared = import_memory(&there, imported, data).unwrap();
    let (busy, idle) = (stream(&there, NON_BLOCKING), stream(&there, NON_BLOCKING));
    stage.mark_of(&there, launch(&there, "store", shared, busy));
    stage.mark_of(&there, call!(there, cuMemFreeAsync(shared, idle)));
}

fn pool_revoked_under_a_peer_s_kernel(stage: &Stage) {
    let sim = &stage.sim;
    call!(sim, cuCtxSetCurrent(primary(sim, 1))).unwrap();
    let (pool, memory, s) = pooled(sim);
    grant(sim, pool, 3);
    stage.mark(stage.launch("store", memory, s));
    grant(sim, pool, 0);
    stage.mark(Ok(()));
}

fn freed_under_another_context_s_kernel(stage: &Stage) {
    let memory = stage.memory(64);
    let other = stage.context();
    call!(stage.sim, cuCtxPushCurrent_v2(other)).unwrap();
    let s = stage.stream();
    stage.mark(stage.launch("store", memory, s));
    call!(stage.sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
    // Waits for the owner's work, and that isn't the owner's.
    stage.mark(call!(stage.sim, cuMemFree_v2(memory)));
}

/// A stream in the capture of another.
fn fork(stage: &Stage, s: CUstream) -> CUstream {
    let t = stage.stream();
    join(stage, t, s);
    t
}

fn join(stage: &Stage, waiting: CUstream, first: CUstream) {
    let e = event(&stage.sim);
    call!(stage.sim, cuEventRecord(e, first)).unwrap();
    call!(stage.sim, cuStreamWaitEvent(waiting, e, 0)).unwrap();
}

fn free_node_behind_the_wrong_frontier(stage: &Stage) {
    let (sim, s) = (&stage.sim, stage.stream());
    let graph = captured(sim, s, || {
        let memory: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, s)).unwrap();
        let t = fork(stage, s);
        stage.mark(stage.launch("store", memory, t));
        // The kernel is in front of `t`, not of `s`.
        stage.mark(call!(sim, cuMemFreeAsync(memory, s)));
        join(stage, s, t);
    });
    let exec = instantiate(sim, graph).unwrap();
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
}

fn upload_from_a_temporary_replayed(stage: &Stage) {
    let (sim, s, memory) = (&stage.sim, stage.stream(), stage.memory(64));
    let temporary = stage.host(64);
    let graph = captured(sim, s, || {
        stage.mark(call!(sim, cuMemcpyHtoDAsync_v2(memory, temporary, 64, s)));
    });
    let exec = instantiate(sim, graph).unwrap();
    stage.mark(call!(sim, cuMemFreeHost(temporary)));
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
}

fn source_used_again(stage: &Stage) {
    let (sim, s, memory) = (&stage.sim, stage.stream(), stage.memory(64));
    let staging = stage.host(64);
    let graph = captured(sim, s, || {
        call!(sim, cuMemcpyHtoDAsync_v2(memory, staging, 64, s)).unwrap();
    });
    let (exec, other) = (instantiate(sim, graph).unwrap(), stage.memory(64));
    stage.mark(call!(sim, cuGraphLaunch(exec, s)));
    stage.mark(call!(sim, cuMemcpyDtoHAsync_v2(staging, other, 64, stage.stream())));
}

fn default_stream_trusted(stage: &Stage) {
    let (memory, s) = (stage.memory(64), stage.stream());
    stage.mark(call!(stage.sim, cuMemsetD32_v2(memory, 0, 16)));
    stage.mark(stage.launch("store", memory, s));
}

fn two_writers(stage: &Stage) {
    let memory = stage.memory(64);
    stage.mark(stage.fill(memory, 9, stage.stream()));
    stage.mark(stage.fill(memory + 32, 8, stage.stream()));
}

fn host_buffer_passed_on_too_early(stage: &Stage) {
    let (sim, memory, other, host) =
        (&stage.sim, stage.memory(64), stage.memory(64), stage.host(64));
    stage.mark(call!(sim, cuMemcpyDtoHAsync_v2(host, memory, 64, stage.stream())));
    stage.mark(call!(sim, cuMemcpyHtoDAsync_v2(other, host, 64, stage.stream())));
}

fn host_memory_read_too_early(stage: &Stage) {
    let (sim, memory, other) = (&stage.sim, stage.memory(64), stage.memory(64));
    // Never freed: the download is done whenever it is done.
    let words: *mut c_void = (&raw mut *Box::leak(Box::new([0_u32; 16]))).cast();
    stage.mark(call!(sim, cuMemcpyDtoHAsync_v2(words, memory, 64, stage.stream())));
    stage.mark(call!(sim, cuMemcpyHtoD_v2(other, words, 64)));
}

fn used_before_begun(stage: &Stage) {
    let (sim, s) = (&stage.sim, stage.stream());
    stage.fill(stage.memory(64), 16, s).unwrap();
    let memory: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, s)).unwrap();
    stage.mark(Ok(()));
    stage.mark(stage.launch("store", memory, stage.stream()));
}

fn freed_on_the_wrong_stream(stage: &Stage) {
    let (sim, s, t) = (&stage.sim, stage.stream(), stage.stream());
    let memory: CUdeviceptr = get!(sim, cuMemAllocAsync(out, 64, s)).unwrap();
    stage.mark(stage.launch("store", memory, s));
    stage.mark(call!(sim, cuMemFreeAsync(memory, t)));
}

fn unmapped_under_a_kernel(stage: &Stage) {
    let sim = &stage.sim;
    let (start, handle) = (reserve(sim, BYTES), physical(sim, BYTES));
    call!(sim, cuMemMap(start, BYTES, 0, handle, 0)).unwrap();
    allow(sim, start, 0);
    stage.mark(stage.launch("store", start, stage.stream()));
    stage.mark(call!(sim, cuMemUnmap(start, BYTES)));
}

fn recorded_too_early(stage: &Stage) {
    let (sim, memory, s, t) = (&stage.sim, stage.memory(64), stage.stream(), stage.stream());
    let e = event(sim);
    call!(sim, cuEventRecord(e, s)).unwrap();
    stage.mark(stage.fill(memory, 16, s));
    call!(sim, cuStreamWaitEvent(t, e, 0)).unwrap();
    stage.mark(stage.launch("load", memory, t));
}

fn told_too_early(stage: &Stage) {
    const FLAGS: c_uint = 2 | 4;
    let (here, there) = (&stage.sim, stage.other_process());
    let memory = stage.memory(64);
    let handle: CUipcMemHandle = get!(here, cuIpcGetMemHandle(out, memory)).unwrap();
    let opened: CUdeviceptr = get!(there, cuIpcOpenMemHandle_v2(out, handle, 1)).unwrap();
    let e: CUevent = get!(here, cuEventCreate(out, FLAGS)).unwrap();
    let name: CUipcEventHandle = get!(here, cuIpcGetEventHandle(out, e)).unwrap();
    let theirs: CUevent = get!(there, cuIpcOpenEventHandle(out, name)).unwrap();
    let (s, t) = (stage.stream(), stream(&there, NON_BLOCKING));
    call!(here, cuEventRecord(e, s)).unwrap();
    stage.mark(stage.fill(memory, 16, s));
    call!(there, cuStreamWaitEvent(t, theirs, 0)).unwrap();
    stage.mark_of(&there, launch(&there, "load", opened, t));
}

fn branches_without_an_edge(stage: &Stage) {
    let (sim, memory) = (&stage.sim, stage.memory(64));
    let g = graph(sim);
    for _ in 0..2 {
        fill(sim, g, &[], fill_params(memory, 5, 16)).unwrap();
        stage.mark(Ok(()));
    }
    let exec = instantiate(sim, g).unwrap();
    call!(sim, cuGraphLaunch(exec, stage.stream())).unwrap();
}

fn launch_not_waited_for(stage: &Stage) {
    let (sim, memory) = (&stage.sim, stage.memory(64));
    let g = graph(sim);
    fill(sim, g, &[], fill_params(memory, 5, 16)).unwrap();
    let exec = instantiate(sim, g).unwrap();
    stage.mark(call!(sim, cuGraphLaunch(exec, stage.stream())));
    stage.mark(stage.launch("load", memory, stage.stream()));
}

fn two_mappings_of_one_memory(stage: &Stage) {
    let sim = &stage.sim;
    let handle = physical(sim, BYTES);
    let starts = [(), ()].map(|()| {
        let start = reserve(sim, BYTES);
        call!(sim, cuMemMap(start, BYTES, 0, handle, 0)).unwrap();
        allow(sim, start, 0);
        start
    });
    for start in starts {
        stage.mark(stage.launch("store", start, stage.stream()));
    }
}

fn peer_access_ended_under_a_kernel(stage: &Stage) {
    let sim = &stage.sim;
    let owner = crate::ask::current(sim);
    let memory = stage.memory(64);
    call!(sim, cuCtxSetCurrent(primary(sim, 1))).unwrap();
    call!(sim, cuCtxEnablePeerAccess(owner, 0)).unwrap();
    stage.mark(stage.launch("store", memory, stage.stream()));
    stage.mark(call!(sim, cuCtxDisablePeerAccess(owner)));
}

fn host_memory_freed_under_a_copy(stage: &Stage) {
    let (sim, host) = (&stage.sim, stage.host(64));
    call!(sim, cuCtxPushCurrent_v2(stage.context())).unwrap();
    let memory = stage.memory(64);
    stage.mark(call!(sim, cuMemcpyHtoDAsync_v2(memory, host, 64, stage.stream())));
    call!(sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
    stage.mark(call!(sim, cuMemFreeHost(host)));
}

fn used_behind_the_free_node(stage: &Stage) {
    let (sim, s) = (&stage.sim, stage.stream());
    let g = graph(sim);
    let (begun, memory) = crate::graph_memory::alloc(sim, g, &[], 64).unwrap();
    let ended = crate::graph_memory::free(sim, g, &[begun], memory).unwrap();
    stage.mark(Ok(()));
    fill(sim, g, &[ended], fill_params(memory, 5, 16)).unwrap();
    stage.mark(Ok(()));
    let exec = instantiate(sim, g).unwrap();
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
}

fn boxes_that_overlap(stage: &Stage) {
    let memory = stage.memory(1024);
    for column in [0, 12] {
        stage.mark(crate::planted_correct::fill_column(stage, memory + column, 16, stage.stream()));
    }
}
