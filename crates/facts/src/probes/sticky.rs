//! What a kernel that fails leaves behind: every later call of every context answers the same.
//!
//! Source: CUDA Driver API 13.x, descriptions of `CUresult`.

use cuhold_driver_sys::{Call, ffi::*};

use crate::probe::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::case(Call::cuStreamSynchronize, "a wrong address is found by the wait", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.fault(stream)?;
        ask!(c.cuStreamSynchronize(stream));
        ask!(c.cuStreamQuery(stream), "query");
        Ok(())
    }),
    Probe::case(Call::cuCtxSetCurrent, "after a fault what is current can still be changed", |c| {
        let context = c.current()?;
        let stream = c.stream()?;
        c.fault(stream)?;
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        let mut current = CUcontext::NULL;
        ask!(c.cuCtxGetCurrent(&raw mut current), "get");
        ask!(c.cuCtxSetCurrent(CUcontext::NULL), "unset");
        ask!(c.cuCtxSetCurrent(context), "set");
        ask!(c.cuCtxPushCurrent_v2(context), "push");
        ask!(c.cuCtxPopCurrent_v2(&raw mut current), "pop");
        Ok(())
    }),
    Probe::case(Call::cuMemFree_v2, "after a fault nothing is freed", |c| {
        c.current()?;
        let (stream, event, pool) = (c.stream()?, c.event()?, c.pool()?);
        let (memory, pooled) = (c.memory(64)?, c.pool_memory(64, pool, stream)?);
        let (module, graph) = (c.module()?, c.graph()?);
        c.fault(stream)?;
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuEventQuery(event), "query");
        ask!(c.cuEventRecord(event, stream), "record");
        ask!(c.cuEventDestroy_v2(event), "event");
        ask!(c.cuMemFreeAsync(pooled, stream), "free_async");
        ask!(c.cuMemFree_v2(memory), "free");
        let mut more = 0;
        ask!(c.cuMemAlloc_v2(&raw mut more, 64), "alloc");
        ask!(c.cuModuleUnload(module), "module");
        ask!(c.cuGraphDestroy(graph), "graph");
        ask!(c.cuStreamDestroy_v2(stream), "stream");
        ask!(c.cuStreamDestroy_v2(stream), "stream_again");
        Ok(())
    }),
    Probe::case(Call::cuMemAlloc_v2, "a fault of one context is every context's", |c| {
        let other = c.context_aside()?;
        c.current()?;
        let stream = c.stream()?;
        c.fault(stream)?;
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuCtxSetCurrent(other), "set");
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
        ask!(c.cuCtxDestroy_v2(other), "destroy");
        Ok(())
    }),
    Probe::case(Call::cuDevicePrimaryCtxRetain, "after a fault no context is made", |c| {
        c.current()?;
        let device = c.device()?;
        let stream = c.stream()?;
        c.fault(stream)?;
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuDevicePrimaryCtxRelease_v2(device), "release");
        let mut context = CUcontext::NULL;
        ask!(c.cuDevicePrimaryCtxRetain(&raw mut context, device), "retain");
        ask!(c.cuCtxCreate_v4(&raw mut context, core::ptr::null_mut(), 0, device), "create");
        let mut processors = 0;
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE;
        ask!(c.cuDeviceGetAttribute(&raw mut processors, attribute, device), "attribute");
        Ok(())
    }),
    Probe::case(Call::cuLaunchKernel, "a trap is a failed launch", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"trap")?, c.stream()?);
        c.launch(function, stream)?;
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        let mut memory = 0;
        ask!(c.cuMemAlloc_v2(&raw mut memory, 64), "alloc");
        Ok(())
    }),
];
