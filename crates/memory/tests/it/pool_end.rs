//! Pools that end while streams that freed their memory work. A later wait for such a stream ended the process inside the
//! driver, or the process hung where the stream had been destroyed (measured on an H200, driver 580.159).

use crate::flip::World;
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{Closed, Context, ContextFlags, ObjectKind, Stream, StreamOptions};
use cuhold_memory::{Buffer, Pool, PoolOptions};
use cuhold_testkit::{Kit, run, run_leaving_pools, run_simulated};
use std::time::Duration;

/// More than it took: the driver's process ended after eight pools.
const POOLS: usize = 16;

fn pool(t: &Kit) -> Pool {
    Pool::new(t.device(), PoolOptions::default()).unwrap()
}

/// Memory with work on it that nobody has waited for.
fn busy(pool: &Pool, stream: &Stream) -> [Buffer<u32>; 2] {
    [0, 1].map(|_| Buffer::zeroed_in(pool, stream, 10).unwrap())
}

fn still_works(stream: &Stream) {
    assert_eq!(Buffer::from_slice(stream, &[1, 2, 3]).unwrap().to_vec().unwrap(), [1, 2, 3]);
    stream.synchronize().unwrap();
}

/// The streams of a device: the default one, a blocking and a non-blocking one.
fn streams(t: &Kit) -> [Stream; 3] {
    let context = t.device().context();
    let options = StreamOptions::default();
    let created = [StreamOptions::blocking(), options]
        .map(|options| Stream::with_options(context, options).unwrap());
    let [blocking, other] = created;
    [t.device().legacy_stream(), blocking, other]
}

#[test]
fn pools_that_end_while_a_stream_works_leave_that_stream_usable() {
    run(|t| {
        for stream in streams(t) {
            for _ in 0..POOLS {
                let pool = pool(t);
                drop(busy(&pool, &stream));
                drop(pool);
            }
            still_works(&stream);
        }
    });
}

#[test]
fn pools_whose_handles_go_before_their_memory_leave_a_stream_usable() {
    run(|t| {
        for stream in streams(t) {
            for _ in 0..POOLS {
                let pool = pool(t);
                let buffers = busy(&pool, &stream);
                drop(pool);
                drop(buffers);
            }
            still_works(&stream);
        }
    });
}

#[test]
fn pools_may_end_behind_streams_that_were_dropped() {
    run(|t| {
        for _ in 0..POOLS {
            let stream = t.device().new_stream().unwrap();
            let pool = pool(t);
            drop(busy(&pool, &stream));
            drop(stream);
            drop(pool);
        }
        still_works(&t.device().new_stream().unwrap());
    });
}

#[test]
fn pools_may_end_behind_memory_that_was_moved_to_another_stream() {
    run(|t| {
        for other in streams(t) {
            let stream = t.device().new_stream().unwrap();
            for _ in 0..POOLS {
                let pool = pool(t);
                for mut buffer in busy(&pool, &stream) {
                    buffer.move_to(&other).unwrap();
                }
            }
            still_works(&other);
            still_works(&stream);
        }
    });
}

#[test]
fn pools_that_were_current_leave_a_stream_usable_whoever_had_memory_of_them() {
    run_leaving_pools(9, |t| {
        let default = Pool::default_of(t.device()).unwrap();
        for stream in streams(t) {
            for _ in 0..3 {
                let pool = pool(t);
                pool.make_current().unwrap();
                let buffer = Buffer::<u32>::zeroed(&stream, 10).unwrap();
                default.make_current().unwrap();
                assert_eq!(pool.close().unwrap(), Closed::StillShared);
                drop(buffer);
            }
            still_works(&stream);
        }
    });
}

#[test]
fn a_closed_pool_has_waited_for_the_streams_that_freed_its_memory() {
    run(|t| {
        for stream in streams(t) {
            for _ in 0..POOLS {
                let pool = pool(t);
                drop(busy(&pool, &stream));
                assert_eq!(pool.close().unwrap(), Closed::Destroyed);
            }
            still_works(&stream);
        }
    });
}

#[test]
fn a_pool_ends_once_the_streams_that_freed_its_memory_are_done() {
    run(|t| {
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        let here = t.device().new_stream().unwrap();
        let there = other.new_stream().unwrap();
        let pool = pool(t);
        let buffers =
            [&here, &there].map(|stream| Buffer::<u32>::zeroed_in(&pool, stream, 10).unwrap());
        let by_hand = t.driver().reclaim().run_by_hand();
        let ((), calls) = t.calls(|| drop(pool));
        assert_eq!(calls, [""; 0], "its memory holds it");
        let ((), mut calls) = t.calls(|| {
            drop(buffers);
            while by_hand.step() {}
        });
        calls.retain(|call| !call.starts_with("cuCtx") && !call.starts_with("cuThread"));
        assert_eq!(
            calls,
            [
                "cuMemFreeAsync",
                "cuMemFreeAsync",
                "cuEventCreate",
                "cuEventRecord",
                "cuEventCreate",
                "cuEventRecord",
                "cuEventSynchronize",
                "cuEventSynchronize",
                "cuMemPoolDestroy"
            ]
        );
    });
}

#[test]
fn a_pool_whose_memory_was_never_freed_ends_at_once() {
    run(|t| {
        let pool = pool(t);
        let ((), mut calls) = t.calls(|| drop(pool));
        calls.retain(|call| !call.starts_with("cuThread"));
        assert_eq!(calls, ["cuMemPoolDestroy"]);
    });
}

#[test]
fn a_pool_that_lives_on_lets_go_of_the_many_streams_that_nobody_has_any_more() {
    run_simulated(|t, _| {
        let pool = pool(t);
        for _ in 0..1000 {
            let stream = t.device().new_stream().unwrap();
            drop(busy(&pool, &stream));
            stream.synchronize().unwrap();
            drop(stream);
            t.driver().reclaim().drain(Duration::from_secs(60)).unwrap();
        }
        let (_, calls) = t.calls(|| pool.close().unwrap());
        let left = calls.iter().filter(|call| **call == "cuStreamDestroy").count();
        assert!(left <= 128, "{left} of 1000 were kept");
    });
}

#[test]
fn streams_of_many_that_can_not_be_asked_are_kept_and_that_is_told() {
    let world = World::new();
    let pool = Pool::new(&world.device, PoolOptions::default()).unwrap();
    for _ in 0..63 {
        drop(Buffer::<u32>::uninit_in(&pool, &world.stream(), 10).unwrap());
    }
    let last = world.stream();
    let status = CUresult(9001);
    world.faults().arm(Fault::refused(status).on(Call::cuStreamQuery));
    let told = world.warnings(|| drop(Buffer::<u32>::uninit_in(&pool, &last, 10).unwrap()));
    assert_eq!(told.len(), 63, "one for each that was asked");
    for warning in told {
        assert_eq!((warning.call(), warning.status()), (Some(Call::cuStreamQuery), Some(status)));
        assert_eq!(warning.object().kind, ObjectKind::Stream);
    }
    let ((), calls) = world.sim.log().during(|| drop(pool));
    let marked = calls.iter().filter(|entry| entry.call() == Call::cuEventRecord).count();
    assert_eq!(marked, 64, "all of them are still waited for");
}
