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
//! and stop releasing once process exit began. [`run_by_hand`](Reclaim::run_by_hand) releases on the calling thread
//! instead, for tests and for counting.

mod defer;
mod list;
mod worker;

pub use list::{Record, Recorded};

use crate::{
    callback,
    driver::Shared,
    error::{Error, Result},
};
use cuhold_driver_sys::process;
use list::{Batch, List};
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
    released: AtomicU64,
    by_hand: AtomicUsize,
    started: AtomicBool,
    dispatcher: OnceLock<Thread>,
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
    #[must_use]
    pub fn run_by_hand(&self) -> ByHand<'_> {
        self.0.by_hand.fetch_add(1, Ordering::SeqCst);
        ByHand { queue: &self.0, batch: Mutex::default(), here: PhantomData }
    }

    /// How many objects were handed over and aren't released yet.
    #[must_use]
    pub fn pending(&self) -> u64 {
        let released = self.0.released.load(Ordering::SeqCst);
        self.0.pushed.load(Ordering::SeqCst).saturating_sub(released)
    }

    /// Waits until everything that was handed over before this call is released. By hand, releases it here.
    ///
    /// # Errors
    /// [`ErrorKind::State`](crate::ErrorKind::State) with the number still to be released when `timeout` ran out;
    /// [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted) inside a callback and on the reclaimer's own
    /// threads.
    pub fn drain(&self, timeout: Duration) -> Result<()> {
        if callback::inside() || on_thread() {
            return Err(Error::in_callback());
        }
        let target = self.0.pushed.load(Ordering::SeqCst);
        let until = Instant::now().checked_add(timeout);
        loop {
            if self.0.by_hand.load(Ordering::SeqCst) > 0 || !self.0.started.load(Ordering::Acquire)
            {
                self.0.release_here();
            }
            let mut waiting = self.0.waiters.lock();
            if self.0.released.load(Ordering::SeqCst) >= target {
                return Ok(());
            }
            let timed_out = match until {
                Some(until) => self.0.progress.wait_until(&mut waiting, until).timed_out(),
                None => {
                    self.0.progress.wait(&mut waiting);
                    false
                }
            };
            if timed_out && self.0.released.load(Ordering::SeqCst) < target {
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

    fn count_released(&self) {
        self.released.fetch_add(1, Ordering::SeqCst);
        // Under the lock, so that a waiter between its look and its wait isn't missed.
        drop(self.waiters.lock());
        self.progress.notify_all();
    }

    fn release(&self, record: list::Taken) {
        // Once exit began the driver's objects end with the process, and its calls may not come back.
        while process::exit_began() {
            thread::park();
        }
        record.release();
        self.count_released();
    }

    /// Releases all that is on the list, on this thread.
    fn release_here(&self) {
        let role = ROLE.replace(Role::Worker);
        while !self.list.is_empty() {
            for record in self.list.take() {
                self.release(record);
            }
        }
        ROLE.set(role);
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
    batch: Mutex<Batch>,
    here: PhantomData<*const ()>,
}

impl ByHand<'_> {
    /// Releases the oldest object on this thread. `false`: there was none.
    pub fn step(&self) -> bool {
        let record = {
            let mut batch = self.batch.lock();
            if batch.is_empty() {
                *batch = self.queue.list.take();
            }
            batch.next()
        };
        let Some(record) = record else { return false };
        let role = ROLE.replace(Role::Worker);
        self.queue.release(record);
        ROLE.set(role);
        true
    }
}

impl Drop for ByHand<'_> {
    fn drop(&mut self) {
        while self.step() {}
        self.queue.by_hand.fetch_sub(1, Ordering::SeqCst);
        // What came in between the last look and the count.
        self.queue.release_here();
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
