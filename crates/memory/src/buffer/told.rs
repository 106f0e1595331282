//! What is known of a buffer's memory: where it lies, whose it is.

use super::Buffer;
use crate::{allocation::Origin, resource::Residence, source::MemoryResource};
use bytemuck::Pod;
use cuhold_handles::driver_sys::ffi::CUdevice;
use std::sync::Arc;

impl<T: Pod> Buffer<T> {
    /// Where the memory lies, as its resource says; for memory of somebody else as the driver said when the buffer was
    /// made. Memory that was taken over by [`from_raw`](Self::from_raw) is taken for the device's.
    ///
    /// Calls nothing.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Residence, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let buffer = Buffer::<u8>::uninit(&device.new_stream()?, 8)?;
    /// assert_eq!(buffer.residence(), Residence::Device);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[must_use]
    pub fn residence(&self) -> Residence {
        self.memory.facts().residence
    }

    /// Where the memory comes from.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.memory.facts().origin
    }

    /// The device that the memory was allocated for. Its home stream may be another device's meanwhile.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device(&self) -> CUdevice {
        self.memory.facts().device
    }

    /// The resource that the memory goes back to; `None` where the driver takes it back in stream order.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn resource(&self) -> Option<&Arc<dyn MemoryResource>> {
        self.memory.resource()
    }
}
