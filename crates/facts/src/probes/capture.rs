//! Stream capture: begun, ended, asked, joined, broken.
//!
//! Source: CUDA Driver API 13.x, "Stream Management"; CUDA Programming Guide, "Stream Capture".

use core::ptr::{null, null_mut};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const THREAD_LOCAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuStreamBeginCapture_v2, "a capture begins", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            ask!(c.cuStreamBeginCapture_v2(stream, GLOBAL));
            if c.observes() {
                c.note_capturing(stream)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamBeginCapture_v2, "the legacy stream isn't captured", |c| {
        c.current()?;
        ask!(c.cuStreamBeginCapture_v2(CUstream::NULL, GLOBAL), "null");
        ask!(c.cuStreamBeginCapture_v2(CU_STREAM_LEGACY, GLOBAL), "legacy");
        Ok(())
    }),
    Probe::case(Call::cuStreamBeginCapture_v2, "the thread's default stream is captured", |c| {
        c.current()?;
        ask!(c.cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, GLOBAL));
        c.end(CU_STREAM_PER_THREAD)
    }),
    Probe::case(Call::cuStreamBeginCapture_v2, "a capture doesn't begin twice", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_globally(stream)?;
        ask!(c.cuStreamBeginCapture_v2(stream, GLOBAL));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::case(Call::cuStreamBeginCapture_v2, "an unknown mode is refused", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(99)));
        c.note_capturing(stream)
    }),
    Probe::works(Call::cuStreamEndCapture, "a capture ends with a graph", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_relaxed(stream)?;
        step(move |c| {
            let mut graph = CUgraph::NULL;
            ask!(c.cuStreamEndCapture(stream, &raw mut graph));
            if c.observes() {
                c.holds("null", graph.is_null());
                c.note_capturing(stream)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamEndCapture, "what didn't begin doesn't end", |c| {
        c.current()?;
        let stream = c.stream()?;
        let mut graph = CUgraph::from_addr(8);
        ask!(c.cuStreamEndCapture(stream, &raw mut graph));
        c.holds("null", graph.is_null());
        Ok(())
    }),
    Probe::case(Call::cuStreamEndCapture, "a global capture isn't ended by another thread", |c| {
        end_elsewhere(c, GLOBAL)
    }),
    Probe::case(Call::cuStreamEndCapture, "a local capture isn't ended by another thread", |c| {
        end_elsewhere(c, THREAD_LOCAL)
    }),
    Probe::case(Call::cuStreamEndCapture, "a relaxed capture is ended by another thread", |c| {
        end_elsewhere(c, RELAXED)
    }),
    Probe::case(Call::cuStreamEndCapture, "a capture isn't ended on a stream that joined", |c| {
        let (origin, joined) = forked(c)?;
        let status = c.capture_status(joined)?;
        c.note_capture("joined", status);
        c.end(joined)?;
        c.note_capturing(origin)?;
        c.note_capturing(joined)?;
        c.end(origin)?;
        c.note_capturing(joined)
    }),
    Probe::case(
        Call::cuStreamEndCapture,
        "a capture isn't ended before its forks came back",
        |c| {
            let (origin, joined) = forked(c)?;
            let function = c.function(c"nop")?;
            c.launch(function, joined)?;
            c.end(origin)?;
            c.note_capturing(origin)?;
            c.note_capturing(joined)
        },
    ),
    Probe::case(Call::cuStreamEndCapture, "a fork without work needn't come back", |c| {
        let (origin, joined) = forked(c)?;
        c.end(origin)?;
        c.note_capturing(joined)
    }),
    Probe::case(Call::cuStreamEndCapture, "a fork that came back is part of the graph", |c| {
        let (origin, joined) = forked(c)?;
        let function = c.function(c"nop")?;
        c.launch(function, joined)?;
        let event = c.event()?;
        ask!(c.cuEventRecord(event, joined), "record");
        ask!(c.cuStreamWaitEvent(origin, event, 0), "wait");
        c.end(origin)
    }),
    Probe::works(Call::cuStreamIsCapturing, "a stream isn't captured at first", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            let mut status = CUstreamCaptureStatus(9);
            ask!(c.cuStreamIsCapturing(stream, &raw mut status));
            if c.observes() {
                c.note_capture("capture", status);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamIsCapturing, "a capture's state needs somewhere to go", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuStreamIsCapturing(stream, null_mut()));
        Ok(())
    }),
    Probe::case(Call::cuStreamIsCapturing, "beside a blocking capture legacy isn't asked", |c| {
        c.current()?;
        let stream = c.blocking_stream()?;
        c.capture_globally(stream)?;
        let mut status = CUstreamCaptureStatus(9);
        ask!(c.cuStreamIsCapturing(CUstream::NULL, &raw mut status));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::works(Call::cuStreamGetCaptureInfo_v2, "a capture tells its graph", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_relaxed(stream)?;
        step(move |c| info(c, stream))
    }),
    Probe::fails(Call::cuStreamGetCaptureInfo_v2, "a capture's telling needs a state", |c| {
        c.current()?;
        let stream = c.stream()?;
        let (mut id, mut graph) = (0, CUgraph::NULL);
        let (status, id, graph) = (null_mut(), &raw mut id, &raw mut graph);
        ask!(c.cuStreamGetCaptureInfo_v2(stream, status, id, graph, null_mut(), null_mut()));
        Ok(())
    }),
    Probe::case(Call::cuStreamGetCaptureInfo_v2, "without a capture only the state is told", |c| {
        c.current()?;
        let stream = c.stream()?;
        info(c, stream)
    }),
    Probe::case(Call::cuStreamGetCaptureInfo_v3, "the newer form tells the same", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_relaxed(stream)?;
        let (mut status, mut id) = (CUstreamCaptureStatus(9), 0);
        ask!(c.cuStreamGetCaptureInfo_v3(
            stream,
            &raw mut status,
            &raw mut id,
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut()
        ));
        c.note_capture("capture", status);
        c.holds("id", id != 0);
        Ok(())
    }),
    Probe::works(Call::cuStreamUpdateCaptureDependencies, "a capture's next node is moved", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_relaxed(stream)?;
        let set = CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES.0;
        step(move |c| {
            ask!(c.cuStreamUpdateCaptureDependencies(stream, null_mut(), 0, set));
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuStreamUpdateCaptureDependencies,
        "without a capture nothing is moved",
        |c| {
            c.current()?;
            let stream = c.stream()?;
            ask!(c.cuStreamUpdateCaptureDependencies(stream, null_mut(), 0, 0));
            Ok(())
        },
    ),
    Probe::works(Call::cuStreamBeginCaptureToGraph, "a capture into a graph begins", |c| {
        c.current()?;
        let stream = c.stream()?;
        let graph = c.graph()?;
        step(move |c| {
            ask!(c.cuStreamBeginCaptureToGraph(stream, graph, null(), null(), 0, RELAXED));
            if c.observes() {
                let mut ended = CUgraph::NULL;
                ask!(c.cuStreamEndCapture(stream, &raw mut ended), "end");
                c.holds("same", ended == graph);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamBeginCaptureToGraph, "a capture into null doesn't begin", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuStreamBeginCaptureToGraph(stream, CUgraph::NULL, null(), null(), 0, GLOBAL));
        Ok(())
    }),
    Probe::case(Call::cuStreamBeginCaptureToGraph, "a broken capture takes its graph along", |c| {
        c.current()?;
        let stream = c.stream()?;
        let graph = c.graph()?;
        ask!(c.cuStreamBeginCaptureToGraph(stream, graph, null(), null(), 0, GLOBAL));
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
        c.end(stream)?;
        let mut nodes = 0;
        ask!(c.cuGraphGetNodes(graph, null_mut(), &raw mut nodes), "nodes");
        ask!(c.cuGraphDestroy(graph), "destroy");
        Ok(())
    }),
    Probe::case(
        Call::cuStreamBeginCaptureToGraph,
        "a graph isn't destroyed under a capture",
        |c| {
            c.current()?;
            let stream = c.stream()?;
            let graph = c.graph()?;
            ask!(c.cuStreamBeginCaptureToGraph(stream, graph, null(), null(), 0, GLOBAL));
            ask!(c.cuGraphDestroy(graph), "destroy");
            c.note_capturing(stream)?;
            c.end(stream)
        },
    ),
    Probe::case(Call::cuStreamWaitEvent, "a captured stream doesn't wait for others' work", |c| {
        c.current()?;
        let (stream, other, event) = (c.stream()?, c.stream()?, c.event()?);
        must!(c.cuEventRecord(event, other));
        c.capture_relaxed(stream)?;
        ask!(c.cuStreamWaitEvent(stream, event, 0));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::case(Call::cuStreamWaitEvent, "two captures don't merge", |c| {
        c.current()?;
        let (one, two, event) = (c.stream()?, c.stream()?, c.event()?);
        c.capture_globally(one)?;
        c.capture_globally(two)?;
        must!(c.cuEventRecord(event, one));
        ask!(c.cuStreamWaitEvent(two, event, 0));
        c.note_capturing(one)?;
        c.note_capturing(two)?;
        c.end(one)?;
        c.end(two)
    }),
    Probe::case(Call::cuStreamWaitEvent, "a capture may wait for what was never recorded", |c| {
        c.current()?;
        let (stream, event) = (c.stream()?, c.event()?);
        c.capture_globally(stream)?;
        ask!(c.cuStreamWaitEvent(stream, event, 0));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::case(Call::cuStreamQuery, "a captured stream isn't asked even if relaxed", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_relaxed(stream)?;
        ask!(c.cuStreamQuery(stream));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::case(Call::cuStreamSynchronize, "a captured stream isn't waited for", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_relaxed(stream)?;
        ask!(c.cuStreamSynchronize(stream));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::case(Call::cuCtxSynchronize, "a context with a capture isn't waited for", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_relaxed(stream)?;
        ask!(c.cuCtxSynchronize());
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::case(Call::cuStreamDestroy_v2, "a captured stream is destroyed with its capture", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_globally(stream)?;
        let mut memory = 0;
        ask!(c.cuStreamDestroy_v2(stream));
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
        Ok(())
    }),
    Probe::case(
        Call::cuStreamDestroy_v2,
        "a stream that joined is destroyed, the capture lives",
        |c| {
            let (origin, joined) = forked(c)?;
            ask!(c.cuStreamDestroy_v2(joined));
            c.note_capturing(origin)?;
            c.end(origin)
        },
    ),
    Probe::case(Call::cuMemsetD8Async, "legacy work breaks a blocking stream's capture", |c| {
        c.current()?;
        let memory = c.memory(64)?;
        let stream = c.blocking_stream()?;
        c.capture_relaxed(stream)?;
        ask!(c.cuMemsetD8Async(memory, 0, 64, CUstream::NULL));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::case(Call::cuMemAlloc_v2, "a thread's end doesn't end its capture", |c| {
        let context = c.current()?;
        let stream = c.stream()?;
        c.elsewhere(|c| {
            must!(c.cuCtxSetCurrent(context));
            c.capture_globally(stream)
        })?;
        c.note_capturing(stream)?;
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
        c.end(stream)
    }),
];

fn end_elsewhere(c: &mut Ctx, mode: CUstreamCaptureMode) -> Made<()> {
    let context = c.current()?;
    let stream = c.stream()?;
    c.capture(stream, mode)?;
    c.elsewhere(|c| {
        must!(c.cuCtxSetCurrent(context));
        c.end(stream)
    })?;
    c.note_capturing(stream)?;
    c.end(stream)
}

/// A captured stream, and one that joined its capture through an event.
fn forked(c: &Ctx) -> Made<(CUstream, CUstream)> {
    c.current()?;
    let (origin, joined, event) = (c.stream()?, c.stream()?, c.event()?);
    c.capture_globally(origin)?;
    must!(c.cuEventRecord(event, origin));
    must!(c.cuStreamWaitEvent(joined, event, 0));
    Ok((origin, joined))
}

fn info(c: &mut Ctx, stream: CUstream) -> Made<()> {
    let (mut status, mut id) = (CUstreamCaptureStatus(9), 0);
    let (mut graph, mut count) = (CUgraph::NULL, 9);
    ask!(c.cuStreamGetCaptureInfo_v2(
        stream,
        &raw mut status,
        &raw mut id,
        &raw mut graph,
        null_mut(),
        &raw mut count
    ));
    if c.observes() {
        c.note_capture("capture", status);
        c.holds("id", id != 0);
        c.holds("graph", !graph.is_null());
        c.note("dependencies", count);
    }
    Ok(())
}
