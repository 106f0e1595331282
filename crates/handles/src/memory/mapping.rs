//! Physical memory in a range of addresses, and which devices may use it there.

#![expect(unsafe_code, reason = "calls the driver's memory functions")]

use super::{Access, Accessor, MappedMemory, PhysicalAllocation, Reservation, Users, access};
use crate::{
    device::Device,
    driver::Driver,
    error::{Error, Note, Refused, Result},
    mark::Mark,
    object::ObjectKind,
    resource::{Closed, Handle, Resource},
    stream::{AsStream, Stream, StreamRef},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The resource behind [`Mapping`].
#[derive(Debug)]
pub(crate) struct MappingRes;

/// What a mapping refers to.
#[derive(Debug)]
pub(crate) struct MappingDeps {
    // The addresses are freed before the memory is released.
    reservation: Reservation,
    allocation: PhysicalAllocation,
    users: Users,
    /// Whether unmapping failed.
    stuck: AtomicBool,
    /// Who was given which access through this mapping.
    granted: Mutex<Vec<(Accessor, Access)>>,
}

impl MappingDeps {
    fn new(reservation: &Reservation, allocation: &PhysicalAllocation) -> Result<Self> {
        reservation.driver().check_same(allocation.driver(), "allocation")?;
        Ok(Self {
            allocation: allocation.clone(),
            reservation: reservation.clone(),
            users: Users::default(),
            stuck: AtomicBool::new(false),
            granted: Mutex::default(),
        })
    }
}

impl Drop for MappingDeps {
    /// Addresses where something is still mapped can't be freed (measured): they stay with it, and what was told of the
    /// mapping is true of them.
    fn drop(&mut self) {
        // Users that are still known weren't waited for, so that nothing was unmapped.
        if self.stuck.load(Ordering::Relaxed) || !self.users.is_empty() {
            self.reservation.keep_for_good();
        }
    }
}

// SAFETY: *ends*: `cuMemUnmap`. *Dependencies*: the addresses and the memory.
unsafe impl Resource for MappingRes {
    type Raw = CUdeviceptr;
    type Deps = MappingDeps;
    const KIND: ObjectKind = ObjectKind::Mapping;
    const DESTROY: Option<Call> = Some(Call::cuMemUnmap);

    fn driver(deps: &MappingDeps) -> &Driver {
        deps.reservation.driver()
    }
    fn context(_: &MappingDeps) -> CUcontext {
        CUcontext::NULL
    }
    fn users(deps: &MappingDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(
        calls: Calls<'_>,
        raw: CUdeviceptr,
        deps: &MappingDeps,
    ) -> Result<(), Failure> {
        // SAFETY: *pointers*: mapped, by the caller's promise, with this size.
        let result = unsafe { calls.cuMemUnmap(raw, deps.allocation.bytes()) };
        deps.stuck.store(result.is_err(), Ordering::Relaxed);
        result
    }
}

/// Physical memory in a range of addresses. At first no device has access; [`set_access`](Self::set_access) gives it, and
/// [`memory`](Self::memory) is then what kernels use.
///
/// The driver unmaps memory that is in use, and the kernel faults. So every stream that uses it has to be told
/// ([`used_on`](Self::used_on)); a kernel that gets a [`MappedMemory`] as an argument tells it by itself.
///
/// Its drop calls `cuMemUnmap`; for users before that `cuStreamIsCapturing`, `cuEventCreate`,
/// `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`. With users the end is left to the reclaimer.
///
/// Clones are the same mapping, and keep the memory and the addresses.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Access, Device, Driver, Mapping, PhysicalAllocation, PhysicalOptions};
/// # use cuhold_handles::{Reservation, ReservationOptions};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let bytes = PhysicalAllocation::granularity_bytes(&device, PhysicalOptions::default())?;
/// let range = Reservation::new(&device, 4 * bytes, ReservationOptions::default())?;
/// let allocation = PhysicalAllocation::new(&device, bytes, PhysicalOptions::default())?;
/// let mapping = Mapping::new(&range, 0, &allocation)?;
/// mapping.set_access(&device, Access::ReadWrite)?;
/// assert_eq!(mapping.memory()?.as_raw(), range.as_raw());
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Mapping(Handle<MappingRes>);

impl Mapping {
    /// Maps the whole of an allocation into a reservation, `offset_bytes` behind its beginning, where nothing is mapped
    /// yet.
    ///
    /// Calls `cuMemMap`.
    ///
    /// # Errors
    /// Objects of two drivers are refused, and an allocation that doesn't fit behind the offset; `INVALID_VALUE` for an
    /// offset that isn't a multiple of the granularity, or where something is mapped.
    #[doc(alias = "cuMemMap")]
    pub fn new(
        reservation: &Reservation,
        offset_bytes: usize,
        allocation: &PhysicalAllocation,
    ) -> Result<Self> {
        let deps = MappingDeps::new(reservation, allocation)?;
        let (bytes, room) = (allocation.bytes(), reservation.bytes());
        if room.checked_sub(offset_bytes).is_none_or(|rest| bytes > rest) {
            return Err(Error::argument(format!(
                "offset_bytes: {offset_bytes}, and {bytes} bytes behind it don't fit a reservation of {room}"
            )));
        }
        let start = reservation.as_raw() + offset_bytes as u64;
        let make = |calls: Calls<'_>, deps: &MappingDeps| {
            // SAFETY: *handles*: the allocation's and the reservation's are live; the range lies in the latter.
            unsafe { calls.cuMemMap(start, bytes, 0, deps.allocation.as_raw(), 0) }?;
            Ok(start)
        };
        Ok(Self(Handle::create(Call::cuMemMap, deps, make)?))
    }

    /// Its size in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.deps().allocation.bytes()
    }

    /// What is mapped.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn allocation(&self) -> &PhysicalAllocation {
        &self.0.deps().allocation
    }

    /// Where it is mapped.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn reservation(&self) -> &Reservation {
        &self.0.deps().reservation
    }

    /// Says what a device may do with the memory from here on. Work that is queued already must not need what is taken
    /// away.
    ///
    /// Calls `cuMemSetAccess`.
    ///
    /// # Errors
    /// A device of another driver; the call's failure, such as `INVALID_DEVICE` for one that can't reach the memory.
    #[doc(alias = "cuMemSetAccess")]
    pub fn set_access(&self, device: &Device, access: Access) -> Result<()> {
        self.set_access_list(&[(Accessor::Device(device.clone()), access)])
    }

    /// Says what each of a list may do with the memory from here on: all of it or nothing. Who isn't in the list keeps
    /// what it had. Work that is queued already must not need what is taken away: [`wait`](Self::wait) waits for what the
    /// mapping was told of.
    ///
    /// Calls `cuMemSetAccess`.
    ///
    /// # Errors
    /// An empty list, an entry that stands in it twice, a device of another driver; the call's failure, such as
    /// `INVALID_DEVICE` for one that can't reach the memory, after which nothing has changed.
    #[doc(alias = "cuMemSetAccess")]
    pub fn set_access_list(&self, list: &[(Accessor, Access)]) -> Result<()> {
        let raw = access::list(self.driver(), list)?;
        let calls = self.driver().callable()?;
        // SAFETY: *pointers*: a list with its length; the range is this mapping.
        unsafe { calls.cuMemSetAccess(self.0.raw(), self.bytes(), raw.as_ptr(), raw.len()) }
            .map_err(|failure| self.driver().error(failure))?;
        let mut granted = self.0.deps().granted.lock();
        for (accessor, access) in list {
            match granted.iter_mut().find(|(known, _)| known == accessor) {
                Some((_, former)) => *former = *access,
                None => granted.push((accessor.clone(), *access)),
            }
        }
        Ok(())
    }

    /// Who was given which access through this mapping and its clones, the driver not asked.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn granted(&self) -> Vec<(Accessor, Access)> {
        self.0.deps().granted.lock().clone()
    }

    /// Waits for the streams that were told to it ([`used_on`](Self::used_on)), for what they have queued by now; they
    /// stay its users.
    ///
    /// Calls nothing without users; else `cuStreamIsCapturing`, `cuEventCreate`, `cuEventRecord`, `cuEventSynchronize` and
    /// `cuEventDestroy`.
    ///
    /// # Errors
    /// What kept the driver from saying that the work is done.
    pub fn wait(&self) -> Result<()> {
        self.driver().check_callable()?;
        self.0.deps().users.wait_for_now(self.driver())
    }

    /// What a device may do with the memory.
    ///
    /// Calls `cuMemGetAccess`.
    ///
    /// # Errors
    /// A device of another driver; the call's failure.
    #[doc(alias = "cuMemGetAccess")]
    pub fn access(&self, device: &Device) -> Result<Access> {
        self.driver().check_same(device.driver(), "device")?;
        let (mut flags, place) = (0, access::location(device));
        let calls = self.driver().callable()?;
        // SAFETY: *pointers*: two live locals; the address is this mapping's.
        unsafe { calls.cuMemGetAccess(&raw mut flags, &raw const place, self.0.raw()) }
            .map_err(|failure| self.driver().error(failure))?;
        Ok(Access::of(flags))
    }

    /// The memory, to be used. It keeps the mapping.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) while nobody has access that was given through this mapping.
    pub fn memory(&self) -> Result<MappedMemory> {
        let granted = self.0.deps().granted.lock();
        if granted.iter().any(|(_, access)| *access != Access::None) {
            return Ok(MappedMemory::of(self));
        }
        Err(Error::state("no device has access to the mapping yet: `set_access` gives it"))
    }

    /// Tells that work which was queued on this stream uses the memory, so that its end waits for that work. To be called
    /// after the work was queued.
    ///
    /// Calls nothing for a stream that this library can ask later; for a per-thread default stream, or one that is
    /// borrowed without an owner, `cuEventCreate` and `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// A stream of another driver; the calls' failures, after which the memory stays mapped for good.
    pub fn used_on(&self, stream: &impl AsStream) -> Result<()> {
        self.used_by(stream.as_stream())
    }

    /// As [`used_on`](Self::used_on), for an argument of a launch.
    #[doc(hidden)]
    pub fn used_by(&self, stream: StreamRef<'_>) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        self.0.deps().users.used_on(stream, None)
    }

    /// As [`used_on`](Self::used_on), for what is queued on the stream up to a mark, and nothing that is queued later.
    #[doc(hidden)]
    pub fn used_until(&self, stream: &Stream, mark: &Arc<Mark<'static>>) {
        self.0.deps().users.used_until(stream, mark);
    }

    /// Whether no stream is known any more that it would wait for.
    #[doc(hidden)]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.deps().users.is_empty()
    }

    /// Leaves the memory mapped, and its addresses reserved, for good.
    #[doc(hidden)]
    pub fn keep_for_good(self) {
        self.0.deps().stuck.store(true, Ordering::Relaxed);
        drop(self.into_raw());
    }

    /// Unmaps the memory here and now, if this is the last handle and no [`MappedMemory`] of it is held, once its users
    /// are done.
    ///
    /// Calls `cuMemUnmap`; for users before that `cuStreamIsCapturing`, `cuEventCreate`, `cuEventRecord`,
    /// `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked to unmap it.
    #[doc(alias = "cuMemUnmap")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        let (own, addresses) = (self.0.raw(), self.reservation().as_raw());
        self.0.close().map_err(|Refused { error, value }| {
            let is_stuck = error.failure().is_some_and(|failure| failure.call == Call::cuMemUnmap);
            if !is_stuck || value.is_some() {
                return Refused::new(error, value.map(Self));
            }
            // Nobody holds it any more, and its addresses stay with it.
            let lost = error.with_note(Note::Leaked { raw: own });
            let all = own == addresses;
            Refused::new(
                if all { lost } else { lost.with_note(Note::Leaked { raw: addresses }) },
                None,
            )
        })
    }
}

forms! {
    Mapping(Handle<MappingRes>): CUdeviceptr, "mapped address",
    (reservation: &Reservation, allocation: &PhysicalAllocation) =>
        MappingDeps::new(reservation, allocation)?
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Mapping>();
};
