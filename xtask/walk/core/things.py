"""What the chapters share: a device that is current, and bytes to look at."""

import ctypes

from cuda.core import Device, LegacyPinnedMemoryResource, ObjectCode

from bindings.calls import FILL_PTX
from walking import Skip

MIB = 1 << 20


def device(number=0):
    """A device, current."""
    found = Device.get_all_devices()
    if number >= len(found):
        raise Skip(f"{len(found)} devices, {number + 1} are needed")
    found[number].set_current()
    return found[number]


def view(buffer):
    """Memory that the host reaches, as bytes that can be read and written."""
    return (ctypes.c_ubyte * buffer.size).from_address(int(buffer.handle))


def read(buffer, stream):
    """What a buffer holds once the stream's work so far is done."""
    host = LegacyPinnedMemoryResource().allocate(buffer.size)
    buffer.copy_to(host, stream=stream)
    stream.sync()
    found = bytes(view(host))
    host.close()
    return found


def fill_kernel():
    """The kernel that fills words."""
    return ObjectCode.from_ptx(FILL_PTX.rstrip(b"\0")).get_kernel("fill_words")
