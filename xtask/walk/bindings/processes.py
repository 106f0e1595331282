"""Memory, events and pools between two processes."""

import os

from cuda.bindings import driver

from bindings.calls import CALLS, FILE, MIB, Primary, ask, bytes_at, new_pool, raw

from walking import Lack, child, expect, step

APART = "processes are simulated inside of one process, not between two"


@step("memory and events give handles for another process, which name them")
def _():
    with Primary():
        memory = ask("cuMemAlloc", MIB)
        one, again = ask("cuIpcGetMemHandle", memory), ask("cuIpcGetMemHandle", memory)
        expect(raw(one), raw(again), "the same handle")
        flags = driver.CUevent_flags
        both = flags.CU_EVENT_INTERPROCESS | flags.CU_EVENT_DISABLE_TIMING
        event = ask("cuEventCreate", both)
        ask("cuIpcGetEventHandle", event)
        ask("cuEventDestroy", event)
        ask("cuMemFree", memory)


@step(
    "another process opens memory by its handle, and both see the same bytes",
    Lack(APART, "cuIpcOpenMemHandle answered"),
)
def _():
    with Primary():
        memory = ask("cuMemAlloc", MIB)
        ask("cuMemsetD8", memory, 1, MIB)
        ask("cuCtxSynchronize")
        child(
            CALLS + "handle = from_raw(driver.CUipcMemHandle(), sys.argv[1])\n"
            "with Primary():\n"
            "    opened = ask('cuIpcOpenMemHandle', handle, 1)\n"
            "    expect(bytes_at(opened, 4), b'\\1\\1\\1\\1')\n"
            "    ask('cuMemsetD8', opened, 2, 4)\n"
            "    ask('cuCtxSynchronize')\n"
            "    ask('cuIpcCloseMemHandle', opened)\n",
            raw(ask("cuIpcGetMemHandle", memory)).hex(),
        )
        expect(bytes_at(memory, 5), b"\2\2\2\2\1")
        ask("cuMemFree", memory)


@step(
    "another process waits for an event that this one recorded",
    Lack(APART, "cuIpcOpenEventHandle answered"),
)
def _():
    with Primary():
        flags = driver.CUevent_flags
        both = flags.CU_EVENT_INTERPROCESS | flags.CU_EVENT_DISABLE_TIMING
        event = ask("cuEventCreate", both)
        ask("cuEventRecord", event, 0)
        child(
            CALLS + "handle = from_raw(driver.CUipcEventHandle(), sys.argv[1])\n"
            "with Primary():\n"
            "    event = ask('cuIpcOpenEventHandle', handle)\n"
            "    ask('cuEventSynchronize', event)\n"
            "    ask('cuEventDestroy', event)\n",
            raw(ask("cuIpcGetEventHandle", event)).hex(),
        )
        ask("cuEventDestroy", event)


@step(
    "another process imports a pool by its file, and memory of it by a word",
    Lack(APART, "cuMemPoolImportFromShareableHandle answered"),
)
def _():
    with Primary():
        pool, stream = new_pool(shared=True), ask("cuStreamCreate", 1)
        memory = ask("cuMemAllocFromPoolAsync", MIB, pool, stream)
        ask("cuMemsetD8Async", memory, 3, MIB, stream)
        ask("cuStreamSynchronize", stream)
        file = int(ask("cuMemPoolExportToShareableHandle", pool, FILE, 0))
        try:
            child(
                CALLS + "word = from_raw(driver.CUmemPoolPtrExportData(), sys.argv[1])\n"
                "with Primary():\n"
                "    pool = ask('cuMemPoolImportFromShareableHandle', int(sys.argv[2]), FILE, 0)\n"
                "    memory = ask('cuMemPoolImportPointer', pool, word)\n"
                "    expect(bytes_at(memory, 4), b'\\3\\3\\3\\3')\n"
                "    ask('cuMemFree', memory)\n"
                "    ask('cuMemPoolDestroy', pool)\n",
                raw(ask("cuMemPoolExportPointer", memory)).hex(),
                str(file),
                files=(file,),
            )
        finally:
            os.close(file)
            ask("cuMemFreeAsync", memory, stream)
            ask("cuStreamSynchronize", stream)
            ask("cuMemPoolDestroy", pool)
            ask("cuStreamDestroy", stream)
