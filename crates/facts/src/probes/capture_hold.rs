//! What a capture's graph holds, and what is put into it by definition.
//!
//! Source: CUDA Driver API 13.x, "Stream Management", "Graph Management".

use core::{
    ptr::{null, null_mut},
    sync::atomic::{AtomicU32, Ordering},
};

use cuhold_driver_sys::{Call, ffi::*};

use super::graph_kit::conditional_params;
use crate::{ctx::Ctx, host, probe::Probe, setup::Made};

const NO_SYNC: u32 = CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.0;

pub(super) const PROBES: &[Probe] = &[
    Probe::case(Call::cuGraphRetainUserObject, "a captured graph holds a user object", |c| {
        let (stream, graph) = capturing(c)?;
        let (object, ended) = object(c)?;
        ask!(c.cuGraphRetainUserObject(graph, object, 1, 0));
        ask!(c.cuUserObjectRelease(object, 1), "release");
        c.note_capturing(stream)?;
        let mut given = CUgraph::NULL;
        ask!(c.cuStreamEndCapture(stream, &raw mut given), "end");
        c.holds("same", given == graph);
        c.note("ended", ended.load(Ordering::SeqCst));
        ask!(c.cuGraphDestroy(given), "destroy");
        c.note("ended", ended.load(Ordering::SeqCst));
        Ok(())
    }),
    Probe::case(
        Call::cuGraphRetainUserObject,
        "an invalidated capture lets its user objects go at its end",
        |c| {
            let (stream, graph) = capturing(c)?;
            let ((first, ended), (second, ended_later)) = (object(c)?, object(c)?);
            must!(c.cuGraphRetainUserObject(graph, first, 1, 0));
            must!(c.cuUserObjectRelease(first, 1));
            ask!(c.cuStreamSynchronize(stream), "forbidden");
            c.note("ended", ended.load(Ordering::SeqCst));
            ask!(c.cuGraphRetainUserObject(graph, second, 1, 0), "late");
            ask!(c.cuUserObjectRelease(second, 1), "release");
            c.end(stream)?;
            c.note("ended", ended.load(Ordering::SeqCst));
            c.note("ended_late", ended_later.load(Ordering::SeqCst));
            Ok(())
        },
    ),
    Probe::case(
        Call::cuStreamDestroy_v2,
        "work of a stream that joined and is destroyed isn't missed",
        |c| {
            c.current()?;
            let (origin, joined, event) = (c.stream()?, c.stream()?, c.event()?);
            let memory = c.memory(64)?;
            c.capture_relaxed(origin)?;
            must!(c.cuEventRecord(event, origin));
            must!(c.cuStreamWaitEvent(joined, event, 0));
            must!(c.cuMemsetD8Async(memory, 0, 64, joined));
            ask!(c.cuStreamDestroy_v2(joined));
            c.note_capturing(origin)?;
            c.end(origin)
        },
    ),
    Probe::case(Call::cuGraphAddNode_v2, "a capture takes a conditional beside its work", |c| {
        let (stream, graph) = capturing(c)?;
        let context = c.what_is_current()?;
        let mut handle = 0;
        ask!(c.cuGraphConditionalHandleCreate(&raw mut handle, graph, context, 0, 1), "condition");
        let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
        let mut params = conditional_params(c, handle, kind, 1)?;
        let mut node = CUgraphNode::NULL;
        let params = &raw mut params;
        ask!(c.cuGraphAddNode_v2(&raw mut node, graph, null(), null(), 0, params));
        c.note_capturing(stream)?;
        let mut given = CUgraph::NULL;
        ask!(c.cuStreamEndCapture(stream, &raw mut given), "end");
        let mut exec = CUgraphExec::NULL;
        let mut params = CUDA_GRAPH_INSTANTIATE_PARAMS::default();
        let params = &raw mut params;
        ask!(c.cuGraphInstantiateWithParams(&raw mut exec, given, params), "instantiate");
        Ok(())
    }),
];

/// A stream that is captured, and the graph that it is captured into.
fn capturing(c: &Ctx) -> Made<(CUstream, CUgraph)> {
    c.current()?;
    let stream = c.stream()?;
    c.capture_relaxed(stream)?;
    let mut status = CUstreamCaptureStatus(9);
    let mut graph = CUgraph::NULL;
    must!(c.cuStreamGetCaptureInfo_v2(
        stream,
        &raw mut status,
        null_mut(),
        &raw mut graph,
        null_mut(),
        null_mut()
    ));
    Ok((stream, graph))
}

/// A user object, and how often it was ended.
fn object(c: &Ctx) -> Made<(CUuserObject, &'static AtomicU32)> {
    let ended = host::leak(AtomicU32::new(0));
    let mut object = CUuserObject::NULL;
    let end: CUhostFn = Some(host::count);
    must!(c.cuUserObjectCreate(&raw mut object, host::user(ended), end, 1, NO_SYNC));
    Ok((object, ended))
}
