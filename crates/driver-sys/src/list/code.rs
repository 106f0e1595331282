//! The end of the list: modules, libraries, launch, linking, graphs, user objects, checkpoints.

/// Adds its entries to those handed over and gives all of them to the generator.
#[doc(hidden)]
#[macro_export]
macro_rules! __driver_functions_code {
    ($generator:path, $head:tt, { $($before:tt)* }) => { $generator! { $head
        $($before)*

        // Modules and functions
        cuModuleLoad Create Owner Neutral No { cuModuleLoad 2000 (module: *mut CUmodule, fname: *const c_char); }
        cuModuleLoadData Create Owner Neutral No { cuModuleLoadData 2000 (module: *mut CUmodule, image: *const c_void); }
        cuModuleLoadDataEx Create Owner Neutral No { cuModuleLoadDataEx 2010 (module: *mut CUmodule, image: *const c_void, num_options: c_uint,
            options: *mut CUjit_option, option_values: *mut *mut c_void); }
        cuModuleLoadFatBinary Create Owner Neutral No { cuModuleLoadFatBinary 2000 (module: *mut CUmodule, fat_cubin: *const c_void); }
        cuModuleUnload Destroy Ignored Unsafe Context { cuModuleUnload 2000 (hmod: CUmodule); }
        cuModuleGetFunction Query Ignored Neutral No { cuModuleGetFunction 2000 (hfunc: *mut CUfunction, hmod: CUmodule, name: *const c_char); }
        cuModuleGetGlobal Query Ignored Neutral No { cuModuleGetGlobal_v2 3020 (dptr: *mut CUdeviceptr, bytes: *mut usize, hmod: CUmodule,
            name: *const c_char); }
        cuModuleGetFunctionCount Query Ignored Neutral No { cuModuleGetFunctionCount 12040 (count: *mut c_uint, module: CUmodule); }
        cuModuleEnumerateFunctions Query Ignored Neutral No { cuModuleEnumerateFunctions 12040 (functions: *mut CUfunction, num_functions: c_uint,
            module: CUmodule); }
        cuModuleGetLoadingMode Query Ignored Neutral No { cuModuleGetLoadingMode 11070 (mode: *mut CUmoduleLoadingMode); }
        cuFuncGetAttribute Query Ignored Neutral No { cuFuncGetAttribute 2020 (pi: *mut c_int, attrib: CUfunction_attribute, hfunc: CUfunction); }
        cuFuncSetAttribute Mutate Ignored Neutral No { cuFuncSetAttribute 9000 (hfunc: CUfunction, attrib: CUfunction_attribute, value: c_int); }
        cuFuncSetCacheConfig Mutate Ignored Neutral No { cuFuncSetCacheConfig 3000 (hfunc: CUfunction, config: CUfunc_cache); }
        cuFuncGetModule Query Ignored Neutral No { cuFuncGetModule 11000 (hmod: *mut CUmodule, hfunc: CUfunction); }
        cuFuncGetName Query Ignored Neutral No { cuFuncGetName 12030 (name: *mut *const c_char, hfunc: CUfunction); }
        cuFuncGetParamInfo Query Ignored Neutral No { cuFuncGetParamInfo 12040 (func: CUfunction, param_index: usize, param_offset: *mut usize,
            param_size: *mut usize); }
        cuFuncGetParamCount Query Ignored Neutral No { cuFuncGetParamCount 13020 (func: CUfunction, param_count: *mut usize); }
        cuFuncIsLoaded Query Ignored Neutral No { cuFuncIsLoaded 12040 (state: *mut CUfunctionLoadingState, function: CUfunction); }
        cuFuncLoad Mutate Ignored Neutral No { cuFuncLoad 12040 (function: CUfunction); }

        // Libraries and kernels
        cuLibraryLoadData Create Ignored Neutral No { cuLibraryLoadData 12000 (library: *mut CUlibrary, code: *const c_void,
            jit_options: *mut CUjit_option, jit_options_values: *mut *mut c_void, num_jit_options: c_uint, library_options: *mut CUlibraryOption,
            library_option_values: *mut *mut c_void, num_library_options: c_uint); }
        cuLibraryLoadFromFile Create Ignored Neutral No { cuLibraryLoadFromFile 12000 (library: *mut CUlibrary, file_name: *const c_char,
            jit_options: *mut CUjit_option, jit_options_values: *mut *mut c_void, num_jit_options: c_uint, library_options: *mut CUlibraryOption,
            library_option_values: *mut *mut c_void, num_library_options: c_uint); }
        cuLibraryUnload Destroy Ignored Unsafe Context { cuLibraryUnload 12000 (library: CUlibrary); }
        cuLibraryGetKernel Query Ignored Neutral No { cuLibraryGetKernel 12000 (p_kernel: *mut CUkernel, library: CUlibrary, name: *const c_char); }
        cuLibraryGetKernelCount Query Ignored Neutral No { cuLibraryGetKernelCount 12040 (count: *mut c_uint, lib: CUlibrary); }
        cuLibraryEnumerateKernels Query Ignored Neutral No { cuLibraryEnumerateKernels 12040 (kernels: *mut CUkernel, num_kernels: c_uint,
            lib: CUlibrary); }
        cuLibraryGetModule Query Owner Neutral No { cuLibraryGetModule 12000 (p_mod: *mut CUmodule, library: CUlibrary); }
        cuLibraryGetGlobal Query Owner Neutral No { cuLibraryGetGlobal 12000 (dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary,
            name: *const c_char); }
        cuLibraryGetManaged Query Ignored Neutral No { cuLibraryGetManaged 12000 (dptr: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary,
            name: *const c_char); }
        cuLibraryGetUnifiedFunction Query Owner Neutral No { cuLibraryGetUnifiedFunction 12000 (fptr: *mut *mut c_void, library: CUlibrary,
            symbol: *const c_char); }
        cuKernelGetFunction Query Owner Neutral No { cuKernelGetFunction 12000 (p_func: *mut CUfunction, kernel: CUkernel); }
        cuKernelGetLibrary Query Ignored Neutral No { cuKernelGetLibrary 12050 (p_lib: *mut CUlibrary, kernel: CUkernel); }
        cuKernelGetName Query Ignored Neutral No { cuKernelGetName 12030 (name: *mut *const c_char, hfunc: CUkernel); }
        cuKernelGetParamInfo Query Owner Neutral No { cuKernelGetParamInfo 12040 (kernel: CUkernel, param_index: usize, param_offset: *mut usize,
            param_size: *mut usize); }
        cuKernelGetParamCount Query Ignored Neutral No { cuKernelGetParamCount 13020 (kernel: CUkernel, param_count: *mut usize); }
        cuKernelGetAttribute Query Ignored Neutral No { cuKernelGetAttribute 12000 (pi: *mut c_int, attrib: CUfunction_attribute, kernel: CUkernel,
            dev: CUdevice); }
        cuKernelSetAttribute Mutate Ignored Neutral No { cuKernelSetAttribute 12000 (attrib: CUfunction_attribute, val: c_int, kernel: CUkernel,
            dev: CUdevice); }
        cuKernelSetCacheConfig Mutate Ignored Neutral No { cuKernelSetCacheConfig 12000 (kernel: CUkernel, config: CUfunc_cache, dev: CUdevice); }

        // Launch and occupancy
        cuLaunchKernel Enqueue Ignored Neutral No { cuLaunchKernel 4000 (f: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint, grid_dim_z: c_uint,
            block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint, h_stream: CUstream, kernel_params: *mut *mut c_void,
            extra: *mut *mut c_void); }
        cuLaunchKernelEx Enqueue Ignored Neutral No { cuLaunchKernelEx 11060 (config: *const CUlaunchConfig, f: CUfunction,
            kernel_params: *mut *mut c_void, extra: *mut *mut c_void); }
        cuLaunchCooperativeKernel Enqueue Ignored Neutral No { cuLaunchCooperativeKernel 9000 (f: CUfunction, grid_dim_x: c_uint, grid_dim_y: c_uint,
            grid_dim_z: c_uint, block_dim_x: c_uint, block_dim_y: c_uint, block_dim_z: c_uint, shared_mem_bytes: c_uint, h_stream: CUstream,
            kernel_params: *mut *mut c_void); }
        cuOccupancyMaxActiveBlocksPerMultiprocessor Query Owner Neutral No { cuOccupancyMaxActiveBlocksPerMultiprocessor 6050 (num_blocks: *mut c_int,
            func: CUfunction, block_size: c_int, dynamic_s_mem_size: usize); }
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags Query Owner Neutral No { cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags 7000 (num_blocks: *mut c_int,
            func: CUfunction, block_size: c_int, dynamic_s_mem_size: usize, flags: c_uint); }
        cuOccupancyMaxPotentialBlockSize Query Owner Neutral No { cuOccupancyMaxPotentialBlockSize 6050 (min_grid_size: *mut c_int,
            block_size: *mut c_int, func: CUfunction, block_size_to_dynamic_s_mem_size: CUoccupancyB2DSize, dynamic_s_mem_size: usize,
            block_size_limit: c_int); }
        cuOccupancyMaxPotentialBlockSizeWithFlags Query Owner Neutral No { cuOccupancyMaxPotentialBlockSizeWithFlags 7000 (min_grid_size: *mut c_int,
            block_size: *mut c_int, func: CUfunction, block_size_to_dynamic_s_mem_size: CUoccupancyB2DSize, dynamic_s_mem_size: usize,
            block_size_limit: c_int, flags: c_uint); }
        cuOccupancyAvailableDynamicSMemPerBlock Query Owner Neutral No { cuOccupancyAvailableDynamicSMemPerBlock 10020 (dynamic_smem_size: *mut usize,
            func: CUfunction, num_blocks: c_int, block_size: c_int); }
        cuOccupancyMaxPotentialClusterSize Query Owner Neutral No { cuOccupancyMaxPotentialClusterSize 11070 (cluster_size: *mut c_int, func: CUfunction,
            config: *const CUlaunchConfig); }
        cuOccupancyMaxActiveClusters Query Owner Neutral No { cuOccupancyMaxActiveClusters 11070 (num_clusters: *mut c_int, func: CUfunction,
            config: *const CUlaunchConfig); }

        // Link
        cuLinkCreate Create Owner Neutral No { cuLinkCreate_v2 6050 (num_options: c_uint, options: *mut CUjit_option, option_values: *mut *mut c_void,
            state_out: *mut CUlinkState); }
        cuLinkAddData Mutate Owner Neutral No { cuLinkAddData_v2 6050 (state: CUlinkState, type_: CUjitInputType, data: *mut c_void, size: usize,
            name: *const c_char, num_options: c_uint, options: *mut CUjit_option, option_values: *mut *mut c_void); }
        cuLinkAddFile Mutate Owner Neutral No { cuLinkAddFile_v2 6050 (state: CUlinkState, type_: CUjitInputType, path: *const c_char,
            num_options: c_uint, options: *mut CUjit_option, option_values: *mut *mut c_void); }
        cuLinkComplete Mutate Owner Neutral No { cuLinkComplete 5050 (state: CUlinkState, cubin_out: *mut *mut c_void, size_out: *mut usize); }
        cuLinkDestroy Destroy Owner Neutral No { cuLinkDestroy 5050 (state: CUlinkState); }

        // Peer access
        cuDeviceCanAccessPeer Query Ignored Neutral No { cuDeviceCanAccessPeer 4000 (can_access_peer: *mut c_int, dev: CUdevice, peer_dev: CUdevice); }
        cuDeviceGetP2PAttribute Query Ignored Neutral No { cuDeviceGetP2PAttribute 8000 (value: *mut c_int, attrib: CUdevice_P2PAttribute,
            src_device: CUdevice, dst_device: CUdevice); }
        cuDeviceGetP2PAtomicCapabilities Query Ignored Neutral No { cuDeviceGetP2PAtomicCapabilities 13000 (capabilities: *mut c_uint,
            operations: *const CUatomicOperation, count: c_uint, src_device: CUdevice, dst_device: CUdevice); }
        cuCtxEnablePeerAccess Mutate Owner Unsafe No { cuCtxEnablePeerAccess 4000 (peer_context: CUcontext, flags: c_uint); }
        cuCtxDisablePeerAccess Mutate Owner Unsafe No { cuCtxDisablePeerAccess 4000 (peer_context: CUcontext); }

        // Graph nodes
        cuGraphCreate Create Ignored Neutral No { cuGraphCreate 10000 (ph_graph: *mut CUgraph, flags: c_uint); }
        cuGraphDestroy Destroy Ignored Neutral No { cuGraphDestroy 10000 (h_graph: CUgraph); }
        cuGraphClone Create Ignored Neutral No { cuGraphClone 10000 (ph_graph_clone: *mut CUgraph, original_graph: CUgraph); }
        cuGraphAddNode Create Ignored Neutral No {
            cuGraphAddNode_v3 13040 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                dependency_data: *const CUgraphEdgeData, num_dependencies: usize, node_params: *mut CUgraphNodeParams);
            cuGraphAddNode_v2 12030 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode,
                dependency_data: *const CUgraphEdgeData, num_dependencies: usize, node_params: *mut CUgraphNodeParams);
            cuGraphAddNode 12020 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize,
                node_params: *mut CUgraphNodeParams);
        }
        cuGraphNodeSetParams Mutate Ignored Neutral No {
            cuGraphNodeSetParams_v2 13040 (h_node: CUgraphNode, node_params: *mut CUgraphNodeParams);
            cuGraphNodeSetParams 12020 (h_node: CUgraphNode, node_params: *mut CUgraphNodeParams);
        }
        cuGraphNodeGetParams Query Ignored Neutral No { cuGraphNodeGetParams 13020 (h_node: CUgraphNode, node_params: *mut CUgraphNodeParams); }
        cuGraphAddKernelNode Create Ignored Neutral No { cuGraphAddKernelNode_v2 12000 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *const CUDA_KERNEL_NODE_PARAMS); }
        cuGraphKernelNodeGetParams Query Ignored Neutral No { cuGraphKernelNodeGetParams_v2 12000 (h_node: CUgraphNode,
            node_params: *mut CUDA_KERNEL_NODE_PARAMS); }
        cuGraphKernelNodeSetParams Mutate Ignored Neutral No { cuGraphKernelNodeSetParams_v2 12000 (h_node: CUgraphNode,
            node_params: *const CUDA_KERNEL_NODE_PARAMS); }
        cuGraphKernelNodeCopyAttributes Mutate Ignored Neutral No { cuGraphKernelNodeCopyAttributes 11000 (dst: CUgraphNode, src: CUgraphNode); }
        cuGraphKernelNodeGetAttribute Query Ignored Neutral No { cuGraphKernelNodeGetAttribute 11000 (h_node: CUgraphNode, attr: CUkernelNodeAttrID,
            value_out: *mut CUkernelNodeAttrValue); }
        cuGraphKernelNodeSetAttribute Mutate Ignored Neutral No { cuGraphKernelNodeSetAttribute 11000 (h_node: CUgraphNode, attr: CUkernelNodeAttrID,
            value: *const CUkernelNodeAttrValue); }
        cuGraphAddMemcpyNode Create Ignored Neutral No { cuGraphAddMemcpyNode 10000 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize, copy_params: *const CUDA_MEMCPY3D, ctx: CUcontext); }
        cuGraphMemcpyNodeGetParams Query Ignored Neutral No { cuGraphMemcpyNodeGetParams 10000 (h_node: CUgraphNode, node_params: *mut CUDA_MEMCPY3D); }
        cuGraphMemcpyNodeSetParams Mutate Ignored Neutral No { cuGraphMemcpyNodeSetParams 10000 (h_node: CUgraphNode,
            node_params: *const CUDA_MEMCPY3D); }
        cuGraphAddMemsetNode Create Ignored Neutral No { cuGraphAddMemsetNode 10000 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize, memset_params: *const CUDA_MEMSET_NODE_PARAMS, ctx: CUcontext); }
        cuGraphMemsetNodeGetParams Query Ignored Neutral No { cuGraphMemsetNodeGetParams 10000 (h_node: CUgraphNode,
            node_params: *mut CUDA_MEMSET_NODE_PARAMS); }
        cuGraphMemsetNodeSetParams Mutate Ignored Neutral No { cuGraphMemsetNodeSetParams 10000 (h_node: CUgraphNode,
            node_params: *const CUDA_MEMSET_NODE_PARAMS); }
        cuGraphAddHostNode Create Ignored Neutral No { cuGraphAddHostNode 10000 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *const CUDA_HOST_NODE_PARAMS); }
        cuGraphHostNodeGetParams Query Ignored Neutral No { cuGraphHostNodeGetParams 10000 (h_node: CUgraphNode,
            node_params: *mut CUDA_HOST_NODE_PARAMS); }
        cuGraphHostNodeSetParams Mutate Ignored Neutral No { cuGraphHostNodeSetParams 10000 (h_node: CUgraphNode,
            node_params: *const CUDA_HOST_NODE_PARAMS); }
        cuGraphAddChildGraphNode Create Ignored Neutral No { cuGraphAddChildGraphNode 10000 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize, child_graph: CUgraph); }
        cuGraphChildGraphNodeGetGraph Query Ignored Neutral No { cuGraphChildGraphNodeGetGraph 10000 (h_node: CUgraphNode, ph_graph: *mut CUgraph); }
        cuGraphAddEmptyNode Create Ignored Neutral No { cuGraphAddEmptyNode 10000 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize); }
        cuGraphAddEventRecordNode Create Ignored Neutral No { cuGraphAddEventRecordNode 11010 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize, event: CUevent); }
        cuGraphEventRecordNodeGetEvent Query Ignored Neutral No { cuGraphEventRecordNodeGetEvent 11010 (h_node: CUgraphNode, event_out: *mut CUevent); }
        cuGraphEventRecordNodeSetEvent Mutate Ignored Neutral No { cuGraphEventRecordNodeSetEvent 11010 (h_node: CUgraphNode, event: CUevent); }
        cuGraphAddEventWaitNode Create Ignored Neutral No { cuGraphAddEventWaitNode 11010 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize, event: CUevent); }
        cuGraphEventWaitNodeGetEvent Query Ignored Neutral No { cuGraphEventWaitNodeGetEvent 11010 (h_node: CUgraphNode, event_out: *mut CUevent); }
        cuGraphEventWaitNodeSetEvent Mutate Ignored Neutral No { cuGraphEventWaitNodeSetEvent 11010 (h_node: CUgraphNode, event: CUevent); }
        cuGraphAddExternalSemaphoresSignalNode Create Ignored Neutral No { cuGraphAddExternalSemaphoresSignalNode 11020 (ph_graph_node: *mut CUgraphNode,
            h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS); }
        cuGraphExternalSemaphoresSignalNodeGetParams Query Ignored Neutral No { cuGraphExternalSemaphoresSignalNodeGetParams 11020 (h_node: CUgraphNode,
            params_out: *mut CUDA_EXT_SEM_SIGNAL_NODE_PARAMS); }
        cuGraphExternalSemaphoresSignalNodeSetParams Mutate Ignored Neutral No { cuGraphExternalSemaphoresSignalNodeSetParams 11020 (h_node: CUgraphNode,
            node_params: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS); }
        cuGraphAddExternalSemaphoresWaitNode Create Ignored Neutral No { cuGraphAddExternalSemaphoresWaitNode 11020 (ph_graph_node: *mut CUgraphNode,
            h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS); }
        cuGraphExternalSemaphoresWaitNodeGetParams Query Ignored Neutral No { cuGraphExternalSemaphoresWaitNodeGetParams 11020 (h_node: CUgraphNode,
            params_out: *mut CUDA_EXT_SEM_WAIT_NODE_PARAMS); }
        cuGraphExternalSemaphoresWaitNodeSetParams Mutate Ignored Neutral No { cuGraphExternalSemaphoresWaitNodeSetParams 11020 (h_node: CUgraphNode,
            node_params: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS); }
        cuGraphAddBatchMemOpNode Create Ignored Neutral No { cuGraphAddBatchMemOpNode 11070 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS); }
        cuGraphBatchMemOpNodeGetParams Query Ignored Neutral No { cuGraphBatchMemOpNodeGetParams 11070 (h_node: CUgraphNode,
            node_params_out: *mut CUDA_BATCH_MEM_OP_NODE_PARAMS); }
        cuGraphBatchMemOpNodeSetParams Mutate Ignored Neutral No { cuGraphBatchMemOpNodeSetParams 11070 (h_node: CUgraphNode,
            node_params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS); }
        cuGraphAddMemAllocNode Create Ignored Neutral No { cuGraphAddMemAllocNode 11040 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *mut CUDA_MEM_ALLOC_NODE_PARAMS); }
        cuGraphMemAllocNodeGetParams Query Ignored Neutral No { cuGraphMemAllocNodeGetParams 11040 (h_node: CUgraphNode,
            params_out: *mut CUDA_MEM_ALLOC_NODE_PARAMS); }
        cuGraphAddMemFreeNode Create Ignored Neutral No { cuGraphAddMemFreeNode 11040 (ph_graph_node: *mut CUgraphNode, h_graph: CUgraph,
            dependencies: *const CUgraphNode, num_dependencies: usize, dptr: CUdeviceptr); }
        cuGraphMemFreeNodeGetParams Query Ignored Neutral No { cuGraphMemFreeNodeGetParams 11040 (h_node: CUgraphNode, dptr_out: *mut CUdeviceptr); }
        cuGraphConditionalHandleCreate Create Ignored Neutral No { cuGraphConditionalHandleCreate 12030 (p_handle_out: *mut CUgraphConditionalHandle,
            h_graph: CUgraph, ctx: CUcontext, default_launch_value: c_uint, flags: c_uint); }
        cuGraphDestroyNode Destroy Ignored Neutral No { cuGraphDestroyNode 10000 (h_node: CUgraphNode); }
        cuGraphNodeFindInClone Query Ignored Neutral No { cuGraphNodeFindInClone 10000 (ph_node: *mut CUgraphNode, h_original_node: CUgraphNode,
            h_cloned_graph: CUgraph); }
        cuGraphNodeGetType Query Ignored Neutral No { cuGraphNodeGetType 10000 (h_node: CUgraphNode, type_: *mut CUgraphNodeType); }
        cuGraphNodeGetContainingGraph Query Ignored Neutral No { cuGraphNodeGetContainingGraph 13010 (h_node: CUgraphNode, ph_graph: *mut CUgraph); }
        cuGraphNodeGetLocalId Query Ignored Neutral No { cuGraphNodeGetLocalId 13010 (h_node: CUgraphNode, node_id: *mut c_uint); }
        cuGraphNodeGetToolsId Query Ignored Neutral No { cuGraphNodeGetToolsId 13010 (h_node: CUgraphNode, tools_node_id: *mut c_ulonglong); }
        cuGraphGetId Query Ignored Neutral No { cuGraphGetId 13010 (h_graph: CUgraph, graph_id: *mut c_uint); }

        // Graph structure
        cuGraphGetNodes Query Ignored Neutral No { cuGraphGetNodes 10000 (h_graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize); }
        cuGraphGetRootNodes Query Ignored Neutral No { cuGraphGetRootNodes 10000 (h_graph: CUgraph, root_nodes: *mut CUgraphNode,
            num_root_nodes: *mut usize); }
        cuGraphGetEdges Query Ignored Neutral No {
            cuGraphGetEdges_v2 12030 (h_graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edge_data: *mut CUgraphEdgeData,
                num_edges: *mut usize);
            cuGraphGetEdges 10000 (h_graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, num_edges: *mut usize);
        }
        cuGraphNodeGetDependencies Query Ignored Neutral No {
            cuGraphNodeGetDependencies_v2 12030 (h_node: CUgraphNode, dependencies: *mut CUgraphNode, edge_data: *mut CUgraphEdgeData,
                num_dependencies: *mut usize);
            cuGraphNodeGetDependencies 10000 (h_node: CUgraphNode, dependencies: *mut CUgraphNode, num_dependencies: *mut usize);
        }
        cuGraphNodeGetDependentNodes Query Ignored Neutral No {
            cuGraphNodeGetDependentNodes_v2 12030 (h_node: CUgraphNode, dependent_nodes: *mut CUgraphNode, edge_data: *mut CUgraphEdgeData,
                num_dependent_nodes: *mut usize);
            cuGraphNodeGetDependentNodes 10000 (h_node: CUgraphNode, dependent_nodes: *mut CUgraphNode, num_dependent_nodes: *mut usize);
        }
        cuGraphAddDependencies Mutate Ignored Neutral No {
            cuGraphAddDependencies_v2 12030 (h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edge_data: *const CUgraphEdgeData,
                num_dependencies: usize);
            cuGraphAddDependencies 10000 (h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, num_dependencies: usize);
        }
        cuGraphRemoveDependencies Mutate Ignored Neutral No {
            cuGraphRemoveDependencies_v2 12030 (h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, edge_data: *const CUgraphEdgeData,
                num_dependencies: usize);
            cuGraphRemoveDependencies 10000 (h_graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, num_dependencies: usize);
        }
        cuGraphDebugDotPrint Query Ignored Neutral No { cuGraphDebugDotPrint 11030 (h_graph: CUgraph, path: *const c_char, flags: c_uint); }

        // Executable graphs
        cuGraphInstantiate Create Owner Unsafe No { cuGraphInstantiate_v2 11000 (ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph,
            ph_error_node: *mut CUgraphNode, log_buffer: *mut c_char, buffer_size: usize); }
        // What `cuda.h` calls `cuGraphInstantiate`, since 12.0.
        cuGraphInstantiateWithFlags Create Owner Unsafe No { cuGraphInstantiateWithFlags 11040 (ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph,
            flags: c_ulonglong); }
        cuGraphInstantiateWithParams Create Owner Unsafe No { cuGraphInstantiateWithParams 12000 (ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph,
            instantiate_params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS); }
        cuGraphExecDestroy Destroy Ignored Unsafe No { cuGraphExecDestroy 10000 (h_graph_exec: CUgraphExec); }
        cuGraphExecGetFlags Query Ignored Neutral No { cuGraphExecGetFlags 12000 (h_graph_exec: CUgraphExec, flags: *mut cuuint64_t); }
        cuGraphExecGetId Query Ignored Neutral No { cuGraphExecGetId 13010 (h_graph_exec: CUgraphExec, graph_id: *mut c_uint); }
        cuGraphExecUpdate Mutate Ignored Neutral No { cuGraphExecUpdate_v2 12000 (h_graph_exec: CUgraphExec, h_graph: CUgraph,
            result_info: *mut CUgraphExecUpdateResultInfo); }
        cuGraphUpload Enqueue Ignored Neutral No { cuGraphUpload 11010 (h_graph: CUgraphExec, h_stream: CUstream); }
        cuGraphLaunch Enqueue Ignored Neutral No { cuGraphLaunch 10000 (h_graph: CUgraphExec, h_stream: CUstream); }
        cuGraphExecNodeSetParams Mutate Ignored Neutral No { cuGraphExecNodeSetParams 12020 (h_graph_exec: CUgraphExec, h_node: CUgraphNode,
            node_params: *mut CUgraphNodeParams); }
        cuGraphExecKernelNodeSetParams Mutate Ignored Neutral No { cuGraphExecKernelNodeSetParams_v2 12000 (h_graph_exec: CUgraphExec,
            h_node: CUgraphNode, node_params: *const CUDA_KERNEL_NODE_PARAMS); }
        cuGraphExecMemcpyNodeSetParams Mutate Ignored Neutral No { cuGraphExecMemcpyNodeSetParams 10020 (h_graph_exec: CUgraphExec, h_node: CUgraphNode,
            copy_params: *const CUDA_MEMCPY3D, ctx: CUcontext); }
        cuGraphExecMemsetNodeSetParams Mutate Ignored Neutral No { cuGraphExecMemsetNodeSetParams 10020 (h_graph_exec: CUgraphExec, h_node: CUgraphNode,
            memset_params: *const CUDA_MEMSET_NODE_PARAMS, ctx: CUcontext); }
        cuGraphExecHostNodeSetParams Mutate Ignored Neutral No { cuGraphExecHostNodeSetParams 10020 (h_graph_exec: CUgraphExec, h_node: CUgraphNode,
            node_params: *const CUDA_HOST_NODE_PARAMS); }
        cuGraphExecChildGraphNodeSetParams Mutate Ignored Neutral No { cuGraphExecChildGraphNodeSetParams 11010 (h_graph_exec: CUgraphExec,
            h_node: CUgraphNode, child_graph: CUgraph); }
        cuGraphExecEventRecordNodeSetEvent Mutate Ignored Neutral No { cuGraphExecEventRecordNodeSetEvent 11010 (h_graph_exec: CUgraphExec,
            h_node: CUgraphNode, event: CUevent); }
        cuGraphExecEventWaitNodeSetEvent Mutate Ignored Neutral No { cuGraphExecEventWaitNodeSetEvent 11010 (h_graph_exec: CUgraphExec,
            h_node: CUgraphNode, event: CUevent); }
        cuGraphExecExternalSemaphoresSignalNodeSetParams Mutate Ignored Neutral No { cuGraphExecExternalSemaphoresSignalNodeSetParams 11020 (h_graph_exec: CUgraphExec,
            h_node: CUgraphNode, node_params: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS); }
        cuGraphExecExternalSemaphoresWaitNodeSetParams Mutate Ignored Neutral No { cuGraphExecExternalSemaphoresWaitNodeSetParams 11020 (h_graph_exec: CUgraphExec,
            h_node: CUgraphNode, node_params: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS); }
        cuGraphExecBatchMemOpNodeSetParams Mutate Ignored Neutral No { cuGraphExecBatchMemOpNodeSetParams 11070 (h_graph_exec: CUgraphExec,
            h_node: CUgraphNode, node_params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS); }
        cuGraphNodeSetEnabled Mutate Ignored Neutral No { cuGraphNodeSetEnabled 11060 (h_graph_exec: CUgraphExec, h_node: CUgraphNode,
            is_enabled: c_uint); }
        cuGraphNodeGetEnabled Query Ignored Neutral No { cuGraphNodeGetEnabled 11060 (h_graph_exec: CUgraphExec, h_node: CUgraphNode,
            is_enabled: *mut c_uint); }

        // Graph memory
        cuDeviceGraphMemTrim Mutate Ignored Neutral No { cuDeviceGraphMemTrim 11040 (device: CUdevice); }
        cuDeviceGetGraphMemAttribute Query Ignored Neutral No { cuDeviceGetGraphMemAttribute 11040 (device: CUdevice, attr: CUgraphMem_attribute,
            value: *mut c_void); }
        cuDeviceSetGraphMemAttribute Mutate Ignored Neutral No { cuDeviceSetGraphMemAttribute 11040 (device: CUdevice, attr: CUgraphMem_attribute,
            value: *mut c_void); }

        // User objects
        cuUserObjectCreate Create Ignored Neutral No { cuUserObjectCreate 11030 (object_out: *mut CUuserObject, ptr: *mut c_void, destroy: CUhostFn,
            initial_refcount: c_uint, flags: c_uint); }
        cuUserObjectRetain Mutate Ignored Neutral No { cuUserObjectRetain 11030 (object: CUuserObject, count: c_uint); }
        cuUserObjectRelease Destroy Ignored Neutral No { cuUserObjectRelease 11030 (object: CUuserObject, count: c_uint); }
        cuGraphRetainUserObject Mutate Ignored Neutral No { cuGraphRetainUserObject 11030 (graph: CUgraph, object: CUuserObject, count: c_uint,
            flags: c_uint); }
        cuGraphReleaseUserObject Mutate Ignored Neutral No { cuGraphReleaseUserObject 11030 (graph: CUgraph, object: CUuserObject, count: c_uint); }

        // Checkpoint
        cuCheckpointProcessGetRestoreThreadId Query Ignored Neutral No { cuCheckpointProcessGetRestoreThreadId 12080 (pid: c_int, tid: *mut c_int); }
        cuCheckpointProcessGetState Query Ignored Neutral No { cuCheckpointProcessGetState 12080 (pid: c_int, state: *mut CUprocessState); }
        cuCheckpointProcessLock Mutate Ignored Neutral No { cuCheckpointProcessLock 12080 (pid: c_int, args: *mut CUcheckpointLockArgs); }
        cuCheckpointProcessCheckpoint Mutate Ignored Neutral No { cuCheckpointProcessCheckpoint 12080 (pid: c_int,
            args: *mut CUcheckpointCheckpointArgs); }
        cuCheckpointProcessRestore Mutate Ignored Neutral No { cuCheckpointProcessRestore 12080 (pid: c_int, args: *mut CUcheckpointRestoreArgs); }
        cuCheckpointProcessUnlock Mutate Ignored Neutral No { cuCheckpointProcessUnlock 12080 (pid: c_int, args: *mut CUcheckpointUnlockArgs); }
    } };
}
