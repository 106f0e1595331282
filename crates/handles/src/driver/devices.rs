//! Whether a driver's objects lie on more than one device, which some calls must know.

use super::Driver;
use cuhold_driver_sys::ffi::CUdevice;
use std::sync::atomic::{AtomicI32, Ordering};

const NONE: i32 = -1;
const SEVERAL: i32 = -2;

/// No device, the only one so far, or that there were several.
#[derive(Debug)]
pub(super) struct Devices(AtomicI32);

impl Default for Devices {
    fn default() -> Self {
        Self(AtomicI32::new(NONE))
    }
}

impl Driver {
    /// A context of this device came to be known.
    pub(crate) fn note_device(&self, device: CUdevice) {
        let known = &self.0.devices.0;
        let first =
            known.compare_exchange(NONE, device, Ordering::Relaxed, Ordering::Relaxed).err();
        if first.is_some_and(|first| first != device) {
            known.store(SEVERAL, Ordering::Relaxed);
        }
    }

    /// Whether contexts of more than one device were made or borrowed through this driver.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn uses_several_devices(&self) -> bool {
        self.0.devices.0.load(Ordering::Relaxed) == SEVERAL
    }
}
