//! Pools, buffers and events between processes (Linux).
//!
//! ```text
//!   exporting process                                    importing process
//!   Pool::export ─► ExportedPool ── IpcChannel ──► ImportedPool::receive
//!   Buffer::export ─► ExportedBuffer ── descriptor ──► ImportedPool::import_buffer ─► Buffer
//!   Event::export ─► ExportedEvent ── handle ──► Event::import
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `wire.rs` | what travels, as bytes that are checked |
//! | `channel.rs` | messages and files over a Unix socket; whether the other process has ended |
//! | `export.rs` | what is exported, and what keeps it alive |
//! | `import.rs` | imports over shared mappings, and their ends |
//! | `cache.rs`, `sync.rs` | which imports are mapped: the states alone, which loom runs |
//!
//! When the exporting process ends, whether by itself or killed: memory that is imported goes on, and nothing new is
//! imported from a pool that is watched.

mod cache;
#[cfg(test)]
mod cache_tests;
mod channel;
mod export;
mod import;
mod sync;
mod wire;

pub use channel::{IpcChannel, Message, PeerWatch};
pub use export::{ExportedBuffer, ExportedPool};
pub(crate) use export::{new_identity, uuid_of};
pub(crate) use import::Imports;
pub use wire::{BufferDescriptor, PoolDescriptor, PoolIdentity};
