//! Executable graphs: what a graph was when it was made executable, with what is done at each launch.
//!
//! ```text
//!   graph ──instantiate──► Body (body.rs) ──launch──► queues (launch.rs)
//!                             └── changed by updates (update.rs); launches under way go on as they began
//! ```
//!
//! A graph that holds memory nodes or conditional nodes has at most one executable at a time (measured of memory).
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{
    Condition, Deed, Graph, NodeKind,
    body::{Body, Unfit},
    number_of,
};
use crate::{
    queue::{Point, Work},
    world::{Answer, Ending, Key, Out, State, Turn},
};

/// An executable graph.
#[derive(Debug)]
pub(crate) struct GraphExec {
    pub(super) body: Arc<Body>,
    flags: cuuint64_t,
    /// The graph that it was made of, which may have ended.
    pub(super) source: Key<Graph>,
    /// The conditions, which live as long.
    pub(super) conditions: Vec<Arc<Condition>>,
    /// The addresses that its nodes allocate, and those among them that they don't free.
    pub(super) memory: Vec<u64>,
    pub(super) unfreed: Vec<u64>,
    /// The addresses of other graphs' memory that its nodes free.
    pub(super) frees: Vec<u64>,
    /// Where its last launch ends.
    pub(super) last: Option<Point>,
}

const AUTO_FREE: cuuint64_t =
    CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0 as cuuint64_t;
const UPLOAD: cuuint64_t =
    CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD.0 as cuuint64_t;
const DEVICE: cuuint64_t =
    CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0 as cuuint64_t;
const PRIORITY: cuuint64_t =
    CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0 as cuuint64_t;

impl GraphExec {
    /// Whether each launch frees first what the one before left.
    pub(super) const fn frees_first(&self) -> bool {
        self.flags & AUTO_FREE != 0
    }

    /// Where its last launch ends.
    pub(crate) const fn last_launch(&self) -> Option<Point> {
        self.last
    }

    /// The graph that it was made of, which may have ended.
    pub(crate) const fn source_graph(&self) -> Key<Graph> {
        self.source
    }
}

impl State {
    /// Whether only one executable of a graph may live.
    fn is_bound(&self, graph: Key<Graph>) -> bool {
        self.has_inside(graph, |kind| kind.is_memory() || kind == NodeKind::Conditional)
    }
}

impl Turn<'_> {
    /// The live executable with this handle.
    pub(super) fn exec(&mut self, raw: CUgraphExec) -> Result<Key<GraphExec>, CUresult> {
        self.find(|state| &state.execs, raw.addr(), CUresult::INVALID_VALUE)
    }

    pub(super) fn exec_data(&self, key: Key<GraphExec>) -> Result<&GraphExec, CUresult> {
        self.state.execs.get(key).ok_or(CUresult::INVALID_VALUE)
    }

    /// Makes a graph executable.
    fn instantiate(&mut self, raw: CUgraph, flags: cuuint64_t) -> Result<Key<GraphExec>, Unfit> {
        let graph = self.graph(raw)?;
        self.current()?;
        self.not_lost()?;
        self.check_capture()?;
        if flags & !(AUTO_FREE | UPLOAD | DEVICE | PRIORITY) != 0
            || flags & (AUTO_FREE | DEVICE) == AUTO_FREE | DEVICE
        {
            return Err(CUresult::INVALID_VALUE.into());
        }
        if flags & DEVICE != 0 {
            return Err(CUresult::MISSING.into());
        }
        self.not_poisoned(graph)?;
        self.not_being_captured(graph)?;
        if self.graph_data(graph)?.owner.is_some() {
            // Of a graph inside of a node, whichever it is (measured).
            return Err(CUresult::NOT_SUPPORTED.into());
        }
        if self.graph_data(graph)?.execs > 0 && self.state.is_bound(graph) {
            return Err(CUresult::NOT_SUPPORTED.into());
        }
        let body = self.state.body_of(graph)?;
        let conditions = self.state.conditions_in(graph, &body)?;
        // What is uploaded once isn't a property of the executable (measured by no one; a choice).
        Ok(self.new_exec(graph, body, flags & !UPLOAD, conditions))
    }

    fn new_exec(
        &mut self,
        source: Key<Graph>,
        body: Body,
        flags: cuuint64_t,
        conditions: Vec<Arc<Condition>>,
    ) -> Key<GraphExec> {
        for (object, count) in body.all_users() {
            self.retain_user_object(object, count);
        }
        let (memory, freed) = memory_of(&body);
        let unfreed = memory.iter().copied().filter(|base| !freed.contains(base)).collect();
        let frees = freed.into_iter().filter(|base| !memory.contains(base)).collect();
        self.state.memory.hold_graph_memory(&memory);
        if let Some(graph) = self.state.graphs.get_mut(source) {
            graph.execs += 1;
            graph.was_executable = true;
        }
        let body = Arc::new(body);
        let exec =
            GraphExec { body, flags, source, conditions, memory, unfreed, frees, last: None };
        let site = self.site;
        self.state.execs.insert(site, exec)
    }
}

/// What the nodes of an executable allocate and free.
fn memory_of(body: &Body) -> (Vec<u64>, Vec<u64>) {
    let (mut made, mut freed) = (Vec::new(), Vec::new());
    body.visit(&mut |node| match node.deed {
        Deed::Alloc(address, _) => made.push(address),
        Deed::Free(address, _) => freed.push(address),
        _ => {}
    });
    (made, freed)
}

/// The flag to upload is for the function with a stream for it (documented); how it is refused is a choice.
pub(crate) fn instantiate_with_flags(
    turn: &mut Turn<'_>,
    out: Out<CUgraphExec>,
    graph: CUgraph,
    flags: c_ulonglong,
) -> Answer {
    let out = out.required()?;
    if flags & UPLOAD != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let made = turn.instantiate(graph, flags).map_err(|unfit| unfit.status);
    out.write(CUgraphExec::from_addr(made?.raw()));
    Ok(())
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
        _ => match turn.stream(told.hUploadStream) {
            Ok(_stream) => turn.instantiate(graph, told.flags),
            Err(status) => Err(status.into()),
        },
    };
    told.hErrNode_out = made.as_ref().err().map_or(CUgraphNode::NULL, |unfit| unfit.node);
    told.result_out = match &made {
        Ok(_) => CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS,
        Err(unfit) => unfit.outcome,
    };
    params.write(told);
    out.write(CUgraphExec::from_addr(made.map_err(|unfit| unfit.status)?.raw()));
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
    let made = turn.instantiate(graph, 0).map_err(|unfit| {
        error_node.write(unfit.node);
        unfit.status
    });
    out.write(CUgraphExec::from_addr(made?.raw()));
    Ok(())
}

/// Ends an executable. Launches of it go on, and hold what they need.
pub(crate) fn exec_destroy(turn: &mut Turn<'_>, exec: CUgraphExec) -> Answer {
    turn.not_lost()?;
    turn.check_capture()?;
    let key = turn.exec(exec)?;
    let site = turn.site;
    if let Some(ended) = turn.state.execs.remove(key, site, Ending::Destroyed) {
        turn.state.user_references.extend(ended.body.all_users());
        turn.state.memory.let_graph_memory_go(&ended.memory, site);
        if let Some(graph) = turn.state.graphs.get_mut(ended.source) {
            graph.execs = graph.execs.saturating_sub(1);
        }
    }
    Ok(())
}

pub(crate) fn exec_flags(turn: &mut Turn<'_>, exec: CUgraphExec, flags: Out<cuuint64_t>) -> Answer {
    let flags = flags.required()?;
    let key = turn.exec(exec)?;
    flags.write(turn.exec_data(key)?.flags);
    Ok(())
}

pub(crate) fn exec_id(turn: &mut Turn<'_>, exec: CUgraphExec, id: Out<c_uint>) -> Answer {
    let id = id.required()?;
    id.write(number_of(turn.exec(exec)?.id()));
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
