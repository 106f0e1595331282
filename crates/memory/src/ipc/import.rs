//! Memory of other processes' pools: imported as buffers over shared mappings, and their ends.
//!
//! Each import is a buffer of its own, with its own home stream. All imports of one piece of memory in a process share
//! its mapping, which the first of them made; its home is the stream that the mapping is freed on.
//!
//! | an import ends | driver calls |
//! |---|---|
//! | not the last, on the freeing stream | 0 |
//! | not the last, on another stream | 1: its event is recorded there; 1 more to make the event the first time |
//! | the last, on the freeing stream | 3, and a wait on it for each event that was left behind |
//!
//! So the free comes after the work of every import, whoever ends last, and nobody's stream waits before that. The events
//! are kept for the next mapping.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator"; that the first free unmaps every import, and that work
//! in flight then faults, was measured.

#![expect(unsafe_code, reason = "maps, orders and frees memory of other processes")]

use super::{
    cache::{Cache, Freed, SLOTS_MAX, Share},
    wire::BufferDescriptor,
};
use crate::{
    allocation::{Allocation, Facts, Origin},
    buffer::Buffer,
    order::{self, captured, check_home, is_capturing, same_stream},
    ordered,
    pool::ImportedPool,
    resource::Residence,
    source::{Block, MemoryResource},
};
use bytemuck::Pod;
use cuhold_handles::{
    Error, Event, EventOptions, Note, ObjectKind, Result, Stream,
    driver_sys::{CUresult, Call, Calls, Failure, ffi::CUmemPoolPtrExportData, mutant},
    scope::{self, Outcome},
};
use parking_lot::Mutex;
use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
    thread::AccessError,
};

/// What names memory to the driver. Two are told apart by a number that all their bytes go into: which bytes differ is the
/// driver's own business, and a look-up that compared them one after the other would take most of its time for that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Export {
    mixed: u64,
    bytes: [u8; 64],
}

impl Export {
    fn of(bytes: [u8; 64]) -> Self {
        /// Odd, so that no bit of a word is lost.
        const FACTORS: [u64; 8] = [
            0x9E37_79B9_7F4A_7C15,
            0xC2B2_AE3D_27D4_EB4F,
            0x1656_67B1_9E37_79F9,
            0xD6E8_FEB8_6659_FD93,
            0xA076_1D64_78BD_642F,
            0xE703_7ED1_A0B4_28DB,
            0x8EBC_6AF0_9C88_C6E3,
            0x5899_65CC_7537_4CC3,
        ];
        let (words, _) = bytes.as_chunks::<8>();
        let products = words.iter().zip(FACTORS);
        let mixed = products.fold(0_u64, |mixed, (word, factor)| {
            mixed.wrapping_add(u64::from_le_bytes(*word).wrapping_mul(factor))
        });
        Self { mixed, bytes }
    }
}

/// A mapping with its imports: what a buffer over it keeps.
type Imported = Share<Export, Mapping>;

/// How many events are kept for later.
const SPARE_MAX: usize = 64;

/// What a process has imported of a pool.
#[derive(Debug)]
pub(crate) struct Imports {
    cache: Cache<Export, Mapping>,
    spare: Mutex<Vec<Event>>,
    /// Where memory is mapped for good: something that isn't known to be done may use it (P7).
    leaked: Mutex<Vec<u64>>,
    /// The handles of ours to the pool.
    handles: Mutex<Handles>,
}

/// The driver counts how often a pool was imported, under one handle, and refuses to destroy that while memory of the pool is
/// mapped (measured for one import). So only the last handle of ours destroys it, as often as it was imported.
#[derive(Debug, Default)]
struct Handles {
    live: usize,
    /// How many ended while others were left.
    owed: usize,
}

impl Default for Imports {
    fn default() -> Self {
        let cache = Cache::new(SLOTS_MAX);
        let (spare, leaked, handles) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { cache, spare, leaked, handles }
    }
}

/// The number of this thread among those that have imported: threads that differ in it look up beside each other.
fn thread() -> usize {
    /// How many have.
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    // It has no drop, so that it is there as long as the thread.
    let known = OWN.try_with(Cell::get).unwrap_or_default();
    known.unwrap_or_else(|| {
        let number = THREADS.fetch_add(1, Ordering::Relaxed);
        let _: Result<(), AccessError> = OWN.try_with(|own| own.set(Some(number)));
        number
    })
}

impl Imports {
    /// The pool was imported.
    pub(crate) fn begin(&self) {
        let mut handles = self.handles.lock();
        handles.live = handles.live.saturating_add(1);
    }

    /// A handle ends: how often the pool is to be destroyed now.
    pub(crate) fn end(&self) -> usize {
        let mut handles = self.handles.lock();
        handles.live = handles.live.saturating_sub(1);
        handles.owed = handles.owed.saturating_add(1);
        if handles.live > 0 { 0 } else { std::mem::take(&mut handles.owed) }
    }

    /// It didn't end: the driver may not be called at the moment.
    pub(crate) fn end_later(&self, times: usize) {
        let mut handles = self.handles.lock();
        handles.live = handles.live.saturating_add(1);
        handles.owed = handles.owed.saturating_add(times.saturating_sub(1));
    }

    /// How many pieces of memory are mapped.
    pub(crate) fn mapped(&self) -> usize {
        self.cache.mapped()
    }

    fn spare(&self, stream: &Stream) -> Option<Event> {
        let mut spare = self.spare.lock();
        let fitting = spare.iter().position(|event| event.context() == stream.context())?;
        Some(spare.swap_remove(fitting))
    }

    /// Keeps the events for later; those that are too many go.
    fn keep(&self, left: Vec<Left>) {
        for Left { event, .. } in left {
            let mut spare = self.spare.lock();
            if spare.len() < SPARE_MAX {
                spare.push(event);
            }
        }
    }
}

/// Memory of another process, mapped here. It isn't freed by its drop, but by the last import that leaves.
#[derive(Debug)]
pub(crate) struct Mapping {
    ptr: u64,
    /// Ends after its mappings.
    pool: ImportedPool,
    /// Where it is freed.
    freeing: Stream,
    left: Mutex<Vec<Left>>,
}

/// The order that ended imports left behind on a stream: what was queued there is done when the event is.
#[derive(Debug)]
struct Left {
    stream: Stream,
    event: Event,
}

impl ImportedPool {
    /// Imports memory of this pool that another process exported, as a buffer whose home is `stream`. A `descriptor` that
    /// is imported already, on whatever stream, gives one more buffer over the same memory.
    ///
    /// Nothing orders the work of the two processes but what they do themselves, such as by events
    /// ([`Event::import`](cuhold_handles::Event::import)): the memory must be there and written before it is read, and must
    /// not be freed by the exporter before the last buffer over it here has ended and its streams' work is done. Access that
    /// the exporter gave to other devices isn't inherited: only the pool's own device reaches the memory.
    ///
    /// Where the pool is [watched](Self::receive) and its exporter has ended, nothing new is imported. Buffers that were
    /// imported before go on: they keep the memory.
    ///
    /// What is imported already is found without a lock that other threads want, once a thread has found it the first time.
    ///
    /// Calls `cuMemPoolImportPointer`, in relaxed capture mode; nothing for what is imported already; `cuMemFreeAsync` where
    /// it is undone, on a default stream after `cuStreamIsCapturing`.
    ///
    /// The end of such a buffer calls nothing while others over the same memory are left and its home is the stream of the
    /// first import; on another stream `cuEventRecord`, at times after `cuEventCreate`. The last end calls
    /// `cuStreamWaitEvent` for each other stream that was so left, and `cuMemFreeAsync`, in relaxed capture mode. Exposed
    /// streams are asked by `cuStreamIsCapturing`; where one is captured the memory stays mapped, which is told.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): memory of another pool, where this one's identity is
    ///   known; a size that isn't one of elements, or an offset that isn't aligned for them; a stream of another driver or
    ///   device, or one borrowed without an owner;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the exporting process has ended;
    /// - the call's failure: `INVALID_VALUE` for garbage and for memory of another pool, `ALREADY_MAPPED` for pinned memory
    ///   that this process has mapped by other means.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, ImportedPool, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
    /// let imported_pool = ImportedPool::import_exported(&device, &pool.export()?)?;
    /// let buffer = Buffer::from_slice_in(&pool, &stream, &[1_u32, 2, 3])?;
    /// let exported = buffer.export(&pool)?;
    /// let imported = imported_pool.import_buffer::<u32>(exported.descriptor(), &stream)?;
    /// assert_ne!(imported.device_ptr(), buffer.device_ptr());
    /// assert_eq!(imported.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolImportPointer")]
    pub fn import_buffer<T: Pod>(
        &self,
        descriptor: &BufferDescriptor,
        stream: &Stream,
    ) -> Result<Buffer<T>> {
        let driver = self.driver();
        driver.check_same(stream.driver(), "stream")?;
        driver.check_callable()?;
        let len = self.elements_of::<T>(descriptor, stream)?;
        let map = || self.map(descriptor, stream);
        let imported = self.imports().cache.enter(thread(), &Export::of(descriptor.export), map)?;
        let ptr = imported.mapping().ptr.saturating_add(descriptor.offset);
        let bytes = usize::try_from(descriptor.bytes).unwrap_or(usize::MAX);
        let block = Block { ptr, bytes, tag: 0 };
        let facts = Facts::new(
            imported.residence(),
            self.device().context().device(),
            Origin::Resource,
            false,
        );
        Ok(Buffer::of(Allocation::of(block, imported, facts), len, stream.clone()))
    }

    /// How many elements the memory holds.
    fn elements_of<T: Pod>(&self, descriptor: &BufferDescriptor, stream: &Stream) -> Result<usize> {
        let (own, other) = (self.device().context().device(), stream.context().device());
        if own != other {
            return Err(Error::argument(format!(
                "stream: it is of device {other}, the pool of device {own}"
            )));
        }
        check_home(stream)?;
        if let Some(identity) = self.identity()
            && identity != descriptor.pool
        {
            return Err(Error::argument(format!(
                "descriptor: memory of pool {}, and this is {identity}",
                descriptor.pool
            )));
        }
        let (size, bytes) = (size_of::<T>() as u64, descriptor.bytes);
        let len = bytes.checked_div(size).filter(|len| len.checked_mul(size) == Some(bytes));
        let aligned = descriptor.offset.is_multiple_of(align_of::<T>() as u64);
        match len.and_then(|len| usize::try_from(len).ok()) {
            Some(len) if aligned => Ok(len),
            Some(_) => Err(Error::argument(format!(
                "descriptor: offset {}, and elements are aligned to {} bytes",
                descriptor.offset,
                align_of::<T>()
            ))),
            None => Err(Error::argument(format!(
                "descriptor: {bytes} bytes aren't whole elements of {size} bytes"
            ))),
        }
    }

    /// Maps memory that isn't known to be mapped yet, and says where.
    #[cold]
    fn map(&self, descriptor: &BufferDescriptor, stream: &Stream) -> Result<(u64, Mapping)> {
        self.check_exporter()?;
        let driver = self.driver();
        let mut data = CUmemPoolPtrExportData { reserved: descriptor.export };
        let ask = || {
            let mut ptr = 0;
            // SAFETY: *pointers*: live locals; *handles*: this value's pool.
            unsafe {
                driver.callable()?.cuMemPoolImportPointer(&raw mut ptr, self.raw(), &raw mut data)
            }
            .map_err(|failure| explained(driver.error(failure)))?;
            Ok(ptr)
        };
        let undo = |ptr, error| {
            if mutant::is_out("import-undo") {
                return error;
            }
            // SAFETY: imported a moment ago, and given to nobody.
            unsafe { ordered::free(ptr, stream) }.note_undo(error, ptr)
        };
        let ptr = scope::neutral(driver, ask, undo)?;
        self.keep_stream(stream);
        let (pool, freeing) = (self.clone(), stream.clone());
        Ok((ptr, Mapping { ptr, pool, freeing, left: Mutex::default() }))
    }
}

#[cold]
fn explained(error: Error) -> Error {
    if error.is(CUresult::ALREADY_MAPPED) {
        let text = "this process has mapped the memory by other means than this driver value";
        return error.with_note(Note::Text(text.into()));
    }
    error
}

impl Mapping {
    /// Whoever ends on this stream has nothing to leave behind: the free comes later on it.
    fn is_freed_on(&self, stream: &Stream) -> bool {
        same_stream(&self.freeing, stream)
    }

    /// Marks what is queued on the stream by now.
    #[cold]
    fn leave_order(&self, home: &Stream) -> Result<()> {
        if mutant::is_out("import-order") {
            return Ok(());
        }
        let mut left = self.left.lock();
        if let Some(left) = left.iter().find(|left| same_stream(&left.stream, home)) {
            return mark(home, &left.event);
        }
        let event = match self.pool.imports().spare(home) {
            Some(event) => event,
            None => Event::with_options(home.context(), EventOptions::default())?,
        };
        if let Err(error) = mark(home, &event) {
            return Err(match event.close() {
                Ok(_) => error,
                Err(refused) => error.with_undo(&refused.error),
            });
        }
        left.push(Left { stream: home.clone(), event });
        Ok(())
    }

    /// Frees the memory behind what all imports left. Under the cache's mutex: no sink runs in here.
    fn free(&self) -> (Freed, Result<()>) {
        if self.pool.imports().leaked.lock().contains(&self.ptr) {
            return (Freed::Gone, Ok(()));
        }
        let left = self.left.lock();
        if !left.is_empty()
            && let Err(error) = wait_for(&self.freeing, &left)
        {
            return self.not_freed(error);
        }
        // SAFETY: imported by this process and freed once: only the last import that leaves comes here. Its work and that
        // of all others is on the freeing stream, or waited for there.
        let outcome = unsafe { ordered::free(self.ptr, &self.freeing) };
        if outcome.is_clean() {
            return (Freed::Gone, Ok(()));
        }
        self.freed_badly(outcome)
    }

    #[cold]
    fn freed_badly(&self, outcome: Outcome) -> (Freed, Result<()>) {
        let asked = ordered::was_captured(&self.freeing, &outcome);
        let was_freed = outcome.is_asked() && asked != Ok(true);
        let Some(mut error) = outcome.into_error(self.pool.driver()) else {
            return (Freed::Gone, Ok(()));
        };
        match asked {
            Ok(true) => error = error.with_note(Note::Text(CAPTURED.into())),
            Ok(false) => {}
            Err(failure) => error = error.with_note(Note::Failed(failure)),
        }
        if was_freed {
            return (Freed::Gone, Err(error));
        }
        self.not_freed(error)
    }

    #[cold]
    fn not_freed(&self, error: Error) -> (Freed, Result<()>) {
        if self.is_refused(&error) {
            return (Freed::Again, Err(error));
        }
        (Freed::Gone, Err(self.leaked(error)))
    }

    /// From here on the memory is never freed, although it may be imported again: the driver then gives this mapping.
    #[cold]
    fn leaked(&self, error: Error) -> Error {
        if !mutant::is_out("import-leak") {
            self.pool.imports().leaked.lock().push(self.ptr);
        }
        error.with_note(Note::Leaked { raw: self.ptr })
    }

    /// Whether the driver refused to be called, inside somebody's callback: it is asked again later.
    fn is_refused(&self, error: &Error) -> bool {
        let calls = self.pool.driver().calls();
        error.is(CUresult::NOT_PERMITTED) && scope::is_in_callback(calls)
    }
}

/// What is said of memory that stays mapped for a capture's sake.
const CAPTURED: &str = "the stream it is freed on is being captured";

/// Marks what is queued on the stream by now with the event.
fn mark(home: &Stream, event: &Event) -> Result<()> {
    unless_captured(home, Call::cuEventRecord, |calls| {
        // SAFETY: *handles*: both are borrowed, and of one context.
        unsafe { calls.cuEventRecord(event.raw(), home.raw()) }
    })
}

/// Lets what is queued on the stream from now on wait for all that was left behind.
fn wait_for(freeing: &Stream, left: &[Left]) -> Result<()> {
    unless_captured(freeing, Call::cuStreamWaitEvent, |calls| {
        left.iter().try_for_each(|left| {
            // SAFETY: *handles*: both are borrowed.
            unsafe { calls.cuStreamWaitEvent(freeing.raw(), left.event.raw(), 0) }
        })
    })
}

/// Calls on a stream that nobody captures, for a default stream in its context.
fn unless_captured(
    stream: &Stream,
    call: Call,
    make: impl FnOnce(Calls<'_>) -> Result<(), Failure>,
) -> Result<()> {
    let is_captured = Cell::new(false);
    let outcome = order::cleanup(stream, call, |calls| {
        if is_capturing(calls, stream)? && !mutant::is_out("import-captured") {
            is_captured.set(true);
            return Ok(());
        }
        make(calls)
    });
    match outcome.into_error(stream.driver()) {
        Some(error) => Err(error),
        None if is_captured.get() => Err(captured()),
        None => Ok(()),
    }
}

// SAFETY: *memory*: it gives none out. *Given back*: the free comes after what each import's home had queued when it ended,
// and is made by the last of them.
unsafe impl MemoryResource for Imported {
    fn allocate(&self, _: usize, _: &Stream) -> Result<Block> {
        Err(Error::state("memory of another process is imported, not allocated"))
    }

    unsafe fn deallocate(&self, _: Block, home: &Stream) -> Result<()> {
        let mapping = self.mapping();
        mapping.pool.driver().check_callable()?;
        let ordered = if mapping.is_freed_on(home) { Ok(()) } else { mapping.leave_order(home) };
        let ordered = match ordered {
            Ok(()) => Ok(()),
            Err(error) if mapping.is_refused(&error) => return Err(error),
            // What this import's stream still does to it isn't known.
            Err(error) => Err(mapping.leaked(error)),
        };
        let imports = mapping.pool.imports();
        let freed = imports.cache.leave(self, mapping.ptr, |mapping| {
            let (freed, result) = mapping.free();
            (freed, (freed, result))
        });
        let Some((freed, result)) = freed else { return ordered };
        if freed == Freed::Gone {
            imports.keep(std::mem::take(&mut *mapping.left.lock()));
        }
        ordered.and(result)
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::ImportedMemory
    }

    fn residence(&self) -> Residence {
        self.mapping().pool.residence()
    }
}
