//! Pools between processes: exported as a file, imported from one.
//!
//! An imported pool allocates nothing. Importing the same pool again gives the same handle of the driver's, which is
//! destroyed as often (measured).
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

#![expect(unsafe_code, reason = "calls the driver's pool functions")]

use super::{Pool, PoolDeps, PoolRes};
use cuhold_handles::{
    Closed, Device, Driver, Error, FileDescriptor, ObjectKind, Refused, Result,
    driver_sys::{Call, Calls, Failure, ffi::*},
    forms,
    resource::{Handle, Resource},
    scope,
};
use std::os::fd::{FromRawFd as _, OwnedFd};

const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

impl Pool {
    /// A file that other processes import the pool from.
    ///
    /// Calls `cuMemPoolExportToShareableHandle`.
    ///
    /// # Errors
    /// The call's failure, `INVALID_VALUE` for a pool that wasn't made [`shareable`](super::PoolOptions::shareable).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{ImportedPool, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
    /// let imported = ImportedPool::import(&device, pool.export()?)?;
    /// assert_ne!(imported.as_raw(), pool.as_raw());
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolExportToShareableHandle")]
    pub fn export(&self) -> Result<OwnedFd> {
        let driver = self.driver();
        let mut file: c_int = -1;
        let ask = || {
            // SAFETY: *pointers*: a live local, of the type that this kind of handle is written as; *handles*: this
            // value's.
            unsafe {
                driver.callable()?.cuMemPoolExportToShareableHandle(
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

/// The resource behind [`ImportedPool`].
#[derive(Debug)]
pub(crate) struct ImportedPoolRes;

// SAFETY: *ends*: `cuMemPoolDestroy`, as for a pool of our own. *Dependencies*: its device, which the driver keeps.
unsafe impl Resource for ImportedPoolRes {
    type Raw = CUmemoryPool;
    type Deps = PoolDeps;
    const KIND: ObjectKind = ObjectKind::ImportedPool;
    const DESTROY: Option<Call> = Some(Call::cuMemPoolDestroy);

    fn driver(deps: &PoolDeps) -> &Driver {
        PoolRes::driver(deps)
    }
    fn context(deps: &PoolDeps) -> CUcontext {
        PoolRes::context(deps)
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUmemoryPool, deps: &PoolDeps) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        unsafe { PoolRes::destroy(calls, raw, deps) }
    }
}

/// A pool of another process. It allocates nothing, and tells nothing of itself: memory of it is imported by the exporter's
/// word.
///
/// Clones are the same pool. Its drop calls `cuMemPoolDestroy`, with the last of them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ImportedPool(Handle<ImportedPoolRes>);

impl ImportedPool {
    /// Imports the pool that another process exported into this file, which is closed; `device` is where its memory lies.
    ///
    /// Calls `cuMemPoolImportFromShareableHandle`; `cuMemPoolDestroy` where it is undone. A file that can't be closed is
    /// reported.
    ///
    /// # Errors
    /// The call's failure: `UNKNOWN` where the file is something else (measured).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{ImportedPool, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
    /// let imported = ImportedPool::import(&device, pool.export()?)?;
    /// imported.close()?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolImportFromShareableHandle")]
    pub fn import(device: &Device, file: OwnedFd) -> Result<Self> {
        let file = FileDescriptor::new(device.driver(), file);
        let place = file.as_pointer();
        let make = |calls: Calls<'_>, _: &PoolDeps| {
            let mut raw = CUmemoryPool::NULL;
            // SAFETY: *pointers*: a live local; the other is an open file's number, as this kind of handle is given.
            unsafe { calls.cuMemPoolImportFromShareableHandle(&raw mut raw, place, FILE, 0) }?;
            Ok(raw)
        };
        let made = Handle::create(Call::cuMemPoolImportFromShareableHandle, deps(device), make);
        file.finish(made).map(Self)
    }

    /// The device whose memory it holds.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.deps().device
    }

    /// Ends the pool here and now, if this is its last handle. Memory that was imported from it stays usable.
    ///
    /// Calls `cuMemPoolDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{ImportedPool, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
    /// ImportedPool::import(&device, pool.export()?)?.close()?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value, .. }| Refused::new(error, value.map(Self)))
    }
}

fn deps(device: &Device) -> PoolDeps {
    PoolDeps::new(device, None)
}

forms! {
    ImportedPool(Handle<ImportedPoolRes>): CUmemoryPool, "imported pool", (device: &Device) => deps(device)
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<ImportedPool>();
};
