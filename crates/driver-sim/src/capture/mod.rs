//! Stream capture: begun, asked about, ended; and the thread's capture mode.
//!
//! `state.rs` is what is captured, `rules.rs` what captures forbid.
//!
//! Source: CUDA Driver API 13.x, "Stream Management", capture; the endings as measured:
//!
//! | `cuStreamEndCapture` on | answers | the capture |
//! |---|---|---|
//! | a stream that isn't captured | 401 | – |
//! | a fork | 903 | invalidated |
//! | an invalidated capture's origin, from any thread | 901, null graph | over, its graph destroyed |
//! | a non-relaxed one, from another thread | 908, null graph | over, its graph destroyed |
//! | an origin with unjoined work elsewhere | 904, null graph | over, its graph destroyed |
//! | else | success | over; the graph is the caller's |

mod rules;
mod state;

use cuhold_driver_sys::ffi::*;

pub(crate) use state::{Capture, CaptureId, Captures};

use self::{rules::join, state::Member};
use crate::{
    audit::ViolationKind,
    graph::{Edge, Graph},
    queue::Ordering,
    stream::Target,
    world::{Answer, In, Key, Out, Turn},
};

type Mode = CUstreamCaptureMode;
type Status = CUstreamCaptureStatus;

fn mode_is_valid(mode: Mode) -> Answer {
    if mode.0 <= Mode::CU_STREAM_CAPTURE_MODE_RELAXED.0 {
        Ok(())
    } else {
        Err(CUresult::INVALID_VALUE)
    }
}

pub(crate) fn begin(turn: &mut Turn<'_>, stream: CUstream, mode: Mode) -> Answer {
    let target = may_begin(turn, stream, mode)?;
    let site = turn.site;
    let graph = turn.state.graphs.insert(site, Graph::default());
    begin_in(turn, target, mode, graph, Vec::new());
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "C's signature")]
pub(crate) fn begin_to_graph(
    turn: &mut Turn<'_>,
    stream: CUstream,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    edges: In<CUgraphEdgeData>,
    count: usize,
    mode: Mode,
) -> Answer {
    let target = may_begin(turn, stream, mode)?;
    let graph = turn.graph(graph)?;
    if turn.state.graphs.get(graph).is_some_and(|graph| graph.capture.is_some()) {
        return Err(CUresult::ILLEGAL_STATE);
    }
    let set = turn.nodes_of(graph, dependencies, edges, count)?;
    begin_in(turn, target, mode, graph, set);
    Ok(())
}

fn may_begin(turn: &mut Turn<'_>, stream: CUstream, mode: Mode) -> Result<Target, CUresult> {
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    mode_is_valid(mode)?;
    if turn.state.queues.ordering(target.queue) == Some(Ordering::Legacy) {
        return Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    }
    if turn.is_capturing(target) {
        return Err(CUresult::ILLEGAL_STATE);
    }
    Ok(target)
}

fn begin_in(turn: &mut Turn<'_>, target: Target, mode: Mode, graph: Key<Graph>, set: Vec<Edge>) {
    let origin = target.queue;
    let owner = turn.thread;
    let members = [(origin, Member { set, ..Member::default() })].into();
    let capture =
        Capture { graph, origin, mode, owner, invalidated: false, members, left: Vec::new() };
    let state = &mut *turn.state;
    let id = state.captures.begin(capture);
    if let Some(graph) = state.graphs.get_mut(graph) {
        graph.capture = Some(id);
    }
}

pub(crate) fn end(turn: &mut Turn<'_>, stream: CUstream, out: Out<CUgraph>) -> Answer {
    let target = turn.stream(stream)?;
    let out = out.required()?;
    out.write(CUgraph::NULL);
    let id = turn.state.captures.of(target.queue).ok_or(CUresult::ILLEGAL_STATE)?;
    let state = &mut *turn.state;
    let Some(capture) = state.captures.get_mut(id) else { return Err(CUresult::ILLEGAL_STATE) };
    if capture.origin != target.queue {
        capture.invalidated = true;
        return Err(CUresult::STREAM_CAPTURE_UNMATCHED);
    }
    let refused = if capture.invalidated {
        Some(CUresult::STREAM_CAPTURE_INVALIDATED)
    } else if capture.owner != turn.site.thread && !capture.is_relaxed() {
        Some(CUresult::STREAM_CAPTURE_WRONG_THREAD)
    } else if capture.has_unjoined(&state.nodes) {
        Some(CUresult::STREAM_CAPTURE_UNJOINED)
    } else {
        None
    };
    if let Some(status) = refused {
        let site = turn.site;
        turn.state.drop_capture(id, site);
        return Err(status);
    }
    let graph = capture.graph;
    state.captures.end(id);
    if let Some(graph) = state.graphs.get_mut(graph) {
        graph.capture = None;
    }
    out.write(CUgraph::from_addr(graph.raw()));
    Ok(())
}

fn status_of(turn: &Turn<'_>, target: Target) -> Status {
    let capture = turn.state.captures.of(target.queue).and_then(|id| turn.state.captures.get(id));
    match capture {
        None => Status::CU_STREAM_CAPTURE_STATUS_NONE,
        Some(capture) if capture.invalidated => Status::CU_STREAM_CAPTURE_STATUS_INVALIDATED,
        Some(_) => Status::CU_STREAM_CAPTURE_STATUS_ACTIVE,
    }
}

pub(crate) fn is_capturing(turn: &mut Turn<'_>, stream: CUstream, status: Out<Status>) -> Answer {
    let status = status.required()?;
    let target = turn.stream(stream)?;
    turn.not_implicit_to_ask(target)?;
    status.write(status_of(turn, target));
    Ok(())
}

/// The arrays that are lent out stay as they are until the stream is asked again, or its capture ends.
#[expect(clippy::too_many_arguments, reason = "C's signature")]
pub(crate) fn info_v3(
    turn: &mut Turn<'_>,
    stream: CUstream,
    status: Out<Status>,
    id_out: Out<cuuint64_t>,
    graph_out: Out<CUgraph>,
    dependencies_out: Out<*const CUgraphNode>,
    edges_out: Out<*const CUgraphEdgeData>,
    count_out: Out<usize>,
) -> Answer {
    let whole = Info {
        id: id_out,
        graph: graph_out,
        dependencies: dependencies_out,
        edges: edges_out,
        count: count_out,
    };
    info(turn, stream, status, whole)
}

#[expect(clippy::too_many_arguments, reason = "C's signature")]
pub(crate) fn info_v2(
    turn: &mut Turn<'_>,
    stream: CUstream,
    status: Out<Status>,
    id_out: Out<cuuint64_t>,
    graph_out: Out<CUgraph>,
    dependencies_out: Out<*const CUgraphNode>,
    count_out: Out<usize>,
) -> Answer {
    let whole = Info {
        id: id_out,
        graph: graph_out,
        dependencies: dependencies_out,
        edges: Out::null(),
        count: count_out,
    };
    info(turn, stream, status, whole)
}

/// Where a capture is told about.
#[derive(Clone, Copy)]
struct Info {
    id: Out<cuuint64_t>,
    graph: Out<CUgraph>,
    dependencies: Out<*const CUgraphNode>,
    edges: Out<*const CUgraphEdgeData>,
    count: Out<usize>,
}

fn info(turn: &mut Turn<'_>, stream: CUstream, status: Out<Status>, out: Info) -> Answer {
    let status = status.required()?;
    let target = turn.stream(stream)?;
    turn.not_implicit_to_ask(target)?;
    status.write(status_of(turn, target));
    let state = &mut *turn.state;
    let id = state.captures.of(target.queue);
    let capture =
        id.and_then(|id| state.captures.get_mut(id)).filter(|capture| !capture.invalidated);
    // Only the status is told where no valid capture is under way; the rest stays as it is (measured).
    let Some(capture) = capture else { return Ok(()) };
    let graph = CUgraph::from_addr(capture.graph.raw());
    let Some(member) = capture.members.get_mut(&target.queue) else { return Ok(()) };
    // Data of edges may not be lost, where the edges are asked for (documented).
    if !out.dependencies.is_null() && out.edges.is_null() && member.set.iter().any(Edge::has_data) {
        return Err(CUresult::LOSSY_QUERY);
    }
    out.id.write(id.map_or(0, |id| id.0));
    out.graph.write(graph);
    member.lent = member.set.iter().map(|edge| CUgraphNode::from_addr(edge.node.raw())).collect();
    member.lent_data = member.set.iter().map(|edge| edge.data).collect();
    out.dependencies.write(member.lent.as_ptr());
    out.edges.write(member.lent_data.as_ptr());
    out.count.write(member.lent.len());
    Ok(())
}

pub(crate) fn update(
    turn: &mut Turn<'_>,
    stream: CUstream,
    dependencies: Out<CUgraphNode>,
    count: usize,
    flags: c_uint,
) -> Answer {
    update_v2(turn, stream, dependencies, In::null(), count, flags)
}

/// Adds to what the stream's next work depends on, or replaces it.
pub(crate) fn update_v2(
    turn: &mut Turn<'_>,
    stream: CUstream,
    dependencies: Out<CUgraphNode>,
    edges: In<CUgraphEdgeData>,
    count: usize,
    flags: c_uint,
) -> Answer {
    const ADD: c_uint =
        CUstreamUpdateCaptureDependencies_flags::CU_STREAM_ADD_CAPTURE_DEPENDENCIES.0;
    const SET: c_uint =
        CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES.0;
    let target = turn.stream(stream)?;
    let id = turn.capture_usable(target)?.ok_or(CUresult::ILLEGAL_STATE)?;
    if flags != ADD && flags != SET {
        return Err(CUresult::INVALID_VALUE);
    }
    let graph = turn.state.captures.get(id).map(|capture| capture.graph);
    let graph = graph.ok_or(CUresult::ILLEGAL_STATE)?;
    let nodes = turn.nodes_of(graph, dependencies.as_in(), edges, count)?;
    let capture = turn.state.captures.get_mut(id);
    let Some(member) = capture.and_then(|c| c.members.get_mut(&target.queue)) else {
        return Err(turn.broken("capture"));
    };
    if flags == SET {
        member.set.clear();
    }
    join(&mut member.set, &nodes);
    Ok(())
}

/// Swaps the thread's mode with the caller's. A value that is no mode is taken without a word, and given back later
/// (measured); what it allows isn't known, and here it is as strict as global.
pub(crate) fn exchange_mode(turn: &mut Turn<'_>, mode: Out<Mode>) -> Answer {
    let thread = turn.thread;
    let old = turn.state.threads.mode(thread);
    let Some(new) = mode.read() else {
        turn.violate(ViolationKind::Crash, None, "a null pointer");
        return Err(CUresult::INVALID_VALUE);
    };
    if new != old {
        turn.state.threads.get_mut(thread).mode = new;
    }
    mode.write(old);
    Ok(())
}
