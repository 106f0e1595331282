"""The driver and its devices."""

from cuda.bindings import driver

from bindings.calls import CALLS, ask, devices, refused
from walking import child, expect, step


@step("before cuInit every other call answers NOT_INITIALIZED, but the version")
def _():
    child(
        CALLS + "refused('NOT_INITIALIZED', 'cuDeviceGetCount')\n"
        "refused('NOT_INITIALIZED', 'cuCtxGetCurrent')\n"
        "assert ask('cuDriverGetVersion') >= 12000"
    )


@step("a child of fork answers NOT_INITIALIZED where the parent had initialized the driver")
def _():
    child(
        CALLS + "import os\n"
        "ask('cuInit', 0)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    status, *_ = driver.cuDeviceGetCount()\n"
        "    os._exit(0 if status == Status.CUDA_ERROR_NOT_INITIALIZED else 1)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "assert ask('cuDeviceGetCount') >= 1"
    )


@step("cuInit takes no flags, and may be called again")
def _():
    ask("cuInit", 0)
    refused("INVALID_VALUE", "cuInit", 1)
    ask("cuInit", 0)


@step("a status has a name and a description")
def _():
    status = driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    expect(ask("cuGetErrorName", status), b"CUDA_ERROR_OUT_OF_MEMORY")
    expect(len(ask("cuGetErrorString", status)) > 0, True, "has a description")


@step("each device has a name, memory, a capability, its own UUID and its own place on the bus")
def _():
    ask("cuInit", 0)
    count = ask("cuDeviceGetCount")
    seen = set()
    for ordinal in range(count):
        device = ask("cuDeviceGet", ordinal)
        expect(int(device), ordinal)
        name = ask("cuDeviceGetName", 256, device)
        expect(name.rstrip(b"\0") != b"", True, "has a name")
        expect(ask("cuDeviceTotalMem", device) > 0, True, "has memory")
        major = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        expect(ask("cuDeviceGetAttribute", major, device) >= 5, True, "capability")
        seen.add(bytes(ask("cuDeviceGetUuid", device).bytes))
        bus = ask("cuDeviceGetPCIBusId", 16, device).rstrip(b"\0")
        expect(int(ask("cuDeviceGetByPCIBusId", bus)), ordinal)
    expect(len(seen), count, "different UUIDs")


@step("a device that isn't there is INVALID_DEVICE")
def _():
    ask("cuInit", 0)
    refused("INVALID_DEVICE", "cuDeviceGet", 4096)
    refused("INVALID_DEVICE", "cuDeviceGet", -1)
    refused("INVALID_DEVICE", "cuDeviceTotalMem", 4096)


@step("two devices say whether they reach each other's memory, and one doesn't reach its own as a peer")
def _():
    first, second = devices(2)
    expect(ask("cuDeviceCanAccessPeer", first, second) in (0, 1), True)
    expect(ask("cuDeviceCanAccessPeer", first, first), 0)
