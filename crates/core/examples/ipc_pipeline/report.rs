//! How far the pipeline has come, shown while it runs.

use crate::{Amount, CONSUMERS};
use std::time::{Duration, Instant};

/// How often a line is shown.
const EVERY: Duration = Duration::from_millis(500);

pub(crate) struct Progress {
    amount: Amount,
    begun: Instant,
    shown: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(amount: Amount) -> Self {
        println!(
            "{} buffers of {} KiB to {CONSUMERS} consumers, each of which checks every byte",
            amount.rounds,
            amount.buffer_bytes() >> 10
        );
        Self { amount, begun: Instant::now(), shown: None }
    }

    /// So many buffers were sent. A line is shown at first, at the end, and now and then.
    pub(crate) fn sent(&mut self, buffers: u64) {
        let now = Instant::now();
        let is_due = self.shown.is_none_or(|shown| now.duration_since(shown) >= EVERY);
        if is_due || buffers == self.amount.rounds {
            self.shown = Some(now);
            let bytes = buffers * self.amount.buffer_bytes();
            println!(
                "{buffers:>5} of {} sent, {:>8.1} MiB, {:>8.1} MiB/s",
                self.amount.rounds,
                mib(bytes),
                mib(bytes) / self.begun.elapsed().as_secs_f64()
            );
        }
    }

    /// Every consumer has checked everything.
    pub(crate) fn done(self, checked: u64) {
        let seconds = self.begun.elapsed().as_secs_f64();
        println!(
            "done: {checked} bytes checked by {CONSUMERS} consumers in {seconds:.2} s, {:.1} MiB/s each",
            mib(checked / CONSUMERS as u64) / seconds
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
