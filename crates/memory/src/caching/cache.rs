//! What all handles of a caching resource share, and how blocks are had and given back.
//!
//! The quick way is a look into the calling thread's bin: [`Cache::take`], [`Cache::put`]. Everything else is in the slow
//! ways below, which lock a lane, and in `give_back.rs`.

#![expect(unsafe_code, reason = "the thread that looks for its bin owns it")]

use super::{
    CachingOptions, class,
    lane::Lane,
    oom::Oom,
    state::{Bin, Bound, Over, Put, Taken, Way},
    thread::{self, Key},
};
use crate::{
    allocation::warn_of_error,
    order::{self, captured, check_home},
    ordered,
    pool::Pool,
    resource::Residence,
    source::Block,
};
use cuhold_handles::{
    Error, Note, Object, ObjectKind, Result, Stream, callback,
    driver_sys::{CUresult, ffi::CUdevice, mutant, process::ForkWord},
    scope,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    ptr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

/// The tag of memory that the cache had no part in.
pub(super) const PLAIN: u64 = u64::MAX;
/// How many bits of a tag are the class; those above are the lane's number.
const CLASS_BITS: u32 = 16;
/// Up to this many bytes come from another stream in one go.
const CROSSING_BYTES: usize = 1 << 20;

/// What the handles of a resource share, and what its buffers refer to.
pub(crate) struct Cache {
    fork: ForkWord,
    pool: Pool,
    residence: Residence,
    device: CUdevice,
    pub(super) options: CachingOptions,
    pub(super) way: Way,
    me: Weak<Self>,
    /// By the stream's number.
    pub(super) lanes: Mutex<BTreeMap<u64, Arc<Lane>>>,
    numbers: AtomicU64,
    pub(super) bound: Arc<Bound>,
    oom: Oom,
    /// Whether the last handle is gone: nothing is kept from here on.
    pub(super) ended: AtomicBool,
    pub(super) past: super::statistics::Past,
    /// Bytes that came from the pool and weren't given back, and the most that there ever were.
    pub(super) reserved: AtomicUsize,
    pub(super) reserved_peak: AtomicUsize,
}

/// A piece of memory that was asked for.
pub(crate) enum Got {
    /// A block of the cache.
    Block(Block),
    /// Memory of the pool that the cache takes no part in.
    Plain(Block),
}

impl Cache {
    pub(super) fn new(pool: &Pool, options: CachingOptions, way: Way) -> Arc<Self> {
        let most = options.max_cached_bytes.unwrap_or(usize::MAX);
        Arc::new_cyclic(|me| Self {
            fork: ForkWord::new(),
            pool: pool.clone(),
            residence: pool.residence(),
            device: pool.device().as_raw(),
            options,
            way,
            me: Weak::clone(me),
            lanes: Mutex::default(),
            numbers: AtomicU64::new(1),
            bound: Arc::new(Bound::new(most)),
            oom: Oom::default(),
            ended: AtomicBool::new(false),
            past: super::statistics::Past::default(),
            reserved: AtomicUsize::new(0),
            reserved_peak: AtomicUsize::new(0),
        })
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn residence(&self) -> Residence {
        self.residence
    }

    pub(crate) fn device(&self) -> CUdevice {
        self.device
    }

    #[inline]
    fn key(&self, stream: &Stream) -> Key {
        Key { stream: stream.address(), cache: ptr::from_ref(self).addr() }
    }

    /// Memory of so many bytes, at least one, for work on the stream.
    ///
    /// Calls nothing for a created stream where the thread has a block of the class.
    #[inline]
    pub(crate) fn take(&self, bytes: usize, stream: &Stream) -> Result<Got> {
        match self.take_quickly(bytes, stream) {
            Some(block) => Ok(Got::Block(block)),
            None => self.take_slowly(bytes, stream),
        }
    }

    /// As [`take`](Self::take), if that needs no call and no lock.
    #[inline]
    pub(crate) fn take_quickly(&self, bytes: usize, stream: &Stream) -> Option<Block> {
        let class = class::of(bytes).filter(|_| bytes > 0 && !stream.is_exposed())?;
        self.quick(class, bytes, stream)
    }

    /// A block out of the calling thread's bin.
    #[inline]
    fn quick(&self, class: usize, bytes: usize, stream: &Stream) -> Option<Block> {
        if self.fork.forked() {
            return None;
        }
        thread::with(self.key(stream), |bin| {
            // SAFETY: the thread's own.
            let ptr = unsafe { bin.take(class) };
            (ptr != 0).then(|| Block { ptr, bytes, tag: tag(class, bin.lane()) })
        })?
    }

    /// Puts a block into the calling thread's bin. `false`: that isn't possible, and the block is still the caller's. In a
    /// forked child, too: the bin is the thread's own, and nothing is called.
    ///
    /// By where the cache lies, since it may be gone as soon as the block is in.
    ///
    /// Calls nothing.
    #[inline]
    pub(crate) fn put(cache: usize, block: Block, stream: &Stream) -> bool {
        let put = thread::with(Key { stream: stream.address(), cache }, |bin| {
            let (class, lane) = untag(block.tag);
            // SAFETY: the thread's own.
            bin.lane() == lane && unsafe { bin.put(class, block.ptr) }
        });
        put.unwrap_or(false)
    }

    /// As [`take`](Self::take), where it can't be had [quickly](Self::take_quickly).
    #[cold]
    pub(crate) fn take_slowly(&self, bytes: usize, stream: &Stream) -> Result<Got> {
        let driver = stream.driver();
        driver.check_callable()?;
        self.pool.check_stream(stream)?;
        check_home(stream)?;
        let Some(class) = class::of(bytes).filter(|_| !self.passes_by(stream)) else {
            return Ok(Got::Plain(self.plain(bytes, stream)?));
        };
        if order::is_capturing(driver.calls(), stream).map_err(|failure| driver.error(failure))? {
            return Err(captured());
        }
        if let Some(block) = self.quick(class, bytes, stream) {
            return Ok(Got::Block(block));
        }
        let (lane, bin) = self.lane_and_bin(class, stream);
        let ptr = match Self::take_of(&lane, bin.as_deref(), class) {
            Some(ptr) => ptr,
            None => match self.cross(&lane, class)? {
                Some(ptr) => ptr,
                None => self.relieved_by(|| self.make(&lane, class))?,
            },
        };
        Ok(Got::Block(Block { ptr, bytes, tag: tag(class, lane.number()) }))
    }

    /// Whether the cache takes no part in the memory of a stream: a default stream's handle is one of whatever context is
    /// current.
    fn passes_by(&self, stream: &Stream) -> bool {
        stream.is_token() || self.ended.load(Ordering::Relaxed)
    }

    fn plain(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        self.past.passed.fetch_add(1, Ordering::Relaxed);
        let make = || self.neutrally(stream, || ordered::allocate(Some(&self.pool), bytes, stream));
        Ok(Block { tag: PLAIN, ..self.relieved_by(make)? })
    }

    /// Memory of the pool. Where there is none, all that is cached is given back, once for all threads that wait for that, and
    /// asked for once more.
    fn relieved_by<T>(&self, make: impl Fn() -> Result<T>) -> Result<T> {
        let seen = self.oom.rounds();
        let first = match make() {
            Err(error) if is_plain_oom(&error) => error,
            made => return made,
        };
        match self.oom.relieve(seen, || self.give_all_back()) {
            Ok(true) => make().map_err(|second| first.with_second(&second)),
            Ok(false) => Err(first),
            Err(second) => Err(first.with_second(&second)),
        }
    }

    /// Allocates in relaxed capture mode, so that nobody's capture is disturbed.
    fn neutrally(&self, stream: &Stream, make: impl FnOnce() -> Result<Block>) -> Result<Block> {
        scope::neutral(stream.driver(), make, |block, error| {
            // SAFETY: allocated a moment ago on this stream, and given to nobody.
            unsafe { ordered::free(block.ptr, stream) }.note_undo(error, block.ptr)
        })
    }

    /// The stream's lane, made if it isn't there.
    fn lane(&self, stream: &Stream) -> Arc<Lane> {
        if let Some(lane) = self.lanes.lock().get(&stream.id()) {
            return Arc::clone(lane);
        }
        // Whose stream nobody has any more, without the end having been noticed.
        self.close_left();
        self.pool.keep_stream(stream);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let lane = Arc::new(Lane::new(number, stream, self.way, Arc::clone(&self.bound)));
        let mut lanes = self.lanes.lock();
        let kept = Arc::clone(lanes.entry(stream.id()).or_insert_with(|| Arc::clone(&lane)));
        drop(lanes);
        kept
    }

    /// The stream's lane, and the calling thread's bin of it where there can be one; made if they aren't there.
    fn lane_and_bin(&self, class: usize, stream: &Stream) -> (Arc<Lane>, Option<Arc<Bin>>) {
        if let Some((bin, lane)) = thread::own(self.key(stream)) {
            return (lane, Some(bin));
        }
        let lane = self.lane(stream);
        let bin = self.bin(&lane, class, true);
        (lane, bin)
    }

    /// A block that the lane has.
    fn take_of(lane: &Lane, bin: Option<&Bin>, class: usize) -> Option<u64> {
        let mut shelf = lane.shelf();
        match shelf.take(bin, class) {
            Taken::Block(block) => Some(block),
            Taken::Nothing => None,
            // Its stream was left, and somebody has it again: through a buffer.
            Taken::Closed => {
                shelf.reopen();
                None
            }
        }
    }

    /// A new bin of a lane for the calling thread, where that is possible.
    fn bin(&self, lane: &Arc<Lane>, class: usize, may_allocate: bool) -> Option<Arc<Bin>> {
        if class >= class::SMALL || !thread::has_room(may_allocate) {
            return None;
        }
        let bin = lane.shelf().new_bin(may_allocate)?;
        thread::insert(self.key(lane.stream()), Arc::clone(&bin), Arc::downgrade(lane));
        Some(bin)
    }

    /// A block of another stream, behind whose work this one's then comes.
    ///
    /// Calls `cuEventRecord`, `cuStreamWaitEvent`, in relaxed capture mode; `cuEventCreate` where the context has no idle
    /// event, `cuEventDestroy` after a failure.
    fn cross(&self, lane: &Arc<Lane>, class: usize) -> Result<Option<u64>> {
        let stream = lane.stream();
        if stream.is_exposed() || !self.options.crosses_streams {
            return Ok(None);
        }
        let mut over = Over::new();
        let Some(donor) = self.donor(lane, class, &mut over) else { return Ok(None) };
        let driver = stream.driver();
        for (class, _) in over.iter() {
            lane.shelf().expect(class, self.me.upgrade(), true);
        }
        let ordered = if mutant::is_out("cache-order") {
            Ok(())
        } else {
            scope::neutral(
                driver,
                || order::order_after(donor.stream(), stream),
                |(), error| error.with_completed(1),
            )
        };
        let (to, from) = if ordered.is_ok() { (lane, &donor) } else { (&donor, lane) };
        let mut first = None;
        for (class, block) in over.iter() {
            from.shelf().part(class);
            if ordered.is_ok() && first.is_none() {
                first = Some(block);
            } else {
                to.shelf().lay_back(class, block);
            }
        }
        self.end_if_done(&donor);
        self.end_if_done(lane);
        ordered.map(|()| first)
    }

    /// A lane that has blocks of the class to spare, of a stream that nobody can be capturing; they are taken out of it.
    fn donor(&self, lane: &Lane, class: usize, over: &mut Over) -> Option<Arc<Lane>> {
        let most = (CROSSING_BYTES / class::bytes(class)).clamp(1, 16);
        let lanes = self.lanes.lock();
        let mut others = lanes.values().filter(|other| other.number() != lane.number());
        let donor = others.find(|other| {
            let stream = other.stream();
            if stream.is_exposed() || stream.is_borrowed() {
                return false;
            }
            let mut shelf = other.shelf();
            if shelf.is_open() {
                shelf.donate(class, most, over);
            }
            !over.is_empty()
        });
        donor.cloned()
    }

    /// A new block.
    ///
    /// Calls `cuMemAllocFromPoolAsync`, in relaxed capture mode.
    fn make(&self, lane: &Arc<Lane>, class: usize) -> Result<u64> {
        let (stream, bytes) = (lane.stream(), class::bytes(class));
        // Whatever its end needs is there before it is.
        lane.shelf().expect(class, self.me.upgrade(), false);
        let made = self.neutrally(stream, || ordered::allocate(Some(&self.pool), bytes, stream));
        match made {
            Ok(block) => {
                let reserved = self.reserved.fetch_add(bytes, Ordering::Relaxed) + bytes;
                self.reserved_peak.fetch_max(reserved, Ordering::Relaxed);
                Ok(block.ptr)
            }
            Err(error) => {
                lane.shelf().part(class);
                self.end_if_done(lane);
                Err(error)
            }
        }
    }

    /// How often everything was given back because memory was out.
    pub(super) fn relieved(&self) -> u64 {
        self.oom.rounds()
    }

    /// Takes a block back, in the order of the stream. Allocates nothing.
    ///
    /// # Safety
    /// The block came from this cache and is given back once; what uses it is ordered before what is queued on the stream
    /// from now on.
    pub(super) unsafe fn give(&self, block: Block, stream: &Stream) -> Result<()> {
        let (class, number) = untag(block.tag);
        let own = thread::own(self.key(stream)).filter(|(_, lane)| lane.number() == number);
        let (bin, lane) = match own {
            Some((bin, lane)) => (Some(bin), lane),
            None => {
                let Some(lane) = self.lane_of(number, class, stream) else {
                    return self.free_of(number, block.ptr, class, stream);
                };
                (self.bin(&lane, class, false), lane)
            }
        };
        let mut over = Over::new();
        let put = lane.shelf().put(bin.as_deref(), class, block.ptr, &mut over);
        if put == Put::Closed {
            let freed = self.free(block.ptr, class, stream);
            // Inside a callback of somebody else it wasn't freed, and comes once more.
            if !freed.as_ref().is_err_and(|error| is_in_callback(error, stream)) {
                lane.shelf().part(class);
                self.end_if_done(&lane);
            }
            return freed;
        }
        if over.is_empty() {
            return Ok(());
        }
        let mut first = None;
        self.give_over(&lane, &over, &mut |error| super::give_back::join(&mut first, error));
        first.map_or(Ok(()), Err)
    }

    /// The lane that takes a block back on this stream: the block's own, or the stream's, if it has room for one more. `None`:
    /// there is no such.
    fn lane_of(&self, number: u64, class: usize, stream: &Stream) -> Option<Arc<Lane>> {
        let lane = self.lanes.lock().get(&stream.id()).cloned()?;
        if lane.number() == number {
            return Some(lane);
        }
        // Its home is another stream meanwhile.
        let is_adopted = lane.shelf().adopt(class);
        if !is_adopted {
            return None;
        }
        self.part_from(number, class);
        Some(lane)
    }

    /// Frees a block on another stream than its lane's.
    fn free_of(&self, number: u64, ptr: u64, class: usize, stream: &Stream) -> Result<()> {
        self.pool.keep_stream(stream);
        let freed = self.free(ptr, class, stream);
        if !freed.as_ref().is_err_and(|error| is_in_callback(error, stream)) {
            self.part_from(number, class);
        }
        freed
    }

    /// Takes a block back where no call may be made and no lock taken: in a callback the reclaimer does it; in a forked child
    /// the memory is the parent's.
    ///
    /// # Errors
    /// That this is a forked child.
    ///
    /// # Safety
    /// As [`give`](Self::give).
    #[cold]
    pub(super) unsafe fn give_later(
        &self,
        block: Block,
        stream: &Stream,
        error: Error,
    ) -> Result<()> {
        let Some(cache) = self.me.upgrade().filter(|_| callback::inside()) else {
            return Err(error);
        };
        let (inlet, stream) = (stream.driver().reclaim().inlet(), stream.clone());
        inlet.defer(None, move || {
            // SAFETY: the caller's promise.
            if let Err(error) = unsafe { cache.give(block, &stream) } {
                let driver = stream.driver();
                let id = driver.next_id();
                let object = Object { kind: ObjectKind::PoolMemory, raw: block.ptr, id };
                warn_of_error(driver, object, &error);
            }
        });
        Ok(())
    }

    /// A block isn't that lane's any more.
    fn part_from(&self, number: u64, class: usize) {
        let lane = self.lanes.lock().values().find(|lane| lane.number() == number).cloned();
        if let Some(lane) = lane {
            lane.shelf().part(class);
            self.end_if_done(&lane);
        }
    }
}

/// Whether nothing was done because this thread runs a callback of somebody else's.
#[cold]
pub(super) fn is_in_callback(error: &Error, stream: &Stream) -> bool {
    error.is(CUresult::NOT_PERMITTED) && scope::is_in_callback(stream.driver().calls())
}

/// Whether memory is out, and nothing else failed.
#[cold]
fn is_plain_oom(error: &Error) -> bool {
    error.is(CUresult::OUT_OF_MEMORY)
        && error.notes().iter().all(|note| matches!(note, Note::Text(_)))
}

#[inline]
fn tag(class: usize, lane: u64) -> u64 {
    class as u64 | (lane << CLASS_BITS)
}

#[inline]
pub(super) fn untag(tag: u64) -> (usize, u64) {
    let class = tag & ((1 << CLASS_BITS) - 1);
    (usize::try_from(class).unwrap_or(usize::MAX), tag >> CLASS_BITS)
}
