//! Device memory outside of any stream's order, for devices that have no pools.

#![expect(unsafe_code, reason = "promises what a source of memory promises")]

use super::unordered;
use crate::source::{Block, MemoryResource};
use cuhold_handles::{Device, DeviceMemory, ObjectKind, Result, Stream};

/// Device memory that is allocated and freed outside of any stream's order: the fallback for a device that has no
/// [pools](crate::Pool::is_supported).
///
/// Nothing takes it in a pool's place by itself, since it orders otherwise than a pool: a free **waits for all work** of the
/// device's primary context. [`Buffer::close`](crate::Buffer::close) waits there and then, a dropped buffer leaves it to the
/// reclaimer, so that its memory is free later than a pool's would be.
///
/// # Examples
/// ```
/// # use cuhold_memory::{AsSource, Buffer, MemoryResource, Pool, SynchronousResource};
/// # use cuhold_memory::handles::{Device, Driver};
/// # use std::sync::Arc;
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let source: Arc<dyn MemoryResource> = if Pool::is_supported(&device)? {
///     Arc::new(Pool::current_of(&device)?)
/// } else {
///     Arc::new(SynchronousResource::new(&device))
/// };
/// let buffer = Buffer::<f32>::zeroed_in(&source, &stream, 100)?;
/// # drop(buffer);
/// let buffer = Buffer::<f32>::zeroed_in(&Arc::new(SynchronousResource::new(&device)), &stream, 100)?;
/// assert_eq!(buffer.to_vec()?, [0.0; 100]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SynchronousResource {
    device: Device,
}

impl SynchronousResource {
    /// Memory of this device's primary context.
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
}

// SAFETY: *memory*: the driver aligns such memory to 256 bytes at least, it may be used on every stream of the device from
// now on, and lives until it is freed. *Given back*: the free waits for the primary context's work, and for the work of a
// stream of another context, which is told to it.
unsafe impl MemoryResource for SynchronousResource {
    /// Calls `cuMemAlloc`, in relaxed capture mode; `cuMemFree` where it is undone.
    ///
    /// # Errors
    /// A stream of another driver or device; the call's failure.
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        unordered::allocate::<DeviceMemory>(&self.device, bytes, stream)
    }

    /// Waits for all work of the device's primary context, and for that of a stream of another context.
    ///
    /// Calls `cuMemFree`, in relaxed capture mode; for a stream of another context before that `cuStreamIsCapturing`,
    /// `cuEventCreate`, `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { unordered::deallocate::<DeviceMemory>(&self.device, block, stream) }
    }

    fn deallocate_waits(&self) -> bool {
        true
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::DeviceMemory
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<SynchronousResource>();
};
