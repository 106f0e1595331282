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

pub use graph::{GraphMemory, GraphResource};
pub use managed::ManagedResource;
pub use residence::Residence;
pub use synchronous::SynchronousResource;

use crate::source::Block;
use cuhold_handles::{
    Device, Error, Note, Result, Stream,
    driver_sys::ffi::{CUdevice, CUdeviceptr},
};

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

/// Refuses to end memory behind a stream of another driver, whose work it isn't known how to wait for.
fn check_end(device: &Device, stream: &Stream, ptr: u64) -> Result<()> {
    let driver = device.driver();
    driver
        .check_callable()
        .and_then(|()| driver.check_same(stream.driver(), "stream"))
        .map_err(|error| error.with_note(Note::Leaked { raw: ptr }))
}

/// Memory of a handle that was taken apart.
fn given<M>(raw: Result<CUdeviceptr, M>, bytes: usize) -> Result<Block> {
    match raw {
        Ok(ptr) => Ok(Block { ptr, bytes, tag: 0 }),
        // It is unique and its own, so that this doesn't happen; the handle frees it.
        Err(_handle) => Err(Error::state("the new memory's handle didn't give it away")),
    }
}
