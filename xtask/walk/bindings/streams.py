"""Streams and events: order, waits, host functions, times."""

import ctypes

from cuda.bindings import driver

from bindings.calls import Gate, Primary, ask, refused
from walking import expect, step


@step("a stream tells its flags, priority, context and device")
def _():
    with Primary() as primary:
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = ask("cuStreamCreateWithPriority", flags, -1)
        expect(ask("cuStreamGetFlags", stream), int(flags))
        expect(ask("cuStreamGetPriority", stream), -1)
        expect(int(ask("cuStreamGetCtx", stream)), int(primary))
        expect(int(ask("cuStreamGetDevice", stream)), 0)
        ask("cuStreamQuery", stream)
        ask("cuStreamSynchronize", stream)
        ask("cuStreamDestroy", stream)
        refused("INVALID_VALUE", "cuStreamCreate", 12345)


@step("work behind a value that nobody has written is NOT_READY, and done once it is written")
def _():
    with Primary():
        stream = ask("cuStreamCreate", 1)
        event = ask("cuEventCreate", 0)
        gate = Gate(stream)
        ask("cuEventRecord", event, stream)
        refused("NOT_READY", "cuStreamQuery", stream)
        refused("NOT_READY", "cuEventQuery", event)
        gate.open()
        ask("cuStreamQuery", stream)
        ask("cuEventQuery", event)
        ask("cuEventSynchronize", event)
        ask("cuEventDestroy", event)
        ask("cuStreamDestroy", stream)


@step("a stream that waits for an event goes on behind it, and no other does")
def _():
    with Primary():
        first, second, third = (ask("cuStreamCreate", 1) for _ in range(3))
        event = ask("cuEventCreate", driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        gate = Gate(first)
        ask("cuEventRecord", event, first)
        ask("cuStreamWaitEvent", second, event, 0)
        refused("NOT_READY", "cuStreamQuery", second)
        ask("cuStreamQuery", third)
        gate.open()
        ask("cuStreamSynchronize", second)
        for stream in (first, second, third):
            ask("cuStreamDestroy", stream)
        ask("cuEventDestroy", event)


@step("the time between two events isn't negative; without records or with timing off there is none")
def _():
    with Primary():
        begin, end = ask("cuEventCreate", 0), ask("cuEventCreate", 0)
        untimed = ask("cuEventCreate", driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        refused("INVALID_HANDLE", "cuEventElapsedTime", begin, end)
        for event in (begin, end, untimed):
            ask("cuEventRecord", event, 0)
        ask("cuEventSynchronize", end)
        expect(ask("cuEventElapsedTime", begin, end) >= 0, True)
        refused("INVALID_HANDLE", "cuEventElapsedTime", begin, untimed)
        for event in (begin, end, untimed):
            ask("cuEventDestroy", event)


@step("a host function runs once, in its stream's order")
def _():
    ran = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: ran.append(data))
    pointer = driver.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value)
    with Primary():
        stream = ask("cuStreamCreate", 1)
        ask("cuLaunchHostFunc", stream, pointer, 7)
        ask("cuLaunchHostFunc", stream, pointer, 8)
        ask("cuStreamSynchronize", stream)
        expect(ran, [7, 8])
        ask("cuStreamDestroy", stream)
