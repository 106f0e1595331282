//! Page-locked host memory: allocated, registered, mapped.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    host::HostMemory,
    probe::{Probe, step},
};

const PORTABLE: u32 = 1;
const MAPPED: u32 = 2;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemAllocHost_v2, "page-locked memory is allocated", |c| {
        c.current()?;
        step(|c| {
            let mut start: *mut c_void = null_mut();
            ask!(c.cuMemAllocHost_v2(&raw mut start, 64));
            if c.observes() {
                c.holds("null", start.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemAllocHost_v2, "page-locked memory needs a context", |c| {
        c.device()?;
        let mut start: *mut c_void = null_mut();
        ask!(c.cuMemAllocHost_v2(&raw mut start, 64));
        Ok(())
    }),
    Probe::case(Call::cuMemAllocHost_v2, "no bytes of page-locked memory are allocated", |c| {
        c.current()?;
        let mut start = HostMemory::filled(1, 0).ptr();
        ask!(c.cuMemAllocHost_v2(&raw mut start, 0));
        c.holds("null", start.is_null());
        ask!(c.cuMemAllocHost_v2(null_mut(), 64), "nowhere");
        Ok(())
    }),
    Probe::works(Call::cuMemHostAlloc, "portable page-locked memory is allocated", |c| {
        c.current()?;
        step(|c| {
            let mut start: *mut c_void = null_mut();
            ask!(c.cuMemHostAlloc(&raw mut start, 64, PORTABLE));
            if c.observes() {
                c.holds("null", start.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemHostAlloc, "page-locked memory of unknown flags isn't", |c| {
        c.current()?;
        let mut start: *mut c_void = null_mut();
        ask!(c.cuMemHostAlloc(&raw mut start, 64, 0x8000));
        Ok(())
    }),
    Probe::works(Call::cuMemFreeHost, "page-locked memory is freed", |c| {
        c.current()?;
        let memory = c.pinned(16)?;
        step(move |c| {
            ask!(c.cuMemFreeHost(memory.ptr()));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemFreeHost, "plain memory isn't freed by the driver", |c| {
        c.current()?;
        let memory = HostMemory::filled(16, 0);
        ask!(c.cuMemFreeHost(memory.ptr()));
        Ok(())
    }),
    Probe::case(Call::cuMemFreeHost, "freeing page-locked null is fine", |c| {
        c.current()?;
        ask!(c.cuMemFreeHost(null_mut()));
        c.empty_stack();
        ask!(c.cuMemFreeHost(null_mut()), "without_context");
        Ok(())
    }),
    Probe::case(Call::cuMemFreeHost, "registered memory isn't freed but unregistered", |c| {
        c.current()?;
        let memory = HostMemory::filled(1024, 0);
        ask!(c.cuMemHostRegister_v2(memory.ptr(), memory.bytes(), 0), "register");
        ask!(c.cuMemFreeHost(memory.ptr()));
        ask!(c.cuMemHostUnregister(memory.ptr()), "unregister");
        Ok(())
    }),
    Probe::case(Call::cuMemFreeHost, "page-locked memory is freed whatever is current", |c| {
        c.current()?;
        let (a, b) = (c.pinned(16)?, c.pinned(16)?);
        c.context()?;
        ask!(c.cuMemFreeHost(a.ptr()), "other");
        c.empty_stack();
        ask!(c.cuMemFreeHost(b.ptr()), "none");
        Ok(())
    }),
    Probe::works(Call::cuMemHostRegister_v2, "plain memory is registered", |c| {
        c.current()?;
        let memory = HostMemory::filled(1024, 0);
        step(move |c| {
            ask!(c.cuMemHostRegister_v2(memory.ptr(), memory.bytes(), 0));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemHostRegister_v2, "no bytes aren't registered", |c| {
        c.current()?;
        let memory = HostMemory::filled(1024, 0);
        ask!(c.cuMemHostRegister_v2(memory.ptr(), 0, 0));
        ask!(c.cuMemHostRegister_v2(null_mut(), 4096, 0), "null");
        ask!(c.cuMemHostRegister_v2(memory.ptr(), memory.bytes(), 0x8000), "flags");
        Ok(())
    }),
    Probe::case(Call::cuMemHostRegister_v2, "memory isn't registered twice", |c| {
        c.current()?;
        let memory = HostMemory::filled(1024, 0);
        ask!(c.cuMemHostRegister_v2(memory.ptr(), memory.bytes(), 0));
        ask!(c.cuMemHostRegister_v2(memory.ptr(), memory.bytes(), 0), "again");
        Ok(())
    }),
    Probe::works(Call::cuMemHostUnregister, "registered memory is unregistered", |c| {
        c.current()?;
        let memory = HostMemory::filled(1024, 0);
        must!(c.cuMemHostRegister_v2(memory.ptr(), memory.bytes(), 0));
        step(move |c| {
            ask!(c.cuMemHostUnregister(memory.ptr()));
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemHostUnregister, "what isn't registered isn't unregistered", |c| {
        c.current()?;
        let memory = HostMemory::filled(1024, 0);
        ask!(c.cuMemHostUnregister(memory.ptr()));
        Ok(())
    }),
    Probe::case(Call::cuMemHostUnregister, "registered memory isn't unregistered inside", |c| {
        c.current()?;
        let memory = HostMemory::filled(1024, 0);
        must!(c.cuMemHostRegister_v2(memory.ptr(), memory.bytes(), 0));
        let inside = memory.ptr().wrapping_byte_add(64);
        ask!(c.cuMemHostUnregister(inside), "inside");
        ask!(c.cuMemHostUnregister(memory.ptr()), "start");
        ask!(c.cuMemHostUnregister(memory.ptr()), "again");
        Ok(())
    }),
    Probe::works(Call::cuMemHostGetDevicePointer_v2, "mapped memory has a device's address", |c| {
        c.current()?;
        let mut start: *mut c_void = null_mut();
        must!(c.cuMemHostAlloc(&raw mut start, 64, MAPPED));
        let memory = HostMemory::of_driver(start, 16);
        step(move |c| {
            let mut device = 0;
            ask!(c.cuMemHostGetDevicePointer_v2(&raw mut device, memory.ptr(), 0));
            if c.observes() {
                c.holds("same", device == memory.ptr().expose_provenance() as CUdeviceptr);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemHostGetDevicePointer_v2, "plain memory has no device's address", |c| {
        c.current()?;
        let memory = HostMemory::filled(16, 0);
        let mut device = 0;
        ask!(c.cuMemHostGetDevicePointer_v2(&raw mut device, memory.ptr(), 0));
        Ok(())
    }),
    Probe::works(Call::cuMemHostGetFlags, "page-locked memory keeps its flags", |c| {
        c.current()?;
        let mut start: *mut c_void = null_mut();
        must!(c.cuMemHostAlloc(&raw mut start, 64, PORTABLE));
        let memory = HostMemory::of_driver(start, 16);
        step(move |c| {
            let mut flags = 99;
            ask!(c.cuMemHostGetFlags(&raw mut flags, memory.ptr()));
            if c.observes() {
                c.note("flags", flags);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemHostGetFlags, "plain memory has no flags", |c| {
        c.current()?;
        let memory = HostMemory::filled(16, 0);
        let mut flags = 99;
        ask!(c.cuMemHostGetFlags(&raw mut flags, memory.ptr()));
        Ok(())
    }),
    Probe::case(Call::cuMemHostGetFlags, "page-locked memory without flags has some", |c| {
        c.current()?;
        let memory = c.pinned(16)?;
        let mut flags = 99;
        ask!(c.cuMemHostGetFlags(&raw mut flags, memory.ptr()));
        c.note("flags", flags);
        Ok(())
    }),
];
