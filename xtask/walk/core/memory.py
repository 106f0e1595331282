"""Buffers, pools and the other memory resources."""

from cuda.core import (
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    LegacyPinnedMemoryResource,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    PinnedMemoryResource,
    VirtualMemoryResource,
)

from core.things import MIB, device, read, view
from walking import Skip, expect, raises, step


@step("a buffer of the device is filled, copied and freed in a stream's order")
def _():
    first = device()
    stream = first.create_stream()
    source, target = (first.allocate(256, stream=stream) for _ in range(2))
    expect((source.size, source.device_id), (256, first.device_id))
    expect((source.is_device_accessible, source.is_host_accessible), (True, False))
    source.fill(0x41, stream=stream)
    target.copy_from(source, stream=stream)
    target.fill(b"\1\2\3\4", stream=stream)
    expect(read(source, stream), b"A" * 256)
    expect(read(target, stream), b"\1\2\3\4" * 64)
    source.close(stream)
    target.close(stream)
    expect(source.is_closed, True)
    stream.sync()


@step("a copy between buffers of different sizes is an error")
def _():
    first = device()
    stream = first.create_stream()
    small, large = first.allocate(16, stream=stream), first.allocate(32, stream=stream)
    raises(ValueError, lambda: small.copy_to(large, stream=stream))


@step("a pool of its own counts what is used")
def _():
    first = device()
    stream = first.create_stream()
    pool = DeviceMemoryResource(first, DeviceMemoryResourceOptions(max_size=64 * MIB))
    expect(pool.attributes.used_mem_current, 0, "used at first")
    buffer = pool.allocate(5 * MIB, stream=stream)
    expect(pool.attributes.used_mem_current, 5 * MIB, "used")
    expect(pool.attributes.reserved_mem_current >= 5 * MIB, True, "reserved")
    buffer.close(stream)
    stream.sync()
    expect(pool.attributes.used_mem_current, 0, "used after the free")
    expect(pool.attributes.used_mem_high, 5 * MIB, "most that was used")
    pool.close()


@step("a pool gives no more than its size, and goes on afterwards")
def _():
    first = device()
    stream = first.create_stream()
    pool = DeviceMemoryResource(first, DeviceMemoryResourceOptions(max_size=32 * MIB))
    raises(Exception, lambda: pool.allocate(1 << 40, stream=stream), "OUT_OF_MEMORY")
    pool.allocate(MIB, stream=stream).close(stream)
    stream.sync()
    pool.close()


@step("page-locked memory is reached by the host")
def _():
    first = device()
    stream = first.create_stream()
    plain = LegacyPinnedMemoryResource().allocate(64)
    pooled = PinnedMemoryResource().allocate(64, stream=stream)
    stream.sync()
    for buffer in (plain, pooled):
        expect((buffer.is_device_accessible, buffer.is_host_accessible), (True, True))
        view(buffer)[:] = range(64)
    on_device = first.allocate(64, stream=stream)
    on_device.copy_from(pooled, stream=stream)
    expect(read(on_device, stream), bytes(range(64)))
    for buffer in (plain, pooled, on_device):
        buffer.close(stream)
    stream.sync()


@step("managed memory is one for the host and the device")
def _():
    first = device()
    stream = first.create_stream()
    options = ManagedMemoryResourceOptions(preferred_location=first.device_id)
    buffer = ManagedMemoryResource(options).allocate(64, stream=stream)
    expect(buffer.is_managed, True)
    buffer.fill(0x33, stream=stream)
    stream.sync()
    expect(bytes(view(buffer)), b"3" * 64)
    buffer.close(stream)
    stream.sync()


@step("virtual memory grows, and keeps what it holds")
def _():
    first = device()
    stream = first.create_stream()
    resource = VirtualMemoryResource(first)
    buffer = resource.allocate(2 * MIB, stream=stream)
    buffer.fill(0x55, stream=stream)
    stream.sync()
    grown = resource.modify_allocation(buffer, 4 * MIB)
    expect(grown.size, 4 * MIB)
    expect(read(grown, stream)[: 2 * MIB], b"U" * (2 * MIB))
    grown.close()


@step("memory of one device is copied to another that has access to it")
def _():
    second, first = device(1), device(0)
    if not second.can_access_peer(first):
        raise Skip("the devices don't reach each other's memory")
    stream = first.create_stream()
    here = first.allocate(64, stream=stream)
    second.set_current()
    other = second.create_stream()
    pool = DeviceMemoryResource(second, DeviceMemoryResourceOptions(max_size=32 * MIB))
    pool.peer_accessible_by = [first]
    there = pool.allocate(64, stream=other)
    other.sync()
    first.set_current()
    here.fill(0x21, stream=stream)
    there.copy_from(here, stream=stream)
    stream.sync()
    second.set_current()
    expect(read(there, other), b"!" * 64)
    there.close(other)
    other.sync()
    first.set_current()
