"""Memory of devices and of the host, and copies."""

import ctypes

from cuda.bindings import driver

from bindings.calls import MIB, Primary, ask, bytes_at, refused
from walking import expect, step


@step("what is copied to a device and filled there is read back")
def _():
    with Primary():
        memory = ask("cuMemAlloc", MIB)
        ask("cuMemcpyHtoD", memory, b"0123456789abcdef", 16)
        ask("cuMemsetD8", int(memory) + 4, 0x2A, 4)
        expect(bytes_at(memory, 16), b"0123****89abcdef")
        base, size = ask("cuMemGetAddressRange", int(memory) + 100)
        expect((int(base), size), (int(memory), MIB))
        free, total = ask("cuMemGetInfo")
        expect(0 < free < total, True, "free and total")
        ask("cuMemFree", memory)


@step("memory that can't be had is OUT_OF_MEMORY, and none of it INVALID_VALUE; the next call is well")
def _():
    with Primary():
        refused("OUT_OF_MEMORY", "cuMemAlloc", 1 << 50)
        refused("INVALID_VALUE", "cuMemAlloc", 0)
        refused("INVALID_VALUE", "cuMemFree", 0x10)
        ask("cuMemFree", ask("cuMemAlloc", 1))


@step("copies from one allocation to another go beside each other on streams and in two dimensions")
def _():
    with Primary():
        stream = ask("cuStreamCreate", 1)
        source, target = ask("cuMemAlloc", 64), ask("cuMemAlloc", 64)
        ask("cuMemcpyHtoD", source, bytes(range(64)), 64)
        ask("cuMemsetD8Async", target, 0, 64, stream)
        box = driver.CUDA_MEMCPY2D()
        box.srcMemoryType = box.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        box.srcDevice, box.dstDevice = source, target
        box.srcPitch = box.dstPitch = 16
        box.WidthInBytes, box.Height = 4, 4
        ask("cuMemcpy2DAsync", box, stream)
        ask("cuMemcpyDtoDAsync", int(target) + 8, source, 4, stream)
        ask("cuStreamSynchronize", stream)
        rows = [bytes_at(int(target) + 16 * row, 12) for row in range(2)]
        expect(rows[0], bytes([0, 1, 2, 3, 0, 0, 0, 0, 0, 1, 2, 3]))
        expect(rows[1], bytes([16, 17, 18, 19, 0, 0, 0, 0, 0, 0, 0, 0]))
        for memory in (source, target):
            ask("cuMemFree", memory)
        ask("cuStreamDestroy", stream)


@step("page-locked memory is the host's own, and its pointer says what it is")
def _():
    with Primary() as primary:
        host = ask("cuMemAllocHost", 64)
        ctypes.memset(int(host), 0x5A, 64)
        kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        expect(int(ask("cuPointerGetAttribute", kind, int(host))), 1, "memory type")
        memory = ask("cuMemAlloc", 64)
        expect(int(ask("cuPointerGetAttribute", kind, int(memory))), 2, "memory type")
        owner = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_CONTEXT
        expect(int(ask("cuPointerGetAttribute", owner, int(memory))), int(primary))
        ask("cuMemcpyHtoD", memory, int(host), 64)
        expect(bytes_at(memory, 64), b"Z" * 64)
        ask("cuMemFree", memory)
        ask("cuMemFreeHost", host)


@step("host memory is registered once, and unregistered once")
def _():
    with Primary():
        size = 1 << 16
        raw = ctypes.create_string_buffer(size + 4096)
        start = (ctypes.addressof(raw) + 4095) & ~4095
        ask("cuMemHostRegister", start, size, 0)
        refused("HOST_MEMORY_ALREADY_REGISTERED", "cuMemHostRegister", start, size, 0)
        ask("cuMemHostUnregister", start)
        refused("HOST_MEMORY_NOT_REGISTERED", "cuMemHostUnregister", start)


@step("managed memory is reached by the host at the same address")
def _():
    with Primary():
        flag = driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL
        memory = ask("cuMemAllocManaged", 64, flag)
        ask("cuMemsetD32", memory, 0x01020304, 16)
        ask("cuCtxSynchronize")
        expect(ctypes.string_at(int(memory), 4), b"\4\3\2\1")
        ask("cuMemFree", memory)
