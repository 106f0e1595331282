"""Devices and contexts."""

from cuda.core import ContextOptions, Device, SMResourceOptions

from core.things import device
from walking import Lack, Skip, expect, raises, step


@step("all devices are there, one object each, with a name, a capability and a UUID")
def _():
    found = Device.get_all_devices()
    expect(len(found) > 0, True, "devices")
    for number, one in enumerate(found):
        expect(one.device_id, number)
        expect(Device(number) is one, True, "the same object")
        expect(len(one.name) > 0, True, "name")
        expect(one.arch, f"{one.compute_capability.major}{one.compute_capability.minor}")
    expect(len({one.uuid for one in found}), len(found), "different UUIDs")


@step("a device that isn't there is an error that names the range")
def _():
    raises(ValueError, lambda: Device(4096))
    raises(ValueError, lambda: Device(-1))


@step("a device's properties are numbers that fit together")
def _():
    properties = device().properties
    expect(properties.max_threads_per_block >= properties.warp_size > 0, True)
    expect(properties.multiprocessor_count > 0, True)
    expect(properties.total_constant_memory > 0, True)
    expect(properties.memory_pools_supported in (True, 1), True, "memory pools")


@step("what needs a context before there is one is an error that says so")
def _():
    import threading

    said = []

    def without():
        try:
            Device(0).create_stream()
        except Exception as why:
            said.append(str(why))

    # A thread of its own has nothing current.
    thread = threading.Thread(target=without)
    thread.start()
    thread.join()
    expect(len(said), 1, "errors")


@step("a device that is set current gives its context, and set_current gives back the one before")
def _():
    first = device()
    context = first.context
    expect(context is not None and not context.is_closed, True, "its context")
    before = first.set_current(context)
    expect(before.handle == context.handle, True, "the one before")


@step(
    "a device is waited for",
    Lack("made by the CUDA runtime, which needs private tables", "CallRequiresNewerDriver"),
)
def _():
    device().sync()


@step("two devices say whether one reaches the other's memory")
def _():
    second = device(1)
    first = device(0)
    expect(first.can_access_peer(second) in (True, False), True)


@step("a green context has a part of the multiprocessors, and streams of its own")
def _():
    first = device()
    if first.compute_capability < (9, 0):
        raise Skip("parts of this device's multiprocessors are of other sizes")
    groups, rest = first.resources.sm.split(SMResourceOptions(count=16))
    expect(groups[0].sm_count, 16, "multiprocessors")
    context = first.create_context(ContextOptions(resources=[groups[0]]))
    expect(context.is_green, True)
    stream = context.create_stream()
    stream.sync()
    stream.close()
    context.close()
