//! Work on several threads at once, its subjects measured in turn within one run.
//!
//! ```text
//!   round: subject 1 on all threads │ subject 2 on all threads │ …
//!          └ first begin to last end ┘
//! ```
//!
//! The threads stay, so that what they keep for themselves stays too. A subject's time is from the first begin to the last
//! end of a block; a line says how long an operation takes its thread, so that threads divided by that is the throughput.

use crate::{ROUNDS, write_line};
use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    process,
    sync::{
        Barrier, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long one subject's block of a round should take: long beside the threads' meeting.
const BLOCK: Duration = Duration::from_millis(10);
/// The environment variable with the numbers of threads, such as `1,2,4`.
const THREADS: &str = "CUHOLD_BENCH_THREADS";
/// The subject's number that ends the threads.
const STOP: usize = usize::MAX;

/// What one thread does for a subject.
#[expect(missing_debug_implementations, reason = "it is two closures")]
pub struct Worker<'a> {
    work: Box<dyn FnMut(u64) -> u64 + 'a>,
    settle: Box<dyn FnMut() + 'a>,
}

impl<'a> Worker<'a> {
    /// Does so many iterations, and gives the number of operations that they were.
    pub fn new(work: impl FnMut(u64) -> u64 + 'a) -> Self {
        Self { work: Box::new(work), settle: Box::new(|| ()) }
    }

    /// With something to be done between blocks, not timed.
    #[must_use]
    pub fn settle(mut self, settle: impl FnMut() + 'a) -> Self {
        self.settle = Box::new(settle);
        self
    }
}

/// One way of doing the work, on threads.
#[expect(missing_debug_implementations, reason = "it is a name and a closure")]
pub struct Crowd<'a> {
    name: &'static str,
    hire: Box<dyn Fn(usize) -> Worker<'a> + Sync + 'a>,
}

impl<'a> Crowd<'a> {
    /// `hire` is called on each thread with its number.
    pub fn new(name: &'static str, hire: impl Fn(usize) -> Worker<'a> + Sync + 'a) -> Self {
        Self { name, hire: Box::new(hire) }
    }
}

/// What is measured, by the command line and the environment.
#[derive(Clone, Debug)]
pub struct Plan {
    threads: Vec<usize>,
    rounds: u32,
    block: Duration,
    only: Option<String>,
}

impl Plan {
    /// `--bench` measures, as `cargo bench` says; without it each subject does a little, which shows that it works. Another
    /// argument is part of the names of the benches that are wanted.
    ///
    /// # Errors
    /// A variable `CUHOLD_BENCH_THREADS` that isn't numbers.
    pub fn from_command_line() -> Result<Self, String> {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let measures = arguments.iter().any(|argument| argument == "--bench");
        let threads = match env::var(THREADS) {
            Ok(list) => list
                .split(',')
                .map(|number| {
                    number.trim().parse().map_err(|e| format!("{THREADS}: {number}: {e}"))
                })
                .collect::<Result<_, _>>()?,
            Err(_) if measures => vec![1, 2, 4, 8, 16],
            Err(_) => vec![1, 2],
        };
        Ok(Self {
            threads,
            rounds: if measures { ROUNDS } else { 1 },
            block: if measures { BLOCK } else { Duration::ZERO },
            only: arguments.into_iter().find(|argument| !argument.starts_with('-')),
        })
    }

    /// Measures the subjects of one bench beside each other, for each number of threads of which `at_least` is a divisor.
    pub fn compare<'a>(
        &self,
        bench: &str,
        at_least: usize,
        subjects: impl Fn(usize) -> Vec<Crowd<'a>>,
    ) {
        if self.only.as_ref().is_some_and(|only| !bench.contains(only.as_str())) {
            return;
        }
        for threads in self.threads.iter().copied().filter(|number| number % at_least == 0) {
            let crowds = subjects(threads);
            let times = Meeting::new(threads).measure(self, &crowds);
            for (crowd, mut times) in crowds.iter().zip(times) {
                times.sort_by(f64::total_cmp);
                tell(bench, crowd.name, threads, &times);
            }
        }
    }
}

/// Where the threads meet, and what they are told.
struct Meeting {
    threads: usize,
    barrier: Barrier,
    subject: AtomicUsize,
    iterations: AtomicU64,
    epoch: Instant,
    blocks: Mutex<Vec<Block>>,
}

/// What one thread did in a block.
struct Block {
    begin: Duration,
    end: Duration,
    operations: u64,
}

impl Meeting {
    fn new(threads: usize) -> Self {
        Self {
            threads,
            barrier: Barrier::new(threads + 1),
            subject: AtomicUsize::new(STOP),
            iterations: AtomicU64::new(0),
            epoch: Instant::now(),
            blocks: Mutex::new(Vec::new()),
        }
    }

    /// The nanoseconds of an operation, for each subject in each round.
    fn measure(&self, plan: &Plan, crowds: &[Crowd<'_>]) -> Vec<Vec<f64>> {
        thread::scope(|scope| {
            for number in 0..self.threads {
                let work = move || self.attend(crowds, number);
                // A thread that is missing would be waited for without end.
                let end = |_| process::exit(101);
                scope.spawn(move || catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(end));
            }
            let iterations: Vec<u64> =
                (0..crowds.len()).map(|index| self.calibrate(index, plan.block)).collect();
            let mut times = vec![Vec::new(); crowds.len()];
            for _ in 0..plan.rounds {
                for (index, (times, iterations)) in times.iter_mut().zip(&iterations).enumerate() {
                    times.push(self.block(index, *iterations).1);
                }
            }
            self.subject.store(STOP, Ordering::SeqCst);
            self.barrier.wait();
            times
        })
    }

    /// On each thread: works when told.
    fn attend(&self, crowds: &[Crowd<'_>], number: usize) {
        let mut workers: Vec<Worker<'_>> =
            crowds.iter().map(|crowd| (crowd.hire)(number)).collect();
        loop {
            self.barrier.wait();
            let subject = self.subject.load(Ordering::SeqCst);
            let Some(worker) = workers.get_mut(subject) else { return };
            let iterations = self.iterations.load(Ordering::SeqCst);
            let begin = self.epoch.elapsed();
            let operations = (worker.work)(iterations);
            let end = self.epoch.elapsed();
            let block = Block { begin, end, operations };
            self.blocks.lock().unwrap_or_else(PoisonError::into_inner).push(block);
            // Nobody's settling stands in another one's time.
            self.barrier.wait();
            (worker.settle)();
            self.barrier.wait();
        }
    }

    /// Lets all threads do so many iterations. Gives how long that took, and the nanoseconds of an operation on its thread.
    #[expect(clippy::cast_precision_loss, reason = "numbers of operations in milliseconds")]
    fn block(&self, subject: usize, iterations: u64) -> (Duration, f64) {
        self.subject.store(subject, Ordering::SeqCst);
        self.iterations.store(iterations, Ordering::SeqCst);
        (0..3).for_each(|_| _ = self.barrier.wait());
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = blocks.iter().map(|block| block.begin).min().unwrap_or_default();
        let end = blocks.iter().map(|block| block.end).max().unwrap_or_default();
        let operations = blocks.drain(..).map(|block| block.operations).sum::<u64>().max(1);
        let time = end.saturating_sub(begin);
        (time, time.as_secs_f64() * 1e9 * self.threads as f64 / operations as f64)
    }

    /// How many iterations take about one block.
    fn calibrate(&self, subject: usize, block: Duration) -> u64 {
        let mut iterations = 1;
        while self.block(subject, iterations).0 < block {
            iterations *= 2;
        }
        iterations
    }
}

/// Prints a measurement, and writes its line for the report.
#[expect(clippy::print_stdout, reason = "what the program is for")]
#[expect(clippy::cast_precision_loss, reason = "numbers of threads")]
fn tell(bench: &str, subject: &str, threads: usize, times: &[f64]) {
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let throughput = threads as f64 * 1e3 / median;
    println!(
        "{bench:<34} {subject:<16} {threads:>2} threads {median:>12.1} ns {throughput:>10.2} M/s"
    );
    write_line(&serde_json::json!({
        "bench": bench,
        "subject": subject,
        "threads": threads,
        "min_ns": times.first(),
        "median_ns": median,
        "max_ns": times.last(),
        "samples": times.len(),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_does_every_block_of_every_subject() {
        let done = [(); 2].map(|()| AtomicU64::new(0));
        let plan = Plan { threads: vec![3], rounds: 4, block: Duration::ZERO, only: None };
        let hired = AtomicU64::new(0);
        let times = Meeting::new(3).measure(
            &plan,
            &[0, 1].map(|subject: usize| {
                let (done, hired) = (&done, &hired);
                Crowd::new("subject", move |_| {
                    hired.fetch_add(1, Ordering::Relaxed);
                    Worker::new(move |iterations| {
                        done[subject].fetch_add(iterations, Ordering::Relaxed);
                        10
                    })
                })
            }),
        );
        assert_eq!(hired.into_inner(), 6, "each subject on each thread");
        // One more for the number of iterations.
        assert!(done.into_iter().all(|done| done.into_inner() == 3 * 5));
        assert!(times.iter().all(|times| times.len() == 4 && times.iter().all(|ns| *ns > 0.0)));
    }
}
