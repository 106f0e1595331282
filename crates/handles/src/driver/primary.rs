//! The primary contexts that a driver keeps: retained once per device at first use, released when the driver ends.
//!
//! Kept rather than released with the last handle: releasing to zero and retaining again costs 62 + 104 ms and destroys
//! what other libraries made in the context (measured). The driver holds raw retains, not handles, which would own it.

#![expect(unsafe_code, reason = "retains and releases primary contexts")]

use super::Driver;
use crate::{
    error::{Error, Result},
    extra::Extras,
    object::{Object, ObjectKind},
    report::{CudaWarning, Fate},
};
use cuhold_driver_sys::{Failure, ffi::*};
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
    /// Takes all of them, for release.
    pub(super) fn take(&mut self) -> BTreeMap<CUdevice, Primary> {
        std::mem::take(self.0.get_mut())
    }

    /// The device's primary context, retained if it isn't yet, with one more user.
    ///
    /// Calls `cuDevicePrimaryCtxRetain`, the first time.
    pub(crate) fn acquire(driver: &Driver, device: CUdevice) -> Result<Primary> {
        driver.check_callable()?;
        let mut map = driver.primaries().0.lock();
        if let Some(primary) = map.get_mut(&device) {
            primary.users += 1;
            return Ok(primary.clone());
        }
        let mut raw = CUcontext::NULL;
        // SAFETY: *pointers*: `raw` is a live local. The call doesn't wait for the GPU, so the lock may be held.
        unsafe { driver.calls().cuDevicePrimaryCtxRetain(&raw mut raw, device) }
            .map_err(|failure| driver.error(failure))?;
        let primary = Primary { raw, id: driver.next_id(), extras: Extras::default(), users: 1 };
        map.insert(device, primary.clone());
        Ok(primary)
    }

    /// One user less. In a forked child nothing is counted: the lock may be the parent's.
    pub(crate) fn leave(driver: &Driver, device: CUdevice) {
        if driver.check_callable().is_err() {
            return;
        }
        if let Some(primary) = driver.primaries().0.lock().get_mut(&device) {
            primary.users = primary.users.saturating_sub(1);
        }
    }

    /// Releases the driver's retain, if nobody but `users` refers to the context.
    ///
    /// Calls `cuDevicePrimaryCtxRelease`.
    pub(crate) fn release(driver: &Driver, device: CUdevice, users: usize) -> Result<bool> {
        driver.check_callable()?;
        let primary = {
            let mut map = driver.primaries().0.lock();
            match map.get(&device) {
                Some(primary) if primary.users <= users => map.remove(&device),
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

/// The warning of a primary context that couldn't be released when its driver ended.
pub(super) fn release_failed(failure: Failure, raw: CUcontext) -> CudaWarning {
    let object = Object { kind: ObjectKind::PrimaryContext, raw: raw.addr() as u64, id: 0 };
    CudaWarning::failed(failure, object, Fate::Unknown)
}
