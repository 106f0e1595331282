//! Exact counts of driver calls, each in its situation, the policy's own calls included.

use cuhold_driver_sim::SimOptions;
use cuhold_handles::{EventOptions, ObjectKind, Stream, table};
use cuhold_memory::{Buffer, CopyBatch, Grid, HostBuffer, Pool, PoolOptions};
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
            // Makes the event.
            let host = buffer.write_from(host).unwrap().wait().unwrap();
            let (pending, calls) = t.calls(|| buffer.write_from(host).unwrap());
            let queue = ["cuMemcpyHtoDAsync", "cuEventRecord"];
            assert_eq!(calls, [before, &queue].concat());
            let (host, calls) = t.calls(|| pending.wait().unwrap());
            assert_eq!(calls, [EXCHANGE, "cuEventSynchronize", EXCHANGE]);
            let (pending, calls) = t.calls(|| buffer.read_to(host).unwrap());
            assert_eq!(calls, [before, &["cuMemcpyDtoHAsync", "cuEventRecord"]].concat());
            if before.is_empty() {
                figure("driver_calls_per_owned_copy", calls.len());
            }
            pending.wait().unwrap();
        }
    });
}

#[test]
fn exact_counts_of_moving_a_buffer_to_another_stream() {
    run(|t| {
        let (one, two) = (created(t), created(t));
        let mut buffer = Buffer::<u8>::uninit(&one, 64).unwrap();
        let order = ["cuEventRecord", "cuStreamWaitEvent"];
        t.context()
            .with_current(|| {
                let (_, calls) = t.calls(|| buffer.move_to(&two).unwrap());
                assert_eq!(calls, [&[CURRENT, "cuEventCreate"][..], &order].concat());
                let (_, calls) = t.calls(|| buffer.move_to(&two).unwrap());
                assert_eq!(calls, [""; 0]);
                let (_, calls) = t.calls(|| buffer.move_to(&one).unwrap());
                assert_eq!(calls, order, "with an idle event");
                figure("driver_calls_per_move", calls.len());
            })
            .unwrap();
        let shown = exposed(t);
        let (_, calls) = t.calls(|| buffer.move_to(&shown).unwrap());
        assert_eq!(calls, [&[ASK][..], &order].concat(), "to an exposed stream");
        let (_, calls) = t.calls(|| buffer.move_to(&two).unwrap());
        assert_eq!(calls, [&[ASK][..], &order, &[ASK]].concat(), "from one");
    });
}

#[test]
fn exact_counts_of_closing_a_buffer_behind_other_work() {
    run(|t| {
        let (home, other) = (created(t), created(t));
        let buffer = || Buffer::<u8>::uninit(&home, 64).unwrap();
        let event = other.record_new(EventOptions::default()).unwrap();
        // Makes the event.
        buffer().close_after(&other).unwrap();
        let one = buffer();
        let (_, calls) = t.calls(|| one.close_after(&other).unwrap());
        let order = ["cuEventRecord", "cuStreamWaitEvent"];
        assert_eq!(calls, [&order, FREE].concat());
        let two = buffer();
        let (_, calls) = t.calls(|| two.close_after(&event).unwrap());
        assert_eq!(calls, [&["cuStreamWaitEvent"], FREE].concat());
    });
}

#[test]
fn exact_counts_of_copies_between_homes_and_of_batches() {
    run(|t| {
        let (one, two) = (created(t), created(t));
        let mut x = Buffer::<u32>::zeroed(&one, 64).unwrap();
        let y = Buffer::<u32>::zeroed(&two, 64).unwrap();
        // Makes the events.
        x.copy_across(&y).unwrap();
        let (_, calls) = t.calls(|| x.copy_across(&y).unwrap());
        let order = ["cuEventRecord", "cuStreamWaitEvent"];
        assert_eq!(calls, [&order[..], &["cuMemcpyDtoDAsync"], &order].concat());
        let z = Buffer::<u32>::zeroed(&one, 64).unwrap();
        let mut batch = CopyBatch::new();
        let (left, right) = x.split_at_mut(32).unwrap();
        batch.push(left, z.view(32..).unwrap()).unwrap();
        batch.push(right, z.view(..32).unwrap()).unwrap();
        let (_, calls) = t.calls(|| batch.queue().unwrap());
        assert_eq!(calls, [CURRENT, PUSH, "cuMemcpyBatchAsync", POP]);
    });
}

#[test]
fn exact_counts_of_boxes() {
    run(|t| {
        let stream = created(t);
        let mut x = Buffer::<u32>::zeroed(&stream, 64).unwrap();
        let y = Buffer::<u32>::zeroed(&stream, 64).unwrap();
        let rows = Grid::rect([3, 4]).pitch(4);
        let cube = Grid::cube([3, 4, 3]).pitch(4).slice_rows(5);
        let mut copy = |grid| {
            let from = y.as_view().grid(grid).unwrap();
            let mut to = x.as_view_mut().into_grid(grid).unwrap();
            let (_, copied) = t.calls(|| to.copy_from(from).unwrap());
            let (_, filled) = t.calls(|| to.fill(1).unwrap());
            (copied, filled)
        };
        assert_eq!(copy(rows), (vec!["cuMemcpy2DAsync"], vec!["cuMemsetD2D32Async"]));
        assert_eq!(copy(cube), (vec!["cuMemcpy3DAsync"], vec!["cuMemsetD2D32Async"; 3]));
        let whole = cube.slice_rows(4);
        assert_eq!(copy(whole), (vec!["cuMemcpy3DAsync"], vec!["cuMemsetD2D32Async"]));
        let packed = Grid::rect([8, 8]);
        assert_eq!(copy(packed), (vec!["cuMemcpyDtoDAsync"], vec!["cuMemsetD32Async"]));
        assert_eq!(copy(Grid::rect([0, 4])), (vec![], vec![]));
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
        let used = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let unused = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let default = Pool::default_of(t.device()).unwrap();
        let pooled = Buffer::<u8>::uninit_in(&used, &stream, 8).unwrap();
        let current = Buffer::<u8>::uninit(&stream, 8).unwrap();
        let host = HostBuffer::<u8>::zeroed(t.context(), 8).unwrap();
        let measured = [
            (ObjectKind::PoolMemory, ends(t, || drop(pooled))),
            (ObjectKind::AsyncMemory, ends(t, || drop(current))),
            (ObjectKind::HostMemory, ends(t, || drop(host))),
            (ObjectKind::Pool, ends(t, || drop(unused))),
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
