//! Memory, semaphores and resources of other APIs.
//!
//! ```text
//!   Context ─► ExternalMemory ◄─ ExternalBuffer, MipmappedArray
//!         ├──► ExternalSemaphore
//!         └──► GraphicsResource ◄─ MappedGraphics
//! ```
//!
//! Source: CUDA Driver API 13.x, "External Resource Interoperability", "Graphics Interoperability".

mod buffer;
mod graphics;
mod memory;
mod semaphore;

pub use buffer::ExternalBuffer;
pub use graphics::{GraphicsPlace, GraphicsResource, MappedGraphics};
pub use memory::{ExternalMemory, ExternalMemoryKind, ExternalMemoryOptions};
pub use semaphore::{ExternalSemaphore, ExternalSemaphoreKind};

use crate::error::{Error, Refused};
use std::{
    cell::Cell,
    os::fd::{IntoRawFd as _, OwnedFd},
};

/// A file descriptor that an import takes when it succeeds, and not when it fails.
struct Handed {
    fd: OwnedFd,
    is_taken: Cell<bool>,
}

impl Handed {
    fn new(fd: OwnedFd) -> Self {
        Self { fd, is_taken: Cell::new(false) }
    }

    /// The driver has it now.
    fn taken(self) {
        let _the_drivers_now = self.fd.into_raw_fd();
    }

    /// Gives it back, unless the driver took it before something else failed.
    fn refused(self, error: Error) -> Refused<Option<OwnedFd>> {
        if self.is_taken.get() {
            self.taken();
            return Refused::new(error, None);
        }
        Refused::new(error, Some(self.fd))
    }
}
