//! The primary contexts that a driver keeps: retained once per device at first use, released when the driver ends.
//!
//! Kept rather than released with the last handle: releasing to zero and retaining again costs 62 + 104 ms and destroys
//! what other libraries made in the context (measured). The driver holds raw retains, not handles, which would own it.

#![expect(unsafe_code, reason = "retains and releases primary contexts")]

use super::Driver;
use crate::{
    error::{Error, Result},
    extra::Extras,
};
use cuhold_driver_sys::{ffi::*, mutant};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// One retained primary context.
#[derive(Clone, Debug)]
pub(crate) struct Primary {
    pub(crate) raw: CUcontext,
    /// The number under which every handle of it is compared.
    pub(crate) id: u64,
    /// What crates above keep for it.
    pub(crate) extras: Extras,
    /// How many handle blocks refer to it.
    users: usize,
}

/// The retained primary contexts, by device.
#[derive(Debug, Default)]
pub(crate) struct Primaries(Mutex<BTreeMap<CUdevice, Primary>>);

impl Primaries {
    /// Whether none is retained. Takes no lock.
    pub(super) fn is_empty(&mut self) -> bool {
        self.0.get_mut().is_empty()
    }

    /// Takes all of them, for release. Takes no lock.
    pub(super) fn take(&mut self) -> BTreeMap<CUdevice, Primary> {
        std::mem::take(self.0.get_mut())
    }

    /// One more user of the device's primary context, if it is retained.
    fn join(&self, device: CUdevice) -> Option<Primary> {
        let mut map = self.0.lock();
        let primary = map.get_mut(&device)?;
        primary.users += 1;
        Some(primary.clone())
    }

    /// As [`join`](Self::join), else it is `new`. Says whether it is.
    fn join_or_insert(&self, device: CUdevice, new: Primary) -> (Primary, bool) {
        let mut map = self.0.lock();
        match map.get_mut(&device) {
            Some(primary) => {
                primary.users += 1;
                (primary.clone(), false)
            }
            None => {
                map.insert(device, new.clone());
                (new, true)
            }
        }
    }

    /// The device's primary context, retained if it isn't yet, with one more user.
    ///
    /// Calls `cuDevicePrimaryCtxRetain`, the first time. No lock is held meanwhile, since a hook may run (P9): of two
    /// threads that retain at once, the second gives its retain back by `cuDevicePrimaryCtxRelease`.
    pub(crate) fn acquire(driver: &Driver, device: CUdevice) -> Result<Primary> {
        driver.check_callable()?;
        if let Some(primary) = driver.primaries().join(device)
            && !mutant::is_out("primary")
        {
            return Ok(primary);
        }
        let mut raw = CUcontext::NULL;
        // SAFETY: *pointers*: `raw` is a live local.
        unsafe { driver.calls().cuDevicePrimaryCtxRetain(&raw mut raw, device) }
            .map_err(|failure| driver.error(failure))?;
        let new = Primary { raw, id: driver.next_id(), extras: Extras::default(), users: 1 };
        let (primary, kept) = driver.primaries().join_or_insert(device, new);
        if kept {
            return Ok(primary);
        }
        // SAFETY: the retain taken above; the other one keeps the context.
        match unsafe { driver.calls().cuDevicePrimaryCtxRelease_v2(device) } {
            Ok(()) => Ok(primary),
            Err(failure) => {
                Self::leave(driver, device, primary.id);
                Err(driver.error(failure))
            }
        }
    }

    /// One user less of the retain with this number. In a forked child nothing is counted: the lock may be the
    /// parent's.
    pub(crate) fn leave(driver: &Driver, device: CUdevice, id: u64) {
        if driver.check_callable().is_err() {
            return;
        }
        let mut map = driver.primaries().0.lock();
        if let Some(primary) = map.get_mut(&device).filter(|primary| primary.id == id) {
            primary.users = primary.users.saturating_sub(1);
        }
    }

    /// Releases the retain with this number, if it has one user at most. `false`: it has more.
    ///
    /// Calls `cuDevicePrimaryCtxRelease`.
    pub(crate) fn release(driver: &Driver, device: CUdevice, id: u64) -> Result<bool> {
        driver.check_callable()?;
        let primary = {
            let mut map = driver.primaries().0.lock();
            match map.get(&device).filter(|primary| primary.id == id) {
                Some(primary) if primary.users <= 1 => map.remove(&device),
                Some(_) => return Ok(false),
                None => {
                    return Err(Error::state("the primary context isn't retained by this driver"));
                }
            }
        };
        if let Some(primary) = primary {
            primary.extras.end(driver.calls(), &mut |warning| driver.warn(warning));
        }
        // SAFETY: the retain taken in `acquire`, whose entry was removed above. Outside the lock: the call can wait.
        unsafe { driver.calls().cuDevicePrimaryCtxRelease_v2(device) }
            .map_err(|failure| driver.error(failure))?;
        Ok(true)
    }
}
