//! Pools whose memory a default stream uses. Where they ended while its work was under way, a later wait for that stream
//! ended the process inside the driver (measured on an H200, driver 580.159).

use cuhold_handles::{Closed, Stream};
use cuhold_memory::{Buffer, Pool, PoolOptions};
use cuhold_testkit::{Kit, run};

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

#[test]
fn pools_that_end_while_a_default_stream_works_leave_that_stream_usable() {
    run(|t| {
        let stream = t.device().legacy_stream();
        for _ in 0..POOLS {
            let pool = pool(t);
            drop(busy(&pool, &stream));
            drop(pool);
        }
        still_works(&stream);
    });
}

#[test]
fn pools_whose_handles_go_before_their_memory_leave_a_default_stream_usable() {
    run(|t| {
        let stream = t.device().legacy_stream();
        for _ in 0..POOLS {
            let pool = pool(t);
            let buffers = busy(&pool, &stream);
            drop(pool);
            drop(buffers);
        }
        still_works(&stream);
    });
}

#[test]
fn a_closed_pool_has_waited_for_a_default_stream() {
    run(|t| {
        let stream = t.device().legacy_stream();
        for _ in 0..POOLS {
            let pool = pool(t);
            drop(busy(&pool, &stream));
            assert_eq!(pool.close().unwrap(), Closed::Destroyed);
        }
        still_works(&stream);
    });
}

#[test]
fn a_pool_that_a_default_stream_uses_is_ended_once_that_stream_is_done() {
    run(|t| {
        let stream = t.device().legacy_stream();
        let pool = pool(t);
        let buffer = Buffer::<u32>::zeroed_in(&pool, &stream, 10).unwrap();
        let by_hand = t.driver().reclaim().run_by_hand();
        let ((), calls) = t.calls(|| drop(pool));
        assert_eq!(calls, [""; 0], "its memory holds it");
        let ((), mut calls) = t.calls(|| {
            drop(buffer);
            while by_hand.step() {}
        });
        calls.retain(|call| !call.starts_with("cuCtx") && !call.starts_with("cuThread"));
        assert_eq!(
            calls,
            [
                "cuStreamIsCapturing",
                "cuMemFreeAsync",
                "cuEventCreate",
                "cuEventRecord",
                "cuEventSynchronize",
                "cuEventDestroy",
                "cuMemPoolDestroy"
            ]
        );
    });
}

#[test]
fn a_pool_that_only_created_streams_use_ends_at_once() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let pool = pool(t);
        drop(busy(&pool, &stream));
        let ((), calls) = t.calls(|| drop(pool));
        assert!(calls.iter().all(|call| !call.starts_with("cuEvent")), "{calls:?}");
        assert_eq!(calls.iter().filter(|call| **call == "cuMemPoolDestroy").count(), 1);
    });
}
