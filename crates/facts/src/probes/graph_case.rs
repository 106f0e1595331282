//! Graphs over memory, contexts and bodies of more than one kind: what a launch or a change minds.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

use core::ptr::null;

use cuhold_driver_sys::{Call, ffi::*};

use super::{graph_any::write, graph_kit::*};
use crate::{ctx::Ctx, probe::Probe, setup::Made};

type Kind = CUgraphConditionalNodeType;

pub(super) const PROBES: &[Probe] = &[
    Probe::case(Call::cuGraphLaunch, "a graph writes values with no context current", |c| {
        writes(c, |c| zeroed(c, 1), false)
    }),
    Probe::case(Call::cuGraphLaunch, "a graph writes values to a pool's memory", |c| {
        writes(c, pooled, true)
    }),
    Probe::case(
        Call::cuGraphLaunch,
        "a graph writes values to a pool's memory with no context current",
        |c| writes(c, pooled, false),
    ),
    Probe::case(
        Call::cuGraphMemsetNodeSetParams,
        "a fill is changed once its graph is executable",
        |c| {
            c.current()?;
            let (graph, one, two) = (c.graph()?, zeroed(c, 64)?, zeroed(c, 64)?);
            let node = fill_node(c, graph, fill_params(one, 1, 64))?;
            changes_fill(c, graph, node, two)
        },
    ),
    Probe::case(
        Call::cuGraphMemsetNodeSetParams,
        "a fill of a pool's memory is changed once its graph is executable",
        |c| {
            c.current()?;
            let [one, two] = [pooled(c)?, pooled(c)?];
            let graph = c.graph()?;
            let node = fill_node(c, graph, fill_params(one, 1, 64))?;
            changes_fill(c, graph, node, two)
        },
    ),
    Probe::case(
        Call::cuGraphAddChildGraphNode,
        "a body takes a child that was captured with a fork",
        |c| {
            for (name, kind) in [("if", Kind::CU_GRAPH_COND_TYPE_IF), WHILE] {
                for with_kernel in [false, true] {
                    let child = captured(c, with_kernel)?;
                    let body = body_of(c, kind)?;
                    let mut node = CUgraphNode::NULL;
                    let label = if with_kernel { "_kernel" } else { "_fills" };
                    let label = format!("{name}{label}");
                    ask!(c.cuGraphAddChildGraphNode(&raw mut node, body, null(), 0, child), &label);
                }
            }
            Ok(())
        },
    ),
    Probe::case(
        Call::cuGraphAddNode_v2,
        "a loop's body is given a child that was captured with a fork",
        |c| {
            let child = captured(c, true)?;
            let (_, kind) = WHILE;
            let body = body_of(c, kind)?;
            let mut params = any_params(CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH);
            params.__bindgen_anon_1.graph.graph = child;
            params.__bindgen_anon_1.graph.ownership =
                CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddNode_v2(&raw mut node, body, null(), null(), 0, &raw mut params));
            Ok(())
        },
    ),
];

const WHILE: (&str, Kind) = ("while", Kind::CU_GRAPH_COND_TYPE_WHILE);

/// A pool's memory.
fn pooled(c: &Ctx) -> Made<CUdeviceptr> {
    c.pool_memory(256, c.pool()?, c.stream()?)
}

/// Launches a graph that writes a value, whether its context is current or none is.
fn writes(c: &mut Ctx, memory: fn(&Ctx) -> Made<CUdeviceptr>, is_current: bool) -> Made<()> {
    let context = c.current()?;
    let stream = c.stream()?;
    let memory = memory(c)?;
    let graph = c.graph()?;
    let mut operation = write(memory, 5);
    let params = CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: context,
        count: 1,
        paramArray: &raw mut operation,
        flags: 0,
    };
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddBatchMemOpNode(&raw mut node, graph, null(), 0, &raw const params));
    let exec = instantiate(c, graph)?;
    if !is_current {
        c.empty_stack();
    }
    ask!(c.cuGraphLaunch(exec, stream));
    ask!(c.cuStreamSynchronize(stream), "synchronize");
    must!(c.cuCtxSetCurrent(context));
    let value = word(c, memory)?;
    c.note("value", value);
    Ok(())
}

/// Changes a fill before and after its graph was made executable.
fn changes_fill(c: &mut Ctx, graph: CUgraph, node: CUgraphNode, to: CUdeviceptr) -> Made<()> {
    let params = fill_params(to, 2, 64);
    ask!(c.cuGraphMemsetNodeSetParams(node, &raw const params), "before");
    let exec = instantiate(c, graph)?;
    let params = fill_params(to, 3, 64);
    ask!(c.cuGraphMemsetNodeSetParams(node, &raw const params), "after");
    c.empty_stack();
    ask!(c.cuGraphMemsetNodeSetParams(node, &raw const params), "nowhere");
    ask!(c.cuGraphExecDestroy(exec), "destroy");
    Ok(())
}

/// The only body of a new graph's conditional.
fn body_of(c: &Ctx, kind: Kind) -> Made<CUgraph> {
    c.current()?;
    let graph = c.graph()?;
    let handle = condition(c, graph, 1)?;
    let mut params = conditional_params(c, handle, kind, 1)?;
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddNode_v2(&raw mut node, graph, null(), null(), 0, &raw mut params));
    Ok(bodies(&params).first().copied().unwrap_or(CUgraph::NULL))
}

/// What two streams do, one of them forked from the other and joined again.
fn captured(c: &Ctx, with_kernel: bool) -> Made<CUgraph> {
    c.current()?;
    let (origin, fork, there, back) = (c.stream()?, c.stream()?, c.event()?, c.event()?);
    let (memory, function) = (c.memory(64)?, c.function(c"nop")?);
    c.capture(origin, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    must!(c.cuMemsetD32Async(memory, 0, 8, origin));
    must!(c.cuEventRecord(there, origin));
    must!(c.cuStreamWaitEvent(fork, there, 0));
    must!(c.cuMemsetD32Async(memory + 32, 0, 8, fork));
    if with_kernel {
        c.launch(function, origin)?;
        c.launch(function, fork)?;
    }
    must!(c.cuEventRecord(back, fork));
    must!(c.cuStreamWaitEvent(origin, back, 0));
    let mut graph = CUgraph::NULL;
    must!(c.cuStreamEndCapture(origin, &raw mut graph));
    Ok(graph)
}
