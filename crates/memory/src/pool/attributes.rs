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

/// Asks for an attribute that is a 64-bit count.
pub(super) fn get(
    calls: Calls<'_>,
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
) -> Result<u64, Failure> {
    let mut value: cuuint64_t = 0;
    // SAFETY: *handles*: the caller's pool; *pointers*: a live local of the attribute's type.
    unsafe { calls.cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()) }?;
    Ok(value)
}

/// What is used of memory, and what is held for it, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// Given out now, as it was asked for.
    pub used_bytes: u64,
    /// The most that was given out since the mark was reset.
    pub used_high_bytes: u64,
    /// Held now: what is given out and what is kept.
    pub reserved_bytes: u64,
    /// The most that was held since the mark was reset.
    pub reserved_high_bytes: u64,
}

/// When a pool gives memory out again whose free, on another stream, isn't known to be done. All are on at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Reuse {
    /// Where an event orders the allocating stream after the free.
    FollowEventDependencies,
    /// Where the free happens to be done already. Which memory is given out then depends on timing.
    Opportunistic,
    /// By making the allocating stream wait for the free.
    InternalDependencies,
}

impl Reuse {
    fn attribute(self) -> CUmemPool_attribute {
        match self {
            Self::FollowEventDependencies => {
                CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
            }
            Self::Opportunistic => CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
            Self::InternalDependencies => {
                CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES
            }
        }
    }
}

impl Pool {
    fn count(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        self.neutral(|calls| get(calls, self.raw(), attribute))
    }

    fn set(&self, attribute: CUmemPool_attribute, value: u64) -> Result<()> {
        self.neutral(|calls| set(calls, self.raw(), attribute, value))
    }

    pub(super) fn neutral<T>(
        &self,
        call: impl FnOnce(Calls<'_>) -> Result<T, Failure>,
    ) -> Result<T> {
        let driver = self.driver();
        driver.check_callable()?;
        scope::neutral(
            driver,
            || call(driver.calls()).map_err(|failure| driver.error(failure)),
            |_, error| error.with_completed(1),
        )
    }

    /// What is out of the pool and what it holds, now and at most since the marks were reset. Four questions one after the
    /// other: other threads may allocate meanwhile.
    ///
    /// Calls `cuMemPoolGetAttribute`, four times.
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
    /// let buffer = Buffer::<u8>::uninit_in(&pool, &stream, 1000)?;
    /// let usage = pool.usage()?;
    /// assert_eq!(usage.used_bytes, 1000);
    /// assert!(usage.reserved_bytes >= 1000);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn usage(&self) -> Result<MemoryUsage> {
        self.neutral(|calls| {
            let get = |attribute| get(calls, self.raw(), attribute);
            Ok(MemoryUsage {
                used_bytes: get(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
                used_high_bytes: get(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?,
                reserved_bytes: get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
                reserved_high_bytes: get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?,
            })
        })
    }

    /// Whether the pool gives memory out again in this way.
    ///
    /// Calls `cuMemPoolGetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Pool, PoolOptions, Reuse, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let pool = Pool::new(&device, PoolOptions::default())?;
    /// assert!(pool.allows(Reuse::Opportunistic)?);
    /// pool.forbid(Reuse::Opportunistic)?;
    /// assert!(!pool.allows(Reuse::Opportunistic)?);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn allows(&self, reuse: Reuse) -> Result<bool> {
        self.neutral(|calls| {
            let mut value: c_int = 0;
            let to = (&raw mut value).cast();
            // SAFETY: *handles*: this handle's pool; *pointers*: a live local of the attribute's type.
            unsafe { calls.cuMemPoolGetAttribute(self.raw(), reuse.attribute(), to) }?;
            Ok(value != 0)
        })
    }

    /// Lets the pool give memory out again in this way.
    ///
    /// Calls `cuMemPoolSetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn allow(&self, reuse: Reuse) -> Result<()> {
        self.set_reuse(reuse, 1)
    }

    /// Keeps the pool from giving memory out again in this way.
    ///
    /// Calls `cuMemPoolSetAttribute`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn forbid(&self, reuse: Reuse) -> Result<()> {
        self.set_reuse(reuse, 0)
    }

    fn set_reuse(&self, reuse: Reuse, value: c_int) -> Result<()> {
        self.neutral(|calls| {
            let mut value = value;
            let from = (&raw mut value).cast();
            // SAFETY: *handles*: this handle's pool; *pointers*: a live local of the attribute's type.
            unsafe { calls.cuMemPoolSetAttribute(self.raw(), reuse.attribute(), from) }
        })
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

/// Lets the pool keep nothing that is unused, from now on.
pub(super) fn keep_nothing(calls: Calls<'_>, pool: CUmemoryPool) -> Result<(), Failure> {
    set(calls, pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0)?;
    // SAFETY: *handles*: the caller's pool.
    unsafe { calls.cuMemPoolTrimTo(pool, 0) }
}
