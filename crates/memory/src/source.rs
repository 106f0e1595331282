//! Where memory comes from: the trait that users implement too, and what stands for a source in a call.

#![expect(unsafe_code, reason = "defines what a source of memory promises")]

use crate::{caching::Cache, pool::Pool, resource::Residence};
use cuhold_handles::{Error, ObjectKind, Result, Stream, foreign};
use std::{fmt, sync::Arc};

/// A piece of memory, as a [`MemoryResource`] gives it out and takes it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[expect(clippy::exhaustive_structs, reason = "plain values that every resource puts together")]
pub struct Block {
    /// Its address.
    pub ptr: u64,
    /// Its size in bytes.
    pub bytes: usize,
    /// For the resource's own use: handed back as it was given.
    pub tag: u64,
}

impl Block {
    /// No memory.
    pub const EMPTY: Self = Self { ptr: 0, bytes: 0, tag: 0 };
}

/// A source of memory that work on a stream can use.
///
/// Implemented by [`Pool`]; users implement it to count, to place, to reuse. A buffer made from one keeps it alive.
///
/// Its methods are called from any thread, `deallocate` also inside a `Drop`. A panic in `deallocate` that can't go on is
/// caught and reported; the block then counts as leaked.
///
/// # Safety
/// - *memory*: a block that `allocate` gives is as large as asked, aligned to at least 256 bytes, may be used by work
///   that is queued on the stream from then on, and overlaps no other block until it is given back;
/// - *given back*: `deallocate` frees nothing that work queued on its stream before the call still uses.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, Result, Stream};
/// # use cuhold_memory::{Block, Buffer, MemoryResource, Pool, PoolOptions};
/// # use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
/// struct Counting { pool: Pool, allocations: AtomicU64 }
///
/// // SAFETY: *memory*, *given back*: the pool's.
/// unsafe impl MemoryResource for Counting {
///     fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
///         self.allocations.fetch_add(1, Ordering::Relaxed);
///         self.pool.allocate(bytes, stream)
///     }
///     unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
///         // SAFETY: the caller's promise.
///         unsafe { self.pool.deallocate(block, stream) }
///     }
/// }
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let stream = device.new_stream()?;
/// let pool = Pool::new(&device, PoolOptions::default())?;
/// let counting = Arc::new(Counting { pool, allocations: AtomicU64::new(0) });
/// let buffer = Buffer::<f32>::zeroed_in(&counting, &stream, 1000)?;
/// assert_eq!(buffer.to_vec()?, [0.0; 1000]);
/// assert_eq!(counting.allocations.load(Ordering::Relaxed), 1);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub unsafe trait MemoryResource: Send + Sync + 'static {
    /// Gives out `bytes` bytes, at least one, for work on the stream.
    ///
    /// # Errors
    /// Whatever keeps it from doing so; nothing was given out.
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block>;

    /// Takes a block back, in the order of the stream.
    ///
    /// # Errors
    /// The block isn't used again, whatever became of it.
    ///
    /// # Safety
    /// - `block` came from `allocate` of this resource, and is given back once;
    /// - everything that uses it is done, or queued on the stream, or ordered before what is queued on it by events.
    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()>;

    /// Whether `deallocate` may wait for the GPU. A buffer's `Drop` then leaves it to the reclaimer.
    ///
    /// Calls nothing.
    fn deallocate_waits(&self) -> bool {
        false
    }

    /// What warnings call its memory.
    ///
    /// Calls nothing.
    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::DeviceMemory
    }

    /// Where its memory lies, and so who reaches it.
    ///
    /// Calls nothing.
    fn residence(&self) -> Residence {
        Residence::Device
    }
}

/// What can stand where memory is asked for: a [`Pool`], or an [`Arc`] of any [`MemoryResource`].
///
/// # Examples
/// ```
/// # use cuhold_memory::{handles::{Device, Driver, Result, Stream}, AsSource, Buffer, MemoryResource, Pool, PoolOptions};
/// # use std::sync::Arc;
/// fn fresh(source: &impl AsSource, stream: &Stream) -> Result<Buffer<f32>> {
///     Buffer::zeroed_in(source, stream, 100)
/// }
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let pool = Pool::new(&device, PoolOptions::default())?;
/// fresh(&pool, &stream)?;
/// let any: Arc<dyn MemoryResource> = Arc::new(pool);
/// fresh(&any, &stream)?;
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
pub trait AsSource {
    /// The source, for one allocation.
    fn as_source(&self) -> SourceRef<'_>;
}

/// A source of memory, for one allocation.
pub struct SourceRef<'a>(pub(crate) Source<'a>);

pub(crate) enum Source<'a> {
    /// The current pool of the stream's device.
    Current,
    /// This pool.
    Pool(&'a Pool),
    /// This cache.
    Cache(&'a Arc<Cache>),
    /// A resource of any kind.
    Resource(Arc<dyn MemoryResource>),
}

impl fmt::Debug for SourceRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Current => f.write_str("current pool"),
            Source::Pool(pool) => fmt::Debug::fmt(pool, f),
            Source::Cache(cache) => write!(f, "cache of {:?}", cache.pool()),
            Source::Resource(resource) => write!(f, "resource of {}", resource.memory_kind()),
        }
    }
}

impl AsSource for Pool {
    fn as_source(&self) -> SourceRef<'_> {
        SourceRef(Source::Pool(self))
    }
}

impl<R: MemoryResource> AsSource for Arc<R> {
    fn as_source(&self) -> SourceRef<'_> {
        let resource = Self::clone(self);
        SourceRef(Source::Resource(resource))
    }
}

impl AsSource for Arc<dyn MemoryResource> {
    fn as_source(&self) -> SourceRef<'_> {
        SourceRef(Source::Resource(Self::clone(self)))
    }
}

/// What memory of every resource begins at a multiple of, in bytes.
const ALIGNMENT: u64 = 256;

/// Has a resource allocate. What it promised and shows not to have kept is an error, not a buffer; what it gave goes back to it.
pub(crate) fn allocate_from(
    resource: &dyn MemoryResource,
    bytes: usize,
    stream: &Stream,
) -> Result<Block> {
    let block = resource.allocate(bytes, stream)?;
    let end = block.ptr.checked_add(block.bytes as u64);
    let wrong = match block {
        Block { ptr: 0, .. } => "no address".to_owned(),
        Block { ptr, .. } if !ptr.is_multiple_of(ALIGNMENT) => {
            format!("memory at {ptr:#x}, which isn't aligned to {ALIGNMENT} bytes")
        }
        Block { bytes: given, .. } if given < bytes => {
            format!("{given} bytes, where {bytes} were asked for")
        }
        Block { ptr, bytes: given, .. } if end.is_none() => {
            format!("{given} bytes at {ptr:#x}, which no address space holds")
        }
        sound => return Ok(sound),
    };
    let error = Error::argument(format!("source: the memory resource gave {wrong}"));
    if block.ptr == 0 {
        return Err(error);
    }
    // SAFETY: it came from this resource a moment ago, nothing uses it, and it is given back once.
    match foreign::call(|| unsafe { resource.deallocate(block, stream) }) {
        Ok(Ok(())) => Err(error),
        Ok(Err(second)) => Err(error.with_second(&second)),
        Err(caught) => caught.resume(),
    }
}
