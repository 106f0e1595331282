"""Calls of cuda.bindings.driver in the form that steps want: the values, or the status that refused."""

import ctypes

from cuda.bindings import driver

from walking import Skip, expect

MIB = 1 << 20

Status = driver.CUresult
FILE = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
CALLS = "from bindings.calls import *\n"


class Refused(Exception):
    """A driver call that answered something else than SUCCESS."""

    def __init__(self, call, status):
        super().__init__(f"{call} answered {status.name}")
        self.status = status


def ask(call, *arguments):
    """The call's values: none, the one, or a tuple."""
    status, *values = getattr(driver, call)(*arguments)
    if status != Status.CUDA_SUCCESS:
        raise Refused(call, status)
    return values[0] if len(values) == 1 else tuple(values) or None


def refused(status, call, *arguments):
    """The call has to answer this status."""
    found, *_ = getattr(driver, call)(*arguments)
    expect(found.name, f"CUDA_ERROR_{status}", call)


class Primary:
    """A device's primary context, retained and current while the block runs."""

    def __init__(self, device=0):
        self.device = device

    def __enter__(self):
        ask("cuInit", 0)
        self.before = ask("cuCtxGetCurrent")
        context = ask("cuDevicePrimaryCtxRetain", self.device)
        ask("cuCtxSetCurrent", context)
        return context

    def __exit__(self, *_):
        ask("cuCtxSetCurrent", self.before)
        ask("cuDevicePrimaryCtxRelease", self.device)


class Gate:
    """A word of page-locked memory that a stream waits for: work behind it isn't done before it is opened."""

    def __init__(self, stream):
        device = ask("cuCtxGetDevice")
        attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR
        if not ask("cuDeviceGetAttribute", attribute, device):
            raise Skip("streams can't wait for values here")
        self.stream = stream
        self.memory = ask("cuMemHostAlloc", 4, driver.CU_MEMHOSTALLOC_DEVICEMAP)
        self.word = ctypes.c_uint32.from_address(int(self.memory))
        self.word.value = 0
        address = ask("cuMemHostGetDevicePointer", self.memory, 0)
        ask("cuStreamWaitValue32", stream, address, 1, 0)

    def open(self):
        self.word.value = 1
        ask("cuStreamSynchronize", self.stream)
        ask("cuMemFreeHost", self.memory)


def devices(count):
    """The first so many devices."""
    ask("cuInit", 0)
    found = ask("cuDeviceGetCount")
    if found < count:
        raise Skip(f"{found} devices, {count} are needed")
    return range(count)


def bytes_at(pointer, size):
    """What lies in device memory."""
    into = bytearray(size)
    view = (ctypes.c_ubyte * size).from_buffer(into)
    ask("cuMemcpyDtoH", ctypes.addressof(view), pointer, size)
    return bytes(view)


def raw(handle):
    """The 64 bytes of what is handed to another process."""
    return ctypes.string_at(handle.getPtr(), 64)


def from_raw(handle, text):
    """The same, from their hexadecimal digits."""
    ctypes.memmove(handle.getPtr(), bytes.fromhex(text), 64)
    return handle


def new_pool(shared=False):
    """A pool of device 0, to be exported as a file if it is shared."""
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = 0
    if shared:
        properties.handleTypes = FILE
    return ask("cuMemPoolCreate", properties)


# A kernel that puts a number into each word of an array, for any device: `fill_words(words, value, count)`.
FILL_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 steps;
.visible .entry fill_words(.param .u64 words, .param .u32 value, .param .u32 count)
{
    .reg .pred p;
    .reg .b32 r<7>;
    .reg .b64 d<5>;
    ld.param.u64 d1, [words];
    ld.param.u32 r1, [value];
    ld.param.u32 r2, [count];
    mov.u32 r3, %ctaid.x;
    mov.u32 r4, %ntid.x;
    mov.u32 r5, %tid.x;
    mad.lo.s32 r6, r3, r4, r5;
    setp.ge.u32 p, r6, r2;
    @p bra DONE;
    cvta.to.global.u64 d2, d1;
    mul.wide.u32 d3, r6, 4;
    add.s64 d4, d2, d3;
    st.global.u32 [d4], r1;
DONE:
    ret;
}
\0"""
