//! Resources beside the pools: other ways to get memory, each a [`MemoryResource`](crate::MemoryResource).
//!
//! | resource | allocates | a free |
//! |---|---|---|
//! | [`Pool`](crate::Pool), of whatever place | in a stream's order | in a stream's order |
//! | [`ManagedResource`] | at once | waits for all work of the device's primary context |
//! | [`SynchronousResource`] | at once | waits for all work of the device's primary context |
//! | [`GraphResource`] | in a capture, as a node | in the same capture, as a node |
//!
//! What waits does so on the reclaimer's thread where a `Drop` gives the memory back, see
//! [`deallocate_waits`](crate::MemoryResource::deallocate_waits).

mod graph;
mod managed;
mod residence;
mod synchronous;
mod unordered;

pub use graph::{GraphMemory, GraphResource};
pub use managed::ManagedResource;
pub use residence::Residence;
pub use synchronous::SynchronousResource;

use cuhold_handles::{Device, Error, Result, Stream, driver_sys::ffi::CUdevice};

/// Refuses a stream of another driver, or of another device.
fn check_stream(device: &Device, stream: &Stream) -> Result<()> {
    device.driver().check_same(stream.driver(), "stream")?;
    let (own, other) = (device.as_raw(), stream.context().device());
    if own == other { Ok(()) } else { Err(other_device(own, other)) }
}

#[cold]
fn other_device(own: CUdevice, other: CUdevice) -> Error {
    Error::argument(format!("stream: it is of device {other}, the resource of device {own}"))
}
