//! Memory pools: where stream-ordered memory comes from.
//!
//! A pool's set-up and its attributes are read and written in relaxed capture mode: they disturb nobody's capture (P11).
//! Buffers hold their pool, and the pool ends once the streams that freed its memory are done: see [`users`].
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

#![expect(unsafe_code, reason = "calls the driver's pool functions")]

mod attributes;
mod peers;
mod place;
#[cfg(target_os = "linux")]
mod share;
mod users;

pub use attributes::{MemoryUsage, Reuse};
pub(crate) use peers::has_access;
pub use place::PoolPlace;
#[cfg(target_os = "linux")]
pub use share::ImportedPool;

use crate::{
    ordered,
    resource::Residence,
    source::{Block, MemoryResource},
};
use cuhold_handles::{
    Closed, Device, Driver, Error, Note, ObjectKind, Owner, Refused, Result, Stream, Users,
    driver_sys::{Call, Calls, Failure, ffi::*, mutant},
    resource::{Handle, Resource},
    scope,
};
use peers::Peers;
use std::{
    fmt, ptr,
    sync::atomic::{AtomicBool, Ordering},
};

/// What a pool refers to.
#[derive(Debug)]
pub(crate) struct PoolDeps {
    device: Device,
    max_bytes: Option<usize>,
    place: PoolPlace,
    /// What must be done before the pool ends: work where its memory was freed, and of devices that were let reach it.
    users: Users,
    peers: Peers,
    /// Whether it was ever a place's current pool: then it is never destroyed.
    was_current: AtomicBool,
    /// What tells it from all others, once it was exported.
    #[cfg(target_os = "linux")]
    identity: std::sync::OnceLock<crate::ipc::PoolIdentity>,
}

impl PoolDeps {
    fn new(device: &Device, max_bytes: Option<usize>) -> Self {
        Self::at(device, max_bytes, PoolPlace::Device)
    }

    fn at(device: &Device, max_bytes: Option<usize>, place: PoolPlace) -> Self {
        Self {
            device: device.clone(),
            max_bytes,
            place,
            users: Users::default(),
            peers: Peers::default(),
            was_current: AtomicBool::default(),
            #[cfg(target_os = "linux")]
            identity: std::sync::OnceLock::new(),
        }
    }
}

/// The resource behind [`Pool`].
#[derive(Debug)]
pub(crate) struct PoolRes;

// SAFETY: *ends*: `cuMemPoolDestroy`; one that was current is left for good. *Dependencies*: a pool refers to its device, which the driver keeps.
unsafe impl Resource for PoolRes {
    type Raw = CUmemoryPool;
    type Deps = PoolDeps;
    const KIND: ObjectKind = ObjectKind::Pool;
    const DESTROY: Option<Call> = Some(Call::cuMemPoolDestroy);

    fn driver(deps: &PoolDeps) -> &Driver {
        deps.device.driver()
    }
    fn context(_: &PoolDeps) -> CUcontext {
        CUcontext::NULL
    }
    fn waits_for(deps: &PoolDeps) -> CUcontext {
        deps.device.context().as_raw()
    }
    fn users(deps: &PoolDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUmemoryPool, deps: &PoolDeps) -> Result<(), Failure> {
        if deps.was_current.load(Ordering::Relaxed) {
            return attributes::keep_nothing(calls, raw);
        }
        deps.peers.revoke_all(calls, raw)?;
        #[cfg(target_os = "linux")]
        let _one = share::one_at_a_time();
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuMemPoolDestroy(raw) }
    }
}

/// How a pool is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolOptions {
    /// The most memory that the pool may hold, in bytes; the driver rounds it up. `None`: as much as its device has; for a
    /// pool of the host's memory, and for 0, the driver's own limit.
    ///
    /// A pool takes twice its maximum of the process's address space: of pools as large as their device, which the default
    /// is, 466 fitted into one process, of half as much 935 (measured, H200). A program with hundreds of pools gives each
    /// less; where no more fit, the error says so.
    pub max_bytes: Option<usize>,
    /// How much memory that nobody uses the pool keeps when the host waits for work, in bytes. The driver's default, 0,
    /// gives all of it back at each wait.
    pub release_threshold_bytes: u64,
    /// Whether other processes can import it.
    pub shareable: bool,
    /// Where its memory lies.
    pub place: PoolPlace,
}

impl PoolOptions {
    /// Holding at most this much, in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Of memory of this place.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn place(mut self, place: PoolPlace) -> Self {
        self.place = place;
        self
    }

    /// Other processes can import it.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn shareable(mut self) -> Self {
        self.shareable = true;
        self
    }

    /// Keeping this much at a wait, in bytes; [`u64::MAX`] keeps all.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn release_threshold_bytes(mut self, bytes: u64) -> Self {
        self.release_threshold_bytes = bytes;
        self
    }
}

/// A memory pool of a device. Clones are the same pool; it ends with the last of them and of the buffers that were made
/// from it, once the streams on which memory of it was freed are done: a driver (580.159) that ended pools before that ended
/// the process at a later wait for the stream, or hung. The pool keeps these streams until then; where it has many, those
/// that nobody else has any more until they are done. One that was [made current](Self::make_current) is never destroyed.
///
/// Its drop calls `cuMemPoolDestroy`; where memory of it was freed on the reclaimer, for each stream after `cuEventCreate`
/// and `cuEventRecord`, there `cuEventSynchronize` and `cuEventDestroy`, and `cuStreamIsCapturing` for one that others may
/// use. A pool that has [peers](Self::add_peer) ends there, too, after `cuMemHostAlloc` and `cuMemFreeHost` for each, which
/// wait for their work, `cuMemPoolGetAttribute`, `cuMemPoolGetAccess` and `cuMemPoolSetAccess`. One that was made current:
/// `cuMemPoolSetAttribute` and `cuMemPoolTrimTo` instead.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver};
/// # use cuhold_memory::{Buffer, Pool, PoolOptions};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let stream = device.new_stream()?;
/// let pool = Pool::new(&device, PoolOptions::default().max_bytes(1 << 30))?;
/// let buffer = Buffer::<f32>::uninit_in(&pool, &stream, 1000)?;
/// assert_eq!(pool.used_bytes()?, 4000);
/// drop(buffer);
/// assert_eq!((pool.used_bytes()?, pool.used_high_bytes()?), (0, 4000));
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pool(Handle<PoolRes>);

impl Pool {
    /// Makes a pool of the device's memory, or of another [place](PoolPlace) whose memory the device uses.
    ///
    /// Calls `cuMemPoolCreate`; for memory of the device without a maximum `cuDeviceTotalMem`, for memory of the host
    /// `cuMemPoolSetAccess`, for managed memory `cuDeviceGetAttribute`; with a release threshold `cuMemPoolSetAttribute`;
    /// where one of these fails `cuMemPoolDestroy`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): options that the place doesn't have: a maximum of
    ///   managed memory, sharing managed memory or host memory of no named node, managed memory of a device that can't use it
    ///   while the host does, a node below 0;
    /// - the calls' failures: `OUT_OF_MEMORY` also where the address space is used up, see [`PoolOptions::max_bytes`];
    ///   `INVALID_VALUE` for a place that isn't there or that the driver is too old for.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let options = PoolOptions::default().max_bytes(64 << 20).release_threshold_bytes(u64::MAX);
    /// let pool = Pool::new(&device, options)?;
    /// assert!(Buffer::<u8>::uninit_in(&pool, &stream, 65 << 20).is_err());
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolCreate")]
    pub fn new(device: &Device, options: PoolOptions) -> Result<Self> {
        let driver = device.driver();
        driver.check_callable()?;
        place::check(device, options)?;
        let max_bytes = match options.max_bytes {
            Some(bytes) => bytes,
            None => place::default_max_bytes(device, options.place)?,
        };
        let raw = scope::neutral(
            driver,
            || made(device, max_bytes, options),
            |raw, error| unmade(driver, raw, error),
        )?;
        let max_bytes = Some(max_bytes).filter(|bytes| *bytes > 0);
        let deps = PoolDeps::at(device, max_bytes, options.place);
        Ok(Self(Handle::own(raw, deps)))
    }

    /// The pool that the driver made for the device. It is never destroyed.
    ///
    /// Calls `cuDeviceGetDefaultMemPool`.
    ///
    /// # Errors
    /// The call's failure: `NOT_SUPPORTED` for a device without pools.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let pool = Pool::default_of(&device)?;
    /// pool.set_release_threshold_bytes(1 << 30)?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuDeviceGetDefaultMemPool")]
    pub fn default_of(device: &Device) -> Result<Self> {
        Self::lent(device, |calls, raw| {
            // SAFETY: *pointers*: exclusive.
            unsafe { calls.cuDeviceGetDefaultMemPool(raw, device.context().device()) }
        })
    }

    /// The pool that allocations without a pool come from at this moment: the device's current one. It is never
    /// destroyed through this handle; somebody else may destroy it, and allocations then fail.
    ///
    /// Calls `cuDeviceGetMemPool`.
    ///
    /// # Errors
    /// The call's failure: `NOT_SUPPORTED` for a device without pools.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let buffer = Buffer::<u8>::uninit(&stream, 1000)?;
    /// assert_eq!(Pool::current_of(&device)?.used_bytes()?, 1000);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuDeviceGetMemPool")]
    pub fn current_of(device: &Device) -> Result<Self> {
        Self::lent(device, |calls, raw| {
            // SAFETY: *pointers*: exclusive.
            unsafe { calls.cuDeviceGetMemPool(raw, device.context().device()) }
        })
    }

    fn lent(
        device: &Device,
        ask: impl FnOnce(Calls<'_>, &mut CUmemoryPool) -> Result<(), Failure>,
    ) -> Result<Self> {
        let driver = device.driver();
        let mut raw = CUmemoryPool::NULL;
        ask(driver.callable()?, &mut raw).map_err(|failure| driver.error(failure))?;
        let deps = PoolDeps::new(device, None);
        Ok(Self(Handle::borrow(raw, deps, None)))
    }

    /// Takes over a pool that the caller created.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Null is refused; the pool is then still the caller's.
    ///
    /// # Safety
    /// `raw` is a live pool of this device's memory that nobody else ends.
    pub unsafe fn from_raw(device: &Device, raw: CUmemoryPool) -> Result<Self> {
        let deps = PoolDeps::new(device, None);
        Ok(Self(Handle::own(not_null(raw)?, deps)))
    }

    /// Refers to a pool that somebody else ends; `owner` is kept alive as long.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Null is refused.
    ///
    /// # Safety
    /// `raw` is a pool of this device's memory that lives as long as this handle and its clones, or `owner` keeps it
    /// alive.
    pub unsafe fn borrow_raw(
        device: &Device,
        raw: CUmemoryPool,
        owner: Option<Owner>,
    ) -> Result<Self> {
        let deps = PoolDeps::new(device, None);
        Ok(Self(Handle::borrow(not_null(raw)?, deps, owner)))
    }

    /// The driver's handle, which stays this value's.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUmemoryPool {
        self.0.raw()
    }

    #[inline]
    pub(crate) fn raw(&self) -> CUmemoryPool {
        self.0.raw()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// The device whose memory it holds.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.deps().device
    }

    /// The most memory that it may hold, in bytes, where it was made by this library.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn max_bytes(&self) -> Option<usize> {
        self.0.deps().max_bytes
    }

    /// Whether somebody else ends the pool.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        self.0.is_borrowed()
    }

    /// Refuses a stream of another driver, or of another device.
    #[inline]
    pub(crate) fn check_stream(&self, stream: &Stream) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        let (own, other) = (self.device().context().device(), stream.context().device());
        if own == other { Ok(()) } else { Err(other_device(own, other)) }
    }

    /// Memory of it is going to be freed on this stream: its end waits for the work there.
    #[inline]
    pub(crate) fn keep_stream(&self, stream: &Stream) {
        if !self.is_borrowed() {
            users::keep(&self.0, stream);
        }
    }

    /// Ends the pool here and now, if this is its last handle and no buffer of it is left: those hold it. Waits for the work
    /// of the streams on which memory of it was freed, and of its peers.
    ///
    /// `Ok(StillShared)`: it goes on, as a pool does that was ever [made current](Self::make_current).
    ///
    /// Calls `cuMemPoolDestroy`; for each stream on which memory of it was freed `cuEventCreate`, `cuEventRecord`,
    /// `cuEventSynchronize` and `cuEventDestroy` before that, and `cuStreamIsCapturing` for one that others may use; for peers
    /// also `cuMemHostAlloc`, `cuMemFreeHost`, `cuMemPoolGetAttribute`, `cuMemPoolGetAccess` and `cuMemPoolSetAccess`; for one
    /// that was made current `cuMemPoolSetAttribute` and `cuMemPoolTrimTo` instead.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Pool, PoolOptions, handles::{Closed, Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let pool = Pool::new(&device, PoolOptions::default())?;
    /// let buffer = Buffer::<u8>::uninit_in(&pool, &stream, 1000)?;
    /// assert_eq!(pool.clone().close()?, Closed::StillShared);
    /// drop(buffer);
    /// assert_eq!(pool.close()?, Closed::Destroyed);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        if self.0.deps().was_current.load(Ordering::Relaxed) {
            return self.leave_current();
        }
        self.0.close().map_err(|Refused { error, value, .. }| Refused::new(error, value.map(Self)))
    }

    #[cold]
    fn leave_current(self) -> Result<Closed, Refused<Option<Self>>> {
        match self.0.close() {
            Ok(_) => Ok(Closed::StillShared),
            Err(Refused { error, value, .. }) => Err(Refused::new(error, value.map(Self))),
        }
    }

    /// Gives the pool away without ending it.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// Gives the handle back where others of it are alive.
    pub fn into_raw(self) -> Result<CUmemoryPool, Self> {
        self.0.into_raw().map_err(Self)
    }
}

#[cold]
fn other_device(own: CUdevice, other: CUdevice) -> Error {
    Error::argument(format!("stream: it is of device {other}, the pool of device {own}"))
}

fn not_null(raw: CUmemoryPool) -> Result<CUmemoryPool> {
    if raw.is_null() { Err(Error::argument("the raw pool is null")) } else { Ok(raw) }
}

/// Creates a pool and sets it up.
fn made(device: &Device, max_bytes: usize, options: PoolOptions) -> Result<CUmemoryPool> {
    let driver = device.driver();
    let properties = CUmemPoolProps {
        allocType: options.place.kind(),
        handleTypes: if options.shareable {
            CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        } else {
            CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE
        },
        location: options.place.location(device),
        win32SecurityAttributes: ptr::null_mut(),
        maxSize: max_bytes,
        usage: 0,
        gpuDirectRDMACapable: 0,
        reserved: [0; 53],
    };
    let mut raw = CUmemoryPool::NULL;
    // SAFETY: *pointers*: live locals.
    unsafe { driver.calls().cuMemPoolCreate(&raw mut raw, &raw const properties) }
        .map_err(|failure| too_many(driver.error(failure), max_bytes))?;
    match place::set_up(driver.calls(), raw, device, options) {
        Ok(()) => Ok(raw),
        Err(failure) => Err(unmade(driver, raw, driver.error(failure))),
    }
}

/// Says of the refusal which limit it may be.
#[cold]
fn too_many(error: Error, max_bytes: usize) -> Error {
    if !error.is(CUresult::OUT_OF_MEMORY) || max_bytes == 0 {
        return error;
    }
    let text = format!(
        "options.max_bytes: a pool of at most {max_bytes} bytes takes twice as much of the process's addresses, and the pools that are there may have left less"
    );
    error.with_note(Note::Text(text.into()))
}

/// Destroys a pool that can't be handed out.
#[cold]
fn unmade(driver: &Driver, raw: CUmemoryPool, error: Error) -> Error {
    if mutant::is_out("pool-undo") {
        return error;
    }
    let columns = Call::cuMemPoolDestroy.columns();
    // SAFETY: *handles*: created a moment ago, and given to nobody.
    let destroy = |calls: Calls<'_>| unsafe { calls.cuMemPoolDestroy(raw) };
    scope::cleanup(driver, None, columns, destroy).note_undo(error, raw.addr() as u64)
}

// SAFETY: *memory*: the driver's allocator aligns to 512 bytes and orders what it gives by the stream. *Given back*: a
// free is queued behind the stream's work.
unsafe impl MemoryResource for Pool {
    /// Calls `cuMemAllocFromPoolAsync`; for an exposed stream also `cuStreamIsCapturing`; `cuMemFreeAsync` where it is
    /// undone. It invalidates captures in global mode on any thread, as the driver's call does.
    #[inline]
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        ordered::allocate(Some(self), bytes, stream)
    }

    /// Calls `cuMemFreeAsync`, in relaxed capture mode; for a default stream also `cuStreamIsCapturing`.
    ///
    /// # Safety
    /// As of every resource; and a stream that is borrowed without an owner is done before the pool's last handle goes, since
    /// the pool can't ask it then.
    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
        if block.ptr == 0 {
            return Ok(());
        }
        let leaked = Note::Leaked { raw: block.ptr };
        if let Err(error) = stream.driver().check_callable() {
            return Err(error.with_note(leaked));
        }
        self.keep_stream(stream);
        // SAFETY: the caller's promise.
        let outcome = unsafe { ordered::free(block.ptr, stream) };
        let asked = outcome.operation.is_none_or(|failure| failure.call == Call::cuMemFreeAsync);
        match outcome.into_error(stream.driver()) {
            None => Ok(()),
            Some(error) if asked && outcome.is_asked() => Err(error),
            Some(error) => Err(error.with_note(leaked)),
        }
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::PoolMemory
    }

    fn residence(&self) -> Residence {
        Self::residence(self)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Pool>();
    assert!(size_of::<Pool>() == 8 && size_of::<Result<Pool>>() == 16);
};
