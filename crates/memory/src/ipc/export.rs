//! What is exported to other processes: a pool with its file, and memory of it.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

#![expect(unsafe_code, reason = "calls the driver's pool functions")]

use super::wire::{BufferDescriptor, PoolDescriptor, PoolIdentity};
use crate::{allocation::Origin, buffer::Buffer, pool::Pool};
use bytemuck::Pod;
use cuhold_handles::{
    Device, Errno, Error, KeepAlive, Result,
    driver_sys::ffi::{CUmemPoolPtrExportData, CUuuid},
    scope,
};
use rustix::rand::{GetRandomFlags, getrandom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A pool on its way to another process: its file, and what is told of it. Made by [`Pool::export`] and by
/// [`IpcChannel`](crate::IpcChannel).
///
/// The file keeps the pool's memory as long as it is open anywhere. It is closed when this is dropped.
#[derive(Debug)]
pub struct ExportedPool {
    descriptor: PoolDescriptor,
    file: OwnedFd,
}

impl ExportedPool {
    /// A pool that came from another process by other ways: its descriptor and its file.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn new(descriptor: PoolDescriptor, file: OwnedFd) -> Self {
        Self { descriptor, file }
    }

    /// What is told of it.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn descriptor(&self) -> &PoolDescriptor {
        &self.descriptor
    }

    /// The file alone.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn into_file(self) -> OwnedFd {
        self.file
    }
}

impl AsFd for ExportedPool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Memory that other processes may have imported: a token that keeps it alive. Clones keep it, too.
///
/// The memory must not be freed while another process uses it, so the token is held until the other says that it is done,
/// or has ended. It is also to be told, by an event or a wait, that the memory is there and written: what another process
/// reads before that has no particular content.
#[derive(Clone, Debug)]
#[must_use = "the memory must live as long as another process uses it"]
pub struct ExportedBuffer {
    descriptor: BufferDescriptor,
    kept: KeepAlive,
}

impl ExportedBuffer {
    /// What another process imports it by.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn descriptor(&self) -> &BufferDescriptor {
        &self.descriptor
    }

    /// What keeps the memory alive, to be kept by other means than this token.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn kept(&self) -> &KeepAlive {
        &self.kept
    }
}

impl<T: Pod> Buffer<T> {
    /// Lets other processes import the buffer's memory, which the token keeps alive. `pool` is where it was allocated.
    ///
    /// The pool must have been [exported](Pool::export) before. From another resource than a pool nothing can be exported.
    ///
    /// Calls `cuMemPoolExportPointer`, in relaxed capture mode.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a pool of another driver or device, a buffer of no
    ///   bytes, or of a [caching resource](crate::CachingResource);
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the pool wasn't exported yet;
    /// - the call's failure, `INVALID_VALUE` for memory of a pool that isn't shareable; that of making the home stream's
    ///   context current and the caller's again.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
    /// let buffer = Buffer::<u32>::zeroed_in(&pool, &stream, 100)?;
    /// assert!(buffer.export(&pool).is_err(), "the pool comes first");
    /// let exported_pool = pool.export()?;
    /// let exported = buffer.export(&pool)?;
    /// assert_eq!(exported.descriptor().bytes(), 400);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolExportPointer")]
    pub fn export(&self, pool: &Pool) -> Result<ExportedBuffer> {
        let driver = self.driver();
        driver.check_same(pool.driver(), "pool")?;
        let (own, other) = (self.device(), pool.device().as_raw());
        if own != other {
            return Err(Error::argument(format!(
                "pool: it is of device {other}, the memory of device {own}"
            )));
        }
        if self.size_bytes() == 0 {
            return Err(Error::argument("self: a buffer of no bytes has no memory to export"));
        }
        if self.origin() == Origin::Cache {
            return Err(Error::argument(
                "self: its memory is a caching resource's, which would use it again while other processes still do",
            ));
        }
        let Some(identity) = pool.known_identity() else {
            return Err(Error::state(
                "the pool wasn't exported yet, and its memory comes after it",
            ));
        };
        let mut data = CUmemPoolPtrExportData::default();
        // A buffer may work on another device's stream meanwhile.
        let home = self.stream().context();
        let context = if home.device() == own { home } else { pool.device().context() };
        let ask = || {
            scope::run(context.target(), |calls| {
                // SAFETY: *pointers*: a live local; the memory is this buffer's.
                unsafe { calls.cuMemPoolExportPointer(&raw mut data, self.device_ptr()) }
            })
        };
        scope::neutral(driver, ask, |(), error| error.with_completed(1))?;
        let (export, bytes) = (data.reserved, self.size_bytes() as u64);
        let descriptor = BufferDescriptor { pool: identity, export, offset: 0, bytes };
        Ok(ExportedBuffer { descriptor, kept: self.keep() })
    }
}

/// A new pool's identity.
///
/// # Errors
/// The system's, where it gives nothing at random.
pub(crate) fn new_identity() -> Result<PoolIdentity> {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(16) if bytes != [0; 16] => Ok(PoolIdentity::new(bytes)),
        Ok(_) => Err(Error::state("the system gave too few random bytes")),
        Err(errno) => Err(Error::system("getrandom", Errno(errno.raw_os_error()))),
    }
}

/// What the device is called in every process.
///
/// Calls `cuDeviceGetUuid`.
pub(crate) fn uuid_of(device: &Device) -> Result<[u8; 16]> {
    let driver = device.driver();
    let mut uuid = CUuuid::default();
    // SAFETY: *pointers*: a live local.
    unsafe { driver.callable()?.cuDeviceGetUuid_v2(&raw mut uuid, device.context().device()) }
        .map_err(|failure| driver.error(failure))?;
    Ok(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
}
