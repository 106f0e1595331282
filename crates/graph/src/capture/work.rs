//! Work on a captured stream: the driver's enqueuing calls, which make nodes there.
//!
//! What the work uses is kept before the call is made, so that nothing that the driver may have taken can dangle; it is let
//! go of only where the driver wasn't asked.

#![expect(unsafe_code, reason = "calls the driver's stream functions")]

use super::{GraphBuilder, books::Books, state::Role};
use crate::{
    ends::{CopySource, CopyTarget, Ends, Kept},
    graph::{NodeKind, host_params},
    host_memory::SharedHost,
    keep::Operand,
};
use cuhold_handles::{
    AsStream, Driver, Error, Event, KeepAlive, Kernel, KernelArgs, LaunchConfig, Result, Stream,
    StreamRef,
    driver_sys::{
        CUresult, Calls, Failure,
        ffi::{
            CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUdeviceptr, CUevent_record_flags,
            CUevent_wait_flags, CUmemorytype, CUstream, c_void,
        },
    },
    scope,
};
use cuhold_memory::{HostSource, bytemuck::Pod};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;

/// The stream of a builder, for the builder's own work.
struct Own<'a>(&'a Stream);

impl AsStream for Own<'_> {
    fn as_stream(&self) -> StreamRef<'_> {
        StreamRef::for_builder(self.0)
    }
}

/// Arguments that aren't told of the launch: the graph keeps their memory, and a mark on a captured stream would mark
/// nothing that anybody could wait for.
struct Untold<A>(A);

// SAFETY: those of the arguments inside.
unsafe impl<A: KernelArgs> KernelArgs for Untold<A> {
    fn with<T>(
        &self,
        driver: &Driver,
        use_them: impl FnOnce(&mut [*mut c_void], &[usize]) -> Result<T>,
    ) -> Result<T> {
        self.0.with(driver, use_them)
    }

    fn keep(&self, each: &mut dyn FnMut(KeepAlive)) {
        self.0.keep(each);
    }
}

/// Whether work may be captured although its call failed.
fn may_be_captured(error: &Error) -> bool {
    error.completed().is_some() || (error.call().is_some() && !error.is(CUresult::MISSING))
}

impl GraphBuilder {
    /// Captures work that uses these operands.
    pub(super) fn work<T>(
        &mut self,
        operands: impl IntoIterator<Item = Operand, IntoIter: ExactSizeIterator>,
        call: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let operands = operands.into_iter();
        self.capture.lock().state.may_work(self.member)?;
        self.driver().check_callable()?;
        let keeper = self.keeper();
        let attached = keeper.lock().attach(operands.len(), operands)?;
        call(self).inspect_err(|error| {
            self.failed(error);
            if !may_be_captured(error) {
                keeper.lock().detach(attached, self.driver());
            }
        })
    }

    /// The books whose graph keeps what the work uses: a body that is captured directly has none to keep anything.
    fn keeper(&self) -> Arc<Mutex<Books>> {
        let role = self.capture.lock().state.role();
        match role {
            Role::Graph | Role::Apart => Arc::clone(&self.capture),
            Role::Direct => self.root(),
        }
    }

    /// A call on the stream.
    fn call(&self, call: impl FnOnce(Calls<'_>) -> Result<(), Failure>) -> Result<()> {
        call(self.driver().calls()).map_err(|failure| self.driver().error(failure))
    }

    /// A copy, which minds what is current.
    pub(super) fn copying(&self, call: impl Fn(Calls<'_>) -> Result<(), Failure>) -> Result<()> {
        scope::run_on_device(self.context().target(), call)
    }

    /// Captures the launch of a kernel. The arguments' values are copied during the call; the kernel and the memory of buffers
    /// among the arguments are kept alive, that of views isn't.
    ///
    /// The number of arguments and the size of each are compared with the kernel's parameters where the driver tells them.
    ///
    /// Calls `cuLaunchKernelEx`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; a kernel or a buffer of
    /// another driver; arguments that don't fit the parameters; the calls' failures.
    ///
    /// # Safety
    /// - *layout*: the arguments are what the kernel's parameters are;
    /// - *bounds*: at each launch of the graph the kernel reads and writes no memory but that of buffers among the arguments,
    ///   within their bounds, or memory that is alive by other means.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{CaptureMode, GraphBuilder, handles::{Device, Driver, LaunchConfig}};
    /// # let sim = cuhold_driver_sim::Sim::new();
    /// # sim.register_kernel("nop", |_| Ok(()));
    /// # let device = Device::with_driver(&Driver::from_api(sim), 0)?;
    /// # let stream = device.new_stream()?;
    /// let ptx = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nop() { ret; }";
    /// let kernel = device.load(ptx)?.kernel("nop")?;
    /// let mut builder = GraphBuilder::begin(&stream, CaptureMode::ThreadLocal)?;
    /// // SAFETY: the kernel has no parameters and touches no memory.
    /// unsafe { builder.launch(&kernel, LaunchConfig::for_len(1000), ())? };
    /// let graph = builder.end()?;
    /// # Ok::<(), cuhold_graph::handles::Error>(())
    /// ```
    #[doc(alias = "cuLaunchKernelEx")]
    pub unsafe fn launch<A: KernelArgs>(
        &mut self,
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        self.driver().check_same(kernel.driver(), "kernel")?;
        let mut kept: SmallVec<[Operand; 8]> = SmallVec::new();
        kept.push(Operand::Kernel(kernel.clone()));
        args.keep(&mut |value| kept.push(Operand::Value(value)));
        self.work(kept, |this| {
            // SAFETY: *layout*, *bounds*: the caller's promise. *Ordering*: that of the graph.
            unsafe { kernel.launch(&Own(&this.stream), config, Untold(args)) }
        })
    }

    /// Captures a copy on the device: between buffers, ranges, boxes of the same sizes, or memory that the same capture
    /// allocates. Both buffers are kept alive. What has no bytes is no copy.
    ///
    /// Calls `cuMemcpyDtoDAsync`, or `cuMemcpy3DAsync` for boxes and memory of the host's pools; every 256th time that something
    /// is kept also `cuUserObjectCreate` and `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work;
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): other sizes, memory of another driver or of another graph;
    /// the calls' failures.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{CaptureMode, GraphBuilder, handles::{Device, Driver}};
    /// # use cuhold_memory::{Buffer, Grid};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let image = Buffer::from_slice(&stream, &[1, 2, 3, 4, 5, 6, 7, 8, 9])?;
    /// let mut corner = Buffer::<i32>::zeroed(&stream, 4)?;
    /// let mut builder = GraphBuilder::begin(&stream, CaptureMode::ThreadLocal)?;
    /// // The lower right corner of three rows of three, and then the first of all for the last of it.
    /// let part = image.view(4..)?.grid(Grid::rect([2, 2]).pitch(3))?;
    /// builder.copy(corner.as_view_mut().into_grid(Grid::rect([2, 2]))?, part)?;
    /// builder.copy(corner.view_mut(3..)?, image.view(..1)?)?;
    /// let mut exec = builder.end()?.instantiate()?;
    /// exec.launch(&stream)?;
    /// assert_eq!(corner.to_vec()?, [5, 6, 8, 1]);
    /// # Ok::<(), cuhold_graph::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemcpyDtoDAsync")]
    #[doc(alias = "cuMemcpy3DAsync")]
    pub fn copy<T: Pod>(&mut self, dst: impl CopyTarget<T>, src: impl CopySource<T>) -> Result<()> {
        let copy = self.ends(|ends| ends.between(&dst, &src))?;
        self.copy_as(copy)
    }

    /// Captures a copy from memory of the host, which the graph owns from here on, so that nobody changes it while a launch
    /// reads it; [`SharedHost`] is for memory that is to change between launches. The elements are packed.
    ///
    /// Calls `cuMemcpyHtoDAsync`, or `cuMemcpy3DAsync` for boxes and memory of the host's pools; every 256th time that something
    /// is kept also `cuUserObjectCreate` and `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy`](Self::copy); another number of elements. The host's memory is dropped, unless the driver may have taken it.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{CaptureMode, GraphBuilder, handles::{Device, Driver}};
    /// # use cuhold_memory::Buffer;
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<u8>::zeroed(&stream, 3)?;
    /// let mut builder = GraphBuilder::begin(&stream, CaptureMode::ThreadLocal)?;
    /// builder.copy_from_host(&mut buffer, vec![1, 2, 3])?;
    /// let mut exec = builder.end()?.instantiate()?;
    /// exec.launch(&stream)?;
    /// assert_eq!(buffer.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), cuhold_graph::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub fn copy_from_host<T: Pod, H: HostSource<T>>(
        &mut self,
        dst: impl CopyTarget<T>,
        src: H,
    ) -> Result<()> {
        let copy = self.ends(|ends| ends.read_host(&dst, src))?;
        self.copy_as(copy)
    }

    /// Captures a copy from memory of the host, as it is at each launch. It is kept alive. The elements are packed.
    ///
    /// Calls `cuMemcpyHtoDAsync`, or `cuMemcpy3DAsync` for boxes and memory of the host's pools; every 256th time that something
    /// is kept also `cuUserObjectCreate` and `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy`](Self::copy); another number of elements.
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub fn copy_from_shared<T: Pod + Send>(
        &mut self,
        dst: impl CopyTarget<T>,
        src: &SharedHost<T>,
    ) -> Result<()> {
        let copy = self.ends(|ends| ends.read_shared(&dst, src))?;
        self.copy_as(copy)
    }

    /// Captures a copy to memory of the host, which each launch writes. It is kept alive. The elements are packed.
    ///
    /// Calls `cuMemcpyDtoHAsync`, or `cuMemcpy3DAsync` for boxes and memory of the host's pools; every 256th time that something
    /// is kept also `cuUserObjectCreate` and `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy`](Self::copy); another number of elements.
    #[doc(alias = "cuMemcpyDtoHAsync")]
    pub fn copy_to_shared<T: Pod + Send>(
        &mut self,
        dst: &SharedHost<T>,
        src: impl CopySource<T>,
    ) -> Result<()> {
        let copy = self.ends(|ends| ends.write_shared(dst, &src))?;
        self.copy_as(copy)
    }

    /// Describes a copy or a fill for the graph that is captured.
    fn ends<P>(&self, describe: impl FnOnce(Ends<'_>) -> Result<P>) -> Result<P> {
        self.capture.lock().state.may_work(self.member)?;
        let graph = self.root().lock().id;
        describe(Ends { driver: self.driver(), graph })
    }

    fn copy_as(&mut self, (params, kept): (Option<CUDA_MEMCPY3D>, Kept)) -> Result<()> {
        let Some(params) = params else { return Ok(()) };
        self.work(kept, |this| {
            let stream = this.stream.raw();
            // SAFETY: *handles*: the builder's stream; *pointers*: both ends lie within memory that the graph keeps; who reads or
            // writes what is shared meanwhile promises not to.
            this.copying(|calls| unsafe { enqueue(calls, &params, stream) })
        })
    }

    /// Captures a copy of device memory by its address, in bytes. None is no copy.
    ///
    /// Calls `cuMemcpyDtoDAsync`.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; the call's failure.
    ///
    /// # Safety
    /// At each launch of the graph, as many bytes at both addresses are live device memory.
    pub unsafe fn copy_raw(
        &mut self,
        dst: CUdeviceptr,
        src: CUdeviceptr,
        bytes: usize,
    ) -> Result<()> {
        self.work([], |this| {
            if bytes == 0 {
                return Ok(());
            }
            let stream = this.stream.raw();
            // SAFETY: *handles*: the builder's stream; the memory is the caller's promise.
            this.copying(|calls| unsafe { calls.cuMemcpyDtoDAsync_v2(dst, src, bytes, stream) })
        })
    }

    /// Captures a fill with a value: of a buffer, a range, rows of a box, or memory that the same capture allocates. The buffer
    /// is kept alive. What has no bytes is no fill.
    ///
    /// The value's bytes are one, two or four that repeat: a `u64` of 0 can be filled in, one of 1 can't.
    ///
    /// Calls `cuMemsetD8Async`, `cuMemsetD16Async` or `cuMemsetD32Async`, for several rows `cuMemsetD2D8Async`,
    /// `cuMemsetD2D16Async` or `cuMemsetD2D32Async`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work;
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): memory of another driver or of another graph, a value whose
    /// bytes don't repeat, a box with gaps between its slices, which takes a fill a slice; the calls' failures.
    #[doc(alias = "cuMemsetD8Async")]
    #[doc(alias = "cuMemsetD32Async")]
    #[doc(alias = "cuMemsetD2D8Async")]
    pub fn fill<T: Pod>(&mut self, dst: impl CopyTarget<T>, value: T) -> Result<()> {
        let (params, kept) = self.ends(|ends| ends.fill(&dst, value))?;
        let Some(params) = params else { return Ok(()) };
        self.work(kept, |this| {
            // SAFETY: the graph keeps the buffer, which the rows lie within.
            unsafe { this.fill_rows(&params) }
        })
    }

    /// Captures a fill of device memory by its address with a byte. No bytes are no fill.
    ///
    /// Calls `cuMemsetD8Async`.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; the call's failure.
    ///
    /// # Safety
    /// At each launch of the graph, as many bytes at the address are live device memory.
    pub unsafe fn fill_raw(&mut self, dst: CUdeviceptr, value: u8, bytes: usize) -> Result<()> {
        self.work([], |this| {
            if bytes == 0 {
                return Ok(());
            }
            let params = CUDA_MEMSET_NODE_PARAMS {
                dst,
                pitch: 0,
                value: value.into(),
                elementSize: 1,
                width: bytes,
                height: 1,
            };
            // SAFETY: the caller's promise.
            unsafe { this.fill_rows(&params) }
        })
    }

    /// # Safety
    ///
    /// - the rows are live device memory at each launch.
    unsafe fn fill_rows(&self, params: &CUDA_MEMSET_NODE_PARAMS) -> Result<()> {
        let CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height } = *params;
        let stream = self.stream.raw();
        let [byte, second, ..] = value.to_le_bytes();
        let short = u16::from_le_bytes([byte, second]);
        self.call(|calls| match (elementSize, height) {
            // SAFETY: *handles*: the builder's stream; the memory is the caller's promise.
            (1, 1) => unsafe { calls.cuMemsetD8Async(dst, byte, width, stream) },
            // SAFETY: as above.
            (2, 1) => unsafe { calls.cuMemsetD16Async(dst, short, width, stream) },
            // SAFETY: as above.
            (_, 1) => unsafe { calls.cuMemsetD32Async(dst, value, width, stream) },
            // SAFETY: as above.
            (1, _) => unsafe { calls.cuMemsetD2D8Async(dst, pitch, byte, width, height, stream) },
            // SAFETY: as above.
            (2, _) => unsafe { calls.cuMemsetD2D16Async(dst, pitch, short, width, height, stream) },
            // SAFETY: as above.
            (..) => unsafe { calls.cuMemsetD2D32Async(dst, pitch, value, width, height, stream) },
        })
    }

    /// Captures a call of a function on the host. The executables that are made of the graph call the same one, and may do so
    /// at the same time. A panic in it is reported, and the launch goes on.
    ///
    /// No CUDA call may be made in it: the driver refuses it, and so does this library.
    ///
    /// Calls `cuLaunchHostFunc`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; the calls' failures.
    #[doc(alias = "cuLaunchHostFunc")]
    pub fn host<F: Fn() + Send + Sync + 'static>(&mut self, function: F) -> Result<()> {
        self.not_in_body(NodeKind::Host)?;
        let (params, operand) = host_params(self.driver(), function);
        self.work([operand], |this| {
            this.call(|calls| {
                // SAFETY: *handles*: the builder's stream. *Calls back*: the graph keeps the function as long as anything
                // can call it, and it doesn't unwind.
                unsafe { calls.cuLaunchHostFunc(this.stream.raw(), params.fn_, params.userData) }
            })
        })
    }

    /// Captures that an event is recorded when the graph is run. The event is kept alive. It orders nothing in the capture:
    /// that is what forks are for.
    ///
    /// Calls `cuEventRecordWithFlags`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; an event of another driver;
    /// the calls' failures: the event must be of the stream's context.
    #[doc(alias = "cuEventRecordWithFlags")]
    pub fn record(&mut self, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        self.not_in_body(NodeKind::Record)?;
        self.work([Operand::Event(event.clone())], |this| {
            let flags = CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL.0;
            this.call(|calls| {
                // SAFETY: *handles*: a live event and the builder's stream.
                unsafe { calls.cuEventRecordWithFlags(event.raw(), this.stream.raw(), flags) }
            })
        })
    }

    /// Captures a wait for an event, as it is recorded by the time of the launch. The event is kept alive.
    ///
    /// Calls `cuStreamWaitEvent`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn wait(&mut self, event: &Event) -> Result<()> {
        self.driver().check_same(event.driver(), "event")?;
        self.not_in_body(NodeKind::Wait)?;
        self.work([Operand::Event(event.clone())], |this| {
            let flags = CUevent_wait_flags::CU_EVENT_WAIT_EXTERNAL.0;
            this.call(|calls| {
                // SAFETY: as above.
                unsafe { calls.cuStreamWaitEvent(this.stream.raw(), event.raw(), flags) }
            })
        })
    }
}

/// Queues a copy by the plainest call that makes it.
///
/// # Safety
///
/// - *handles*: the stream is live; *pointers*: both ends are live at each launch.
unsafe fn enqueue(calls: Calls<'_>, copy: &CUDA_MEMCPY3D, stream: CUstream) -> Result<(), Failure> {
    const DEVICE: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    const HOST: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_HOST;
    let is_row = copy.Height == 1 && copy.Depth == 1;
    let bytes = copy.WidthInBytes;
    match (copy.dstMemoryType, copy.srcMemoryType) {
        // SAFETY: the caller's promise.
        (DEVICE, DEVICE) if is_row => unsafe {
            calls.cuMemcpyDtoDAsync_v2(copy.dstDevice, copy.srcDevice, bytes, stream)
        },
        // SAFETY: the caller's promise.
        (DEVICE, HOST) if is_row => unsafe {
            calls.cuMemcpyHtoDAsync_v2(copy.dstDevice, copy.srcHost, bytes, stream)
        },
        // SAFETY: the caller's promise.
        (HOST, DEVICE) if is_row => unsafe {
            calls.cuMemcpyDtoHAsync_v2(copy.dstHost, copy.srcDevice, bytes, stream)
        },
        // SAFETY: the caller's promise.
        _ => unsafe { calls.cuMemcpy3DAsync_v2(copy, stream) },
    }
}
