//! Pools between processes: exported as a file, imported from one.
//!
//! An imported pool allocates nothing. Importing the same pool again gives the same handle of the driver's, which is
//! destroyed as often (measured); what is imported of it is therefore known by that handle, in a registry of the driver
//! value, and a handle that the driver gives to another pool later is another one's: it is forgotten when it is destroyed.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

#![expect(unsafe_code, reason = "calls the driver's pool functions")]

use super::{Pool, peers, users};
use crate::{
    ipc::{
        ExportedPool, Imports, IpcChannel, PeerWatch, PoolDescriptor, PoolIdentity, new_identity,
        uuid_of,
    },
    resource::Residence,
};
use cuhold_handles::{
    Closed, Device, Driver, Error, FileDescriptor, ObjectKind, Refused, Result, Stream, Users,
    driver_sys::{Call, Calls, Failure, ffi::*, mutant},
    file_pointer, forms,
    resource::{Handle, Resource},
    scope,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, FromRawFd as _, OwnedFd},
    sync::{Arc, OnceLock, Weak},
};

const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Importing, exporting and destroying pools at once crashed older drivers, whichever values of ours they were called
/// through: one at a time in a process. It remembers nothing.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Held around a driver call that imports, exports or destroys a pool; none of them waits for the GPU. Not for a forked
/// child, whose parent may have held it.
pub(super) fn one_at_a_time() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock()
}

impl Pool {
    /// Exports the pool: a file that other processes import it from, and what is to be told of it. Once more gives another
    /// file of the same pool.
    ///
    /// Calls `cuDeviceGetUuid`, `cuMemPoolExportToShareableHandle`, the latter in relaxed capture mode.
    ///
    /// # Errors
    /// The calls' failures, `INVALID_VALUE` for a pool that wasn't made [`shareable`](super::PoolOptions::shareable);
    /// no file is left then. [`ErrorKind::System`](cuhold_handles::ErrorKind::System) where the system gives no random
    /// bytes for its identity.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{ImportedPool, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
    /// let imported = ImportedPool::import_exported(&device, &pool.export()?)?;
    /// assert_ne!(imported.as_raw(), pool.as_raw());
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolExportToShareableHandle")]
    pub fn export(&self) -> Result<ExportedPool> {
        let device = uuid_of(self.device())?;
        let identity = match self.known_identity() {
            Some(identity) => identity,
            None => new_identity()?,
        };
        let file = self.export_file()?;
        // Another thread may have been first: then that one's holds.
        let identity = *self.0.deps().identity.get_or_init(|| identity);
        let max_bytes = self.max_bytes().unwrap_or_default() as u64;
        let node = match self.residence() {
            Residence::HostNuma(node) => Some(node),
            _ => None,
        };
        Ok(ExportedPool::new(PoolDescriptor { identity, device, max_bytes, node }, file))
    }

    /// What tells the pool from all others, once it was exported.
    pub(crate) fn known_identity(&self) -> Option<PoolIdentity> {
        self.0.deps().identity.get().copied()
    }

    fn export_file(&self) -> Result<OwnedFd> {
        let driver = self.driver();
        driver.check_callable()?;
        let mut file: c_int = -1;
        let ask = || {
            let _one = one_at_a_time();
            // SAFETY: *pointers*: a live local, of the type that this kind of handle is written as; *handles*: this
            // value's.
            unsafe {
                driver.calls().cuMemPoolExportToShareableHandle(
                    (&raw mut file).cast(),
                    self.raw(),
                    FILE,
                    0,
                )
            }
            .map_err(|failure| driver.error(failure))
        };
        let exported = scope::neutral(driver, ask, |(), error| error);
        // Whatever came back, a file that was given out is owned.
        // SAFETY: the driver gave out a new file, which is this process's to close.
        let file = (file >= 0).then(|| unsafe { OwnedFd::from_raw_fd(file) });
        match (exported, file) {
            (Ok(()), Some(file)) => Ok(file),
            (Ok(()), None) => Err(Error::state("the driver reported success and gave no file")),
            (Err(error), file) => {
                // What a failing close has to say is told by its own.
                drop(file.map(|file| FileDescriptor::new(driver, file)));
                Err(error)
            }
        }
    }
}

/// What was imported of each pool in this driver value, by the driver's handle of the pool: it gives the same one however
/// often a pool is imported. Read and written under [`one_at_a_time`].
#[derive(Default)]
struct Registry(Mutex<BTreeMap<usize, Weak<Imports>>>);

impl Registry {
    /// The imports of this pool, shared by all its handles.
    fn of(driver: &Driver, raw: CUmemoryPool) -> Arc<Imports> {
        let registry = driver.extra::<Self>();
        let mut known = registry.0.lock();
        let of_pool = known.get(&raw.addr()).filter(|_| !mutant::is_out("import-registry"));
        if let Some(imports) = of_pool.and_then(Weak::upgrade) {
            return imports;
        }
        let new = Arc::<Imports>::default();
        known.insert(raw.addr(), Arc::downgrade(&new));
        new
    }

    fn forget(driver: &Driver, raw: CUmemoryPool) {
        driver.extra::<Self>().0.lock().remove(&raw.addr());
    }
}

/// What an imported pool refers to.
#[derive(Debug)]
pub(crate) struct ImportedPoolDeps {
    device: Device,
    residence: Residence,
    identity: Option<PoolIdentity>,
    exporter: Option<PeerWatch>,
    imports: OnceLock<Arc<Imports>>,
    /// The work that must be done before the pool ends, as for a pool of our own.
    users: Users,
}

/// The resource behind [`ImportedPool`].
#[derive(Debug)]
pub(crate) struct ImportedPoolRes;

// SAFETY: *ends*: `cuMemPoolDestroy`, as for a pool of our own. *Dependencies*: its device, which the driver keeps.
unsafe impl Resource for ImportedPoolRes {
    type Raw = CUmemoryPool;
    type Deps = ImportedPoolDeps;
    const KIND: ObjectKind = ObjectKind::ImportedPool;
    const DESTROY: Option<Call> = Some(Call::cuMemPoolDestroy);

    fn driver(deps: &ImportedPoolDeps) -> &Driver {
        deps.device.driver()
    }
    fn context(_: &ImportedPoolDeps) -> CUcontext {
        CUcontext::NULL
    }
    fn waits_for(deps: &ImportedPoolDeps) -> CUcontext {
        deps.device.context().as_raw()
    }
    fn users(deps: &ImportedPoolDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(
        calls: Calls<'_>,
        raw: CUmemoryPool,
        deps: &ImportedPoolDeps,
    ) -> Result<(), Failure> {
        let _one = one_at_a_time();
        let imports = deps.imports.get();
        let times = imports.map_or(1, |imports| imports.end());
        let mut result = Ok(());
        for made in 0..times {
            // SAFETY: *handles*: live, by the caller's promise, and imported as often.
            let ended = unsafe { calls.cuMemPoolDestroy(raw) };
            if ended.is_err_and(|failure| failure.status == CUresult::NOT_PERMITTED) {
                if let Some(imports) = imports {
                    imports.end_later(times.saturating_sub(made));
                }
                return ended;
            }
            result = result.and(ended);
        }
        if times > 0 && imports.is_some() {
            // The driver may give the handle to another pool from here on.
            Registry::forget(deps.device.driver(), raw);
        }
        result
    }
}

/// A pool of another process. It allocates nothing, and tells nothing of itself: memory of it is imported by the exporter's
/// word ([`import_buffer`](Self::import_buffer)).
///
/// Clones are the same pool. It ends with the last of them and of the buffers that were imported from it. No access is
/// given to other devices, and none is revoked at its end: that is its exporter's. Importing one pool again, in the same
/// driver value, shares what is mapped, and the pool ends with the last of the imports; two driver values over one real driver ([`Driver::isolated`]) must not both import
/// from one pool, since the first free there would unmap the other's as well.
///
/// Its drop calls `cuMemPoolDestroy`, and `cuEventDestroy` for events that imported buffers have used; where memory of it
/// was freed it is left to the reclaimer, as a [`Pool`] is: for each stream after `cuEventCreate` and `cuEventRecord`, there
/// `cuEventSynchronize` and `cuEventDestroy`, and `cuStreamIsCapturing` for one that others may use.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ImportedPool(Handle<ImportedPoolRes>);

impl ImportedPool {
    /// Imports the pool that another process exported into this file, which stays the caller's: the driver keeps no claim
    /// on it. `device` is where the pool's memory lies, which isn't checked; nor is what is imported from it later, but by
    /// the driver. A pool of the host's memory is imported with what was told of it
    /// ([`import_exported`](Self::import_exported)): only that says that it is one.
    ///
    /// Calls `cuMemPoolImportFromShareableHandle`, in relaxed capture mode; `cuMemPoolDestroy` where it is undone.
    ///
    /// # Errors
    /// The call's failure: `UNKNOWN` where the file is something else (measured).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{ImportedPool, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
    /// let file = pool.export()?.into_file();
    /// let imported = ImportedPool::import(&device, &file)?;
    /// imported.close()?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolImportFromShareableHandle")]
    pub fn import(device: &Device, file: impl AsFd) -> Result<Self> {
        Self::make(deps(device), file)
    }

    /// Imports a pool with what was told of it: its device is checked, and later that memory is of this pool and of no
    /// other. A pool of the host's memory may be imported for any device, which is let reach it.
    ///
    /// Calls `cuDeviceGetUuid`, `cuMemPoolImportFromShareableHandle`, the latter in relaxed capture mode; for a pool of the
    /// host's memory instead of the former `cuMemPoolGetAccess`, and `cuMemPoolSetAccess` where the device doesn't reach it;
    /// `cuMemPoolDestroy` where it is undone.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): another device than the pool's; the calls' failures:
    /// `UNKNOWN` where the file is something else (measured).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{ImportedPool, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
    /// let exported = pool.export()?;
    /// let imported = ImportedPool::import_exported(&device, &exported)?;
    /// assert_eq!(imported.identity(), Some(exported.descriptor().identity()));
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolImportFromShareableHandle")]
    pub fn import_exported(device: &Device, exported: &ExportedPool) -> Result<Self> {
        Self::checked(device, exported, None)
    }

    /// Receives a pool, imports it, and watches the process that exported it: once that has ended, no more memory is
    /// imported.
    ///
    /// Calls as [`import_exported`](Self::import_exported): `cuDeviceGetUuid`, `cuMemPoolImportFromShareableHandle`,
    /// `cuMemPoolGetAccess`, `cuMemPoolSetAccess`, `cuMemPoolDestroy`.
    ///
    /// # Errors
    /// As [`IpcChannel::receive_pool`] and [`import_exported`](Self::import_exported).
    pub fn receive(device: &Device, channel: &mut IpcChannel) -> Result<Self> {
        device.driver().check_callable()?;
        let exported = channel.receive_pool()?;
        Self::checked(device, &exported, Some(channel.watch()?))
    }

    fn checked(
        device: &Device,
        exported: &ExportedPool,
        exporter: Option<PeerWatch>,
    ) -> Result<Self> {
        let described = exported.descriptor();
        let residence = described.residence();
        if residence == Residence::Device && uuid_of(device)? != described.device_uuid() {
            return Err(Error::argument("device: the pool's memory lies on another one"));
        }
        let identity = Some(described.identity());
        let deps = ImportedPoolDeps { residence, identity, exporter, ..deps(device) };
        let pool = Self::make(deps, exported)?;
        if residence == Residence::Device {
            return Ok(pool);
        }
        match pool.let_device_reach() {
            Ok(()) => Ok(pool),
            Err(error) => Err(match pool.close() {
                Ok(_) => error,
                Err(refused) => error.with_undo(&refused.error),
            }),
        }
    }

    /// Lets the device reach memory of the host, which is nobody's by itself.
    fn let_device_reach(&self) -> Result<()> {
        let (driver, device) = (self.driver(), self.device().as_raw());
        let let_it = |calls: Calls<'_>| {
            if peers::has_access(calls, self.raw(), device)? {
                return Ok(());
            }
            peers::grant(calls, self.raw(), &[device])
        };
        scope::neutral(
            driver,
            || let_it(driver.calls()).map_err(|failure: Failure| driver.error(failure)),
            |(), error| error,
        )
    }

    fn make(deps: ImportedPoolDeps, file: impl AsFd) -> Result<Self> {
        let place = file_pointer(file.as_fd());
        let make = |calls: Calls<'_>, deps: &ImportedPoolDeps| {
            let _one = one_at_a_time();
            let mut raw = CUmemoryPool::NULL;
            // SAFETY: *pointers*: a live local; the other is an open file's number, as this kind of handle is given.
            unsafe { calls.cuMemPoolImportFromShareableHandle(&raw mut raw, place, FILE, 0) }?;
            deps.imports.get_or_init(|| Registry::of(deps.device.driver(), raw)).begin();
            Ok(raw)
        };
        Handle::create(Call::cuMemPoolImportFromShareableHandle, deps, make).map(Self)
    }

    /// What tells the pool from all others, where its exporter told it.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn identity(&self) -> Option<PoolIdentity> {
        self.0.deps().identity
    }

    /// Whether the process that exported the pool has ended; `None`: it isn't watched.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::System`](cuhold_handles::ErrorKind::System) with what the system answered.
    pub fn exporter_has_ended(&self) -> Result<Option<bool>> {
        self.0.deps().exporter.as_ref().map(PeerWatch::has_ended).transpose()
    }

    /// Refuses what an exporter that has ended once exported.
    pub(crate) fn check_exporter(&self) -> Result<()> {
        match self.exporter_has_ended()? {
            Some(true) if !mutant::is_out("exporter-ended") => Err(Error::state(
                "the process that exported the pool has ended, and nothing more is imported from it",
            )),
            _ => Ok(()),
        }
    }

    /// How many pieces of memory of this pool are mapped in this process.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn mapped_buffers(&self) -> usize {
        // In a forked child somebody else may hold the lock for good; nothing is mapped there.
        if self.driver().check_callable().is_err() {
            return 0;
        }
        self.imports().mapped()
    }

    pub(crate) fn imports(&self) -> &Imports {
        let deps = self.0.deps();
        deps.imports.get_or_init(|| {
            let _one = one_at_a_time();
            let imports = Registry::of(deps.device.driver(), self.raw());
            imports.begin();
            imports
        })
    }

    /// Memory of it is going to be freed on this stream: as for a pool of our own.
    pub(crate) fn keep_stream(&self, stream: &Stream) {
        users::keep(&self.0, stream);
    }

    pub(crate) fn raw(&self) -> CUmemoryPool {
        self.0.raw()
    }

    /// Where its memory lies, as its exporter told; where nothing was told it is taken for its device's.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn residence(&self) -> Residence {
        self.0.deps().residence
    }

    /// The device whose memory it holds, or that uses it.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.deps().device
    }

    /// Ends the pool here and now, if this is its last handle and no buffer that was imported from it is left.
    ///
    /// Calls `cuMemPoolDestroy`, and `cuEventDestroy` for events that imported buffers have used; for each stream on which
    /// memory of it was freed `cuEventCreate`, `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy` before that, and
    /// `cuStreamIsCapturing` for one that others may use.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{ImportedPool, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
    /// ImportedPool::import_exported(&device, &pool.export()?)?.close()?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value, .. }| Refused::new(error, value.map(Self)))
    }
}

fn deps(device: &Device) -> ImportedPoolDeps {
    let imports = OnceLock::new();
    let (device, users) = (device.clone(), Users::default());
    let residence = Residence::Device;
    ImportedPoolDeps { device, residence, identity: None, exporter: None, imports, users }
}

forms! {
    ImportedPool(Handle<ImportedPoolRes>): CUmemoryPool, "imported pool", (device: &Device) => deps(device)
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ImportedPool>();
};
