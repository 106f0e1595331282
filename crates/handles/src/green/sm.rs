//! Multiprocessors as a resource that is split.

#![expect(unsafe_code, reason = "calls the driver's resource functions, whose values are unions")]

use crate::{
    context::Context,
    device::Device,
    driver::Driver,
    error::{Error, Result},
};
use cuhold_driver_sys::{Calls, Failure, ffi::*};
use std::{fmt, ptr};

const SM: CUdevResourceType = CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;

/// Multiprocessors of a device: all of them, or a part that a split gave. A plain value: nothing is held by it, and
/// parts that no green context is made of cost nothing.
#[derive(Clone)]
pub struct SmResource {
    raw: CUdevResource,
    device: CUdevice,
    driver: Driver,
}

// SAFETY: the one pointer in it is the driver's own and only handed back to it; the rest are numbers.
unsafe impl Send for SmResource {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for SmResource {}

/// What a split gave.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SmSplit {
    /// The parts, as many as were asked for.
    pub groups: Vec<SmResource>,
    /// What is left; it can't be split again, but is a part like the others.
    pub rest: SmResource,
}

impl SmResource {
    /// All multiprocessors of a device.
    ///
    /// Calls `cuDeviceGetDevResource`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuDeviceGetDevResource")]
    pub fn of_device(device: &Device) -> Result<Self> {
        Self::read(device.driver(), device.as_raw(), |calls, resource, kind| {
            // SAFETY: *pointers*: exclusive.
            unsafe { calls.cuDeviceGetDevResource(device.as_raw(), resource, kind) }
        })
    }

    /// The multiprocessors that a context has: all of its device's, or its green context's.
    ///
    /// Calls `cuCtxGetDevResource`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuCtxGetDevResource")]
    pub fn of_context(context: &Context) -> Result<Self> {
        Self::read(context.driver(), context.device(), |calls, resource, kind| {
            // SAFETY: *pointers*: exclusive; *handles*: that value's context.
            unsafe { calls.cuCtxGetDevResource(context.as_raw(), resource, kind) }
        })
    }

    pub(super) fn read(
        driver: &Driver,
        device: CUdevice,
        ask: impl FnOnce(Calls<'_>, &mut CUdevResource, CUdevResourceType) -> Result<(), Failure>,
    ) -> Result<Self> {
        let mut raw = CUdevResource::default();
        ask(driver.callable()?, &mut raw, SM).map_err(|failure| driver.error(failure))?;
        Ok(Self { raw, device, driver: driver.clone() })
    }

    /// The driver's value.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn raw(&self) -> CUdevResource {
        self.raw
    }

    /// How many multiprocessors it has.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn count(&self) -> u32 {
        // SAFETY: the type of the resource says that this view was written.
        unsafe { self.raw.__bindgen_anon_1.sm }.smCount
    }

    /// The device, as the driver numbers it.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device(&self) -> CUdevice {
        self.device
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// How many parts of at least so many multiprocessors it can be split into.
    ///
    /// Calls `cuDevSmResourceSplitByCount`.
    ///
    /// # Errors
    /// The call's failure; parts of none, or of more multiprocessors than there are.
    pub fn groups_of(&self, least: u32) -> Result<u32> {
        self.check_least(least)?;
        let mut groups = 0;
        let (result, rest) = (ptr::null_mut(), ptr::null_mut());
        let calls = self.driver.callable()?;
        // SAFETY: *pointers*: null asks for the number alone; a live local and this value's resource.
        unsafe {
            calls.cuDevSmResourceSplitByCount(
                result,
                &raw mut groups,
                &raw const self.raw,
                rest,
                0,
                least,
            )
        }
        .map_err(|failure| self.driver.error(failure))?;
        Ok(groups)
    }

    /// Splits it into so many parts of at least so many multiprocessors each; the driver rounds up to what the device can
    /// do. A part can't be split again.
    ///
    /// Calls `cuDevSmResourceSplitByCount`.
    ///
    /// # Errors
    /// The call's failure: a part of a split is refused; no parts, more than there are multiprocessors for, or fewer in
    /// the driver's answer than were asked for; parts of none.
    #[doc(alias = "cuDevSmResourceSplitByCount")]
    pub fn split_by_count(&self, groups: u32, least: u32) -> Result<SmSplit> {
        self.check_least(least)?;
        let most = self.count() / least;
        if !(1..=most).contains(&groups) {
            return Err(Error::argument(format!(
                "groups: {groups}, must be from 1 to {most}, since each has at least {least} of {} multiprocessors",
                self.count()
            )));
        }
        let mut raws = vec![CUdevResource::default(); usize::try_from(groups).unwrap_or_default()];
        let (mut made, mut rest) = (groups, CUdevResource::default());
        let calls = self.driver.callable()?;
        // SAFETY: *pointers*: as many places as parts are asked for, live locals, and this value's resource.
        unsafe {
            calls.cuDevSmResourceSplitByCount(
                raws.as_mut_ptr(),
                &raw mut made,
                &raw const self.raw,
                &raw mut rest,
                0,
                least,
            )
        }
        .map_err(|failure| self.driver.error(failure))?;
        if made < groups {
            return Err(Error::argument(format!(
                "groups: {groups}, but this device has only {made} of at least {least} multiprocessors"
            )));
        }
        let part = |raw| Self { raw, device: self.device, driver: self.driver.clone() };
        Ok(SmSplit { groups: raws.into_iter().map(part).collect(), rest: part(rest) })
    }

    fn check_least(&self, least: u32) -> Result<()> {
        let most = self.count();
        if (1..=most).contains(&least) {
            return Ok(());
        }
        Err(Error::argument(format!("least: {least}, must be from 1 to {most} multiprocessors")))
    }
}

impl fmt::Debug for SmResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmResource")
            .field("device", &self.device)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<SmResource>();
};
