//! The caching resource: memory of a pool that is used again without asking the driver.
//!
//! ```text
//!   thread ─ bin ──────┐   a hit: a look into the thread's own bin for the stream; no lock, no call, nothing shared
//!   thread ─ bin ──────┴─ lane of the stream ─ shelf      a lock
//!                              lane of another stream     an event, for streams that only this library has
//!                                    pool                 the driver
//! ```
//!
//! Blocks are one to one with allocations of the pool, in size classes (`class.rs`). What was freed on a stream may be used
//! again on that stream at once: the stream orders the one use behind the other. It goes into the bin of the thread that
//! frees it, whichever thread made it.
//!
//! | file | what |
//! |---|---|
//! | `state/` | who has which block: bins, gates, shelves; no driver call |
//! | `thread.rs` | which bins a thread has, and its end |
//! | `cache.rs` | how blocks are had and given back |
//! | `give_back.rs`, `oom.rs` | how they go back to the pool |
//! | `lane.rs` | a stream's part |
//!
//! **Nothing counted.** A buffer of the cache has its stream and the resource by uncounted references; its block's lane keeps
//! both, and goes with the last block, in use or cached (`Buffer`'s `take` turns them into counted ones where it is taken
//! apart slowly). The lane closes when nobody but the library has the stream any more: a handle that goes compares the
//! number of handles with the number of those that the library keeps for itself, and tells the cache
//! (`StreamWatch`, in `cuhold-handles`). Two threads that let go of the last two handles at the same moment may both miss that; so
//! lanes that nobody else has are also looked for where a lane is made, and by a trim.

mod barrier;
mod cache;
mod class;
mod give_back;
mod lane;
mod oom;
mod options;
mod state;
mod statistics;
mod sync;
mod thread;

pub(crate) use cache::{Cache, Got};
pub use options::{CachingOptions, CachingWay};
pub use statistics::{CachingStatistics, StreamStatistics};

use crate::{
    pool::Pool,
    resource::Residence,
    source::{AsSource, Block, MemoryResource, Source, SourceRef},
};
use cuhold_handles::{ObjectKind, Result, Stream};
use std::{
    fmt,
    sync::{Arc, Weak},
};

/// Memory of a pool that is used again without asking the driver. Clones are the same resource.
///
/// **When.** Where buffers are made and dropped all the time, in about the same sizes and on streams that live long. An
/// allocation for which the stream has memory of the thread's own, and giving it back, make no call and take no lock.
///
/// **What it keeps.** All that buffers give back, up to [`max_cached_bytes`](CachingOptions::max_cached_bytes), as blocks of
/// size classes: at most an eighth larger than asked, or less than 256 bytes. A block serves its class alone. Blocks up to
/// 4 MiB are kept by the thread that gives them back, larger ones and what is too much by the stream. What a thread has when it
/// ends goes to the stream.
///
/// **How it gives back.** [`trim`](Self::trim) takes from all threads. Where nobody has a stream any more, what is cached for it
/// goes. Where the pool is out of memory all goes, once for all threads that wait for that, which then wait until the
/// GPU has freed it, and ask once more.
///
/// **Several streams.** Memory of a stream is used again on that stream. Another one gets it only behind an event, and only
/// if others know of neither: see [`crosses_streams`](CachingOptions::crosses_streams).
///
/// **Captures.** A captured stream is refused; one that others may use is asked at each allocation. What the resource itself asks of
/// the driver disturbs nobody's capture. A buffer that is dropped while its stream is captured is cached and used again
/// afterwards: work that was captured past this library and uses it must have the buffer [kept](crate::Buffer::keep).
///
/// Default streams have no part in it: their memory comes from the pool, and goes there. A stream of somebody else's, borrowed
/// with its owner, is kept as long as there is memory for it. Memory of the resource can't be exported to other processes, since
/// their imports would outlive its use here.
///
/// A signal handler must not allocate or drop buffers: the thread that it interrupts may be at its own memory.
///
/// With the last clone what is cached is given back, and what buffers still have when they go. Its drop calls
/// `cuMemFreeAsync`, in relaxed capture mode.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, CachingOptions, CachingResource, Pool, PoolOptions, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let pool = Pool::new(&device, PoolOptions::default())?;
/// let cache = CachingResource::new(&pool, CachingOptions::default())?;
/// for _ in 0..1000 {
///     let mut activations = Buffer::<f32>::uninit_in(&cache, &stream, 10_000)?;
///     activations.fill(0.0)?;
/// }
/// assert_eq!(cache.statistics().misses, 1);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone)]
pub struct CachingResource(Arc<User>);

/// What the clones share: the last one ends the cache. On a cache line apart from the count of the clones.
#[repr(align(64))]
struct User(Arc<Cache>);

impl Drop for User {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl CachingResource {
    /// Makes a resource that caches memory of the pool.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): options that ask for
    ///   [`CachingWay::Biased`] where the system hasn't `membarrier`;
    /// - in a callback of the driver and in a forked child.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{CachingOptions, CachingResource, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let options = CachingOptions::default().max_cached_bytes(1 << 30);
    /// let cache = CachingResource::new(&Pool::new(&device, PoolOptions::default())?, options)?;
    /// assert_eq!(cache.statistics().cached_bytes, 0);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn new(pool: &Pool, options: CachingOptions) -> Result<Self> {
        pool.driver().check_callable()?;
        let cache = Cache::new(pool, options, options.probed_way()?);
        let watch: Weak<Cache> = Arc::downgrade(&cache);
        pool.driver().watch_streams(watch);
        Ok(Self(Arc::new(User(cache))))
    }

    /// The pool whose memory it is.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.0.0.pool()
    }

    /// How its threads and those that take from them are kept apart.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn way(&self) -> CachingWay {
        self.0.0.way.into()
    }

    /// Gives cached memory back to the pool until no more than `keep` bytes are cached, whichever threads cached it, and
    /// tells how many bytes that were. Memory of streams that somebody captures stays.
    ///
    /// It is free for other streams when the work of its own is done.
    ///
    /// Calls `cuMemFreeAsync`, in relaxed capture mode; for exposed streams also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// The first call's failure, later ones as notes: memory whose free failed isn't used again; the rest was given back.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, CachingOptions, CachingResource, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let cache = CachingResource::new(&Pool::new(&device, PoolOptions::default())?, CachingOptions::default())?;
    /// drop(Buffer::<u8>::uninit_in(&cache, &stream, 4096)?);
    /// assert_eq!(cache.trim(0)?, 4096);
    /// assert_eq!(cache.pool().used_bytes()?, 0);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn trim(&self, keep: usize) -> Result<usize> {
        self.0.0.trim(keep)
    }

    /// What it has and has done by now.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn statistics(&self) -> CachingStatistics {
        self.0.0.statistics()
    }
}

impl AsSource for CachingResource {
    #[inline]
    fn as_source(&self) -> SourceRef<'_> {
        SourceRef(Source::Cache(&self.0.0))
    }
}

#[expect(unsafe_code, reason = "promises what a source of memory promises")]
// SAFETY: *memory*: a block is an allocation of the pool's, at least as large; it is given out once until it comes back, on the
// stream on which it came back, or on one that waits for that. *Given back*: it is freed on the stream on which it came back.
unsafe impl MemoryResource for CachingResource {
    /// Calls nothing where the stream has memory of the class. Else `cuMemAllocFromPoolAsync`, or `cuEventRecord` and
    /// `cuStreamWaitEvent` for memory of another stream, with `cuEventCreate` where the context has no idle event, in relaxed
    /// capture mode; `cuStreamIsCapturing` for exposed streams; after a failure `cuEventDestroy` and `cuMemFreeAsync`; where
    /// memory is out `cuMemFreeAsync`, `cuEventRecord` and `cuEventSynchronize`.
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        self.0.0.allocate(bytes, stream)
    }

    /// Calls nothing, or `cuMemFreeAsync`, in relaxed capture mode, where there is no room for the memory, with
    /// `cuStreamIsCapturing` for exposed streams.
    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.0.deallocate(block, stream) }
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::PoolMemory
    }

    fn residence(&self) -> Residence {
        self.0.0.residence()
    }
}

#[expect(unsafe_code, reason = "promises what a source of memory promises")]
// SAFETY: as above.
unsafe impl MemoryResource for Cache {
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        if bytes == 0 {
            return Ok(Block::EMPTY);
        }
        match self.take(bytes, stream)? {
            Got::Block(block) | Got::Plain(block) => Ok(block),
        }
    }

    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
        if block.ptr == 0 {
            return Ok(());
        }
        if block.tag == cache::PLAIN {
            // SAFETY: it came from the pool; the rest is the caller's promise.
            return unsafe { self.pool().deallocate(block, stream) };
        }
        if Self::put(std::ptr::from_ref(self).addr(), block, stream) {
            return Ok(());
        }
        if let Err(error) = stream.driver().check_callable() {
            // SAFETY: the caller's promise.
            return unsafe { self.give_later(block, stream, error) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.give(block, stream) }
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::PoolMemory
    }

    fn residence(&self) -> Residence {
        self.residence()
    }
}

impl fmt::Debug for CachingResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cache of {:?}", self.pool())
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<CachingResource>();
    assert!(size_of::<CachingResource>() == 8 && size_of::<Result<CachingResource>>() == 16);
};
