//! Hits, misses, bounds and trims.

use super::{WAYS, cache_of, in_both_ways};
use cuhold_handles::{Closed, ErrorKind};
use cuhold_memory::{
    Buffer, CachingOptions, CachingResource, MemoryResource, Origin, Pool, PoolOptions, Residence,
};
use std::{sync::Arc, thread};

const EXCHANGE: &str = "cuThreadExchangeStreamCaptureMode";
const MISS: &[&str] = &[EXCHANGE, "cuMemAllocFromPoolAsync", EXCHANGE];
const FREE: &[&str] = &[EXCHANGE, "cuMemFreeAsync", EXCHANGE];

/// Prints a figure as `cargo xtask figures` reads it.
#[expect(clippy::print_stdout, reason = "the line is what the figures are read from")]
fn figure(name: &str, value: usize) {
    println!("figure {name}: {value}");
}

#[test]
fn exact_counts_of_a_hit_and_of_giving_back() {
    in_both_ways(|t, cache, stream| {
        let make = || Buffer::<u8>::uninit_in(cache, stream, 1000).unwrap();
        let (buffer, calls) = t.calls(make);
        assert_eq!(calls, MISS);
        let first = buffer.device_ptr();
        assert_eq!(t.calls(|| drop(buffer)).1, [""; 0], "given back");
        let (buffer, calls) = t.calls(make);
        assert_eq!(calls, [""; 0], "a hit");
        figure("driver_calls_per_cached_alloc", calls.len());
        assert_eq!(buffer.device_ptr(), first);
        assert_eq!((buffer.len(), buffer.origin()), (1000, Origin::Cache));
        assert_eq!(buffer.residence(), Residence::Device);
        assert_eq!(t.calls(|| drop(buffer)).1, [""; 0], "given back");
        let (gone, calls) = t.calls(|| cache.trim(0).unwrap());
        assert_eq!((gone, &calls[..]), (1024, FREE));
    });
}

#[test]
fn a_buffer_of_the_cache_is_a_buffer_like_others() {
    in_both_ways(|t, cache, stream| {
        let other = t.device().new_stream().unwrap();
        let mut x = Buffer::from_slice_in(cache, stream, &[3, 1, 4, 1, 5]).unwrap();
        let y = Buffer::<i32>::zeroed_in(cache, stream, 5).unwrap();
        x.view_mut(1..3).unwrap().copy_from(y.view(..2).unwrap()).unwrap();
        assert_eq!(x.to_vec().unwrap(), [3, 0, 0, 1, 5]);
        assert_eq!(x.stream(), stream);
        assert!(x.resource().is_some());
        let x = x.into_raw().unwrap_err();
        let kept = x.keep();
        let at = x.device_ptr();
        assert_eq!(x.close().unwrap(), Closed::StillShared);
        assert_eq!(cache.statistics().in_use_bytes, 512);
        drop(kept);
        assert_eq!(cache.statistics().in_use_bytes, 256);
        assert_eq!(Buffer::<i32>::uninit_in(cache, stream, 5).unwrap().device_ptr(), at);
        let mut moved = Buffer::from_slice_in(cache, stream, &[7_u8; 10]).unwrap();
        moved.move_to(&other).unwrap();
        assert_eq!(moved.to_vec().unwrap(), [7; 10]);
        assert_eq!(moved.stream(), &other);
        drop(moved);
        assert_eq!(y.close_after(&other).unwrap(), Closed::Destroyed);
        assert_eq!(cache.statistics().in_use_bytes, 0);
        let none = Buffer::<u8>::uninit_in(cache, stream, 0).unwrap();
        assert_eq!(none.device_ptr(), 0);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn memory_of_the_cache_is_not_exported() {
    for way in WAYS {
        cuhold_testkit::run(|t| {
            let pool = Pool::new(t.device(), PoolOptions::default().shareable()).unwrap();
            let exported = pool.export().unwrap();
            let cache = CachingResource::new(&pool, CachingOptions::default().way(way)).unwrap();
            let stream = t.device().new_stream().unwrap();
            let buffer = Buffer::<u8>::uninit_in(&cache, &stream, 1000).unwrap();
            let error = buffer.export(&pool).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert!(error.to_string().contains("caching resource"), "{error}");
            drop((exported, buffer));
        });
    }
}

#[test]
fn what_is_moved_to_a_stream_with_memory_in_the_cache_is_used_again_there() {
    in_both_ways(|t, cache, stream| {
        let other = t.device().new_stream().unwrap();
        // Room in the other stream's lane.
        drop(Buffer::<u8>::uninit_in(cache, &other, 100).unwrap());
        let mut buffer = Buffer::<u8>::uninit_in(cache, stream, 100).unwrap();
        buffer.move_to(&other).unwrap();
        let ((), calls) = t.calls(|| drop(buffer));
        assert!(calls.is_empty() || calls == FREE, "{calls:?}");
        assert_eq!(cache.statistics().in_use_bytes, 0);
    });
}

#[test]
fn a_resource_behind_a_pointer_serves_the_same_memory() {
    in_both_ways(|t, cache, stream| {
        let any: Arc<dyn MemoryResource> = Arc::new(cache.clone());
        drop(Buffer::<u8>::uninit_in(cache, stream, 300).unwrap());
        let (buffer, calls) = t.calls(|| Buffer::<u8>::uninit_in(&any, stream, 300).unwrap());
        assert_eq!(calls, [""; 0]);
        assert_eq!(t.calls(|| drop(buffer)).1, [""; 0]);
        assert_eq!(cache.statistics().misses, 1);
    });
}

#[test]
fn memory_that_another_thread_frees_is_used_again_and_threads_that_end_lose_none() {
    in_both_ways(|_, cache, stream| {
        for round in 0..20 {
            let buffers: Vec<_> =
                (0..100).map(|_| Buffer::<u8>::uninit_in(cache, stream, 512).unwrap()).collect();
            thread::scope(|scope| scope.spawn(move || drop(buffers)).join()).unwrap();
            let told = cache.statistics();
            assert_eq!((told.in_use_bytes, told.cached_bytes), (0, 51_200), "{round}");
            assert_eq!(told.misses, 100);
        }
        assert_eq!(cache.trim(1024).unwrap(), 51_200 - 1024);
        assert_eq!(cache.statistics().cached_bytes, 1024);
        assert_eq!(cache.trim(1024).unwrap(), 0);
    });
}

#[test]
fn no_more_is_cached_than_the_bound() {
    for way in WAYS {
        cuhold_testkit::run(|t| {
            let options = CachingOptions::default().max_cached_bytes(100_000).way(way);
            let cache = cache_of(t.device(), options);
            let stream = t.device().new_stream().unwrap();
            for size in [256, 4096, 30_000, 100_000, 5 << 20] {
                let make = |_| Buffer::<u8>::uninit_in(&cache, &stream, size).unwrap();
                drop((0..300).map(make).collect::<Vec<_>>());
                let told = cache.statistics();
                assert!(told.cached_bytes <= 100_000, "{told}");
                assert_eq!(told.reserved_bytes, told.cached_bytes + told.in_use_bytes, "{told}");
                assert_eq!(cache.pool().used_bytes().unwrap(), told.reserved_bytes as u64);
            }
        });
    }
}

#[test]
fn default_streams_pass_the_cache_by() {
    in_both_ways(|t, cache, _| {
        let stream = t.device().legacy_stream();
        let buffer = Buffer::<u8>::uninit_in(cache, &stream, 1000).unwrap();
        assert_eq!(buffer.origin(), Origin::Pool);
        drop(buffer);
        let told = cache.statistics();
        assert_eq!((told.passed, told.cached_bytes, told.streams.len()), (1, 0, 0));
    });
}

#[test]
fn a_stream_that_is_left_gives_back_what_was_cached_for_it() {
    in_both_ways(|t, cache, _| {
        let stream = t.device().new_stream().unwrap();
        drop(Buffer::<u8>::uninit_in(cache, &stream, 1000).unwrap());
        let in_use = Buffer::<u8>::uninit_in(cache, &stream, 5000).unwrap();
        let ((), calls) = t.calls(|| drop(stream));
        assert_eq!(calls, FREE, "what was cached");
        assert_eq!(cache.statistics().in_use_bytes, 5120);
        assert_eq!(in_use.view(..).unwrap().len(), 5000);
        let ((), calls) = t.calls(|| drop(in_use));
        assert_eq!(calls, FREE, "what was in use");
        assert_eq!(cache.statistics().streams.len(), 0);
        assert_eq!(cache.pool().used_bytes().unwrap(), 0);
    });
}

#[test]
fn a_stream_that_somebody_takes_up_again_is_cached_for_again() {
    in_both_ways(|t, cache, _| {
        let first = t.device().new_stream().unwrap();
        let buffer = Buffer::<u8>::uninit_in(cache, &first, 1000).unwrap();
        drop(first);
        let stream = buffer.stream().clone();
        drop(Buffer::<u8>::uninit_in(cache, &stream, 1000).unwrap());
        let (again, calls) = t.calls(|| Buffer::<u8>::uninit_in(cache, &stream, 1000).unwrap());
        assert_eq!(calls, [""; 0]);
        drop((again, buffer, stream));
        assert_eq!(cache.statistics().streams.len(), 0);
    });
}

#[test]
fn buffers_outlive_the_resource() {
    in_both_ways(|t, _, stream| {
        let cache = cache_of(t.device(), CachingOptions::default());
        let pool = cache.pool().clone();
        let one = Buffer::from_slice_in(&cache, stream, &[1, 2]).unwrap();
        drop(Buffer::<u8>::uninit_in(&cache, stream, 9000).unwrap());
        drop(cache);
        assert_eq!(pool.used_bytes().unwrap(), 256);
        assert_eq!(one.to_vec().unwrap(), [1, 2]);
        let any = Arc::clone(one.resource().unwrap());
        let plain = Buffer::<u8>::uninit_in(&any, stream, 100).unwrap();
        drop((one, plain, any));
        assert_eq!(pool.used_bytes().unwrap(), 0);
    });
}

#[test]
fn memory_of_one_stream_serves_another_behind_its_work() {
    in_both_ways(|t, cache, stream| {
        let other = t.device().new_stream().unwrap();
        // From a thread that ends, so that the blocks lie on the shelf.
        let make = || Buffer::<u8>::uninit_in(cache, stream, 2 << 20).unwrap();
        thread::scope(|scope| scope.spawn(|| drop(make())).join()).unwrap();
        let (buffer, calls) = t.calls(|| Buffer::<u8>::uninit_in(cache, &other, 2 << 20).unwrap());
        let order = ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"];
        for call in order {
            assert!(calls.contains(&call), "{calls:?}");
        }
        assert!(!calls.contains(&"cuMemAllocFromPoolAsync"));
        drop(buffer);
        let told = cache.statistics();
        assert_eq!((told.crossed, told.misses), (1, 1), "{told}");
        let off = CachingOptions::default().crosses_streams(false);
        let cache = CachingResource::new(cache.pool(), off).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| drop(Buffer::<u8>::uninit_in(&cache, stream, 100).unwrap())).join()
        })
        .unwrap();
        drop(Buffer::<u8>::uninit_in(&cache, &other, 100).unwrap());
        assert_eq!(cache.statistics().misses, 2);
    });
}

#[test]
fn out_of_memory_gives_back_what_is_cached_and_asks_once_more() {
    for way in WAYS {
        cuhold_testkit::run_simulated(|t, _| {
            let pool = Pool::new(t.device(), PoolOptions::default().max_bytes(64 << 20)).unwrap();
            let cache = CachingResource::new(&pool, CachingOptions::default().way(way)).unwrap();
            let stream = t.device().new_stream().unwrap();
            drop(Buffer::<u8>::uninit_in(&cache, &stream, 40 << 20).unwrap());
            drop(Buffer::<u8>::uninit_in(&cache, &stream, 1 << 20).unwrap());
            let large = Buffer::<u8>::uninit_in(&cache, &stream, 48 << 20).unwrap();
            assert_eq!(cache.statistics().cached_bytes, 0);
            let error = Buffer::<u8>::uninit_in(&cache, &stream, 48 << 20).unwrap_err();
            assert!(error.is(cuhold_driver_sys::CUresult::OUT_OF_MEMORY), "{error}");
            drop(large);
            assert_eq!(cache.statistics().relieved, 2);
        });
    }
}

#[test]
fn a_stream_of_another_driver_is_refused() {
    in_both_ways(|t, cache, _| {
        let other = t.driver().isolated();
        let device = cuhold_handles::Device::with_driver(&other, 0).unwrap();
        let stream = device.new_stream().unwrap();
        let error = Buffer::<u8>::uninit_in(cache, &stream, 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    });
}

#[test]
fn statistics_read_as_text_and_as_json() {
    in_both_ways(|_, cache, stream| {
        drop(Buffer::<u8>::uninit_in(cache, stream, 1 << 20).unwrap());
        let told = cache.statistics();
        let text = told.to_string();
        assert!(text.contains("0 B in use, 1 MiB cached, 1 MiB reserved (peak 1 MiB)"), "{text}");
        assert!(text.contains("0 hits, 1 misses"), "{text}");
        let json = told.to_json();
        assert!(json.starts_with("{\"device\":0,\"in_use_bytes\":0,\"cached_bytes\":1048576,"));
        assert!(json.ends_with("\"hits\":0,\"misses\":1,\"crossed\":0}]}"), "{json}");
    });
}
