//! Devices: what they are, and which memory pool they use.
//!
//! Source: CUDA Driver API 13.x, "Device Management".

use core::{ffi::CStr, ptr::null_mut};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

/// A device that isn't there.
const NO_DEVICE: CUdevice = 99;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuDeviceGet, "the first device has the number 0", |c| {
        c.device()?;
        step(|c| {
            let mut device = 9;
            ask!(c.cuDeviceGet(&raw mut device, 0));
            if c.observes() {
                c.note("device", device);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceGet, "there is no device 99", |c| {
        c.device()?;
        let mut device = 9;
        ask!(c.cuDeviceGet(&raw mut device, NO_DEVICE));
        c.note("device", device);
        Ok(())
    }),
    Probe::case(Call::cuDeviceGet, "there is no device -1", |c| {
        c.device()?;
        let mut device = 9;
        ask!(c.cuDeviceGet(&raw mut device, -1));
        ask!(c.cuDeviceGet(null_mut(), 0));
        Ok(())
    }),
    Probe::case(Call::cuDeviceGet, "before initialization there is no device", |c| {
        let mut device = 9;
        ask!(c.cuDeviceGet(&raw mut device, 0));
        Ok(())
    }),
    Probe::works(Call::cuDeviceGetCount, "there is at least one device", |c| {
        c.device()?;
        step(|c| {
            let mut count = 0;
            ask!(c.cuDeviceGetCount(&raw mut count));
            if c.observes() {
                c.holds("some", count > 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceGetCount, "the count of devices needs somewhere to go", |c| {
        c.device()?;
        ask!(c.cuDeviceGetCount(null_mut()));
        Ok(())
    }),
    Probe::case(Call::cuDeviceGetCount, "before initialization no devices are counted", |c| {
        let mut count = 9;
        ask!(c.cuDeviceGetCount(&raw mut count));
        Ok(())
    }),
    Probe::works(Call::cuDeviceGetName, "a device has a name", |c| {
        let device = c.device()?;
        step(move |c| {
            let mut name = [b'#'; 64];
            ask!(c.cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), 64, device));
            if c.observes() {
                let text = CStr::from_bytes_until_nul(&name);
                c.holds("some", text.is_ok_and(|text| !text.is_empty()));
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceGetName, "a missing device has no name", |c| {
        c.device()?;
        let mut name = [b'#'; 64];
        ask!(c.cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), 64, NO_DEVICE));
        Ok(())
    }),
    Probe::crashes(Call::cuDeviceGetName, "a device's name is cut to the space it has", |c| {
        let device = c.device()?;
        let mut name = [b'#'; 4];
        let to = name.as_mut_ptr().cast::<c_char>();
        ask!(c.cuDeviceGetName(to, 4, device));
        c.holds("ends_with_nul", name.last() == Some(&0));
        crash!(c.cuDeviceGetName(to, 0, device));
        Ok(())
    }),
    Probe::case(Call::cuDeviceGetName, "a device's name needs somewhere to go", |c| {
        let device = c.device()?;
        ask!(c.cuDeviceGetName(null_mut(), 4, device));
        Ok(())
    }),
    Probe::works(Call::cuDeviceGetUuid_v2, "a device has an identifier", |c| {
        let device = c.device()?;
        step(move |c| {
            let mut uuid = CUuuid::default();
            ask!(c.cuDeviceGetUuid_v2(&raw mut uuid, device));
            if c.observes() {
                c.holds("some", uuid != CUuuid::default());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceGetUuid_v2, "a missing device has no identifier", |c| {
        c.device()?;
        let mut uuid = CUuuid::default();
        ask!(c.cuDeviceGetUuid_v2(&raw mut uuid, NO_DEVICE));
        Ok(())
    }),
    Probe::case(Call::cuDeviceGetUuid_v2, "an identifier needs somewhere to go", |c| {
        let device = c.device()?;
        ask!(c.cuDeviceGetUuid_v2(null_mut(), device));
        Ok(())
    }),
    Probe::case(Call::cuDeviceGetLuid, "a locally unique identifier is Windows' alone", |c| {
        let device = c.device()?;
        let mut luid = [0; 8];
        let mut mask = 0;
        ask!(c.cuDeviceGetLuid(luid.as_mut_ptr(), &raw mut mask, device));
        Ok(())
    }),
    Probe::works(Call::cuDeviceTotalMem_v2, "a device has memory", |c| {
        let device = c.device()?;
        step(move |c| {
            let mut bytes = 0;
            ask!(c.cuDeviceTotalMem_v2(&raw mut bytes, device));
            if c.observes() {
                c.holds("some", bytes > 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceTotalMem_v2, "a missing device has no memory", |c| {
        c.device()?;
        let mut bytes = 0;
        ask!(c.cuDeviceTotalMem_v2(&raw mut bytes, NO_DEVICE));
        Ok(())
    }),
    Probe::works(Call::cuDeviceGetAttribute, "a warp has 32 threads", |c| {
        let device = c.device()?;
        step(move |c| attribute(c, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE, device))
    }),
    Probe::fails(Call::cuDeviceGetAttribute, "a missing device has no attributes", |c| {
        c.device()?;
        attribute(c, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE, NO_DEVICE)
    }),
    Probe::case(Call::cuDeviceGetAttribute, "an unknown attribute is refused", |c| {
        let device = c.device()?;
        attribute(c, CUdevice_attribute(100_000), device)?;
        attribute(c, CUdevice_attribute(0), device)
    }),
    Probe::case(Call::cuDeviceGetAttribute, "the device is looked at before the attribute", |c| {
        c.device()?;
        attribute(c, CUdevice_attribute(100_000), NO_DEVICE)
    }),
    Probe::case(Call::cuDeviceGetAttribute, "the device has what the layers above rely on", |c| {
        let device = c.device()?;
        attribute(c, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device)?;
        attribute(c, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device)?;
        attribute(c, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device)?;
        attribute(c, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, device)?;
        attribute(c, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device)
    }),
    Probe::works(Call::cuDeviceGetTexture1DLinearMaxWidth, "a linear texture has a limit", |c| {
        let device = c.device()?;
        step(move |c| {
            let mut elements = 0;
            let format = CUarray_format::CU_AD_FORMAT_FLOAT;
            ask!(c.cuDeviceGetTexture1DLinearMaxWidth(&raw mut elements, format, 1, device));
            if c.observes() {
                c.holds("some", elements > 0);
            }
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuDeviceGetTexture1DLinearMaxWidth,
        "a linear texture has a known format",
        |c| {
            let device = c.device()?;
            let mut elements = 0;
            let format = CUarray_format(9999);
            ask!(c.cuDeviceGetTexture1DLinearMaxWidth(&raw mut elements, format, 1, device));
            Ok(())
        },
    ),
    Probe::works(Call::cuDeviceGetHostAtomicCapabilities, "atomics on the host are told", |c| {
        let device = c.device()?;
        step(move |c| host_atomics(c, 1, device))
    }),
    Probe::fails(Call::cuDeviceGetHostAtomicCapabilities, "no atomics are asked for", |c| {
        let device = c.device()?;
        host_atomics(c, 0, device)
    }),
    Probe::works(Call::cuDeviceGetExecAffinitySupport, "affinity to processors is told", |c| {
        let device = c.device()?;
        step(move |c| affinity(c, CUexecAffinityType::CU_EXEC_AFFINITY_TYPE_SM_COUNT, device))
    }),
    Probe::fails(Call::cuDeviceGetExecAffinitySupport, "an unknown affinity is refused", |c| {
        let device = c.device()?;
        affinity(c, CUexecAffinityType(99), device)
    }),
    Probe::works(Call::cuDeviceGetPCIBusId, "a device has a place on the bus", |c| {
        let device = c.device()?;
        step(move |c| {
            let mut place: [c_char; 32] = [0; 32];
            ask!(c.cuDeviceGetPCIBusId(place.as_mut_ptr(), 32, device));
            if c.observes() {
                c.note("length", place.iter().take_while(|byte| **byte != 0).count());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceGetPCIBusId, "a missing device has no place on the bus", |c| {
        c.device()?;
        let mut place: [c_char; 32] = [0; 32];
        ask!(c.cuDeviceGetPCIBusId(place.as_mut_ptr(), 32, NO_DEVICE));
        Ok(())
    }),
    Probe::case(Call::cuDeviceGetPCIBusId, "a place on the bus needs space", |c| {
        let device = c.device()?;
        let mut place: [c_char; 32] = [0; 32];
        ask!(c.cuDeviceGetPCIBusId(place.as_mut_ptr(), 5, device));
        ask!(c.cuDeviceGetPCIBusId(null_mut(), 32, device));
        Ok(())
    }),
    Probe::works(Call::cuDeviceGetByPCIBusId, "a device is found by its place on the bus", |c| {
        let device = c.device()?;
        let mut place: [c_char; 32] = [0; 32];
        must!(c.cuDeviceGetPCIBusId(place.as_mut_ptr(), 32, device));
        step(move |c| {
            let mut found = 9;
            ask!(c.cuDeviceGetByPCIBusId(&raw mut found, place.as_ptr()));
            if c.observes() {
                c.holds("same", found == device);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceGetByPCIBusId, "there is no device at every place", |c| {
        c.device()?;
        let mut found = 9;
        ask!(c.cuDeviceGetByPCIBusId(&raw mut found, c"7fff:ff:1f.0".as_ptr()));
        Ok(())
    }),
    Probe::case(Call::cuDeviceGetByPCIBusId, "a place on the bus has a form", |c| {
        c.device()?;
        let mut found = 9;
        ask!(c.cuDeviceGetByPCIBusId(&raw mut found, c"nowhere".as_ptr()));
        Ok(())
    }),
    Probe::works(Call::cuDeviceGetDefaultMemPool, "a device has a default pool", |c| {
        let device = c.device()?;
        step(move |c| {
            let mut pool = CUmemoryPool::NULL;
            ask!(c.cuDeviceGetDefaultMemPool(&raw mut pool, device));
            if c.observes() {
                c.holds("null", pool.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceGetDefaultMemPool, "a missing device has no default pool", |c| {
        c.device()?;
        let mut pool = CUmemoryPool::NULL;
        ask!(c.cuDeviceGetDefaultMemPool(&raw mut pool, NO_DEVICE));
        Ok(())
    }),
    Probe::works(Call::cuDeviceGetMemPool, "the current pool is the default one at first", |c| {
        let device = c.device()?;
        let default = c.default_pool()?;
        step(move |c| {
            let mut pool = CUmemoryPool::NULL;
            ask!(c.cuDeviceGetMemPool(&raw mut pool, device));
            if c.observes() {
                c.holds("default", pool == default);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceGetMemPool, "a missing device has no current pool", |c| {
        c.device()?;
        let mut pool = CUmemoryPool::NULL;
        ask!(c.cuDeviceGetMemPool(&raw mut pool, NO_DEVICE));
        Ok(())
    }),
    Probe::works(Call::cuDeviceSetMemPool, "the current pool can be set", |c| {
        let device = c.device()?;
        let pool = c.pool()?;
        step(move |c| {
            ask!(c.cuDeviceSetMemPool(device, pool));
            if c.observes() {
                let mut now = CUmemoryPool::NULL;
                must!(c.cuDeviceGetMemPool(&raw mut now, device));
                c.holds("set", now == pool);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceSetMemPool, "no pool can't be the current one", |c| {
        let device = c.device()?;
        ask!(c.cuDeviceSetMemPool(device, CUmemoryPool::NULL));
        Ok(())
    }),
    Probe::case(
        Call::cuDeviceSetMemPool,
        "a destroyed current pool gives way to the default",
        |c| {
            let device = c.device()?;
            let default = c.default_pool()?;
            let pool = c.pool()?;
            ask!(c.cuDeviceSetMemPool(device, pool));
            ask!(c.cuMemPoolDestroy(pool), "destroy");
            let mut now = CUmemoryPool::NULL;
            ask!(c.cuDeviceGetMemPool(&raw mut now, device), "get");
            c.holds("default", now == default);
            Ok(())
        },
    ),
];

fn attribute(c: &mut Ctx, attribute: CUdevice_attribute, device: CUdevice) -> Made<()> {
    let mut value: c_int = -7;
    ask!(c.cuDeviceGetAttribute(&raw mut value, attribute, device));
    if c.observes() {
        c.note("value", value);
    }
    Ok(())
}

fn host_atomics(c: &mut Ctx, count: u32, device: CUdevice) -> Made<()> {
    let mut capabilities = [0; 1];
    let operations = [CUatomicOperation::CU_ATOMIC_OPERATION_INTEGER_ADD];
    let (to, of) = (capabilities.as_mut_ptr(), operations.as_ptr());
    ask!(c.cuDeviceGetHostAtomicCapabilities(to, of, count, device));
    Ok(())
}

fn affinity(c: &mut Ctx, kind: CUexecAffinityType, device: CUdevice) -> Made<()> {
    let mut supported: c_int = -7;
    ask!(c.cuDeviceGetExecAffinitySupport(&raw mut supported, kind, device));
    Ok(())
}
