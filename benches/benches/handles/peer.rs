//! cudarc, doing the same work on the same device, with its default settings.

use cudarc::driver::CudaContext;
use std::sync::Arc;

/// cudarc's context of device 0: the primary context, as here.
pub(crate) struct Peer {
    pub(crate) context: Arc<CudaContext>,
}

impl Peer {
    /// Panics without a driver, as cudarc does; the benches look for one first.
    pub(crate) fn new() -> Self {
        Self { context: CudaContext::new(0).unwrap() }
    }
}
