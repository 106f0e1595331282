//! Nodes added by hand, changed, and taken out again.
//!
//! Parameters are checked and copied when a node is added or changed, as by the call on a stream that does the same;
//! only memory of graphs may be named before it is there.

#![expect(unsafe_code, reason = "parameters of every kind share a union")]

use cuhold_driver_sys::ffi::*;

use super::{
    Deed, Graph, GraphNode, NodeKind, Params, Task, child, condition, memory,
    params::{Operations, Signals, StoredCopy, Waits, Word},
    task::{Fixed, hash_of},
};
use crate::{
    code::NodeKernel,
    context::Context,
    external,
    memory::{node_batch, node_copy, node_fill},
    queue::Work,
    world::{Answer, Ending, In, Key, Out, Turn, UserData},
};
use std::sync::Arc;

type Type = CUgraphNodeType;

/// Where a node is to be: in this graph, behind these nodes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) graph: CUgraph,
    pub(super) dependencies: In<CUgraphNode>,
    pub(super) data: In<CUgraphEdgeData>,
    pub(super) count: usize,
}

/// Adds the node that `make` makes; gives what it became.
pub(super) fn add(
    turn: &mut Turn<'_>,
    out: Out<CUgraphNode>,
    place: Place,
    make: impl FnOnce(&mut Turn<'_>, Key<Graph>) -> Result<Task, CUresult>,
) -> Result<Task, CUresult> {
    let out = out.required()?;
    let graph = turn.graph(place.graph)?;
    let before = turn.nodes_of(graph, place.dependencies, place.data, place.count)?;
    let task = make(turn, graph)?;
    let site = turn.site;
    let inside = child::inside(&task);
    let node = turn.state.add_node(graph, task.clone(), before, site);
    let node = node.ok_or(CUresult::INVALID_VALUE)?;
    turn.own_graphs(node, inside);
    out.write(CUgraphNode::from_addr(node.raw()));
    Ok(task)
}

impl Turn<'_> {
    /// The context that a node names, or the current one.
    pub(super) fn context_of_node(&mut self, raw: CUcontext) -> Result<Key<Context>, CUresult> {
        if raw.is_null() { self.current() } else { self.context(raw) }
    }

    fn kernel_task(&mut self, params: &CUDA_KERNEL_NODE_PARAMS) -> Result<Task, CUresult> {
        let kernel = self.plan_kernel(params)?;
        Ok(kernel_task(kernel))
    }

    /// Changes a kernel node's attributes.
    pub(super) fn replace_kernel(&mut self, node: CUgraphNode, kernel: NodeKernel) -> Answer {
        let key = self.node(node)?;
        self.replace(key, kernel_task(kernel))
    }

    /// A copy needs no context (measured).
    fn memcpy(&mut self, copy: &CUDA_MEMCPY3D, context: CUcontext) -> Result<Task, CUresult> {
        if !context.is_null() {
            self.context(context)?;
        }
        let work = node_copy(self, copy)?;
        let stored = StoredCopy::new(*copy);
        let fixed = if stored.is_row() { Fixed::Row } else { Fixed::Rows(hash_of(copy)) };
        let deed = Deed::Works(vec![work]);
        let params = Params::Memcpy(stored, context);
        Ok(Task { fixed, ..Task::new(NodeKind::Memcpy, params, deed) })
    }

    fn memset(&mut self, fill: CUDA_MEMSET_NODE_PARAMS_v2) -> Result<Task, CUresult> {
        self.context_of_node(fill.ctx)?;
        let work = node_fill(self, &fill)?;
        let fixed = if fill.height <= 1 { Fixed::Row } else { Fixed::Rows(hash_of(&fill)) };
        let deed = Deed::Works(vec![work]);
        Ok(Task { fixed, ..Task::new(NodeKind::Memset, Params::Memset(fill), deed) })
    }

    fn event_node(&mut self, raw: CUevent, kind: NodeKind) -> Result<Task, CUresult> {
        if raw.is_null() {
            // On a stream it is an invalid handle; here it was measured to be this.
            return Err(CUresult::INVALID_VALUE);
        }
        let event = self.event(raw)?;
        let deed = match kind {
            NodeKind::EventWait => Deed::Await(event),
            _ => Deed::Record(event),
        };
        Ok(Task::new(kind, Params::Event(raw), deed))
    }

    fn signal(&mut self, params: &CUDA_EXT_SEM_SIGNAL_NODE_PARAMS) -> Result<Task, CUresult> {
        let (semaphores, list) =
            read_semaphores(params.extSemArray, params.paramsArray, params.numExtSems)?;
        let works = external::node_signals(self, &semaphores, &list)?;
        let fixed = Fixed::Count(list.len());
        let list = list.into_iter().map(Word).collect();
        let params = Params::Signal(Arc::new(Signals { semaphores, list }));
        Ok(Task { fixed, ..Task::new(NodeKind::SemaphoreSignal, params, Deed::Works(works)) })
    }

    fn wait(&mut self, params: &CUDA_EXT_SEM_WAIT_NODE_PARAMS) -> Result<Task, CUresult> {
        let (semaphores, list) =
            read_semaphores(params.extSemArray, params.paramsArray, params.numExtSems)?;
        let works = external::node_waits(self, &semaphores, &list)?;
        let fixed = Fixed::Count(list.len());
        let list = list.into_iter().map(Word).collect();
        let params = Params::Wait(Arc::new(Waits { semaphores, list }));
        Ok(Task { fixed, ..Task::new(NodeKind::SemaphoreWait, params, Deed::Works(works)) })
    }

    /// The context is named (measured).
    fn batch(&mut self, params: &CUDA_BATCH_MEM_OP_NODE_PARAMS) -> Result<Task, CUresult> {
        if params.ctx.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        self.context(params.ctx)?;
        let list = read_array(params.paramArray, params.count)?;
        let works = node_batch(self, &list, params.flags)?;
        let batch = Operations { context: params.ctx, list, flags: params.flags };
        let params = Params::Batch(Arc::new(batch));
        Ok(Task::new(NodeKind::BatchMemOp, params, Deed::Works(works)))
    }

    /// A node of any kind, of parameters whose first word says which.
    pub(super) fn task_of(
        &mut self,
        graph: Key<Graph>,
        told: &CUgraphNodeParams,
    ) -> Result<Task, CUresult> {
        let union = &told.__bindgen_anon_1;
        match told.type_ {
            Type::CU_GRAPH_NODE_TYPE_KERNEL => {
                // SAFETY: the type says which view of the union was written; any bytes are numbers and words.
                let c = unsafe { union.kernel };
                self.kernel_task(&kernel_of(&c))
            }
            Type::CU_GRAPH_NODE_TYPE_MEMCPY => {
                // SAFETY: as above.
                let c = unsafe { union.memcpy };
                if c.flags != 0 || c.reserved != 0 {
                    return Err(CUresult::INVALID_VALUE);
                }
                self.memcpy(&c.copyParams, c.copyCtx)
            }
            Type::CU_GRAPH_NODE_TYPE_MEMSET => {
                // SAFETY: as above.
                self.memset(unsafe { union.memset })
            }
            Type::CU_GRAPH_NODE_TYPE_HOST => {
                // SAFETY: as above; a function that is null is none.
                let c = unsafe { union.host };
                host(c.fn_, c.userData)
            }
            Type::CU_GRAPH_NODE_TYPE_GRAPH => {
                // SAFETY: as above.
                let c = unsafe { union.graph };
                self.child(graph, c.graph, c.ownership)
            }
            Type::CU_GRAPH_NODE_TYPE_EMPTY => Ok(Task::empty()),
            Type::CU_GRAPH_NODE_TYPE_WAIT_EVENT => {
                // SAFETY: as above.
                let c = unsafe { union.eventWait };
                self.event_node(c.event, NodeKind::EventWait)
            }
            Type::CU_GRAPH_NODE_TYPE_EVENT_RECORD => {
                // SAFETY: as above.
                let c = unsafe { union.eventRecord };
                self.event_node(c.event, NodeKind::EventRecord)
            }
            _ => self.task_of_rest(graph, told),
        }
    }

    fn task_of_rest(
        &mut self,
        graph: Key<Graph>,
        told: &CUgraphNodeParams,
    ) -> Result<Task, CUresult> {
        let union = &told.__bindgen_anon_1;
        match told.type_ {
            Type::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL => {
                // SAFETY: the type says which view of the union was written; any bytes are numbers and words.
                let c = unsafe { union.extSemSignal };
                self.signal(&CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
                    extSemArray: c.extSemArray,
                    paramsArray: c.paramsArray,
                    numExtSems: c.numExtSems,
                })
            }
            Type::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT => {
                // SAFETY: as above.
                let c = unsafe { union.extSemWait };
                self.wait(&CUDA_EXT_SEM_WAIT_NODE_PARAMS {
                    extSemArray: c.extSemArray,
                    paramsArray: c.paramsArray,
                    numExtSems: c.numExtSems,
                })
            }
            Type::CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
                // SAFETY: as above.
                let c = unsafe { union.alloc };
                memory::alloc(self, graph, c)
            }
            Type::CU_GRAPH_NODE_TYPE_MEM_FREE => {
                // SAFETY: as above.
                let c = unsafe { union.free };
                memory::free(self, graph, c.dptr)
            }
            Type::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => {
                // SAFETY: as above.
                let c = unsafe { union.memOp };
                self.batch(&CUDA_BATCH_MEM_OP_NODE_PARAMS {
                    ctx: c.ctx,
                    count: c.count,
                    paramArray: c.paramArray,
                    flags: c.flags,
                })
            }
            Type::CU_GRAPH_NODE_TYPE_CONDITIONAL => {
                // SAFETY: as above.
                let c = unsafe { union.conditional };
                self.conditional(graph, c)
            }
            Type::CU_GRAPH_NODE_TYPE_MEMCPY_BATCH
            | Type::CU_GRAPH_NODE_TYPE_EXTERNAL_ENGINE
            | Type::CU_GRAPH_NODE_TYPE_FABRIC_CPY_BATCH => Err(CUresult::MISSING),
            _ => Err(CUresult::INVALID_VALUE),
        }
    }

    /// Puts another task into a node of the same kind. What was inside of it ends.
    fn replace(&mut self, node: Key<GraphNode>, task: Task) -> Answer {
        let inside = child::inside(&task);
        let Some(data) = self.state.nodes.get_mut(node).filter(|n| n.task.kind == task.kind) else {
            return Err(CUresult::INVALID_VALUE);
        };
        let before = std::mem::replace(&mut data.task, task);
        let site = self.site;
        for graph in before.graphs() {
            self.state.end_graph(graph, site);
        }
        self.own_graphs(node, inside);
        Ok(())
    }
}

fn kernel_task(kernel: NodeKernel) -> Task {
    let fixed = Fixed::Context(kernel.context);
    let deed = Deed::Works(vec![kernel.work()]);
    Task { fixed, ..Task::new(NodeKind::Kernel, Params::Kernel(Arc::new(kernel)), deed) }
}

pub(super) fn kernel_of(c: &CUDA_KERNEL_NODE_PARAMS_v3) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: c.func,
        gridDimX: c.gridDimX,
        gridDimY: c.gridDimY,
        gridDimZ: c.gridDimZ,
        blockDimX: c.blockDimX,
        blockDimY: c.blockDimY,
        blockDimZ: c.blockDimZ,
        sharedMemBytes: c.sharedMemBytes,
        kernelParams: c.kernelParams,
        extra: c.extra,
        kern: c.kern,
        ctx: c.ctx,
    }
}

fn host(function: CUhostFn, data: *mut c_void) -> Result<Task, CUresult> {
    if function.is_none() {
        return Err(CUresult::INVALID_VALUE);
    }
    let data = UserData(data);
    let works = vec![Work::Host { function, data }];
    Ok(Task::new(NodeKind::Host, Params::Host(function, data), Deed::Works(works)))
}

/// None of nothing is an empty array (measured of operations and of semaphores).
fn read_array<T: Copy>(list: *const T, count: c_uint) -> Result<Vec<T>, CUresult> {
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    if list.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: *pointers*: the caller's array has as many entries as it says.
    Ok(unsafe { std::slice::from_raw_parts(list, count) }.to_vec())
}

fn read_semaphores<P: Copy>(
    semaphores: *const CUexternalSemaphore,
    list: *const P,
    count: c_uint,
) -> Result<(Vec<CUexternalSemaphore>, Vec<P>), CUresult> {
    Ok((read_array(semaphores, count)?, read_array(list, count)?))
}

type Made = Result<Task, CUresult>;

fn make_kernel(turn: &mut Turn<'_>, params: In<CUDA_KERNEL_NODE_PARAMS>) -> Made {
    turn.kernel_task(&params.read().ok_or(CUresult::INVALID_VALUE)?)
}

fn make_memcpy(turn: &mut Turn<'_>, copy: In<CUDA_MEMCPY3D>, context: CUcontext) -> Made {
    turn.memcpy(&copy.read().ok_or(CUresult::INVALID_VALUE)?, context)
}

fn make_memset(turn: &mut Turn<'_>, params: In<CUDA_MEMSET_NODE_PARAMS>, ctx: CUcontext) -> Made {
    let CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height } =
        params.read().ok_or(CUresult::INVALID_VALUE)?;
    turn.memset(CUDA_MEMSET_NODE_PARAMS_v2 { dst, pitch, value, elementSize, width, height, ctx })
}

fn make_host(_turn: &mut Turn<'_>, params: In<CUDA_HOST_NODE_PARAMS>) -> Made {
    let params = params.read().ok_or(CUresult::INVALID_VALUE)?;
    host(params.fn_, params.userData)
}

fn make_record(turn: &mut Turn<'_>, event: CUevent) -> Made {
    turn.event_node(event, NodeKind::EventRecord)
}

fn make_wait(turn: &mut Turn<'_>, event: CUevent) -> Made {
    turn.event_node(event, NodeKind::EventWait)
}

fn make_signal(turn: &mut Turn<'_>, params: In<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS>) -> Made {
    turn.signal(&params.read().ok_or(CUresult::INVALID_VALUE)?)
}

fn make_wait_semaphores(turn: &mut Turn<'_>, params: In<CUDA_EXT_SEM_WAIT_NODE_PARAMS>) -> Made {
    turn.wait(&params.read().ok_or(CUresult::INVALID_VALUE)?)
}

fn make_batch(turn: &mut Turn<'_>, params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>) -> Made {
    turn.batch(&params.read().ok_or(CUresult::INVALID_VALUE)?)
}

/// The functions that add nodes of a kind, and that change them in an executable.
macro_rules! kinds {
    ($($add:ident $exec:ident $make:ident ($($name:ident : $type:ty),*);)*) => { $(
        #[expect(clippy::allow_attributes, reason = "not all have as many arguments")]
        #[allow(clippy::too_many_arguments, reason = "C's arguments")]
        pub(crate) fn $add(
            turn: &mut Turn<'_>,
            out: Out<CUgraphNode>,
            graph: CUgraph,
            dependencies: In<CUgraphNode>,
            count: usize,
            $($name: $type),*
        ) -> Answer {
            let place = Place { graph, dependencies, data: In::null(), count };
            add(turn, out, place, |turn, _| $make(turn, $($name),*)).map(|_task| ())
        }

        pub(crate) fn $exec(
            turn: &mut Turn<'_>,
            exec: CUgraphExec,
            node: CUgraphNode,
            $($name: $type),*
        ) -> Answer {
            turn.set_in_exec(exec, node, |turn, _| $make(turn, $($name),*))
        }
    )* };
}

kinds! {
    add_kernel exec_set_kernel make_kernel (params: In<CUDA_KERNEL_NODE_PARAMS>);
    add_memcpy exec_set_memcpy make_memcpy (copy: In<CUDA_MEMCPY3D>, context: CUcontext);
    add_memset exec_set_memset make_memset (params: In<CUDA_MEMSET_NODE_PARAMS>, context: CUcontext);
    add_host exec_set_host make_host (params: In<CUDA_HOST_NODE_PARAMS>);
    add_record exec_set_record make_record (event: CUevent);
    add_wait exec_set_wait make_wait (event: CUevent);
    add_signal exec_set_signal make_signal (params: In<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS>);
    add_wait_semaphores exec_set_wait_semaphores make_wait_semaphores
        (params: In<CUDA_EXT_SEM_WAIT_NODE_PARAMS>);
    add_batch exec_set_batch make_batch (params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>);
}

/// The functions that change nodes of a kind.
macro_rules! changes {
    ($($set:ident $kind:ident $make:ident ($name:ident : $type:ty);)*) => { $(
        pub(crate) fn $set(turn: &mut Turn<'_>, node: CUgraphNode, $name: $type) -> Answer {
            let key = turn.node_of(node, NodeKind::$kind)?;
            let task = $make(turn, $name)?;
            turn.replace(key, task)
        }
    )* };
}

changes! {
    set_kernel Kernel make_kernel (params: In<CUDA_KERNEL_NODE_PARAMS>);
    set_host Host make_host (params: In<CUDA_HOST_NODE_PARAMS>);
    set_event EventRecord make_record (event: CUevent);
    set_wait_event EventWait make_wait (event: CUevent);
    set_signal SemaphoreSignal make_signal (params: In<CUDA_EXT_SEM_SIGNAL_NODE_PARAMS>);
    set_wait_semaphores SemaphoreWait make_wait_semaphores (params: In<CUDA_EXT_SEM_WAIT_NODE_PARAMS>);
    set_batch BatchMemOp make_batch (params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>);
}

impl Turn<'_> {
    /// The live node with this handle, which is of this kind.
    fn node_of(&mut self, raw: CUgraphNode, kind: NodeKind) -> Result<Key<GraphNode>, CUresult> {
        let key = self.node(raw)?;
        match self.node_data(key)?.task.kind == kind {
            true => Ok(key),
            false => Err(CUresult::INVALID_VALUE),
        }
    }
}

/// The copy stays in the context that it was added with.
pub(crate) fn set_memcpy(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    copy: In<CUDA_MEMCPY3D>,
) -> Answer {
    let key = turn.node_of(node, NodeKind::Memcpy)?;
    let context = match turn.node_data(key)?.task.params {
        Params::Memcpy(_, context) => context,
        _ => CUcontext::NULL,
    };
    let task = make_memcpy(turn, copy, context)?;
    turn.replace(key, task)
}

/// As [`set_memcpy`].
pub(crate) fn set_memset(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    params: In<CUDA_MEMSET_NODE_PARAMS>,
) -> Answer {
    let key = turn.node_of(node, NodeKind::Memset)?;
    let context = match turn.node_data(key)?.task.params {
        Params::Memset(fill) => fill.ctx,
        _ => CUcontext::NULL,
    };
    let task = make_memset(turn, params, context)?;
    turn.replace(key, task)
}

pub(crate) fn add_empty(
    turn: &mut Turn<'_>,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
) -> Answer {
    let place = Place { graph, dependencies, data: In::null(), count };
    add(turn, out, place, |_, _| Ok(Task::empty())).map(|_task| ())
}

pub(crate) fn add_node(
    turn: &mut Turn<'_>,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    params: Out<CUgraphNodeParams>,
) -> Answer {
    add_any(turn, out, Place { graph, dependencies, data: In::null(), count }, params)
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn add_node_v2(
    turn: &mut Turn<'_>,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
    params: Out<CUgraphNodeParams>,
) -> Answer {
    add_any(turn, out, Place { graph, dependencies, data, count }, params)
}

/// What the driver chose (an address, bodies) is told in the parameters.
fn add_any(
    turn: &mut Turn<'_>,
    out: Out<CUgraphNode>,
    place: Place,
    params: Out<CUgraphNodeParams>,
) -> Answer {
    let mut given = params.read().ok_or(CUresult::INVALID_VALUE)?;
    no_leftovers(&given)?;
    let task = add(turn, out, place, |turn, graph| turn.task_of(graph, &given))?;
    if let Params::Alloc(made) = &task.params {
        given.__bindgen_anon_1.alloc.dptr = made.params.dptr;
        params.write(given);
    } else if let Some(told) = condition::told(&task) {
        given.__bindgen_anon_1.conditional = told;
        params.write(given);
    }
    Ok(())
}

/// Bytes that mean nothing are zero (measured of those behind the union, and of those in it that an empty node leaves).
fn no_leftovers(given: &CUgraphNodeParams) -> Answer {
    let is_empty = given.type_ == Type::CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: the caller wrote all of the union: an empty node has no parameters that could leave bytes unwritten.
    let has_rest = is_empty && unsafe { given.__bindgen_anon_1.reserved1 }.iter().any(|w| *w != 0);
    if given.reserved0 == [0; 3] && given.reserved2 == 0 && !has_rest {
        Ok(())
    } else {
        Err(CUresult::INVALID_VALUE)
    }
}

/// Memory nodes and conditional nodes can't be changed (documented; the status is a choice). An empty node can, to one
/// (measured).
pub(super) fn may_change(kind: NodeKind) -> Answer {
    match kind {
        NodeKind::MemAlloc | NodeKind::MemFree | NodeKind::Conditional => {
            Err(CUresult::NOT_SUPPORTED)
        }
        _ => Ok(()),
    }
}

pub(crate) fn set_params(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    params: Out<CUgraphNodeParams>,
) -> Answer {
    let given = params.read().ok_or(CUresult::INVALID_VALUE)?;
    let key = turn.node(node)?;
    let data = turn.node_data(key)?;
    let (kind, graph) = (data.task.kind, data.graph);
    no_leftovers(&given)?;
    if given.type_ != kind.as_c() {
        return Err(CUresult::INVALID_VALUE);
    }
    may_change(kind)?;
    let task = turn.task_of(graph, &given)?;
    turn.replace(key, task)
}

/// Takes a node out, with its edges and what is inside of it. Graphs with memory nodes keep theirs (measured of such
/// a node), and so does a graph that a capture fills (documented; the status is a choice).
pub(crate) fn destroy_node(turn: &mut Turn<'_>, node: CUgraphNode) -> Answer {
    let key = turn.node(node)?;
    let graph = turn.node_data(key)?.graph;
    if turn.graph_data(graph)?.has_memory {
        return Err(CUresult::NOT_SUPPORTED);
    }
    if turn.graph_data(graph)?.capture.is_some() {
        return Err(CUresult::ILLEGAL_STATE);
    }
    let inside: Vec<_> = turn.node_data(key)?.task.graphs().collect();
    for graph in &inside {
        turn.not_poisoned(*graph)?;
        turn.not_being_captured(*graph)?;
    }
    let site = turn.site;
    let state = &mut *turn.state;
    let Some(ended) = state.nodes.remove(key, site, Ending::Destroyed) else { return Ok(()) };
    if let Some(graph) = state.graphs.get_mut(graph) {
        graph.nodes.remove(&key.id());
    }
    for edge in ended.before {
        if let Some(from) = state.nodes.get_mut(edge.node) {
            from.behind.retain(|node| *node != key);
        }
    }
    for to in ended.behind {
        if let Some(to) = state.nodes.get_mut(to) {
            to.before.retain(|edge| edge.node != key);
        }
    }
    for graph in inside {
        state.end_graph(graph, site);
    }
    Ok(())
}
