//! The carriers: one block for every driver object, shared or unique, whose end is the policy.
//!
//! ```text
//!   Handle<R>  shared: clones count      Owned<R>  unique
//!        └───────────────┬──────────────────┘
//!                     Block<R>   record │ raw │ id │ flags │ owner │ dependencies
//! ```
//!
//! What happens when the last carrier goes:
//!
//! | where | what |
//! |---|---|
//! | on an application thread | the destroy, under [`scope::cleanup`]; then the dependencies; then the warnings |
//! | the same, but the destroy may wait for the GPU | the block itself goes on the reclaimer's list |
//! | inside a callback of the driver | the same, whatever it is: no call, no lock, no allocation |
//! | inside a callback that isn't ours | the same, once the driver has answered that it may not be called there |
//! | in a forked child | no call: memory is let go, silently |
//!
//! A block holds its own list record, so handing it to the reclaimer allocates nothing and can't fail. Foreign values
//! (owners) are dropped inside `catch_unwind`: drop glue that panics while unwinding would abort the process.

#![expect(unsafe_code, reason = "blocks are handed to the reclaimer as raw records")]

pub use crate::raw::{Raw, Resource, not_null};

use crate::{
    callback,
    driver::Driver,
    error::{Refused, Result},
    memory::Users,
    object::{Object, ObjectKind},
    reclaim::{self, Record, Recorded},
    report::{CudaWarning, foreign},
    scope::{self, Outcome},
};
use cuhold_driver_sys::{CUresult, Call, Kind, Life, mutant};
use std::{
    any::Any,
    fmt,
    hash::{Hash, Hasher},
    mem::ManuallyDrop,
    ptr::NonNull,
    sync::{
        Arc as StdArc,
        atomic::{AtomicU32, Ordering},
    },
};
use triomphe::{Arc, UniqueArc};

pub use crate::alone::{Alone, Here};

/// A value that an object keeps alive: whatever owns a borrowed raw handle.
pub type Owner = StdArc<dyn Any + Send + Sync>;

const BORROWED: u32 = 1;
const ENDED: u32 = 2;
/// Work that isn't known to be done may use it: what it kept alive is never let go of.
const IN_USE: u32 = 4;

/// One object: its list record first, so that a pointer to the block is a pointer to the record.
#[repr(C)]
pub struct Block<R: Resource> {
    /// A resource whose blocks are read by many threads aligns its type to a cache line, and so its blocks: the count of
    /// the handles then lies on a line of its own, which clones write. Takes no room.
    line: [R; 0],
    record: Record,
    raw: R::Raw,
    id: u64,
    flags: AtomicU32,
    /// For the resource's own use: a stream's state word.
    state: AtomicU32,
    /// Thin, since it is seldom there.
    owner: ManuallyDrop<Option<Box<Owner>>>,
    deps: ManuallyDrop<R::Deps>,
}

impl<R: Resource> fmt::Debug for Block<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object())
    }
}

impl<R: Resource> Block<R> {
    fn new(raw: R::Raw, deps: R::Deps, id: u64, owner: Option<Owner>, flags: u32) -> Self {
        Self {
            line: [],
            record: Record::of::<Self>(),
            raw,
            id,
            flags: AtomicU32::new(flags),
            state: AtomicU32::new(0),
            owner: ManuallyDrop::new(owner.map(Box::new)),
            deps: ManuallyDrop::new(deps),
        }
    }

    fn driver(&self) -> &Driver {
        R::driver(&self.deps)
    }

    fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    fn object(&self) -> Object {
        let state = self.state.load(Ordering::Relaxed);
        Object { kind: R::kind(&self.deps, state), raw: self.raw.addr(), id: self.id }
    }

    /// The call that is to end the object, if there is one to make.
    fn ending(&self) -> Option<Call> {
        R::DESTROY.filter(|_| !self.has(BORROWED | ENDED))
    }

    /// The streams that have to be waited for first: where there is something to end, or an owner to let go of.
    fn users(&self) -> Option<&Users> {
        let ends = self.ending().is_some() || self.owner.is_some();
        R::users(&self.deps).filter(|users| ends && !users.is_empty())
    }

    /// Waits for the streams that use the object. `false`: it isn't known that they are done, which was told; nothing is
    /// ended then, and nothing let go of (P7).
    #[cold]
    fn settle_users(&self) -> bool {
        let Some(users) = self.users() else { return true };
        let settled = users.wait(self.object(), self.driver());
        if !settled {
            self.flags.fetch_or(ENDED | IN_USE, Ordering::Relaxed);
        }
        settled
    }

    /// Makes the destroying call, unless there is none to make.
    fn destroy(&self) -> Outcome {
        let Some(call) = self.ending() else { return Outcome::default() };
        if let Err(failure) = R::before_end(self.driver().calls(), &self.deps) {
            return Outcome { activate: Some(failure), skipped: true, ..Outcome::default() };
        }
        let owner = R::context(&self.deps);
        let owner = (!owner.is_null()).then_some(owner);
        let outcome = scope::cleanup(self.driver(), owner, call.columns(), |calls| {
            // SAFETY: this block owns `raw`, isn't ended, and makes this call once: the caller marks it as ended, lets
            // go of the block, or knows that the driver refused to be called.
            unsafe { R::destroy(calls, self.raw, &self.deps) }
        });
        match outcome.operation {
            // What had to come first failed, so that the object wasn't ended.
            Some(failure) if failure.call.columns().kind != Kind::Destroy => {
                Outcome { activate: Some(failure), operation: None, skipped: true, ..outcome }
            }
            _ => outcome,
        }
    }

    /// Whether the destroy failed because this thread runs a callback of somebody else's: nothing was done then, and
    /// the object is as it was.
    fn was_in_callback(&self, outcome: &Outcome) -> bool {
        outcome.is_not_permitted() && scope::is_in_callback(self.driver().calls())
    }
}

impl<R: Resource> Drop for Block<R> {
    /// Lets go of what the object kept alive. The destroy was made before, by [`end`] or [`close`].
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop, and nothing reads the field afterwards.
        let owner = unsafe { ManuallyDrop::take(&mut self.owner) };
        if self.has(IN_USE) {
            let _: ManuallyDrop<Option<Box<Owner>>> = ManuallyDrop::new(owner);
        } else if let Some(owner) = owner
            && let Err(caught) = foreign::drop_caught(owner)
        {
            let owner = Object { kind: ObjectKind::Owner, ..self.object() };
            self.driver().warn(CudaWarning::panicked(owner, caught.payload()));
        }
        // SAFETY: as above.
        drop(unsafe { ManuallyDrop::take(&mut self.deps) });
    }
}

// SAFETY: *first field*: `Block` is `repr(C)` with its record in front. *release*: as the trait asks, below.
unsafe impl<R: Resource> Recorded for Block<R> {
    unsafe fn release(record: NonNull<Record>) {
        let block = record.cast::<Self>();
        // SAFETY: the record was made from `Arc::into_raw` of the last reference by `hand_over`, and is released once.
        let_go(unsafe { Arc::from_raw(block.as_ptr()) });
    }

    unsafe fn worker(record: NonNull<Record>) -> Option<usize> {
        // SAFETY: *first field*: the record is the front of a live block.
        let block = unsafe { record.cast::<Self>().as_ref() };
        let waits = (R::waits() && block.ending().is_some()) || block.users().is_some();
        waits.then(|| R::waits_for(&block.deps).addr())
    }
}

/// Lets go of one reference; with the last one the object ends, here or on the reclaimer.
fn let_go<R: Resource>(arc: Arc<Block<R>>) {
    let Some(last) = Arc::into_unique(arc) else { return };
    end(last);
}

/// The end of an object whose last carrier is gone.
fn end<R: Resource>(last: UniqueArc<Block<R>>) {
    let ending = last.ending();
    let inside = callback::inside() && !mutant::is_out("callback");
    let used = last.users().is_some();
    let may_be_forked = (ending.is_some() || inside || used) && !mutant::is_out("fork-drop");
    if may_be_forked && last.driver().api().life() == Life::Forked {
        return drop(last);
    }
    let waits = ((ending.is_some() && R::waits()) || used) && !reclaim::may_wait_here();
    if used && waits && !inside {
        mark_users(&last);
    }
    if inside || (waits && !mutant::is_out("waiting")) {
        return hand_over(last);
    }
    if used && !last.settle_users() {
        return drop(last);
    }
    let Some(call) = ending else { return drop(last) };
    let outcome = last.destroy();
    if outcome.is_clean() {
        return drop(last);
    }
    ended_badly(last, outcome, call);
}

#[cold]
fn mark_users<R: Resource>(last: &UniqueArc<Block<R>>) {
    if let Some(users) = last.users() {
        users.mark(last.object(), last.driver());
    }
}

#[cold]
fn ended_badly<R: Resource>(last: UniqueArc<Block<R>>, outcome: Outcome, call: Call) {
    let elsewhere = !reclaim::on_thread() && !mutant::is_out("foreign-callback");
    if elsewhere && last.was_in_callback(&outcome) {
        return hand_over(last);
    }
    let (driver, object) = (last.driver().clone(), last.object());
    let fate = R::fate(&last.deps, outcome.fate());
    // What the object kept alive goes before anybody is told: a sink may look.
    drop(last);
    if !mutant::is_out("report") {
        outcome.warn_to(object, call, fate, &mut |warning| driver.warn(warning));
    }
    lost(&driver, object, &outcome);
}

/// In a lost driver nothing of the object is ever run: what waits for it goes now.
fn lost(driver: &Driver, object: Object, outcome: &Outcome) {
    if outcome.status().is_some_and(CUresult::is_fatal) && !mutant::is_out("abandon") {
        driver.waiting().abandon(object.id);
    }
}

fn hand_over<R: Resource>(last: UniqueArc<Block<R>>) {
    // Not the driver, which could end here, where no call may be made.
    let inlet = last.driver().reclaim().inlet();
    let block = Arc::into_raw(last.shareable());
    if let Some(block) = NonNull::new(block.cast_mut()) {
        // SAFETY: *first field*; this was the last reference, and it is given to the list.
        unsafe { inlet.push(block.cast()) };
    }
}

/// What closing a handle did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Closed {
    /// The object is destroyed.
    Destroyed,
    /// It goes on: other handles of it are alive and it ends with the last of them, or somebody else ends it.
    StillShared,
}

/// Shared ownership of a driver object that CUDA synchronizes itself. One word.
///
/// Public only because other crates of this project define resources; users see the types named after what they are,
/// such as [`Stream`](crate::Stream).
pub struct Handle<R: Resource>(ManuallyDrop<Arc<Block<R>>>);

impl<R: Resource> Handle<R> {
    /// Takes ownership of a new object.
    #[must_use]
    #[inline]
    pub fn own(raw: R::Raw, deps: R::Deps) -> Self {
        let id = R::driver(&deps).next_id();
        Self::with(Block::new(raw, deps, id, None, 0))
    }

    /// Refers to an object that somebody else ends; `owner` is kept alive as long.
    #[must_use]
    pub fn borrow(raw: R::Raw, deps: R::Deps, owner: Option<Owner>) -> Self {
        let id = R::driver(&deps).next_id();
        Self::with(Block::new(raw, deps, id, owner, BORROWED))
    }

    /// As [`borrow`](Self::borrow), with the number of an object that is known under several handles.
    pub(crate) fn alias(raw: R::Raw, deps: R::Deps, id: u64) -> Self {
        Self::with(Block::new(raw, deps, id, None, BORROWED))
    }

    fn with(block: Block<R>) -> Self {
        Self(ManuallyDrop::new(Arc::new(block)))
    }

    /// The driver's handle.
    #[must_use]
    #[inline]
    pub fn raw(&self) -> R::Raw {
        self.0.raw
    }

    /// The object's number, unique in its driver.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// What the object refers to.
    #[must_use]
    #[inline]
    pub fn deps(&self) -> &R::Deps {
        &self.0.deps
    }

    /// The driver.
    #[must_use]
    #[inline]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// The resource's own word of state.
    #[must_use]
    #[inline]
    pub fn state(&self) -> &AtomicU32 {
        &self.0.state
    }

    /// How warnings name it.
    #[must_use]
    pub fn object(&self) -> Object {
        self.0.object()
    }

    /// Whether somebody else ends the object.
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        self.0.has(BORROWED)
    }

    /// Whether the object lives as long as this handle: it is owned, or its owner is held.
    #[must_use]
    pub fn is_kept_alive(&self) -> bool {
        !self.is_borrowed() || self.0.owner.is_some()
    }

    /// How many handles there are at this moment.
    pub(crate) fn count(&self) -> usize {
        Arc::count(&self.0)
    }

    /// Where the object's block lies: the same for all its handles, and no other object's as long as one of them is alive.
    #[must_use]
    #[inline]
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Lets go of a handle without telling the resource, as the drop does.
    pub(crate) fn let_go(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is never dropped.
        let_go(unsafe { ManuallyDrop::take(&mut this.0) });
    }

    /// Never ends the object, whatever becomes of its handles.
    pub(crate) fn retire(&self) {
        self.0.flags.fetch_or(ENDED, Ordering::Relaxed);
    }

    /// Whether this is the only handle.
    pub(crate) fn is_unique(&self) -> bool {
        self.0.is_unique()
    }

    /// Ends the object here and now if this is its last handle, and tells what the driver answered.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver was never asked to end the object, without it where it was.
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        R::going(&self);
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is never dropped.
        let arc = unsafe { ManuallyDrop::take(&mut this.0) };
        match Arc::into_unique(arc) {
            None => Ok(Closed::StillShared),
            Some(block) => close(block).map_err(|Refused { error, value }| {
                Refused::new(error, value.map(|block| Self(ManuallyDrop::new(block.shareable()))))
            }),
        }
    }

    /// Gives the object away without ending it: the raw value is the caller's now.
    ///
    /// # Errors
    /// Gives the handle back where others of it are alive, and where it is somebody else's to end.
    pub fn into_raw(self) -> Result<R::Raw, Self> {
        if !self.is_unique() || self.is_borrowed() {
            return Err(self);
        }
        self.0.flags.fetch_or(ENDED, Ordering::Relaxed);
        Ok(self.raw())
    }
}

/// Ends a unique block here and now.
fn close<R: Resource>(
    block: UniqueArc<Block<R>>,
) -> Result<Closed, Refused<Option<UniqueArc<Block<R>>>>> {
    let driver = block.driver().clone();
    if let Err(error) = driver.check_callable() {
        return Err(Refused::new(error, Some(block)));
    }
    if let Some(users) = block.users()
        && let Err(error) = users.wait_here(&driver)
    {
        return Err(Refused::new(error, Some(block)));
    }
    if block.has(BORROWED) {
        return Ok(Closed::StillShared);
    }
    let outcome = block.destroy();
    if outcome.is_clean() {
        block.flags.fetch_or(ENDED, Ordering::Relaxed);
        return Ok(Closed::Destroyed);
    }
    let asked = outcome.is_asked() && !block.was_in_callback(&outcome);
    let asked = asked || mutant::is_out("refused-value");
    if asked {
        block.flags.fetch_or(ENDED, Ordering::Relaxed);
    }
    lost(&driver, block.object(), &outcome);
    let Some(error) = outcome.into_error(&driver) else { return Ok(Closed::Destroyed) };
    // Destroyed, and only putting something back failed: the object is gone, the error says the rest.
    Err(Refused::new(error, (!asked).then_some(block)))
}

impl<R: Resource> Clone for Handle<R> {
    #[inline]
    fn clone(&self) -> Self {
        Self(ManuallyDrop::new(Arc::clone(&self.0)))
    }
}

impl<R: Resource> Drop for Handle<R> {
    #[inline]
    fn drop(&mut self) {
        R::going(self);
        // SAFETY: taken once: this is the drop.
        let_go(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

impl<R: Resource> PartialEq for Handle<R> {
    fn eq(&self, other: &Self) -> bool {
        let same_id = self.id() == other.id() || mutant::is_out("identity");
        self.raw() == other.raw() && same_id && self.driver().same(other.driver())
    }
}

impl<R: Resource> Eq for Handle<R> {}

impl<R: Resource> Hash for Handle<R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw().hash(state);
        self.id().hash(state);
    }
}

impl<R: Resource> fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object())
    }
}

/// Unique ownership of a driver object. One word.
///
/// Public only because other crates of this project define resources.
pub struct Owned<R: Resource>(ManuallyDrop<UniqueArc<Block<R>>>);

impl<R: Resource> Owned<R> {
    /// Takes ownership of a new object.
    #[must_use]
    pub fn own(raw: R::Raw, deps: R::Deps) -> Self {
        let id = R::driver(&deps).next_id();
        Self(ManuallyDrop::new(UniqueArc::new(Block::new(raw, deps, id, None, 0))))
    }

    /// Refers to an object that somebody else ends; `owner` is kept alive as long.
    #[must_use]
    pub fn borrow(raw: R::Raw, deps: R::Deps, owner: Option<Owner>) -> Self {
        let id = R::driver(&deps).next_id();
        Self(ManuallyDrop::new(UniqueArc::new(Block::new(raw, deps, id, owner, BORROWED))))
    }

    /// The driver's handle.
    #[must_use]
    pub fn raw(&self) -> R::Raw {
        self.0.raw
    }

    /// The object's number, unique in its driver.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Whether somebody else ends the object.
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        self.0.has(BORROWED)
    }

    /// What the object refers to.
    #[must_use]
    pub fn deps(&self) -> &R::Deps {
        &self.0.deps
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// How warnings name it.
    #[must_use]
    pub fn object(&self) -> Object {
        self.0.object()
    }

    /// What the object refers to, to be changed.
    #[must_use]
    pub fn deps_mut(&mut self) -> &mut R::Deps {
        &mut self.0.deps
    }

    /// Ends the object here and now, unless it is somebody else's to end, and tells what the driver answered.
    ///
    /// # Errors
    /// [`Refused`], with the object where the driver was never asked to end it.
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is never dropped.
        let block = unsafe { ManuallyDrop::take(&mut this.0) };
        close(block).map_err(|Refused { error, value }| {
            Refused::new(error, value.map(|block| Self(ManuallyDrop::new(block))))
        })
    }

    /// Gives the object away without ending it: the raw value is the caller's now.
    ///
    /// # Errors
    /// Gives it back where it is somebody else's to end.
    pub fn into_raw(self) -> Result<R::Raw, Self> {
        if self.is_borrowed() {
            return Err(self);
        }
        self.0.flags.fetch_or(ENDED, Ordering::Relaxed);
        Ok(self.raw())
    }
}

impl<R: Resource> Drop for Owned<R> {
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop.
        end(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

impl<R: Resource> fmt::Debug for Owned<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object())
    }
}
