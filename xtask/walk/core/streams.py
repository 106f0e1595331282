"""Streams and events."""

from cuda.core import EventOptions, StreamOptions

from bindings.calls import Gate
from core.things import device
from walking import expect, raises, step


@step("a stream has the options that it was made with, its device and its context")
def _():
    first = device()
    stream = first.create_stream(options=StreamOptions(nonblocking=True, priority=-1))
    expect((stream.is_nonblocking, stream.priority), (True, -1))
    expect(stream.device.device_id, first.device_id)
    expect(stream.context.handle == first.context.handle, True, "its context")
    expect(int(stream.handle) != 0, True, "a handle")
    stream.sync()
    stream.close()
    expect(stream.is_closed, True)


@step("a priority that the device hasn't is an error")
def _():
    first = device()
    raises(ValueError, lambda: first.create_stream(options=StreamOptions(priority=-1000)))


@step("an event isn't done while its stream waits, and is afterwards")
def _():
    stream = device().create_stream()
    gate = Gate(stream.handle)
    event = stream.record()
    expect(event.is_done, False, "before")
    gate.open()
    event.sync()
    expect(event.is_done, True, "after")


@step("a stream that waits for another goes on behind it")
def _():
    first = device()
    one, other = first.create_stream(), first.create_stream()
    gate = Gate(one.handle)
    other.wait(one)
    event = other.record()
    expect(event.is_done, False, "before")
    gate.open()
    other.sync()
    expect(event.is_done, True, "after")


@step("the time between two events isn't negative; with timing off it is an error")
def _():
    first = device()
    stream = first.create_stream()
    timed = EventOptions(timing_enabled=True)
    begin, end = stream.record(options=timed), stream.record(options=timed)
    end.sync()
    expect(end - begin >= 0, True)
    untimed = stream.record(options=EventOptions(timing_enabled=False))
    untimed.sync()
    raises(RuntimeError, lambda: untimed - begin)


@step("the default stream is there and waits like any other")
def _():
    first = device()
    first.default_stream.sync()
    event = first.default_stream.record()
    event.sync()
    expect(event.is_done, True)
