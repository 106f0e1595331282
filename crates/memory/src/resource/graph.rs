//! Memory of graphs: allocated and freed by nodes, from what a device keeps for graphs.
//!
//! An allocation on a captured stream is a node of the graph that comes of it: the memory is there while a launch of that
//! graph runs from this node on, until a node, or somebody after the launch, frees it.
//!
//! Source: CUDA Driver API 13.x, "Graph Management", "Stream Ordered Memory Allocator".

#![expect(unsafe_code, reason = "calls the driver's allocator")]

use super::check_stream;
use crate::{
    pool::MemoryUsage,
    source::{Block, MemoryResource},
};
use cuhold_handles::{
    Device, Error, ObjectKind, Result, Stream,
    driver_sys::{Call, Calls, Failure, ffi::*, mutant},
    scope,
};
use std::ptr;

/// What a device keeps for the memory of graphs: one for all graphs of the device.
///
/// # Examples
/// ```
/// # use cuhold_memory::{GraphMemory, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let memory = GraphMemory::new(&device);
/// memory.trim()?;
/// assert_eq!(memory.usage()?.reserved_bytes, 0);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GraphMemory {
    device: Device,
}

impl GraphMemory {
    /// That of this device.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone() }
    }

    /// The device.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What graphs use, and what the device keeps for them, now and at most since the marks were reset, in bytes. Four
    /// questions one after the other: launches go on meanwhile.
    ///
    /// Calls `cuDeviceGetGraphMemAttribute`, four times.
    ///
    /// # Errors
    /// The call's failure.
    pub fn usage(&self) -> Result<MemoryUsage> {
        let get = |attribute| -> Result<u64> {
            let mut value: cuuint64_t = 0;
            let to = (&raw mut value).cast();
            self.ask(|calls| {
                // SAFETY: *pointers*: a live local of the attribute's type.
                unsafe { calls.cuDeviceGetGraphMemAttribute(self.device.as_raw(), attribute, to) }
            })?;
            Ok(value)
        };
        Ok(MemoryUsage {
            used_bytes: get(CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)?,
            used_high_bytes: get(CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)?,
            reserved_bytes: get(CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?,
            reserved_high_bytes: get(CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)?,
        })
    }

    /// Sets the high-water mark of the used bytes back to what is used now.
    ///
    /// Calls `cuDeviceSetGraphMemAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn reset_used_high(&self) -> Result<()> {
        self.reset(CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
    }

    /// Sets the high-water mark of the reserved bytes back to what is reserved now.
    ///
    /// Calls `cuDeviceSetGraphMemAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn reset_reserved_high(&self) -> Result<()> {
        self.reset(CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    }

    /// A mark is set to 0, and to nothing else.
    fn reset(&self, attribute: CUgraphMem_attribute) -> Result<()> {
        let mut value: cuuint64_t = 0;
        let from = (&raw mut value).cast();
        self.ask(|calls| {
            // SAFETY: *pointers*: a live local of the attribute's type.
            unsafe { calls.cuDeviceSetGraphMemAttribute(self.device.as_raw(), attribute, from) }
        })
    }

    /// Gives memory that no graph uses back to the device.
    ///
    /// Calls `cuDeviceGraphMemTrim`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuDeviceGraphMemTrim")]
    pub fn trim(&self) -> Result<()> {
        // SAFETY: the call takes no pointer and no handle.
        self.ask(|calls| unsafe { calls.cuDeviceGraphMemTrim(self.device.as_raw()) })
    }

    /// One call, which disturbs nobody's capture.
    fn ask(&self, call: impl FnOnce(Calls<'_>) -> Result<(), Failure>) -> Result<()> {
        let driver = self.device.driver();
        call(driver.callable()?).map_err(|failure| driver.error(failure))
    }

    /// A source of graph memory.
    ///
    /// Calls nothing.
    ///
    /// # Safety
    /// What it gives out isn't ordinary memory, though a [`Buffer`](crate::Buffer) of it looks as if it were:
    /// - *in its graph*: it is used by work that was captured after it, in the same capture, or between a launch of that graph
    ///   and what frees it;
    /// - *capture*: nobody ends the stream's capture while memory is allocated or given back on that stream.
    #[must_use]
    pub unsafe fn resource(&self) -> GraphResource {
        GraphResource { device: self.device.clone() }
    }
}

/// A source of graph memory: allocates on a stream that somebody captures, and refuses any other.
///
/// What is given back while the same capture goes on is freed by a node, behind what the stream it is given back on has
/// captured by then. What is given back later is left to its graph, which allocates it with each launch: whoever launches it
/// frees it ([`free_launched`](Self::free_launched)), or instantiates the graph so that a launch frees what the one before it
/// left.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, GraphMemory, MemoryResource as _, handles::{Device, Driver}};
/// # use std::sync::Arc;
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// // SAFETY: nothing is captured here, so nothing is given out.
/// let graph = Arc::new(unsafe { GraphMemory::new(&device).resource() });
/// let error = Buffer::<f32>::uninit_in(&graph, &stream, 100).unwrap_err();
/// assert!(error.to_string().contains("isn't being captured"));
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GraphResource {
    device: Device,
}

/// The number of the capture of a stream, if one goes on.
fn capture_of(calls: Calls<'_>, stream: &Stream) -> Result<Option<u64>, Failure> {
    let (mut status, mut id) = (CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0);
    // SAFETY: *handles*: the stream is live; *pointers*: live locals, the others are optional.
    unsafe {
        calls.cuStreamGetCaptureInfo_v2(
            stream.raw(),
            &raw mut status,
            &raw mut id,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
        )
    }?;
    Ok((status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE).then_some(id))
}

#[cold]
fn not_captured() -> Error {
    Error::state("the stream isn't being captured, and graph memory is allocated in captures only")
}

/// Frees graph memory, in a capture by a node.
///
/// # Safety
/// The memory was allocated on this stream's capture, or by a launch, and isn't freed yet.
unsafe fn free(calls: Calls<'_>, ptr: CUdeviceptr, stream: &Stream) -> Result<(), Failure> {
    // SAFETY: *handles*: the stream is live; the memory is the caller's promise.
    unsafe { calls.cuMemFreeAsync(ptr, stream.raw()) }
}

impl GraphResource {
    /// The device.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Frees what a launch of a graph allocated and didn't free, in the order of a stream that isn't captured.
    ///
    /// Calls `cuMemFreeAsync`, in relaxed capture mode.
    ///
    /// # Errors
    /// A stream of another driver or device; the call's failure: `INVALID_VALUE` where no launch allocated it, or it was
    /// freed since.
    ///
    /// # Safety
    /// `ptr` is memory of a graph of this device; that launch and all other work that uses it is done, or ordered before what
    /// is queued on the stream from now on.
    pub unsafe fn free_launched(&self, ptr: CUdeviceptr, stream: &Stream) -> Result<()> {
        check_stream(&self.device, stream)?;
        let driver = stream.driver();
        driver.check_callable()?;
        let outcome = crate::order::cleanup(stream, Call::cuMemFreeAsync, |calls| {
            // SAFETY: the caller's promise.
            unsafe { free(calls, ptr, stream) }
        });
        outcome.into_error(driver).map_or(Ok(()), Err)
    }
}

// SAFETY: *memory*: the driver aligns it to 512 bytes; that it is used in its graph only is the promise that `resource` was
// made with. *Given back*: a free is a node behind what the stream has captured; else nothing is freed.
unsafe impl MemoryResource for GraphResource {
    /// Allocates as a node of the stream's capture.
    ///
    /// Calls `cuStreamGetCaptureInfo`, `cuMemAllocAsync`; `cuMemFreeAsync` where it is undone.
    ///
    /// # Errors
    /// A stream of another driver or device; [`ErrorKind::State`](cuhold_handles::ErrorKind::State): nobody captures the
    /// stream; the calls' failures.
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        check_stream(&self.device, stream)?;
        let driver = stream.driver();
        driver.check_callable()?;
        // Nobody captures a stream whose raw value nobody else has, and the legacy one never.
        if !stream.is_exposed() || stream.is_token() {
            return Err(not_captured());
        }
        if bytes == 0 {
            return Ok(Block::EMPTY);
        }
        let make = || {
            let calls = driver.calls();
            let told = |failure| driver.error(failure);
            let Some(tag) = capture_of(calls, stream).map_err(told)? else {
                return Err(not_captured());
            };
            let mut ptr: CUdeviceptr = 0;
            // SAFETY: *handles*: the stream is live; *pointers*: a live local.
            unsafe { calls.cuMemAllocAsync(&raw mut ptr, bytes, stream.raw()) }.map_err(told)?;
            Ok(Block { ptr, bytes, tag })
        };
        scope::neutral(driver, make, |block, error| {
            let columns = Call::cuMemFreeAsync.columns();
            // SAFETY: allocated a moment ago in the same capture, and given to nobody.
            let undo = |calls: Calls<'_>| unsafe { free(calls, block.ptr, stream) };
            scope::cleanup(driver, None, columns, undo).note_undo(error, block.ptr)
        })
    }

    /// Frees by a node, if the capture that the memory is of still goes on, on this stream; else leaves it to its graph.
    ///
    /// Calls `cuStreamGetCaptureInfo`; in the same capture `cuMemFreeAsync`.
    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
        if block.ptr == 0 {
            return Ok(());
        }
        let driver = stream.driver();
        driver.check_callable()?;
        let free_it = || {
            let calls = driver.calls();
            let capture = capture_of(calls, stream)?;
            if capture == Some(block.tag) || (capture.is_some() && mutant::is_out("graph-capture"))
            {
                // SAFETY: of this capture, and given back once, by the caller's promise.
                unsafe { free(calls, block.ptr, stream) }?;
            }
            Ok(())
        };
        scope::neutral(
            driver,
            || free_it().map_err(|failure: Failure| driver.error(failure)),
            |(), error| error.with_completed(1),
        )
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::AsyncMemory
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<GraphMemory>();
    shared::<GraphResource>();
};
