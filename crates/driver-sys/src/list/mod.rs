//! The list of every driver function, kept by hand; everything else in this crate is generated from it.
//!
//! An entry reads `name kind context capture waits { form version (arguments); … }`. The *name* is the one that
//! CUDA's documentation uses; each *form* is the exact exported C symbol with the CUDA version that brought its
//! signature, newest first. A form that a 12.0 driver already replaced by a newer one isn't listed. The four columns
//! are explained at [`Columns`](crate::Columns) and are what the layers above read instead of remembering.
//!
//! To add a function: write its entry here, run `cargo xtask codegen` (it compares every signature with `cuda.h`), and
//! give it to the simulated driver or leave it *missing* there.
//!
//! The list is a macro that hands its entries to another macro. It stands in three files so that each can be read in
//! one go: this one (driver, devices, contexts, streams, events), `list/memory.rs` and `list/code.rs`.
//!
//! Source: CUDA Driver API 13.x, signatures as declared in `cuda.h`; columns from the readings in the crate `facts`.

mod code;
mod memory;

/// Hands every entry of the list to the macro `$generator`, after `$head`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_driver_function {
    ($generator:path, $head:tt) => { $crate::__driver_functions_memory! { $generator, $head, {
        // Driver, errors, versions
        cuInit Mutate Ignored Neutral No { cuInit 2000 (flags: c_uint); }
        cuDriverGetVersion Query Ignored Neutral No { cuDriverGetVersion 2020 (driver_version: *mut c_int); }
        cuGetErrorName Query Ignored Neutral No { cuGetErrorName 6000 (error: CUresult, p_str: *mut *const c_char); }
        cuGetErrorString Query Ignored Neutral No { cuGetErrorString 6000 (error: CUresult, p_str: *mut *const c_char); }
        cuGetProcAddress Query Ignored Neutral No { cuGetProcAddress_v2 12000 (symbol: *const c_char, pfn: *mut *mut c_void, cuda_version: c_int,
            flags: cuuint64_t, symbol_status: *mut CUdriverProcAddressQueryResult); }
        cuGetExportTable Query Ignored Neutral No { cuGetExportTable 3000 (pp_export_table: *mut *const c_void, p_export_table_id: *const CUuuid); }

        // Logs
        cuLogsRegisterCallback Create Ignored Neutral No { cuLogsRegisterCallback 12090 (callback_func: CUlogsCallback, user_data: *mut c_void,
            callback_out: *mut CUlogsCallbackHandle); }
        cuLogsUnregisterCallback Destroy Ignored Neutral No { cuLogsUnregisterCallback 12090 (callback: CUlogsCallbackHandle); }
        cuLogsCurrent Query Ignored Neutral No { cuLogsCurrent 12090 (iterator_out: *mut CUlogIterator, flags: c_uint); }
        cuLogsDumpToFile Query Ignored Neutral No { cuLogsDumpToFile 12090 (iterator: *mut CUlogIterator, path_to_file: *const c_char, flags: c_uint); }
        cuLogsDumpToMemory Query Ignored Neutral No { cuLogsDumpToMemory 12090 (iterator: *mut CUlogIterator, buffer: *mut c_char, size: *mut usize,
            flags: c_uint); }

        // Devices
        cuDeviceGet Query Ignored Neutral No { cuDeviceGet 2000 (device: *mut CUdevice, ordinal: c_int); }
        cuDeviceGetCount Query Ignored Neutral No { cuDeviceGetCount 2000 (count: *mut c_int); }
        cuDeviceGetName Query Ignored Neutral No { cuDeviceGetName 2000 (name: *mut c_char, len: c_int, dev: CUdevice); }
        cuDeviceGetUuid Query Ignored Neutral No { cuDeviceGetUuid_v2 11040 (uuid: *mut CUuuid, dev: CUdevice); }
        cuDeviceGetLuid Query Ignored Neutral No { cuDeviceGetLuid 10000 (luid: *mut c_char, device_node_mask: *mut c_uint, dev: CUdevice); }
        cuDeviceTotalMem Query Ignored Neutral No { cuDeviceTotalMem_v2 3020 (bytes: *mut usize, dev: CUdevice); }
        cuDeviceGetAttribute Query Ignored Neutral No { cuDeviceGetAttribute 2000 (pi: *mut c_int, attrib: CUdevice_attribute, dev: CUdevice); }
        cuDeviceGetTexture1DLinearMaxWidth Query Ignored Neutral No { cuDeviceGetTexture1DLinearMaxWidth 11010 (max_width_in_elements: *mut usize,
            format: CUarray_format, num_channels: c_uint, dev: CUdevice); }
        cuDeviceGetHostAtomicCapabilities Query Ignored Neutral No { cuDeviceGetHostAtomicCapabilities 13000 (capabilities: *mut c_uint,
            operations: *const CUatomicOperation, count: c_uint, dev: CUdevice); }
        cuDeviceGetExecAffinitySupport Query Ignored Neutral No { cuDeviceGetExecAffinitySupport 11040 (pi: *mut c_int, type_: CUexecAffinityType,
            dev: CUdevice); }
        cuDeviceGetByPCIBusId Query Ignored Neutral No { cuDeviceGetByPCIBusId 4010 (dev: *mut CUdevice, pci_bus_id: *const c_char); }
        cuDeviceGetPCIBusId Query Ignored Neutral No { cuDeviceGetPCIBusId 4010 (pci_bus_id: *mut c_char, len: c_int, dev: CUdevice); }
        cuDeviceSetMemPool Mutate Ignored Unsafe No { cuDeviceSetMemPool 11020 (dev: CUdevice, pool: CUmemoryPool); }
        cuDeviceGetMemPool Query Ignored Neutral No { cuDeviceGetMemPool 11020 (pool: *mut CUmemoryPool, dev: CUdevice); }
        cuDeviceGetDefaultMemPool Query Ignored Neutral No { cuDeviceGetDefaultMemPool 11020 (pool_out: *mut CUmemoryPool, dev: CUdevice); }
        cuDeviceRegisterAsyncNotification Create Ignored Neutral No { cuDeviceRegisterAsyncNotification 12040 (device: CUdevice,
            callback_func: CUasyncCallback, user_data: *mut c_void, callback: *mut CUasyncCallbackHandle); }
        cuDeviceUnregisterAsyncNotification Destroy Ignored Neutral No { cuDeviceUnregisterAsyncNotification 12040 (device: CUdevice,
            callback: CUasyncCallbackHandle); }
        cuFlushGPUDirectRDMAWrites Mutate Owner Neutral No { cuFlushGPUDirectRDMAWrites 11030 (target: CUflushGPUDirectRDMAWritesTarget,
            scope: CUflushGPUDirectRDMAWritesScope); }

        // Primary contexts
        cuDevicePrimaryCtxRetain Create Ignored Neutral No { cuDevicePrimaryCtxRetain 7000 (pctx: *mut CUcontext, dev: CUdevice); }
        cuDevicePrimaryCtxRelease Destroy Ignored Neutral All { cuDevicePrimaryCtxRelease_v2 11000 (dev: CUdevice); }
        cuDevicePrimaryCtxSetFlags Mutate Ignored Neutral No { cuDevicePrimaryCtxSetFlags_v2 11000 (dev: CUdevice, flags: c_uint); }
        cuDevicePrimaryCtxGetState Query Ignored Neutral No { cuDevicePrimaryCtxGetState 7000 (dev: CUdevice, flags: *mut c_uint, active: *mut c_int); }
        cuDevicePrimaryCtxReset Destroy Ignored Neutral All { cuDevicePrimaryCtxReset_v2 11000 (dev: CUdevice); }

        // Contexts
        cuCtxCreate Create Ignored Neutral No {
            cuCtxCreate_v4 12050 (pctx: *mut CUcontext, ctx_create_params: *mut CUctxCreateParams, flags: c_uint, dev: CUdevice);
            cuCtxCreate_v3 11040 (pctx: *mut CUcontext, params_array: *mut CUexecAffinityParam, num_params: c_int, flags: c_uint, dev: CUdevice);
        }
        cuCtxDestroy Destroy Ignored Neutral All { cuCtxDestroy_v2 4000 (ctx: CUcontext); }
        cuCtxPushCurrent Thread Ignored Neutral No { cuCtxPushCurrent_v2 4000 (ctx: CUcontext); }
        cuCtxPopCurrent Thread Ignored Neutral No { cuCtxPopCurrent_v2 4000 (pctx: *mut CUcontext); }
        cuCtxSetCurrent Thread Ignored Neutral No { cuCtxSetCurrent 4000 (ctx: CUcontext); }
        cuCtxGetCurrent Query Ignored Neutral No { cuCtxGetCurrent 4000 (pctx: *mut CUcontext); }
        cuCtxGetDevice Query Owner Neutral No {
            cuCtxGetDevice_v2 13000 (device: *mut CUdevice, ctx: CUcontext);
            cuCtxGetDevice 2000 (device: *mut CUdevice);
        }
        cuCtxGetId Query Ignored Neutral No { cuCtxGetId 12000 (ctx: CUcontext, ctx_id: *mut c_ulonglong); }
        cuCtxGetFlags Query Owner Neutral No { cuCtxGetFlags 7000 (flags: *mut c_uint); }
        cuCtxSetFlags Mutate Owner Neutral No { cuCtxSetFlags 12010 (flags: c_uint); }
        cuCtxGetApiVersion Query Ignored Neutral No { cuCtxGetApiVersion 3020 (ctx: CUcontext, version: *mut c_uint); }
        cuCtxSynchronize Query Owner Neutral Context {
            cuCtxSynchronize_v2 13000 (ctx: CUcontext);
            cuCtxSynchronize 2000 ();
        }
        cuCtxSetLimit Mutate Owner Unsafe No { cuCtxSetLimit 3010 (limit: CUlimit, value: usize); }
        cuCtxGetLimit Query Owner Neutral No { cuCtxGetLimit 3010 (pvalue: *mut usize, limit: CUlimit); }
        cuCtxGetCacheConfig Query Owner Neutral No { cuCtxGetCacheConfig 3020 (pconfig: *mut CUfunc_cache); }
        cuCtxSetCacheConfig Mutate Owner Unsafe No { cuCtxSetCacheConfig 3020 (config: CUfunc_cache); }
        cuCtxGetStreamPriorityRange Query Owner Neutral No { cuCtxGetStreamPriorityRange 5050 (least_priority: *mut c_int,
            greatest_priority: *mut c_int); }
        cuCtxResetPersistingL2Cache Mutate Owner Neutral No { cuCtxResetPersistingL2Cache 11000 (); }
        cuCtxGetExecAffinity Query Owner Neutral No { cuCtxGetExecAffinity 11040 (p_exec_affinity: *mut CUexecAffinityParam, type_: CUexecAffinityType); }
        cuCtxRecordEvent Enqueue Ignored Neutral No { cuCtxRecordEvent 12050 (h_ctx: CUcontext, h_event: CUevent); }
        cuCtxWaitEvent Enqueue Ignored Neutral No { cuCtxWaitEvent 12050 (h_ctx: CUcontext, h_event: CUevent); }
        cuThreadExchangeStreamCaptureMode Thread Ignored Neutral No { cuThreadExchangeStreamCaptureMode 10010 (mode: *mut CUstreamCaptureMode); }

        // Green contexts
        cuDeviceGetDevResource Query Ignored Neutral No { cuDeviceGetDevResource 12040 (device: CUdevice, resource: *mut CUdevResource,
            type_: CUdevResourceType); }
        cuCtxGetDevResource Query Ignored Neutral No { cuCtxGetDevResource 12040 (h_ctx: CUcontext, resource: *mut CUdevResource,
            type_: CUdevResourceType); }
        cuGreenCtxGetDevResource Query Ignored Neutral No { cuGreenCtxGetDevResource 12040 (h_ctx: CUgreenCtx, resource: *mut CUdevResource,
            type_: CUdevResourceType); }
        cuStreamGetDevResource Query Ignored Neutral No { cuStreamGetDevResource 13010 (h_stream: CUstream, resource: *mut CUdevResource,
            type_: CUdevResourceType); }
        cuDevSmResourceSplitByCount Query Ignored Neutral No { cuDevSmResourceSplitByCount 12040 (result: *mut CUdevResource, nb_groups: *mut c_uint,
            input: *const CUdevResource, remainder: *mut CUdevResource, flags: c_uint, min_count: c_uint); }
        cuDevSmResourceSplit Query Ignored Neutral No { cuDevSmResourceSplit 13010 (result: *mut CUdevResource, nb_groups: c_uint,
            input: *const CUdevResource, remainder: *mut CUdevResource, flags: c_uint, group_params: *mut CU_DEV_SM_RESOURCE_GROUP_PARAMS); }
        cuDevResourceGenerateDesc Create Ignored Neutral No { cuDevResourceGenerateDesc 12040 (ph_desc: *mut CUdevResourceDesc,
            resources: *mut CUdevResource, nb_resources: c_uint); }
        cuGreenCtxCreate Create Ignored Neutral No { cuGreenCtxCreate 12040 (ph_ctx: *mut CUgreenCtx, desc: CUdevResourceDesc, dev: CUdevice,
            flags: c_uint); }
        cuGreenCtxDestroy Destroy Ignored Neutral No { cuGreenCtxDestroy 12040 (h_ctx: CUgreenCtx); }
        cuGreenCtxGetId Query Ignored Neutral No { cuGreenCtxGetId 12090 (green_ctx: CUgreenCtx, green_ctx_id: *mut c_ulonglong); }
        cuGreenCtxStreamCreate Create Ignored Neutral No { cuGreenCtxStreamCreate 12050 (ph_stream: *mut CUstream, green_ctx: CUgreenCtx, flags: c_uint,
            priority: c_int); }
        cuGreenCtxRecordEvent Enqueue Ignored Neutral No { cuGreenCtxRecordEvent 12040 (h_ctx: CUgreenCtx, h_event: CUevent); }
        cuGreenCtxWaitEvent Enqueue Ignored Neutral No { cuGreenCtxWaitEvent 12040 (h_ctx: CUgreenCtx, h_event: CUevent); }
        cuCtxFromGreenCtx Query Ignored Neutral No { cuCtxFromGreenCtx 12040 (p_context: *mut CUcontext, h_ctx: CUgreenCtx); }
        cuStreamGetGreenCtx Query Ignored Neutral No { cuStreamGetGreenCtx 12040 (h_stream: CUstream, ph_ctx: *mut CUgreenCtx); }

        // Streams
        cuStreamCreate Create Owner Neutral No { cuStreamCreate 2000 (ph_stream: *mut CUstream, flags: c_uint); }
        cuStreamCreateWithPriority Create Owner Neutral No { cuStreamCreateWithPriority 5050 (ph_stream: *mut CUstream, flags: c_uint, priority: c_int); }
        cuStreamDestroy Destroy Ignored Neutral No { cuStreamDestroy_v2 4000 (h_stream: CUstream); }
        cuStreamQuery Query Ignored Unsafe No { cuStreamQuery 2000 (h_stream: CUstream); }
        cuStreamSynchronize Query Ignored Unsafe Object { cuStreamSynchronize 2000 (h_stream: CUstream); }
        cuStreamWaitEvent Enqueue Ignored Neutral No { cuStreamWaitEvent 3020 (h_stream: CUstream, h_event: CUevent, flags: c_uint); }
        cuStreamGetId Query Ignored Neutral No { cuStreamGetId 12000 (h_stream: CUstream, stream_id: *mut c_ulonglong); }
        cuStreamGetPriority Query Ignored Neutral No { cuStreamGetPriority 5050 (h_stream: CUstream, priority: *mut c_int); }
        cuStreamGetFlags Query Ignored Neutral No { cuStreamGetFlags 5050 (h_stream: CUstream, flags: *mut c_uint); }
        cuStreamGetCtx Query Ignored Neutral No {
            cuStreamGetCtx_v2 12050 (h_stream: CUstream, p_ctx: *mut CUcontext, p_green_ctx: *mut CUgreenCtx);
            cuStreamGetCtx 9020 (h_stream: CUstream, pctx: *mut CUcontext);
        }
        cuStreamGetDevice Query Ignored Neutral No { cuStreamGetDevice 12080 (h_stream: CUstream, device: *mut CUdevice); }
        cuStreamCopyAttributes Mutate Ignored Neutral No { cuStreamCopyAttributes 11000 (dst_stream: CUstream, src_stream: CUstream); }
        cuStreamGetAttribute Query Ignored Neutral No { cuStreamGetAttribute 11000 (h_stream: CUstream, attr: CUstreamAttrID,
            value: *mut CUstreamAttrValue); }
        cuStreamSetAttribute Mutate Ignored Neutral No { cuStreamSetAttribute 11000 (h_stream: CUstream, attr: CUstreamAttrID,
            param: *const CUstreamAttrValue); }
        cuStreamAttachMemAsync Enqueue Ignored Unsafe No { cuStreamAttachMemAsync 6000 (h_stream: CUstream, dptr: CUdeviceptr, length: usize,
            flags: c_uint); }
        cuStreamAddCallback Enqueue Ignored Neutral No { cuStreamAddCallback 5000 (h_stream: CUstream, callback: CUstreamCallback, user_data: *mut c_void,
            flags: c_uint); }
        cuLaunchHostFunc Enqueue Ignored Neutral No {
            cuLaunchHostFunc_v2 13010 (h_stream: CUstream, func: CUhostFn, user_data: *mut c_void, sync_mode: c_uint);
            cuLaunchHostFunc 10000 (h_stream: CUstream, func: CUhostFn, user_data: *mut c_void);
        }
        cuStreamWriteValue32 Enqueue Ignored Neutral No { cuStreamWriteValue32_v2 11070 (stream: CUstream, addr: CUdeviceptr, value: cuuint32_t,
            flags: c_uint); }
        cuStreamWaitValue32 Enqueue Ignored Neutral No { cuStreamWaitValue32_v2 11070 (stream: CUstream, addr: CUdeviceptr, value: cuuint32_t,
            flags: c_uint); }
        cuStreamWriteValue64 Enqueue Ignored Neutral No { cuStreamWriteValue64_v2 11070 (stream: CUstream, addr: CUdeviceptr, value: cuuint64_t,
            flags: c_uint); }
        cuStreamWaitValue64 Enqueue Ignored Neutral No { cuStreamWaitValue64_v2 11070 (stream: CUstream, addr: CUdeviceptr, value: cuuint64_t,
            flags: c_uint); }
        cuStreamBatchMemOp Enqueue Ignored Neutral No { cuStreamBatchMemOp_v2 11070 (stream: CUstream, count: c_uint,
            param_array: *mut CUstreamBatchMemOpParams, flags: c_uint); }

        // Capture
        cuStreamBeginCapture Mutate Ignored Neutral No { cuStreamBeginCapture_v2 10010 (h_stream: CUstream, mode: CUstreamCaptureMode); }
        cuStreamBeginCaptureToGraph Mutate Ignored Neutral No { cuStreamBeginCaptureToGraph 12030 (h_stream: CUstream, h_graph: CUgraph,
            dependencies: *const CUgraphNode, dependency_data: *const CUgraphEdgeData, num_dependencies: usize, mode: CUstreamCaptureMode); }
        cuStreamBeginRecaptureToGraph Mutate Ignored Neutral No { cuStreamBeginRecaptureToGraph 13030 (h_stream: CUstream, mode: CUstreamCaptureMode,
            h_graph: CUgraph, callback_func: CUgraphRecaptureCallback, user_data: *mut c_void); }
        cuStreamEndCapture Create Ignored Neutral No { cuStreamEndCapture 10000 (h_stream: CUstream, ph_graph: *mut CUgraph); }
        cuStreamIsCapturing Query Ignored Neutral No { cuStreamIsCapturing 10000 (h_stream: CUstream, capture_status: *mut CUstreamCaptureStatus); }
        cuStreamGetCaptureInfo Query Ignored Neutral No {
            cuStreamGetCaptureInfo_v3 12030 (h_stream: CUstream, capture_status_out: *mut CUstreamCaptureStatus, id_out: *mut cuuint64_t,
                graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode, edge_data_out: *mut *const CUgraphEdgeData,
                num_dependencies_out: *mut usize);
            cuStreamGetCaptureInfo_v2 11030 (h_stream: CUstream, capture_status_out: *mut CUstreamCaptureStatus, id_out: *mut cuuint64_t,
                graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode, num_dependencies_out: *mut usize);
        }
        cuStreamUpdateCaptureDependencies Mutate Ignored Neutral No {
            cuStreamUpdateCaptureDependencies_v2 12030 (h_stream: CUstream, dependencies: *mut CUgraphNode, dependency_data: *const CUgraphEdgeData,
                num_dependencies: usize, flags: c_uint);
            cuStreamUpdateCaptureDependencies 11030 (h_stream: CUstream, dependencies: *mut CUgraphNode, num_dependencies: usize, flags: c_uint);
        }

        // Events
        cuEventCreate Create Owner Neutral No { cuEventCreate 2000 (ph_event: *mut CUevent, flags: c_uint); }
        cuEventDestroy Destroy Ignored Neutral No { cuEventDestroy_v2 4000 (h_event: CUevent); }
        cuEventRecord Enqueue Ignored Neutral No { cuEventRecord 2000 (h_event: CUevent, h_stream: CUstream); }
        cuEventRecordWithFlags Enqueue Ignored Neutral No { cuEventRecordWithFlags 11010 (h_event: CUevent, h_stream: CUstream, flags: c_uint); }
        cuEventQuery Query Ignored Unsafe No { cuEventQuery 2000 (h_event: CUevent); }
        cuEventSynchronize Query Ignored Unsafe Object { cuEventSynchronize 2000 (h_event: CUevent); }
        cuEventElapsedTime Query Ignored Neutral No {
            cuEventElapsedTime_v2 12080 (p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent);
            cuEventElapsedTime 2000 (p_milliseconds: *mut f32, h_start: CUevent, h_end: CUevent);
        }
        cuIpcGetEventHandle Query Owner Neutral No { cuIpcGetEventHandle 4010 (p_handle: *mut CUipcEventHandle, event: CUevent); }
        cuIpcOpenEventHandle Create Owner Neutral No { cuIpcOpenEventHandle 4010 (ph_event: *mut CUevent, handle: CUipcEventHandle); }
    } } };
}
