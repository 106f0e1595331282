//! Memory that isn't stream-ordered, and what looks like it: one file per noun.
//!
//! ```text
//!   Context ─► DeviceMemory, ManagedMemory, RegisteredMemory, ImportedMemory       freed, unregistered, closed
//!   Reservation ─┐
//!                ├─► Mapping ─► MappedMemory                                       unmapped
//!   PhysicalAllocation ─┘
//!   BorrowedMemory                                                                 somebody else's
//! ```
//!
//! The driver frees such memory without looking who uses it in another context, so each of these remembers those
//! users: see [`Users`].
//!
//! Source: CUDA Driver API 13.x, "Memory Management", "Unified Addressing", "Virtual Memory Management".

mod access;
mod borrowed;
mod device;
mod imported;
mod managed;
mod mapped;
mod mapping;
mod physical;
mod registered;
mod reservation;
mod shared;
mod users;

pub use access::{Access, Accessor};
pub use borrowed::BorrowedMemory;
pub use device::DeviceMemory;
pub use imported::{ImportedMemory, MemoryHandle};
pub use managed::{Attach, ManagedMemory};
pub use mapped::MappedMemory;
pub use mapping::Mapping;
pub use physical::{
    FabricHandle, PhysicalAllocation, PhysicalLocation, PhysicalOptions, ShareableHandle,
};
pub use registered::{RegisterOptions, RegisteredMemory};
pub use reservation::{Reservation, ReservationOptions};
pub use users::Users;

use crate::{
    context::Context,
    error::{Error, Result},
};

/// What memory of a context refers to.
#[derive(Debug)]
pub(crate) struct MemoryDeps {
    context: Context,
    bytes: usize,
    users: Users,
}

impl MemoryDeps {
    fn new(context: &Context, bytes: usize) -> Result<Self> {
        Ok(Self { context: context.clone(), bytes: some(bytes)?, users: Users::default() })
    }
}

/// Refuses no bytes.
fn some(bytes: usize) -> Result<usize> {
    if bytes == 0 { Err(Error::argument("bytes: 0, and at least 1 is needed")) } else { Ok(bytes) }
}

/// What memory with a size, a context and users has in common, and what makes no call of its own: written in each type's
/// file is [`Users`]' `used_on`, which does. Whether its end waits for its own context, so that streams of that need not be
/// told, is said by the type.
macro_rules! sized_forms {
    ($Type:ident, end_waits_for_own_context: $waits:literal) => {
        impl $Type {
            /// Its size in bytes, as it was given when it was made.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn bytes(&self) -> usize {
                self.0.deps().bytes
            }

            /// The context.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn context(&self) -> &crate::Context {
                &self.0.deps().context
            }

            /// The address for a call of ours.
            #[doc(hidden)]
            #[must_use]
            pub fn device_ptr(&self) -> cuhold_driver_sys::ffi::CUdeviceptr {
                self.0.raw()
            }

            fn used_by(&self, stream: crate::StreamRef<'_>) -> crate::Result<()> {
                self.driver().check_same(stream.driver(), "stream")?;
                let deps = self.0.deps();
                deps.users.used_on(stream, $waits.then_some(&deps.context))
            }
        }
    };
}
use sized_forms;

/// How a kernel receives memory: as its address, and the launch's stream becomes one of its users.
macro_rules! kernel_arguments {
    ($($Type:ident),+ $(,)?) => { $(
        // SAFETY: a pointer parameter is a 64-bit address.
        unsafe impl crate::launch::KernelArg for &$Type {
            type Repr = u64;

            #[inline]
            fn repr(&self, driver: &crate::Driver) -> Result<u64> {
                driver.check_same(self.driver(), "args: memory")?;
                Ok(self.device_ptr())
            }

            fn used_on(&self, stream: crate::StreamRef<'_>) -> Result<()> {
                self.used_by(stream)
            }
        }
    )+ };
}
use kernel_arguments;
