//! Executables that are changed.
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
    Probe::works(Call::cuGraphExecUpdate_v2, "an executable is updated after another graph", |c| {
        let (memory, _, exec) = filling(c)?;
        let other = c.graph()?;
        fill_node(c, other, fill_params(memory, 2, 1))?;
        step(move |c| {
            let mut info = unheard();
            ask!(c.cuGraphExecUpdate_v2(exec, other, &raw mut info));
            if c.observes() {
                note_info(c, info);
                launch(c, exec)?;
                let value = word(c, memory)?;
                c.note("value", value);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphExecUpdate_v2, "an executable's shape doesn't change", |c| {
        let (memory, _, exec) = filling(c)?;
        let other = c.graph()?;
        let mut info = unheard();
        ask!(c.cuGraphExecUpdate_v2(exec, other, &raw mut info), "fewer");
        note_info(c, info);
        let node = c.node(other)?;
        info = unheard();
        ask!(c.cuGraphExecUpdate_v2(exec, other, &raw mut info), "kind");
        note_info(c, info);
        c.holds("same", info.errorNode == node);
        must!(c.cuGraphDestroyNode(node));
        let rows = CUDA_MEMSET_NODE_PARAMS { height: 2, pitch: 16, ..fill_params(memory, 1, 1) };
        fill_node(c, other, rows)?;
        info = unheard();
        ask!(c.cuGraphExecUpdate_v2(exec, other, &raw mut info), "rows");
        note_info(c, info);
        ask!(c.cuGraphExecUpdate_v2(exec, other, null_mut()), "nowhere");
        ask!(c.cuGraphExecUpdate_v2(exec, CUgraph::NULL, &raw mut info), "null");
        launch(c, exec)
    }),
    Probe::case(Call::cuGraphExecUpdate_v2, "an edge is a change of the shape", |c| {
        c.current()?;
        let (graph, other) = (c.graph()?, c.graph()?);
        let nodes = [(c.node(graph)?, c.node(graph)?), (c.node(other)?, c.node(other)?)];
        let exec = instantiate(c, graph)?;
        let [_, (a, b)] = nodes;
        must!(c.cuGraphAddDependencies(other, &raw const a, &raw const b, 1));
        let mut info = unheard();
        ask!(c.cuGraphExecUpdate_v2(exec, other, &raw mut info));
        note_info(c, info);
        c.holds("second", info.errorNode == b);
        c.holds("from", info.errorFromNode == a);
        Ok(())
    }),
    Probe::case(Call::cuGraphExecUpdate_v2, "an update takes over what the graphs hold", |c| {
        c.current()?;
        let ((one, first), (two, second)) = (holding(c)?, holding(c)?);
        let exec = instantiate(c, one)?;
        must!(c.cuGraphDestroy(one));
        c.note("first", first.load(Ordering::SeqCst));
        let mut info = unheard();
        ask!(c.cuGraphExecUpdate_v2(exec, two, &raw mut info));
        c.note("first", first.load(Ordering::SeqCst));
        must!(c.cuGraphDestroy(two));
        c.note("second", second.load(Ordering::SeqCst));
        must!(c.cuGraphExecDestroy(exec));
        c.note("second", second.load(Ordering::SeqCst));
        Ok(())
    }),
    Probe::case(Call::cuGraphExecUpdate_v2, "an update leaves a launch what it uses", |c| {
        c.current()?;
        let ((one, first), (two, _)) = (holding(c)?, holding(c)?);
        let (exec, stream) = (instantiate(c, one)?, c.stream()?);
        must!(c.cuGraphDestroy(one));
        let gate = c.busy(stream)?;
        must!(c.cuGraphLaunch(exec, stream));
        let mut info = unheard();
        ask!(c.cuGraphExecUpdate_v2(exec, two, &raw mut info));
        c.note("ended", first.load(Ordering::SeqCst));
        gate.open();
        c.wait_for(stream)
    }),
    Probe::case(
        Call::cuGraphExecUpdate_v2,
        "an update takes what a graph held for a moment",
        |c| {
            c.current()?;
            let (one, two) = (c.graph()?, c.graph()?);
            c.node(one)?;
            c.node(two)?;
            let exec = instantiate(c, one)?;
            let (object, ended) = object(c)?;
            must!(c.cuGraphRetainUserObject(two, object, 1, 0));
            let mut info = unheard();
            ask!(c.cuGraphExecUpdate_v2(exec, two, &raw mut info));
            ask!(c.cuGraphReleaseUserObject(two, object, 1), "release");
            must!(c.cuUserObjectRelease(object, 1));
            c.note("ended", ended.load(Ordering::SeqCst));
            must!(c.cuGraphExecDestroy(exec));
            c.note("ended", ended.load(Ordering::SeqCst));
            Ok(())
        },
    ),
    Probe::case(
        Call::cuGraphInstantiateWithParams,
        "an executable has what its graph held for a moment",
        |c| {
            c.current()?;
            let graph = c.graph()?;
            c.node(graph)?;
            let (object, ended) = object(c)?;
            must!(c.cuGraphRetainUserObject(graph, object, 1, 0));
            let exec = instantiate(c, graph)?;
            ask!(c.cuGraphReleaseUserObject(graph, object, 1), "release");
            must!(c.cuUserObjectRelease(object, 1));
            c.note("ended", ended.load(Ordering::SeqCst));
            must!(c.cuGraphExecDestroy(exec));
            c.note("ended", ended.load(Ordering::SeqCst));
            Ok(())
        },
    ),
    Probe::case(
        Call::cuGraphExecChildGraphNodeSetParams,
        "a graph that is put inside of an executable is held with what it holds",
        |c| {
            c.current()?;
            let ((one, first), (two, second), graph) = (holding(c)?, holding(c)?, c.graph()?);
            let node = child_node(c, graph, one)?;
            let exec = instantiate(c, graph)?;
            ask!(c.cuGraphExecChildGraphNodeSetParams(exec, node, two));
            must!(c.cuGraphDestroy(one));
            must!(c.cuGraphDestroy(two));
            c.note("first", first.load(Ordering::SeqCst));
            c.note("second", second.load(Ordering::SeqCst));
            must!(c.cuGraphExecDestroy(exec));
            c.note("second", second.load(Ordering::SeqCst));
            must!(c.cuGraphDestroy(graph));
            c.note("first", first.load(Ordering::SeqCst));
            Ok(())
        },
    ),
    Probe::case(
        Call::cuGraphExecHostNodeSetParams,
        "a node that came later isn't one of the executable",
        |c| {
            c.current()?;
            let (graph, ran) = (c.graph()?, host::leak(AtomicU32::new(0)));
            host_node(c, graph, ran)?;
            let exec = instantiate(c, graph)?;
            let late = host_node(c, graph, ran)?;
            let params = host_params(ran);
            ask!(c.cuGraphExecHostNodeSetParams(exec, late, &raw const params));
            Ok(())
        },
    ),
    Probe::case(
        Call::cuGraphExecKernelNodeSetParams_v2,
        "a kernel is changed with no context current",
        |c| {
            let context = c.current()?;
            let graph = c.graph()?;
            let (node, params) = kernel_node(c, graph)?;
            let exec = instantiate(c, graph)?;
            must!(c.cuCtxSetCurrent(CUcontext::NULL));
            c.holds("named", params.ctx == context);
            ask!(c.cuGraphExecKernelNodeSetParams_v2(exec, node, &raw const params));
            Ok(())
        },
    ),
    Probe::works(Call::cuGraphExecMemsetNodeSetParams, "a fill of an executable is changed", |c| {
        let (memory, node, exec) = filling(c)?;
        let context = c.what_is_current()?;
        step(move |c| {
            let params = fill_params(memory, 9, 1);
            ask!(c.cuGraphExecMemsetNodeSetParams(exec, node, &raw const params, context));
            if c.observes() {
                launch(c, exec)?;
                let value = word(c, memory)?;
                c.note("value", value);
            }
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuGraphExecMemsetNodeSetParams,
        "a fill of an executable keeps to a row",
        |c| {
            let (memory, node, exec) = filling(c)?;
            let context = c.what_is_current()?;
            let rows =
                CUDA_MEMSET_NODE_PARAMS { height: 2, pitch: 16, ..fill_params(memory, 1, 1) };
            ask!(c.cuGraphExecMemsetNodeSetParams(exec, node, &raw const rows, context), "rows");
            let good = fill_params(memory, 1, 1);
            let null_node = CUgraphNode::NULL;
            ask!(
                c.cuGraphExecMemsetNodeSetParams(exec, null_node, &raw const good, context),
                "null"
            );
            let (_, foreign, _) = filling(c)?;
            ask!(
                c.cuGraphExecMemsetNodeSetParams(exec, foreign, &raw const good, context),
                "foreign"
            );
            Ok(())
        },
    ),
    Probe::works(Call::cuGraphExecMemcpyNodeSetParams, "a copy of an executable is changed", |c| {
        let context = c.current()?;
        let (graph, memory) = (c.graph()?, zeroed(c, 16)?);
        let node = copy_node(c, graph, copy_params(memory + 32, memory, 32))?;
        let exec = instantiate(c, graph)?;
        step(move |c| {
            let params = copy_params(memory + 32, memory, 16);
            ask!(c.cuGraphExecMemcpyNodeSetParams(exec, node, &raw const params, context));
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuGraphExecMemcpyNodeSetParams,
        "a copy of an executable stays a row",
        |c| {
            let context = c.current()?;
            let (graph, memory) = (c.graph()?, zeroed(c, 16)?);
            let good = copy_params(memory + 32, memory, 8);
            let node = copy_node(c, graph, good)?;
            let exec = instantiate(c, graph)?;
            let rows = CUDA_MEMCPY3D { Height: 2, srcPitch: 8, dstPitch: 8, ..good };
            ask!(c.cuGraphExecMemcpyNodeSetParams(exec, node, &raw const rows, context), "rows");
            let none = copy_params(memory + 32, memory, 0);
            ask!(c.cuGraphExecMemcpyNodeSetParams(exec, node, &raw const none, context), "none");
            Ok(())
        },
    ),
    Probe::works(
        Call::cuGraphExecKernelNodeSetParams_v2,
        "a kernel of an executable is changed",
        |c| {
            c.current()?;
            let graph = c.graph()?;
            let (node, params) = kernel_node(c, graph)?;
            let exec = instantiate(c, graph)?;
            let params = Sent(CUDA_KERNEL_NODE_PARAMS { gridDimX: 2, ..params });
            step(move |c| {
                let params = params;
                ask!(c.cuGraphExecKernelNodeSetParams_v2(exec, node, &raw const params.0));
                Ok(())
            })
        },
    ),
    Probe::fails(
        Call::cuGraphExecKernelNodeSetParams_v2,
        "a kernel of an executable has a shape",
        |c| {
            let context = c.current()?;
            let graph = c.graph()?;
            let (node, params) = kernel_node(c, graph)?;
            let empty = c.node(graph)?;
            let exec = instantiate(c, graph)?;
            let flat = CUDA_KERNEL_NODE_PARAMS { gridDimX: 0, ..params };
            ask!(c.cuGraphExecKernelNodeSetParams_v2(exec, node, &raw const flat), "grid");
            ask!(c.cuGraphExecKernelNodeSetParams_v2(exec, empty, &raw const params), "empty");
            let other = c.context()?;
            must!(c.cuCtxSetCurrent(context));
            let foreign = CUDA_KERNEL_NODE_PARAMS { ctx: other, ..params };
            ask!(c.cuGraphExecKernelNodeSetParams_v2(exec, node, &raw const foreign), "context");
            Ok(())
        },
    ),
    Probe::works(
        Call::cuGraphExecHostNodeSetParams,
        "a host node of an executable is changed",
        |c| {
            let (node, exec, _) = hosting(c)?;
            let ran = host::leak(AtomicU32::new(0));
            step(move |c| {
                let params = host_params(ran);
                ask!(c.cuGraphExecHostNodeSetParams(exec, node, &raw const params));
                if c.observes() {
                    launch(c, exec)?;
                    c.note("ran", ran.load(Ordering::SeqCst));
                }
                Ok(())
            })
        },
    ),
    Probe::fails(
        Call::cuGraphExecHostNodeSetParams,
        "a host node of an executable keeps a function",
        |c| {
            let (node, exec, _) = hosting(c)?;
            let params = CUDA_HOST_NODE_PARAMS::default();
            ask!(c.cuGraphExecHostNodeSetParams(exec, node, &raw const params));
            let good = host_params(host::leak(AtomicU32::new(0)));
            ask!(c.cuGraphExecHostNodeSetParams(CUgraphExec::NULL, node, &raw const good), "null");
            Ok(())
        },
    ),
    Probe::works(
        Call::cuGraphExecChildGraphNodeSetParams,
        "a graph inside of an executable is changed",
        |c| {
            c.current()?;
            let (graph, one, two) = (c.graph()?, c.graph()?, c.graph()?);
            let ran = host::leak(AtomicU32::new(0));
            host_node(c, one, host::leak(AtomicU32::new(0)))?;
            host_node(c, two, ran)?;
            let node = child_node(c, graph, one)?;
            let exec = instantiate(c, graph)?;
            step(move |c| {
                ask!(c.cuGraphExecChildGraphNodeSetParams(exec, node, two));
                if c.observes() {
                    launch(c, exec)?;
                    c.note("ran", ran.load(Ordering::SeqCst));
                }
                Ok(())
            })
        },
    ),
    Probe::fails(
        Call::cuGraphExecChildGraphNodeSetParams,
        "a graph inside of an executable keeps its shape",
        |c| {
            c.current()?;
            let (graph, one, two) = (c.graph()?, c.graph()?, c.graph()?);
            c.node(one)?;
            let node = child_node(c, graph, one)?;
            let exec = instantiate(c, graph)?;
            ask!(c.cuGraphExecChildGraphNodeSetParams(exec, node, two));
            ask!(c.cuGraphExecChildGraphNodeSetParams(exec, node, CUgraph::NULL), "null");
            Ok(())
        },
    ),
    Probe::works(
        Call::cuGraphExecEventRecordNodeSetEvent,
        "a record of an executable is changed",
        |c| {
            let (node, _, exec) = events(c)?;
            let event = c.event()?;
            step(move |c| {
                ask!(c.cuGraphExecEventRecordNodeSetEvent(exec, node, event));
                Ok(())
            })
        },
    ),
    Probe::fails(
        Call::cuGraphExecEventRecordNodeSetEvent,
        "a record of an executable isn't of null",
        |c| {
            let (node, wait, exec) = events(c)?;
            ask!(c.cuGraphExecEventRecordNodeSetEvent(exec, node, CUevent::NULL));
            let event = c.event()?;
            ask!(c.cuGraphExecEventRecordNodeSetEvent(exec, wait, event), "wait");
            Ok(())
        },
    ),
    Probe::works(
        Call::cuGraphExecEventWaitNodeSetEvent,
        "a wait of an executable is changed",
        |c| {
            let (_, node, exec) = events(c)?;
            let event = c.event()?;
            step(move |c| {
                ask!(c.cuGraphExecEventWaitNodeSetEvent(exec, node, event));
                Ok(())
            })
        },
    ),
    Probe::fails(
        Call::cuGraphExecEventWaitNodeSetEvent,
        "a wait of an executable isn't for null",
        |c| {
            let (_, node, exec) = events(c)?;
            ask!(c.cuGraphExecEventWaitNodeSetEvent(exec, node, CUevent::NULL));
            Ok(())
        },
    ),
    Probe::works(
        Call::cuGraphExecNodeSetParams,
        "a node of any kind of an executable is changed",
        |c| {
            let (node, exec, ran) = hosting(c)?;
            step(move |c| {
                let mut params = any_host(ran);
                ask!(c.cuGraphExecNodeSetParams(exec, node, &raw mut params));
                Ok(())
            })
        },
    ),
    Probe::fails(Call::cuGraphExecNodeSetParams, "a node of an executable keeps its kind", |c| {
        let (memory, node, exec) = filling(c)?;
        let mut params = any_host(host::leak(AtomicU32::new(0)));
        ask!(c.cuGraphExecNodeSetParams(exec, node, &raw mut params));
        let _unused = memory;
        Ok(())
    }),
    Probe::works(Call::cuGraphNodeSetEnabled, "a node of an executable is left out", |c| {
        let (memory, node, exec) = filling(c)?;
        step(move |c| {
            ask!(c.cuGraphNodeSetEnabled(exec, node, 0));
            if c.observes() {
                launch(c, exec)?;
                let value = word(c, memory)?;
                c.note("value", value);
                let mut enabled = 9;
                ask!(c.cuGraphNodeGetEnabled(exec, node, &raw mut enabled), "told");
                c.note("enabled", enabled);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphNodeSetEnabled, "a host node isn't left out", |c| {
        let (node, exec, _) = hosting(c)?;
        ask!(c.cuGraphNodeSetEnabled(exec, node, 0));
        Ok(())
    }),
    Probe::works(Call::cuGraphNodeGetEnabled, "a node of an executable is there", |c| {
        let (_, node, exec) = filling(c)?;
        step(move |c| {
            let mut enabled = 9;
            ask!(c.cuGraphNodeGetEnabled(exec, node, &raw mut enabled));
            if c.observes() {
                c.note("enabled", enabled);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphNodeGetEnabled, "a host node isn't said to be there", |c| {
        let (node, exec, _) = hosting(c)?;
        let mut enabled = 9;
        ask!(c.cuGraphNodeGetEnabled(exec, node, &raw mut enabled));
        Ok(())
    }),
    Probe::case(Call::cuGraphExecMemsetNodeSetParams, "a launch under way isn't changed", |c| {
        let (memory, node, exec) = filling(c)?;
        let (context, stream) = (c.what_is_current()?, c.stream()?);
        let gate = c.busy(stream)?;
        must!(c.cuGraphLaunch(exec, stream));
        let params = fill_params(memory, 9, 1);
        ask!(c.cuGraphExecMemsetNodeSetParams(exec, node, &raw const params, context));
        gate.open();
        c.wait_for(stream)?;
        let value = word(c, memory)?;
        c.note("value", value);
        Ok(())
    }),
    Probe::case(
        Call::cuGraphExecMemsetNodeSetParams,
        "a node inside is changed as one outside",
        |c| {
            let context = c.current()?;
            let (graph, inner, memory) = (c.graph()?, c.graph()?, zeroed(c, 4)?);
            fill_node(c, inner, fill_params(memory, 1, 1))?;
            let node = child_node(c, graph, inner)?;
            let (mut inside, mut first, mut one) = (CUgraph::NULL, CUgraphNode::NULL, 1);
            must!(c.cuGraphChildGraphNodeGetGraph(node, &raw mut inside));
            must!(c.cuGraphGetNodes(inside, &raw mut first, &raw mut one));
            let exec = instantiate(c, graph)?;
            let params = fill_params(memory, 9, 1);
            ask!(c.cuGraphExecMemsetNodeSetParams(exec, first, &raw const params, context));
            launch(c, exec)?;
            let value = word(c, memory)?;
            c.note("value", value);
            Ok(())
        },
    ),
];

/// Parameters of a kernel node without a list, which hold no pointer.
#[derive(Clone, Copy)]
struct Sent(CUDA_KERNEL_NODE_PARAMS);

// SAFETY: handles are words, and both lists are null.
unsafe impl Send for Sent {}

const fn unheard() -> CUgraphExecUpdateResultInfo {
    CUgraphExecUpdateResultInfo {
        result: CUgraphExecUpdateResult(99),
        errorNode: CUgraphNode::NULL,
        errorFromNode: CUgraphNode::NULL,
    }
}

fn note_info(c: &mut Ctx, info: CUgraphExecUpdateResultInfo) {
    c.note("result", info.result.0);
    c.holds("node", !info.errorNode.is_null());
    c.holds("from", !info.errorFromNode.is_null());
}

/// Memory, a node that fills it with 1, and the executable.
fn filling(c: &Ctx) -> Made<(CUdeviceptr, CUgraphNode, CUgraphExec)> {
    c.current()?;
    let (graph, memory) = (c.graph()?, zeroed(c, 16)?);
    let node = fill_node(c, graph, fill_params(memory, 1, 1))?;
    Ok((memory, node, instantiate(c, graph)?))
}

/// A host node, the executable, and how often it ran.
fn hosting(c: &Ctx) -> Made<(CUgraphNode, CUgraphExec, &'static AtomicU32)> {
    c.current()?;
    let (graph, ran) = (c.graph()?, host::leak(AtomicU32::new(0)));
    let node = host_node(c, graph, ran)?;
    Ok((node, instantiate(c, graph)?, ran))
}

/// A record, a wait, and the executable.
fn events(c: &Ctx) -> Made<(CUgraphNode, CUgraphNode, CUgraphExec)> {
    c.current()?;
    let (graph, event) = (c.graph()?, c.event()?);
    let (mut record, mut wait) = (CUgraphNode::NULL, CUgraphNode::NULL);
    must!(c.cuGraphAddEventRecordNode(&raw mut record, graph, null(), 0, event));
    must!(c.cuGraphAddEventWaitNode(&raw mut wait, graph, null(), 0, event));
    Ok((record, wait, instantiate(c, graph)?))
}

fn any_host(ran: &'static AtomicU32) -> CUgraphNodeParams {
    let mut params = any_params(CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST);
    let of_host = host_params(ran);
    // Field by field: a whole struct would bring its padding along, and what means nothing has to be zero.
    params.__bindgen_anon_1.host.fn_ = of_host.fn_;
    params.__bindgen_anon_1.host.userData = of_host.userData;
    params
}

/// A user object with a reference of the caller's, and how often it was ended.
fn object(c: &Ctx) -> Made<(CUuserObject, &'static AtomicU32)> {
    let ended = host::leak(AtomicU32::new(0));
    let mut object = CUuserObject::NULL;
    let no_sync = CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.0;
    let (data, end): (_, CUhostFn) = (host::user(ended), Some(host::count));
    must!(c.cuUserObjectCreate(&raw mut object, data, end, 1, no_sync));
    Ok((object, ended))
}

/// A graph of one node that holds a user object, and how often that was ended.
fn holding(c: &Ctx) -> Made<(CUgraph, &'static AtomicU32)> {
    let graph = c.graph()?;
    c.node(graph)?;
    let (object, ended) = object(c)?;
    let moved = CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE.0;
    must!(c.cuGraphRetainUserObject(graph, object, 1, moved));
    Ok((graph, ended))
}
