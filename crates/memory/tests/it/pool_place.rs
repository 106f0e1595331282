//! Pools of other places than a device, and which pool is the current one.

use crate::raw;
use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{Closed, ErrorKind, Note};
use cuhold_memory::{Buffer, MemoryResource, Pool, PoolOptions, PoolPlace, Residence, Reuse};
use cuhold_testkit::{Kit, run, run_leaving_pools, run_with};
use std::sync::Arc;

fn on(place: PoolPlace) -> PoolOptions {
    PoolOptions::default().place(place)
}

/// A pool of the place, or the test says that this driver or machine has none.
fn pool(t: &Kit, place: PoolPlace) -> Option<Pool> {
    match Pool::new(t.device(), on(place)) {
        Ok(pool) => Some(pool),
        Err(error) if t.sim().is_none() => {
            t.skip(&format!("no pool of {place:?}: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn memory_of_a_host_pool_is_written_by_the_device_and_freed_in_order() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        for (place, residence) in
            [(PoolPlace::Host, Residence::Host), (PoolPlace::HostNuma(0), Residence::HostNuma(0))]
        {
            let Some(pool) = pool(t, place) else { return };
            assert_eq!((pool.place(), pool.residence()), (place, residence));
            assert_eq!(pool.max_bytes(), None);
            let mut buffer = Buffer::<u32>::zeroed_in(&pool, &stream, 100).unwrap();
            assert_eq!(pool.used_bytes().unwrap(), 400);
            buffer.write_slice(&[7; 100]).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [7; 100]);
            drop(buffer);
            assert_eq!(pool.used_bytes().unwrap(), 0);
            assert_eq!(pool.close().unwrap(), Closed::Destroyed);
        }
    });
}

#[test]
fn memory_of_a_managed_pool_is_written_by_the_device_and_freed_in_order() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        for place in [
            PoolPlace::Managed,
            PoolPlace::ManagedOnDevice,
            PoolPlace::ManagedOnHost,
            PoolPlace::ManagedOnHostNuma(0),
        ] {
            let Some(pool) = pool(t, place) else { return };
            assert_eq!(pool.residence(), Residence::Managed);
            let source: Arc<dyn MemoryResource> = Arc::new(pool.clone());
            assert!(source.residence().is_managed() && source.residence().is_host_accessible());
            let buffer = Buffer::from_slice_in(&source, &stream, &[1, 2, 3]).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
            drop(buffer);
            assert_eq!(pool.used_bytes().unwrap(), 0);
        }
    });
}

#[test]
fn what_a_place_does_not_have_is_refused_with_the_argument_and_the_reason() {
    run(|t| {
        let refused = [
            (
                on(PoolPlace::Managed).max_bytes(1 << 20),
                "max_bytes: 1048576; a pool of managed memory has no maximum, so only 0",
            ),
            (
                on(PoolPlace::ManagedOnDevice).shareable(),
                "shareable: other processes can't import a pool of managed memory",
            ),
            (
                on(PoolPlace::Host).shareable(),
                "shareable: other processes import a pool of host memory only where its NUMA node is named",
            ),
            (on(PoolPlace::HostNuma(-1)), "place: NUMA node -1; nodes are numbered from 0"),
        ];
        for (options, text) in refused {
            let error = Pool::new(t.device(), options).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Argument, text));
        }
        let error = Pool::default_at(t.device(), PoolPlace::HostNuma(-1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    });
}

#[test]
fn a_node_that_is_not_there_is_refused_by_the_driver() {
    run(|t| {
        let error = Pool::new(t.device(), on(PoolPlace::HostNuma(1 << 20))).unwrap_err();
        assert!(error.is(CUresult::INVALID_VALUE), "{error}");
    });
}

#[test]
fn a_place_s_pools_are_never_destroyed() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        for place in [PoolPlace::Device, PoolPlace::Host, PoolPlace::ManagedOnDevice] {
            let default = match Pool::default_at(t.device(), place) {
                Ok(default) => default,
                Err(error) if t.sim().is_none() => {
                    return t.skip(&format!("no default pool of {place:?}: {error}"));
                }
                Err(error) => panic!("{error}"),
            };
            let current = Pool::current_at(t.device(), place).unwrap();
            assert_eq!(default.as_raw(), current.as_raw());
            assert!(default.is_borrowed() && current.is_borrowed());
            let buffer = Buffer::from_slice_in(&default, &stream, &[1_u8, 2]).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [1, 2]);
            assert_eq!(default.close().unwrap(), Closed::StillShared);
        }
    });
}

#[test]
fn the_current_pool_is_where_unnamed_memory_comes_from_and_is_never_destroyed() {
    run_leaving_pools(1, |t| {
        let stream = t.device().new_stream().unwrap();
        let default = Pool::default_of(t.device()).unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        pool.make_current().unwrap();
        assert_eq!(Pool::current_of(t.device()).unwrap().as_raw(), pool.as_raw());
        let mut first = Buffer::<u32>::uninit(&stream, 100).unwrap();
        assert_eq!(pool.used_bytes().unwrap(), 400);
        // Its last handle goes while it is the current one: it stays that, and its memory stays usable.
        let raw = pool.as_raw();
        assert_eq!(pool.close().unwrap(), Closed::StillShared);
        assert_eq!(Pool::current_of(t.device()).unwrap().as_raw(), raw);
        default.make_current().unwrap();
        let before = default.used_bytes().unwrap();
        let second = Buffer::<u32>::uninit(&stream, 10).unwrap();
        assert_eq!(default.used_bytes().unwrap(), before + 40);
        first.write_slice(&[9; 100]).unwrap();
        assert_eq!(first.to_vec().unwrap(), [9; 100]);
        drop((first, second));
    });
}

#[test]
fn what_was_allocated_before_another_pool_became_current_goes_back_where_it_came_from() {
    run_leaving_pools(2, |t| {
        let stream = t.device().new_stream().unwrap();
        let default = Pool::default_of(t.device()).unwrap();
        let (one, two) = (
            Pool::new(t.device(), PoolOptions::default()).unwrap(),
            Pool::new(t.device(), PoolOptions::default()).unwrap(),
        );
        one.make_current().unwrap();
        let first = Buffer::<u8>::uninit(&stream, 100).unwrap();
        two.make_current().unwrap();
        let second = Buffer::<u8>::uninit(&stream, 10).unwrap();
        assert_eq!((one.used_bytes().unwrap(), two.used_bytes().unwrap()), (100, 10));
        default.make_current().unwrap();
        drop(first);
        assert_eq!((one.used_bytes().unwrap(), two.used_bytes().unwrap()), (0, 10));
        second.close().unwrap();
        assert_eq!(two.used_bytes().unwrap(), 0);
    });
}

#[test]
fn a_pool_of_the_host_becomes_its_place_s_current_one() {
    run_leaving_pools(1, |t| {
        let Some(own) = pool(t, PoolPlace::Host) else { return };
        let default = Pool::default_at(t.device(), PoolPlace::Host).unwrap();
        own.make_current().unwrap();
        let current = || Pool::current_at(t.device(), PoolPlace::Host).unwrap();
        assert_eq!(current().as_raw(), own.as_raw());
        assert_ne!(Pool::current_of(t.device()).unwrap().as_raw(), own.as_raw());
        default.make_current().unwrap();
        assert_eq!(current().as_raw(), default.as_raw());
        assert_eq!(own.close().unwrap(), Closed::StillShared);
    });
}

#[test]
fn pools_of_every_place_are_set_up_beside_a_global_capture() {
    run_leaving_pools(3, |t| {
        let captured = t.device().new_stream().unwrap();
        raw::begin(&captured, raw::GLOBAL);
        let default = Pool::default_of(t.device()).unwrap();
        for place in [PoolPlace::Device, PoolPlace::Host, PoolPlace::Managed] {
            let Some(pool) = pool(t, place) else { break };
            pool.make_current().unwrap();
            pool.usage().unwrap();
            pool.forbid(Reuse::Opportunistic).unwrap();
            assert!(!pool.allows(Reuse::Opportunistic).unwrap());
            drop(Pool::default_at(t.device(), place).unwrap());
            drop(Pool::current_at(t.device(), place).unwrap());
            pool.close().unwrap();
        }
        default.make_current().unwrap();
        assert!(raw::is_captured(&captured));
        assert_eq!(raw::mode(t.driver()), raw::GLOBAL);
        raw::end(&captured);
    });
}

#[test]
fn where_the_device_is_not_let_reach_a_host_pool_no_pool_stays() {
    run(|t| {
        let status = CUresult(9001);
        t.faults().arm(Fault::refused(status).on(Call::cuMemPoolSetAccess));
        let error = Pool::new(t.device(), on(PoolPlace::Host)).unwrap_err();
        assert!(error.is(status) && error.notes().is_empty(), "{error}");
        t.faults().disarm();
        t.faults().arm(Fault::refused(status).on(Call::cuMemPoolSetAccess));
        t.faults().arm(Fault::done_but_failed(CUresult(9002)).on(Call::cuMemPoolDestroy));
        let error = Pool::new(t.device(), on(PoolPlace::Host)).unwrap_err();
        assert!(matches!(error.notes(), [Note::UndoFailed(_)]), "{error}");
    });
}

#[test]
fn five_hundred_pools_of_half_their_device_fit_into_one_process_and_of_larger_ones_the_error_names_the_limit()
 {
    // As large as what was measured, where the 467th pool without a maximum was refused.
    let mut options = SimOptions::default();
    for device in &mut options.devices {
        device.memory_bytes = 150_110_011_392;
    }
    run_with(options, |t| {
        let half = PoolOptions::default().max_bytes(t.device().total_bytes().unwrap() / 2);
        let made: Result<Vec<_>, _> = (0..500).map(|_| Pool::new(t.device(), half)).collect();
        assert_eq!(made.unwrap().len(), 500);
        let whole = PoolOptions::default();
        let made: Result<Vec<_>, _> = (0..500).map(|_| Pool::new(t.device(), whole)).collect();
        let Err(error) = made else { return };
        assert!(error.is(CUresult::OUT_OF_MEMORY), "{error}");
        assert!(error.to_string().contains("options.max_bytes: a pool of at most"), "{error}");
    });
}

#[test]
fn a_pool_tells_its_usage_at_once_and_each_of_its_reuse_settings() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let buffer = Buffer::<u8>::uninit_in(&pool, &stream, 1000).unwrap();
        let usage = pool.usage().unwrap();
        assert_eq!((usage.used_bytes, usage.used_high_bytes), (1000, 1000));
        assert_eq!(usage.reserved_bytes, pool.reserved_bytes().unwrap());
        assert_eq!(usage.reserved_high_bytes, usage.reserved_bytes);
        drop(buffer);
        let all =
            [Reuse::FollowEventDependencies, Reuse::Opportunistic, Reuse::InternalDependencies];
        for reuse in all {
            assert!(pool.allows(reuse).unwrap());
            pool.forbid(reuse).unwrap();
            assert!(!pool.allows(reuse).unwrap());
        }
        pool.allow(Reuse::Opportunistic).unwrap();
        let now = all.map(|reuse| pool.allows(reuse).unwrap());
        assert_eq!(now, [false, true, false]);
    });
}

#[test]
fn a_device_says_whether_it_has_pools() {
    run(|t| assert!(Pool::is_supported(t.device()).unwrap()));
}
