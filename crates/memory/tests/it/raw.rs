//! Raw driver calls that tests make beside the library: captures, what is current, borrowed objects.

#![expect(unsafe_code, reason = "calls the driver")]

use cuhold_driver_sys::ffi::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUcontext, CUdevice, CUgraph, CUgraphExec,
    CUgraphInstantiate_flags, CUmemAccess_flags, CUmemAccessDesc, CUmemLocation, CUstream,
    CUstreamCaptureMode, CUstreamCaptureStatus,
};
use cuhold_handles::{Context, Device, Driver, Owner, Stream, StreamOptions};
use cuhold_memory::Pool;

/// A capture mode.
pub(crate) type Mode = CUstreamCaptureMode;
pub(crate) const GLOBAL: Mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
pub(crate) const RELAXED: Mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;

/// The calling thread's capture mode.
pub(crate) fn mode(driver: &Driver) -> Mode {
    let mut mode = GLOBAL;
    // SAFETY: *pointers*: a live local.
    unsafe { driver.calls().cuThreadExchangeStreamCaptureMode(&raw mut mode) }.unwrap();
    let mut back = mode;
    // SAFETY: as above.
    unsafe { driver.calls().cuThreadExchangeStreamCaptureMode(&raw mut back) }.unwrap();
    mode
}

/// The calling thread's context; null is none.
pub(crate) fn current(driver: &Driver) -> CUcontext {
    let mut now = CUcontext::NULL;
    // SAFETY: *pointers*: a live local.
    unsafe { driver.calls().cuCtxGetCurrent(&raw mut now) }.unwrap();
    now
}

/// Captures a stream, of which others than the library then know.
pub(crate) fn begin(stream: &Stream, mode: Mode) {
    // SAFETY: *handles*: the stream is live.
    unsafe { stream.driver().calls().cuStreamBeginCapture_v2(stream.as_raw(), mode) }.unwrap();
}

/// Captures a stream as a builder of graphs does, without others knowing of the stream.
pub(crate) fn begin_unseen(stream: &Stream, mode: Mode) {
    // SAFETY: *handles*: the stream is live.
    unsafe { stream.driver().calls().cuStreamBeginCapture_v2(stream.raw(), mode) }.unwrap();
}

/// Whether a capture of the stream goes on, uninvalidated.
pub(crate) fn is_captured(stream: &Stream) -> bool {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: *handles*: the stream is live; *pointers*: a live local.
    unsafe { stream.driver().calls().cuStreamIsCapturing(stream.raw(), &raw mut status) }.unwrap();
    status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
}

/// Ends a capture that went well, and its graph.
pub(crate) fn end(stream: &Stream) {
    destroy(stream.driver(), end_kept(stream));
}

/// Ends a capture that went well.
pub(crate) fn end_kept(stream: &Stream) -> CUgraph {
    let mut graph = CUgraph::NULL;
    // SAFETY: *handles*: the stream is live; *pointers*: a live local.
    unsafe { stream.driver().calls().cuStreamEndCapture(stream.raw(), &raw mut graph) }.unwrap();
    graph
}

/// Ends a graph.
pub(crate) fn destroy(driver: &Driver, graph: CUgraph) {
    // SAFETY: *handles*: the caller's graph.
    unsafe { driver.calls().cuGraphDestroy(graph) }.unwrap();
}

/// Makes a graph executable, whose launches free first what the one before left.
pub(crate) fn instantiate_freeing(device: &Device, graph: CUgraph) -> CUgraphExec {
    let mut exec = CUgraphExec::NULL;
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let make = || {
        let calls = device.driver().calls();
        let mut how = CUDA_GRAPH_INSTANTIATE_PARAMS { flags: flags.0.into(), ..Default::default() };
        // SAFETY: *handles*: the caller's graph; *pointers*: live locals.
        unsafe { calls.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut how) }.unwrap();
    };
    device.with_current(make).unwrap();
    exec
}

/// Launches an executable.
pub(crate) fn launch(exec: CUgraphExec, stream: &Stream) {
    // SAFETY: *handles*: the caller's executable; the stream is live.
    unsafe { stream.driver().calls().cuGraphLaunch(exec, stream.raw()) }.unwrap();
}

/// Ends an executable.
pub(crate) fn destroy_exec(driver: &Driver, exec: CUgraphExec) {
    // SAFETY: *handles*: the caller's executable.
    unsafe { driver.calls().cuGraphExecDestroy(exec) }.unwrap();
}

/// Another handle of the stream, which doesn't end it.
pub(crate) fn borrowed(stream: &Stream, owner: Option<Owner>) -> Stream {
    // SAFETY: the tests let the stream outlive it, or keep it alive by the owner.
    unsafe { Stream::borrow_raw(stream.context(), stream.raw(), owner) }.unwrap()
}

/// Another handle of the context.
pub(crate) fn borrowed_context(context: &Context) -> Context {
    // SAFETY: the tests let the context outlive it.
    unsafe { Context::borrow_raw(context.driver(), context.as_raw(), None) }.unwrap()
}

/// A stream that is ordered with the legacy default stream.
pub(crate) fn blocking(context: &Context) -> Stream {
    Stream::with_options(context, StreamOptions::blocking()).unwrap()
}

/// The driver's handle of a stream, without telling the library.
pub(crate) fn handle(stream: &Stream) -> CUstream {
    stream.raw()
}

/// Ends a capture whether it went well or not, and its graph if there is one.
pub(crate) fn end_anyhow(stream: &Stream) {
    let mut graph = CUgraph::NULL;
    // SAFETY: *handles*: the stream is live; *pointers*: a live local.
    let ended = unsafe { stream.driver().calls().cuStreamEndCapture(stream.raw(), &raw mut graph) };
    assert_eq!(ended.is_ok(), !graph.is_null());
    if ended.is_ok() {
        destroy(stream.driver(), graph);
    }
}

/// Lets a device use a pool's memory, as another library does.
pub(crate) fn grant(pool: &Pool, device: CUdevice) {
    let access = CUmemAccessDesc {
        location: CUmemLocation::device(device),
        flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    // SAFETY: *handles*: the pool is live; *pointers*: a live local.
    unsafe { pool.driver().calls().cuMemPoolSetAccess(pool.as_raw(), &raw const access, 1) }
        .unwrap();
}

/// Frees memory that the library leaked.
///
/// # Safety
/// Nobody uses the memory, and nobody else frees it.
pub(crate) unsafe fn free(stream: &Stream, ptr: u64) {
    // SAFETY: *handles*: the stream is live; the memory is the caller's promise.
    unsafe { stream.driver().calls().cuMemFreeAsync(ptr, stream.raw()) }.unwrap();
}
