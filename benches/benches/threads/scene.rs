//! What a thread does with memory, whoever gives it: each of these goes the same way for all subjects.

use cuhold_benches::{Step, Trace};

/// How many pieces a burst has.
const BURST: usize = 64;
/// How many pieces of mixed sizes are alive.
const LIVE: usize = 32;
/// How often a piece of mixed sizes is replaced in one iteration.
const REPLACED: u64 = 64;

/// What is done in one iteration.
#[derive(Clone, Copy)]
pub(crate) enum Scene<'a> {
    /// Allocate and free.
    Same(usize),
    /// Allocate 64 pieces, then free them.
    Burst(usize),
    /// Replace one of 32 pieces of 256 bytes to 4 MiB, at random.
    Mixed,
    /// Follow a trace once.
    Trace(&'a Trace),
}

/// One thread's way through a scene, with what is alive.
pub(crate) struct Actor<'a, M> {
    scene: Scene<'a>,
    live: Vec<Option<M>>,
    random: Random,
}

impl<'a, M> Actor<'a, M> {
    pub(crate) fn new(scene: Scene<'a>, thread: usize) -> Self {
        let places = match scene {
            Scene::Same(_) => 0,
            Scene::Burst(_) => BURST,
            Scene::Mixed => LIVE,
            Scene::Trace(trace) => trace.places(),
        };
        let live = (0..places).map(|_| None).collect();
        Self { scene, live, random: Random(0x9e37_79b9_7f4a_7c15 ^ (thread as u64 + 1)) }
    }

    /// Does so many iterations, with `allocate` for each piece, and gives the number of allocations.
    pub(crate) fn act(&mut self, iterations: u64, mut allocate: impl FnMut(usize) -> M) -> u64 {
        match self.scene {
            Scene::Same(bytes) => {
                (0..iterations).for_each(|_| drop(allocate(bytes)));
                iterations
            }
            Scene::Burst(bytes) => {
                for _ in 0..iterations {
                    self.live.iter_mut().for_each(|place| *place = Some(allocate(bytes)));
                    self.live.iter_mut().for_each(|place| *place = None);
                }
                iterations * BURST as u64
            }
            Scene::Mixed => {
                let count = iterations * REPLACED;
                for _ in 0..count {
                    let (place, bytes) = self.random.place_and_bytes();
                    if let Some(place) = self.live.get_mut(place) {
                        *place = None;
                        *place = Some(allocate(bytes));
                    }
                }
                count
            }
            Scene::Trace(trace) => {
                let made = (0..iterations).map(|_| self.follow(trace, &mut allocate));
                made.sum()
            }
        }
    }

    fn follow(&mut self, trace: &Trace, mut allocate: impl FnMut(usize) -> M) -> u64 {
        let mut made = 0;
        for step in trace.steps() {
            let (place, piece) = match *step {
                Step::Make { place, bytes } => {
                    made += 1;
                    (place, Some(allocate(bytes)))
                }
                Step::Free { place } => (place, None),
            };
            if let Some(place) = self.live.get_mut(place) {
                *place = piece;
            }
        }
        made
    }
}

/// Numbers without a pattern, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One of the pieces, and how large the next one is: each doubling from 256 bytes to 4 MiB equally often.
    fn place_and_bytes(&mut self) -> (usize, usize) {
        let number = usize::try_from(self.next() >> 1).unwrap_or_default();
        let doubled = 256_usize << ((number >> 8) % 14);
        (number % LIVE, doubled + (number >> 16) % doubled)
    }
}
