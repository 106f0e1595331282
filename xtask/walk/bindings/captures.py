"""Captures: work that becomes a graph, and what a capture forbids."""

from cuda.bindings import driver

from bindings.calls import Primary, ask, bytes_at, refused
from walking import expect, step

GLOBAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
THREAD = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
RELAXED = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
STATUS = driver.CUstreamCaptureStatus


def nodes_of(graph):
    """How many nodes a graph has."""
    return ask("cuGraphGetNodes", graph, 0)[1]


@step("what is captured isn't done, and is done by each launch of the graph")
def _():
    with Primary():
        stream, memory = ask("cuStreamCreate", 1), ask("cuMemAlloc", 8)
        ask("cuMemsetD8", memory, 0, 8)
        ask("cuStreamBeginCapture", stream, GLOBAL)
        ask("cuMemsetD8Async", memory, 7, 4, stream)
        ask("cuMemcpyDtoDAsync", int(memory) + 4, memory, 4, stream)
        graph = ask("cuStreamEndCapture", stream)
        expect(bytes_at(memory, 8), b"\0" * 8, "before the launch")
        expect(nodes_of(graph), 2)
        executable = ask("cuGraphInstantiate", graph, 0)
        ask("cuGraphLaunch", executable, stream)
        ask("cuStreamSynchronize", stream)
        expect(bytes_at(memory, 8), b"\7" * 8, "after the launch")
        ask("cuGraphExecDestroy", executable)
        ask("cuGraphDestroy", graph)
        ask("cuMemFree", memory)
        ask("cuStreamDestroy", stream)


@step("a stream tells whether it is captured, and into which graph")
def _():
    with Primary():
        stream = ask("cuStreamCreate", 1)
        expect(ask("cuStreamIsCapturing", stream), STATUS.CU_STREAM_CAPTURE_STATUS_NONE)
        ask("cuStreamBeginCapture", stream, RELAXED)
        expect(ask("cuStreamIsCapturing", stream), STATUS.CU_STREAM_CAPTURE_STATUS_ACTIVE)
        status, number, graph = ask("cuStreamGetCaptureInfo", stream)[:3]
        expect(status, STATUS.CU_STREAM_CAPTURE_STATUS_ACTIVE)
        expect(int(number) > 0, True, "a number")
        expect(int(ask("cuStreamEndCapture", stream)), int(graph))
        ask("cuGraphDestroy", graph)
        ask("cuStreamDestroy", stream)


@step("a second stream joins by an event, and has to be joined before the end")
def _():
    with Primary():
        first, second = ask("cuStreamCreate", 1), ask("cuStreamCreate", 1)
        event, memory = ask("cuEventCreate", 0), ask("cuMemAlloc", 8)

        def forked():
            ask("cuStreamBeginCapture", first, THREAD)
            ask("cuMemsetD8Async", memory, 1, 4, first)
            ask("cuEventRecord", event, first)
            ask("cuStreamWaitEvent", second, event, 0)
            ask("cuMemsetD8Async", int(memory) + 4, 2, 4, second)

        forked()
        refused("STREAM_CAPTURE_UNJOINED", "cuStreamEndCapture", first)
        forked()
        ask("cuEventRecord", event, second)
        ask("cuStreamWaitEvent", first, event, 0)
        graph = ask("cuStreamEndCapture", first)
        expect(nodes_of(graph), 2)
        ask("cuGraphDestroy", graph)
        ask("cuMemFree", memory)
        ask("cuEventDestroy", event)
        for stream in (first, second):
            ask("cuStreamDestroy", stream)


@step("a wait for a stream that is captured is refused, and invalidates its capture")
def _():
    with Primary():
        stream = ask("cuStreamCreate", 1)
        ask("cuStreamBeginCapture", stream, GLOBAL)
        refused("STREAM_CAPTURE_UNSUPPORTED", "cuStreamSynchronize", stream)
        refused("STREAM_CAPTURE_INVALIDATED", "cuStreamEndCapture", stream)
        ask("cuStreamSynchronize", stream)
        ask("cuStreamDestroy", stream)


@step("an allocation is refused in a global capture, and allowed in a relaxed one")
def _():
    with Primary():
        stream = ask("cuStreamCreate", 1)
        ask("cuStreamBeginCapture", stream, GLOBAL)
        refused("STREAM_CAPTURE_UNSUPPORTED", "cuMemAlloc", 16)
        refused("STREAM_CAPTURE_INVALIDATED", "cuStreamEndCapture", stream)
        ask("cuStreamBeginCapture", stream, RELAXED)
        before = ask("cuThreadExchangeStreamCaptureMode", RELAXED)
        ask("cuMemFree", ask("cuMemAlloc", 16))
        expect(ask("cuThreadExchangeStreamCaptureMode", before), RELAXED)
        ask("cuGraphDestroy", ask("cuStreamEndCapture", stream))
        ask("cuStreamDestroy", stream)


@step("a stream that isn't captured has no capture to end, and the legacy stream can't be captured")
def _():
    with Primary():
        stream = ask("cuStreamCreate", 1)
        refused("ILLEGAL_STATE", "cuStreamEndCapture", stream)
        refused("STREAM_CAPTURE_UNSUPPORTED", "cuStreamBeginCapture", 0, RELAXED)
        ask("cuStreamDestroy", stream)


@step("memory that is allocated in a capture is the graph's")
def _():
    with Primary():
        stream = ask("cuStreamCreate", 1)
        ask("cuStreamBeginCapture", stream, GLOBAL)
        memory = ask("cuMemAllocAsync", 1024, stream)
        ask("cuMemsetD8Async", memory, 1, 1024, stream)
        ask("cuMemFreeAsync", memory, stream)
        graph = ask("cuStreamEndCapture", stream)
        expect(nodes_of(graph), 3)
        executable = ask("cuGraphInstantiate", graph, 0)
        for _ in range(2):
            ask("cuGraphLaunch", executable, stream)
        ask("cuStreamSynchronize", stream)
        ask("cuGraphExecDestroy", executable)
        ask("cuGraphDestroy", graph)
        ask("cuStreamDestroy", stream)
        ask("cuDeviceGraphMemTrim", 0)
