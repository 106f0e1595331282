//! The cache beside captures.

use super::{WAYS, cache_of, in_both_ways};
use crate::raw;
use cuhold_driver_sys::ffi::CUstream;
use cuhold_handles::ErrorKind;
use cuhold_memory::{Buffer, CachingOptions};
use cuhold_testkit::ForeignCapture;

#[test]
fn a_give_back_that_a_capture_refuses_loses_nothing() {
    for way in WAYS {
        cuhold_testkit::run(|t| {
            let options = CachingOptions::default().max_cached_bytes(0).way(way);
            let cache = cache_of(t.device(), options);
            let stream = t.device().new_stream().unwrap();
            let buffer = Buffer::<u8>::uninit_in(&cache, &stream, 1000).unwrap();
            let _: CUstream = stream.as_raw();
            raw::begin(&stream, raw::RELAXED);
            drop(buffer);
            let told = cache.statistics();
            assert_eq!((told.cached_bytes, told.reserved_bytes), (1024, 1024), "it is still there");
            assert_eq!(cache.trim(0).unwrap(), 0, "the stream is still captured");
            raw::end(&stream);
            assert_eq!(cache.trim(0).unwrap(), 1024);
            assert_eq!(cache.pool().used_bytes().unwrap(), 0);
        });
    }
}

#[test]
fn a_captured_stream_is_never_served_and_what_is_dropped_meanwhile_is_cached() {
    in_both_ways(|t, cache, stream| {
        drop(Buffer::<u8>::uninit_in(cache, stream, 1000).unwrap());
        let buffer = Buffer::<u8>::uninit_in(cache, stream, 2000).unwrap();
        let _: CUstream = stream.as_raw();
        raw::begin(stream, raw::RELAXED);
        let error = Buffer::<u8>::uninit_in(cache, stream, 1000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State);
        assert_eq!(t.calls(|| drop(buffer)).1, [""; 0]);
        raw::end(stream);
        let (again, calls) = t.calls(|| Buffer::<u8>::uninit_in(cache, stream, 2000).unwrap());
        assert_eq!(calls, ["cuStreamIsCapturing"], "an exposed stream is asked");
        drop(again);
    });
}

#[test]
fn a_stream_of_a_builder_is_refused_and_served_afterwards() {
    in_both_ways(|t, cache, stream| {
        drop(Buffer::<u8>::uninit_in(cache, stream, 1000).unwrap());
        assert!(stream.claim_for_builder());
        raw::begin_unseen(stream, raw::RELAXED);
        assert!(Buffer::<u8>::uninit_in(cache, stream, 1000).is_err());
        raw::end(stream);
        stream.release_from_builder();
        let (_, calls) = t.calls(|| drop(Buffer::<u8>::uninit_in(cache, stream, 1000).unwrap()));
        assert_eq!(calls, [""; 0]);
    });
}

#[test]
fn what_the_cache_asks_of_the_driver_leaves_a_foreign_capture_alone() {
    in_both_ways(|t, cache, stream| {
        let captured = t.device().new_stream().unwrap();
        let other = t.device().new_stream().unwrap();
        let capture = ForeignCapture::begin(t.driver(), &captured, raw::GLOBAL);
        drop(Buffer::<u8>::uninit_in(cache, stream, 1000).unwrap());
        cache.trim(0).unwrap();
        drop(Buffer::<u8>::uninit_in(cache, stream, 5 << 20).unwrap());
        drop(Buffer::<u8>::uninit_in(cache, &other, 5 << 20).unwrap());
        assert_eq!(cache.statistics().crossed, 1);
        capture.is_active();
        capture.end();
    });
}
