"""Contexts: primary, created, current."""

from cuda.bindings import driver

from bindings.calls import Primary, ask, refused
from walking import expect, step


@step("a primary context is active while it is retained, and the same each time")
def _():
    ask("cuInit", 0)
    flags, active = ask("cuDevicePrimaryCtxGetState", 0)
    expect((flags, active), (0, 0), "state before")
    first = ask("cuDevicePrimaryCtxRetain", 0)
    expect(int(ask("cuDevicePrimaryCtxRetain", 0)), int(first))
    expect(ask("cuDevicePrimaryCtxGetState", 0)[1], 1, "active")
    ask("cuDevicePrimaryCtxRelease", 0)
    expect(ask("cuDevicePrimaryCtxGetState", 0)[1], 1, "still active")
    ask("cuDevicePrimaryCtxRelease", 0)
    expect(ask("cuDevicePrimaryCtxGetState", 0)[1], 0, "active at the end")
    refused("INVALID_CONTEXT", "cuDevicePrimaryCtxRelease", 0)


@step("a created context is current, lies above the one before, and leaves the stack with its end")
def _():
    with Primary() as primary:
        made = ask("cuCtxCreate", None, 0, 0)
        expect(int(ask("cuCtxGetCurrent")), int(made))
        expect(int(ask("cuCtxGetDevice")), 0)
        expect(ask("cuCtxGetId", made) != ask("cuCtxGetId", primary), True, "ids differ")
        ask("cuCtxDestroy", made)
        expect(int(ask("cuCtxGetCurrent")), int(primary))


@step("contexts are pushed and popped in order; nothing is left to pop at the end")
def _():
    with Primary() as primary:
        ask("cuCtxPushCurrent", primary)
        expect(int(ask("cuCtxPopCurrent")), int(primary))
        expect(int(ask("cuCtxPopCurrent")), int(primary))
        refused("INVALID_CONTEXT", "cuCtxPopCurrent")
        refused("INVALID_CONTEXT", "cuCtxSynchronize")
        refused("INVALID_CONTEXT", "cuMemAlloc", 16)
        ask("cuCtxPushCurrent", primary)


@step("limits are read and set")
def _():
    with Primary():
        stack = driver.CUlimit.CU_LIMIT_STACK_SIZE
        ask("cuCtxSetLimit", stack, 4096)
        expect(ask("cuCtxGetLimit", stack) >= 4096, True)
        greatest, least = ask("cuCtxGetStreamPriorityRange")[::-1]
        expect(greatest <= least, True)
