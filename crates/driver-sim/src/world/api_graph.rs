//! The part of the list in `api.rs` that is about graphs.

/// Hands the list to a macro, behind what that is to take before it.
macro_rules! with_graphs {
    ($list:ident { $($before:tt)* }) => { $list! {
        $($before)*

    // Graphs and user objects
    graph::create = cuGraphCreate(out: *mut CUgraph, flags: c_uint);
    graph::destroy = cuGraphDestroy(graph: CUgraph);
    graph::clone = cuGraphClone(out: *mut CUgraph, original: CUgraph);
    graph::find_in_clone = cuGraphNodeFindInClone(out: *mut CUgraphNode, original: CUgraphNode, clone: CUgraph);
    graph::nodes = cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
    graph::root_nodes = cuGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
    graph::node_type = cuGraphNodeGetType(node: CUgraphNode, kind: *mut CUgraphNodeType);
    graph::containing_graph = cuGraphNodeGetContainingGraph(node: CUgraphNode, out: *mut CUgraph);
    graph::local_id = cuGraphNodeGetLocalId(node: CUgraphNode, id: *mut c_uint);
    graph::tools_id = cuGraphNodeGetToolsId(node: CUgraphNode, id: *mut c_ulonglong);
    graph::graph_id = cuGraphGetId(graph: CUgraph, id: *mut c_uint);
    graph::destroy_node = cuGraphDestroyNode(node: CUgraphNode);
    graph::print = cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, flags: c_uint);

    // Edges of graphs
    graph::edges = cuGraphGetEdges(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize);
    graph::edges_v2 = cuGraphGetEdges_v2(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode,
        data: *mut CUgraphEdgeData, count: *mut usize);
    graph::dependencies = cuGraphNodeGetDependencies(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize);
    graph::dependencies_v2 = cuGraphNodeGetDependencies_v2(node: CUgraphNode, nodes: *mut CUgraphNode,
        data: *mut CUgraphEdgeData, count: *mut usize);
    graph::dependents = cuGraphNodeGetDependentNodes(node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize);
    graph::dependents_v2 = cuGraphNodeGetDependentNodes_v2(node: CUgraphNode, nodes: *mut CUgraphNode,
        data: *mut CUgraphEdgeData, count: *mut usize);
    graph::add_dependencies = cuGraphAddDependencies(graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
        count: usize);
    graph::add_dependencies_v2 = cuGraphAddDependencies_v2(graph: CUgraph, from: *const CUgraphNode,
        to: *const CUgraphNode, data: *const CUgraphEdgeData, count: usize);
    graph::remove_dependencies = cuGraphRemoveDependencies(graph: CUgraph, from: *const CUgraphNode,
        to: *const CUgraphNode, count: usize);
    graph::remove_dependencies_v2 = cuGraphRemoveDependencies_v2(graph: CUgraph, from: *const CUgraphNode,
        to: *const CUgraphNode, data: *const CUgraphEdgeData, count: usize);

    // Nodes of graphs
    graph::add_node = cuGraphAddNode(out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
        count: usize, params: *mut CUgraphNodeParams);
    graph::add_node_v2 = cuGraphAddNode_v2(out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
        data: *const CUgraphEdgeData, count: usize, params: *mut CUgraphNodeParams);
    graph::set_params = cuGraphNodeSetParams(node: CUgraphNode, params: *mut CUgraphNodeParams);
    graph::node_params = cuGraphNodeGetParams(node: CUgraphNode, params: *mut CUgraphNodeParams);
    graph::add_kernel = cuGraphAddKernelNode_v2(out: *mut CUgraphNode, graph: CUgraph,
        dependencies: *const CUgraphNode, count: usize, params: *const CUDA_KERNEL_NODE_PARAMS);
    graph::kernel_params = cuGraphKernelNodeGetParams_v2(node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS);
    graph::set_kernel = cuGraphKernelNodeSetParams_v2(node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS);
    graph::copy_attributes = cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode);
    graph::node_attribute = cuGraphKernelNodeGetAttribute(node: CUgraphNode, attribute: CUkernelNodeAttrID,
        value: *mut CUkernelNodeAttrValue);
    graph::set_node_attribute = cuGraphKernelNodeSetAttribute(node: CUgraphNode, attribute: CUkernelNodeAttrID,
        value: *const CUkernelNodeAttrValue);
    graph::add_memcpy = cuGraphAddMemcpyNode(out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
        count: usize, copy: *const CUDA_MEMCPY3D, ctx: CUcontext);
    graph::memcpy_params = cuGraphMemcpyNodeGetParams(node: CUgraphNode, copy: *mut CUDA_MEMCPY3D);
    graph::set_memcpy = cuGraphMemcpyNodeSetParams(node: CUgraphNode, copy: *const CUDA_MEMCPY3D);
    graph::add_memset = cuGraphAddMemsetNode(out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
        count: usize, params: *const CUDA_MEMSET_NODE_PARAMS, ctx: CUcontext);
    graph::memset_params = cuGraphMemsetNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMSET_NODE_PARAMS);
    graph::set_memset = cuGraphMemsetNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS);
    graph::add_host = cuGraphAddHostNode(out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
        count: usize, params: *const CUDA_HOST_NODE_PARAMS);
    graph::host_params = cuGraphHostNodeGetParams(node: CUgraphNode, params: *mut CUDA_HOST_NODE_PARAMS);
    graph::set_host = cuGraphHostNodeSetParams(node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS);
    graph::add_child = cuGraphAddChildGraphNode(out: *mut CUgraphNode, graph: CUgraph,
        dependencies: *const CUgraphNode, count: usize, child: CUgraph);
    graph::child_graph = cuGraphChildGraphNodeGetGraph(node: CUgraphNode, out: *mut CUgraph);
    graph::add_empty = cuGraphAddEmptyNode(out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
        count: usize);
    graph::add_record = cuGraphAddEventRecordNode(out: *mut CUgraphNode, graph: CUgraph,
        dependencies: *const CUgraphNode, count: usize, event: CUevent);
    graph::record_event = cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent);
    graph::set_event = cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent);
    graph::add_wait = cuGraphAddEventWaitNode(out: *mut CUgraphNode, graph: CUgraph,
        dependencies: *const CUgraphNode, count: usize, event: CUevent);
    graph::wait_event = cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent);
    graph::set_wait_event = cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent);
    graph::add_signal = cuGraphAddExternalSemaphoresSignalNode(out: *mut CUgraphNode, graph: CUgraph,
        dependencies: *const CUgraphNode, count: usize, params: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    graph::signal_params = cuGraphExternalSemaphoresSignalNodeGetParams(node: CUgraphNode,
        params: *mut CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    graph::set_signal = cuGraphExternalSemaphoresSignalNodeSetParams(node: CUgraphNode,
        params: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    graph::add_wait_semaphores = cuGraphAddExternalSemaphoresWaitNode(out: *mut CUgraphNode, graph: CUgraph,
        dependencies: *const CUgraphNode, count: usize, params: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    graph::wait_params = cuGraphExternalSemaphoresWaitNodeGetParams(node: CUgraphNode,
        params: *mut CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    graph::set_wait_semaphores = cuGraphExternalSemaphoresWaitNodeSetParams(node: CUgraphNode,
        params: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    graph::add_batch = cuGraphAddBatchMemOpNode(out: *mut CUgraphNode, graph: CUgraph,
        dependencies: *const CUgraphNode, count: usize, params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
    graph::batch_params = cuGraphBatchMemOpNodeGetParams(node: CUgraphNode, params: *mut CUDA_BATCH_MEM_OP_NODE_PARAMS);
    graph::set_batch = cuGraphBatchMemOpNodeSetParams(node: CUgraphNode, params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
    graph::add_alloc = cuGraphAddMemAllocNode(out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
        count: usize, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS);
    graph::alloc_params = cuGraphMemAllocNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS);
    graph::add_free = cuGraphAddMemFreeNode(out: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
        count: usize, address: CUdeviceptr);
    graph::free_params = cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut CUdeviceptr);
    graph::handle_create = cuGraphConditionalHandleCreate(out: *mut CUgraphConditionalHandle, graph: CUgraph,
        ctx: CUcontext, default: c_uint, flags: c_uint);

    // Executable graphs
    graph::instantiate = cuGraphInstantiate_v2(out: *mut CUgraphExec, graph: CUgraph, error_node: *mut CUgraphNode,
        log: *mut c_char, room: usize);
    graph::instantiate_with_flags = cuGraphInstantiateWithFlags(out: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    graph::instantiate_with_params = cuGraphInstantiateWithParams(out: *mut CUgraphExec, graph: CUgraph,
        params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS);
    graph::exec_destroy = cuGraphExecDestroy(exec: CUgraphExec);
    graph::exec_flags = cuGraphExecGetFlags(exec: CUgraphExec, flags: *mut cuuint64_t);
    graph::exec_id = cuGraphExecGetId(exec: CUgraphExec, id: *mut c_uint);
    graph::exec_update = cuGraphExecUpdate_v2(exec: CUgraphExec, graph: CUgraph,
        info: *mut CUgraphExecUpdateResultInfo);
    graph::exec_set_node = cuGraphExecNodeSetParams(exec: CUgraphExec, node: CUgraphNode,
        params: *mut CUgraphNodeParams);
    graph::exec_set_kernel = cuGraphExecKernelNodeSetParams_v2(exec: CUgraphExec, node: CUgraphNode,
        params: *const CUDA_KERNEL_NODE_PARAMS);
    graph::exec_set_memcpy = cuGraphExecMemcpyNodeSetParams(exec: CUgraphExec, node: CUgraphNode,
        copy: *const CUDA_MEMCPY3D, ctx: CUcontext);
    graph::exec_set_memset = cuGraphExecMemsetNodeSetParams(exec: CUgraphExec, node: CUgraphNode,
        params: *const CUDA_MEMSET_NODE_PARAMS, ctx: CUcontext);
    graph::exec_set_host = cuGraphExecHostNodeSetParams(exec: CUgraphExec, node: CUgraphNode,
        params: *const CUDA_HOST_NODE_PARAMS);
    graph::exec_set_child = cuGraphExecChildGraphNodeSetParams(exec: CUgraphExec, node: CUgraphNode, child: CUgraph);
    graph::exec_set_record = cuGraphExecEventRecordNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent);
    graph::exec_set_wait = cuGraphExecEventWaitNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent);
    graph::exec_set_signal = cuGraphExecExternalSemaphoresSignalNodeSetParams(exec: CUgraphExec, node: CUgraphNode,
        params: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    graph::exec_set_wait_semaphores = cuGraphExecExternalSemaphoresWaitNodeSetParams(exec: CUgraphExec,
        node: CUgraphNode, params: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    graph::exec_set_batch = cuGraphExecBatchMemOpNodeSetParams(exec: CUgraphExec, node: CUgraphNode,
        params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
    graph::set_node_enabled = cuGraphNodeSetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: c_uint);
    graph::node_enabled = cuGraphNodeGetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: *mut c_uint);
    graph::upload = cuGraphUpload(exec: CUgraphExec, stream: CUstream);
    graph::launch = cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    graph::user_object_create = cuUserObjectCreate(out: *mut CUuserObject, data: *mut c_void, destroy: CUhostFn,
        count: c_uint, flags: c_uint);
    graph::user_object_retain = cuUserObjectRetain(object: CUuserObject, count: c_uint);
    graph::user_object_release = cuUserObjectRelease(object: CUuserObject, count: c_uint);
    graph::graph_retain = cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: c_uint,
        flags: c_uint);
    graph::graph_release = cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: c_uint);
    graph::device_trim = cuDeviceGraphMemTrim(dev: CUdevice);
    graph::device_memory = cuDeviceGetGraphMemAttribute(dev: CUdevice, attribute: CUgraphMem_attribute,
        value: *mut c_void);
    graph::device_set_memory = cuDeviceSetGraphMemAttribute(dev: CUdevice, attribute: CUgraphMem_attribute,
        value: *mut c_void);
    } };
}

pub(super) use with_graphs;
