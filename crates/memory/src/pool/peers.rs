//! Which devices reach a pool's memory.

#![expect(unsafe_code, reason = "calls the driver's pool functions")]

use cuhold_handles::driver_sys::{Calls, Failure, ffi::*};

/// Lets these devices read and write the pool's memory: all of them or none.
pub(super) fn grant(
    calls: Calls<'_>,
    pool: CUmemoryPool,
    devices: &[CUdevice],
) -> Result<(), Failure> {
    let entry = |id: &CUdevice| CUmemAccessDesc {
        location: CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id: *id },
        },
        flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    let list: Vec<_> = devices.iter().map(entry).collect();
    // SAFETY: *handles*: the caller's pool; *pointers*: a live list of that length.
    unsafe { calls.cuMemPoolSetAccess(pool, list.as_ptr(), list.len()) }
}
