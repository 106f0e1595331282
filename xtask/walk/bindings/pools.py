"""Pools, stream-ordered memory, and physical memory that is mapped."""

from cuda.bindings import driver

from bindings.calls import MIB, Primary, ask, bytes_at, new_pool, refused
from walking import expect, step


@step("a device has a default pool, which is current until another is made so")
def _():
    with Primary():
        default = ask("cuDeviceGetDefaultMemPool", 0)
        expect(int(ask("cuDeviceGetMemPool", 0)), int(default))
        pool = new_pool()
        ask("cuDeviceSetMemPool", 0, pool)
        expect(int(ask("cuDeviceGetMemPool", 0)), int(pool))
        ask("cuDeviceSetMemPool", 0, default)
        ask("cuMemPoolDestroy", pool)
        refused("INVALID_VALUE", "cuMemPoolDestroy", default)


@step("a pool counts what is used and reserved, and gives idle memory back when it is trimmed")
def _():
    with Primary():
        pool, stream = new_pool(), ask("cuStreamCreate", 1)
        counter = driver.CUmemPool_attribute
        keep = counter.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        ask("cuMemPoolSetAttribute", pool, keep, driver.cuuint64_t(1 << 40))
        memory = ask("cuMemAllocFromPoolAsync", 3 * MIB, pool, stream)
        used = counter.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
        expect(int(ask("cuMemPoolGetAttribute", pool, used)), 3 * MIB, "used")
        ask("cuMemsetD8Async", memory, 7, 3 * MIB, stream)
        ask("cuMemFreeAsync", memory, stream)
        ask("cuStreamSynchronize", stream)
        expect(int(ask("cuMemPoolGetAttribute", pool, used)), 0, "used after the free")
        reserved = counter.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        expect(int(ask("cuMemPoolGetAttribute", pool, reserved)) >= 3 * MIB, True, "kept")
        ask("cuMemPoolTrimTo", pool, 0)
        expect(int(ask("cuMemPoolGetAttribute", pool, reserved)), 0, "reserved after the trim")
        high = counter.CU_MEMPOOL_ATTR_USED_MEM_HIGH
        expect(int(ask("cuMemPoolGetAttribute", pool, high)), 3 * MIB, "most that was used")
        ask("cuStreamDestroy", stream)
        ask("cuMemPoolDestroy", pool)


@step("a device's own access to its pool is for reading and writing")
def _():
    with Primary():
        pool = new_pool()
        place = driver.CUmemLocation()
        place.type, place.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
        access = ask("cuMemPoolGetAccess", pool, place)
        expect(int(access), 3, "access")
        ask("cuMemPoolDestroy", pool)


@step("physical memory is mapped at a reserved address, used once access was given, and given back")
def _():
    with Primary():
        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = 0
        least = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        size = ask("cuMemGetAllocationGranularity", properties, least)
        address = ask("cuMemAddressReserve", size, 0, 0, 0)
        handle = ask("cuMemCreate", size, properties, 0)
        ask("cuMemMap", address, size, 0, handle, 0)
        access = driver.CUmemAccessDesc()
        access.location = properties.location
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        ask("cuMemSetAccess", address, size, [access], 1)
        ask("cuMemsetD8", address, 9, size)
        expect(bytes_at(address, 4), b"\t\t\t\t")
        ask("cuMemUnmap", address, size)
        ask("cuMemRelease", handle)
        ask("cuMemAddressFree", address, size)
