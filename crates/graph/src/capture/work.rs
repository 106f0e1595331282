//! Work on a captured stream: the driver's enqueuing calls, which make nodes there.
//!
//! What the work uses is kept before the call is made, so that nothing that the driver may have taken can dangle; it is let
//! go of only where the driver wasn't asked.

#![expect(unsafe_code, reason = "calls the driver's stream functions")]

use super::{GraphBuilder, books::Books, state::Role};
use crate::{
    graph::{NodeKind, host_params},
    host_memory::SharedHost,
    keep::Operand,
};
use cuhold_handles::{
    AsStream, Driver, Error, Event, KeepAlive, Kernel, KernelArgs, LaunchConfig, Result, Stream,
    StreamRef,
    driver_sys::{
        CUresult, Calls, Failure,
        ffi::{CUdeviceptr, CUevent_record_flags, CUevent_wait_flags, c_void},
    },
    scope,
};
use cuhold_memory::{
    Buffer, HostSource,
    bytemuck::{self, Pod},
};
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

    /// Captures a copy of a whole buffer to another one of the same length. Both are kept alive.
    ///
    /// Calls `cuMemcpyDtoDAsync`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; buffers of different lengths,
    /// or of another driver; the calls' failures.
    #[doc(alias = "cuMemcpyDtoDAsync")]
    pub fn copy<T: Pod>(&mut self, target: &mut Buffer<T>, source: &Buffer<T>) -> Result<()> {
        self.driver().check_same(target.driver(), "target")?;
        self.driver().check_same(source.driver(), "source")?;
        if target.len() != source.len() {
            let (to, from) = (target.len(), source.len());
            return Err(Error::argument(format!(
                "target: it has {to} elements, and the source {from}"
            )));
        }
        let (to, from, bytes) = (target.device_ptr(), source.device_ptr(), source.size_bytes());
        self.work([Operand::Value(target.keep()), Operand::Value(source.keep())], |this| {
            // SAFETY: the graph keeps both, and each is as long.
            unsafe { this.copy_bytes(to, from, bytes) }
        })
    }

    /// Captures a copy from memory of the host, which the graph owns from here on, so that nobody changes it while a launch
    /// reads it; [`SharedHost`] is for memory that is to change between launches.
    ///
    /// Calls `cuMemcpyHtoDAsync`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy`](Self::copy). The host's memory is dropped, unless the driver may have taken it.
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
        target: &mut Buffer<T>,
        source: H,
    ) -> Result<()> {
        let (len, from) = (source.elements().len(), source.elements().as_ptr());
        self.check_host(target, len)?;
        let (to, bytes) = (target.device_ptr(), target.size_bytes());
        let operands = [Operand::Value(target.keep()), Operand::Host(Box::new(source))];
        self.work(operands, |this| {
            // SAFETY: as many bytes on both sides, which the graph keeps, and which nobody writes.
            unsafe { this.upload(to, from.cast(), bytes) }
        })
    }

    /// Captures a copy from memory of the host, as it is at each launch. It is kept alive.
    ///
    /// Calls `cuMemcpyHtoDAsync`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub fn copy_from_shared<T: Pod + Send>(
        &mut self,
        target: &mut Buffer<T>,
        source: &SharedHost<T>,
    ) -> Result<()> {
        self.check_host(target, source.len())?;
        let (to, bytes) = (target.device_ptr(), target.size_bytes());
        self.work([Operand::Value(target.keep()), Operand::Value(source.keep())], |this| {
            // SAFETY: as many bytes on both sides, which the graph keeps; who writes them meanwhile promises not to.
            unsafe { this.upload(to, source.elements().cast_const().cast(), bytes) }
        })
    }

    /// Captures a copy to memory of the host, which each launch writes. It is kept alive.
    ///
    /// Calls `cuMemcpyDtoHAsync`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    #[doc(alias = "cuMemcpyDtoHAsync")]
    pub fn copy_to_shared<T: Pod + Send>(
        &mut self,
        target: &SharedHost<T>,
        source: &Buffer<T>,
    ) -> Result<()> {
        self.check_host(source, target.len())?;
        let (from, bytes) = (source.device_ptr(), source.size_bytes());
        self.work([Operand::Value(source.keep()), Operand::Value(target.keep())], |this| {
            if bytes == 0 {
                return Ok(());
            }
            let (to, stream) = (target.elements().cast(), this.stream.raw());
            this.copying(|calls| {
                // SAFETY: *handles*: the builder's stream; *pointers*: as many bytes on both sides, which the graph keeps; who
                // reads or writes them meanwhile promises not to.
                unsafe { calls.cuMemcpyDtoHAsync_v2(to, from, bytes, stream) }
            })
        })
    }

    /// # Safety
    ///
    /// - as many bytes at both addresses are live at each launch.
    unsafe fn upload(&self, to: CUdeviceptr, from: *const c_void, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.copying(|calls| {
            // SAFETY: *handles*: the builder's stream; *pointers*: the caller's promise.
            unsafe { calls.cuMemcpyHtoDAsync_v2(to, from, bytes, self.stream.raw()) }
        })
    }

    fn check_host<T: Pod>(&self, buffer: &Buffer<T>, len: usize) -> Result<()> {
        self.driver().check_same(buffer.driver(), "buffer")?;
        if buffer.len() == len {
            return Ok(());
        }
        Err(Error::argument(format!(
            "buffer: it has {} elements, and the host's memory {len}",
            buffer.len()
        )))
    }

    /// Captures a copy of device memory by its address, in bytes.
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
        target: CUdeviceptr,
        source: CUdeviceptr,
        bytes: usize,
    ) -> Result<()> {
        self.work([], |this| {
            // SAFETY: the caller's promise.
            unsafe { this.copy_bytes(target, source, bytes) }
        })
    }

    /// # Safety
    ///
    /// - as many bytes at both addresses are live at each launch.
    unsafe fn copy_bytes(&self, to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.copying(|calls| {
            // SAFETY: *handles*: the builder's stream; the memory is the caller's promise.
            unsafe { calls.cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream.raw()) }
        })
    }

    /// Captures a fill of every element of a buffer with a value. The buffer is kept alive.
    ///
    /// Calls `cuMemsetD8Async`, `cuMemsetD16Async` or `cuMemsetD32Async`; every 256th time that something is kept also
    /// `cuUserObjectCreate` and `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work;
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a buffer of another driver, a value that isn't 1, 2 or 4
    /// bytes over and over, which is all that the driver can fill with; the calls' failures.
    #[doc(alias = "cuMemsetD8Async")]
    #[doc(alias = "cuMemsetD32Async")]
    pub fn fill<T: Pod>(&mut self, target: &mut Buffer<T>, value: T) -> Result<()> {
        self.driver().check_same(target.driver(), "target")?;
        let unit = Unit::of(bytemuck::bytes_of(&value))?;
        let (to, bytes) = (target.device_ptr(), target.size_bytes());
        self.work([Operand::Value(target.keep())], |this| {
            // SAFETY: the graph keeps the buffer, which is as long.
            unsafe { this.fill_bytes(to, unit, bytes) }
        })
    }

    /// Captures a fill of device memory by its address with a byte.
    ///
    /// Calls `cuMemsetD8Async`.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; the call's failure.
    ///
    /// # Safety
    /// At each launch of the graph, as many bytes at the address are live device memory.
    pub unsafe fn fill_raw(&mut self, target: CUdeviceptr, value: u8, bytes: usize) -> Result<()> {
        self.work([], |this| {
            // SAFETY: the caller's promise.
            unsafe { this.fill_bytes(target, Unit::Byte(value), bytes) }
        })
    }

    /// # Safety
    ///
    /// - as many bytes at the address are live at each launch.
    unsafe fn fill_bytes(&self, to: CUdeviceptr, unit: Unit, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.stream.raw();
        self.call(|calls| match unit {
            // SAFETY: *handles*: the builder's stream; the memory is the caller's promise.
            Unit::Byte(value) => unsafe { calls.cuMemsetD8Async(to, value, bytes, stream) },
            // SAFETY: as above.
            Unit::Short(value) => unsafe { calls.cuMemsetD16Async(to, value, bytes / 2, stream) },
            // SAFETY: as above.
            Unit::Word(value) => unsafe { calls.cuMemsetD32Async(to, value, bytes / 4, stream) },
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

/// What the driver fills with.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Byte(u8),
    Short(u16),
    Word(u32),
}

impl Unit {
    /// The smallest that gives these bytes over and over.
    fn of(value: &[u8]) -> Result<Self> {
        fn repeats<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
            let unit: [u8; N] = *value.first_chunk()?;
            let same = value.len().is_multiple_of(N) && value.chunks(N).all(|chunk| chunk == unit);
            same.then_some(unit)
        }
        if value.is_empty() {
            return Ok(Self::Byte(0));
        }
        if let Some([byte]) = repeats::<1>(value) {
            return Ok(Self::Byte(byte));
        }
        if let Some(short) = repeats::<2>(value) {
            return Ok(Self::Short(u16::from_ne_bytes(short)));
        }
        if let Some(word) = repeats::<4>(value) {
            return Ok(Self::Word(u32::from_ne_bytes(word)));
        }
        Err(Error::argument(format!(
            "value: its {} bytes aren't 1, 2 or 4 bytes over and over, which is all that the driver can fill with",
            value.len()
        )))
    }
}
