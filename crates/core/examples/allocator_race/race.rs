//! One race: threads that allocate and free until the time is over, and check now and then that the memory is theirs.

use cuhold::{Buffer, Device, Result, Stream};
use std::{
    iter,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How many buffers a thread has at once.
const LIVE: usize = 16;
/// Of so many allocations one is written, the first among them, and read back before it is freed.
const CHECKED: u64 = 1024;
/// After how many allocations a thread looks at the clock and tells how far it is.
const STEP: u64 = 128;
/// After how many allocations a thread waits for its stream, so that it doesn't run ahead of the device without end.
const AHEAD: u64 = 64 * STEP;
/// How often the table is told of a race that goes on.
const SHOWN: Duration = Duration::from_millis(100);

/// How a racer allocates.
pub(crate) type Allocate<'a> = dyn Fn(&Stream, usize) -> Result<Buffer<u32>> + Sync + 'a;

/// An allocator, and whether all threads use one stream.
pub(crate) struct Racer<'a> {
    pub(crate) name: &'static str,
    pub(crate) shares_stream: bool,
    pub(crate) allocate: &'a Allocate<'a>,
}

/// Where a race takes place.
pub(crate) struct Rules<'a> {
    pub(crate) device: &'a Device,
    pub(crate) threads: usize,
    pub(crate) time: Duration,
}

/// What came of one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Scores {
    /// Allocations, each freed, in millions a second.
    pub(crate) rate: f64,
    pub(crate) checked: u64,
    /// How often something else was read than had been written.
    pub(crate) wrong: u64,
}

/// Runs a race, and tells `show` meanwhile how fast it is.
pub(crate) fn run(
    rules: &Rules<'_>,
    racer: &Racer<'_>,
    mut show: impl FnMut(f64),
) -> Result<Scores> {
    let count = if racer.shares_stream { 1 } else { rules.threads };
    let streams: Vec<Stream> =
        iter::repeat_with(|| rules.device.new_stream()).take(count).collect::<Result<_>>()?;
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let rate = |done: u64| done as f64 / begun.elapsed().as_secs_f64() / 1e6;
    let runners = thread::scope(|scope| {
        let threads: Vec<_> = (0..rules.threads)
            .zip(streams.iter().cycle())
            .map(|(number, stream)| {
                let runner = Runner { racer, stream, over: &over, done: &done };
                scope.spawn(move || runner.run(number as u64 + 1))
            })
            .collect();
        while begun.elapsed() < rules.time {
            thread::park_timeout(SHOWN.min(rules.time.saturating_sub(begun.elapsed())));
            show(rate(done.load(Ordering::Relaxed)));
        }
        over.store(true, Ordering::Relaxed);
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(cuhold::Error::argument("a racing thread panicked")))
        });
        joined.collect::<Result<Vec<_>>>()
    })?;
    let mut scores = Scores { rate: rate(done.into_inner()), ..Scores::default() };
    for (checked, wrong) in runners {
        scores.checked += checked;
        scores.wrong += wrong;
    }
    Ok(scores)
}

/// One thread.
struct Runner<'a> {
    racer: &'a Racer<'a>,
    stream: &'a Stream,
    over: &'a AtomicBool,
    done: &'a AtomicU64,
}

impl Runner<'_> {
    /// Races. Gives how often it checked, and how often it found something else than it had written.
    fn run(&self, number: u64) -> Result<(u64, u64)> {
        let mut live: Vec<Option<(Buffer<u32>, Option<u32>)>> =
            iter::repeat_with(|| None).take(LIVE).collect();
        let (mut random, mut count) = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0_u64);
        let (mut checked, mut wrong) = (0, 0);
        loop {
            for _ in 0..STEP {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let Some(place) = live.get_mut(usize::try_from(random >> 60).unwrap_or(0)) else {
                    continue;
                };
                if let Some((buffer, Some(stamp))) = place.take() {
                    checked += 1;
                    wrong += u64::from(!holds(&buffer, stamp)?);
                }
                // 256 bytes to 1 MiB, each doubling equally often.
                let len = 64_usize << ((random >> 32) % 13);
                let mut buffer = (self.racer.allocate)(self.stream, len)?;
                count += 1;
                let word = u32::try_from(random >> 32).unwrap_or(0);
                let stamp = (count % CHECKED == 1).then_some(word);
                if let Some(stamp) = stamp {
                    buffer.fill(stamp)?;
                }
                *place = Some((buffer, stamp));
            }
            self.done.fetch_add(STEP, Ordering::Relaxed);
            if count.is_multiple_of(AHEAD) {
                self.stream.synchronize()?;
            }
            if self.over.load(Ordering::Relaxed) {
                break;
            }
        }
        for (buffer, stamp) in live.drain(..).flatten() {
            if let Some(stamp) = stamp {
                checked += 1;
                wrong += u64::from(!holds(&buffer, stamp)?);
            }
        }
        self.stream.synchronize()?;
        Ok((checked, wrong))
    }
}

/// Whether the buffer's beginning and end are what was written.
fn holds(buffer: &Buffer<u32>, stamp: u32) -> Result<bool> {
    let (first, last) = (buffer.view(..32)?.to_vec()?, buffer.view(buffer.len() - 32..)?.to_vec()?);
    Ok(first.iter().chain(&last).all(|word| *word == stamp))
}
