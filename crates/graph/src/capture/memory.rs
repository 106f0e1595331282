//! Memory that a graph allocates when it runs.

#![expect(unsafe_code, reason = "calls the driver's allocator")]

use super::{GraphBuilder, books::Books};
use crate::{
    ends::{CopyEnd, CopySource, CopyTarget, HasEnd},
    graph::NodeKind,
};
use cuhold_handles::{
    Driver, Error, KernelArg, Refused, Result,
    driver_sys::{Call, Calls, Failure, ffi::CUdeviceptr},
    scope,
};
use cuhold_memory::{GridPlace, bytemuck::Pod};
use parking_lot::Mutex;
use std::{fmt, marker::PhantomData, sync::Arc};

/// Memory that each launch of a graph allocates: an address, known while the graph is captured.
///
/// A value of this type frees nothing. [`GraphBuilder::free`] captures the free; without that each launch leaves the memory
/// allocated, for whoever launches it to free, or for an executable that frees what the launch before it left.
///
/// It can be an argument of kernels, and an end of copies and fills, that are captured behind the allocation.
pub struct CapturedMemory<T: Pod = u8> {
    ptr: CUdeviceptr,
    len: usize,
    driver: Driver,
    /// The number of the graph that allocates it.
    graph: u64,
    /// Whose books say which capture it is of.
    capture: Arc<Mutex<Books>>,
    elements: PhantomData<T>,
}

impl<T: Pod> CapturedMemory<T> {
    /// The address.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device_ptr(&self) -> u64 {
        self.ptr
    }

    /// How many elements there are.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Pod> fmt::Debug for CapturedMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph memory {:#x}, {} elements", self.ptr, self.len)
    }
}

// SAFETY: a pointer parameter is a 64-bit address.
unsafe impl<T: Pod> KernelArg for &CapturedMemory<T> {
    type Repr = u64;

    fn repr(&self, driver: &Driver) -> Result<u64> {
        driver.check_same(&self.driver, "args: graph memory")?;
        Ok(self.ptr)
    }
}

// SAFETY: memory of the graph.
unsafe impl<T: Pod> HasEnd for &CapturedMemory<T> {
    fn end(&self, graph: u64) -> CopyEnd<'_> {
        let place = if self.graph == graph {
            Ok(GridPlace::row(self.ptr, self.len.saturating_mul(size_of::<T>())))
        } else {
            Err(Error::argument("memory of another graph, which may not be there"))
        };
        CopyEnd { driver: Some(&self.driver), place, kept: None }
    }
}

impl<T: Pod> CopySource<T> for &CapturedMemory<T> {}
impl<T: Pod> CopyTarget<T> for &CapturedMemory<T> {}

impl GraphBuilder {
    /// Captures an allocation of memory for `len` elements: each launch of the graph allocates it, at this address.
    ///
    /// A graph with allocations has one executable at a time, and can't be copied or become part of another one.
    ///
    /// Calls `cuMemAllocAsync`, in relaxed capture mode; `cuMemFreeAsync` where it is undone.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work;
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): no elements, or more bytes than can be counted; the
    /// calls' failures.
    #[doc(alias = "cuMemAllocAsync")]
    pub fn allocate<T: Pod>(&mut self, len: usize) -> Result<CapturedMemory<T>> {
        self.not_in_body(NodeKind::Allocate)?;
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes > 0);
        let Some(bytes) = bytes else {
            let size = size_of::<T>();
            return Err(Error::argument(format!(
                "len: {len} elements of {size} bytes, which must be more than none and can't be more than {}",
                usize::MAX
            )));
        };
        let ptr = self.work([], |this| this.allocate_bytes(bytes))?;
        let (capture, graph) = (Arc::clone(&self.capture), self.root().lock().id);
        let driver = self.driver().clone();
        Ok(CapturedMemory { ptr, len, driver, graph, capture, elements: PhantomData })
    }

    fn allocate_bytes(&self, bytes: usize) -> Result<CUdeviceptr> {
        let driver = self.driver();
        let make = || {
            let mut ptr: CUdeviceptr = 0;
            // SAFETY: *handles*: the builder's stream; *pointers*: a live local.
            unsafe { driver.calls().cuMemAllocAsync(&raw mut ptr, bytes, self.stream.raw()) }
                .map_err(|failure| driver.error(failure))?;
            Ok(ptr)
        };
        scope::neutral(driver, make, |ptr, error| {
            let columns = Call::cuMemFreeAsync.columns();
            // SAFETY: allocated a moment ago in the same capture, and given to nobody.
            let undo = |calls: Calls<'_>| unsafe { self.free_raw(calls, ptr) };
            scope::cleanup(driver, None, columns, undo).note_undo(error, ptr)
        })
    }

    /// Captures the free of memory that was allocated in the same capture, behind what this builder has captured by now.
    ///
    /// Calls `cuMemFreeAsync`, in relaxed capture mode.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work;
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): memory of another capture, such as that of a conditional
    /// that this builder's body is in; the calls' failures, after which each launch leaves the memory allocated. The memory
    /// comes back where the driver wasn't asked to free it.
    #[doc(alias = "cuMemFreeAsync")]
    pub fn free<T: Pod>(
        &mut self,
        memory: CapturedMemory<T>,
    ) -> Result<(), Refused<Option<CapturedMemory<T>>>> {
        if !Arc::ptr_eq(&self.capture, &memory.capture) {
            let error = Error::argument("memory: it is of another capture");
            return Err(Refused::new(error, Some(memory)));
        }
        let mut asked = false;
        let freed = self.work([], |this| {
            asked = true;
            let driver = this.driver();
            let columns = Call::cuMemFreeAsync.columns();
            // SAFETY: of this capture, and freed once: it was taken.
            let free = |calls: Calls<'_>| unsafe { this.free_raw(calls, memory.ptr) };
            scope::cleanup(driver, None, columns, free).into_error(driver).map_or(Ok(()), Err)
        });
        freed.map_err(|error| Refused::new(error, (!asked).then_some(memory)))
    }

    /// # Safety
    ///
    /// - the memory was allocated in this capture, and isn't freed yet.
    unsafe fn free_raw(&self, calls: Calls<'_>, ptr: CUdeviceptr) -> Result<(), Failure> {
        // SAFETY: *handles*: the builder's stream; the memory is the caller's promise.
        unsafe { calls.cuMemFreeAsync(ptr, self.stream.raw()) }
    }
}
