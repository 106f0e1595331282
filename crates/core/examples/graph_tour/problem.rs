//! The problem: a square plate, hot at one edge and cold at the others, whose temperatures are looked for; and its solution on
//! plain streams, with which those of the graphs are compared.

use crate::kernel::Kernels;
use cuhold::{Buffer, Device, EventOptions, LaunchConfig, Result, Stream};

/// Points of a row, and rows.
pub(crate) const WIDTH: u32 = 32;
pub(crate) const LEN: u32 = WIDTH * WIDTH;
/// The rows of each half: those between the first and the last, which stay.
pub(crate) const HALF: u32 = (WIDTH - 2) / 2;
/// Where each half begins.
pub(crate) const FIRSTS: [u32; 2] = [1, 1 + HALF];
/// A step that changes no point by more is the last.
pub(crate) const TOLERANCE: f32 = 1e-3;
/// Steps at most.
pub(crate) const MOST: u32 = 10_000;

/// The points of half the rows: threads of a `smooth`.
pub(crate) fn half() -> LaunchConfig {
    LaunchConfig::for_len(HALF * WIDTH)
}

/// All points.
pub(crate) fn all() -> LaunchConfig {
    LaunchConfig::for_len(LEN)
}

/// One thread.
pub(crate) fn once() -> LaunchConfig {
    LaunchConfig::new([1, 1, 1], [1, 1, 1])
}

/// The temperatures to begin with.
pub(crate) fn beginning() -> Vec<f32> {
    let hot = WIDTH as usize;
    (0..LEN as usize).map(|place| if place < hot { 100.0 } else { 0.0 }).collect()
}

/// What a solver works on.
pub(crate) struct Plate {
    /// Temperatures, and those of the step after.
    pub(crate) now: Buffer<f32>,
    pub(crate) next: Buffer<f32>,
    /// The greatest change of a step.
    pub(crate) worst: Buffer<f32>,
    pub(crate) steps: Buffer<u32>,
}

impl Plate {
    pub(crate) fn new(stream: &Stream) -> Result<Self> {
        Ok(Self {
            now: Buffer::zeroed(stream, LEN as usize)?,
            next: Buffer::zeroed(stream, LEN as usize)?,
            worst: Buffer::zeroed(stream, 1)?,
            steps: Buffer::zeroed(stream, 1)?,
        })
    }

    /// What came out.
    pub(crate) fn solution(&self) -> Result<Solution> {
        let steps = self.steps.to_vec()?.first().copied().unwrap_or_default();
        Ok(Solution { steps, temperatures: self.now.to_vec()? })
    }
}

/// Temperatures, and the steps that they took.
#[derive(PartialEq, Debug)]
pub(crate) struct Solution {
    pub(crate) steps: u32,
    pub(crate) temperatures: Vec<f32>,
}

/// The same on plain streams: each half on a stream of its own, each kernel a call, and after every second step the host looks
/// whether it was the last.
pub(crate) struct Plain<'a> {
    kernels: &'a Kernels,
    streams: [Stream; 2],
    plate: Plate,
}

impl<'a> Plain<'a> {
    pub(crate) fn new(device: &Device, kernels: &'a Kernels) -> Result<Self> {
        let streams = [device.new_stream()?, device.new_stream()?];
        let plate = Plate::new(&streams[0])?;
        Ok(Self { kernels, streams, plate })
    }

    pub(crate) fn solve(&mut self) -> Result<()> {
        let beginning = beginning();
        self.plate.now.write_slice(&beginning)?;
        self.plate.next.write_slice(&beginning)?;
        let mut steps = 0;
        loop {
            self.step(false)?;
            self.differ()?;
            self.step(true)?;
            steps += 2;
            let worst = self.plate.worst.to_vec()?.first().copied().unwrap_or_default();
            if worst <= TOLERANCE || steps >= MOST {
                break;
            }
        }
        self.plate.steps.write_slice(&[steps])
    }

    /// A step: the halves at once, each after what is on the first stream, which goes on after both.
    fn step(&mut self, back: bool) -> Result<()> {
        let Self { kernels, streams: [first, second], plate } = self;
        let (from, to) = match back {
            false => (&plate.now, &plate.next),
            true => (&plate.next, &plate.now),
        };
        second.wait_event(&first.record_new(EventOptions::default())?)?;
        for (stream, begin) in [(&*first, FIRSTS[0]), (&*second, FIRSTS[1])] {
            let args = (from, to, WIDTH, begin, HALF);
            // SAFETY: *layout*: as `smooth` takes them; *bounds*: the rows and those beside them are within the buffers, which
            // live until the streams were waited for; *ordering*: the halves write other rows, and events order the rest.
            unsafe { kernels.smooth.launch(stream, half(), args) }?;
        }
        first.wait_event(&second.record_new(EventOptions::default())?)
    }

    /// The greatest change of the step before.
    fn differ(&mut self) -> Result<()> {
        let Self { kernels, streams: [first, _], plate } = self;
        plate.worst.fill(0.0)?;
        let args = (&plate.now, &plate.next, &plate.worst, LEN);
        // SAFETY: *layout*: as `differ` takes them; *bounds*: the buffers have LEN points, and one; *ordering*: on one stream.
        unsafe { kernels.differ.launch(first, all(), args) }
    }

    pub(crate) fn solution(&self) -> Result<Solution> {
        self.plate.solution()
    }
}

/// The hottest and the coldest point.
pub(crate) fn range(solution: &Solution) -> (f32, f32) {
    let points = solution.temperatures.iter().copied();
    (points.clone().fold(f32::MIN, f32::max), points.fold(f32::MAX, f32::min))
}

/// Whether warmth has come to the middle.
pub(crate) fn is_warm(solution: &Solution) -> bool {
    let middle = (LEN / 2 + WIDTH / 2) as usize;
    solution.temperatures.get(middle).is_some_and(|point| *point > 1.0)
}
