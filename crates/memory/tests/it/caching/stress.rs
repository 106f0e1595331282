//! Threads, streams and buffers in random order, and a checker that knows who has which bytes. The simulated driver sees
//! beside that whether two uses of the same bytes are ordered.

use super::{WAYS, cache_of};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{ErrorKind, Stream};
use cuhold_memory::{Buffer, CachingOptions, CachingResource, CachingWay, Pool, PoolOptions};
use cuhold_testkit::Kit;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Which bytes somebody has.
#[derive(Default)]
struct Bytes(Mutex<BTreeMap<u64, u64>>);

impl Bytes {
    fn take(&self, buffer: &Buffer<u8>) {
        let (from, to) = (buffer.device_ptr(), buffer.device_ptr() + buffer.len() as u64);
        let mut taken = self.0.lock().unwrap();
        let before = taken.range(..to).next_back();
        assert!(before.is_none_or(|(_, end)| *end <= from), "two have the bytes at {from:#x}");
        taken.insert(from, to);
    }

    fn give(&self, buffer: &Buffer<u8>) {
        assert!(self.0.lock().unwrap().remove(&buffer.device_ptr()).is_some());
    }
}

struct World<'t> {
    kit: &'t Kit,
    cache: &'t CachingResource,
    bytes: Bytes,
    /// Streams that all threads use, now and then others.
    streams: Mutex<Vec<Stream>>,
    /// Buffers on their way to other threads.
    handed: Mutex<Vec<Buffer<u8>>>,
    done: AtomicUsize,
}

thread_local! {
    /// Buffers that a thread leaves behind.
    static LEFT: RefCell<Vec<Buffer<u8>>> = const { RefCell::new(Vec::new()) };
}

impl World<'_> {
    fn stream(&self, random: &mut Random) -> Stream {
        let streams = self.streams.lock().unwrap();
        streams[random.below(streams.len())].clone()
    }

    fn allocate(&self, random: &mut Random) -> Option<Buffer<u8>> {
        let bytes = [1, 100, 256, 3000, 5000, 70_000, 1 << 20, 5 << 20][random.below(8)];
        let stream = self.stream(random);
        match Buffer::uninit_in(self.cache, &stream, bytes - random.below(bytes.min(30))) {
            Ok(mut buffer) => {
                self.bytes.take(&buffer);
                // The simulated driver knows of this use.
                buffer.fill(7).unwrap();
                Some(buffer)
            }
            Err(error) => {
                assert!(error.is(CUresult::OUT_OF_MEMORY), "{error}");
                None
            }
        }
    }

    fn drop(&self, buffer: Buffer<u8>) {
        self.bytes.give(&buffer);
        drop(buffer);
    }

    fn step(&self, random: &mut Random, mine: &mut Vec<Buffer<u8>>) {
        match random.below(100) {
            0..45 => mine.extend(self.allocate(random)),
            45..80 => {
                if !mine.is_empty() {
                    self.drop(mine.swap_remove(random.below(mine.len())));
                }
            }
            80..86 => self.handed.lock().unwrap().extend(mine.pop()),
            86..92 => {
                let handed = self.handed.lock().unwrap().pop();
                handed.into_iter().for_each(|buffer| self.drop(buffer));
            }
            92..95 => {
                if let Some(buffer) = mine.last_mut() {
                    buffer.move_to(&self.stream(random)).unwrap();
                }
            }
            95 => _ = self.cache.trim(random.below(1 << 22)).unwrap(),
            96 => {
                // A stream ends while its buffers live.
                let new = self.kit.device().new_stream().unwrap();
                let mut streams = self.streams.lock().unwrap();
                let at = random.below(streams.len());
                let former = std::mem::replace(&mut streams[at], new);
                drop(streams);
                drop(former);
            }
            97 => {
                let kept = mine.last().map(Buffer::keep);
                mine.pop().into_iter().for_each(|buffer| self.drop(buffer));
                drop(kept);
            }
            98 => {
                let told = self.cache.statistics();
                assert!(told.peak_reserved_bytes >= told.reserved_bytes, "{told}");
            }
            _ => {
                if let Some(buffer) = mine.pop() {
                    self.bytes.give(&buffer);
                    LEFT.with_borrow_mut(|left| left.push(buffer));
                }
            }
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// What a thread does that ends afterwards.
    fn live(&self, seed: u64, steps: usize) {
        let (mut random, mut mine) = (Random(seed), Vec::new());
        for _ in 0..steps {
            self.step(&mut random, &mut mine);
        }
        mine.into_iter().for_each(|buffer| self.drop(buffer));
    }
}

/// Some threads after others, as many steps in all.
fn stress(kit: &Kit, way: CachingWay, steps: usize) {
    let pool = Pool::new(kit.device(), PoolOptions::default().max_bytes(64 << 20)).unwrap();
    let options = CachingOptions::default().way(way).max_cached_bytes(32 << 20);
    let cache = CachingResource::new(&pool, options).unwrap();
    let streams = (0..6).map(|_| kit.device().new_stream().unwrap()).collect();
    let world = World {
        kit,
        cache: &cache,
        bytes: Bytes::default(),
        streams: Mutex::new(streams),
        handed: Mutex::default(),
        done: AtomicUsize::new(0),
    };
    let (threads, life) = (4, 400);
    for round in 0..steps.div_ceil(threads * life) {
        thread::scope(|scope| {
            let live = |index| {
                let (world, seed) = (&world, u64::try_from(round * threads + index + 1).unwrap());
                scope.spawn(move || world.live(seed, life))
            };
            let all: Vec<_> = (0..threads).map(live).collect();
            // Waits for the ends of the threads, beyond those of their closures.
            all.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
    let handed = world.handed.into_inner().unwrap();
    handed.into_iter().for_each(|buffer| {
        world.bytes.give(&buffer);
        drop(buffer);
    });
    assert!(world.bytes.0.lock().unwrap().is_empty());
    assert!(world.done.load(Ordering::Relaxed) >= steps);
    drop(world.streams);
    let told = cache.statistics();
    assert_eq!((told.in_use_bytes, told.reserved_bytes), (0, told.cached_bytes), "{told}");
    cache.trim(0).unwrap();
    assert_eq!(cache.statistics().reserved_bytes, 0);
    assert_eq!(pool.used_bytes().unwrap(), 0);
}

#[test]
fn threads_and_streams_that_come_and_go_never_have_the_same_bytes() {
    for way in WAYS {
        cuhold_testkit::run_simulated(|t, _| stress(t, way, 6000));
    }
}

#[test]
#[ignore = "as long as CUHOLD_STRESS_STEPS says"]
fn threads_and_streams_that_come_and_go_never_have_the_same_bytes_for_long() {
    let steps = std::env::var("CUHOLD_STRESS_STEPS").ok().and_then(|steps| steps.parse().ok());
    for way in WAYS {
        cuhold_testkit::run_simulated(|t, _| stress(t, way, steps.unwrap_or(1_000_000)));
    }
}

#[test]
fn a_call_that_fails_now_and_then_loses_no_memory_that_it_does_not_tell_of() {
    for way in WAYS {
        cuhold_testkit::run_simulated(|t, _| {
            let cache = cache_of(t.device(), CachingOptions::default().way(way));
            let stream = t.device().new_stream().unwrap();
            let make = || Buffer::<u8>::uninit_in(&cache, &stream, 5 << 20);
            drop(make().unwrap());
            t.faults().arm(Fault::done_but_failed(CUresult(9001)).on(Call::cuMemFreeAsync).nth(1));
            let error = cache.trim(0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Driver);
            t.faults().disarm();
            let told = cache.statistics();
            assert_eq!((told.cached_bytes, told.reserved_bytes), (0, 0), "it isn't used again");
            drop(make().unwrap());
            assert_eq!(cache.trim(0).unwrap(), 5 << 20);
        });
    }
}
