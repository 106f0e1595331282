//! One allocation with where it came from, and its end: in a `Drop`, or in a close.
//!
//! | dropped | what happens |
//! |---|---|
//! | on an application thread | freed there, in the order of the home stream |
//! | the same, but giving it back may wait for the GPU | left to the reclaimer |
//! | the same, but the home stream's work must be done first | left to the reclaimer, which waits for that |
//! | inside a callback of the driver | left to the reclaimer |
//! | in a forked child | nothing |
//! | while somebody captures the home stream | leaked, with a warning: freeing it there would be part of that capture |

#![expect(unsafe_code, reason = "gives memory back")]

use crate::{
    caching::{Cache, Got},
    order::{self, Wait, captured, failure_of, is_capturing},
    ordered,
    pool::Pool,
    resource::Residence,
    source::{Block, MemoryResource, Source, allocate_from},
};
use cuhold_handles::{
    CudaWarning, Current, Driver, Error, Fate, Note, Object, ObjectKind, Refused, Result, Stream,
    callback,
    driver_sys::{CUresult, Call, Life, ffi::CUdevice, mutant},
    foreign::{self, Caught},
    scope::{self, Outcome},
};
use std::{mem::ManuallyDrop, ptr, sync::Arc};

/// How memory is given back.
enum Back {
    /// In stream order, to the driver. Memory of a pool that was named holds it: where a pool ends while a stream that
    /// freed its memory still works, the driver ends the process later (measured).
    Ordered(ManuallyDrop<Option<Pool>>),
    /// To a resource, which is kept alive.
    Resource(ManuallyDrop<Arc<dyn MemoryResource>>),
}

/// Where a buffer's memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The current pool of its device.
    CurrentPool,
    /// A pool that was named.
    Pool,
    /// A [caching resource](crate::CachingResource).
    Cache,
    /// Another [`MemoryResource`].
    Resource,
    /// The caller gave it away as stream-ordered memory: [`Buffer::from_raw`](crate::Buffer::from_raw).
    Raw,
    /// Somebody else ends it: [`Buffer::borrow_raw`](crate::Buffer::borrow_raw).
    Borrowed,
}

/// What is known of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) residence: Residence,
    /// The device that it was allocated for.
    pub(crate) device: CUdevice,
    pub(crate) origin: Origin,
    /// Whether it may be given back only after all work of its home stream is done: being queued behind that isn't enough.
    pub(crate) waits: bool,
    /// Whether the resource isn't counted, nor is the home stream: a block of a [cache](Cache), whose lane keeps both.
    is_lent: bool,
}

impl Facts {
    pub(crate) fn new(residence: Residence, device: CUdevice, origin: Origin, waits: bool) -> Self {
        Self { residence, device, origin, waits, is_lent: false }
    }
}

/// Memory that somebody must give back. Without a `Drop` of its own: the holder calls [`end`] or [`close`].
pub(crate) struct Allocation {
    block: Block,
    back: Back,
    facts: Facts,
}

/// What giving memory back brought.
enum Ending {
    Ordered(Outcome),
    Resource(Result<()>),
    Panicked(Caught),
}

impl Allocation {
    /// Allocates; no memory for no bytes.
    #[inline]
    pub(crate) fn new(source: Source<'_>, bytes: usize, stream: &Stream) -> Result<Self> {
        let device = stream.context().device();
        let facts = |origin, residence| Facts::new(residence, device, origin, false);
        Ok(match source {
            Source::Current => Self {
                block: ordered::allocate(None, bytes, stream)?,
                back: Back::NOBODY,
                facts: facts(Origin::CurrentPool, Residence::Device),
            },
            Source::Pool(pool) => Self {
                block: ordered::allocate(Some(pool), bytes, stream)?,
                back: Back::of(pool, bytes),
                facts: facts(Origin::Pool, pool.residence()),
            },
            Source::Cache(cache) => Self::cached(cache, bytes, stream)?,
            Source::Resource(resource) => {
                let facts = facts(Origin::Resource, resource.residence());
                if bytes == 0 {
                    Self { block: Block::EMPTY, back: Back::NOBODY, facts }
                } else {
                    Self::of(allocate_from(&*resource, bytes, stream)?, resource, facts)
                }
            }
        })
    }

    /// Memory that is freed in stream order.
    pub(crate) fn ordered(ptr: u64, bytes: usize, stream: &Stream) -> Self {
        let device = stream.context().device();
        let (residence, origin) = (Residence::Device, Origin::Raw);
        Self {
            block: Block { ptr, bytes, tag: 0 },
            back: Back::NOBODY,
            facts: Facts::new(residence, device, origin, false),
        }
    }

    /// A cache's memory, which refers to the cache without being counted, where it couldn't be had
    /// [quickly](Self::cached_quickly).
    #[cold]
    fn cached(cache: &Arc<Cache>, bytes: usize, stream: &Stream) -> Result<Self> {
        let facts = Facts::new(cache.residence(), cache.device(), Origin::Cache, false);
        if bytes == 0 {
            return Ok(Self { block: Block::EMPTY, back: Back::NOBODY, facts });
        }
        match cache.take_slowly(bytes, stream)? {
            Got::Plain(block) => {
                let facts = Facts { origin: Origin::Pool, ..facts };
                Ok(Self { block, back: Back::of(cache.pool(), bytes), facts })
            }
            Got::Block(block) => Ok(Self::lent(block, cache)),
        }
    }

    /// The same, if it needs no call and no lock.
    #[inline]
    pub(crate) fn cached_quickly(
        cache: &Arc<Cache>,
        bytes: usize,
        stream: &Stream,
    ) -> Option<Self> {
        cache.take_quickly(bytes, stream).map(|block| Self::lent(block, cache))
    }

    /// A block of the cache.
    #[inline]
    fn lent(block: Block, cache: &Arc<Cache>) -> Self {
        let facts = Facts::new(cache.residence(), cache.device(), Origin::Cache, false);
        // SAFETY: a reference more that isn't counted, and that nothing drops: the block's lane keeps the cache until the block
        // is back.
        let lent: Arc<Cache> = unsafe { ptr::read(cache) };
        let back = Back::Resource(ManuallyDrop::new(lent));
        Self { block, back, facts: Facts { is_lent: true, ..facts } }
    }

    /// Whether neither the resource nor the home stream is counted.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        self.facts.is_lent
    }

    /// Gives memory that is lent back to its cache, if that is done quickly: without a call and without a lock. The memory isn't
    /// used afterwards; there is nothing to drop of it.
    #[inline]
    pub(crate) fn give_back_quickly(&self, home: &Stream) -> bool {
        let Back::Resource(resource) = &self.back else { return false };
        if !self.facts.is_lent {
            return false;
        }
        Cache::put(Arc::as_ptr(resource).addr(), self.block, home)
    }

    /// Counts the resource from here on, of memory that is lent. The home is the holder's to count.
    #[cold]
    pub(crate) fn hold(&mut self) {
        if let Back::Resource(resource) = &self.back
            && self.facts.is_lent
        {
            let _: ManuallyDrop<Arc<dyn MemoryResource>> = ManuallyDrop::clone(resource);
            self.facts.is_lent = false;
        }
    }

    /// A resource's memory.
    pub(crate) fn of(block: Block, resource: Arc<dyn MemoryResource>, facts: Facts) -> Self {
        Self { block, back: Back::Resource(ManuallyDrop::new(resource)), facts }
    }

    /// Nothing to give back.
    pub(crate) const EMPTY: Self = Self {
        block: Block::EMPTY,
        back: Back::NOBODY,
        facts: Facts {
            residence: Residence::Device,
            device: 0,
            origin: Origin::Raw,
            waits: false,
            is_lent: false,
        },
    };

    pub(crate) fn facts(&self) -> Facts {
        self.facts
    }

    /// The resource that it goes back to.
    pub(crate) fn resource(&self) -> Option<&Arc<dyn MemoryResource>> {
        match &self.back {
            Back::Ordered(_) => None,
            Back::Resource(resource) => Some(resource),
        }
    }

    pub(crate) fn ptr(&self) -> u64 {
        self.block.ptr
    }

    /// It is going to be freed on this stream. Told where the stream becomes its home, so that the free needn't.
    pub(crate) fn keep_home(&self, home: &Stream) {
        if let Back::Ordered(pool) = &self.back
            && let Some(pool) = &**pool
        {
            pool.keep_stream(home);
        }
    }

    /// The address, for whoever frees the memory now; lets go of its pool.
    pub(crate) fn give_away(self) -> u64 {
        let ptr = self.ptr();
        if let Back::Ordered(pool) = self.back {
            drop(ManuallyDrop::into_inner(pool));
        }
        ptr
    }

    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self.back, Back::Ordered(_))
    }

    fn is_empty(&self) -> bool {
        self.is_ordered() && self.block.ptr == 0
    }

    fn kind(&self) -> ObjectKind {
        match &self.back {
            Back::Ordered(_) => ordered::memory_kind(self.block),
            Back::Resource(resource) => {
                foreign::call(|| resource.memory_kind()).unwrap_or(ObjectKind::DeviceMemory)
            }
        }
    }

    /// How a warning names it. Numbered only here: nothing but a warning asks.
    fn object(&self, driver: &Driver) -> Object {
        Object { kind: self.kind(), raw: self.block.ptr, id: driver.next_id() }
    }

    /// Whether giving it back may wait for the GPU.
    fn waits(&self) -> bool {
        match &self.back {
            Back::Ordered(_) => false,
            Back::Resource(resource) => {
                foreign::call(|| resource.deallocate_waits()).unwrap_or(true)
            }
        }
    }

    fn give_back(&self, home: &Stream) -> Ending {
        match &self.back {
            Back::Ordered(_) => {
                // SAFETY: this value owns the memory, and its holder gives it back once. What uses it is queued on the
                // home stream, or ordered before it by `move_to`; other users are the promise of unsafe launches.
                Ending::Ordered(unsafe { ordered::free(self.block.ptr, home) })
            }
            Back::Resource(resource) => {
                let block = self.block;
                // SAFETY: as above; the block came from this resource.
                match foreign::call(|| unsafe { resource.deallocate(block, home) }) {
                    Ok(result) => Ending::Resource(result),
                    Err(caught) => Ending::Panicked(caught),
                }
            }
        }
    }

    /// Lets go of what it came from: a pool, or a resource, whose `Drop` is a user's.
    #[inline]
    fn release(self, driver: &Driver, object: impl FnOnce(&Driver) -> Object) {
        match self.back {
            Back::Ordered(pool) => drop(ManuallyDrop::into_inner(pool)),
            Back::Resource(resource) => {
                if let Err(caught) = foreign::drop_caught(ManuallyDrop::into_inner(resource)) {
                    driver.warn(CudaWarning::panicked(object(driver), caught.payload()));
                }
            }
        }
    }
}

impl Back {
    /// To the driver, and nothing is held.
    const NOBODY: Self = Self::Ordered(ManuallyDrop::new(None));

    /// To the driver, and the pool is held, if there is memory.
    #[inline]
    fn of(pool: &Pool, bytes: usize) -> Self {
        let is_held = bytes > 0 && !mutant::is_out("pool-hold");
        Self::Ordered(ManuallyDrop::new(is_held.then(|| pool.clone())))
    }
}

/// The end of memory whose holder is gone: in a `Drop`. Nothing unwinds from it, and it waits for nothing.
pub(crate) fn end(memory: Allocation, home: Stream) {
    if memory.is_empty() {
        return;
    }
    // In a forked child nothing of the parent's is touched; a resource of the user's may hold its locks.
    if home.driver().api().life() == Life::Forked {
        let _: u64 = memory.give_away();
        return;
    }
    if callback::inside() || memory.facts.waits || memory.waits() {
        return leave(memory, home);
    }
    end_here(memory, home, true);
}

/// Leaves the end to the reclaimer.
#[cold]
fn leave(memory: Allocation, home: Stream) {
    let inlet = home.driver().reclaim().inlet();
    // A resource isn't asked here, where it may not be called: its end may wait.
    let waits_for = (!memory.is_ordered()).then(|| home.context().as_raw());
    inlet.defer(waits_for, move || {
        if !memory.facts.waits || settled(&memory, &home) {
            end_here(memory, home, false);
        }
    });
}

/// On the reclaimer: waits for the work that must be done before the memory is given back. `false`: that isn't known, so the
/// memory is leaked, and what keeps it with it; that was told.
fn settled(memory: &Allocation, home: &Stream) -> bool {
    let (wait, outcome) = order::settle(home);
    if wait != Wait::Done || !outcome.is_clean() {
        let driver = home.driver();
        let object = memory.object(driver);
        order::warn_of_wait(driver, wait, outcome, Call::cuStreamSynchronize, object);
    }
    wait == Wait::Done
}

/// Waits for that work here, where an error can be returned.
fn settled_here(home: &Stream) -> Result<()> {
    let (wait, outcome) = order::settle(home);
    match outcome.into_error(home.driver()) {
        Some(error) => Err(error),
        None if wait == Wait::Captured => Err(captured()),
        None => Ok(()),
    }
}

fn end_here(memory: Allocation, home: Stream, may_leave: bool) {
    match memory.give_back(&home) {
        Ending::Ordered(outcome) if outcome.is_clean() => memory.release(home.driver(), unnamed),
        // A callback of somebody else: the driver made nothing, and the reclaimer asks again.
        Ending::Ordered(outcome)
            if may_leave && outcome.is_not_permitted() && in_callback(&home) =>
        {
            leave(memory, home);
        }
        Ending::Ordered(outcome) => {
            warn_of_outcome(&memory, &home, outcome);
            memory.release(home.driver(), unnamed);
        }
        Ending::Resource(Ok(())) => memory.release(home.driver(), unnamed),
        Ending::Resource(Err(error))
            if may_leave && error.is(CUresult::NOT_PERMITTED) && in_callback(&home) =>
        {
            leave(memory, home);
        }
        Ending::Resource(Err(error)) => {
            let object = memory.object(home.driver());
            warn_of_error(home.driver(), object, &error);
            memory.release(home.driver(), |_| object);
        }
        Ending::Panicked(caught) => {
            let object = memory.object(home.driver());
            let warning = CudaWarning::panicked(object, caught.payload()).with_fate(Fate::Leaked);
            home.driver().warn(warning);
            memory.release(home.driver(), |_| object);
        }
    }
}

#[cold]
fn in_callback(home: &Stream) -> bool {
    scope::is_in_callback(home.driver().calls())
}

/// Names a resource that holds no memory of ours any more.
fn unnamed(driver: &Driver) -> Object {
    Object { kind: ObjectKind::Owner, raw: 0, id: driver.next_id() }
}

#[cold]
fn warn_of_outcome(memory: &Allocation, home: &Stream, outcome: Outcome) {
    let driver = home.driver();
    let object = memory.object(driver);
    let asked = ordered::was_captured(home, &outcome);
    let was_captured = asked == Ok(true);
    let fate = if was_captured { Fate::Leaked } else { outcome.fate() };
    // A question that failed for another reason says so by itself.
    let is_capture = was_captured
        && matches!(
            outcome.status(),
            Some(CUresult::INVALID_VALUE | CUresult::STREAM_CAPTURE_IMPLICIT)
        );
    outcome.warn_to(object, Call::cuMemFreeAsync, fate, &mut |warning| {
        driver.warn(if is_capture && warning.failure() == outcome.operation {
            warning.with_text("the stream it is freed on is being captured")
        } else {
            warning
        });
    });
    if let Err(failure) = asked {
        driver.warn(CudaWarning::failed(failure, object, fate));
    }
}

/// One warning for a resource's error, and one for each driver call that it says failed on the way out.
#[cold]
pub(crate) fn warn_of_error(driver: &Driver, object: Object, error: &Error) {
    let first = failure_of(error);
    let is_leaked = error.notes().iter().any(|note| matches!(note, Note::Leaked { .. }));
    let fate = |otherwise| if is_leaked { Fate::Leaked } else { otherwise };
    let is_mode =
        first.is_some_and(|failure| error.notes().contains(&Note::ModeNotRestored(failure)));
    let warning = match first {
        Some(failure) if is_mode => CudaWarning::mode_not_restored(failure, object, "relaxed"),
        Some(failure) => {
            CudaWarning::failed(failure, object, fate(Outcome::of(Err(failure)).fate()))
        }
        None => CudaWarning::note(object, "the memory resource didn't take it back")
            .with_fate(fate(Fate::Unknown))
            .with_text(&error.to_string()),
    };
    let is_noted = error.notes().iter().any(|note| matches!(note, Note::NotRestored { .. }));
    driver.warn(if is_noted { warning } else { warning.with_current(error.now_current()) });
    for note in error.notes() {
        match note {
            Note::NotRestored { failure: Some(failure), now } => {
                driver.warn(CudaWarning::restore_refused(*failure, object, *now));
            }
            Note::NotRestored { failure: None, now: now @ Current::Unknown(failure) } => {
                let asked = CudaWarning::failed(*failure, object, Fate::Unknown);
                driver.warn(asked.with_current(*now));
            }
            Note::ModeNotRestored(failure) if Some(*failure) != first => {
                driver.warn(CudaWarning::mode_not_restored(*failure, object, "relaxed"));
            }
            Note::Failed(failure) => {
                driver.warn(CudaWarning::failed(*failure, object, Fate::Unknown));
            }
            // Something that was made on the way, of which the error has no name.
            Note::UndoFailed(failure) => {
                let is_event = failure.call == Call::cuEventDestroy_v2;
                let kind = if is_event { ObjectKind::Event } else { object.kind };
                driver.warn(CudaWarning::failed(*failure, Object::nameless(kind), Fate::Unknown));
            }
            Note::Leaked { raw } if *raw != object.raw || is_mode => {
                let part = Object { raw: *raw, ..object };
                driver.warn(CudaWarning::note(part, "it was lost with it").with_fate(Fate::Leaked));
            }
            _ => {}
        }
    }
}

/// Gives memory back here and now.
///
/// # Errors
/// [`Refused`], with the memory where it wasn't given back and the driver wasn't asked to.
pub(crate) fn close(memory: Allocation, home: &Stream) -> Result<(), Refused<Option<Allocation>>> {
    let driver = home.driver();
    if let Err(error) = ready_to_close(&memory, home) {
        return Err(Refused::new(error, Some(memory)));
    }
    if memory.is_empty() {
        return Ok(());
    }
    if memory.facts.waits
        && let Err(error) = settled_here(home)
    {
        return Err(Refused::new(error, Some(memory)));
    }
    match memory.give_back(home) {
        Ending::Ordered(outcome) => {
            let was_asked = outcome.is_asked()
                && !was_refused_asking(&outcome)
                && !(outcome.is_not_permitted() && in_callback(home));
            match outcome.into_error(driver) {
                Some(error) if !was_asked => Err(Refused::new(error, Some(memory))),
                error => {
                    memory.release(driver, unnamed);
                    error.map_or(Ok(()), |error| Err(Refused::new(error, None)))
                }
            }
        }
        Ending::Resource(result) => {
            memory.release(driver, unnamed);
            result.map_err(|error| Refused::new(error, None))
        }
        Ending::Panicked(caught) => {
            memory.release(driver, unnamed);
            caught.resume()
        }
    }
}

/// The question whether the stream is captured failed, so the free wasn't made.
fn was_refused_asking(outcome: &Outcome) -> bool {
    outcome.operation.is_some_and(|failure| failure.call == Call::cuStreamIsCapturing)
}

fn ready_to_close(memory: &Allocation, home: &Stream) -> Result<()> {
    let driver = home.driver();
    driver.check_callable()?;
    // A default stream is asked with its context current, by the free itself.
    if memory.is_empty() || !memory.is_ordered() || home.is_token() {
        return Ok(());
    }
    match is_capturing(driver.calls(), home) {
        Ok(false) => Ok(()),
        Ok(true) => Err(captured()),
        Err(failure) => Err(driver.error(failure)),
    }
}
