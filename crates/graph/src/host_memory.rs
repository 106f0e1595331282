//! Memory of the host that a graph's copies read and write at each launch.
//!
//! Launches reach it at times that this library doesn't see, so it is never lent as a slice: it is read and written by copying,
//! and whoever does so promises that no launch does at the same time.

#![expect(unsafe_code, reason = "the GPU and the program reach the same memory")]

use cuhold_handles::{Error, KeepAlive, Result};
use cuhold_memory::{HostBuffer, bytemuck::Pod};
use std::{cell::UnsafeCell, fmt, sync::Arc};

/// Page-locked memory that graphs read or write at each launch, and the program in between. Clones are the same memory.
///
/// It lives as long as a clone, a graph, an executable or a launch uses it.
///
/// # Examples
/// ```
/// # use cuhold_graph::{Graph, SharedHost};
/// # use cuhold_handles::{Device, Driver};
/// # use cuhold_memory::{Buffer, HostBuffer};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let stream = device.new_stream()?;
/// let buffer = Buffer::from_slice(&stream, &[1_u32, 2, 3])?;
/// let result = SharedHost::new(HostBuffer::<u32>::zeroed(device.context(), 3)?);
/// let mut graph = Graph::new(device.context())?;
/// graph.copy_to_shared(&[], &result, &buffer)?;
/// let mut exec = graph.instantiate()?;
/// stream.synchronize()?;
/// exec.launch(&stream)?;
/// stream.synchronize()?;
/// // SAFETY: the launch is done.
/// assert_eq!(unsafe { result.to_vec() }, [1, 2, 3]);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct SharedHost<T: Pod = u8>(Arc<Memory<T>>);

struct Memory<T: Pod> {
    /// Not touched as long as there are clones.
    buffer: UnsafeCell<HostBuffer<T>>,
    /// Where its elements are.
    elements: *mut T,
    len: usize,
}

// SAFETY: the elements are plain data, reached by copying under the callers' promises alone.
unsafe impl<T: Pod + Send> Send for Memory<T> {}
// SAFETY: as above.
unsafe impl<T: Pod + Send> Sync for Memory<T> {}

impl<T: Pod + Send> SharedHost<T> {
    /// Shares a buffer's memory.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn new(mut buffer: HostBuffer<T>) -> Self {
        let (elements, len) = (buffer.as_mut_ptr(), buffer.len());
        Self(Arc::new(Memory { buffer: UnsafeCell::new(buffer), elements, len }))
    }

    /// How many elements it has.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether it has none.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of the elements.
    ///
    /// Calls nothing.
    ///
    /// # Safety
    /// Nobody writes the memory meanwhile: no launch that does is under way, no other thread.
    #[must_use]
    pub unsafe fn to_vec(&self) -> Vec<T> {
        let mut copy: Vec<T> = Vec::with_capacity(self.len());
        // SAFETY: as many elements, of plain data; nobody writes them meanwhile, by the caller's promise.
        unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(self.0.elements, self.len()) };
        // SAFETY: written above.
        unsafe { copy.set_len(self.len()) };
        copy
    }

    /// Overwrites the elements.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Another number of elements.
    ///
    /// # Safety
    /// Nobody reads or writes the memory meanwhile: no launch that does is under way, no other thread.
    pub unsafe fn copy_from_slice(&self, src: &[T]) -> Result<()> {
        if src.len() != self.len() {
            return Err(Error::argument(format!(
                "src: {} elements, where there are {}",
                src.len(),
                self.len()
            )));
        }
        // SAFETY: as many elements, which nobody reaches meanwhile, by the caller's promise; the caller's slice is elsewhere,
        // since nobody else has a reference to these.
        unsafe { self.0.elements.copy_from_nonoverlapping(src.as_ptr(), src.len()) };
        Ok(())
    }

    /// The buffer, if neither a clone nor a graph, an executable or a launch uses it any more.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Gives this value back where others use the memory.
    pub fn into_inner(self) -> Result<HostBuffer<T>, Self> {
        Arc::try_unwrap(self.0).map(|memory| memory.buffer.into_inner()).map_err(Self)
    }

    pub(crate) fn elements(&self) -> *mut T {
        self.0.elements
    }

    pub(crate) fn keep(&self) -> KeepAlive {
        KeepAlive::new(self.0.clone())
    }
}

impl<T: Pod> Clone for SharedHost<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Pod> fmt::Debug for SharedHost<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedHost").field("len", &self.0.len).finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<SharedHost<f32>>();
};
