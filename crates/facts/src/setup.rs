//! Set-up that many probes share: a current context, streams, events, memory, code, captures.

#![expect(unsafe_code, reason = "set-up is driver calls")]

use core::ffi::CStr;

use cuhold_driver_sys::{Failure, ffi::*};

use crate::{
    ctx::Ctx,
    host::{self, Gate, HostMemory},
    image,
};

/// What set-up gives, or the call that failed.
pub(crate) type Made<T> = Result<T, Failure>;

impl Ctx {
    /// The driver initialized; device 0.
    pub(crate) fn device(&self) -> Made<CUdevice> {
        must!(self.cuInit(0));
        let mut device = 0;
        must!(self.cuDeviceGet(&raw mut device, 0));
        Ok(device)
    }

    /// The device's primary context, retained once and current.
    pub(crate) fn current(&self) -> Made<CUcontext> {
        let device = self.device()?;
        let mut context = CUcontext::NULL;
        must!(self.cuDevicePrimaryCtxRetain(&raw mut context, device));
        must!(self.cuCtxSetCurrent(context));
        Ok(context)
    }

    /// A context of its own, on top of this thread's stack.
    pub(crate) fn context(&self) -> Made<CUcontext> {
        let device = self.device()?;
        let mut context = CUcontext::NULL;
        must!(self.cuCtxCreate_v4(&raw mut context, core::ptr::null_mut(), 0, device));
        Ok(context)
    }

    /// A context of its own, current nowhere.
    pub(crate) fn context_aside(&self) -> Made<CUcontext> {
        let context = self.context()?;
        must!(self.cuCtxPopCurrent_v2(core::ptr::null_mut()));
        Ok(context)
    }

    /// What is current on this thread.
    pub(crate) fn what_is_current(&self) -> Made<CUcontext> {
        let mut context = CUcontext::NULL;
        must!(self.cuCtxGetCurrent(&raw mut context));
        Ok(context)
    }

    /// Empties this thread's stack and gives its depth. Gives up at 16.
    pub(crate) fn empty_stack(&self) -> u32 {
        for depth in 0..16 {
            // SAFETY: *pointers*: null is allowed (the driver was seen to accept it). *Handles*, *calls back*: none.
            let status = unsafe { self.driver().cuCtxPopCurrent_v2(core::ptr::null_mut()) };
            if !status.is_success() {
                return depth;
            }
        }
        16
    }

    /// A stream that doesn't wait for the legacy default stream.
    pub(crate) fn stream(&self) -> Made<CUstream> {
        self.stream_with(CUstream_flags::CU_STREAM_NON_BLOCKING)
    }

    /// A stream that waits for the legacy default stream, and the other way round.
    pub(crate) fn blocking_stream(&self) -> Made<CUstream> {
        self.stream_with(CUstream_flags::CU_STREAM_DEFAULT)
    }

    fn stream_with(&self, flags: CUstream_flags) -> Made<CUstream> {
        let mut stream = CUstream::NULL;
        must!(self.cuStreamCreate(&raw mut stream, flags.0));
        Ok(stream)
    }

    /// Waits for all work of a stream.
    pub(crate) fn wait_for(&self, stream: CUstream) -> Made<()> {
        must!(self.cuStreamSynchronize(stream));
        Ok(())
    }

    /// Keeps a stream busy until the gate is opened.
    pub(crate) fn busy(&self, stream: CUstream) -> Made<&'static Gate> {
        let gate = host::leak(Gate::default());
        must!(self.cuLaunchHostFunc(stream, Some(host::wait_at_gate), host::user(gate)));
        Ok(gate)
    }

    /// An event that takes times.
    pub(crate) fn event(&self) -> Made<CUevent> {
        self.event_with(CUevent_flags::CU_EVENT_DEFAULT)
    }

    /// An event with these flags.
    pub(crate) fn event_with(&self, flags: CUevent_flags) -> Made<CUevent> {
        let mut event = CUevent::NULL;
        must!(self.cuEventCreate(&raw mut event, flags.0));
        Ok(event)
    }

    /// Device memory of the current context.
    pub(crate) fn memory(&self, bytes: usize) -> Made<CUdeviceptr> {
        let mut memory = 0;
        must!(self.cuMemAlloc_v2(&raw mut memory, bytes));
        Ok(memory)
    }

    /// Page-locked memory of the current context: `words` of 4 bytes.
    pub(crate) fn pinned(&self, words: usize) -> Made<HostMemory> {
        let mut start: *mut c_void = core::ptr::null_mut();
        must!(self.cuMemAllocHost_v2(&raw mut start, words * 4));
        Ok(HostMemory::of_driver(start, words))
    }

    /// Managed memory, visible everywhere.
    pub(crate) fn managed(&self, bytes: usize) -> Made<CUdeviceptr> {
        let mut memory = 0;
        let flags = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0;
        must!(self.cuMemAllocManaged(&raw mut memory, bytes, flags));
        Ok(memory)
    }

    /// Device 0, as a location.
    pub(crate) fn here(&self) -> Made<CUmemLocation> {
        Ok(location(self.device()?))
    }

    /// What a pool on this device is made of.
    pub(crate) fn pool_props(&self) -> Made<CUmemPoolProps> {
        Ok(CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            location: self.here()?,
            ..CUmemPoolProps::default()
        })
    }

    /// A pool on this device, without a limit.
    pub(crate) fn pool(&self) -> Made<CUmemoryPool> {
        let props = self.pool_props()?;
        let mut pool = CUmemoryPool::NULL;
        must!(self.cuMemPoolCreate(&raw mut pool, &raw const props));
        Ok(pool)
    }

    /// The device's default pool.
    pub(crate) fn default_pool(&self) -> Made<CUmemoryPool> {
        let device = self.device()?;
        let mut pool = CUmemoryPool::NULL;
        must!(self.cuDeviceGetDefaultMemPool(&raw mut pool, device));
        Ok(pool)
    }

    /// Memory of a pool, ready for use on any stream.
    pub(crate) fn pool_memory(
        &self,
        bytes: usize,
        pool: CUmemoryPool,
        stream: CUstream,
    ) -> Made<CUdeviceptr> {
        let mut memory = 0;
        must!(self.cuMemAllocFromPoolAsync(&raw mut memory, bytes, pool, stream));
        self.wait_for(stream)?;
        Ok(memory)
    }

    /// A pool's attribute of 64 bits.
    pub(crate) fn pool_attribute(
        &self,
        pool: CUmemoryPool,
        attribute: CUmemPool_attribute,
    ) -> Made<u64> {
        let mut value = 0_u64;
        must!(self.cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()));
        Ok(value)
    }

    /// The kernels of [`image::KERNELS`], loaded into the current context.
    pub(crate) fn module(&self) -> Made<CUmodule> {
        let mut module = CUmodule::NULL;
        must!(self.cuModuleLoadData(&raw mut module, image::KERNELS.as_ptr().cast()));
        Ok(module)
    }

    /// A function of [`module`](Self::module).
    pub(crate) fn function(&self, name: &CStr) -> Made<CUfunction> {
        let module = self.module()?;
        let mut function = CUfunction::NULL;
        must!(self.cuModuleGetFunction(&raw mut function, module, name.as_ptr()));
        Ok(function)
    }

    /// The kernels of [`image::KERNELS`], loaded without a context.
    pub(crate) fn library(&self) -> Made<CUlibrary> {
        self.library_of(image::KERNELS)
    }

    /// An image, loaded without a context.
    pub(crate) fn library_of(&self, image: &CStr) -> Made<CUlibrary> {
        let mut library = CUlibrary::NULL;
        must!(self.cuLibraryLoadData(
            &raw mut library,
            image.as_ptr().cast(),
            core::ptr::null_mut(),
            core::ptr::null_mut(),
            0,
            core::ptr::null_mut(),
            core::ptr::null_mut(),
            0
        ));
        Ok(library)
    }

    /// A kernel of [`library`](Self::library).
    pub(crate) fn kernel(&self, name: &CStr) -> Made<CUkernel> {
        let library = self.library()?;
        let mut kernel = CUkernel::NULL;
        must!(self.cuLibraryGetKernel(&raw mut kernel, library, name.as_ptr()));
        Ok(kernel)
    }

    /// Launches one block of one thread of a function without parameters.
    pub(crate) fn launch(&self, function: CUfunction, stream: CUstream) -> Made<()> {
        let none = core::ptr::null_mut();
        must!(self.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, none, none));
        Ok(())
    }

    /// Makes the context's every later call fail: a kernel that writes where nothing is.
    pub(crate) fn fault(&self, stream: CUstream) -> Made<()> {
        self.store(stream, 0x10)
    }

    /// Launches a kernel that writes a 1 of 32 bits to an address.
    pub(crate) fn store(&self, stream: CUstream, address: CUdeviceptr) -> Made<()> {
        let function = self.function(c"fault")?;
        let mut address = address;
        let mut parameters = [(&raw mut address).cast::<c_void>()];
        let none = core::ptr::null_mut();
        let list = parameters.as_mut_ptr();
        must!(self.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, list, none));
        Ok(())
    }

    /// Begins a capture.
    pub(crate) fn capture(&self, stream: CUstream, mode: CUstreamCaptureMode) -> Made<()> {
        must!(self.cuStreamBeginCapture_v2(stream, mode));
        Ok(())
    }

    /// Begins a capture that forbids unsafe calls on every thread.
    pub(crate) fn capture_globally(&self, stream: CUstream) -> Made<()> {
        self.capture(stream, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)
    }

    /// Begins a capture that forbids nothing.
    pub(crate) fn capture_relaxed(&self, stream: CUstream) -> Made<()> {
        self.capture(stream, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
    }

    /// The state of a stream's capture.
    pub(crate) fn capture_status(&self, stream: CUstream) -> Made<CUstreamCaptureStatus> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        must!(self.cuStreamIsCapturing(stream, &raw mut status));
        Ok(status)
    }

    /// Takes the state of a stream's capture into the answer.
    pub(crate) fn note_capturing(&mut self, stream: CUstream) -> Made<()> {
        let status = self.capture_status(stream)?;
        self.note_capture("capture", status);
        Ok(())
    }

    /// Ends a capture; what that answered and wrote is part of the answer.
    pub(crate) fn end(&mut self, stream: CUstream) -> Made<()> {
        let untouched = CUgraph::from_addr(8);
        let mut graph = untouched;
        ask!(self.cuStreamEndCapture(stream, &raw mut graph), "end");
        let wrote = match graph {
            CUgraph::NULL => "null",
            graph if graph == untouched => "untouched",
            _ => "made",
        };
        self.note("graph", wrote);
        Ok(())
    }

    /// An empty graph.
    pub(crate) fn graph(&self) -> Made<CUgraph> {
        let mut graph = CUgraph::NULL;
        must!(self.cuGraphCreate(&raw mut graph, 0));
        Ok(graph)
    }

    /// An empty node of a graph, behind nothing.
    pub(crate) fn node(&self, graph: CUgraph) -> Made<CUgraphNode> {
        let mut node = CUgraphNode::NULL;
        must!(self.cuGraphAddEmptyNode(&raw mut node, graph, core::ptr::null(), 0));
        Ok(node)
    }
}

/// A device, as a location.
pub(crate) fn location(device: CUdevice) -> CUmemLocation {
    CUmemLocation::device(device)
}
