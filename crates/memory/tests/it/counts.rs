//! Exact counts of driver calls, each in its situation, the policy's own calls included.

use cuhold_driver_sim::SimOptions;
use cuhold_handles::{ObjectKind, Stream, table};
use cuhold_memory::{Buffer, HostBuffer, Pool, PoolOptions};
use cuhold_testkit::{Kit, run, run_with};

const EXCHANGE: &str = "cuThreadExchangeStreamCaptureMode";
const CURRENT: &str = "cuCtxGetCurrent";
const PUSH: &str = "cuCtxPushCurrent";
const POP: &str = "cuCtxPopCurrent";
const ASK: &str = "cuStreamIsCapturing";
const FREE: &[&str] = &[EXCHANGE, "cuMemFreeAsync", EXCHANGE];

fn created(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

fn exposed(t: &Kit) -> Stream {
    let stream = created(t);
    let _raw: cuhold_driver_sys::ffi::CUstream = stream.as_raw();
    stream
}

/// Prints a figure as `cargo xtask figures` reads it.
#[expect(clippy::print_stdout, reason = "the line is what the figures are read from")]
fn figure(name: &str, value: usize) {
    println!("figure {name}: {value}");
}

#[test]
fn exact_counts_of_allocating_and_freeing_on_a_created_stream() {
    run(|t| {
        let stream = created(t);
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let (buffer, calls) = t.calls(|| Buffer::<u8>::uninit_in(&pool, &stream, 64).unwrap());
        assert_eq!(calls, ["cuMemAllocFromPoolAsync"]);
        figure("driver_calls_per_pool_alloc", calls.len());
        let ((), calls) = t.calls(|| drop(buffer));
        assert_eq!(calls, FREE);
        figure("driver_calls_per_pool_free", calls.len());
        let (buffer, calls) = t.calls(|| Buffer::<u8>::uninit(&stream, 64).unwrap());
        assert_eq!(calls, ["cuMemAllocAsync"]);
        let (_, calls) = t.calls(|| buffer.close().unwrap());
        assert_eq!(calls, FREE);
    });
}

#[test]
fn exact_counts_of_allocating_and_freeing_on_an_exposed_stream() {
    run(|t| {
        let stream = exposed(t);
        let (buffer, calls) = t.calls(|| Buffer::<u8>::uninit(&stream, 64).unwrap());
        assert_eq!(calls, [ASK, "cuMemAllocAsync"]);
        let ((), calls) = t.calls(|| drop(buffer));
        assert_eq!(calls, FREE);
        let buffer = Buffer::<u8>::uninit(&stream, 64).unwrap();
        let (_, calls) = t.calls(|| buffer.close().unwrap());
        assert_eq!(calls, [&[ASK], FREE].concat());
    });
}

#[test]
fn exact_counts_of_allocating_and_freeing_on_a_default_stream() {
    run(|t| {
        let stream = t.device().legacy_stream();
        let allocate = || Buffer::<u8>::uninit(&stream, 64).unwrap();
        let (buffer, calls) = t.calls(allocate);
        assert_eq!(calls, [CURRENT, PUSH, ASK, "cuMemAllocAsync", POP], "none current");
        t.context()
            .with_current(|| {
                let (buffer, calls) = t.calls(allocate);
                assert_eq!(calls, [CURRENT, ASK, "cuMemAllocAsync"], "its own current");
                let ((), calls) = t.calls(|| drop(buffer));
                assert_eq!(calls, [EXCHANGE, CURRENT, ASK, "cuMemFreeAsync", EXCHANGE]);
            })
            .unwrap();
        let ((), calls) = t.calls(|| drop(buffer));
        assert_eq!(calls, [EXCHANGE, CURRENT, PUSH, ASK, "cuMemFreeAsync", POP, EXCHANGE]);
    });
}

#[test]
fn exact_counts_of_what_has_no_bytes() {
    run(|t| {
        let stream = exposed(t);
        let work = || {
            let mut buffer = Buffer::<u32>::zeroed(&stream, 0).unwrap();
            buffer.fill(7).unwrap();
            buffer.write_slice(&[]).unwrap();
            buffer.copy_from(&Buffer::uninit(&stream, 0).unwrap()).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), []);
            buffer.write_from(Vec::new()).unwrap().wait().unwrap();
            buffer.read_to(Vec::new()).unwrap().wait().unwrap();
            assert!(buffer.view(..).unwrap().is_empty());
            assert_eq!((buffer.device_ptr(), buffer.size_bytes()), (0, 0));
            let units = Buffer::<()>::from_slice(&stream, &[(), ()]).unwrap();
            assert_eq!(units.to_vec().unwrap().len(), 2);
            assert!(HostBuffer::<u8>::zeroed(t.context(), 0).unwrap().is_empty());
        };
        assert_eq!(t.calls(work).1, [""; 0]);
    });
}

#[test]
fn exact_counts_of_fills_and_device_copies() {
    run(|t| {
        for (stream, before) in [(created(t), &[][..]), (exposed(t), &[ASK])] {
            let mut x = Buffer::<u32>::uninit(&stream, 64).unwrap();
            let y = Buffer::<u32>::uninit(&stream, 64).unwrap();
            let (_, calls) = t.calls(|| x.fill(1).unwrap());
            assert_eq!(calls, [before, &["cuMemsetD32Async"]].concat());
            let (_, calls) = t.calls(|| x.copy_from(&y).unwrap());
            assert_eq!(calls, [before, &["cuMemcpyDtoDAsync"]].concat());
        }
    });
}

#[test]
fn exact_counts_of_copies_in_a_process_of_several_devices() {
    run_with(SimOptions::with_devices(2), |t| {
        let stream = created(t);
        let mut x = Buffer::<u32>::zeroed(&stream, 64).unwrap();
        let y = Buffer::<u32>::zeroed(&stream, 64).unwrap();
        let Some(other) = t.second_device() else { return };
        let mut copy = |before: &[&str], after: &[&str]| {
            let (_, calls) = t.calls(|| x.copy_from(&y).unwrap());
            assert_eq!(calls, [before, &["cuMemcpyDtoDAsync"], after].concat());
        };
        copy(&[CURRENT], &[]);
        t.context().with_current(|| copy(&[CURRENT], &[])).unwrap();
        other.with_current(|| copy(&[CURRENT, PUSH], &[POP])).unwrap();
        drop(other);
    });
}

#[test]
fn exact_counts_of_slice_copies() {
    run(|t| {
        let stream = created(t);
        let mut buffer = Buffer::<u8>::uninit(&stream, (5 << 20) / 2).unwrap();
        let part = vec![7; 1000];
        // Makes staging memory for the copies below.
        let mut all = buffer.to_vec().unwrap();
        let piece = |name| [name, "cuEventRecord"];
        let wait = "cuEventSynchronize";
        let (_, calls) = t.calls(|| buffer.view_mut(..1000).unwrap().write_slice(&part).unwrap());
        let down = piece("cuMemcpyHtoDAsync");
        assert_eq!(calls, [&[EXCHANGE], &down[..], &[wait, EXCHANGE]].concat());
        let (_, calls) = t.calls(|| buffer.read_into(&mut all).unwrap());
        let up = piece("cuMemcpyDtoHAsync");
        let three = [up, up, up].concat();
        assert_eq!(calls, [&[EXCHANGE], &three[..], &[wait, wait, wait, EXCHANGE]].concat());
        assert_eq!(all[..1000], part[..]);
    });
}

#[test]
fn exact_counts_of_a_copy_that_owns_its_host_side() {
    run(|t| {
        for (stream, before) in [(created(t), &[][..]), (exposed(t), &[ASK])] {
            let mut buffer = Buffer::<u8>::uninit(&stream, 64).unwrap();
            let host = HostBuffer::<u8>::zeroed(t.context(), 64).unwrap();
            t.context()
                .with_current(|| {
                    let (pending, calls) = t.calls(|| buffer.write_from(host).unwrap());
                    let make = [CURRENT, "cuEventCreate"];
                    let queue = ["cuMemcpyHtoDAsync", "cuEventRecord"];
                    assert_eq!(calls, [&make[..], before, &queue].concat());
                    let (_, calls) = t.calls(|| pending.wait().unwrap());
                    let wait = [EXCHANGE, "cuEventSynchronize", EXCHANGE, "cuEventDestroy"];
                    assert_eq!(calls, wait);
                })
                .unwrap();
        }
    });
}

#[test]
fn exact_counts_of_moving_a_buffer_to_another_stream() {
    run(|t| {
        let (one, two) = (created(t), created(t));
        let mut buffer = Buffer::<u8>::uninit(&one, 64).unwrap();
        t.context()
            .with_current(|| {
                let (_, calls) = t.calls(|| buffer.move_to(&two).unwrap());
                let wait = ["cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy"];
                assert_eq!(calls, [&[CURRENT, "cuEventCreate"][..], &wait].concat());
                let (_, calls) = t.calls(|| buffer.move_to(&two).unwrap());
                assert_eq!(calls, [""; 0]);
            })
            .unwrap();
    });
}

#[test]
fn exact_counts_of_pools() {
    run(|t| {
        let options = PoolOptions::default().max_bytes(1 << 30).release_threshold_bytes(1);
        let (pool, calls) = t.calls(|| Pool::new(t.device(), options).unwrap());
        let set = "cuMemPoolSetAttribute";
        assert_eq!(calls, [EXCHANGE, "cuMemPoolCreate", set, EXCHANGE]);
        let (_, calls) = t.calls(|| pool.used_bytes().unwrap());
        assert_eq!(calls, [EXCHANGE, "cuMemPoolGetAttribute", EXCHANGE]);
        let ((), calls) = t.calls(|| drop(pool));
        assert_eq!(calls, [EXCHANGE, "cuMemPoolDestroy", EXCHANGE]);
        let (_, calls) = t.calls(|| drop(Pool::default_of(t.device()).unwrap()));
        assert_eq!(calls, ["cuDeviceGetDefaultMemPool"]);
    });
}

#[test]
fn exact_counts_of_a_handle_that_is_not_the_last() {
    run(|t| {
        let stream = created(t);
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let buffer = Buffer::<u8>::uninit_in(&pool, &created(t), 64).unwrap();
        let work = || {
            drop((pool.clone(), stream.clone()));
            drop(buffer.keep());
        };
        assert_eq!(t.calls(work).1, [""; 0]);
    });
}

/// The calls that ending something makes, here and on the reclaimer.
fn ends(t: &Kit, end: impl FnOnce()) -> (Vec<&'static str>, Vec<&'static str>) {
    let by_hand = t.driver().reclaim().run_by_hand();
    let ((), here) = t.calls(end);
    let ((), later) = t.calls(|| while by_hand.step() {});
    (here, later)
}

#[test]
fn each_row_of_the_resource_table_is_what_the_end_of_memory_costs() {
    run(|t| {
        let stream = created(t);
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let default = Pool::default_of(t.device()).unwrap();
        let pooled = Buffer::<u8>::uninit_in(&pool, &stream, 8).unwrap();
        let current = Buffer::<u8>::uninit(&stream, 8).unwrap();
        let host = HostBuffer::<u8>::zeroed(t.context(), 8).unwrap();
        let measured = [
            (ObjectKind::PoolMemory, ends(t, || drop(pooled))),
            (ObjectKind::AsyncMemory, ends(t, || drop(current))),
            (ObjectKind::HostMemory, ends(t, || drop(host))),
            (ObjectKind::Pool, ends(t, || drop(pool))),
            (ObjectKind::DefaultPool, ends(t, || drop(default))),
        ];
        for (kind, (here, later)) in measured {
            let row = table::RESOURCES.iter().find(|row| row.kind == kind).unwrap();
            let (on_drop, on_reclaimer) = match row.ends_on {
                table::EndsOn::Reclaimer => (&[][..], row.calls),
                _ => (row.calls, &[][..]),
            };
            assert_eq!((&here[..], &later[..]), (on_drop, on_reclaimer), "{kind}");
        }
    });
}
