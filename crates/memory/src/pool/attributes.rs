//! A pool's counters and settings. Each is one driver call in relaxed capture mode.

#![expect(unsafe_code, reason = "an attribute's value goes through an untyped pointer")]

use super::Pool;
use cuhold_handles::{
    Result,
    driver_sys::{Calls, Failure, ffi::*},
    scope,
};

/// Sets an attribute that is a 64-bit count.
pub(super) fn set(
    calls: Calls<'_>,
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
    value: u64,
) -> Result<(), Failure> {
    let mut value: cuuint64_t = value;
    // SAFETY: *handles*: the caller's pool; *pointers*: a live local of the attribute's type.
    unsafe { calls.cuMemPoolSetAttribute(pool, attribute, (&raw mut value).cast()) }
}

impl Pool {
    fn count(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        self.neutral(|calls| {
            let mut value: cuuint64_t = 0;
            // SAFETY: *handles*: this handle's pool; *pointers*: a live local of the attribute's type.
            unsafe { calls.cuMemPoolGetAttribute(self.raw(), attribute, (&raw mut value).cast()) }?;
            Ok(value)
        })
    }

    fn set(&self, attribute: CUmemPool_attribute, value: u64) -> Result<()> {
        self.neutral(|calls| set(calls, self.raw(), attribute, value))
    }

    fn neutral<T>(&self, call: impl FnOnce(Calls<'_>) -> Result<T, Failure>) -> Result<T> {
        let driver = self.driver();
        driver.check_callable()?;
        scope::neutral(
            driver,
            || call(driver.calls()).map_err(|failure| driver.error(failure)),
            |_, error| error.with_completed(1),
        )
    }

    /// How much memory is out of the pool now, in bytes, as it was asked for.
    ///
    /// Calls `cuMemPoolGetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let pool = Pool::new(&device, PoolOptions::default())?;
    /// let buffer = Buffer::<u64>::uninit_in(&pool, &stream, 10)?;
    /// assert_eq!((pool.used_bytes()?, pool.used_high_bytes()?), (80, 80));
    /// drop(buffer);
    /// pool.reset_used_high()?;
    /// assert_eq!((pool.used_bytes()?, pool.used_high_bytes()?), (0, 0));
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn used_bytes(&self) -> Result<u64> {
        self.count(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
    }

    /// The most that was out of the pool since the mark was reset, in bytes.
    ///
    /// Calls `cuMemPoolGetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn used_high_bytes(&self) -> Result<u64> {
        self.count(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    }

    /// How much memory the pool holds now, in bytes: what is out of it and what it keeps.
    ///
    /// Calls `cuMemPoolGetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn reserved_bytes(&self) -> Result<u64> {
        self.count(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
    }

    /// The most that the pool held since the mark was reset, in bytes.
    ///
    /// Calls `cuMemPoolGetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn reserved_high_bytes(&self) -> Result<u64> {
        self.count(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
    }

    /// Sets the high-water mark of the used bytes back to what is used now.
    ///
    /// Calls `cuMemPoolSetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn reset_used_high(&self) -> Result<()> {
        self.set(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)
    }

    /// Sets the high-water mark of the reserved bytes back to what is reserved now.
    ///
    /// Calls `cuMemPoolSetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn reset_reserved_high(&self) -> Result<()> {
        self.set(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0)
    }

    /// How much memory that nobody uses the pool keeps when the host waits for work, in bytes.
    ///
    /// Calls `cuMemPoolGetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn release_threshold_bytes(&self) -> Result<u64> {
        self.count(CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    }

    /// Sets how much memory that nobody uses the pool keeps when the host waits for work, in bytes.
    ///
    /// Calls `cuMemPoolSetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn set_release_threshold_bytes(&self, bytes: u64) -> Result<()> {
        self.set(CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, bytes)
    }

    /// Gives memory that nobody uses back to the device, but goes on holding at least `keep_bytes`.
    ///
    /// Memory whose free the host hasn't seen done, by a wait, may count as used.
    ///
    /// Calls `cuMemPoolTrimTo`.
    ///
    /// # Errors
    /// The call's failure.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let pool = Pool::new(&device, PoolOptions::default().release_threshold_bytes(u64::MAX))?;
    /// drop(Buffer::<u8>::uninit_in(&pool, &stream, 1000)?);
    /// stream.synchronize()?;
    /// assert!(pool.reserved_bytes()? > 0);
    /// pool.trim_to(0)?;
    /// assert_eq!(pool.reserved_bytes()?, 0);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolTrimTo")]
    pub fn trim_to(&self, keep_bytes: usize) -> Result<()> {
        self.neutral(|calls| {
            // SAFETY: *handles*: this handle's pool.
            unsafe { calls.cuMemPoolTrimTo(self.raw(), keep_bytes) }
        })
    }
}
