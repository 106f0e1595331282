//! Executable graphs.

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{Call, DriverApi as _, ffi::*},
};

use crate::{
    ask::{
        Asked, NON_BLOCKING, Runs, assert_clean, call, count, get, kinds, sim_with_context, stream,
    },
    capture::{begin, end},
    code::{kernel, library},
};

const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

pub(crate) fn instantiate(sim: &Sim, graph: CUgraph) -> Asked<CUgraphExec> {
    let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS::default();
    get!(sim, cuGraphInstantiateWithParams(out, graph, &raw mut params))
}

/// The graph of what `capture` puts on a stream.
pub(crate) fn captured(sim: &Sim, s: CUstream, capture: impl FnOnce()) -> CUgraph {
    begin(sim, s, RELAXED).unwrap();
    capture();
    let (ended, graph) = end(sim, s);
    ended.unwrap();
    graph
}

/// Makes the unsafe calls of this chapter beside a global capture.
pub(crate) fn make_unsafe_call(sim: &Sim, unsafe_one: Call) -> Option<Asked<()>> {
    let graph: CUgraph = get!(sim, cuGraphCreate(out, 0)).unwrap();
    let exec = {
        // Made while this thread prohibits nothing.
        let mut mode = RELAXED;
        call!(sim, cuThreadExchangeStreamCaptureMode(&raw mut mode)).unwrap();
        let exec = instantiate(sim, graph).unwrap();
        call!(sim, cuThreadExchangeStreamCaptureMode(&raw mut mode)).unwrap();
        exec
    };
    let (mut made, none, log) =
        (CUgraphExec::NULL, std::ptr::null_mut(), std::ptr::null_mut::<c_char>());
    Some(match unsafe_one {
        Call::cuGraphInstantiate_v2 => {
            call!(sim, cuGraphInstantiate_v2(&raw mut made, graph, none, log, 0))
        }
        Call::cuGraphInstantiateWithFlags => {
            call!(sim, cuGraphInstantiateWithFlags(&raw mut made, graph, 0))
        }
        Call::cuGraphInstantiateWithParams => instantiate(sim, graph).map(|_exec| ()),
        Call::cuGraphExecDestroy => call!(sim, cuGraphExecDestroy(exec)),
        _ => return None,
    })
}

#[test]
fn an_executable_is_made_with_flags_but_not_with_the_one_that_needs_a_stream() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, NON_BLOCKING);
    let ran = Runs::default();
    let graph = captured(&sim, s, || ran.queue(&sim, s).unwrap());
    let (auto_free, upload) = (1, 2);
    let refused: Asked<CUgraphExec> = get!(sim, cuGraphInstantiateWithFlags(out, graph, upload));
    assert_eq!(refused, Err(CUresult::INVALID_VALUE));
    let exec: CUgraphExec = get!(sim, cuGraphInstantiateWithFlags(out, graph, auto_free)).unwrap();
    assert_eq!(get!(sim, cuGraphExecGetFlags(exec, out)), Ok(auto_free));
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_eq!(ran.count(), 1);
    assert_clean(&sim);
}

#[test]
fn each_launch_does_what_was_captured_behind_what_the_stream_holds() {
    let (sim, _) = sim_with_context();
    let (s, before, inside) = (stream(&sim, NON_BLOCKING), Runs::default(), Runs::default());
    let graph = captured(&sim, s, || {
        inside.queue(&sim, s).unwrap();
        inside.queue(&sim, s).unwrap();
    });
    assert_eq!(inside.count(), 0, "captured work isn't done");
    let exec = instantiate(&sim, graph).unwrap();
    before.queue(&sim, s).unwrap();
    for _ in 0..3 {
        call!(sim, cuGraphLaunch(exec, s)).unwrap();
    }
    assert_eq!((before.count(), inside.count()), (0, 0));
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_eq!((before.count(), inside.count()), (1, 6));
    assert_clean(&sim);
}

#[test]
fn branches_of_a_graph_are_done_before_the_node_that_joins_them() {
    for seed in 1..20 {
        let mut options = SimOptions::default();
        options.seed = seed;
        let sim = crate::ask::sim_with(options);
        call!(sim, cuCtxSetCurrent(crate::ask::primary(&sim, 0))).unwrap();
        let (s, t) = (stream(&sim, NON_BLOCKING), stream(&sim, NON_BLOCKING));
        let (fork, join) = (crate::ask::event(&sim), crate::ask::event(&sim));
        let memory: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 16)).unwrap();
        let graph = captured(&sim, s, || {
            call!(sim, cuMemsetD32Async(memory, 1, 2, s)).unwrap();
            call!(sim, cuEventRecord(fork, s)).unwrap();
            call!(sim, cuStreamWaitEvent(t, fork, 0)).unwrap();
            call!(sim, cuMemsetD32Async(memory, 2, 1, s)).unwrap();
            call!(sim, cuMemsetD32Async(memory + 4, 3, 1, t)).unwrap();
            call!(sim, cuEventRecord(join, t)).unwrap();
            call!(sim, cuStreamWaitEvent(s, join, 0)).unwrap();
            call!(sim, cuMemcpyDtoDAsync_v2(memory + 8, memory, 8, s)).unwrap();
        });
        let exec = instantiate(&sim, graph).unwrap();
        call!(sim, cuGraphLaunch(exec, s)).unwrap();
        call!(sim, cuStreamSynchronize(s)).unwrap();
        let mut seen = [0_u32; 4];
        call!(sim, cuMemcpyDtoH_v2(seen.as_mut_ptr().cast(), memory, 16)).unwrap();
        assert_eq!(seen, [2, 3, 2, 3]);
        assert_clean(&sim);
    }
}

#[test]
fn user_objects_live_until_the_last_launch_that_holds_them_is_done() {
    let (sim, _) = sim_with_context();
    let (s, ended, work) = (stream(&sim, NON_BLOCKING), Runs::default(), Runs::default());
    let graph = captured(&sim, s, || work.queue(&sim, s).unwrap());
    let object: CUuserObject =
        get!(sim, cuUserObjectCreate(out, ended.data(), Some(count), 1, 1)).unwrap();
    call!(sim, cuGraphRetainUserObject(graph, object, 1, 1)).unwrap();
    let exec = instantiate(&sim, graph).unwrap();
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    call!(sim, cuGraphDestroy(graph)).unwrap();
    call!(sim, cuGraphExecDestroy(exec)).unwrap();
    assert_eq!((ended.count(), work.count()), (0, 0));
    sim.run_all();
    assert_eq!((ended.count(), work.count()), (1, 1));
    assert_eq!(sim.live(ObjectKind::UserObject), 0);
    assert_clean(&sim);
}

#[test]
fn a_launched_kernel_whose_library_was_unloaded_is_a_violation() {
    let (sim, _) = sim_with_context();
    sim.register_kernel("axpy", |_| Ok(()));
    let image = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry axpy() { ret; }\0";
    let code = library(&sim, image).unwrap();
    let axpy = kernel(&sim, code, "axpy").unwrap();
    let s = stream(&sim, NON_BLOCKING);
    let graph = captured(&sim, s, || {
        let none = std::ptr::null_mut();
        let axpy = CUfunction(axpy.0);
        call!(sim, cuLaunchKernel(axpy, 1, 1, 1, 1, 1, 1, 0, s, none, none)).unwrap();
    });
    let exec = instantiate(&sim, graph).unwrap();
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    call!(sim, cuLibraryUnload(code)).unwrap();
    assert_clean(&sim);
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap_err();
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UseAfterDestroy]);
}

#[test]
fn a_captured_stream_takes_no_executable_graph_and_its_capture_is_over() {
    let (sim, _) = sim_with_context();
    let graph: CUgraph = get!(sim, cuGraphCreate(out, 0)).unwrap();
    let exec = instantiate(&sim, graph).unwrap();
    let (s, other) = (stream(&sim, NON_BLOCKING), stream(&sim, NON_BLOCKING));
    begin(&sim, s, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    call!(sim, cuGraphLaunch(exec, other)).unwrap();
    call!(sim, cuGraphUpload(exec, other)).unwrap();
    let refused = Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(call!(sim, cuGraphLaunch(exec, s)), refused);
    assert_eq!(end(&sim, s).0, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
}

#[test]
fn an_executable_graph_is_refused_after_its_end() {
    let (sim, _) = sim_with_context();
    let graph: CUgraph = get!(sim, cuGraphCreate(out, 0)).unwrap();
    let exec = instantiate(&sim, graph).unwrap();
    assert_eq!(sim.live(ObjectKind::GraphExec), 1);
    call!(sim, cuGraphExecDestroy(exec)).unwrap();
    assert_eq!(call!(sim, cuGraphExecDestroy(exec)), Err(CUresult::INVALID_VALUE));
    let s = stream(&sim, NON_BLOCKING);
    assert_eq!(call!(sim, cuGraphLaunch(exec, s)), Err(CUresult::INVALID_VALUE));
    assert_eq!(
        kinds(&sim.violations()),
        [ViolationKind::DoubleDestroy, ViolationKind::UseAfterDestroy]
    );
}
