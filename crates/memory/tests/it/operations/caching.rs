//! The caching resource.

#![expect(unsafe_code, reason = "gives memory back by hand")]

use cuhold_handles::{Error, Stream};
use cuhold_memory::{
    Block, CachingOptions, CachingResource, MemoryResource as _, Pool, PoolOptions,
};
use cuhold_testkit::Run;
use std::cell::RefCell;

const MIB: usize = 1 << 20;

/// A cache over a pool of 64 MiB, with so many bytes cached for each of the streams.
fn cache(run: &Run<'_>, options: CachingOptions, cached: &[(&Stream, usize)]) -> CachingResource {
    let pool = Pool::new(run.device(), PoolOptions::default().max_bytes(64 * MIB)).unwrap();
    let cache = CachingResource::new(&pool, options).unwrap();
    let cached = cached.iter().map(|(stream, bytes)| {
        let block = cache.allocate(*bytes, stream).unwrap();
        (block, *stream)
    });
    for (block, stream) in cached.collect::<Vec<_>>() {
        // SAFETY: allocated above, and nothing uses it.
        unsafe { cache.deallocate(block, stream) }.unwrap();
    }
    cache
}

fn give_back(cache: &CachingResource, blocks: &[Block], stream: &Stream) -> Result<(), Error> {
    for block in blocks {
        // SAFETY: allocated by the cache, given back once, and nothing uses it.
        unsafe { cache.deallocate(*block, stream) }?;
    }
    Ok(())
}

cuhold_testkit::enrol! {
    CachingResource::allocate |run| {
        let stream = run.stream();
        let (one, two) = (run.device().new_stream().unwrap(), run.device().new_stream().unwrap());
        let options = CachingOptions::default();
        let cache = cache(run, options, &[(&one, 5 * MIB), (&two, 40 * MIB)]);
        let blocks = RefCell::new(Vec::new());
        let both = run.op(|| {
            // Memory of another stream, where the stream may have it; then more than is left.
            for bytes in [5 * MIB, 48 * MIB] {
                blocks.borrow_mut().push(cache.allocate(bytes, stream)?);
            }
            Ok::<_, Error>(())
        });
        run.keep(both);
        run.finish(|| give_back(&cache, &blocks.borrow(), stream));
    }

    CachingResource::deallocate |run| {
        let stream = run.stream();
        let cache = cache(run, CachingOptions::default().max_cached_bytes(0), &[]);
        let block = cache.allocate(100, stream).unwrap();
        // SAFETY: allocated above, and nothing uses it.
        run.keep(run.op(|| unsafe { cache.deallocate(block, stream) }));
    }

    CachingResource::trim |run| {
        let stream = run.stream();
        let other = run.device().new_stream().unwrap();
        let cache = cache(run, CachingOptions::default(), &[(stream, MIB), (&other, 5 * MIB)]);
        run.repeat(|| cache.trim(0));
    }

    CachingResource::drop |run| {
        let stream = run.stream();
        let cache = cache(run, CachingOptions::default(), &[(stream, MIB), (stream, 100)]);
        let _pool = cache.pool().clone();
        run.op(|| drop(cache));
    }
}
