//! Executable graphs: made from graphs, launched, ended.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

use core::{
    ptr::null_mut,
    sync::atomic::{AtomicU32, Ordering},
};

use cuhold_driver_sys::{Call, ffi::*};

use super::graph_kit::child_node;
use crate::{
    ctx::Ctx,
    host,
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuGraphInstantiateWithParams, "a graph is made executable", |c| {
        c.current()?;
        let graph = c.graph()?;
        c.node(graph)?;
        step(move |c| {
            let mut exec = CUgraphExec::NULL;
            let mut params = params(0);
            ask!(c.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut params));
            if c.observes() {
                c.holds("null", exec.is_null());
                c.note("result", params.result_out.0);
                c.holds("node", !params.hErrNode_out.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuGraphInstantiateWithParams,
        "unknown flags make nothing executable",
        |c| {
            c.current()?;
            let graph = c.graph()?;
            let mut exec = CUgraphExec::NULL;
            let (mut bad, mut good) = (params(0x8000), params(0));
            ask!(c.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut bad));
            c.note("result", bad.result_out.0);
            ask!(
                c.cuGraphInstantiateWithParams(&raw mut exec, CUgraph::NULL, &raw mut good),
                "null"
            );
            ask!(c.cuGraphInstantiateWithParams(null_mut(), graph, &raw mut good), "nowhere");
            ask!(c.cuGraphInstantiateWithParams(&raw mut exec, graph, null_mut()), "no_params");
            Ok(())
        },
    ),
    Probe::case(Call::cuGraphInstantiateWithParams, "an empty graph is made executable", |c| {
        c.current()?;
        let graph = c.graph()?;
        let exec = instantiate(c, graph)?;
        let stream = c.stream()?;
        ask!(c.cuGraphLaunch(exec, stream));
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuGraphInstantiateWithParams, "it may be uploaded at once", |c| {
        c.current()?;
        let (graph, stream) = (c.graph()?, c.stream()?);
        let mut exec = CUgraphExec::NULL;
        let mut params = params(2);
        params.hUploadStream = stream;
        ask!(c.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut params));
        c.note("result", params.result_out.0);
        Ok(())
    }),
    Probe::works(Call::cuGraphInstantiate_v2, "a graph is made executable without flags", |c| {
        c.current()?;
        let graph = c.graph()?;
        step(move |c| {
            let mut exec = CUgraphExec::NULL;
            let (none, log) = (null_mut(), null_mut());
            ask!(c.cuGraphInstantiate_v2(&raw mut exec, graph, none, log, 0));
            if c.observes() {
                c.holds("null", exec.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphInstantiate_v2, "null isn't made executable", |c| {
        c.current()?;
        let mut exec = CUgraphExec::NULL;
        let (none, log) = (null_mut(), null_mut());
        ask!(c.cuGraphInstantiate_v2(&raw mut exec, CUgraph::NULL, none, log, 0));
        Ok(())
    }),
    Probe::works(Call::cuGraphInstantiateWithFlags, "a graph is made executable with flags", |c| {
        c.current()?;
        let graph = c.graph()?;
        step(move |c| {
            let mut exec = CUgraphExec::NULL;
            ask!(c.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
            if c.observes() {
                c.holds("null", exec.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphInstantiateWithFlags, "not with flags that there aren't", |c| {
        c.current()?;
        let graph = c.graph()?;
        let (mut exec, upload) = (CUgraphExec::NULL, 2);
        ask!(c.cuGraphInstantiateWithFlags(&raw mut exec, graph, 1 << 40), "unknown");
        ask!(c.cuGraphInstantiateWithFlags(&raw mut exec, graph, upload), "upload");
        ask!(c.cuGraphInstantiateWithFlags(&raw mut exec, CUgraph::NULL, 0), "null");
        ask!(c.cuGraphInstantiateWithFlags(null_mut(), graph, 0), "nowhere");
        Ok(())
    }),
    Probe::works(Call::cuGraphExecDestroy, "an executable graph is destroyed", |c| {
        c.current()?;
        let graph = c.graph()?;
        let exec = instantiate(c, graph)?;
        step(move |c| {
            ask!(c.cuGraphExecDestroy(exec));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphExecDestroy, "no executable graph is null", |c| {
        c.device()?;
        ask!(c.cuGraphExecDestroy(CUgraphExec::NULL));
        Ok(())
    }),
    Probe::case(Call::cuGraphExecDestroy, "an executable graph isn't destroyed twice", |c| {
        c.current()?;
        let graph = c.graph()?;
        let exec = instantiate(c, graph)?;
        ask!(c.cuGraphExecDestroy(exec));
        ask!(c.cuGraphExecDestroy(exec), "again");
        Ok(())
    }),
    Probe::case(
        Call::cuGraphExecDestroy,
        "a launch is done although its graph is destroyed",
        |c| {
            c.current()?;
            let (stream, ran) = (c.stream()?, host::leak(AtomicU32::new(0)));
            let graph = counting(c, stream, ran)?;
            let exec = instantiate(c, graph)?;
            let gate = c.busy(stream)?;
            ask!(c.cuGraphLaunch(exec, stream), "launch");
            ask!(c.cuGraphDestroy(graph), "graph");
            ask!(c.cuGraphExecDestroy(exec));
            gate.open();
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            c.note("ran", ran.load(Ordering::SeqCst));
            Ok(())
        },
    ),
    Probe::works(Call::cuGraphExecGetFlags, "an executable graph tells its flags", |c| {
        c.current()?;
        let graph = c.graph()?;
        let exec = instantiate(c, graph)?;
        step(move |c| {
            let mut flags = 9;
            ask!(c.cuGraphExecGetFlags(exec, &raw mut flags));
            if c.observes() {
                c.note("flags", flags);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphExecGetFlags, "null tells no flags", |c| {
        c.current()?;
        let mut flags = 9;
        ask!(c.cuGraphExecGetFlags(CUgraphExec::NULL, &raw mut flags));
        let graph = c.graph()?;
        let exec = instantiate(c, graph)?;
        ask!(c.cuGraphExecGetFlags(exec, null_mut()), "nowhere");
        Ok(())
    }),
    Probe::works(Call::cuGraphUpload, "an executable graph is uploaded", |c| {
        c.current()?;
        let (graph, stream) = (c.graph()?, c.stream()?);
        let exec = instantiate(c, graph)?;
        step(move |c| {
            ask!(c.cuGraphUpload(exec, stream));
            if c.observes() {
                ask!(c.cuStreamSynchronize(stream), "synchronize");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphUpload, "null isn't uploaded", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuGraphUpload(CUgraphExec::NULL, stream));
        Ok(())
    }),
    Probe::works(Call::cuGraphLaunch, "an executable graph is launched", |c| {
        c.current()?;
        let (stream, ran) = (c.stream()?, host::leak(AtomicU32::new(0)));
        let graph = counting(c, stream, ran)?;
        let exec = instantiate(c, graph)?;
        step(move |c| {
            ask!(c.cuGraphLaunch(exec, stream));
            if c.observes() {
                ask!(c.cuGraphLaunch(exec, stream), "again");
                ask!(c.cuStreamSynchronize(stream), "synchronize");
                c.note("ran", ran.load(Ordering::SeqCst));
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphLaunch, "null isn't launched", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuGraphLaunch(CUgraphExec::NULL, stream));
        Ok(())
    }),
    Probe::case(Call::cuGraphLaunch, "a launch does what was captured, in order", |c| {
        c.current()?;
        let (stream, function) = (c.stream()?, c.function(c"fill")?);
        let (memory, seen) = (c.memory(64)?, c.pinned(1)?);
        c.capture_relaxed(stream)?;
        must!(c.cuMemsetD32Async(memory, 3, 16, stream));
        let (mut to, mut value, mut n) = (memory, 5_u32, 8_u32);
        let mut list: [*mut c_void; 3] =
            [(&raw mut to).cast(), (&raw mut value).cast(), (&raw mut n).cast()];
        let list = list.as_mut_ptr();
        must!(c.cuLaunchKernel(function, 1, 1, 1, 8, 1, 1, 0, stream, list, null_mut()));
        must!(c.cuMemcpyDtoHAsync_v2(seen.ptr(), memory, 4, stream));
        let graph = ended(c, stream)?;
        let exec = instantiate(c, graph)?;
        for wrote in [0, 1] {
            seen.fill(wrote);
            ask!(c.cuGraphLaunch(exec, stream));
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            c.note("seen", seen.first());
        }
        Ok(())
    }),
    Probe::case(Call::cuGraphLaunch, "a captured copy reads the host when it is launched", |c| {
        c.current()?;
        let stream = c.stream()?;
        let (memory, from) = (c.memory(4)?, c.pinned(1)?);
        from.fill(7);
        c.capture_relaxed(stream)?;
        must!(c.cuMemcpyHtoDAsync_v2(memory, from.ptr(), 4, stream));
        let graph = ended(c, stream)?;
        let exec = instantiate(c, graph)?;
        from.fill(8);
        ask!(c.cuGraphLaunch(exec, stream));
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        let mut value = 0_u32;
        must!(c.cuMemcpyDtoH_v2((&raw mut value).cast(), memory, 4));
        c.note("value", value);
        Ok(())
    }),
    Probe::case(Call::cuGraphLaunch, "work behind a launch waits for it", |c| {
        c.current()?;
        let (stream, gated) = (c.stream()?, c.stream()?);
        let gate = host::leak(host::Gate::default());
        c.capture_relaxed(gated)?;
        must!(c.cuLaunchHostFunc(gated, Some(host::wait_at_gate), host::user(gate)));
        let graph = ended(c, gated)?;
        let exec = instantiate(c, graph)?;
        ask!(c.cuGraphLaunch(exec, stream));
        ask!(c.cuStreamQuery(stream), "before");
        gate.open();
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(
        Call::cuGraphLaunch,
        "an executable graph isn't launched on a captured stream",
        |c| {
            c.current()?;
            let (stream, ran) = (c.stream()?, host::leak(AtomicU32::new(0)));
            let graph = counting(c, stream, ran)?;
            let exec = instantiate(c, graph)?;
            c.capture_relaxed(stream)?;
            ask!(c.cuGraphLaunch(exec, stream));
            c.note_capturing(stream)?;
            c.end(stream)
        },
    ),
    Probe::case(Call::cuGraphExecDestroy, "an executable holds what its graph holds", |c| {
        c.current()?;
        let (graph, ended) = holding(c)?;
        let exec = instantiate(c, graph)?;
        ask!(c.cuGraphDestroy(graph), "graph");
        c.note("ended", ended.load(Ordering::SeqCst));
        ask!(c.cuGraphExecDestroy(exec));
        c.note("ended", ended.load(Ordering::SeqCst));
        Ok(())
    }),
    Probe::case(Call::cuGraphExecDestroy, "an executable holds what a child graph holds", |c| {
        c.current()?;
        let (inner, ended) = holding(c)?;
        let graph = c.graph()?;
        child_node(c, graph, inner)?;
        ask!(c.cuGraphDestroy(inner), "inner");
        c.note("ended", ended.load(Ordering::SeqCst));
        let exec = instantiate(c, graph)?;
        ask!(c.cuGraphDestroy(graph), "graph");
        c.note("ended", ended.load(Ordering::SeqCst));
        ask!(c.cuGraphExecDestroy(exec));
        c.note("ended", ended.load(Ordering::SeqCst));
        Ok(())
    }),
    Probe::case(
        Call::cuGraphDestroyNode,
        "a child node that goes lets go of what its graph holds",
        |c| {
            c.current()?;
            let (inner, ended) = holding(c)?;
            let graph = c.graph()?;
            let node = child_node(c, graph, inner)?;
            must!(c.cuGraphDestroy(inner));
            c.note("ended", ended.load(Ordering::SeqCst));
            ask!(c.cuGraphDestroyNode(node));
            c.note("ended", ended.load(Ordering::SeqCst));
            Ok(())
        },
    ),
    Probe::case(Call::cuGraphExecDestroy, "a launch under way holds it too", |c| {
        c.current()?;
        let (graph, ended) = holding(c)?;
        let stream = c.stream()?;
        let exec = instantiate(c, graph)?;
        let gate = c.busy(stream)?;
        must!(c.cuGraphLaunch(exec, stream));
        must!(c.cuGraphDestroy(graph));
        ask!(c.cuGraphExecDestroy(exec));
        c.note("ended", ended.load(Ordering::SeqCst));
        gate.open();
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuGraphInstantiateWithParams, "a graph is changed after it was made", |c| {
        c.current()?;
        let graph = c.graph()?;
        c.node(graph)?;
        let exec = instantiate(c, graph)?;
        c.node(graph)?;
        let stream = c.stream()?;
        ask!(c.cuGraphLaunch(exec, stream));
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(
        Call::cuLibraryUnload,
        "a library is unloaded although an executable has its kernel",
        |c| {
            c.current()?;
            let library = c.library()?;
            let mut kernel = CUkernel::NULL;
            must!(c.cuLibraryGetKernel(&raw mut kernel, library, c"nop".as_ptr()));
            let stream = c.stream()?;
            c.capture_relaxed(stream)?;
            c.launch(CUfunction(kernel.0), stream)?;
            let graph = ended(c, stream)?;
            let exec = instantiate(c, graph)?;
            ask!(c.cuLibraryUnload(library));
            ask!(c.cuGraphExecDestroy(exec), "exec");
            ask!(c.cuGraphDestroy(graph), "graph");
            Ok(())
        },
    ),
];

fn params(flags: u64) -> CUDA_GRAPH_INSTANTIATE_PARAMS {
    CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags,
        hErrNode_out: CUgraphNode::from_addr(8),
        result_out: CUgraphInstantiateResult(99),
        ..CUDA_GRAPH_INSTANTIATE_PARAMS::default()
    }
}

fn instantiate(c: &Ctx, graph: CUgraph) -> Made<CUgraphExec> {
    let mut exec = CUgraphExec::NULL;
    let mut params = params(0);
    must!(c.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut params));
    Ok(exec)
}

/// The graph of a capture.
fn ended(c: &Ctx, stream: CUstream) -> Made<CUgraph> {
    let mut graph = CUgraph::NULL;
    must!(c.cuStreamEndCapture(stream, &raw mut graph));
    Ok(graph)
}

/// A graph that counts how often it ran.
fn counting(c: &Ctx, stream: CUstream, ran: &'static AtomicU32) -> Made<CUgraph> {
    c.capture_relaxed(stream)?;
    must!(c.cuLaunchHostFunc(stream, Some(host::count), host::user(ran)));
    ended(c, stream)
}

/// A graph with a node that holds a user object, and how often that was ended.
fn holding(c: &Ctx) -> Made<(CUgraph, &'static AtomicU32)> {
    let ended = host::leak(AtomicU32::new(0));
    let graph = c.graph()?;
    c.node(graph)?;
    let mut object = CUuserObject::NULL;
    let no_sync = CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.0;
    let moved = CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE.0;
    let end: CUhostFn = Some(host::count);
    let data = host::user(ended);
    must!(c.cuUserObjectCreate(&raw mut object, data, end, 1, no_sync));
    must!(c.cuGraphRetainUserObject(graph, object, 1, moved));
    Ok((graph, ended))
}
