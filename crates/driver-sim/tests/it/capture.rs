//! Captures: begun, forked, joined, asked about, ended.

use cuhold_driver_sim::{
    ObjectKind, Sim, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use std::thread;

use crate::ask::{
    Asked, BLOCKING, NON_BLOCKING, Runs, assert_clean, call, event, get, kinds, sim_with_context,
    stream,
};

pub(crate) type Mode = CUstreamCaptureMode;
pub(crate) const GLOBAL: Mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
pub(crate) const THREAD_LOCAL: Mode = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
pub(crate) const RELAXED: Mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;
pub(crate) const MODES: [Mode; 3] = [GLOBAL, THREAD_LOCAL, RELAXED];

type Status = CUstreamCaptureStatus;
pub(crate) const NONE: Status = Status::CU_STREAM_CAPTURE_STATUS_NONE;
pub(crate) const ACTIVE: Status = Status::CU_STREAM_CAPTURE_STATUS_ACTIVE;
pub(crate) const INVALIDATED: Status = Status::CU_STREAM_CAPTURE_STATUS_INVALIDATED;

pub(crate) fn begin(sim: &Sim, s: CUstream, mode: Mode) -> Asked<()> {
    call!(sim, cuStreamBeginCapture_v2(s, mode))
}

/// What the end of a capture answers, and whether it wrote a graph.
pub(crate) fn end(sim: &Sim, s: CUstream) -> (Asked<()>, CUgraph) {
    let mut graph = CUgraph::from_addr(0x55);
    let asked = call!(sim, cuStreamEndCapture(s, &raw mut graph));
    (asked, graph)
}

pub(crate) fn capturing(sim: &Sim, s: CUstream) -> Asked<Status> {
    let mut status = CUstreamCaptureStatus(77);
    call!(sim, cuStreamIsCapturing(s, &raw mut status)).map(|()| status)
}

fn nodes(sim: &Sim, graph: CUgraph) -> Asked<Vec<CUgraphNode>> {
    let mut count = 0;
    call!(sim, cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count))?;
    let mut nodes = vec![CUgraphNode::NULL; count];
    call!(sim, cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count))?;
    Ok(nodes)
}

#[test]
fn captured_work_becomes_a_graph_and_does_not_run() {
    for mode in MODES {
        let (sim, _) = sim_with_context();
        let (s, runs) = (stream(&sim, NON_BLOCKING), Runs::default());
        assert_eq!(capturing(&sim, s), Ok(NONE));
        begin(&sim, s, mode).unwrap();
        assert_eq!(capturing(&sim, s), Ok(ACTIVE));
        runs.queue(&sim, s).unwrap();
        runs.queue(&sim, s).unwrap();
        let (asked, graph) = end(&sim, s);
        assert_eq!((asked, capturing(&sim, s)), (Ok(()), Ok(NONE)));
        let found = nodes(&sim, graph).unwrap();
        assert_eq!(found.len(), 2);
        let mut kind = CUgraphNodeType(99);
        call!(sim, cuGraphNodeGetType(found[0], &raw mut kind)).unwrap();
        assert_eq!(kind, CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST);
        call!(sim, cuStreamSynchronize(s)).unwrap();
        assert_eq!(runs.count(), 0);
        call!(sim, cuGraphDestroy(graph)).unwrap();
        assert_eq!(sim.live(ObjectKind::Graph), 0);
        let stale = call!(sim, cuGraphNodeGetType(found[0], &raw mut kind));
        assert_eq!(stale, Err(CUresult::INVALID_VALUE));
        assert_eq!(kinds(&sim.violations()), [ViolationKind::UseAfterDestroy]);
    }
}

#[test]
fn a_capture_begins_only_where_it_can() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, NON_BLOCKING);
    let unsupported = Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(begin(&sim, CUstream::NULL, GLOBAL), unsupported);
    assert_eq!(begin(&sim, CU_STREAM_LEGACY, RELAXED), unsupported);
    assert_eq!(begin(&sim, s, CUstreamCaptureMode(9)), Err(CUresult::INVALID_VALUE));
    begin(&sim, CU_STREAM_PER_THREAD, GLOBAL).unwrap();
    assert_eq!(end(&sim, CU_STREAM_PER_THREAD).0, Ok(()));
    begin(&sim, s, GLOBAL).unwrap();
    assert_eq!(begin(&sim, s, GLOBAL), Err(CUresult::ILLEGAL_STATE));
    assert_eq!(capturing(&sim, s), Ok(ACTIVE));
    assert_eq!(end(&sim, s).0, Ok(()));
}

#[test]
fn a_stream_that_is_not_captured_cannot_be_ended() {
    let (sim, _) = sim_with_context();
    assert_eq!(end(&sim, stream(&sim, 1)).0, Err(CUresult::ILLEGAL_STATE));
    assert_eq!(end(&sim, CUstream::NULL).0, Err(CUresult::ILLEGAL_STATE));
}

/// A stream that joined the capture of `s` by an event.
fn fork(sim: &Sim, s: CUstream) -> CUstream {
    let (t, e) = (stream(sim, NON_BLOCKING), event(sim));
    call!(sim, cuEventRecord(e, s)).unwrap();
    call!(sim, cuStreamWaitEvent(t, e, 0)).unwrap();
    t
}

fn join(sim: &Sim, s: CUstream, t: CUstream) {
    let e = event(sim);
    call!(sim, cuEventRecord(e, t)).unwrap();
    call!(sim, cuStreamWaitEvent(s, e, 0)).unwrap();
}

#[test]
fn a_fork_that_is_joined_ends_with_its_origin() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, 1), Runs::default());
    begin(&sim, s, GLOBAL).unwrap();
    runs.queue(&sim, s).unwrap();
    let t = fork(&sim, s);
    assert_eq!(capturing(&sim, t), Ok(ACTIVE));
    runs.queue(&sim, t).unwrap();
    runs.queue(&sim, s).unwrap();
    join(&sim, s, t);
    let (asked, graph) = end(&sim, s);
    assert_eq!(asked, Ok(()));
    assert_eq!(nodes(&sim, graph).unwrap().len(), 3);
    assert_eq!((capturing(&sim, s), capturing(&sim, t)), (Ok(NONE), Ok(NONE)));
    assert_clean(&sim);
}

#[test]
fn a_fork_with_work_that_is_not_joined_ends_the_capture_without_a_graph() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, 1), Runs::default());
    begin(&sim, s, GLOBAL).unwrap();
    let t = fork(&sim, s);
    join(&sim, s, t);
    runs.queue(&sim, t).unwrap();
    let unjoined = Err(CUresult::STREAM_CAPTURE_UNJOINED);
    assert_eq!(end(&sim, s), (unjoined, CUgraph::NULL));
    assert_eq!((capturing(&sim, s), capturing(&sim, t)), (Ok(NONE), Ok(NONE)));
    assert_eq!(sim.live(ObjectKind::Graph), 0);
}

/// Measured.
#[test]
fn a_destroyed_fork_is_missed_if_it_had_work_that_is_not_joined() {
    for has_work in [false, true] {
        let (sim, _) = sim_with_context();
        let (s, runs) = (stream(&sim, 1), Runs::default());
        begin(&sim, s, RELAXED).unwrap();
        runs.queue(&sim, s).unwrap();
        let t = fork(&sim, s);
        if has_work {
            runs.queue(&sim, t).unwrap();
        }
        call!(sim, cuStreamDestroy_v2(t)).unwrap();
        assert_eq!(capturing(&sim, s), Ok(ACTIVE));
        let expected = if has_work { Err(CUresult::STREAM_CAPTURE_UNJOINED) } else { Ok(()) };
        let (ended, graph) = end(&sim, s);
        assert_eq!((ended, graph.is_null()), (expected, has_work));
    }
}

#[test]
fn a_fork_without_work_need_not_be_joined() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, 1), Runs::default());
    begin(&sim, s, GLOBAL).unwrap();
    runs.queue(&sim, s).unwrap();
    let t = fork(&sim, s);
    assert_eq!(end(&sim, s).0, Ok(()));
    assert_eq!(capturing(&sim, t), Ok(NONE));
}

#[test]
fn a_fork_cannot_be_ended_and_trying_invalidates() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, 1);
    begin(&sim, s, RELAXED).unwrap();
    let t = fork(&sim, s);
    let unmatched = Err(CUresult::STREAM_CAPTURE_UNMATCHED);
    assert_eq!(end(&sim, t), (unmatched, CUgraph::NULL));
    assert_eq!((capturing(&sim, s), capturing(&sim, t)), (Ok(INVALIDATED), Ok(INVALIDATED)));
    let invalidated = Err(CUresult::STREAM_CAPTURE_INVALIDATED);
    assert_eq!(end(&sim, s), (invalidated, CUgraph::NULL));
    assert_eq!((capturing(&sim, s), capturing(&sim, t)), (Ok(NONE), Ok(NONE)));
}

#[test]
fn a_destroyed_fork_leaves_the_capture_valid() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, 1);
    begin(&sim, s, GLOBAL).unwrap();
    let t = fork(&sim, s);
    call!(sim, cuStreamDestroy_v2(t)).unwrap();
    assert_eq!(capturing(&sim, s), Ok(ACTIVE));
    assert_eq!(end(&sim, s).0, Ok(()));
}

#[test]
fn a_destroyed_origin_takes_its_capture_and_its_prohibition_along() {
    let (sim, _) = sim_with_context();
    let (s, other) = (stream(&sim, 1), stream(&sim, 1));
    begin(&sim, s, GLOBAL).unwrap();
    let graph = info(&sim, s).unwrap().graph;
    call!(sim, cuStreamDestroy_v2(s)).unwrap();
    call!(sim, cuStreamQuery(other)).unwrap();
    assert_eq!(nodes(&sim, graph), Err(CUresult::INVALID_VALUE));
    assert_eq!(sim.live(ObjectKind::Graph), 0);
}

#[test]
fn the_wrong_thread_ends_a_capture_that_is_not_relaxed_without_a_graph() {
    for mode in [GLOBAL, THREAD_LOCAL] {
        let (sim, _) = sim_with_context();
        let s = stream(&sim, 1);
        begin(&sim, s, mode).unwrap();
        let wrong = thread::scope(|scope| scope.spawn(|| end(&sim, s)).join()).unwrap();
        assert_eq!(wrong, (Err(CUresult::STREAM_CAPTURE_WRONG_THREAD), CUgraph::NULL));
        assert_eq!(capturing(&sim, s), Ok(NONE));
        assert_eq!(end(&sim, s).0, Err(CUresult::ILLEGAL_STATE));
        assert_eq!(sim.live(ObjectKind::Graph), 0);
    }
}

#[test]
fn any_thread_ends_a_relaxed_capture() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, 1);
    begin(&sim, s, RELAXED).unwrap();
    let (asked, graph) = thread::scope(|scope| scope.spawn(|| end(&sim, s)).join()).unwrap();
    assert_eq!(asked, Ok(()));
    call!(sim, cuGraphDestroy(graph)).unwrap();
}

#[test]
fn the_end_of_the_capturing_thread_does_not_end_the_capture() {
    let (sim, _) = sim_with_context();
    let (s, other) = (stream(&sim, 1), stream(&sim, 1));
    thread::scope(|scope| {
        scope.spawn(|| begin(&sim, s, GLOBAL).unwrap());
    });
    assert_eq!(capturing(&sim, s), Ok(ACTIVE));
    assert_eq!(call!(sim, cuStreamQuery(other)), Err(CUresult::STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(end(&sim, s).0, Err(CUresult::STREAM_CAPTURE_INVALIDATED));
}

/// What `cuStreamGetCaptureInfo` answers.
struct Info {
    status: Status,
    id: u64,
    graph: CUgraph,
    set: Vec<CUgraphNode>,
}

fn info(sim: &Sim, s: CUstream) -> Asked<Info> {
    let (mut status, mut id, mut graph) = (CUstreamCaptureStatus(77), 0, CUgraph::NULL);
    let (mut set, mut edges, mut count) = (std::ptr::null(), std::ptr::null(), 0);
    call!(
        sim,
        cuStreamGetCaptureInfo_v3(
            s,
            &raw mut status,
            &raw mut id,
            &raw mut graph,
            &raw mut set,
            &raw mut edges,
            &raw mut count
        )
    )?;
    let set = if count == 0 {
        Vec::new()
    } else {
        // SAFETY: the driver lends as many nodes as it says until the stream is asked again.
        unsafe { std::slice::from_raw_parts(set, count) }.to_vec()
    };
    Ok(Info { status, id, graph, set })
}

#[test]
fn a_capture_tells_its_id_its_graph_and_what_comes_next_depends_on() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, 1), Runs::default());
    assert_eq!(info(&sim, s).unwrap().status, NONE);
    begin(&sim, s, GLOBAL).unwrap();
    runs.queue(&sim, s).unwrap();
    let first = info(&sim, s).unwrap();
    assert_eq!((first.status, first.set.len()), (ACTIVE, 1));
    assert_eq!(nodes(&sim, first.graph).unwrap(), first.set);
    let (_, graph) = end(&sim, s);
    assert_eq!(graph, first.graph);
    begin(&sim, s, GLOBAL).unwrap();
    let second = info(&sim, s).unwrap();
    assert_ne!((second.id, second.graph), (first.id, first.graph));
    let null = std::ptr::null_mut();
    let asked = call!(
        sim,
        cuStreamGetCaptureInfo_v2(s, null, null.cast(), null.cast(), null.cast(), null.cast())
    );
    assert_eq!(asked, Err(CUresult::INVALID_VALUE), "the status is required");
}

#[test]
fn dependencies_can_be_replaced_and_then_need_not_be_joined() {
    const SET: c_uint = 1;
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, 1), Runs::default());
    let update = |set: &mut [CUgraphNode], flags| {
        call!(sim, cuStreamUpdateCaptureDependencies(s, set.as_mut_ptr(), set.len(), flags))
    };
    assert_eq!(update(&mut [], SET), Err(CUresult::ILLEGAL_STATE), "not captured");
    begin(&sim, s, GLOBAL).unwrap();
    runs.queue(&sim, s).unwrap();
    let mut first = info(&sim, s).unwrap().set;
    runs.queue(&sim, s).unwrap();
    update(&mut first, SET).unwrap();
    assert_eq!(info(&sim, s).unwrap().set, first);
    assert_eq!(update(&mut first, 7), Err(CUresult::INVALID_VALUE));
    let mut null = [CUgraphNode::NULL];
    assert_eq!(update(&mut null, SET), Err(CUresult::INVALID_VALUE));
    assert_eq!(end(&sim, s).0, Ok(()));
    assert_clean(&sim);
}

fn begin_to_graph(sim: &Sim, s: CUstream, graph: CUgraph, mode: Mode) -> Asked<()> {
    let (none, edges) = (std::ptr::null(), std::ptr::null());
    call!(sim, cuStreamBeginCaptureToGraph(s, graph, none, edges, 0, mode))
}

#[test]
fn a_capture_into_a_graph_gives_that_graph_back() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, 1), Runs::default());
    let graph: CUgraph = get!(sim, cuGraphCreate(out, 0)).unwrap();
    begin_to_graph(&sim, s, graph, GLOBAL).unwrap();
    runs.queue(&sim, s).unwrap();
    assert_eq!(call!(sim, cuGraphDestroy(graph)), Err(CUresult::ILLEGAL_STATE));
    assert_eq!(capturing(&sim, s), Ok(ACTIVE));
    assert_eq!(end(&sim, s), (Ok(()), graph));
    assert_eq!(nodes(&sim, graph).unwrap().len(), 1);
    call!(sim, cuGraphDestroy(graph)).unwrap();
    assert_clean(&sim);
    assert_eq!(begin_to_graph(&sim, s, CUgraph::NULL, GLOBAL), Err(CUresult::INVALID_VALUE));
}

#[test]
fn an_invalidated_capture_into_a_graph_destroys_that_graph() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, 1);
    let graph: CUgraph = get!(sim, cuGraphCreate(out, 0)).unwrap();
    begin_to_graph(&sim, s, graph, GLOBAL).unwrap();
    call!(sim, cuStreamQuery(s)).unwrap_err();
    assert_eq!(end(&sim, s), (Err(CUresult::STREAM_CAPTURE_INVALIDATED), CUgraph::NULL));
    assert_eq!(nodes(&sim, graph), Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuGraphDestroy(graph)), Err(CUresult::INVALID_VALUE));
    let (usage, destroy) = (ViolationKind::UseAfterDestroy, ViolationKind::DoubleDestroy);
    assert_eq!(kinds(&sim.violations()), [usage, destroy]);
}

#[test]
fn the_thread_s_mode_is_swapped_with_the_caller_s() {
    let (sim, _) = sim_with_context();
    let exchange = |mut mode: Mode| {
        call!(sim, cuThreadExchangeStreamCaptureMode(&raw mut mode)).map(|()| mode)
    };
    assert_eq!(exchange(RELAXED), Ok(GLOBAL));
    assert_eq!(exchange(THREAD_LOCAL), Ok(RELAXED));
    let none = CUstreamCaptureMode(99);
    assert_eq!(exchange(none), Ok(THREAD_LOCAL), "no mode, but taken without a word");
    assert_eq!(exchange(GLOBAL), Ok(none));
    assert_clean(&sim);
    let null = std::ptr::null_mut();
    let asked = call!(sim, cuThreadExchangeStreamCaptureMode(null));
    assert_eq!(asked, Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::Crash]);
}

#[test]
fn a_context_s_end_takes_its_captures_along() {
    let (sim, _) = sim_with_context();
    let ctx = crate::ask::context(&sim);
    begin(&sim, stream(&sim, BLOCKING), GLOBAL).unwrap();
    call!(sim, cuCtxDestroy_v2(ctx)).unwrap();
    call!(sim, cuStreamQuery(stream(&sim, 1))).unwrap();
    assert_eq!(sim.live(ObjectKind::Graph), 0);
}
