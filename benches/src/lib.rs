//! What the benchmarks share: subjects measured in turn within one run, so that their ratios mean something.
//!
//! Each bench has several subjects that do the same work: `raw` (the driver's functions through plain function
//! pointers), `cuhold`, and on a real driver `cudarc`. They are run in blocks, one after the other, round by round; a
//! change of the machine's speed meets all of them alike. Criterion shows each subject's distribution; the lines for
//! `cargo xtask bench-report` hold minimum, median and maximum of the rounds.

mod ring;
mod threads;
mod trace;

pub use ring::Ring;
pub use threads::{Crowd, Plan, Worker};
pub use trace::{Step, Trace};

use criterion::{BenchmarkId, Criterion, SamplingMode};
use std::{
    env,
    fs::OpenOptions,
    io::Write as _,
    time::{Duration, Instant},
};

/// Rounds of one bench.
const ROUNDS: u32 = 21;
/// How long one subject's block of a round should take.
const BLOCK: Duration = Duration::from_millis(4);
/// A bench of so few iterations in a row takes milliseconds for each.
const SLOW: u64 = 16;
/// The environment variable that names the file for the lines; without it none are written.
const LINES: &str = "CUHOLD_BENCH_OUT";

/// One way of doing the work.
#[expect(missing_debug_implementations, reason = "it is a name and a closure")]
pub struct Subject<'a> {
    name: &'static str,
    work: Box<dyn FnMut() + 'a>,
    /// Between blocks, not timed: waits for what the work queued.
    settle: Box<dyn FnMut() + 'a>,
}

impl<'a> Subject<'a> {
    /// A subject whose work is done when it returns.
    pub fn new(name: &'static str, work: impl FnMut() + 'a) -> Self {
        Self { name, work: Box::new(work), settle: Box::new(|| ()) }
    }

    /// With something to be done between blocks, not timed.
    #[must_use]
    pub fn settle(mut self, settle: impl FnMut() + 'a) -> Self {
        self.settle = Box::new(settle);
        self
    }

    fn block(&mut self, iterations: u64) -> Duration {
        let begin = Instant::now();
        for _ in 0..iterations {
            (self.work)();
        }
        let time = begin.elapsed();
        (self.settle)();
        time
    }
}

/// Measures the subjects of one bench beside each other, at most `iterations_max` iterations in a row.
pub fn compare(
    criterion: &mut Criterion,
    bench: &str,
    iterations_max: u64,
    mut subjects: Vec<Subject<'_>>,
) {
    lines(bench, iterations_max, &mut subjects);
    let mut group = criterion.benchmark_group(bench);
    if iterations_max <= SLOW {
        // Samples of growing size would take minutes.
        group.sampling_mode(SamplingMode::Flat).sample_size(10);
        group.warm_up_time(Duration::from_millis(50)).measurement_time(Duration::from_millis(200));
    }
    for index in 0..subjects.len() {
        let Some(name) = subjects.get(index).map(|subject| subject.name) else { continue };
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_custom(|iterations| {
                in_turn(&mut subjects, index, iterations, iterations_max)
            });
        });
    }
    group.finish();
}

/// Runs all subjects block by block; the time is that of the one at `index`.
fn in_turn(subjects: &mut [Subject<'_>], index: usize, iterations: u64, at_most: u64) -> Duration {
    let mut time = Duration::ZERO;
    let mut left = iterations;
    while left > 0 {
        let block = left.min(at_most);
        for (at, subject) in subjects.iter_mut().enumerate() {
            let taken = subject.block(block);
            if at == index {
                time += taken;
            }
        }
        left -= block;
    }
    time
}

/// Writes the lines for the report, if a file is named.
fn lines(bench: &str, at_most: u64, subjects: &mut [Subject<'_>]) {
    if env::var_os(LINES).is_none() {
        return;
    }
    // The same for all, so that what a block costs by itself is spread alike.
    let iterations =
        subjects.iter_mut().map(|subject| calibrate(subject, at_most)).max().unwrap_or(1);
    let mut times = vec![Vec::new(); subjects.len()];
    for _ in 0..ROUNDS {
        for (subject, times) in subjects.iter_mut().zip(&mut times) {
            times.push(nanoseconds(subject.block(iterations), iterations));
        }
    }
    for (subject, mut times) in subjects.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied();
        write_line(&serde_json::json!({
            "bench": bench,
            "subject": subject.name,
            "min_ns": times.first().copied(),
            "median_ns": median,
            "max_ns": times.last().copied(),
            "samples": ROUNDS,
        }));
    }
}

/// Writes a line for the report, if a file is named. One that can't be written leaves a report without it, which shows.
fn write_line(line: &serde_json::Value) {
    let Some(file) = env::var_os(LINES) else { return };
    let Ok(mut out) = OpenOptions::new().create(true).append(true).open(&file) else { return };
    drop(writeln!(out, "{line}"));
}

/// How many iterations take about one block.
fn calibrate(subject: &mut Subject<'_>, at_most: u64) -> u64 {
    let mut iterations = 1;
    loop {
        let time = subject.block(iterations);
        if time >= BLOCK || iterations >= at_most {
            return iterations.min(at_most);
        }
        iterations = iterations.saturating_mul(2);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred thousand iterations at the most")]
fn nanoseconds(time: Duration, iterations: u64) -> f64 {
    time.as_secs_f64() * 1e9 / iterations as f64
}
