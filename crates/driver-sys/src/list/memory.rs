//! The middle of the list: memory in all its kinds, copies, arrays, textures, graphics, external memory.

/// Adds its entries to those handed over and passes them on.
#[doc(hidden)]
#[macro_export]
macro_rules! __driver_functions_memory {
    ($generator:path, $head:tt, { $($before:tt)* }) => { $crate::__driver_functions_code! { $generator, $head, {
        $($before)*

        // Memory of a context
        cuMemGetInfo Query Owner Neutral No { cuMemGetInfo_v2 3020 (free: *mut usize, total: *mut usize); }
        cuMemAlloc Create Owner Unsafe No { cuMemAlloc_v2 3020 (dptr: *mut CUdeviceptr, bytesize: usize); }
        cuMemAllocPitch Create Owner Unsafe No { cuMemAllocPitch_v2 3020 (dptr: *mut CUdeviceptr, p_pitch: *mut usize, width_in_bytes: usize,
            height: usize, element_size_bytes: c_uint); }
        cuMemAllocManaged Create Owner Unsafe No { cuMemAllocManaged 6000 (dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint); }
        cuMemFree Destroy Ignored Unsafe Context { cuMemFree_v2 3020 (dptr: CUdeviceptr); }
        cuMemGetAddressRange Query Owner Neutral No { cuMemGetAddressRange_v2 3020 (pbase: *mut CUdeviceptr, psize: *mut usize, dptr: CUdeviceptr); }
        cuMemAllocHost Create Owner Unsafe No { cuMemAllocHost_v2 3020 (pp: *mut *mut c_void, bytesize: usize); }
        cuMemHostAlloc Create Owner Unsafe No { cuMemHostAlloc 2020 (pp: *mut *mut c_void, bytesize: usize, flags: c_uint); }
        cuMemFreeHost Destroy Ignored Unsafe Context { cuMemFreeHost 2000 (p: *mut c_void); }
        cuMemHostRegister Create Owner Unsafe No { cuMemHostRegister_v2 6050 (p: *mut c_void, bytesize: usize, flags: c_uint); }
        cuMemHostUnregister Destroy Owner Unsafe Context { cuMemHostUnregister 4000 (p: *mut c_void); }
        cuMemHostGetDevicePointer Query Owner Neutral No { cuMemHostGetDevicePointer_v2 3020 (pdptr: *mut CUdeviceptr, p: *mut c_void, flags: c_uint); }
        cuMemHostGetFlags Query Owner Neutral No { cuMemHostGetFlags 2030 (p_flags: *mut c_uint, p: *mut c_void); }
        cuPointerGetAttribute Query Ignored Neutral No { cuPointerGetAttribute 4000 (data: *mut c_void, attribute: CUpointer_attribute,
            ptr: CUdeviceptr); }
        cuPointerGetAttributes Query Ignored Neutral No { cuPointerGetAttributes 7000 (num_attributes: c_uint, attributes: *mut CUpointer_attribute,
            data: *mut *mut c_void, ptr: CUdeviceptr); }
        cuPointerSetAttribute Mutate Ignored Unsafe No { cuPointerSetAttribute 6000 (value: *const c_void, attribute: CUpointer_attribute,
            ptr: CUdeviceptr); }
        cuMemGetHandleForAddressRange Query Owner Neutral No { cuMemGetHandleForAddressRange 11070 (handle: *mut c_void, dptr: CUdeviceptr, size: usize,
            handle_type: CUmemRangeHandleType, flags: c_ulonglong); }
        cuIpcGetMemHandle Query Owner Neutral No { cuIpcGetMemHandle 4010 (p_handle: *mut CUipcMemHandle, dptr: CUdeviceptr); }
        cuIpcOpenMemHandle Create Owner Neutral No { cuIpcOpenMemHandle_v2 11000 (pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint); }
        cuIpcCloseMemHandle Destroy Owner Neutral No { cuIpcCloseMemHandle 4010 (dptr: CUdeviceptr); }

        // Managed memory
        cuMemAdvise Mutate Owner Unsafe No {
            cuMemAdvise_v2 12020 (dev_ptr: CUdeviceptr, count: usize, advice: CUmem_advise, location: CUmemLocation);
            cuMemAdvise 8000 (dev_ptr: CUdeviceptr, count: usize, advice: CUmem_advise, device: CUdevice);
        }
        cuMemPrefetchAsync Enqueue Ignored Neutral No {
            cuMemPrefetchAsync_v2 12020 (dev_ptr: CUdeviceptr, count: usize, location: CUmemLocation, flags: c_uint, h_stream: CUstream);
            cuMemPrefetchAsync 8000 (dev_ptr: CUdeviceptr, count: usize, dst_device: CUdevice, h_stream: CUstream);
        }
        cuMemPrefetchBatchAsync Enqueue Ignored Neutral No { cuMemPrefetchBatchAsync 13000 (dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
            prefetch_locs: *mut CUmemLocation, prefetch_loc_idxs: *mut usize, num_prefetch_locs: usize, flags: c_ulonglong, h_stream: CUstream); }
        cuMemDiscardBatchAsync Enqueue Ignored Neutral No { cuMemDiscardBatchAsync 13000 (dptrs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
            flags: c_ulonglong, h_stream: CUstream); }
        cuMemDiscardAndPrefetchBatchAsync Enqueue Ignored Neutral No { cuMemDiscardAndPrefetchBatchAsync 13000 (dptrs: *mut CUdeviceptr,
            sizes: *mut usize, count: usize, prefetch_locs: *mut CUmemLocation, prefetch_loc_idxs: *mut usize, num_prefetch_locs: usize,
            flags: c_ulonglong, h_stream: CUstream); }
        cuMemRangeGetAttribute Query Owner Neutral No { cuMemRangeGetAttribute 8000 (data: *mut c_void, data_size: usize,
            attribute: CUmem_range_attribute, dev_ptr: CUdeviceptr, count: usize); }
        cuMemRangeGetAttributes Query Owner Neutral No { cuMemRangeGetAttributes 8000 (data: *mut *mut c_void, data_sizes: *mut usize,
            attributes: *mut CUmem_range_attribute, num_attributes: usize, dev_ptr: CUdeviceptr, count: usize); }

        // Stream-ordered memory and pools
        cuMemAllocAsync Create Ignored Unsafe No { cuMemAllocAsync 11020 (dptr: *mut CUdeviceptr, bytesize: usize, h_stream: CUstream); }
        cuMemAllocFromPoolAsync Create Ignored Unsafe No { cuMemAllocFromPoolAsync 11020 (dptr: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool,
            h_stream: CUstream); }
        cuMemFreeAsync Destroy Ignored Unsafe No { cuMemFreeAsync 11020 (dptr: CUdeviceptr, h_stream: CUstream); }
        cuMemPoolCreate Create Ignored Unsafe No { cuMemPoolCreate 11020 (pool: *mut CUmemoryPool, pool_props: *const CUmemPoolProps); }
        cuMemPoolDestroy Destroy Ignored Unsafe No { cuMemPoolDestroy 11020 (pool: CUmemoryPool); }
        cuMemPoolTrimTo Mutate Ignored Unsafe No { cuMemPoolTrimTo 11020 (pool: CUmemoryPool, min_bytes_to_keep: usize); }
        cuMemPoolSetAttribute Mutate Ignored Unsafe No { cuMemPoolSetAttribute 11020 (pool: CUmemoryPool, attr: CUmemPool_attribute,
            value: *mut c_void); }
        cuMemPoolGetAttribute Query Ignored Unsafe No { cuMemPoolGetAttribute 11020 (pool: CUmemoryPool, attr: CUmemPool_attribute, value: *mut c_void); }
        cuMemPoolSetAccess Mutate Ignored Unsafe No { cuMemPoolSetAccess 11020 (pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize); }
        cuMemPoolGetAccess Query Ignored Unsafe No { cuMemPoolGetAccess 11020 (flags: *mut CUmemAccess_flags, mem_pool: CUmemoryPool,
            location: *mut CUmemLocation); }
        cuMemGetDefaultMemPool Query Ignored Neutral No { cuMemGetDefaultMemPool 13000 (pool_out: *mut CUmemoryPool, location: *mut CUmemLocation,
            type_: CUmemAllocationType); }
        cuMemGetMemPool Query Ignored Neutral No { cuMemGetMemPool 13000 (pool: *mut CUmemoryPool, location: *mut CUmemLocation,
            type_: CUmemAllocationType); }
        cuMemSetMemPool Mutate Ignored Unsafe No { cuMemSetMemPool 13000 (location: *mut CUmemLocation, type_: CUmemAllocationType,
            pool: CUmemoryPool); }
        cuMemPoolExportToShareableHandle Create Ignored Unsafe No { cuMemPoolExportToShareableHandle 11020 (handle_out: *mut c_void, pool: CUmemoryPool,
            handle_type: CUmemAllocationHandleType, flags: c_ulonglong); }
        cuMemPoolImportFromShareableHandle Create Ignored Unsafe No { cuMemPoolImportFromShareableHandle 11020 (pool_out: *mut CUmemoryPool,
            handle: *mut c_void, handle_type: CUmemAllocationHandleType, flags: c_ulonglong); }
        cuMemPoolExportPointer Query Owner Unsafe No { cuMemPoolExportPointer 11020 (share_data_out: *mut CUmemPoolPtrExportData, ptr: CUdeviceptr); }
        cuMemPoolImportPointer Create Ignored Unsafe No { cuMemPoolImportPointer 11020 (ptr_out: *mut CUdeviceptr, pool: CUmemoryPool,
            share_data: *mut CUmemPoolPtrExportData); }

        // Virtual memory
        cuMemAddressReserve Create Ignored Neutral No { cuMemAddressReserve 10020 (ptr: *mut CUdeviceptr, size: usize, alignment: usize,
            addr: CUdeviceptr, flags: c_ulonglong); }
        cuMemAddressFree Destroy Ignored Neutral No { cuMemAddressFree 10020 (ptr: CUdeviceptr, size: usize); }
        cuMemCreate Create Ignored Neutral No { cuMemCreate 10020 (handle: *mut CUmemGenericAllocationHandle, size: usize,
            prop: *const CUmemAllocationProp, flags: c_ulonglong); }
        cuMemRelease Destroy Ignored Neutral No { cuMemRelease 10020 (handle: CUmemGenericAllocationHandle); }
        cuMemMap Create Ignored Neutral No { cuMemMap 10020 (ptr: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle,
            flags: c_ulonglong); }
        cuMemUnmap Destroy Ignored Neutral No { cuMemUnmap 10020 (ptr: CUdeviceptr, size: usize); }
        cuMemSetAccess Mutate Ignored Neutral No { cuMemSetAccess 10020 (ptr: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc, count: usize); }
        cuMemGetAccess Query Ignored Neutral No { cuMemGetAccess 10020 (flags: *mut c_ulonglong, location: *const CUmemLocation, ptr: CUdeviceptr); }
        cuMemExportToShareableHandle Create Ignored Neutral No { cuMemExportToShareableHandle 10020 (shareable_handle: *mut c_void,
            handle: CUmemGenericAllocationHandle, handle_type: CUmemAllocationHandleType, flags: c_ulonglong); }
        cuMemImportFromShareableHandle Create Ignored Neutral No { cuMemImportFromShareableHandle 10020 (handle: *mut CUmemGenericAllocationHandle,
            os_handle: *mut c_void, sh_handle_type: CUmemAllocationHandleType); }
        cuMemGetAllocationGranularity Query Ignored Neutral No { cuMemGetAllocationGranularity 10020 (granularity: *mut usize,
            prop: *const CUmemAllocationProp, option: CUmemAllocationGranularity_flags); }
        cuMemGetAllocationPropertiesFromHandle Query Ignored Neutral No { cuMemGetAllocationPropertiesFromHandle 10020 (prop: *mut CUmemAllocationProp,
            handle: CUmemGenericAllocationHandle); }
        cuMemRetainAllocationHandle Create Ignored Neutral No { cuMemRetainAllocationHandle 11000 (handle: *mut CUmemGenericAllocationHandle,
            addr: *mut c_void); }
        cuMemMapArrayAsync Enqueue Ignored Neutral No { cuMemMapArrayAsync 11010 (map_info_list: *mut CUarrayMapInfo, count: c_uint,
            h_stream: CUstream); }
        cuMulticastCreate Create Ignored Neutral No { cuMulticastCreate 12010 (mc_handle: *mut CUmemGenericAllocationHandle,
            prop: *const CUmulticastObjectProp); }
        cuMulticastAddDevice Mutate Ignored Neutral No { cuMulticastAddDevice 12010 (mc_handle: CUmemGenericAllocationHandle, dev: CUdevice); }
        cuMulticastBindMem Mutate Ignored Neutral No {
            cuMulticastBindMem_v2 13010 (mc_handle: CUmemGenericAllocationHandle, dev: CUdevice, mc_offset: usize,
                mem_handle: CUmemGenericAllocationHandle, mem_offset: usize, size: usize, flags: c_ulonglong);
            cuMulticastBindMem 12010 (mc_handle: CUmemGenericAllocationHandle, mc_offset: usize, mem_handle: CUmemGenericAllocationHandle,
                mem_offset: usize, size: usize, flags: c_ulonglong);
        }
        cuMulticastBindAddr Mutate Ignored Neutral No {
            cuMulticastBindAddr_v2 13010 (mc_handle: CUmemGenericAllocationHandle, dev: CUdevice, mc_offset: usize, memptr: CUdeviceptr, size: usize,
                flags: c_ulonglong);
            cuMulticastBindAddr 12010 (mc_handle: CUmemGenericAllocationHandle, mc_offset: usize, memptr: CUdeviceptr, size: usize, flags: c_ulonglong);
        }
        cuMulticastUnbind Mutate Ignored Neutral No { cuMulticastUnbind 12010 (mc_handle: CUmemGenericAllocationHandle, dev: CUdevice, mc_offset: usize,
            size: usize); }
        cuMulticastGetGranularity Query Ignored Neutral No { cuMulticastGetGranularity 12010 (granularity: *mut usize, prop: *const CUmulticastObjectProp,
            option: CUmulticastGranularity_flags); }

        // Copies and fills
        cuMemcpy Enqueue Owner Neutral Context { cuMemcpy 4000 (dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize); }
        cuMemcpyHtoD Enqueue Owner Neutral Context { cuMemcpyHtoD_v2 3020 (dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize); }
        cuMemcpyDtoH Enqueue Owner Neutral Context { cuMemcpyDtoH_v2 3020 (dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize); }
        cuMemcpyDtoD Enqueue Owner Neutral No { cuMemcpyDtoD_v2 3020 (dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize); }
        cuMemcpyAsync Enqueue Device Neutral No { cuMemcpyAsync 4000 (dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize, h_stream: CUstream); }
        cuMemcpyHtoDAsync Enqueue Device Neutral No { cuMemcpyHtoDAsync_v2 3020 (dst_device: CUdeviceptr, src_host: *const c_void, byte_count: usize,
            h_stream: CUstream); }
        cuMemcpyDtoHAsync Enqueue Device Neutral No { cuMemcpyDtoHAsync_v2 3020 (dst_host: *mut c_void, src_device: CUdeviceptr, byte_count: usize,
            h_stream: CUstream); }
        cuMemcpyDtoDAsync Enqueue Device Neutral No { cuMemcpyDtoDAsync_v2 3020 (dst_device: CUdeviceptr, src_device: CUdeviceptr, byte_count: usize,
            h_stream: CUstream); }
        cuMemcpyPeerAsync Enqueue Device Neutral No { cuMemcpyPeerAsync 4000 (dst_device: CUdeviceptr, dst_context: CUcontext, src_device: CUdeviceptr,
            src_context: CUcontext, byte_count: usize, h_stream: CUstream); }
        cuMemcpy2DAsync Enqueue Device Neutral No { cuMemcpy2DAsync_v2 3020 (p_copy: *const CUDA_MEMCPY2D, h_stream: CUstream); }
        cuMemcpy3DAsync Enqueue Device Neutral No { cuMemcpy3DAsync_v2 3020 (p_copy: *const CUDA_MEMCPY3D, h_stream: CUstream); }
        cuMemcpy3DPeerAsync Enqueue Device Neutral No { cuMemcpy3DPeerAsync 4000 (p_copy: *const CUDA_MEMCPY3D_PEER, h_stream: CUstream); }
        cuMemcpyHtoAAsync Enqueue Device Neutral No { cuMemcpyHtoAAsync_v2 3020 (dst_array: CUarray, dst_offset: usize, src_host: *const c_void,
            byte_count: usize, h_stream: CUstream); }
        cuMemcpyAtoHAsync Enqueue Device Neutral No { cuMemcpyAtoHAsync_v2 3020 (dst_host: *mut c_void, src_array: CUarray, src_offset: usize,
            byte_count: usize, h_stream: CUstream); }
        cuMemcpyBatchAsync Enqueue Device Neutral No {
            cuMemcpyBatchAsync_v2 13000 (dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attrs: *mut CUmemcpyAttributes,
                attrs_idxs: *mut usize, num_attrs: usize, h_stream: CUstream);
            cuMemcpyBatchAsync 12080 (dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize, attrs: *mut CUmemcpyAttributes,
                attrs_idxs: *mut usize, num_attrs: usize, fail_idx: *mut usize, h_stream: CUstream);
        }
        cuMemcpy3DBatchAsync Enqueue Device Neutral No {
            cuMemcpy3DBatchAsync_v2 13000 (num_ops: usize, op_list: *mut CUDA_MEMCPY3D_BATCH_OP, flags: c_ulonglong, h_stream: CUstream);
            cuMemcpy3DBatchAsync 12080 (num_ops: usize, op_list: *mut CUDA_MEMCPY3D_BATCH_OP, fail_idx: *mut usize, flags: c_ulonglong,
                h_stream: CUstream);
        }
        cuMemcpyWithAttributesAsync Enqueue Device Neutral No { cuMemcpyWithAttributesAsync 13020 (dst: CUdeviceptr, src: CUdeviceptr, size: usize,
            attr: *mut CUmemcpyAttributes, h_stream: CUstream); }
        cuMemcpy3DWithAttributesAsync Enqueue Device Neutral No { cuMemcpy3DWithAttributesAsync 13020 (op: *mut CUDA_MEMCPY3D_BATCH_OP,
            flags: c_ulonglong, h_stream: CUstream); }
        cuMemsetD8 Enqueue Owner Neutral No { cuMemsetD8_v2 3020 (dst_device: CUdeviceptr, uc: c_uchar, n: usize); }
        cuMemsetD32 Enqueue Owner Neutral No { cuMemsetD32_v2 3020 (dst_device: CUdeviceptr, ui: c_uint, n: usize); }
        cuMemsetD8Async Enqueue Ignored Neutral No { cuMemsetD8Async 3020 (dst_device: CUdeviceptr, uc: c_uchar, n: usize, h_stream: CUstream); }
        cuMemsetD16Async Enqueue Ignored Neutral No { cuMemsetD16Async 3020 (dst_device: CUdeviceptr, us: c_ushort, n: usize, h_stream: CUstream); }
        cuMemsetD32Async Enqueue Ignored Neutral No { cuMemsetD32Async 3020 (dst_device: CUdeviceptr, ui: c_uint, n: usize, h_stream: CUstream); }
        cuMemsetD2D8Async Enqueue Ignored Neutral No { cuMemsetD2D8Async 3020 (dst_device: CUdeviceptr, dst_pitch: usize, uc: c_uchar, width: usize,
            height: usize, h_stream: CUstream); }
        cuMemsetD2D16Async Enqueue Ignored Neutral No { cuMemsetD2D16Async 3020 (dst_device: CUdeviceptr, dst_pitch: usize, us: c_ushort, width: usize,
            height: usize, h_stream: CUstream); }
        cuMemsetD2D32Async Enqueue Ignored Neutral No { cuMemsetD2D32Async 3020 (dst_device: CUdeviceptr, dst_pitch: usize, ui: c_uint, width: usize,
            height: usize, h_stream: CUstream); }
        cuMemBatchDecompressAsync Enqueue Ignored Neutral No { cuMemBatchDecompressAsync 12060 (params_array: *mut CUmemDecompressParams, count: usize,
            flags: c_uint, error_index: *mut usize, stream: CUstream); }

        // Arrays
        cuArrayCreate Create Owner Unsafe No { cuArrayCreate_v2 3020 (p_handle: *mut CUarray, p_allocate_array: *const CUDA_ARRAY_DESCRIPTOR); }
        cuArray3DCreate Create Owner Unsafe No { cuArray3DCreate_v2 3020 (p_handle: *mut CUarray, p_allocate_array: *const CUDA_ARRAY3D_DESCRIPTOR); }
        cuArrayDestroy Destroy Ignored Unsafe Context { cuArrayDestroy 2000 (h_array: CUarray); }
        cuArrayGetDescriptor Query Ignored Neutral No { cuArrayGetDescriptor_v2 3020 (p_array_descriptor: *mut CUDA_ARRAY_DESCRIPTOR, h_array: CUarray); }
        cuArray3DGetDescriptor Query Ignored Neutral No { cuArray3DGetDescriptor_v2 3020 (p_array_descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR,
            h_array: CUarray); }
        cuArrayGetPlane Query Ignored Neutral No { cuArrayGetPlane 11020 (p_plane_array: *mut CUarray, h_array: CUarray, plane_idx: c_uint); }
        cuArrayGetMemoryRequirements Query Ignored Neutral No { cuArrayGetMemoryRequirements 11060 (memory_requirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS,
            array: CUarray, device: CUdevice); }
        cuArrayGetSparseProperties Query Ignored Neutral No { cuArrayGetSparseProperties 11010 (sparse_properties: *mut CUDA_ARRAY_SPARSE_PROPERTIES,
            array: CUarray); }
        cuMipmappedArrayCreate Create Owner Unsafe No { cuMipmappedArrayCreate 5000 (p_handle: *mut CUmipmappedArray,
            p_mipmapped_array_desc: *const CUDA_ARRAY3D_DESCRIPTOR, num_mipmap_levels: c_uint); }
        cuMipmappedArrayDestroy Destroy Ignored Unsafe Context { cuMipmappedArrayDestroy 5000 (h_mipmapped_array: CUmipmappedArray); }
        cuMipmappedArrayGetLevel Query Ignored Neutral No { cuMipmappedArrayGetLevel 5000 (p_level_array: *mut CUarray,
            h_mipmapped_array: CUmipmappedArray, level: c_uint); }
        cuMipmappedArrayGetMemoryRequirements Query Ignored Neutral No { cuMipmappedArrayGetMemoryRequirements 11060 (memory_requirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS,
            mipmap: CUmipmappedArray, device: CUdevice); }
        cuMipmappedArrayGetSparseProperties Query Ignored Neutral No { cuMipmappedArrayGetSparseProperties 11010 (sparse_properties: *mut CUDA_ARRAY_SPARSE_PROPERTIES,
            mipmap: CUmipmappedArray); }

        // Textures and surfaces
        cuTexObjectCreate Create Owner Unsafe No { cuTexObjectCreate 5000 (p_tex_object: *mut CUtexObject, p_res_desc: *const CUDA_RESOURCE_DESC,
            p_tex_desc: *const CUDA_TEXTURE_DESC, p_res_view_desc: *const CUDA_RESOURCE_VIEW_DESC); }
        cuTexObjectDestroy Destroy Owner Unsafe No { cuTexObjectDestroy 5000 (tex_object: CUtexObject); }
        cuTexObjectGetResourceDesc Query Owner Neutral No { cuTexObjectGetResourceDesc 5000 (p_res_desc: *mut CUDA_RESOURCE_DESC,
            tex_object: CUtexObject); }
        cuTexObjectGetTextureDesc Query Owner Neutral No { cuTexObjectGetTextureDesc 5000 (p_tex_desc: *mut CUDA_TEXTURE_DESC, tex_object: CUtexObject); }
        cuTexObjectGetResourceViewDesc Query Owner Neutral No { cuTexObjectGetResourceViewDesc 5000 (p_res_view_desc: *mut CUDA_RESOURCE_VIEW_DESC,
            tex_object: CUtexObject); }
        cuSurfObjectCreate Create Owner Unsafe No { cuSurfObjectCreate 5000 (p_surf_object: *mut CUsurfObject, p_res_desc: *const CUDA_RESOURCE_DESC); }
        cuSurfObjectDestroy Destroy Owner Unsafe No { cuSurfObjectDestroy 5000 (surf_object: CUsurfObject); }
        cuSurfObjectGetResourceDesc Query Owner Neutral No { cuSurfObjectGetResourceDesc 5000 (p_res_desc: *mut CUDA_RESOURCE_DESC,
            surf_object: CUsurfObject); }

        // Tensor maps
        cuTensorMapEncodeTiled Query Ignored Neutral No { cuTensorMapEncodeTiled 12000 (tensor_map: *mut CUtensorMap,
            tensor_data_type: CUtensorMapDataType, tensor_rank: cuuint32_t, global_address: *mut c_void, global_dim: *const cuuint64_t,
            global_strides: *const cuuint64_t, box_dim: *const cuuint32_t, element_strides: *const cuuint32_t, interleave: CUtensorMapInterleave,
            swizzle: CUtensorMapSwizzle, l2_promotion: CUtensorMapL2promotion, oob_fill: CUtensorMapFloatOOBfill); }
        cuTensorMapEncodeIm2col Query Ignored Neutral No { cuTensorMapEncodeIm2col 12000 (tensor_map: *mut CUtensorMap,
            tensor_data_type: CUtensorMapDataType, tensor_rank: cuuint32_t, global_address: *mut c_void, global_dim: *const cuuint64_t,
            global_strides: *const cuuint64_t, pixel_box_lower_corner: *const c_int, pixel_box_upper_corner: *const c_int, channels_per_pixel: cuuint32_t,
            pixels_per_column: cuuint32_t, element_strides: *const cuuint32_t, interleave: CUtensorMapInterleave, swizzle: CUtensorMapSwizzle,
            l2_promotion: CUtensorMapL2promotion, oob_fill: CUtensorMapFloatOOBfill); }
        cuTensorMapEncodeIm2colWide Query Ignored Neutral No { cuTensorMapEncodeIm2colWide 12080 (tensor_map: *mut CUtensorMap,
            tensor_data_type: CUtensorMapDataType, tensor_rank: cuuint32_t, global_address: *mut c_void, global_dim: *const cuuint64_t,
            global_strides: *const cuuint64_t, pixel_box_lower_corner_width: c_int, pixel_box_upper_corner_width: c_int, channels_per_pixel: cuuint32_t,
            pixels_per_column: cuuint32_t, element_strides: *const cuuint32_t, interleave: CUtensorMapInterleave, mode: CUtensorMapIm2ColWideMode,
            swizzle: CUtensorMapSwizzle, l2_promotion: CUtensorMapL2promotion, oob_fill: CUtensorMapFloatOOBfill); }
        cuTensorMapReplaceAddress Query Ignored Neutral No { cuTensorMapReplaceAddress 12000 (tensor_map: *mut CUtensorMap,
            global_address: *mut c_void); }

        // Graphics
        cuGraphicsUnregisterResource Destroy Owner Unsafe No { cuGraphicsUnregisterResource 3000 (resource: CUgraphicsResource); }
        cuGraphicsMapResources Enqueue Owner Neutral No { cuGraphicsMapResources 3000 (count: c_uint, resources: *mut CUgraphicsResource,
            h_stream: CUstream); }
        cuGraphicsUnmapResources Enqueue Owner Neutral No { cuGraphicsUnmapResources 3000 (count: c_uint, resources: *mut CUgraphicsResource,
            h_stream: CUstream); }
        cuGraphicsResourceGetMappedPointer Query Owner Neutral No { cuGraphicsResourceGetMappedPointer_v2 3020 (p_dev_ptr: *mut CUdeviceptr,
            p_size: *mut usize, resource: CUgraphicsResource); }
        cuGraphicsSubResourceGetMappedArray Query Owner Neutral No { cuGraphicsSubResourceGetMappedArray 3000 (p_array: *mut CUarray,
            resource: CUgraphicsResource, array_index: c_uint, mip_level: c_uint); }
        cuGraphicsResourceGetMappedMipmappedArray Query Owner Neutral No { cuGraphicsResourceGetMappedMipmappedArray 5000 (p_mipmapped_array: *mut CUmipmappedArray,
            resource: CUgraphicsResource); }
        cuGraphicsResourceSetMapFlags Mutate Owner Neutral No { cuGraphicsResourceSetMapFlags_v2 6050 (resource: CUgraphicsResource, flags: c_uint); }
        cuGraphicsGLRegisterBuffer Create Owner Unsafe No { cuGraphicsGLRegisterBuffer 3000 (p_cuda_resource: *mut CUgraphicsResource, buffer: c_uint,
            flags: c_uint); }
        cuGraphicsGLRegisterImage Create Owner Unsafe No { cuGraphicsGLRegisterImage 3000 (p_cuda_resource: *mut CUgraphicsResource, image: c_uint,
            target: c_uint, flags: c_uint); }

        // External memory and semaphores
        cuImportExternalMemory Create Owner Unsafe No { cuImportExternalMemory 10000 (ext_mem_out: *mut CUexternalMemory,
            mem_handle_desc: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC); }
        cuDestroyExternalMemory Destroy Ignored Unsafe No { cuDestroyExternalMemory 10000 (ext_mem: CUexternalMemory); }
        cuExternalMemoryGetMappedBuffer Create Ignored Neutral No { cuExternalMemoryGetMappedBuffer 10000 (dev_ptr: *mut CUdeviceptr,
            ext_mem: CUexternalMemory, buffer_desc: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC); }
        cuExternalMemoryGetMappedMipmappedArray Create Ignored Neutral No { cuExternalMemoryGetMappedMipmappedArray 10000 (mipmap: *mut CUmipmappedArray,
            ext_mem: CUexternalMemory, mipmap_desc: *const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC); }
        cuImportExternalSemaphore Create Owner Unsafe No { cuImportExternalSemaphore 10000 (ext_sem_out: *mut CUexternalSemaphore,
            sem_handle_desc: *const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC); }
        cuDestroyExternalSemaphore Destroy Owner Unsafe No { cuDestroyExternalSemaphore 10000 (ext_sem: CUexternalSemaphore); }
        cuSignalExternalSemaphoresAsync Enqueue Owner Neutral No { cuSignalExternalSemaphoresAsync 10000 (ext_sem_array: *const CUexternalSemaphore,
            params_array: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, num_ext_sems: c_uint, stream: CUstream); }
        cuWaitExternalSemaphoresAsync Enqueue Owner Neutral No { cuWaitExternalSemaphoresAsync 10000 (ext_sem_array: *const CUexternalSemaphore,
            params_array: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, num_ext_sems: c_uint, stream: CUstream); }
    } } };
}
