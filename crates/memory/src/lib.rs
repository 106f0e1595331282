//! Stream-ordered CUDA memory: pools, buffers, host buffers and the copies between them.
//!
//! ```text
//!   Pool, your MemoryResource ─► Buffer ─ home stream ─► copies, fills, kernel arguments, the free
//!                                  ▲ ▼
//!   slices ── staging memory ──────┤ │       blocking: the device never touches borrowed memory
//!   HostBuffer, Vec, Arc<[T]> ─ Pending      asynchronous: the copy owns its host side
//! ```
//!
//! Memory is allocated and freed in the order of a stream, without waiting. Nothing here lets safe code break memory of
//! the host: a device reaches only what a copy owns, and what may still be in use is leaked rather than freed. Bytes on
//! the device are plain data: using them in conflict gives wrong data, not undefined behaviour.
//!
//! Start reading at `buffer/mod.rs`, then `pending.rs` (asynchronous copies), `transfer/staging.rs` (blocking ones),
//! `source.rs` (where memory comes from), `ordered.rs` (the driver's allocator).
//!
//! What this crate does not do: it makes no streams and launches no kernels (`cuhold-handles`), and captures nothing
//! (`cuhold-graph`).

mod allocation;
mod buffer;
mod caching;
mod host;
#[cfg(target_os = "linux")]
mod ipc;
mod kept;
mod layout;
mod location;
mod order;
mod ordered;
mod pending;
mod pool;
mod resource;
mod source;
mod transfer;
mod virtual_memory;

pub use allocation::Origin;
#[doc(hidden)]
pub use buffer::GridPlace;
pub use buffer::{
    Advice, After, Buffer, BufferView, BufferViewMut, Grid, GridView, GridViewMut,
    discard_and_prefetch_batch, discard_batch, prefetch_batch,
};
pub use bytemuck;
pub use caching::{
    CachingOptions, CachingResource, CachingStatistics, CachingWay, StreamStatistics,
};
pub use cuhold_handles as handles;
pub use host::{HostBuffer, HostSource, HostTarget};
#[cfg(target_os = "linux")]
pub use ipc::{
    BufferDescriptor, ExportedBuffer, ExportedPool, IpcChannel, Message, PeerWatch, PoolDescriptor,
    PoolIdentity,
};
pub use location::Location;
pub use pending::Pending;
#[cfg(target_os = "linux")]
pub use pool::ImportedPool;
pub use pool::{MemoryUsage, Pool, PoolOptions, PoolPlace, Reuse};
pub use resource::{GraphMemory, GraphResource, ManagedResource, Residence, SynchronousResource};
pub use source::{AsSource, Block, MemoryResource, SourceRef};
pub use transfer::{CopyBatch, CopyOptions, SourceOrder, StagingOptions, copy_2d, copy_3d};
#[cfg(unix)]
pub use virtual_memory::ExportedPart;
pub use virtual_memory::{Granularity, VirtualBuffer, VirtualMemory, VirtualMemoryOptions};
