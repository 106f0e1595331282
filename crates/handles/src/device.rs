//! Devices: where a program begins. A device holds its primary context.
//!
//! Source: CUDA Driver API 13.x, "Device Management" and "Primary Context Management".

#![expect(unsafe_code, reason = "calls the driver's device functions")]

use crate::{
    context::Context,
    current::Current,
    driver::{Driver, Primaries},
    error::{Error, Refused, Result},
    event::{Event, EventOptions},
    image::Image,
    library::Library,
    resource::Closed,
    scope,
    stream::{Stream, StreamOptions},
};
use cuhold_driver_sys::{Calls, Failure, ffi::*};
use std::{env, ffi::CStr, fmt};

/// How long a device's primary context is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum Retention {
    /// By the driver, for its whole life. Releasing it to zero and retaining it again costs over a tenth of a second
    /// and destroys what other libraries made in it (measured).
    #[default]
    ByDriver,
    /// By the handles made from this device, and no longer.
    UntilLast,
}

/// A CUDA device with its primary context. Clones are the same device.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// println!("{} has {} bytes", device.name()?, device.total_bytes()?);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Device {
    context: Context,
    ordinal: u32,
}

impl Device {
    /// The device of this ordinal, from 0, of the process's real driver. The simulated driver takes its place only
    /// where `CUHOLD_DRIVER=sim` asks for it and the feature `sim` is on; without a GPU this is an error, never a
    /// silent simulation.
    ///
    /// Calls `cuInit`, `cuDeviceGet`, `cuDevicePrimaryCtxRetain`.
    ///
    /// # Errors
    /// [`ErrorKind::Load`](crate::ErrorKind::Load) without a driver, with what was tried; the calls' failures;
    /// [`ErrorKind::Forked`](crate::ErrorKind::Forked) in a forked child.
    pub fn new(ordinal: u32) -> Result<Self> {
        Self::with_driver(&default_driver()?, ordinal)
    }

    /// The device of this ordinal, from 0.
    ///
    /// Calls `cuInit`, `cuDeviceGet`, `cuDevicePrimaryCtxRetain`; the first and the last once a driver.
    ///
    /// # Errors
    /// The calls' failures; [`ErrorKind::Forked`](crate::ErrorKind::Forked) in a forked child.
    pub fn with_driver(driver: &Driver, ordinal: u32) -> Result<Self> {
        Self::with_retention(driver, ordinal, Retention::ByDriver)
    }

    /// As [`with_driver`](Self::with_driver), saying how long the primary context is kept.
    ///
    /// Calls `cuInit`, `cuDeviceGet`, `cuDevicePrimaryCtxRetain`.
    ///
    /// # Errors
    /// As [`with_driver`](Self::with_driver).
    pub fn with_retention(driver: &Driver, ordinal: u32, retention: Retention) -> Result<Self> {
        driver.init()?;
        let wanted = i32::try_from(ordinal)
            .map_err(|error| Error::argument(format!("ordinal: {ordinal}: {error}")))?;
        let mut raw: CUdevice = 0;
        // SAFETY: *pointers*: `raw` is a live local.
        unsafe { driver.calls().cuDeviceGet(&raw mut raw, wanted) }
            .map_err(|failure| driver.error(failure))?;
        let context = match retention {
            Retention::ByDriver => Context::primary(driver, raw)?,
            Retention::UntilLast => Context::primary_until_last(driver, raw)?,
        };
        Ok(Self { context, ordinal })
    }

    /// The ordinal.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The driver's handle.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUdevice {
        self.context.device()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.context.driver()
    }

    /// The primary context.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    fn query<T>(
        &self,
        out: T,
        call: impl FnOnce(Calls<'_>, &mut T) -> Result<(), Failure>,
    ) -> Result<T> {
        let mut out = out;
        call(self.driver().callable()?, &mut out)
            .map_err(|failure| self.driver().error(failure))?;
        Ok(out)
    }

    /// The device's name.
    ///
    /// Calls `cuDeviceGetName`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn name(&self) -> Result<String> {
        let name = self.query([0; 256], |calls, name: &mut [c_char; 256]| {
            // SAFETY: *pointers*: 256 bytes of a live local.
            unsafe { calls.cuDeviceGetName(name.as_mut_ptr(), 256, self.as_raw()) }
        })?;
        let bytes = name.map(|c| c.to_ne_bytes()[0]);
        let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    /// The device's memory in bytes.
    ///
    /// Calls `cuDeviceTotalMem`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn total_bytes(&self) -> Result<usize> {
        self.query(0, |calls, bytes| {
            // SAFETY: *pointers*: exclusive.
            unsafe { calls.cuDeviceTotalMem_v2(bytes, self.as_raw()) }
        })
    }

    /// An attribute of the device.
    ///
    /// Calls `cuDeviceGetAttribute`.
    ///
    /// # Errors
    /// The call's failure: `INVALID_VALUE` for an attribute that the driver doesn't know.
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32> {
        self.query(0, |calls, value| {
            // SAFETY: *pointers*: exclusive.
            unsafe { calls.cuDeviceGetAttribute(value, attribute, self.as_raw()) }
        })
    }

    /// The compute capability, major and minor: `(9, 0)` of an H200.
    ///
    /// Calls `cuDeviceGetAttribute`, twice.
    ///
    /// # Errors
    /// The calls' failure.
    pub fn compute_capability(&self) -> Result<(i32, i32)> {
        let major =
            self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor =
            self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok((major, minor))
    }

    /// As [`Context::new_stream`], in the primary context.
    ///
    /// Calls `cuStreamCreateWithPriority`; `cuStreamDestroy` where it is undone.
    ///
    /// # Errors
    /// As [`Stream::with_options`].
    pub fn new_stream(&self) -> Result<Stream> {
        self.context.new_stream()
    }

    /// Makes a stream in the primary context.
    ///
    /// Calls `cuStreamCreateWithPriority`; `cuStreamDestroy` where it is undone.
    ///
    /// # Errors
    /// As [`Stream::with_options`].
    pub fn stream_with(&self, options: StreamOptions) -> Result<Stream> {
        Stream::with_options(&self.context, options)
    }

    /// The primary context's legacy default stream.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn legacy_stream(&self) -> Stream {
        Stream::legacy(&self.context)
    }

    /// Makes an event in the primary context.
    ///
    /// Calls `cuEventCreate`; `cuEventDestroy` where it is undone.
    ///
    /// # Errors
    /// As [`Event::with_options`].
    pub fn new_event(&self, options: EventOptions) -> Result<Event> {
        Event::with_options(&self.context, options)
    }

    /// Loads code for all contexts of the driver.
    ///
    /// Calls `cuLibraryLoadData`.
    ///
    /// # Errors
    /// As [`Library::load`].
    pub fn load(&self, image: &(impl Image + ?Sized)) -> Result<Library> {
        Library::load(&self.context, image)
    }

    /// Waits for all work of the primary context.
    ///
    /// Calls `cuCtxSynchronize`. It invalidates captures of the context's streams, as the driver's call does.
    ///
    /// # Errors
    /// As [`Context::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.context.synchronize()
    }

    /// Makes the primary context current on this thread, and keeps it for the life of the driver: a context that ended
    /// while current would be a stale pointer. One call, so a failure leaves the former context current; where the driver
    /// carried it out all the same, the error says so.
    ///
    /// Where a context is current that somebody else has destroyed, the driver is at its mercy: setting another one in its
    /// place ended the process at times (measured).
    ///
    /// Together with [`with_current`](Self::with_current) this is the only operation that changes what is current.
    ///
    /// Calls `cuCtxSetCurrent`; for [`Retention::UntilLast`] also `cuDevicePrimaryCtxRetain`, once a driver.
    ///
    /// # Errors
    /// The calls' failures.
    #[doc(alias = "cuCtxSetCurrent")]
    pub fn set_current(&self) -> Result<()> {
        let driver = self.driver();
        // Never left again, so the driver keeps it to its end.
        Primaries::acquire(driver, self.as_raw())?;
        // SAFETY: *handles*: live as long as the driver, which keeps it.
        unsafe { driver.callable()?.cuCtxSetCurrent(self.context.as_raw()) }.map_err(|failure| {
            match scope::ask(driver.calls()) {
                now if now == Current::of(self.context.as_raw()) => {
                    driver.error(failure).with_current(now).with_completed(1)
                }
                now @ Current::Unknown(_) => driver.error(failure).with_current(now),
                _ => driver.error(failure),
            }
        })
    }

    /// As [`Context::with_current`], with the primary context.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`Context::with_current`].
    pub fn with_current<T>(&self, foreign: impl FnOnce() -> T) -> Result<T> {
        self.context.with_current(foreign)
    }

    /// Gives up the retain of this device's primary context, the driver's or with [`Retention::UntilLast`] this handle's
    /// own: if no other library holds one, the context ends, which waits for its work.
    ///
    /// `Ok(StillShared)`: other handles of the context are alive (clones of this device, its streams, …), or it was made
    /// current for good; nothing was released.
    ///
    /// Calls `cuDevicePrimaryCtxRelease`.
    ///
    /// # Errors
    /// [`Refused`] with the call's failure; with the device where the driver wasn't asked.
    #[doc(alias = "cuDevicePrimaryCtxRelease")]
    pub fn release_primary(self) -> Result<Closed, Refused<Option<Self>>> {
        let Self { context, ordinal } = self;
        context.release_primary().map_err(|Refused { error, value }| {
            Refused::new(error, value.map(|context| Self { context, ordinal }))
        })
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.ordinal)
    }
}

/// The driver of [`Device::new`].
fn default_driver() -> Result<Driver> {
    match env::var("CUHOLD_DRIVER").as_deref() {
        Ok("sim") => simulated(),
        Ok("real") | Err(env::VarError::NotPresent) => Driver::load(),
        Ok(other) => {
            Err(Error::argument(format!("CUHOLD_DRIVER: `{other}` is neither `real` nor `sim`")))
        }
        Err(env::VarError::NotUnicode(_)) => Err(Error::argument("CUHOLD_DRIVER: not Unicode")),
    }
}

#[cfg(feature = "sim")]
fn simulated() -> Result<Driver> {
    /// The simulated driver that was asked for by name, one a process as the real one is.
    static SIMULATED: std::sync::OnceLock<Driver> = std::sync::OnceLock::new();
    Ok(SIMULATED.get_or_init(|| Driver::from_api(cuhold_driver_sim::Sim::new())).clone())
}

#[cfg(not(feature = "sim"))]
fn simulated() -> Result<Driver> {
    Err(Error::argument("CUHOLD_DRIVER: `sim` needs the feature `sim`"))
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Device>();
};
