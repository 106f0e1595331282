//! The raw driver: each function through a plain pointer, as a C program calls it.

use cuhold::{
    driver_sys::{DriverApi as _, ffi::*},
    sim::Sim,
};
use libloading::Library;
use std::ptr;

macro_rules! raw {
    ($($name:ident ($($argument:ident : $type:ty),*);)*) => {
        /// The functions that the benches call.
        pub(crate) enum Raw {
            /// Pointers into the driver's library.
            Loaded(Box<Pointers>),
            /// The simulated driver's methods.
            Simulated(Sim),
        }

        #[expect(non_snake_case, reason = "the driver's own names")]
        pub(crate) struct Pointers {
            $($name: unsafe extern "C" fn($($type),*) -> CUresult,)*
        }

        impl Pointers {
            fn load() -> Self {
                // SAFETY: the driver's library, which is loaded already.
                let library = Box::leak(Box::new(unsafe { Library::new("libcuda.so.1") }.unwrap()));
                // SAFETY: each symbol has the signature that CUDA declares for it.
                Self { $($name: *unsafe { library.get(stringify!($name)) }.unwrap(),)* }
            }
        }

        #[expect(non_snake_case, reason = "the driver's own names")]
        impl Raw {
            $(
                #[inline]
                pub(crate) fn $name(&self, $($argument: $type),*) {
                    let status = match self {
                        // SAFETY: the benches call as CUDA documents.
                        Self::Loaded(pointers) => unsafe { (pointers.$name)($($argument),*) },
                        // SAFETY: as above.
                        Self::Simulated(sim) => unsafe { sim.$name($($argument),*) },
                    };
                    assert!(status.is_success(), "{}: {status}", stringify!($name));
                }
            )*
        }
    };
}

raw! {
    cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    cuStreamDestroy_v2(stream: CUstream);
    cuStreamSynchronize(stream: CUstream);
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    cuEventDestroy_v2(event: CUevent);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    cuLaunchKernelEx(config: *const CUlaunchConfig, function: CUfunction, arguments: *mut *mut c_void, extra: *mut *mut c_void);
    cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
    cuGraphDestroy(graph: CUgraph);
    cuGraphAddKernelNode_v2(node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize, params: *const CUDA_KERNEL_NODE_PARAMS);
    cuGraphExecKernelNodeSetParams_v2(exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS);
    cuGraphInstantiateWithParams(exec: *mut CUgraphExec, graph: CUgraph, params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS);
    cuGraphExecDestroy(exec: CUgraphExec);
    cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    cuMemAllocFromPoolAsync(pointer: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream);
    cuMemFreeAsync(pointer: CUdeviceptr, stream: CUstream);
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemsetD8Async(pointer: CUdeviceptr, value: c_uchar, bytes: usize, stream: CUstream);
    cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize);
    cuMemFree_v2(pointer: CUdeviceptr);
    cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(pointer: *mut c_void);
    cuCtxGetCurrent(context: *mut CUcontext);
    cuCtxSetCurrent(context: CUcontext);
}

impl Raw {
    pub(crate) fn load() -> Self {
        Self::Loaded(Box::new(Pointers::load()))
    }

    pub(crate) fn simulated(sim: Sim) -> Self {
        Self::Simulated(sim)
    }

    pub(crate) fn new_stream(&self) -> CUstream {
        let mut stream = CUstream::NULL;
        self.cuStreamCreateWithPriority(
            &raw mut stream,
            CUstream_flags::CU_STREAM_NON_BLOCKING.0,
            0,
        );
        stream
    }

    pub(crate) fn new_event(&self) -> CUevent {
        let mut event = CUevent::NULL;
        self.cuEventCreate(&raw mut event, CUevent_flags::CU_EVENT_DISABLE_TIMING.0);
        event
    }

    pub(crate) fn instantiate(&self, graph: CUgraph) -> CUgraphExec {
        let (mut exec, mut params) = (CUgraphExec::NULL, CUDA_GRAPH_INSTANTIATE_PARAMS::default());
        self.cuGraphInstantiateWithParams(&raw mut exec, graph, &raw mut params);
        exec
    }

    /// Page-locked memory of the host, to be freed with `cuMemFreeHost`.
    pub(crate) fn new_host(&self, bytes: usize) -> *mut c_void {
        let mut pointer = ptr::null_mut();
        self.cuMemHostAlloc(&raw mut pointer, bytes, 0);
        pointer
    }

    pub(crate) fn launch(&self, function: CUfunction, stream: CUstream) {
        let config = CUlaunchConfig {
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: stream,
            attrs: ptr::null_mut(),
            numAttrs: 0,
        };
        self.cuLaunchKernelEx(&raw const config, function, ptr::null_mut(), ptr::null_mut());
    }
}
