//! Resources beside the device's pools: other places that memory comes from, each a [`MemoryResource`](crate::MemoryResource).

mod residence;

pub use residence::Residence;
