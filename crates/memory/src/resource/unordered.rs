//! What resources have in common whose memory no stream orders: allocated at once, freed by a call that waits for the work of
//! the device's primary context.

#![expect(unsafe_code, reason = "takes memory apart into its address, and back")]

use super::check_stream;
use crate::source::Block;
use cuhold_handles::{
    Attach, Context, Device, DeviceMemory, Error, ManagedMemory, Note, Result, Stream,
    driver_sys::ffi::CUdeviceptr,
};

/// Memory of a context that no stream orders.
pub(super) trait Unordered: Sized {
    /// Allocates.
    fn make(context: &Context, bytes: usize) -> Result<Self>;

    /// Gives its address away.
    fn take_apart(self) -> Result<CUdeviceptr, Self>;

    /// The memory at an address that was given away.
    ///
    /// # Safety
    /// `ptr` was [taken apart](Self::take_apart) of memory of this context and size, and is put together once.
    unsafe fn put_together(context: &Context, bytes: usize, ptr: CUdeviceptr) -> Result<Self>;

    /// Frees it, once work of the stream that its context doesn't wait for is done.
    fn end(self, stream: &Stream) -> Result<()>;
}

macro_rules! unordered {
    ($memory:ident: $make:expr) => {
        impl Unordered for $memory {
            fn make(context: &Context, bytes: usize) -> Result<Self> {
                $make(context, bytes)
            }
            fn take_apart(self) -> Result<CUdeviceptr, Self> {
                self.into_raw()
            }
            unsafe fn put_together(
                context: &Context,
                bytes: usize,
                ptr: CUdeviceptr,
            ) -> Result<Self> {
                // SAFETY: live memory of this context that nobody else frees, by the caller's promise.
                unsafe { Self::from_raw(context, bytes, ptr) }
            }
            fn end(self, stream: &Stream) -> Result<()> {
                self.used_on(stream)?;
                self.close().map(drop).map_err(|refused| refused.error)
            }
        }
    };
}

unordered! { DeviceMemory: Self::new }
unordered! { ManagedMemory: |context, bytes| Self::new(context, bytes, Attach::Global) }

/// Allocates memory of the device's primary context; for no bytes none.
pub(super) fn allocate<M: Unordered>(
    device: &Device,
    bytes: usize,
    stream: &Stream,
) -> Result<Block> {
    check_stream(device, stream)?;
    if bytes == 0 {
        return Ok(Block::EMPTY);
    }
    match M::make(device.context(), bytes)?.take_apart() {
        Ok(ptr) => Ok(Block { ptr, bytes, tag: 0 }),
        // It is unique and its own, so that this doesn't happen; the handle frees it.
        Err(_handle) => Err(Error::state("the new memory's handle didn't give it away")),
    }
}

/// Frees it, once the work of the device's primary context is done, and that of the stream.
///
/// # Safety
/// The block came from [`allocate`] of this memory and device, and is given back once.
pub(super) unsafe fn deallocate<M: Unordered>(
    device: &Device,
    block: Block,
    stream: &Stream,
) -> Result<()> {
    if block.ptr == 0 {
        return Ok(());
    }
    let driver = device.driver();
    // Of a stream of another driver it isn't known how to wait for its work.
    driver
        .check_callable()
        .and_then(|()| driver.check_same(stream.driver(), "stream"))
        .map_err(|error| error.with_note(Note::Leaked { raw: block.ptr }))?;
    // SAFETY: `allocate` took it apart, and it is given back once, by the caller's promise.
    unsafe { M::put_together(device.context(), block.bytes, block.ptr) }?.end(stream)
}
