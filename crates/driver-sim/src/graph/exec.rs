//! Executable graphs: what a graph was when it was made executable, done at each launch.
//!
//! ```text
//!   launch on a stream ─► begin ─► a queue for each node, behind the nodes before it ─► end, on the stream
//! ```
//!
//! Memory and external event nodes can't be made executable: *missing*.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

use std::{collections::BTreeMap, sync::Arc};

use cuhold_driver_sys::ffi::*;

use super::{Graph, GraphNode, NodeKind};
use crate::{
    queue::{Ordering, Point, Work},
    stream::Target,
    world::{Answer, Ending, Key, Out, Turn},
};

/// What a node does.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// These, in order.
    Works(Vec<Work>),
    /// Something that isn't simulated.
    Unknown,
}

impl Deed {
    /// Nothing at all.
    pub(crate) const NOTHING: Self = Self::Works(Vec::new());

    /// What a node of this kind does that was captured as this work.
    pub(crate) fn of(kind: NodeKind, work: Work) -> Self {
        match kind {
            NodeKind::MemAlloc
            | NodeKind::MemFree
            | NodeKind::EventWait
            | NodeKind::EventRecord => Self::Unknown,
            _ => Self::Works(vec![work]),
        }
    }
}

/// The nodes of an executable, each behind some that stand before it.
#[derive(Debug)]
pub(crate) struct Body(Vec<BodyNode>);

#[derive(Debug)]
struct BodyNode {
    deed: Deed,
    after: Vec<usize>,
}

/// An executable graph.
#[derive(Debug)]
pub(crate) struct GraphExec {
    body: Arc<Body>,
    flags: cuuint64_t,
    /// The references to user objects that it holds.
    users: BTreeMap<usize, u64>,
}

const AUTO_FREE: cuuint64_t =
    CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0 as cuuint64_t;
const UPLOAD: cuuint64_t =
    CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD.0 as cuuint64_t;
const DEVICE: cuuint64_t =
    CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0 as cuuint64_t;
const PRIORITY: cuuint64_t =
    CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0 as cuuint64_t;

impl Turn<'_> {
    /// The live executable with this handle.
    fn exec(&mut self, raw: CUgraphExec) -> Result<Key<GraphExec>, CUresult> {
        self.find(|state| &state.execs, raw.addr(), CUresult::INVALID_VALUE)
    }

    /// The nodes of a graph as they are now; `MISSING` if one of them can't be done.
    fn body_of(&self, graph: Key<Graph>) -> Result<Body, CUresult> {
        let graph = self.state.graphs.get(graph).ok_or(CUresult::INVALID_VALUE)?;
        let mut places = BTreeMap::new();
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for key in &graph.nodes {
            let Some(GraphNode { deed, after, .. }) = self.state.nodes.get(*key) else { continue };
            if matches!(deed, Deed::Unknown) {
                return Err(CUresult::MISSING);
            }
            let after = after.iter().filter_map(|node| places.get(&node.id()).copied()).collect();
            places.insert(key.id(), nodes.len());
            nodes.push(BodyNode { deed: deed.clone(), after });
        }
        Ok(Body(nodes))
    }

    /// Makes a graph executable.
    fn instantiate(
        &mut self,
        graph: CUgraph,
        flags: cuuint64_t,
    ) -> Result<Key<GraphExec>, CUresult> {
        let graph = self.graph(graph)?;
        self.current()?;
        self.not_lost()?;
        self.check_capture()?;
        if flags & !(AUTO_FREE | UPLOAD | DEVICE | PRIORITY) != 0
            || flags & (AUTO_FREE | DEVICE) == AUTO_FREE | DEVICE
        {
            return Err(CUresult::INVALID_VALUE);
        }
        if flags & DEVICE != 0 {
            return Err(CUresult::MISSING);
        }
        let body = Arc::new(self.body_of(graph)?);
        let data = self.state.graphs.get(graph).ok_or(CUresult::INVALID_VALUE)?;
        if data.capture.is_some() {
            return Err(CUresult::ILLEGAL_STATE);
        }
        let users = data.users.clone();
        for (object, count) in &users {
            self.retain_user_object(*object, *count);
        }
        let site = self.site;
        // What is uploaded once isn't a property of the executable (measured by no one; a choice).
        Ok(self.state.execs.insert(site, GraphExec { body, flags: flags & !UPLOAD, users }))
    }

    /// Queues the nodes of an executable behind `begin`; gives where they end.
    fn submit_body(&mut self, body: &Body, stream: Target, begin: Point) -> Vec<Point> {
        let mut ends: Vec<Point> = Vec::with_capacity(body.0.len());
        for node in &body.0 {
            let before: Vec<Point> =
                node.after.iter().filter_map(|at| ends.get(*at)).copied().collect();
            let before = if before.is_empty() { vec![begin] } else { before };
            let works = match &node.deed {
                Deed::Works(works) => works.as_slice(),
                // Such a node isn't made executable.
                Deed::Unknown => &[],
            };
            ends.push(self.submit_works(works, stream, &before));
        }
        ends
    }

    fn submit_works(&mut self, works: &[Work], stream: Target, before: &[Point]) -> Point {
        let queue = self.state.queues.open(stream.context, Ordering::NonBlocking);
        let to = Target::of_queue(queue, stream.context);
        let mut end = self.submit(to, Work::Marker, before);
        for work in works {
            end = self.submit(to, work.clone(), &[]);
        }
        self.state.queues.close(queue);
        end
    }

    /// The last piece of a launch: then the references are given back that it held to user objects.
    fn let_go(&mut self, users: BTreeMap<usize, u64>) -> Work {
        if users.is_empty() {
            return Work::Marker;
        }
        for (object, count) in &users {
            self.retain_user_object(*object, *count);
        }
        Work::OnState(Arc::new(move |state| {
            state.user_references.extend(users.iter().map(|(object, count)| (*object, *count)));
            Ok(())
        }))
    }
}

pub(crate) fn instantiate_with_params(
    turn: &mut Turn<'_>,
    out: Out<CUgraphExec>,
    graph: CUgraph,
    params: Out<CUDA_GRAPH_INSTANTIATE_PARAMS>,
) -> Answer {
    let out = out.required()?;
    let mut told = params.read().ok_or(CUresult::INVALID_VALUE)?;
    let made = match told.flags & UPLOAD {
        0 => turn.instantiate(graph, told.flags),
        _ => turn.stream(told.hUploadStream).and_then(|_| turn.instantiate(graph, told.flags)),
    };
    told.hErrNode_out = CUgraphNode::NULL;
    told.result_out = match made {
        Ok(_) => CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS,
        Err(_) => CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR,
    };
    params.write(told);
    out.write(CUgraphExec::from_addr(made?.raw()));
    Ok(())
}

pub(crate) fn instantiate(
    turn: &mut Turn<'_>,
    out: Out<CUgraphExec>,
    graph: CUgraph,
    error_node: Out<CUgraphNode>,
    log: Out<c_char>,
    room: usize,
) -> Answer {
    let out = out.required()?;
    error_node.write(CUgraphNode::NULL);
    #[expect(unsafe_code, reason = "writes into a buffer of the caller")]
    // SAFETY: *pointers*: the caller says how large its buffer is.
    unsafe {
        log.write_text("", room);
    }
    out.write(CUgraphExec::from_addr(turn.instantiate(graph, 0)?.raw()));
    Ok(())
}

/// Ends an executable. Launches of it go on, and hold what they need.
pub(crate) fn exec_destroy(turn: &mut Turn<'_>, exec: CUgraphExec) -> Answer {
    turn.not_lost()?;
    turn.check_capture()?;
    let key = turn.exec(exec)?;
    let site = turn.site;
    if let Some(ended) = turn.state.execs.remove(key, site, Ending::Destroyed) {
        turn.state.user_references.extend(ended.users);
    }
    Ok(())
}

pub(crate) fn exec_flags(turn: &mut Turn<'_>, exec: CUgraphExec, flags: Out<cuuint64_t>) -> Answer {
    let flags = flags.required()?;
    let key = turn.exec(exec)?;
    flags.write(turn.state.execs.get(key).ok_or(CUresult::INVALID_VALUE)?.flags);
    Ok(())
}

pub(crate) fn upload(turn: &mut Turn<'_>, exec: CUgraphExec, stream: CUstream) -> Answer {
    turn.exec(exec)?;
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.not_member(target)?;
    turn.not_implicit(target)?;
    turn.submit(target, Work::Marker, &[]);
    Ok(())
}

/// Does all of an executable behind what the stream holds. A stream that is captured doesn't take it.
pub(crate) fn launch(turn: &mut Turn<'_>, exec: CUgraphExec, stream: CUstream) -> Answer {
    let key = turn.exec(exec)?;
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.not_member(target)?;
    turn.not_implicit(target)?;
    let data = turn.state.execs.get(key).ok_or(CUresult::INVALID_VALUE)?;
    let (body, users) = (Arc::clone(&data.body), data.users.clone());
    let begin = turn.submit(target, Work::Marker, &[]);
    let ends = turn.submit_body(&body, target, begin);
    let end = turn.let_go(users);
    let end = turn.submit(target, end, &ends);
    turn.touch_unseen(target, Some(end));
    Ok(())
}
