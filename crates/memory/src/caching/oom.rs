//! Out of memory: what is cached is given back once for all threads that need it at the moment.

use cuhold_handles::Result;
use parking_lot::{Condvar, Mutex};
use std::thread::{self, ThreadId};

/// Who is giving back, and how often that was done.
#[derive(Debug, Default)]
pub(super) struct Oom {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    runs: Option<ThreadId>,
    rounds: u64,
}

/// The round is over, also while a panic passes through.
struct Round<'a>(&'a Oom);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.runs = None;
        state.rounds = state.rounds.wrapping_add(1);
        drop(state);
        self.0.over.notify_all();
    }
}

impl Oom {
    /// How often everything was given back. Read before asking for memory.
    pub(super) fn rounds(&self) -> u64 {
        self.state.lock().rounds
    }

    /// Gives back, unless another thread has done so since then: then that is waited for. `true`: asking once more may help.
    ///
    /// # Errors
    /// Those of `give_back`, where it was done here.
    pub(super) fn relieve(
        &self,
        seen: u64,
        give_back: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let mut state = self.state.lock();
        loop {
            if state.rounds != seen {
                return Ok(true);
            }
            match state.runs {
                None => break,
                // From within: a hook around one of the calls.
                Some(runs) if runs == thread::current().id() => return Ok(false),
                Some(_) => self.over.wait(&mut state),
            }
        }
        state.runs = Some(thread::current().id());
        drop(state);
        let _round = Round(self);
        give_back()
    }
}
