//! Process exit: the reclaimer's threads stop between two records, and exit waits a moment for the one in hand.
//!
//! The driver takes itself down in handlers of `exit`. A call that is under way on a thread meanwhile isn't something
//! its documentation speaks of, so the hook, which runs before the driver's handlers, lets it come to its end.

use super::Queue;
use cuhold_driver_sys::process::{self, ExitHook};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long exit waits for releases that are under way: a persistent kernel may hold one up for good.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// What the reclaimer of one driver does at exit.
#[derive(Default)]
pub(super) struct Exit {
    /// How many of the reclaimer's threads are in a release.
    in_hand: AtomicUsize,
    hook: OnceLock<ExitHook>,
}

impl Exit {
    /// Has exit wait for this queue from now on.
    pub(super) fn watch(queue: &Arc<Queue>) {
        queue.exit.hook.get_or_init(|| {
            let queue = Arc::downgrade(queue);
            process::on_exit(move || {
                if let Some(queue) = queue.upgrade() {
                    wait(&queue);
                }
            })
        });
    }

    /// Runs one release on a thread of the reclaimer's, which parks for good where exit began.
    pub(super) fn unless_exiting(queue: &Queue, release: impl FnOnce()) {
        // Counted first: either the hook sees the count, or exit is seen here.
        queue.exit.in_hand.fetch_add(1, Ordering::SeqCst);
        if process::exit_began() {
            queue.exit.in_hand.fetch_sub(1, Ordering::SeqCst);
            queue.progressed();
            park_for_good();
        }
        release();
        queue.exit.in_hand.fetch_sub(1, Ordering::SeqCst);
    }
}

fn park_for_good() -> ! {
    loop {
        thread::park();
    }
}

/// Waits for the releases in hand. `progressed` is called after each.
fn wait(queue: &Queue) {
    let until = Instant::now() + EXIT_WAIT;
    let mut waiting = queue.waiters.lock();
    while queue.exit.in_hand.load(Ordering::SeqCst) > 0 {
        if queue.progress.wait_until(&mut waiting, until).timed_out() {
            return;
        }
    }
}
