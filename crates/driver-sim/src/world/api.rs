//! Which driver function is which topic function. What isn't listed here answers *missing*.
//!
//! To simulate one more function: write it in its topic file and add its line here, or in `api_graph.rs` if it is one of
//! graphs, with C's arguments in C's order.

#![expect(unsafe_code, reason = "the methods are C functions")]

use cuhold_driver_sys::{Call, DriverApi, Life, ffi::*};

use super::{Argument, World, api_graph::with_graphs};
use crate::{
    array, capture, code, context, device, driver, event, external, graph, green, log, memory,
    stream, texture,
};

macro_rules! simulated {
    ($($topic:ident $(:: $part:ident)+ = $call:ident ($($argument:ident : $type:ty),* $(,)?);)*) => {
        /// The functions that are simulated.
        pub(crate) const SIMULATED: &[Call] = &[$(Call::$call),*];

        // SAFETY: *written*: topic functions write every out-parameter that isn't null before they answer success.
        // *No unwinding*: they don't panic, and code of the caller that may is run by `run.rs`, which catches. *Any
        // thread*: `enter` takes the lock.
        #[allow(non_snake_case, clippy::too_many_arguments, clippy::allow_attributes, reason = "C's names and signatures")]
        unsafe impl DriverApi for World {
            fn life(&self) -> Life {
                Self::life(self)
            }

            fn denied(&self, call: Call) {
                self.deny(call);
            }

            $(
                unsafe fn $call(&self, $($argument: $type),*) -> CUresult {
                    $(
                        // SAFETY: *pointers*: the caller's promise, for as long as this call lasts.
                        let $argument = unsafe { Argument::give($argument) };
                    )*
                    self.enter(Call::$call, |turn| $topic$(::$part)+(turn, $($argument),*))
                }
            )*
        }
    };
}

with_graphs! { simulated {
    // Driver
    driver::init = cuInit(flags: c_uint);
    driver::version = cuDriverGetVersion(driver_version: *mut c_int);
    driver::error_name = cuGetErrorName(error: CUresult, p_str: *mut *const c_char);
    driver::error_string = cuGetErrorString(error: CUresult, p_str: *mut *const c_char);
    driver::proc_address = cuGetProcAddress_v2(symbol: *const c_char, pfn: *mut *mut c_void, cuda_version: c_int,
        flags: cuuint64_t, symbol_status: *mut CUdriverProcAddressQueryResult);

    // Log
    log::register = cuLogsRegisterCallback(function: CUlogsCallback, data: *mut c_void,
        out: *mut CUlogsCallbackHandle);
    log::unregister = cuLogsUnregisterCallback(handle: CUlogsCallbackHandle);
    log::current = cuLogsCurrent(iterator_out: *mut CUlogIterator, flags: c_uint);
    log::dump_to_file = cuLogsDumpToFile(iterator: *mut CUlogIterator, path: *const c_char, flags: c_uint);
    log::dump_to_memory = cuLogsDumpToMemory(iterator: *mut CUlogIterator, buffer: *mut c_char, size: *mut usize,
        flags: c_uint);

    // Devices
    device::count = cuDeviceGetCount(count: *mut c_int);
    device::get = cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    device::name = cuDeviceGetName(name: *mut c_char, len: c_int, dev: CUdevice);
    device::uuid = cuDeviceGetUuid_v2(uuid: *mut CUuuid, dev: CUdevice);
    device::luid = cuDeviceGetLuid(luid: *mut c_char, mask: *mut c_uint, dev: CUdevice);
    device::total_memory = cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice);
    device::attribute = cuDeviceGetAttribute(pi: *mut c_int, attrib: CUdevice_attribute, dev: CUdevice);
    device::linear_texture_width = cuDeviceGetTexture1DLinearMaxWidth(width: *mut usize, format: CUarray_format,
        channels: c_uint, dev: CUdevice);
    device::host_atomics = cuDeviceGetHostAtomicCapabilities(capabilities: *mut c_uint,
        operations: *const CUatomicOperation, count: c_uint, dev: CUdevice);
    device::exec_affinity_support = cuDeviceGetExecAffinitySupport(pi: *mut c_int, kind: CUexecAffinityType,
        dev: CUdevice);
    device::by_pci_bus_id = cuDeviceGetByPCIBusId(dev: *mut CUdevice, id: *const c_char);
    device::pci_bus_id = cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, dev: CUdevice);
    device::can_access_peer = cuDeviceCanAccessPeer(can: *mut c_int, dev: CUdevice, peer_dev: CUdevice);
    device::p2p_attribute = cuDeviceGetP2PAttribute(value: *mut c_int, attrib: CUdevice_P2PAttribute,
        src: CUdevice, dst: CUdevice);

    // Primary contexts
    context::primary_retain = cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice);
    context::primary_release = cuDevicePrimaryCtxRelease_v2(dev: CUdevice);
    context::primary_set_flags = cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: c_uint);
    context::primary_state = cuDevicePrimaryCtxGetState(dev: CUdevice, flags: *mut c_uint, active: *mut c_int);
    context::primary_reset = cuDevicePrimaryCtxReset_v2(dev: CUdevice);

    // Contexts
    context::create_v4 = cuCtxCreate_v4(pctx: *mut CUcontext, params: *mut CUctxCreateParams, flags: c_uint,
        dev: CUdevice);
    context::create_v3 = cuCtxCreate_v3(pctx: *mut CUcontext, params: *mut CUexecAffinityParam, count: c_int,
        flags: c_uint, dev: CUdevice);
    context::destroy = cuCtxDestroy_v2(ctx: CUcontext);
    context::push = cuCtxPushCurrent_v2(ctx: CUcontext);
    context::pop = cuCtxPopCurrent_v2(pctx: *mut CUcontext);
    context::set_current = cuCtxSetCurrent(ctx: CUcontext);
    context::get_current = cuCtxGetCurrent(pctx: *mut CUcontext);
    context::device_v2 = cuCtxGetDevice_v2(device: *mut CUdevice, ctx: CUcontext);
    context::device = cuCtxGetDevice(device: *mut CUdevice);
    context::id = cuCtxGetId(ctx: CUcontext, id: *mut c_ulonglong);
    context::flags = cuCtxGetFlags(flags: *mut c_uint);
    context::set_flags = cuCtxSetFlags(flags: c_uint);
    context::api_version = cuCtxGetApiVersion(ctx: CUcontext, version: *mut c_uint);
    context::synchronize_v2 = cuCtxSynchronize_v2(ctx: CUcontext);
    context::synchronize = cuCtxSynchronize();
    context::set_limit = cuCtxSetLimit(limit: CUlimit, value: usize);
    context::limit = cuCtxGetLimit(value: *mut usize, limit: CUlimit);
    context::cache_config = cuCtxGetCacheConfig(config: *mut CUfunc_cache);
    context::set_cache_config = cuCtxSetCacheConfig(config: CUfunc_cache);
    context::priority_range = cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    context::reset_persisting_l2 = cuCtxResetPersistingL2Cache();
    context::exec_affinity = cuCtxGetExecAffinity(affinity: *mut CUexecAffinityParam, kind: CUexecAffinityType);
    context::record_event = cuCtxRecordEvent(ctx: CUcontext, event: CUevent);
    context::wait_event = cuCtxWaitEvent(ctx: CUcontext, event: CUevent);
    context::enable_peer = cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint);
    context::disable_peer = cuCtxDisablePeerAccess(peer: CUcontext);

    // Green contexts
    green::device_resource = cuDeviceGetDevResource(dev: CUdevice, resource: *mut CUdevResource,
        kind: CUdevResourceType);
    green::context_resource = cuCtxGetDevResource(ctx: CUcontext, resource: *mut CUdevResource,
        kind: CUdevResourceType);
    green::green_resource = cuGreenCtxGetDevResource(green: CUgreenCtx, resource: *mut CUdevResource,
        kind: CUdevResourceType);
    green::split_by_count = cuDevSmResourceSplitByCount(result: *mut CUdevResource, groups: *mut c_uint,
        input: *const CUdevResource, rest: *mut CUdevResource, flags: c_uint, least: c_uint);
    green::generate_desc = cuDevResourceGenerateDesc(out: *mut CUdevResourceDesc, resources: *mut CUdevResource,
        count: c_uint);
    green::create = cuGreenCtxCreate(out: *mut CUgreenCtx, desc: CUdevResourceDesc, dev: CUdevice, flags: c_uint);
    green::destroy = cuGreenCtxDestroy(green: CUgreenCtx);
    green::id = cuGreenCtxGetId(green: CUgreenCtx, id: *mut c_ulonglong);
    green::stream_create = cuGreenCtxStreamCreate(out: *mut CUstream, green: CUgreenCtx, flags: c_uint,
        priority: c_int);
    green::record_event = cuGreenCtxRecordEvent(green: CUgreenCtx, event: CUevent);
    green::wait_event = cuGreenCtxWaitEvent(green: CUgreenCtx, event: CUevent);
    green::view = cuCtxFromGreenCtx(out: *mut CUcontext, green: CUgreenCtx);
    green::of_stream = cuStreamGetGreenCtx(stream: CUstream, out: *mut CUgreenCtx);

    // Streams
    stream::create = cuStreamCreate(out: *mut CUstream, flags: c_uint);
    stream::create_with_priority = cuStreamCreateWithPriority(out: *mut CUstream, flags: c_uint, priority: c_int);
    stream::destroy = cuStreamDestroy_v2(stream: CUstream);
    stream::query = cuStreamQuery(stream: CUstream);
    stream::synchronize = cuStreamSynchronize(stream: CUstream);
    event::stream_wait = cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    stream::id = cuStreamGetId(stream: CUstream, id: *mut c_ulonglong);
    stream::priority = cuStreamGetPriority(stream: CUstream, priority: *mut c_int);
    stream::flags = cuStreamGetFlags(stream: CUstream, flags: *mut c_uint);
    stream::context_v2 = cuStreamGetCtx_v2(stream: CUstream, pctx: *mut CUcontext, green: *mut CUgreenCtx);
    stream::context = cuStreamGetCtx(stream: CUstream, pctx: *mut CUcontext);
    stream::device = cuStreamGetDevice(stream: CUstream, device: *mut CUdevice);
    stream::copy_attributes = cuStreamCopyAttributes(to: CUstream, from: CUstream);
    stream::get_attribute = cuStreamGetAttribute(stream: CUstream, attr: CUstreamAttrID,
        value: *mut CUstreamAttrValue);
    stream::set_attribute = cuStreamSetAttribute(stream: CUstream, attr: CUstreamAttrID,
        value: *const CUstreamAttrValue);
    stream::add_callback = cuStreamAddCallback(stream: CUstream, function: CUstreamCallback, data: *mut c_void,
        flags: c_uint);
    stream::launch_host_v2 = cuLaunchHostFunc_v2(stream: CUstream, function: CUhostFn, data: *mut c_void,
        sync_mode: c_uint);
    stream::launch_host = cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void);

    // Values in memory
    memory::write_32 = cuStreamWriteValue32_v2(stream: CUstream, address: CUdeviceptr, value: cuuint32_t,
        flags: c_uint);
    memory::wait_32 = cuStreamWaitValue32_v2(stream: CUstream, address: CUdeviceptr, value: cuuint32_t,
        flags: c_uint);
    memory::write_64 = cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: cuuint64_t,
        flags: c_uint);
    memory::wait_64 = cuStreamWaitValue64_v2(stream: CUstream, address: CUdeviceptr, value: cuuint64_t,
        flags: c_uint);
    memory::batch = cuStreamBatchMemOp_v2(stream: CUstream, count: c_uint,
        operations: *mut CUstreamBatchMemOpParams, flags: c_uint);

    // Capture
    capture::exchange_mode = cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode);
    capture::begin = cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
    capture::begin_to_graph = cuStreamBeginCaptureToGraph(stream: CUstream, graph: CUgraph,
        dependencies: *const CUgraphNode, edges: *const CUgraphEdgeData, count: usize, mode: CUstreamCaptureMode);
    capture::end = cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    capture::is_capturing = cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus);
    capture::info_v3 = cuStreamGetCaptureInfo_v3(stream: CUstream, status: *mut CUstreamCaptureStatus,
        id: *mut cuuint64_t, graph: *mut CUgraph, dependencies: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData, count: *mut usize);
    capture::info_v2 = cuStreamGetCaptureInfo_v2(stream: CUstream, status: *mut CUstreamCaptureStatus,
        id: *mut cuuint64_t, graph: *mut CUgraph, dependencies: *mut *const CUgraphNode, count: *mut usize);
    capture::update_v2 = cuStreamUpdateCaptureDependencies_v2(stream: CUstream, dependencies: *mut CUgraphNode,
        edges: *const CUgraphEdgeData, count: usize, flags: c_uint);
    capture::update = cuStreamUpdateCaptureDependencies(stream: CUstream, dependencies: *mut CUgraphNode,
        count: usize, flags: c_uint);

    // Events
    event::create = cuEventCreate(out: *mut CUevent, flags: c_uint);
    event::destroy = cuEventDestroy_v2(event: CUevent);
    event::record = cuEventRecord(event: CUevent, stream: CUstream);
    event::record_with_flags = cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint);
    event::query = cuEventQuery(event: CUevent);
    event::synchronize = cuEventSynchronize(event: CUevent);
    event::elapsed_time = cuEventElapsedTime_v2(ms: *mut f32, start: CUevent, end: CUevent);
    event::elapsed_time = cuEventElapsedTime(ms: *mut f32, start: CUevent, end: CUevent);
    event::ipc_handle = cuIpcGetEventHandle(handle: *mut CUipcEventHandle, event: CUevent);
    event::open_ipc_handle = cuIpcOpenEventHandle(event: *mut CUevent, handle: CUipcEventHandle);

    // Memory of a context
    memory::info = cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    memory::allocate = cuMemAlloc_v2(out: *mut CUdeviceptr, size: usize);
    memory::allocate_pitch = cuMemAllocPitch_v2(out: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize,
        element: c_uint);
    memory::allocate_managed = cuMemAllocManaged(out: *mut CUdeviceptr, size: usize, flags: c_uint);
    memory::free = cuMemFree_v2(address: CUdeviceptr);
    memory::address_range = cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr);
    memory::allocate_host = cuMemAllocHost_v2(out: *mut *mut c_void, size: usize);
    memory::host_alloc = cuMemHostAlloc(out: *mut *mut c_void, size: usize, flags: c_uint);
    memory::free_host = cuMemFreeHost(pointer: *mut c_void);
    memory::register = cuMemHostRegister_v2(pointer: *mut c_void, size: usize, flags: c_uint);
    memory::unregister = cuMemHostUnregister(pointer: *mut c_void);
    memory::device_pointer = cuMemHostGetDevicePointer_v2(out: *mut CUdeviceptr, pointer: *mut c_void,
        flags: c_uint);
    memory::host_flags = cuMemHostGetFlags(flags: *mut c_uint, pointer: *mut c_void);
    memory::attribute = cuPointerGetAttribute(data: *mut c_void, attribute: CUpointer_attribute,
        address: CUdeviceptr);
    memory::attributes = cuPointerGetAttributes(count: c_uint, attributes: *mut CUpointer_attribute,
        data: *mut *mut c_void, address: CUdeviceptr);
    memory::ipc_handle = cuIpcGetMemHandle(out: *mut CUipcMemHandle, address: CUdeviceptr);
    memory::ipc_open = cuIpcOpenMemHandle_v2(out: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint);
    memory::ipc_close = cuIpcCloseMemHandle(address: CUdeviceptr);
    memory::set_attribute = cuPointerSetAttribute(value: *const c_void, attribute: CUpointer_attribute,
        address: CUdeviceptr);

    // Pools and stream-ordered memory
    memory::device_set_pool = cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool);
    memory::device_pool = cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice);
    memory::device_default_pool = cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, dev: CUdevice);
    memory::allocate_async = cuMemAllocAsync(out: *mut CUdeviceptr, size: usize, stream: CUstream);
    memory::allocate_from_pool = cuMemAllocFromPoolAsync(out: *mut CUdeviceptr, size: usize, pool: CUmemoryPool,
        stream: CUstream);
    memory::free_async = cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
    memory::pool_create = cuMemPoolCreate(out: *mut CUmemoryPool, properties: *const CUmemPoolProps);
    memory::pool_destroy = cuMemPoolDestroy(pool: CUmemoryPool);
    memory::pool_export = cuMemPoolExportToShareableHandle(out: *mut c_void, pool: CUmemoryPool,
        kind: CUmemAllocationHandleType, flags: c_ulonglong);
    memory::pool_import = cuMemPoolImportFromShareableHandle(out: *mut CUmemoryPool, file: *mut c_void,
        kind: CUmemAllocationHandleType, flags: c_ulonglong);
    memory::pool_export_pointer = cuMemPoolExportPointer(out: *mut CUmemPoolPtrExportData, address: CUdeviceptr);
    memory::pool_import_pointer = cuMemPoolImportPointer(out: *mut CUdeviceptr, pool: CUmemoryPool,
        data: *mut CUmemPoolPtrExportData);
    memory::pool_trim = cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize);
    memory::pool_set_attribute = cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute,
        value: *mut c_void);
    memory::pool_attribute = cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute,
        value: *mut c_void);
    memory::pool_set_access = cuMemPoolSetAccess(pool: CUmemoryPool, list: *const CUmemAccessDesc, count: usize);
    memory::pool_access = cuMemPoolGetAccess(flags: *mut CUmemAccess_flags, pool: CUmemoryPool,
        location: *mut CUmemLocation);

    memory::location_default_pool = cuMemGetDefaultMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation,
        kind: CUmemAllocationType);
    memory::location_pool = cuMemGetMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation,
        kind: CUmemAllocationType);
    memory::location_set_pool = cuMemSetMemPool(location: *mut CUmemLocation, kind: CUmemAllocationType,
        pool: CUmemoryPool);

    // Managed memory
    memory::advise_v2 = cuMemAdvise_v2(address: CUdeviceptr, count: usize, advice: CUmem_advise,
        location: CUmemLocation);
    memory::advise = cuMemAdvise(address: CUdeviceptr, count: usize, advice: CUmem_advise, dev: CUdevice);
    memory::prefetch_v2 = cuMemPrefetchAsync_v2(address: CUdeviceptr, count: usize, location: CUmemLocation,
        flags: c_uint, stream: CUstream);
    memory::prefetch = cuMemPrefetchAsync(address: CUdeviceptr, count: usize, dev: CUdevice, stream: CUstream);
    memory::prefetch_batch = cuMemPrefetchBatchAsync(addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize,
        locations: *mut CUmemLocation, indices: *mut usize, locations_count: usize, flags: c_ulonglong,
        stream: CUstream);
    memory::discard_batch = cuMemDiscardBatchAsync(addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize,
        flags: c_ulonglong, stream: CUstream);
    memory::discard_and_prefetch_batch = cuMemDiscardAndPrefetchBatchAsync(addresses: *mut CUdeviceptr,
        sizes: *mut usize, count: usize, locations: *mut CUmemLocation, indices: *mut usize, locations_count: usize,
        flags: c_ulonglong, stream: CUstream);
    memory::range_attribute = cuMemRangeGetAttribute(data: *mut c_void, size: usize,
        attribute: CUmem_range_attribute, address: CUdeviceptr, count: usize);
    memory::range_attributes = cuMemRangeGetAttributes(data: *mut *mut c_void, sizes: *mut usize,
        attributes: *mut CUmem_range_attribute, count_of_attributes: usize, address: CUdeviceptr, count: usize);
    memory::attach = cuStreamAttachMemAsync(stream: CUstream, address: CUdeviceptr, size: usize, flags: c_uint);

    // Arrays
    array::create = cuArrayCreate_v2(out: *mut CUarray, desc: *const CUDA_ARRAY_DESCRIPTOR);
    array::create_3d = cuArray3DCreate_v2(out: *mut CUarray, desc: *const CUDA_ARRAY3D_DESCRIPTOR);
    array::destroy = cuArrayDestroy(array: CUarray);
    array::descriptor = cuArrayGetDescriptor_v2(out: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray);
    array::descriptor_3d = cuArray3DGetDescriptor_v2(out: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray);
    array::mipmapped_create = cuMipmappedArrayCreate(out: *mut CUmipmappedArray,
        desc: *const CUDA_ARRAY3D_DESCRIPTOR, levels: c_uint);
    array::mipmapped_destroy = cuMipmappedArrayDestroy(array: CUmipmappedArray);
    array::mipmapped_level = cuMipmappedArrayGetLevel(out: *mut CUarray, array: CUmipmappedArray, level: c_uint);

    // Textures and surfaces
    texture::texture_create = cuTexObjectCreate(out: *mut CUtexObject, resource: *const CUDA_RESOURCE_DESC,
        sampling: *const CUDA_TEXTURE_DESC, view: *const CUDA_RESOURCE_VIEW_DESC);
    texture::texture_destroy = cuTexObjectDestroy(texture: CUtexObject);
    texture::texture_resource = cuTexObjectGetResourceDesc(out: *mut CUDA_RESOURCE_DESC, texture: CUtexObject);
    texture::texture_sampling = cuTexObjectGetTextureDesc(out: *mut CUDA_TEXTURE_DESC, texture: CUtexObject);
    texture::texture_view = cuTexObjectGetResourceViewDesc(out: *mut CUDA_RESOURCE_VIEW_DESC,
        texture: CUtexObject);
    texture::surface_create = cuSurfObjectCreate(out: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC);
    texture::surface_destroy = cuSurfObjectDestroy(surface: CUsurfObject);
    texture::surface_resource = cuSurfObjectGetResourceDesc(out: *mut CUDA_RESOURCE_DESC, surface: CUsurfObject);

    // Other APIs
    external::memory_destroy = cuDestroyExternalMemory(memory: CUexternalMemory);
    external::memory_buffer = cuExternalMemoryGetMappedBuffer(out: *mut CUdeviceptr, memory: CUexternalMemory,
        desc: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
    external::memory_mipmapped = cuExternalMemoryGetMappedMipmappedArray(out: *mut CUmipmappedArray,
        memory: CUexternalMemory, desc: *const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC);
    external::semaphore_destroy = cuDestroyExternalSemaphore(semaphore: CUexternalSemaphore);
    external::semaphores_signal = cuSignalExternalSemaphoresAsync(semaphores: *const CUexternalSemaphore,
        params: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, count: c_uint, stream: CUstream);
    external::semaphores_wait = cuWaitExternalSemaphoresAsync(semaphores: *const CUexternalSemaphore,
        params: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, count: c_uint, stream: CUstream);
    external::graphics_unregister = cuGraphicsUnregisterResource(resource: CUgraphicsResource);
    external::graphics_map = cuGraphicsMapResources(count: c_uint, resources: *mut CUgraphicsResource,
        stream: CUstream);
    external::graphics_unmap = cuGraphicsUnmapResources(count: c_uint, resources: *mut CUgraphicsResource,
        stream: CUstream);
    external::graphics_pointer = cuGraphicsResourceGetMappedPointer_v2(out: *mut CUdeviceptr, size: *mut usize,
        resource: CUgraphicsResource);
    external::graphics_array = cuGraphicsSubResourceGetMappedArray(out: *mut CUarray, resource: CUgraphicsResource,
        index: c_uint, level: c_uint);

    // Copies and fills
    // Virtual memory
    memory::reserve = cuMemAddressReserve(out: *mut CUdeviceptr, size: usize, alignment: usize, hint: CUdeviceptr,
        flags: c_ulonglong);
    memory::reservation_free = cuMemAddressFree(start: CUdeviceptr, size: usize);
    memory::physical_create = cuMemCreate(out: *mut CUmemGenericAllocationHandle, size: usize,
        properties: *const CUmemAllocationProp, flags: c_ulonglong);
    memory::physical_release = cuMemRelease(handle: CUmemGenericAllocationHandle);
    memory::map = cuMemMap(start: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle,
        flags: c_ulonglong);
    memory::unmap = cuMemUnmap(start: CUdeviceptr, size: usize);
    memory::set_access = cuMemSetAccess(start: CUdeviceptr, size: usize, list: *const CUmemAccessDesc, count: usize);
    memory::access = cuMemGetAccess(flags: *mut c_ulonglong, location: *const CUmemLocation, address: CUdeviceptr);
    memory::physical_export = cuMemExportToShareableHandle(out: *mut c_void, handle: CUmemGenericAllocationHandle,
        kind: CUmemAllocationHandleType, flags: c_ulonglong);
    memory::physical_import = cuMemImportFromShareableHandle(out: *mut CUmemGenericAllocationHandle, file: *mut c_void,
        kind: CUmemAllocationHandleType);
    memory::granularity = cuMemGetAllocationGranularity(out: *mut usize, properties: *const CUmemAllocationProp,
        option: CUmemAllocationGranularity_flags);
    memory::physical_properties = cuMemGetAllocationPropertiesFromHandle(out: *mut CUmemAllocationProp,
        handle: CUmemGenericAllocationHandle);
    memory::physical_retain = cuMemRetainAllocationHandle(out: *mut CUmemGenericAllocationHandle, address: *mut c_void);

    // Copies
    memory::copy = cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, count: usize);
    memory::host_to_device = cuMemcpyHtoD_v2(dst: CUdeviceptr, src: *const c_void, count: usize);
    memory::device_to_host = cuMemcpyDtoH_v2(dst: *mut c_void, src: CUdeviceptr, count: usize);
    memory::device_to_device = cuMemcpyDtoD_v2(dst: CUdeviceptr, src: CUdeviceptr, count: usize);
    memory::copy_async = cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, count: usize, stream: CUstream);
    memory::host_to_device_async = cuMemcpyHtoDAsync_v2(dst: CUdeviceptr, src: *const c_void, count: usize,
        stream: CUstream);
    memory::device_to_host_async = cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: CUdeviceptr, count: usize,
        stream: CUstream);
    memory::device_to_device_async = cuMemcpyDtoDAsync_v2(dst: CUdeviceptr, src: CUdeviceptr, count: usize,
        stream: CUstream);
    memory::copy_peer_async = cuMemcpyPeerAsync(dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr,
        src_context: CUcontext, count: usize, stream: CUstream);
    memory::copy_2d_async = cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream);
    memory::copy_3d_async = cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D, stream: CUstream);
    memory::copy_3d_peer_async = cuMemcpy3DPeerAsync(copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream);
    memory::host_to_array = cuMemcpyHtoAAsync_v2(array: CUarray, offset: usize, src: *const c_void, count: usize,
        stream: CUstream);
    memory::array_to_host = cuMemcpyAtoHAsync_v2(dst: *mut c_void, array: CUarray, offset: usize, count: usize,
        stream: CUstream);
    memory::copy_batch_v2 = cuMemcpyBatchAsync_v2(dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize,
        count: usize, attributes: *mut CUmemcpyAttributes, indices: *mut usize, attributes_count: usize,
        stream: CUstream);
    memory::copy_batch = cuMemcpyBatchAsync(dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize,
        count: usize, attributes: *mut CUmemcpyAttributes, indices: *mut usize, attributes_count: usize,
        fail_index: *mut usize, stream: CUstream);
    memory::copy_with_attributes = cuMemcpyWithAttributesAsync(dst: CUdeviceptr, src: CUdeviceptr, count: usize,
        attributes: *mut CUmemcpyAttributes, stream: CUstream);
    memory::fill_d8 = cuMemsetD8_v2(dst: CUdeviceptr, value: c_uchar, count: usize);
    memory::fill_d32 = cuMemsetD32_v2(dst: CUdeviceptr, value: c_uint, count: usize);
    memory::fill_async_d8 = cuMemsetD8Async(dst: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream);
    memory::fill_async_d16 = cuMemsetD16Async(dst: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream);
    memory::fill_async_d32 = cuMemsetD32Async(dst: CUdeviceptr, value: c_uint, count: usize, stream: CUstream);
    memory::fill_2d_d8 = cuMemsetD2D8Async(dst: CUdeviceptr, pitch: usize, value: c_uchar, width: usize,
        height: usize, stream: CUstream);
    memory::fill_2d_d16 = cuMemsetD2D16Async(dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize,
        height: usize, stream: CUstream);
    memory::fill_2d_d32 = cuMemsetD2D32Async(dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize,
        height: usize, stream: CUstream);

    // Modules and functions
    code::module_load_file = cuModuleLoad(out: *mut CUmodule, path: *const c_char);
    code::module_load = cuModuleLoadData(out: *mut CUmodule, image: *const c_void);
    code::module_load_ex = cuModuleLoadDataEx(out: *mut CUmodule, image: *const c_void, count: c_uint,
        options: *mut CUjit_option, values: *mut *mut c_void);
    code::module_load_fat = cuModuleLoadFatBinary(out: *mut CUmodule, image: *const c_void);
    code::module_unload = cuModuleUnload(module: CUmodule);
    code::module_function = cuModuleGetFunction(out: *mut CUfunction, module: CUmodule, name: *const c_char);
    code::module_global = cuModuleGetGlobal_v2(address: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule,
        name: *const c_char);
    code::module_function_count = cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule);
    code::module_functions = cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule);
    code::module_loading_mode = cuModuleGetLoadingMode(mode: *mut CUmoduleLoadingMode);
    code::function_attribute = cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute,
        function: CUfunction);
    code::function_set_attribute = cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute,
        value: c_int);
    code::function_set_cache_config = cuFuncSetCacheConfig(function: CUfunction, config: CUfunc_cache);
    code::function_module = cuFuncGetModule(module: *mut CUmodule, function: CUfunction);
    code::function_name = cuFuncGetName(name: *mut *const c_char, function: CUfunction);
    code::function_param_info = cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize,
        size: *mut usize);
    code::function_param_count = cuFuncGetParamCount(function: CUfunction, count: *mut usize);
    code::function_is_loaded = cuFuncIsLoaded(state: *mut CUfunctionLoadingState, function: CUfunction);
    code::function_load = cuFuncLoad(function: CUfunction);

    // Libraries and kernels
    code::library_load = cuLibraryLoadData(out: *mut CUlibrary, code: *const c_void, options: *mut CUjit_option,
        values: *mut *mut c_void, count: c_uint, library_options: *mut CUlibraryOption,
        library_values: *mut *mut c_void, library_count: c_uint);
    code::library_load_file = cuLibraryLoadFromFile(out: *mut CUlibrary, path: *const c_char,
        options: *mut CUjit_option, values: *mut *mut c_void, count: c_uint, library_options: *mut CUlibraryOption,
        library_values: *mut *mut c_void, library_count: c_uint);
    code::library_unload = cuLibraryUnload(library: CUlibrary);
    code::library_kernel = cuLibraryGetKernel(out: *mut CUkernel, library: CUlibrary, name: *const c_char);
    code::library_kernel_count = cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary);
    code::library_kernels = cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary);
    code::library_module = cuLibraryGetModule(out: *mut CUmodule, library: CUlibrary);
    code::library_global = cuLibraryGetGlobal(address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary,
        name: *const c_char);
    code::kernel_function = cuKernelGetFunction(out: *mut CUfunction, kernel: CUkernel);
    code::kernel_library = cuKernelGetLibrary(out: *mut CUlibrary, kernel: CUkernel);
    code::kernel_name = cuKernelGetName(name: *mut *const c_char, kernel: CUkernel);
    code::kernel_param_info = cuKernelGetParamInfo(kernel: CUkernel, index: usize, offset: *mut usize,
        size: *mut usize);
    code::kernel_param_count = cuKernelGetParamCount(kernel: CUkernel, count: *mut usize);
    code::kernel_attribute = cuKernelGetAttribute(value: *mut c_int, attribute: CUfunction_attribute,
        kernel: CUkernel, dev: CUdevice);
    code::kernel_set_attribute = cuKernelSetAttribute(attribute: CUfunction_attribute, value: c_int,
        kernel: CUkernel, dev: CUdevice);
    code::kernel_set_cache_config = cuKernelSetCacheConfig(kernel: CUkernel, config: CUfunc_cache, dev: CUdevice);

    // Link
    code::link_create = cuLinkCreate_v2(count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void,
        out: *mut CUlinkState);
    code::link_add_data = cuLinkAddData_v2(state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize,
        name: *const c_char, count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void);
    code::link_add_file = cuLinkAddFile_v2(state: CUlinkState, kind: CUjitInputType, path: *const c_char,
        count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void);
    code::link_complete = cuLinkComplete(state: CUlinkState, cubin: *mut *mut c_void, size: *mut usize);
    code::link_destroy = cuLinkDestroy(state: CUlinkState);

    // Launch and occupancy
    code::launch = cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream,
        params: *mut *mut c_void, extra: *mut *mut c_void);
    code::launch_ex = cuLaunchKernelEx(config: *const CUlaunchConfig, function: CUfunction,
        params: *mut *mut c_void, extra: *mut *mut c_void);
    code::launch_cooperative = cuLaunchCooperativeKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint,
        grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream,
        params: *mut *mut c_void);
    code::max_active_blocks = cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CUfunction,
        block_size: c_int, dynamic_shared: usize);
    code::max_active_blocks_with_flags = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut c_int,
        function: CUfunction, block_size: c_int, dynamic_shared: usize, flags: c_uint);
    code::max_potential_block_size = cuOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int,
        function: CUfunction, shared_of_block: CUoccupancyB2DSize, dynamic_shared: usize, block_limit: c_int);
    code::max_potential_block_size_with_flags = cuOccupancyMaxPotentialBlockSizeWithFlags(grid: *mut c_int,
        block: *mut c_int, function: CUfunction, shared_of_block: CUoccupancyB2DSize, dynamic_shared: usize,
        block_limit: c_int, flags: c_uint);
    code::available_dynamic_shared = cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, function: CUfunction,
        blocks: c_int, block_size: c_int);
} }
