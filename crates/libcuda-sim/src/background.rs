//! Queued work on a thread of its own, as a device does it: for programs that wait for it by other means than the
//! driver's, such as for a host function that wakes them.
//!
//! The order of independent work is drawn from the seed all the same, but how far it has come when the program looks is
//! as it happens.

use std::{io, thread, time::Duration};

use cuhold_driver_sim::Sim;
use parking_lot::{Condvar, Mutex};

/// How often work is looked at again that waits for a value in memory, which nobody says when the program writes it.
const AGAIN: Duration = Duration::from_millis(1);

/// What the thread waits for.
#[derive(Debug, Default)]
pub(crate) struct Background {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    to_work: bool,
    to_end: bool,
}

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has none to give.
    pub(crate) fn start(&'static self, sim: Sim) -> io::Result<()> {
        let work = move || {
            while self.wait(sim.pending() > 0) {
                sim.run_all();
            }
        };
        thread::Builder::new().name("cuhold-sim-work".to_owned()).spawn(work).map(drop)
    }

    /// There may be work.
    pub(crate) fn wake(&self) {
        self.asked.lock().to_work = true;
        self.changed.notify_one();
    }

    /// There will be none.
    pub(crate) fn end(&self) {
        self.asked.lock().to_end = true;
        self.changed.notify_one();
    }

    /// Waits for work; false if there will be none. With `pending` work it waits for [`AGAIN`] at most.
    fn wait(&self, pending: bool) -> bool {
        let mut asked = self.asked.lock();
        while !asked.to_work && !asked.to_end {
            if !pending {
                self.changed.wait(&mut asked);
            } else if self.changed.wait_for(&mut asked, AGAIN).timed_out() {
                break;
            }
        }
        asked.to_work = false;
        !asked.to_end
    }
}
