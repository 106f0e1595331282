"""Buffers and events between two processes."""

import multiprocessing

from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions, EventOptions

from core.things import MIB, device, read
from walking import Lack, expect, step

APART = Lack(
    "processes are simulated inside of one process, not between two",
    "exit code of the other process",
)


def in_another_process(target, *arguments):
    """Runs a function in a process of its own, which has to end well."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join(60)
    if process.is_alive():
        process.kill()
        raise AssertionError("the other process didn't end within 60 s")
    expect(process.exitcode, 0, "exit code of the other process")


def fill_with_two(buffer):
    """What the other process does with a buffer that it was given."""
    first = Device(0)
    first.set_current()
    stream = first.create_stream()
    expect(read(buffer, stream), b"\1" * 64)
    buffer.fill(2, stream=stream)
    stream.sync()
    buffer.close(stream)
    stream.sync()


def wait_for(event):
    """What the other process does with an event."""
    Device(0).set_current()
    event.sync()


@step("a pool for other processes has a handle, and its buffers descriptors")
def _():
    first = device()
    stream = first.create_stream()
    pool = DeviceMemoryResource(first, DeviceMemoryResourceOptions(ipc_enabled=True))
    expect(pool.is_ipc_enabled, True)
    expect(int(pool.allocation_handle) >= 0, True, "a file")
    buffer = pool.allocate(64, stream=stream)
    expect(buffer.ipc_descriptor.size, 64, "size in the descriptor")
    buffer.close(stream)
    stream.sync()
    pool.close()


@step("another process fills a buffer that it was given, and this one sees it", APART)
def _():
    first = device()
    stream = first.create_stream()
    options = DeviceMemoryResourceOptions(ipc_enabled=True, max_size=32 * MIB)
    pool = DeviceMemoryResource(first, options)
    buffer = pool.allocate(64, stream=stream)
    buffer.fill(1, stream=stream)
    stream.sync()
    in_another_process(fill_with_two, buffer)
    expect(read(buffer, stream), b"\2" * 64)


@step("another process waits for an event that this one recorded", APART)
def _():
    stream = device().create_stream()
    event = stream.record(options=EventOptions(ipc_enabled=True))
    in_another_process(wait_for, event)
