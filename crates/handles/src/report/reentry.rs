//! Which channels' sinks run on this thread: a sink that fails inside itself is counted, not recursed.
//!
//! A mark per thread, since a sink is on the stack of one. It needs no memory and no destructor, so that it works while
//! the thread ends. A channel is known by its address, which is free for nobody else while its sink runs.

use std::cell::Cell;

/// How many different channels' sinks may run inside each other.
const NESTED_MAX: usize = 4;

thread_local! {
    static RUNNING: Cell<[usize; NESTED_MAX]> = const { Cell::new([0; NESTED_MAX]) };
}

/// While it lives, a sink of the channel runs on this thread.
pub(super) struct Entered {
    channel: usize,
}

impl Entered {
    /// `None` where the channel's sink runs on this thread already, or where there are too many inside each other.
    pub(super) fn new<T>(channel: &T) -> Option<Self> {
        let channel = (&raw const *channel).addr();
        let is_new = RUNNING.try_with(|running| {
            let mut channels = running.get();
            if channels.contains(&channel) {
                return false;
            }
            let Some(free) = channels.iter_mut().find(|place| **place == 0) else { return false };
            *free = channel;
            running.set(channels);
            true
        });
        is_new.unwrap_or(false).then_some(Self { channel })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // The cell has no destructor, so it is there as long as the thread.
        let _: Result<(), _> = RUNNING.try_with(|running| {
            running.set(running.get().map(|place| if place == self.channel { 0 } else { place }));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_entered_once_at_a_time() {
        let channel = 1;
        let entered = Entered::new(&channel);
        assert!(entered.is_some() && Entered::new(&channel).is_none());
        drop(entered);
        assert!(Entered::new(&channel).is_some());
    }

    #[test]
    fn a_channel_is_entered_inside_another_one() {
        let channels = [1, 2, 3, 4, 5];
        let entered: Vec<_> = channels.iter().map(Entered::new).collect();
        assert!(entered.iter().take(NESTED_MAX).all(Option::is_some));
        assert!(entered.last().unwrap().is_none());
    }

    #[test]
    fn a_channel_is_entered_on_two_threads_at_once() {
        let channel = 1;
        let _entered = Entered::new(&channel);
        let other = std::thread::scope(|s| s.spawn(|| Entered::new(&channel).is_some()).join());
        assert!(other.unwrap());
    }
}
