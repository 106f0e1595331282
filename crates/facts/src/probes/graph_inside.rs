//! What graphs hold of their own: memory, conditions and the bodies that depend on them.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

use core::{
    ptr::{null, null_mut},
    sync::atomic::AtomicU32,
};

use cuhold_driver_sys::{Call, ffi::*};

use super::graph_kit::*;
use crate::{
    ctx::Ctx,
    host,
    probe::{Probe, step},
    setup::Made,
};

type Kind = CUgraphConditionalNodeType;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuGraphAddMemAllocNode, "a graph allocates memory", |c| {
        c.current()?;
        let graph = c.graph()?;
        let params = Sent(alloc_params(c, 64)?);
        step(move |c| {
            let mut params = params;
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddMemAllocNode(&raw mut node, graph, null(), 0, &raw mut params.0));
            if c.observes() {
                c.holds("address", params.0.dptr != 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddMemAllocNode, "a graph allocates something somewhere", |c| {
        c.current()?;
        let graph = c.graph()?;
        let mut node = CUgraphNode::NULL;
        let mut params = alloc_params(c, 0)?;
        let out = &raw mut node;
        ask!(c.cuGraphAddMemAllocNode(out, graph, null(), 0, &raw mut params), "no_bytes");
        params = alloc_params(c, 64)?;
        params.poolProps.location.__bindgen_anon_1.id = 99;
        ask!(c.cuGraphAddMemAllocNode(out, graph, null(), 0, &raw mut params), "device");
        params = alloc_params(c, 64)?;
        params.poolProps.handleTypes =
            CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        ask!(c.cuGraphAddMemAllocNode(out, graph, null(), 0, &raw mut params), "shareable");
        ask!(c.cuGraphAddMemAllocNode(out, graph, null(), 0, null_mut()), "no_params");
        Ok(())
    }),
    Probe::crashes(
        Call::cuGraphAddMemAllocNode,
        "a graph's allocation has a list of access",
        |c| {
            c.current()?;
            let graph = c.graph()?;
            let mut node = CUgraphNode::NULL;
            let mut params = alloc_params(c, 64)?;
            params.accessDescCount = 1;
            crash!(c.cuGraphAddMemAllocNode(&raw mut node, graph, null(), 0, &raw mut params));
            Ok(())
        },
    ),
    Probe::works(Call::cuGraphMemAllocNodeGetParams, "an allocation tells its parameters", |c| {
        c.current()?;
        let graph = c.graph()?;
        let (node, at) = alloc(c, graph, 64)?;
        step(move |c| {
            let mut told = CUDA_MEM_ALLOC_NODE_PARAMS::default();
            ask!(c.cuGraphMemAllocNodeGetParams(node, &raw mut told));
            if c.observes() {
                c.holds("same", told.dptr == at);
                c.note("bytes", told.bytesize);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphMemAllocNodeGetParams, "an empty node tells no allocation", |c| {
        c.current()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        let mut told = CUDA_MEM_ALLOC_NODE_PARAMS::default();
        ask!(c.cuGraphMemAllocNodeGetParams(node, &raw mut told));
        Ok(())
    }),
    Probe::works(Call::cuGraphAddMemFreeNode, "a graph frees its memory", |c| {
        c.current()?;
        let graph = c.graph()?;
        let (made, at) = alloc(c, graph, 64)?;
        step(move |c| {
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddMemFreeNode(&raw mut node, graph, &raw const made, 1, at));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddMemFreeNode, "a graph frees a graph's memory once", |c| {
        c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let (made, at) = alloc(c, graph, 64)?;
        let mut node = CUgraphNode::NULL;
        let (out, before) = (&raw mut node, &raw const made);
        ask!(c.cuGraphAddMemFreeNode(out, graph, before, 1, memory), "other");
        ask!(c.cuGraphAddMemFreeNode(out, graph, before, 1, at + 4), "inside");
        ask!(c.cuGraphAddMemFreeNode(out, graph, before, 1, 0), "null");
        must!(c.cuGraphAddMemFreeNode(out, graph, before, 1, at));
        ask!(c.cuGraphAddMemFreeNode(out, graph, before, 1, at), "twice");
        Ok(())
    }),
    Probe::case(
        Call::cuGraphAddMemFreeNode,
        "memory is freed behind its allocation or beside it",
        |c| {
            c.current()?;
            let graph = c.graph()?;
            let (_, at) = alloc(c, graph, 64)?;
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddMemFreeNode(&raw mut node, graph, null(), 0, at), "beside");
            ask_to_instantiate(c, graph, "instantiate");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuGraphAddMemFreeNode,
        "memory isn't freed by a graph that is executable",
        |c| {
            c.current()?;
            let graph = c.graph()?;
            let (made, at) = alloc(c, graph, 64)?;
            let exec = instantiate(c, graph)?;
            let mut node = CUgraphNode::NULL;
            let (out, before) = (&raw mut node, &raw const made);
            ask!(c.cuGraphAddMemFreeNode(out, graph, before, 1, at), "executable");
            must!(c.cuGraphExecDestroy(exec));
            ask!(c.cuGraphAddMemFreeNode(out, graph, before, 1, at), "afterwards");
            Ok(())
        },
    ),
    Probe::works(Call::cuGraphMemFreeNodeGetParams, "a free tells its address", |c| {
        c.current()?;
        let graph = c.graph()?;
        let (made, at) = alloc(c, graph, 64)?;
        let mut node = CUgraphNode::NULL;
        must!(c.cuGraphAddMemFreeNode(&raw mut node, graph, &raw const made, 1, at));
        step(move |c| {
            let mut told = 0;
            ask!(c.cuGraphMemFreeNodeGetParams(node, &raw mut told));
            if c.observes() {
                c.holds("same", told == at);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphMemFreeNodeGetParams, "an allocation tells no free", |c| {
        c.current()?;
        let graph = c.graph()?;
        let (node, _) = alloc(c, graph, 64)?;
        let mut told = 0;
        ask!(c.cuGraphMemFreeNodeGetParams(node, &raw mut told));
        Ok(())
    }),
    Probe::case(Call::cuGraphAddMemAllocNode, "a graph with memory is bound", |c| {
        c.current()?;
        let (graph, outer) = (c.graph()?, c.graph()?);
        let (made, _) = alloc(c, graph, 64)?;
        let other = c.node(graph)?;
        must!(c.cuGraphAddDependencies(graph, &raw const made, &raw const other, 1));
        let (mut copy, mut node) = (CUgraph::NULL, CUgraphNode::NULL);
        ask!(c.cuGraphClone(&raw mut copy, graph), "clone");
        ask!(c.cuGraphAddChildGraphNode(&raw mut node, outer, null(), 0, graph), "child");
        ask!(c.cuGraphRemoveDependencies(graph, &raw const made, &raw const other, 1), "edge");
        ask!(c.cuGraphDestroyNode(other), "other");
        ask!(c.cuGraphDestroyNode(made), "made");
        instantiate(c, graph)?;
        ask_to_instantiate(c, graph, "again");
        Ok(())
    }),
    Probe::case(Call::cuGraphLaunch, "memory that a launch left is in the next one's way", |c| {
        c.current()?;
        let (graph, stream) = (c.graph()?, c.stream()?);
        let (_, at) = alloc(c, graph, 64)?;
        let exec = instantiate(c, graph)?;
        ask!(c.cuMemFreeAsync(at, stream), "before");
        ask!(c.cuGraphLaunch(exec, stream), "launch");
        ask!(c.cuGraphLaunch(exec, stream), "again");
        ask!(c.cuMemsetD8Async(at, 1, 64, stream), "fill");
        ask!(c.cuMemFreeAsync(at, stream), "free");
        ask!(c.cuMemFreeAsync(at, stream), "twice");
        ask!(c.cuGraphLaunch(exec, stream), "then");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuMemFree_v2(at), "plain");
        ask!(c.cuGraphLaunch(exec, stream), "last");
        ask!(c.cuGraphExecDestroy(exec), "exec");
        ask!(c.cuGraphDestroy(graph), "graph");
        ask!(c.cuMemFreeAsync(at, stream), "outlived");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuGraphLaunch, "a launch may free first what the last one left", |c| {
        c.current()?;
        let (graph, stream) = (c.graph()?, c.stream()?);
        let (_, at) = alloc(c, graph, 64)?;
        let mut exec = CUgraphExec::NULL;
        let mut params =
            CUDA_GRAPH_INSTANTIATE_PARAMS { flags: 1, ..CUDA_GRAPH_INSTANTIATE_PARAMS::default() };
        must!(c.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut params));
        ask!(c.cuGraphLaunch(exec, stream), "launch");
        ask!(c.cuGraphLaunch(exec, stream), "again");
        ask!(c.cuMemFreeAsync(at, stream), "free");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuGraphLaunch, "a graph frees what another graph left", |c| {
        c.current()?;
        let (making, freeing, stream) = (c.graph()?, c.graph()?, c.stream()?);
        let (_, at) = alloc(c, making, 64)?;
        let mut node = CUgraphNode::NULL;
        ask!(c.cuGraphAddMemFreeNode(&raw mut node, freeing, null(), 0, at), "node");
        let (making, freeing) = (instantiate(c, making)?, instantiate(c, freeing)?);
        ask!(c.cuGraphLaunch(freeing, stream), "early");
        for _ in 0..2 {
            ask!(c.cuGraphLaunch(making, stream), "make");
            ask!(c.cuGraphLaunch(freeing, stream), "free");
        }
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::works(Call::cuGraphConditionalHandleCreate, "a graph has a condition", |c| {
        let context = c.current()?;
        let graph = c.graph()?;
        step(move |c| {
            let mut handle = 0;
            ask!(c.cuGraphConditionalHandleCreate(&raw mut handle, graph, context, 1, 1));
            if c.observes() {
                c.holds("null", handle == 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphConditionalHandleCreate, "a condition has no unknown flags", |c| {
        let context = c.current()?;
        let graph = c.graph()?;
        let mut handle = 0;
        let out = &raw mut handle;
        ask!(c.cuGraphConditionalHandleCreate(out, graph, context, 1, 2));
        ask!(c.cuGraphConditionalHandleCreate(out, CUgraph::NULL, context, 1, 1), "graph");
        ask!(c.cuGraphConditionalHandleCreate(null_mut(), graph, context, 1, 1), "nowhere");
        ask!(c.cuGraphConditionalHandleCreate(out, graph, CUcontext::NULL, 1, 1), "current");
        c.empty_stack();
        ask!(c.cuGraphConditionalHandleCreate(out, graph, CUcontext::NULL, 1, 1), "without");
        Ok(())
    }),
    Probe::case(Call::cuGraphAddNode_v2, "a condition picks the body that is done", |c| {
        c.current()?;
        for (kind, size) in [(Kind::CU_GRAPH_COND_TYPE_IF, 2), (Kind::CU_GRAPH_COND_TYPE_SWITCH, 2)]
        {
            for value in 0..3 {
                let done = picked(c, kind, size, value)?;
                c.note("done", done);
            }
        }
        Ok(())
    }),
    Probe::case(
        Call::cuGraphAddNode_v2,
        "a conditional node has as many bodies as fit its kind",
        |c| {
            c.current()?;
            let graph = c.graph()?;
            let handle = condition(c, graph, 1)?;
            let mut node = CUgraphNode::NULL;
            for (kind, size, label) in [
                (Kind::CU_GRAPH_COND_TYPE_IF, 0, "if_none"),
                (Kind::CU_GRAPH_COND_TYPE_IF, 3, "if_three"),
                (Kind::CU_GRAPH_COND_TYPE_WHILE, 2, "while_two"),
                (Kind::CU_GRAPH_COND_TYPE_SWITCH, 0, "switch_none"),
                (CUgraphConditionalNodeType(9), 1, "unknown"),
            ] {
                let mut params = conditional_params(c, handle, kind, size)?;
                let (out, params) = (&raw mut node, &raw mut params);
                ask!(c.cuGraphAddNode_v2(out, graph, null(), null(), 0, params), label);
            }
            Ok(())
        },
    ),
    Probe::case(Call::cuGraphAddNode_v2, "a condition is used once, or twice, or elsewhere", |c| {
        c.current()?;
        let (graph, other) = (c.graph()?, c.graph()?);
        let handle = condition(c, graph, 1)?;
        if_node(c, graph, handle)?;
        let mut node = CUgraphNode::NULL;
        let mut params = conditional_params(c, handle, Kind::CU_GRAPH_COND_TYPE_IF, 1)?;
        let (out, given) = (&raw mut node, &raw mut params);
        ask!(c.cuGraphAddNode_v2(out, graph, null(), null(), 0, given), "twice");
        let mut params = conditional_params(c, handle, Kind::CU_GRAPH_COND_TYPE_IF, 1)?;
        ask!(c.cuGraphAddNode_v2(out, other, null(), null(), 0, &raw mut params), "elsewhere");
        ask_to_instantiate(c, graph, "instantiate");
        Ok(())
    }),
    Probe::case(Call::cuGraphAddNode_v2, "a graph with a condition is bound", |c| {
        c.current()?;
        let (graph, outer) = (c.graph()?, c.graph()?);
        let handle = condition(c, graph, 1)?;
        let (node, body) = if_node(c, graph, handle)?;
        let (mut copy, mut child) = (CUgraph::NULL, CUgraphNode::NULL);
        ask!(c.cuGraphClone(&raw mut copy, graph), "clone");
        ask!(c.cuGraphAddChildGraphNode(&raw mut child, outer, null(), 0, graph), "child");
        ask!(c.cuGraphDestroy(body), "body");
        ask_to_instantiate(c, body, "instantiate_body");
        instantiate(c, graph)?;
        ask_to_instantiate(c, graph, "again");
        ask!(c.cuGraphDestroyNode(node), "node");
        Ok(())
    }),
    Probe::case(Call::cuGraphInstantiateWithParams, "a condition is used", |c| {
        c.current()?;
        let graph = c.graph()?;
        condition(c, graph, 1)?;
        ask_to_instantiate(c, graph, "unused");
        Ok(())
    }),
    Probe::case(Call::cuGraphInstantiateWithParams, "a body holds no host node", |c| {
        let (graph, body) = with_body(c)?;
        let node = host_node(c, body, host::leak(AtomicU32::new(0)))?;
        let told = ask_to_instantiate(c, graph, "host");
        c.holds("same", told == node);
        Ok(())
    }),
    Probe::case(Call::cuGraphInstantiateWithParams, "a body holds no event", |c| {
        let (graph, body) = with_body(c)?;
        let event = c.event()?;
        let mut node = CUgraphNode::NULL;
        must!(c.cuGraphAddEventRecordNode(&raw mut node, body, null(), 0, event));
        let told = ask_to_instantiate(c, graph, "record");
        c.holds("same", told == node);
        Ok(())
    }),
    Probe::case(Call::cuGraphInstantiateWithParams, "a body holds no allocation", |c| {
        let (graph, body) = with_body(c)?;
        let (node, _) = alloc(c, body, 64)?;
        let told = ask_to_instantiate(c, graph, "alloc");
        c.holds("same", told == node);
        Ok(())
    }),
    Probe::case(Call::cuGraphAddMemAllocNode, "a graph inside takes no memory nodes", |c| {
        c.current()?;
        let (graph, inner) = (c.graph()?, c.graph()?);
        c.node(inner)?;
        let node = child_node(c, graph, inner)?;
        let mut inside = CUgraph::NULL;
        must!(c.cuGraphChildGraphNodeGetGraph(node, &raw mut inside));
        let mut params = alloc_params(c, 64)?;
        let mut made = CUgraphNode::NULL;
        ask!(c.cuGraphAddMemAllocNode(&raw mut made, inside, null(), 0, &raw mut params));
        Ok(())
    }),
    Probe::case(Call::cuStreamEndCapture, "an invalidated body is gone under its node", |c| {
        let (graph, node, body) = poisoned(c)?;
        let (mut count, mut kind) = (9, CUgraphNodeType(99));
        ask!(c.cuGraphGetNodes(graph, null_mut(), &raw mut count), "nodes");
        c.note("count", count);
        ask!(c.cuGraphNodeGetType(node, &raw mut kind), "type");
        ask!(c.cuGraphGetNodes(body, null_mut(), &raw mut count), "body");
        Ok(())
    }),
    Probe::crashes(Call::cuGraphDestroy, "a graph with a freed body isn't destroyed", |c| {
        let (graph, _, _) = poisoned(c)?;
        crash!(c.cuGraphDestroy(graph));
        Ok(())
    }),
    Probe::crashes(Call::cuGraphDestroyNode, "a node with a freed body isn't taken out", |c| {
        let (_, node, _) = poisoned(c)?;
        crash!(c.cuGraphDestroyNode(node));
        Ok(())
    }),
];

/// Parameters of an allocation, which hold no pointer.
#[derive(Clone, Copy)]
struct Sent(CUDA_MEM_ALLOC_NODE_PARAMS);

// SAFETY: every pointer in them is null.
unsafe impl Send for Sent {}

fn alloc_params(c: &Ctx, bytes: usize) -> Made<CUDA_MEM_ALLOC_NODE_PARAMS> {
    Ok(CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps: c.pool_props()?,
        bytesize: bytes,
        ..CUDA_MEM_ALLOC_NODE_PARAMS::default()
    })
}

/// A node that allocates, and the address.
fn alloc(c: &Ctx, graph: CUgraph, bytes: usize) -> Made<(CUgraphNode, CUdeviceptr)> {
    let mut params = alloc_params(c, bytes)?;
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddMemAllocNode(&raw mut node, graph, null(), 0, &raw mut params));
    Ok((node, params.dptr))
}

/// A graph with a body that is done.
fn with_body(c: &Ctx) -> Made<(CUgraph, CUgraph)> {
    c.current()?;
    let graph = c.graph()?;
    let handle = condition(c, graph, 1)?;
    let (_, body) = if_node(c, graph, handle)?;
    Ok((graph, body))
}

/// A graph with a body whose capture was invalidated.
fn poisoned(c: &Ctx) -> Made<(CUgraph, CUgraphNode, CUgraph)> {
    c.current()?;
    let graph = c.graph()?;
    let handle = condition(c, graph, 1)?;
    let (node, body) = if_node(c, graph, handle)?;
    let stream = c.stream()?;
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    must!(c.cuStreamBeginCaptureToGraph(stream, body, null(), null(), 0, mode));
    let (mut memory, mut ended) = (0, CUgraph::NULL);
    // SAFETY: *pointers*: to locals. Both calls are refused, which is what is wanted.
    let _refused = unsafe { c.driver().cuMemAlloc_v2(&raw mut memory, 64) };
    // SAFETY: as above.
    let _refused = unsafe { c.driver().cuStreamEndCapture(stream, &raw mut ended) };
    Ok((graph, node, body))
}

/// Which bodies are done, as a number with a decimal digit for each.
fn picked(c: &mut Ctx, kind: Kind, size: u32, value: u32) -> Made<u32> {
    let (graph, memory) = (c.graph()?, zeroed(c, 4)?);
    let handle = condition(c, graph, value)?;
    let mut params = conditional_params(c, handle, kind, size)?;
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddNode_v2(&raw mut node, graph, null(), null(), 0, &raw mut params));
    for (body, place) in bodies(&params).into_iter().zip(0_u64..) {
        fill_node(c, body, fill_params(memory + place * 4, 1, 1))?;
    }
    let exec = instantiate(c, graph)?;
    let stream = c.stream()?;
    must!(c.cuGraphLaunch(exec, stream));
    c.wait_for(stream)?;
    Ok(word(c, memory)? * 10 + word(c, memory + 4)?)
}
