//! Buffers: memory of a device with a home stream, on which safe operations run and where it is freed.
//!
//! ```text
//!   Buffer { memory, len, home stream } ── view ─► BufferView, BufferViewMut: a range of it
//!        └── keep() ─► KeepAlive: the memory shared with queued or captured work
//! ```
//!
//! A buffer is unique and inline: making one costs one driver call on a created stream and no allocation of the host,
//! dropping one costs three. It doesn't hold its pool, which the driver keeps as long as memory is out of it.
//!
//! This file: what a buffer is and how it ends. `make.rs`: how it is made. `foreign.rs`: memory of somebody else.
//! `told.rs`: what is known of one. `home.rs`: its home stream, and work on other ones. `view.rs`: what is done with it,
//! through views. `between.rs`: copies between two. `grid.rs`: boxes within one. `managed.rs`: hints. `whole.rs`: the same on all of it. `keep.rs`: shared
//! memory. `arg.rs`: kernel arguments.

#![expect(unsafe_code, reason = "takes over raw device memory, and takes a buffer apart once")]

mod arg;
mod between;
mod foreign;
mod grid;
mod home;
mod keep;
mod make;
mod managed;
mod told;
mod view;
mod whole;

#[doc(hidden)]
pub use grid::GridPlace;
pub use grid::{Grid, GridView, GridViewMut};
pub use home::After;
pub(crate) use keep::Shareable;
pub use managed::{Advice, discard_and_prefetch_batch, discard_batch, prefetch_batch};
pub use view::{BufferView, BufferViewMut};

use crate::{
    allocation::{self, Allocation},
    layout,
    order::check_home,
};
use bytemuck::Pod;
use cuhold_handles::{Closed, Driver, Error, Refused, Result, Stream};
use keep::Shared;
use std::{
    fmt,
    marker::PhantomData,
    mem::{self, ManuallyDrop},
    sync::{Arc, atomic::AtomicPtr},
};

/// Memory of a device that holds `len` elements, and the stream on which it is used and freed.
///
/// Elements are plain data: what the device writes is always a value of `T`. Fresh memory has no particular content.
///
/// The *home stream* is the one that the buffer was made on. Copies and fills run on it; dropping the buffer frees it in
/// its order, so work that is queued on it may still use the memory. Work of *other* streams must be ordered before what
/// is queued on the home stream later, by events; [`move_to`](Self::move_to) makes another stream the home. Operations
/// with an end on another home stream are refused and say so.
///
/// `Send` and `Sync`; two threads may read one buffer at once.
///
/// Its drop calls `cuMemFreeAsync`, in relaxed capture mode, for an exposed stream also `cuStreamIsCapturing`: it disturbs
/// nobody's capture and waits for nothing. Inside a callback of the driver it leaves that to the reclaimer. While
/// somebody captures the home stream the memory can't be freed there; it is leaked, and a warning says so. Memory that was
/// moved to a default stream, and that of somebody else with its owner, is left to the reclaimer, which waits for the
/// stream first: `cuStreamSynchronize`.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver};
/// # use cuhold_memory::Buffer;
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let stream = device.new_stream()?;
/// let x = Buffer::from_slice(&stream, &[1.0_f32, 2.0, 3.0])?;
/// let mut y = Buffer::<f32>::zeroed(&stream, 5)?;
/// y.view_mut(1..4)?.copy_from(&x)?;
/// assert_eq!(y.to_vec()?, [0.0, 1.0, 2.0, 3.0, 0.0]);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct Buffer<T: Pod = u8> {
    /// Invariant: given back by this value alone, once.
    memory: Allocation,
    len: usize,
    /// Invariant: there until the buffer is taken apart; keeps its stream alive, or is a default stream, or isn't counted, if
    /// the memory is lent: then the cache keeps the stream.
    home: ManuallyDrop<Stream>,
    /// Invariant: null, or an `Arc::into_raw` whose reference this value holds.
    shared: AtomicPtr<Shared>,
    elements: PhantomData<T>,
}

/// A buffer taken apart.
struct Parts {
    memory: Allocation,
    home: Stream,
    shared: Option<Arc<Shared>>,
}

impl<T: Pod> Buffer<T> {
    /// Takes over memory that is freed in stream order: what `cuMemAllocAsync`, `cuMemAllocFromPoolAsync` or `cuMemAlloc`
    /// gave.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a null pointer to some bytes, one that isn't
    /// aligned for `T`, too many elements, or a stream borrowed without an owner. The memory is then still the caller's.
    ///
    /// # Safety
    /// - `ptr` is the beginning of memory of at least `len` elements that nobody else frees;
    /// - work queued on the stream from now on may use it.
    pub unsafe fn from_raw(stream: &Stream, ptr: u64, len: usize) -> Result<Self> {
        let bytes = layout::bytes_of::<T>(len)?;
        check_home(stream)?;
        check_aligned::<T>(ptr, bytes)?;
        Ok(Self::of(Allocation::ordered(ptr, bytes, stream), len, stream.clone()))
    }

    pub(crate) fn of(memory: Allocation, len: usize, home: Stream) -> Self {
        Self {
            memory,
            len,
            home: ManuallyDrop::new(home),
            shared: AtomicPtr::default(),
            elements: PhantomData,
        }
    }

    /// On a home that is counted, unless the memory is lent.
    #[inline]
    fn on(memory: Allocation, len: usize, home: &Stream) -> Self {
        if !memory.is_lent() {
            return Self::of(memory, len, home.clone());
        }
        // SAFETY: a handle more that isn't counted, and that nothing drops but `hold` counts it before: the lane of the memory,
        // which is this stream's, keeps it until the memory is given back.
        let lent = unsafe { std::ptr::read(home) };
        Self::of(memory, len, lent)
    }

    /// Counts the home and the resource of memory that is lent.
    fn hold(&mut self) {
        if self.memory.is_lent() {
            let _: ManuallyDrop<Stream> = ManuallyDrop::clone(&self.home);
            self.memory.hold();
        }
    }

    /// Takes the buffer apart; what was lent is counted from here on.
    ///
    /// # Safety
    /// The value is not used afterwards, nor dropped but by the `Drop` that calls this.
    unsafe fn take(&mut self) -> Parts {
        self.hold();
        let shared = self.take_shared();
        let memory = mem::replace(&mut self.memory, Allocation::EMPTY);
        // SAFETY: taken once, by the caller's promise.
        let home = unsafe { ManuallyDrop::take(&mut self.home) };
        Parts { memory, home, shared }
    }

    fn into_parts(self) -> Parts {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: never used nor dropped afterwards.
        unsafe { this.take() }
    }

    /// How many elements it holds.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its size in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        layout::known_bytes::<T>(self.len)
    }

    /// Its address on the device; 0 where it has no bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device_ptr(&self) -> u64 {
        self.memory.ptr()
    }

    /// The home stream.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.home
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.home.driver()
    }

    /// Frees the memory here and now, in the order of the home stream.
    ///
    /// `Ok(StillShared)`: something that [`keep`](Self::keep) gave still holds it; it is freed with the last of that.
    ///
    /// Calls `cuMemFreeAsync`, in relaxed capture mode; for an exposed stream also `cuStreamIsCapturing`; for memory of
    /// somebody else `cuStreamSynchronize` before it: that blocks the thread.
    ///
    /// # Errors
    /// [`Refused`] with the call's failure; with the buffer where the memory wasn't touched: inside a callback, in a
    /// forked child, while somebody captures the home stream, where the home stream's context couldn't be made current.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let buffer = Buffer::<u32>::zeroed(&stream, 3)?;
    /// buffer.close()?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemFreeAsync")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        let len = self.len;
        let Parts { memory, home, shared } = self.into_parts();
        let (memory, home) = match shared {
            None => (memory, home),
            Some(shared) => {
                shared.leave(memory, home);
                match Arc::into_inner(shared).and_then(Shared::take) {
                    Some(parts) => parts,
                    None => return Ok(Closed::StillShared),
                }
            }
        };
        match allocation::close(memory, &home) {
            Ok(()) => Ok(Closed::Destroyed),
            Err(Refused { error, value, .. }) => {
                Err(Refused::new(error, value.map(|memory| Self::of(memory, len, home))))
            }
        }
    }

    /// Gives the memory away without freeing it: its address, which is the caller's now. Work that is queued on the home
    /// stream may still use it. Memory of a pool doesn't hold that any more: who frees it keeps the pool until the stream that
    /// it was freed on is done.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Gives the buffer back where its memory is kept by others, or came from a resource of another kind than a pool.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let buffer = Buffer::from_slice(&stream, &[1_u32, 2])?;
    /// let ptr = buffer.into_raw().expect("it isn't shared");
    /// // SAFETY: given away above: eight bytes that nobody else frees.
    /// let bytes = unsafe { Buffer::<u8>::from_raw(&stream, ptr, 8)? };
    /// assert_eq!(bytes.to_vec()?[..4], 1_u32.to_ne_bytes());
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn into_raw(self) -> Result<u64, Self> {
        if self.is_kept() || !self.memory.is_ordered() {
            return Err(self);
        }
        Ok(self.into_parts().memory.give_away())
    }
}

/// Refuses an address at which there can't be elements.
fn check_aligned<T>(ptr: u64, bytes: usize) -> Result<()> {
    if bytes == 0 || (ptr != 0 && ptr.is_multiple_of(align_of::<T>() as u64)) {
        return Ok(());
    }
    Err(Error::argument(format!(
        "ptr: {ptr:#x} is null or not aligned to {} bytes",
        align_of::<T>()
    )))
}

impl<T: Pod> Drop for Buffer<T> {
    #[inline]
    fn drop(&mut self) {
        if self.shared.get_mut().is_null() && self.memory.give_back_quickly(&self.home) {
            return;
        }
        self.end();
    }
}

impl<T: Pod> Buffer<T> {
    fn end(&mut self) {
        // SAFETY: called by the drop alone.
        let Parts { memory, home, shared } = unsafe { self.take() };
        match shared {
            None => allocation::end(memory, home),
            Some(shared) => shared.leave(memory, home),
        }
    }
}

impl<T: Pod> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {:#x} of {} elements on {:?}", self.device_ptr(), self.len, *self.home)
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Buffer<f32>>();
    assert!(size_of::<Buffer<f32>>() == 80);
};
