//! The caching resource, each test in both ways of keeping threads apart.

use cuhold_handles::{Device, Stream};
use cuhold_memory::{CachingOptions, CachingResource, CachingWay, Pool, PoolOptions};
use cuhold_testkit::Kit;

mod basic;
mod capture;
mod forking;
mod process;
mod stress;

const WAYS: [CachingWay; 2] = [CachingWay::Lock, CachingWay::Biased];

/// A cache over a pool of its own.
fn cache_of(device: &Device, options: CachingOptions) -> CachingResource {
    CachingResource::new(&Pool::new(device, PoolOptions::default()).unwrap(), options).unwrap()
}

/// Runs a body in both ways, with a cache and a created stream.
fn in_both_ways(body: impl Fn(&Kit, &CachingResource, &Stream)) {
    for way in WAYS {
        cuhold_testkit::run(|t| {
            let cache = cache_of(t.device(), CachingOptions::default().way(way));
            assert_eq!(cache.way(), way);
            body(t, &cache, &t.device().new_stream().unwrap());
        });
    }
}
