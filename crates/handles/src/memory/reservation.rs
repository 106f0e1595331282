//! Reserved addresses: a range of a device's address space, without memory.

#![expect(unsafe_code, reason = "calls the driver's memory functions")]

use super::PhysicalOptions;
use crate::{
    device::Device,
    driver::Driver,
    error::{Error, Refused, Result},
    object::ObjectKind,
    resource::{Closed, Handle, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::sync::atomic::{AtomicBool, Ordering};

/// The resource behind [`Reservation`].
#[derive(Debug)]
pub(crate) struct ReservationRes;

/// What a reservation refers to.
#[derive(Debug)]
pub(crate) struct ReservationDeps {
    driver: Driver,
    bytes: usize,
    /// Whether something is mapped there that couldn't be unmapped.
    kept: AtomicBool,
}

// SAFETY: *ends*: `cuMemAddressFree`. *Dependencies*: none but the driver.
unsafe impl Resource for ReservationRes {
    type Raw = CUdeviceptr;
    type Deps = ReservationDeps;
    const KIND: ObjectKind = ObjectKind::Reservation;
    const DESTROY: Option<Call> = Some(Call::cuMemAddressFree);

    fn driver(deps: &ReservationDeps) -> &Driver {
        &deps.driver
    }
    fn context(_: &ReservationDeps) -> CUcontext {
        CUcontext::NULL
    }
    unsafe fn destroy(
        calls: Calls<'_>,
        raw: CUdeviceptr,
        deps: &ReservationDeps,
    ) -> Result<(), Failure> {
        if deps.kept.load(Ordering::Relaxed) {
            // The driver would refuse, and what is there was told.
            return Ok(());
        }
        // SAFETY: *pointers*: reserved, by the caller's promise, with this size.
        unsafe { calls.cuMemAddressFree(raw, deps.bytes) }
    }
}

/// How addresses are reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ReservationOptions {
    /// What the first address is a multiple of: a power of two, in bytes; 0 is the driver's choice.
    pub alignment_bytes: usize,
    /// Where the addresses had best begin; 0 is anywhere. The driver may reserve others all the same:
    /// [`as_raw`](Reservation::as_raw) tells which.
    pub address: CUdeviceptr,
}

impl ReservationOptions {
    /// The first address is a multiple of this.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn aligned(alignment_bytes: usize) -> Self {
        Self { alignment_bytes, ..Self::default() }
    }

    /// Beginning there, if the driver can.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn at(address: CUdeviceptr) -> Self {
        Self { address, ..Self::default() }
    }
}

impl ReservationOptions {
    fn check(self) -> Result<()> {
        let alignment = self.alignment_bytes;
        if alignment == 0 || alignment.is_power_of_two() {
            return Ok(());
        }
        Err(Error::argument(format!(
            "alignment_bytes: {alignment}, and it must be a power of two, or 0"
        )))
    }
}

/// A range of addresses that no other allocation gets, the same on all devices. Memory comes there by mappings
/// ([`Mapping`](crate::Mapping)), which keep it.
///
/// Clones are the same range. Its drop calls `cuMemAddressFree`, with the last of them, those in mappings included.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, Reservation, ReservationOptions};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let range = Reservation::new(&device, 64 << 20, ReservationOptions::default())?;
/// assert_eq!(range.bytes(), 64 << 20);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Reservation(Handle<ReservationRes>);

impl Reservation {
    /// Reserves that many bytes of addresses: a multiple of the
    /// [granularity](crate::PhysicalAllocation::granularity_bytes) of the device's memory, and not 0.
    ///
    /// Calls `cuMemGetAllocationGranularity`, `cuMemAddressReserve`.
    ///
    /// # Errors
    /// Other sizes are refused, with the granularity, and an alignment that isn't a power of two; `OUT_OF_MEMORY`, or
    /// another failure of the calls.
    #[doc(alias = "cuMemAddressReserve")]
    pub fn new(device: &Device, bytes: usize, options: ReservationOptions) -> Result<Self> {
        options.check()?;
        // The manual asks for pages of the host; an H200 refused them.
        super::physical::whole(device, bytes, PhysicalOptions::default())?;
        Self::of_granules(device, bytes, options)
    }

    /// As [`new`](Self::new), of bytes that are known to be a multiple of the granularity.
    #[doc(hidden)]
    pub fn of_granules(device: &Device, bytes: usize, options: ReservationOptions) -> Result<Self> {
        options.check()?;
        let ReservationOptions { alignment_bytes: alignment, address } = options;
        let make = |calls: Calls<'_>, _: &ReservationDeps| {
            let mut raw = 0;
            // SAFETY: *pointers*: a live local.
            unsafe { calls.cuMemAddressReserve(&raw mut raw, bytes, alignment, address, 0) }?;
            Ok(raw)
        };
        Ok(Self(Handle::create(Call::cuMemAddressReserve, deps(device, bytes)?, make)?))
    }

    /// Its size in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.deps().bytes
    }

    /// Something is mapped there for good: the addresses are never freed.
    pub(super) fn keep_for_good(&self) {
        self.0.deps().kept.store(true, Ordering::Relaxed);
    }

    /// Frees the addresses here and now, if this is the last handle and no mapping is there.
    ///
    /// Calls `cuMemAddressFree`.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked: also where something is still mapped there that couldn't
    /// be unmapped, which was told then. Such addresses are never freed.
    #[doc(alias = "cuMemAddressFree")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        if self.0.deps().kept.load(Ordering::Relaxed) {
            let error =
                Error::state("something is still mapped at the addresses: they stay reserved");
            return Err(Refused::new(error, Some(self)));
        }
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

fn deps(device: &Device, bytes: usize) -> Result<ReservationDeps> {
    Ok(ReservationDeps {
        driver: device.driver().clone(),
        bytes: super::some(bytes)?,
        kept: AtomicBool::new(false),
    })
}

forms! {
    Reservation(Handle<ReservationRes>): CUdeviceptr, "reserved address",
    (device: &Device, bytes: usize) => deps(device, bytes)?
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Reservation>();
};
