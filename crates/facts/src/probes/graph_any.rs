//! Nodes of graphs that have to do with events, values and semaphores, and nodes of any kind.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

use core::{
    ptr::{null, null_mut},
    sync::atomic::{AtomicU32, Ordering},
};

use cuhold_driver_sys::{Call, ffi::*};

use super::graph_kit::*;
use crate::{
    ctx::Ctx,
    host,
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuGraphAddEventRecordNode, "a graph records an event", |c| {
        c.current()?;
        let (graph, event) = (c.graph()?, c.event()?);
        step(move |c| {
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddEventRecordNode(&raw mut node, graph, null(), 0, event));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddEventRecordNode, "a graph doesn't record null", |c| {
        c.current()?;
        let graph = c.graph()?;
        let mut node = CUgraphNode::NULL;
        ask!(c.cuGraphAddEventRecordNode(&raw mut node, graph, null(), 0, CUevent::NULL));
        Ok(())
    }),
    Probe::works(Call::cuGraphEventRecordNodeGetEvent, "a record tells its event", |c| {
        let (node, _, event) = events(c)?;
        step(move |c| {
            let mut told = CUevent::NULL;
            ask!(c.cuGraphEventRecordNodeGetEvent(node, &raw mut told));
            if c.observes() {
                c.holds("same", told == event);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphEventRecordNodeGetEvent, "a wait tells no record's event", |c| {
        let (_, node, _) = events(c)?;
        let mut told = CUevent::NULL;
        ask!(c.cuGraphEventRecordNodeGetEvent(node, &raw mut told));
        Ok(())
    }),
    Probe::works(Call::cuGraphEventRecordNodeSetEvent, "a record's event is changed", |c| {
        let (node, _, _) = events(c)?;
        let event = c.event()?;
        step(move |c| {
            ask!(c.cuGraphEventRecordNodeSetEvent(node, event));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphEventRecordNodeSetEvent, "a record's event isn't made null", |c| {
        let (node, wait, event) = events(c)?;
        ask!(c.cuGraphEventRecordNodeSetEvent(node, CUevent::NULL));
        ask!(c.cuGraphEventRecordNodeSetEvent(wait, event), "wait");
        Ok(())
    }),
    Probe::works(Call::cuGraphAddEventWaitNode, "a graph waits for an event", |c| {
        c.current()?;
        let (graph, event) = (c.graph()?, c.event()?);
        step(move |c| {
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddEventWaitNode(&raw mut node, graph, null(), 0, event));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddEventWaitNode, "a graph doesn't wait for null", |c| {
        c.current()?;
        let graph = c.graph()?;
        let mut node = CUgraphNode::NULL;
        ask!(c.cuGraphAddEventWaitNode(&raw mut node, graph, null(), 0, CUevent::NULL));
        Ok(())
    }),
    Probe::works(Call::cuGraphEventWaitNodeGetEvent, "a wait tells its event", |c| {
        let (_, node, event) = events(c)?;
        step(move |c| {
            let mut told = CUevent::NULL;
            ask!(c.cuGraphEventWaitNodeGetEvent(node, &raw mut told));
            if c.observes() {
                c.holds("same", told == event);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphEventWaitNodeGetEvent, "a record tells no wait's event", |c| {
        let (node, _, _) = events(c)?;
        let mut told = CUevent::NULL;
        ask!(c.cuGraphEventWaitNodeGetEvent(node, &raw mut told));
        Ok(())
    }),
    Probe::works(Call::cuGraphEventWaitNodeSetEvent, "a wait's event is changed", |c| {
        let (_, node, _) = events(c)?;
        let event = c.event()?;
        step(move |c| {
            ask!(c.cuGraphEventWaitNodeSetEvent(node, event));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphEventWaitNodeSetEvent, "a wait's event isn't made null", |c| {
        let (_, node, _) = events(c)?;
        ask!(c.cuGraphEventWaitNodeSetEvent(node, CUevent::NULL));
        Ok(())
    }),
    Probe::works(Call::cuGraphAddBatchMemOpNode, "a graph writes values", |c| {
        let context = c.current()?;
        let (graph, memory) = (c.graph()?, zeroed(c, 1)?);
        step(move |c| {
            let mut operation = write(memory, 5);
            let params = batch(context, &mut operation);
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddBatchMemOpNode(&raw mut node, graph, null(), 0, &raw const params));
            if c.observes() {
                let exec = instantiate(c, graph)?;
                launch(c, exec)?;
                let value = word(c, memory)?;
                c.note("value", value);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddBatchMemOpNode, "a graph's batch has no unknown flags", |c| {
        let context = c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let mut operation = write(memory, 5);
        let flags = CUDA_BATCH_MEM_OP_NODE_PARAMS { flags: 1, ..batch(context, &mut operation) };
        let mut node = CUgraphNode::NULL;
        ask!(c.cuGraphAddBatchMemOpNode(&raw mut node, graph, null(), 0, &raw const flags));
        Ok(())
    }),
    Probe::case(Call::cuGraphAddBatchMemOpNode, "a graph's batch has operations", |c| {
        let context = c.current()?;
        let (graph, memory) = (c.graph()?, c.memory(64)?);
        let mut operation = write(memory, 5);
        let good = batch(context, &mut operation);
        let mut node = CUgraphNode::NULL;
        let out = &raw mut node;
        let none = CUDA_BATCH_MEM_OP_NODE_PARAMS { count: 0, ..good };
        ask!(c.cuGraphAddBatchMemOpNode(out, graph, null(), 0, &raw const none), "none");
        let flags = CUDA_BATCH_MEM_OP_NODE_PARAMS { flags: 1, ..good };
        ask!(c.cuGraphAddBatchMemOpNode(out, graph, null(), 0, &raw const flags), "flags");
        let unnamed = CUDA_BATCH_MEM_OP_NODE_PARAMS { ctx: CUcontext::NULL, ..good };
        ask!(c.cuGraphAddBatchMemOpNode(out, graph, null(), 0, &raw const unnamed), "context");
        Ok(())
    }),
    Probe::works(Call::cuGraphBatchMemOpNodeGetParams, "a batch tells its parameters", |c| {
        let (node, _) = batch_node(c)?;
        step(move |c| {
            let mut told = CUDA_BATCH_MEM_OP_NODE_PARAMS::default();
            ask!(c.cuGraphBatchMemOpNodeGetParams(node, &raw mut told));
            if c.observes() {
                c.note("count", told.count);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphBatchMemOpNodeGetParams, "an empty node tells no batch", |c| {
        c.current()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        let mut told = CUDA_BATCH_MEM_OP_NODE_PARAMS::default();
        ask!(c.cuGraphBatchMemOpNodeGetParams(node, &raw mut told));
        Ok(())
    }),
    Probe::works(Call::cuGraphBatchMemOpNodeSetParams, "a batch is changed", |c| {
        let (node, memory) = batch_node(c)?;
        let context = c.what_is_current()?;
        step(move |c| {
            let mut operation = write(memory, 6);
            let params = batch(context, &mut operation);
            ask!(c.cuGraphBatchMemOpNodeSetParams(node, &raw const params));
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuGraphBatchMemOpNodeSetParams,
        "a batch isn't changed to unknown flags",
        |c| {
            let (node, memory) = batch_node(c)?;
            let mut operation = write(memory, 6);
            let params = batch(c.what_is_current()?, &mut operation);
            let params = CUDA_BATCH_MEM_OP_NODE_PARAMS { flags: 1, ..params };
            ask!(c.cuGraphBatchMemOpNodeSetParams(node, &raw const params));
            Ok(())
        },
    ),
    Probe::case(Call::cuGraphBatchMemOpNodeSetParams, "a batch isn't changed to none", |c| {
        let (node, memory) = batch_node(c)?;
        let mut operation = write(memory, 6);
        let params = batch(c.what_is_current()?, &mut operation);
        let params = CUDA_BATCH_MEM_OP_NODE_PARAMS { count: 0, ..params };
        ask!(c.cuGraphBatchMemOpNodeSetParams(node, &raw const params));
        Ok(())
    }),
    Probe::works(Call::cuGraphAddNode_v2, "a node is added by its kind", |c| {
        c.device()?;
        let graph = c.graph()?;
        step(move |c| {
            let mut params = any_params(CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY);
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddNode_v2(&raw mut node, graph, null(), null(), 0, &raw mut params));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddNode_v2, "a node is of a kind that there is", |c| {
        c.device()?;
        let graph = c.graph()?;
        let mut node = CUgraphNode::NULL;
        let mut params = any_params(CUgraphNodeType(99));
        let (out, given) = (&raw mut node, &raw mut params);
        ask!(c.cuGraphAddNode_v2(out, graph, null(), null(), 0, given));
        params = any_params(CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY);
        params.reserved2 = 1;
        ask!(c.cuGraphAddNode_v2(out, graph, null(), null(), 0, &raw mut params), "leftovers");
        params = any_params(CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY);
        let mut words = [0; 29];
        words[28] = 1;
        params.__bindgen_anon_1.reserved1 = words;
        ask!(c.cuGraphAddNode_v2(out, graph, null(), null(), 0, &raw mut params), "inside");
        ask!(c.cuGraphAddNode_v2(out, graph, null(), null(), 0, null_mut()), "no_params");
        Ok(())
    }),
    Probe::works(Call::cuGraphNodeSetParams, "a node of any kind is changed", |c| {
        c.device()?;
        let (graph, ran) = (c.graph()?, host::leak(AtomicU32::new(0)));
        let node = host_node(c, graph, ran)?;
        step(move |c| {
            let mut params = any_host(ran);
            ask!(c.cuGraphNodeSetParams(node, &raw mut params));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphNodeSetParams, "a node doesn't change its kind", |c| {
        c.device()?;
        let (graph, ran) = (c.graph()?, host::leak(AtomicU32::new(0)));
        let node = c.node(graph)?;
        let mut params = any_host(ran);
        ask!(c.cuGraphNodeSetParams(node, &raw mut params));
        params = any_params(CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY);
        ask!(c.cuGraphNodeSetParams(node, &raw mut params), "empty");
        Ok(())
    }),
    Probe::case(Call::cuGraphAddNode_v2, "a graph that is moved inside keeps its handle", |c| {
        c.current()?;
        let (graph, inner, other) = (c.graph()?, c.graph()?, c.graph()?);
        let ran = host::leak(AtomicU32::new(0));
        host_node(c, inner, ran)?;
        let mut params = moved(inner);
        let mut node = CUgraphNode::NULL;
        ask!(c.cuGraphAddNode_v2(&raw mut node, graph, null(), null(), 0, &raw mut params));
        let mut inside = CUgraph::NULL;
        ask!(c.cuGraphChildGraphNodeGetGraph(node, &raw mut inside), "inside");
        c.holds("same", inside == inner);
        ask!(c.cuGraphDestroy(inner), "destroy");
        let mut again = moved(inner);
        ask!(c.cuGraphAddNode_v2(&raw mut node, other, null(), null(), 0, &raw mut again), "again");
        ask_to_instantiate(c, inner, "inner");
        let exec = instantiate(c, graph)?;
        launch(c, exec)?;
        c.note("ran", ran.load(Ordering::SeqCst));
        Ok(())
    }),
    Probe::case(
        Call::cuGraphAddExternalSemaphoresSignalNode,
        "no semaphores aren't signalled by a graph",
        |c| {
            c.current()?;
            let graph = c.graph()?;
            let mut node = CUgraphNode::NULL;
            let out = &raw mut node;
            let signals = CUDA_EXT_SEM_SIGNAL_NODE_PARAMS::default();
            let waits = CUDA_EXT_SEM_WAIT_NODE_PARAMS::default();
            let signals = &raw const signals;
            ask!(
                c.cuGraphAddExternalSemaphoresSignalNode(out, graph, null(), 0, signals),
                "signal"
            );
            let waits = &raw const waits;
            ask!(c.cuGraphAddExternalSemaphoresWaitNode(out, graph, null(), 0, waits), "wait");
            Ok(())
        },
    ),
];

/// A graph that is handed over to a node.
fn moved(inner: CUgraph) -> CUgraphNodeParams {
    let mut params = any_params(CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH);
    let ownership = CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    // As for a host node.
    params.__bindgen_anon_1.graph.graph = inner;
    params.__bindgen_anon_1.graph.ownership = ownership;
    params
}

fn any_host(ran: &'static AtomicU32) -> CUgraphNodeParams {
    let mut params = any_params(CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST);
    let of_host = host_params(ran);
    // Field by field: a whole struct would bring its padding along, and what means nothing has to be zero.
    params.__bindgen_anon_1.host.fn_ = of_host.fn_;
    params.__bindgen_anon_1.host.userData = of_host.userData;
    params
}

/// A node that records an event, and one that waits for it.
fn events(c: &Ctx) -> Made<(CUgraphNode, CUgraphNode, CUevent)> {
    c.current()?;
    let (graph, event) = (c.graph()?, c.event()?);
    let (mut record, mut wait) = (CUgraphNode::NULL, CUgraphNode::NULL);
    must!(c.cuGraphAddEventRecordNode(&raw mut record, graph, null(), 0, event));
    must!(c.cuGraphAddEventWaitNode(&raw mut wait, graph, null(), 0, event));
    Ok((record, wait, event))
}

pub(super) fn write(to: CUdeviceptr, value: u32) -> CUstreamBatchMemOpParams {
    let mut operation = CUstreamBatchMemOpParams::default();
    operation.writeValue = CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st {
        operation: CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32,
        address: to,
        ..CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st::default()
    };
    operation.writeValue.__bindgen_anon_1.value64 = value.into();
    operation
}

fn batch(
    context: CUcontext,
    operation: &mut CUstreamBatchMemOpParams,
) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
    CUDA_BATCH_MEM_OP_NODE_PARAMS { ctx: context, count: 1, paramArray: operation, flags: 0 }
}

fn batch_node(c: &Ctx) -> Made<(CUgraphNode, CUdeviceptr)> {
    let context = c.current()?;
    let (graph, memory) = (c.graph()?, c.memory(64)?);
    let mut operation = write(memory, 5);
    let params = batch(context, &mut operation);
    let mut node = CUgraphNode::NULL;
    must!(c.cuGraphAddBatchMemOpNode(&raw mut node, graph, null(), 0, &raw const params));
    Ok((node, memory))
}
