//! The reclaimer: where objects go that can't end where their last handle was dropped.
//!
//! Three kinds of object: those whose destroy may wait for the GPU (a `Drop` never blocks on it), those dropped inside a
//! callback of the driver (where no call may be made), and what a finished callback leaves behind. Each carries its own
//! list record, so handing it over allocates nothing, takes no lock and can't fail.
//!
//! ```text
//!   Drop, callback ──push──► list ──take──► dispatcher thread ──┬─ never waits: released there
//!                                                               └─ may wait: a worker thread per context
//! ```
//!
//! The dispatcher is started with the first record; a worker when its context needs one, and it ends when idle, so one
//! persistent kernel holds up nobody else. The threads are in relaxed capture mode for life, hold the driver weakly,
//! and park once process exit began. [`run_by_hand`](Reclaim::run_by_hand) releases on the calling thread instead, for
//! tests and for counting.

mod defer;
mod exit;
mod list;
mod worker;

pub use list::{Record, Recorded};

use crate::{
    callback,
    driver::{Driver, Shared},
    error::{Error, Result},
    object::{Object, ObjectKind},
    report::{CudaWarning, foreign},
};
use cuhold_driver_sys::process;
use exit::Exit;
use list::{Batch, List, Taken};
use parking_lot::{Condvar, Mutex};
use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    ptr::NonNull,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};
use worker::{Lanes, Marks};

/// How long a test's reading of warnings waits for the threads to release what was dropped before it.
const SETTLE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Outside,
    Dispatcher,
    /// May wait for the GPU: a worker, or a thread that releases by hand.
    Worker,
}

thread_local! {
    // Without a destructor, so that it can be read while the thread's other locals are destroyed.
    static ROLE: Cell<Role> = const { Cell::new(Role::Outside) };
}

/// Whether this thread releases records.
pub(crate) fn on_thread() -> bool {
    ROLE.get() != Role::Outside
}

/// Whether a destroy that waits for the GPU may be made on this thread by a `Drop`.
pub(crate) fn may_wait_here() -> bool {
    ROLE.get() == Role::Worker
}

/// What the reclaimer and its threads share.
#[derive(Default)]
struct Queue {
    driver: Weak<Shared>,
    list: List,
    pushed: AtomicU64,
    /// How many were released, or given to a worker, in the order of the list.
    handled: AtomicU64,
    released: AtomicU64,
    lanes: Mutex<Lanes>,
    /// How many guards say that records are released by hand.
    by_hand: AtomicUsize,
    /// What was taken off the list by hand and isn't released yet.
    taken_by_hand: Mutex<Batch>,
    started: AtomicBool,
    dispatcher: OnceLock<Thread>,
    exit: Exit,
    ended: AtomicBool,
    waiters: Mutex<()>,
    progress: Condvar,
}

/// A driver's reclaimer.
pub struct Reclaim(Arc<Queue>);

/// The way in: what a callback of the driver holds, since it must not hold the driver.
#[derive(Clone)]
pub struct Inlet(Arc<Queue>);

impl Inlet {
    /// Hands an object over. Takes no lock, makes no call, allocates nothing, unless the dispatcher must be started.
    ///
    /// # Safety
    /// `record` is the front of a live object that nobody else uses, and is on no list. The list owns it now.
    #[expect(unsafe_code, reason = "takes a raw record")]
    pub unsafe fn push(&self, record: NonNull<Record>) {
        // Counted first: a drain that sees the count sees the record, or waits for it.
        self.0.pushed.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promise.
        unsafe { self.0.list.push(record) };
        // Against the dispatcher's: either it sees the record, or its handle is seen here.
        fence(Ordering::SeqCst);
        if self.0.by_hand.load(Ordering::SeqCst) == 0 {
            Queue::wake(&self.0);
        }
    }
}

impl Inlet {
    /// As [`push`](Self::push), for what is left of the driver itself: there is nobody any more who could release it by
    /// hand.
    ///
    /// # Safety
    /// As [`push`](Self::push); nothing is pushed afterwards.
    #[expect(unsafe_code, reason = "takes a raw record")]
    pub(crate) unsafe fn push_last(&self, record: NonNull<Record>) {
        self.0.by_hand.store(0, Ordering::SeqCst);
        // SAFETY: the caller's promise.
        unsafe { self.push(record) };
    }
}

impl fmt::Debug for Inlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inlet").finish_non_exhaustive()
    }
}

impl Reclaim {
    pub(crate) fn new(driver: Weak<Shared>) -> Self {
        Self(Arc::new(Queue { driver, ..Queue::default() }))
    }

    /// The way in.
    #[doc(hidden)]
    #[must_use]
    pub fn inlet(&self) -> Inlet {
        Inlet(Arc::clone(&self.0))
    }

    /// Starts the dispatcher if it isn't running: before something is handed to the driver that a callback pushes.
    pub(crate) fn prepare(&self) {
        if self.0.by_hand.load(Ordering::SeqCst) == 0 && !self.0.started.load(Ordering::Acquire) {
            Queue::wake(&self.0);
        }
    }

    /// Releases on the calling thread, by [`ByHand::step`] and [`drain`](Self::drain), instead of on threads, until the
    /// guard is dropped: for tests, and where driver calls are counted.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn run_by_hand(&self) -> ByHand<'_> {
        self.0.by_hand.fetch_add(1, Ordering::SeqCst);
        ByHand { queue: &self.0, here: PhantomData }
    }

    /// How many objects were handed over and aren't released yet.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn pending(&self) -> u64 {
        let released = self.0.released.load(Ordering::SeqCst);
        self.0.pushed.load(Ordering::SeqCst).saturating_sub(released)
    }

    /// Waits until everything that was handed over before this call is released. By hand, releases it here.
    ///
    /// Calls nothing itself: the ends of the objects make their calls.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) with the number still to be released when `timeout` ran out, or once
    /// process exit began; [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted) inside a callback and on the
    /// reclaimer's own threads.
    pub fn drain(&self, timeout: Duration) -> Result<()> {
        if callback::inside() || on_thread() {
            return Err(Error::in_callback());
        }
        let queue = &self.0;
        let target = queue.pushed.load(Ordering::SeqCst);
        let until = Instant::now().checked_add(timeout);
        let mut marks = None;
        loop {
            if queue.by_hand.load(Ordering::SeqCst) > 0 || !queue.started.load(Ordering::Acquire) {
                queue.release_here();
            }
            let mut waiting = queue.waiters.lock();
            if queue.is_past(target, &mut marks) {
                return Ok(());
            }
            if process::exit_began() {
                return Err(Error::state("process exit began: nothing more is released"));
            }
            let timed_out = match until {
                Some(until) => queue.progress.wait_until(&mut waiting, until).timed_out(),
                None => {
                    queue.progress.wait(&mut waiting);
                    false
                }
            };
            if timed_out && !queue.is_past(target, &mut marks) {
                return Err(Error::state(format!(
                    "{} objects weren't released within {timeout:?}; work on the GPU may hold them up",
                    self.pending()
                )));
            }
        }
    }

    /// What a reader of warnings calls first, so that drops before it are over.
    pub(crate) fn settle(&self) {
        if !callback::inside() && !on_thread() {
            // A drain that runs out of time leaves its records pending, where they are reported when they end.
            drop(self.drain(SETTLE));
        }
    }

    /// The driver ends: the threads go once the list is empty.
    pub(crate) fn end(&self) {
        self.0.ended.store(true, Ordering::SeqCst);
        if let Some(dispatcher) = self.0.dispatcher.get() {
            dispatcher.unpark();
        }
    }
}

impl Queue {
    fn wake(this: &Arc<Self>) {
        if let Some(dispatcher) = this.dispatcher.get() {
            dispatcher.unpark();
        } else if !this.started.swap(true, Ordering::AcqRel) {
            Exit::watch(this);
            let queue = Arc::clone(this);
            let spawned = thread::Builder::new()
                .name("cuhold-reclaim".into())
                .spawn(move || worker::dispatch(&queue));
            if spawned.is_err() {
                // No thread to be had: what is on the list stays there until one is, or until a drain.
                this.started.store(false, Ordering::Release);
            }
        }
    }

    /// Whether everything among the first `target` records is released.
    ///
    /// The list keeps the order of the pushes that were over when `target` was read: so once that many were handled,
    /// what the workers were given by then is all that may be left.
    fn is_past(&self, target: u64, marks: &mut Option<Marks>) -> bool {
        self.handled.load(Ordering::SeqCst) >= target
            && marks.get_or_insert_with(|| self.lanes.lock().marks()).are_reached()
    }

    /// Tells those who wait that something was handled or released.
    fn progressed(&self) {
        // Under the lock, so that a waiter between its look and its wait isn't missed.
        drop(self.waiters.lock());
        self.progress.notify_all();
    }

    /// Releases a record. A panic, which is a bug of whoever made the record, ends here.
    fn release(&self, record: Taken) {
        if let Err(caught) = foreign::call(|| record.release())
            && let Some(driver) = Driver::upgrade(&self.driver)
        {
            let reclaimer = Object::nameless(ObjectKind::Reclaimer);
            driver.warn(CudaWarning::panicked(reclaimer, caught.payload()));
        }
        self.released.fetch_add(1, Ordering::SeqCst);
    }

    /// Releases the oldest record on this thread. `false`: there was none, or the process exits.
    fn release_one_here(&self) -> bool {
        if callback::inside() || process::exit_began() {
            return false;
        }
        let record = {
            let mut taken = self.taken_by_hand.lock();
            if taken.is_empty() {
                *taken = self.list.take();
            }
            taken.next()
        };
        let Some(record) = record else { return false };
        let role = ROLE.replace(Role::Worker);
        self.release(record);
        ROLE.set(role);
        self.handled.fetch_add(1, Ordering::SeqCst);
        self.progressed();
        true
    }

    /// Releases all that is on the list, on this thread.
    fn release_here(&self) {
        while self.release_one_here() {}
    }
}

impl fmt::Debug for Reclaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reclaim").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

/// While it lives, records are released by hand. What is left when the last one is dropped is released then.
#[derive(Debug)]
pub struct ByHand<'a> {
    queue: &'a Queue,
    here: PhantomData<*const ()>,
}

impl ByHand<'_> {
    /// Releases the oldest object on this thread. `false`: there was none; inside a callback and once process exit
    /// began, nothing is released.
    ///
    /// Calls nothing itself: the object's end makes its calls.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn step(&self) -> bool {
        self.queue.release_one_here()
    }
}

impl Drop for ByHand<'_> {
    fn drop(&mut self) {
        if self.queue.by_hand.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Against the one in `push`: either it sees that nobody is left, or its record is seen here.
            fence(Ordering::SeqCst);
            self.queue.release_here();
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
