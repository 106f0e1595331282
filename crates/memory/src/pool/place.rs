//! Where a pool's memory lies: on a device, on the host, or wherever it is used.

#![expect(unsafe_code, reason = "asks the driver for the pools of a place")]

use super::{Pool, PoolDeps, PoolOptions, attributes, peers};
use crate::{order::failure_of, resource::Residence};
use cuhold_handles::{
    Device, Error, Result,
    driver_sys::{Call, Calls, Failure, ffi::*, mutant},
    resource::Handle,
    scope,
};
use std::sync::atomic::Ordering;

type LocationType = CUmemLocationType;

/// Where a pool's memory lies.
///
/// | place | memory | who reaches it at first |
/// |---|---|---|
/// | [`Device`](Self::Device) | of the pool's device | the device |
/// | [`Host`](Self::Host), [`HostNuma`](Self::HostNuma) | page-locked, of the host | the host and the pool's device |
/// | [`Managed`](Self::Managed) and the others of its kind | moves to where it is used | the host and every device |
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, Pool, PoolOptions, PoolPlace, Residence, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let pool = Pool::new(&device, PoolOptions::default().place(PoolPlace::Host))?;
/// assert_eq!(pool.residence(), Residence::Host);
/// let buffer = Buffer::from_slice_in(&pool, &stream, &[1, 2, 3])?;
/// assert_eq!(buffer.to_vec()?, [1, 2, 3]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum PoolPlace {
    /// Memory of the device.
    #[default]
    Device,
    /// Page-locked memory of the host, on whatever node.
    Host,
    /// Page-locked memory of this NUMA node of the host.
    HostNuma(i32),
    /// Managed memory, which no place is preferred for. Since driver 13.0.
    Managed,
    /// Managed memory that is preferably on the device. Since driver 13.0.
    ManagedOnDevice,
    /// Managed memory that is preferably on the host. Since driver 13.0.
    ManagedOnHost,
    /// Managed memory that is preferably on this NUMA node of the host. Since driver 13.0.
    ManagedOnHostNuma(i32),
}

impl PoolPlace {
    pub(super) const fn is_managed(self) -> bool {
        matches!(
            self,
            Self::Managed
                | Self::ManagedOnDevice
                | Self::ManagedOnHost
                | Self::ManagedOnHostNuma(_)
        )
    }

    /// Whether the pool's device reaches the memory only once it was said that it may.
    pub(super) const fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::HostNuma(_))
    }

    pub(crate) const fn residence(self) -> Residence {
        match self {
            Self::Device => Residence::Device,
            Self::Host => Residence::Host,
            Self::HostNuma(node) => Residence::HostNuma(node),
            Self::Managed
            | Self::ManagedOnDevice
            | Self::ManagedOnHost
            | Self::ManagedOnHostNuma(_) => Residence::Managed,
        }
    }

    const fn node(self) -> Option<i32> {
        match self {
            Self::HostNuma(node) | Self::ManagedOnHostNuma(node) => Some(node),
            _ => None,
        }
    }

    pub(super) const fn kind(self) -> CUmemAllocationType {
        if self.is_managed() {
            CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED
        } else {
            CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED
        }
    }

    pub(super) fn location(self, device: &Device) -> CUmemLocation {
        let (type_, id) = match self {
            Self::Device | Self::ManagedOnDevice => {
                (LocationType::CU_MEM_LOCATION_TYPE_DEVICE, device.as_raw())
            }
            Self::Host | Self::ManagedOnHost => (LocationType::CU_MEM_LOCATION_TYPE_HOST, 0),
            Self::HostNuma(node) | Self::ManagedOnHostNuma(node) => {
                (LocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, node)
            }
            Self::Managed => (LocationType::CU_MEM_LOCATION_TYPE_NONE, 0),
        };
        CUmemLocation::new(type_, id)
    }

    /// Refuses what the driver would refuse without saying why.
    fn check(self, device: &Device) -> Result<()> {
        if let Some(node) = self.node().filter(|node| *node < 0) {
            return Err(Error::argument(format!(
                "place: NUMA node {node}; nodes are numbered from 0"
            )));
        }
        if !self.is_managed() {
            return Ok(());
        }
        let concurrent = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
        if device.attribute(concurrent)? == 0 {
            return Err(Error::argument(format!(
                "place: device {} and the host can't use managed memory at once, which a pool of it needs",
                device.ordinal()
            )));
        }
        Ok(())
    }
}

/// Refuses what the driver would refuse without saying why.
///
/// Calls `cuDeviceGetAttribute` for managed memory; else nothing.
pub(super) fn check(device: &Device, options: PoolOptions) -> Result<()> {
    let place = options.place;
    if place.is_managed() {
        if let Some(bytes) = options.max_bytes.filter(|bytes| *bytes > 0) {
            return Err(Error::argument(format!(
                "max_bytes: {bytes}; a pool of managed memory has no maximum, so only 0"
            )));
        }
        if options.shareable {
            return Err(Error::argument(
                "shareable: other processes can't import a pool of managed memory",
            ));
        }
    }
    if place == PoolPlace::Host && options.shareable {
        return Err(Error::argument(
            "shareable: other processes import a pool of host memory only where its NUMA node is named",
        ));
    }
    place.check(device)
}

/// The most that a pool may hold where nothing was said; 0: the driver's own limit.
///
/// Calls `cuDeviceTotalMem` for memory of a device; else nothing.
pub(super) fn default_max_bytes(device: &Device, place: PoolPlace) -> Result<usize> {
    if place == PoolPlace::Device { device.total_bytes() } else { Ok(0) }
}

impl Pool {
    /// Whether the device has memory pools. Where it hasn't, memory comes from the
    /// [`SynchronousResource`](crate::SynchronousResource), or from the host.
    ///
    /// Calls `cuDeviceGetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Pool, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// assert!(Pool::is_supported(&device)?);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn is_supported(device: &Device) -> Result<bool> {
        let supported = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        Ok(device.attribute(supported)? != 0)
    }

    /// The pool that the driver made for memory of this place. It is never destroyed. Since driver 13.0; for
    /// [`PoolPlace::Device`] it is that of [`default_of`](Self::default_of).
    ///
    /// What it gives out is used on streams of `device`, which for memory of the host is let reach it.
    ///
    /// Calls `cuMemGetDefaultMemPool`; for memory of the host `cuMemPoolSetAccess`, for managed memory
    /// `cuDeviceGetAttribute`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a NUMA node below 0, or managed memory of a device
    /// that can't use it while the host does; the calls' failures: `INVALID_VALUE` for a place that isn't there.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Pool, PoolPlace, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let pool = Pool::default_at(&device, PoolPlace::Device)?;
    /// assert_eq!(pool.as_raw(), Pool::default_of(&device)?.as_raw());
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemGetDefaultMemPool")]
    pub fn default_at(device: &Device, place: PoolPlace) -> Result<Self> {
        Self::lent_at(device, place, |calls, raw, location| {
            // SAFETY: *pointers*: both exclusive.
            unsafe { calls.cuMemGetDefaultMemPool(raw, location, place.kind()) }
        })
    }

    /// The pool of this place that is the current one at this moment. It is never destroyed through this handle; somebody
    /// else may destroy it, and allocations then fail. Since driver 13.0.
    ///
    /// What it gives out is used on streams of `device`, which for memory of the host is let reach it.
    ///
    /// Calls `cuMemGetMemPool`; for memory of the host `cuMemPoolSetAccess`, for managed memory `cuDeviceGetAttribute`.
    ///
    /// # Errors
    /// As [`default_at`](Self::default_at).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Pool, PoolOptions, PoolPlace, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let pool = Pool::new(&device, PoolOptions::default())?;
    /// pool.make_current()?;
    /// assert_eq!(Pool::current_at(&device, PoolPlace::Device)?.as_raw(), pool.as_raw());
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemGetMemPool")]
    pub fn current_at(device: &Device, place: PoolPlace) -> Result<Self> {
        Self::lent_at(device, place, |calls, raw, location| {
            // SAFETY: *pointers*: both exclusive.
            unsafe { calls.cuMemGetMemPool(raw, location, place.kind()) }
        })
    }

    fn lent_at(
        device: &Device,
        place: PoolPlace,
        ask: impl FnOnce(Calls<'_>, &mut CUmemoryPool, &mut CUmemLocation) -> Result<(), Failure>,
    ) -> Result<Self> {
        let driver = device.driver();
        driver.check_callable()?;
        place.check(device)?;
        let (mut raw, mut location) = (CUmemoryPool::NULL, place.location(device));
        ask(driver.calls(), &mut raw, &mut location).map_err(|failure| driver.error(failure))?;
        if place.is_host() {
            let grant = || {
                peers::grant(driver.calls(), raw, &[device.as_raw()])
                    .map_err(|failure| driver.error(failure))
            };
            scope::neutral(driver, grant, |(), error| error.with_completed(1))?;
        }
        Ok(Self(Handle::borrow(raw, PoolDeps::at(device, None, place), None)))
    }

    /// Makes this the current pool of its place: where allocations come from that name no pool. For a pool of its device's
    /// memory these are those of the device's streams.
    ///
    /// From then on any code of the process may have memory of it, on streams that nobody tells this library. Since a driver
    /// that ends a pool while a stream that freed its memory still works ends the process later (measured), a pool that was
    /// once made current is never destroyed: when its last handle goes it is told to keep nothing, what is unused goes back to
    /// the system, and it stays the current one until another is. A program makes few pools current.
    ///
    /// Calls `cuDeviceSetMemPool`, in relaxed capture mode; for a pool of another place than a device `cuMemSetMemPool`.
    ///
    /// # Errors
    /// The call's failure, after which the current pool is what it was; where only the capture mode couldn't be put back,
    /// the error is [completed](cuhold_handles::Error::completed).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let pool = Pool::new(&device, PoolOptions::default().release_threshold_bytes(u64::MAX))?;
    /// pool.make_current()?;
    /// let buffer = Buffer::<u8>::uninit(&stream, 1000)?;
    /// assert_eq!(pool.used_bytes()?, 1000);
    /// Pool::default_of(&device)?.make_current()?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuDeviceSetMemPool")]
    #[doc(alias = "cuMemSetMemPool")]
    pub fn make_current(&self) -> Result<()> {
        let (device, place) = (self.device(), self.place());
        let made = self.neutral(|calls| {
            if place == PoolPlace::Device {
                // SAFETY: *handles*: this handle's pool.
                return unsafe { calls.cuDeviceSetMemPool(device.as_raw(), self.raw()) };
            }
            let mut location = place.location(device);
            // SAFETY: *handles*: this handle's pool; *pointers*: a live local.
            unsafe { calls.cuMemSetMemPool(&raw mut location, place.kind(), self.raw()) }
        });
        // Whatever the driver's call answered, the pool may be the current one.
        let is_asked = made.as_ref().map_or_else(was_asked, |()| true);
        if is_asked && !mutant::is_out("pool-current") {
            self.0.deps().was_current.store(true, Ordering::Relaxed);
        }
        made
    }

    /// Where its memory lies.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn place(&self) -> PoolPlace {
        self.0.deps().place
    }

    /// Where its memory lies, and so who reaches it.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn residence(&self) -> Residence {
        self.place().residence()
    }
}

/// Whether a failure to make a pool the current one came from the driver's call for that, or after it.
fn was_asked(error: &Error) -> bool {
    let sets = |call| matches!(call, Call::cuDeviceSetMemPool | Call::cuMemSetMemPool);
    error.completed().is_some() || failure_of(error).is_some_and(|failure| sets(failure.call))
}

/// Sets up a pool that was just made.
pub(super) fn set_up(
    calls: Calls<'_>,
    raw: CUmemoryPool,
    device: &Device,
    options: PoolOptions,
) -> Result<(), Failure> {
    if options.place.is_host() {
        peers::grant(calls, raw, &[device.as_raw()])?;
    }
    if options.release_threshold_bytes == 0 {
        return Ok(());
    }
    let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    attributes::set(calls, raw, threshold, options.release_threshold_bytes)
}
