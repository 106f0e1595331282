//! What a caching resource tells of itself.

use super::{cache::Cache, state::Counts};
use parking_lot::Mutex;
use std::{
    fmt::{self, Write as _},
    sync::atomic::{AtomicU64, Ordering},
};

/// What is counted of lanes that have ended, and of what went by.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) passed: AtomicU64,
    counts: Mutex<Counts>,
}

impl Past {
    /// Adds what a lane that ends has counted.
    pub(super) fn add(&self, lane: &Counts) {
        let mut counts = self.counts.lock();
        counts.quick = counts.quick.wrapping_add(lane.quick);
        counts.slow = counts.slow.wrapping_add(lane.slow);
        counts.crossed = counts.crossed.wrapping_add(lane.crossed);
        counts.missed = counts.missed.wrapping_add(lane.missed);
    }
}

/// What a [`CachingResource`](super::CachingResource) has and has done, at one moment. Of what other threads do meanwhile
/// it may have a part.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, CachingOptions, CachingResource, Pool, PoolOptions, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let cache = CachingResource::new(&Pool::new(&device, PoolOptions::default())?, CachingOptions::default())?;
/// drop(Buffer::<u8>::uninit_in(&cache, &stream, 1000)?);
/// let buffer = Buffer::<u8>::uninit_in(&cache, &stream, 1000)?;
/// let told = cache.statistics();
/// assert_eq!((told.misses, told.hits, told.in_use_bytes, told.cached_bytes), (1, 1, 1024, 0));
/// assert!(told.to_json().contains("\"hits\":1"));
/// println!("{told}");
/// # drop(buffer);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CachingStatistics {
    /// The device whose memory it is, by its number.
    pub device: i32,
    /// Bytes that buffers have, as blocks of their classes.
    pub in_use_bytes: usize,
    /// Bytes that wait to be used again.
    pub cached_bytes: usize,
    /// Bytes that came from the pool: in use and cached.
    pub reserved_bytes: usize,
    /// The most bytes that were ever reserved at once.
    pub peak_reserved_bytes: usize,
    /// Allocations that were served from memory of their own stream.
    pub hits: u64,
    /// Allocations that came from the pool.
    pub misses: u64,
    /// Blocks that went from one stream to another.
    pub crossed: u64,
    /// Allocations in which the cache took no part: on default streams.
    pub passed: u64,
    /// How often everything was given back because memory was out.
    pub relieved: u64,
    /// Each stream for which there is memory, or was a moment ago.
    pub streams: Vec<StreamStatistics>,
}

/// What a caching resource has for one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StreamStatistics {
    /// The stream's number, as warnings name it.
    pub stream: u64,
    /// Bytes that buffers have.
    pub in_use_bytes: usize,
    /// How many buffers that are.
    pub in_use: usize,
    /// Bytes that wait to be used again.
    pub cached_bytes: usize,
    /// How many blocks that are.
    pub cached: usize,
    /// Allocations that were served from memory of the stream.
    pub hits: u64,
    /// Allocations that came from the pool.
    pub misses: u64,
    /// Blocks that came from other streams.
    pub crossed: u64,
}

/// A block that came from another stream was one of the allocations, or lay on the shelf before.
fn hits(counts: &Counts) -> u64 {
    counts.quick.wrapping_add(counts.slow)
}

impl Cache {
    pub(super) fn statistics(&self) -> CachingStatistics {
        let reserved_bytes = self.reserved.load(Ordering::Relaxed);
        let mut all = CachingStatistics {
            device: self.device(),
            reserved_bytes,
            peak_reserved_bytes: self.reserved_peak.load(Ordering::Relaxed),
            passed: self.past.passed.load(Ordering::Relaxed),
            relieved: self.relieved(),
            ..CachingStatistics::default()
        };
        let past = *self.past.counts.lock();
        (all.hits, all.misses, all.crossed) = (hits(&past), past.missed, past.crossed);
        let lanes = self.lanes.lock();
        for (stream, lane) in lanes.iter() {
            let counts = lane.shelf().counts();
            let one = StreamStatistics {
                stream: *stream,
                in_use_bytes: counts.made_bytes.saturating_sub(counts.cached_bytes),
                in_use: counts.made.saturating_sub(counts.cached),
                cached_bytes: counts.cached_bytes,
                cached: counts.cached,
                hits: hits(&counts),
                misses: counts.missed,
                crossed: counts.crossed,
            };
            all.in_use_bytes += one.in_use_bytes;
            all.cached_bytes += one.cached_bytes;
            all.hits = all.hits.wrapping_add(one.hits);
            all.misses = all.misses.wrapping_add(one.misses);
            all.crossed = all.crossed.wrapping_add(one.crossed);
            all.streams.push(one);
        }
        all
    }
}

impl CachingStatistics {
    /// The same as JSON: one object, in one line.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        let fields = [
            ("in_use_bytes", self.in_use_bytes as u64),
            ("cached_bytes", self.cached_bytes as u64),
            ("reserved_bytes", self.reserved_bytes as u64),
            ("peak_reserved_bytes", self.peak_reserved_bytes as u64),
            ("hits", self.hits),
            ("misses", self.misses),
            ("crossed", self.crossed),
            ("passed", self.passed),
            ("relieved", self.relieved),
        ];
        // Writing to a string doesn't fail.
        _ = write!(json, "\"device\":{}", self.device);
        write_fields(&mut json, &fields);
        json.push_str(",\"streams\":[");
        for (index, stream) in self.streams.iter().enumerate() {
            json.push_str(if index == 0 { "{" } else { ",{" });
            _ = write!(json, "\"stream\":{}", stream.stream);
            let fields = [
                ("in_use_bytes", stream.in_use_bytes as u64),
                ("in_use", stream.in_use as u64),
                ("cached_bytes", stream.cached_bytes as u64),
                ("cached", stream.cached as u64),
                ("hits", stream.hits),
                ("misses", stream.misses),
                ("crossed", stream.crossed),
            ];
            write_fields(&mut json, &fields);
            json.push('}');
        }
        json.push_str("]}");
        json
    }
}

fn write_fields(json: &mut String, fields: &[(&str, u64)]) {
    for (name, value) in fields {
        _ = write!(json, ",\"{name}\":{value}");
    }
}

/// Bytes in the unit that suits them.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut unit, mut rest) = (0, self.0);
        let units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut tenths = 0;
        while rest >= 1024 && unit + 1 < units.len() {
            tenths = (rest % 1024) * 10 / 1024;
            rest /= 1024;
            unit += 1;
        }
        let unit = units.get(unit).copied().unwrap_or_default();
        if tenths == 0 { write!(f, "{rest} {unit}") } else { write!(f, "{rest}.{tenths} {unit}") }
    }
}

impl fmt::Display for CachingStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "device {}: {} in use, {} cached, {} reserved (peak {})",
            self.device,
            Bytes(self.in_use_bytes),
            Bytes(self.cached_bytes),
            Bytes(self.reserved_bytes),
            Bytes(self.peak_reserved_bytes)
        )?;
        write!(
            f,
            "{} hits, {} misses, {} from other streams, {} passed by, given back {} times",
            self.hits, self.misses, self.crossed, self.passed, self.relieved
        )?;
        for stream in &self.streams {
            write!(
                f,
                "\n  stream #{}: {} in {} buffers, {} in {} cached blocks, {} hits, {} misses",
                stream.stream,
                Bytes(stream.in_use_bytes),
                stream.in_use,
                Bytes(stream.cached_bytes),
                stream.cached,
                stream.hits,
                stream.misses
            )?;
        }
        Ok(())
    }
}
