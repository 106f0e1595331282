//! Pools: what they are made with, what they tell, and that they disturb nobody's capture.

use crate::raw;
use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::{CUresult, Call, Fault, ffi::CUmemoryPool};
use cuhold_handles::{Closed, Device, Driver, ErrorKind, Note};
use cuhold_memory::{Buffer, MemoryResource as _, Pool, PoolOptions};
use cuhold_testkit::{run, run_with};
use std::sync::{Arc, Weak};

#[test]
fn a_pool_counts_what_is_out_of_it_and_what_it_holds() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let options = PoolOptions::default().release_threshold_bytes(u64::MAX);
        let pool = Pool::new(t.device(), options).unwrap();
        assert_eq!(pool.release_threshold_bytes().unwrap(), u64::MAX);
        assert_eq!((pool.used_bytes().unwrap(), pool.reserved_bytes().unwrap()), (0, 0));
        let buffer = Buffer::<u16>::uninit_in(&pool, &stream, 500).unwrap();
        assert_eq!(pool.used_bytes().unwrap(), 1000);
        let reserved = pool.reserved_bytes().unwrap();
        assert!(reserved >= 1000, "{reserved}");
        drop(buffer);
        stream.synchronize().unwrap();
        assert_eq!((pool.used_bytes().unwrap(), pool.used_high_bytes().unwrap()), (0, 1000));
        assert_eq!(pool.reserved_bytes().unwrap(), reserved, "kept, by the threshold");
        pool.trim_to(0).unwrap();
        assert_eq!(pool.reserved_bytes().unwrap(), 0);
        assert_eq!(pool.reserved_high_bytes().unwrap(), reserved);
        pool.reset_used_high().unwrap();
        assert_eq!(pool.used_high_bytes().unwrap(), 0);
        pool.set_release_threshold_bytes(7).unwrap();
        assert_eq!(pool.release_threshold_bytes().unwrap(), 7);
    });
}

#[test]
fn a_mark_is_reset_to_the_value_of_the_moment() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let small = Buffer::<u8>::uninit_in(&pool, &stream, 10).unwrap();
        drop(Buffer::<u8>::uninit_in(&pool, &stream, 100).unwrap());
        assert_eq!(pool.used_high_bytes().unwrap(), 110);
        pool.reset_used_high().unwrap();
        pool.reset_reserved_high().unwrap();
        assert_eq!(pool.used_high_bytes().unwrap(), 10);
        assert_eq!(pool.reserved_high_bytes().unwrap(), pool.reserved_bytes().unwrap());
        drop(small);
    });
}

#[test]
fn a_pool_is_capped_at_its_device_s_memory_by_default() {
    run(|t| {
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        assert_eq!(pool.max_bytes(), Some(t.device().total_bytes().unwrap()));
    });
}

#[test]
fn a_pool_that_is_full_says_how_large_it_was_made() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default().max_bytes(64 << 20)).unwrap();
        let error = Buffer::<u8>::uninit_in(&pool, &stream, 65 << 20).unwrap_err();
        assert!(error.is(CUresult::OUT_OF_MEMORY), "{error}");
        assert!(error.to_string().ends_with("the pool was made for at most 67108864 bytes"));
        // The failure leaves the pool and the stream as they were.
        drop(Buffer::<u8>::uninit_in(&pool, &stream, 1 << 20).unwrap());
    });
}

#[test]
fn a_thousand_small_pools_fit_into_one_process() {
    run(|t| {
        let options = PoolOptions::default().max_bytes(1 << 30);
        let pools: Vec<_> = (0..1000).map(|_| Pool::new(t.device(), options).unwrap()).collect();
        drop(pools);
    });
}

#[test]
fn memory_keeps_its_pool() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let mut buffer = Buffer::<u32>::uninit_in(&pool, &stream, 3).unwrap();
        assert_eq!(pool.close().unwrap(), Closed::StillShared);
        buffer.write_slice(&[1, 2, 3]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn a_device_s_own_pools_are_never_destroyed() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (default, current) =
            (Pool::default_of(t.device()).unwrap(), Pool::current_of(t.device()).unwrap());
        assert_eq!(default.as_raw(), current.as_raw());
        assert!(default.is_borrowed() && default.max_bytes().is_none());
        let before = default.used_bytes().unwrap();
        let buffer = Buffer::<u8>::uninit(&stream, 100).unwrap();
        assert_eq!(current.used_bytes().unwrap(), before + 100);
        drop(buffer);
        assert_eq!(default.close().unwrap(), Closed::StillShared);
        assert!(current.into_raw().is_err());
    });
}

#[test]
fn pools_are_set_up_asked_and_ended_beside_a_global_capture() {
    run(|t| {
        let captured = t.device().new_stream().unwrap();
        raw::begin(&captured, raw::GLOBAL);
        let options = PoolOptions::default().release_threshold_bytes(1);
        let pool = Pool::new(t.device(), options).unwrap();
        pool.used_bytes().unwrap();
        pool.set_release_threshold_bytes(2).unwrap();
        pool.trim_to(0).unwrap();
        drop(pool);
        drop(Pool::default_of(t.device()).unwrap());
        assert!(raw::is_captured(&captured));
        assert_eq!(raw::mode(t.driver()), raw::GLOBAL);
        raw::end(&captured);
    });
}

#[test]
fn where_the_threshold_is_refused_no_pool_stays() {
    run(|t| {
        let status = CUresult(9001);
        t.faults().arm(Fault::refused(status).on(Call::cuMemPoolSetAttribute));
        let options = PoolOptions::default().release_threshold_bytes(1);
        let error = Pool::new(t.device(), options).unwrap_err();
        assert!(error.is(status) && error.notes().is_empty(), "{error}");
        t.faults().disarm();
        t.faults().arm(Fault::refused(status).on(Call::cuMemPoolSetAttribute));
        t.faults().arm(Fault::done_but_failed(CUresult(9002)).on(Call::cuMemPoolDestroy));
        let error = Pool::new(t.device(), options).unwrap_err();
        assert!(matches!(error.notes(), [Note::UndoFailed(_)]), "{error}");
    });
}

#[test]
#[expect(unsafe_code, reason = "takes a raw pool")]
fn null_is_no_pool() {
    run(|t| {
        // SAFETY: null is refused.
        let own = unsafe { Pool::from_raw(t.device(), CUmemoryPool::NULL) };
        assert_eq!(own.unwrap_err().kind(), ErrorKind::Argument);
        // SAFETY: as above.
        let lent = unsafe { Pool::borrow_raw(t.device(), CUmemoryPool::NULL, None) };
        assert_eq!(lent.unwrap_err().kind(), ErrorKind::Argument);
    });
}

#[test]
#[expect(unsafe_code, reason = "takes a raw pool")]
fn a_raw_pool_is_taken_over_or_lent_with_its_owner() {
    run(|t| {
        let raw = Pool::new(t.device(), PoolOptions::default()).unwrap().into_raw().unwrap();
        // SAFETY: given away a moment ago.
        let own = unsafe { Pool::from_raw(t.device(), raw) }.unwrap();
        let owner = Arc::new(own);
        let weak: Weak<Pool> = Arc::downgrade(&owner);
        // SAFETY: the owner keeps the pool.
        let lent = unsafe { Pool::borrow_raw(t.device(), raw, Some(owner)) }.unwrap();
        assert_eq!(lent.used_bytes().unwrap(), 0);
        drop(lent);
        assert_eq!(weak.strong_count(), 0);
    });
}

#[test]
fn objects_of_two_drivers_do_not_meet_in_a_pool() {
    run(|t| {
        let other = Device::with_driver(&t.driver().isolated(), 0).unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let stranger = other.new_stream().unwrap();
        let (error, calls) = t.calls(|| pool.allocate(8, &stranger).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().starts_with("stream belongs to another driver"), "{error}");
        assert!(calls.is_empty());
        ended(stranger, other);
    });
}

/// Ends a second driver's objects here and now.
fn ended(stream: cuhold_handles::Stream, device: Device) {
    drop(stream);
    let driver: Driver = device.driver().clone();
    drop(device);
    driver.close().unwrap();
}

#[test]
fn a_pool_serves_streams_of_its_own_device() {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(other) = t.second_device() else { return };
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let stream = other.new_stream().unwrap();
        let error = Buffer::<u8>::uninit_in(&pool, &stream, 8).unwrap_err();
        assert_eq!(error.to_string(), "stream: it is of device 1, the pool of device 0");
    });
}
