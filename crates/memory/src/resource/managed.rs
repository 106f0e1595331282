//! Managed memory: one address for the host and all devices, outside of any stream's order.

#![expect(unsafe_code, reason = "promises what a source of memory promises")]

use super::{Residence, unordered};
use crate::source::{Block, MemoryResource};
use cuhold_handles::{Device, ManagedMemory, ObjectKind, Result, Stream};

/// Managed memory, which the host and every device reach by one address, and which the driver moves to where it is used.
///
/// A free **waits for all work** of the device's primary context: [`Buffer::close`](crate::Buffer::close) waits there and
/// then, a dropped buffer leaves it to the reclaimer. A pool of managed memory, see [`PoolPlace`](crate::PoolPlace), frees in
/// a stream's order, and exists since driver 13.0.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, ManagedResource, MemoryResource as _, Residence, handles::{Device, Driver}};
/// # use std::sync::Arc;
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let managed = Arc::new(ManagedResource::new(&device));
/// assert_eq!(managed.residence(), Residence::Managed);
/// let buffer = Buffer::from_slice_in(&managed, &stream, &[3, 1, 4])?;
/// assert_eq!(buffer.to_vec()?, [3, 1, 4]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManagedResource {
    device: Device,
}

impl ManagedResource {
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
unsafe impl MemoryResource for ManagedResource {
    /// Calls `cuMemAllocManaged`, in relaxed capture mode; `cuMemFree` where it is undone.
    ///
    /// # Errors
    /// A stream of another driver or device; the call's failure, `NOT_SUPPORTED` where the device has no managed memory.
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        unordered::allocate::<ManagedMemory>(&self.device, bytes, stream)
    }

    /// Waits for all work of the device's primary context, and for that of a stream of another context.
    ///
    /// Calls `cuMemFree`, in relaxed capture mode; for a stream of another context before that `cuStreamIsCapturing`,
    /// `cuEventCreate`, `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { unordered::deallocate::<ManagedMemory>(&self.device, block, stream) }
    }

    fn deallocate_waits(&self) -> bool {
        true
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::ManagedMemory
    }

    fn residence(&self) -> Residence {
        Residence::Managed
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ManagedResource>();
};
