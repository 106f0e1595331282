//! Copies of slices as options say: on several threads, past the caches, telling how far they came.

use crate::{flip::World, raw};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{ErrorKind, Stream};
use cuhold_memory::{Buffer, StagingOptions};
use cuhold_testkit::{Kit, run};
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

const MIB: usize = 1 << 20;
const E: CUresult = CUresult(9001);

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i % 251 + i / MIB) % 256).try_into().unwrap()).collect()
}

/// On several threads although it is small.
fn spread() -> StagingOptions {
    StagingOptions::default().threads(3).bytes_per_thread(MIB).chunk_bytes(MIB / 4)
}

#[test]
fn a_copy_tells_how_far_it_came_and_at_last_that_all_is_done() {
    run(|t| {
        let stream = stream(t);
        let len = 5 * MIB + 3;
        let bytes = pattern(len);
        let mut buffer = Buffer::<u8>::uninit(&stream, len).unwrap();
        let steps: Vec<usize> = (1..=5).map(|step| step * MIB).chain([len]).collect();
        let options = StagingOptions::default();
        let mut told = Vec::new();
        buffer.as_view_mut().write_slice_with(&bytes, options, |done| told.push(done)).unwrap();
        assert_eq!(told, steps);
        let (mut back, mut told) = (vec![0; len], Vec::new());
        buffer.as_view().read_into_with(&mut back, options, |done| told.push(done)).unwrap();
        assert_eq!(told, steps);
        assert!(back == bytes);
    });
}

#[test]
fn a_copy_is_right_with_every_number_of_threads_and_chunks_and_past_the_caches() {
    run(|t| {
        let stream = stream(t);
        let len = 4 * MIB + 77;
        let bytes = pattern(len);
        for threads in 1..=4 {
            for chunks in [1, 2, 8] {
                for streaming_bytes in [0, usize::MAX] {
                    let options =
                        spread().threads(threads).chunks(chunks).streaming_bytes(streaming_bytes);
                    let mut buffer = Buffer::<u8>::zeroed(&stream, len).unwrap();
                    let (mut back, mut last) = (vec![0; len], [0; 2]);
                    let mut view = buffer.as_view_mut();
                    view.write_slice_with(&bytes, options, |done| last[0] = done).unwrap();
                    let view = view.as_view();
                    view.read_into_with(&mut back, options, |done| last[1] = done).unwrap();
                    assert!(back == bytes, "{options:?}");
                    assert_eq!(last, [len; 2]);
                }
            }
        }
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn a_large_copy_is_made_by_several_threads_and_disturbs_no_capture() {
    run(|t| {
        let (stream, captured) = (stream(t), stream(t));
        let len = 40 * MIB;
        let bytes = pattern(len);
        let mut buffer = Buffer::<u8>::uninit(&stream, len).unwrap();
        raw::begin(&captured, raw::GLOBAL);
        let ((), entries) = t.entries(|| buffer.write_slice(&bytes).unwrap());
        let threads: BTreeSet<String> =
            entries.iter().map(|entry| format!("{:?}", entry.thread())).collect();
        assert_eq!(threads.len(), 2);
        assert!(buffer.to_vec().unwrap() == bytes);
        assert!(raw::is_captured(&captured));
        raw::end(&captured);
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn a_panic_while_progress_is_told_goes_on_and_leaves_nothing_lost() {
    run(|t| {
        let stream = stream(t);
        let len = 6 * MIB;
        let mut bytes = pattern(len);
        let mut buffer = Buffer::<u8>::zeroed(&stream, len).unwrap();
        let mode = raw::mode(t.driver());
        for options in [StagingOptions::default(), spread()] {
            let write = AssertUnwindSafe(|| {
                let mut view = buffer.as_view_mut();
                view.write_slice_with(&bytes, options, |_| panic!("the user's own"))
            });
            let payload = catch_unwind(write).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&"the user's own"));
            let mut back = vec![0; len];
            let read = AssertUnwindSafe(|| {
                let view = buffer.as_view();
                view.read_into_with(&mut back, options, |_| panic!("the user's own"))
            });
            let payload = catch_unwind(read).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&"the user's own"));
            assert_eq!(raw::mode(t.driver()), mode);
            // What the slices hold now is the caller's alone.
            bytes[0] = bytes[0].wrapping_add(1);
            back.clear();
            t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
            buffer.write_slice(&bytes).unwrap();
            assert!(buffer.to_vec().unwrap() == bytes);
        }
    });
}

#[test]
fn a_failure_on_any_thread_ends_the_copy_and_says_how_many_pieces_were_queued() {
    let world = World::new();
    let stream = world.stream();
    let bytes = pattern(8 * MIB);
    let mut buffer = Buffer::<u8>::zeroed(&stream, bytes.len()).unwrap();
    for call in [Call::cuMemcpyHtoDAsync_v2, Call::cuEventRecord, Call::cuEventSynchronize] {
        for nth in [1, 5, 12] {
            world.faults().arm(Fault::refused(E).on(call).nth(nth));
            let told = world.warnings(|| {
                let mut view = buffer.as_view_mut();
                let error = view.write_slice_with(&bytes, spread(), |_| {}).unwrap_err();
                assert!(error.is(E), "{call} {nth}: {error}");
                assert!(error.completed().is_none_or(|queued| queued <= 32));
            });
            world.faults().disarm();
            assert_eq!(told, [], "{call} {nth}");
            buffer.write_slice(&bytes).unwrap();
            assert!(buffer.to_vec().unwrap() == bytes);
        }
    }
    world.driver.reclaim().drain(Duration::from_secs(10)).unwrap();
}

#[test]
fn options_that_are_out_of_bounds_are_refused_before_any_call() {
    run(|t| {
        let mut buffer = Buffer::<u8>::zeroed(&stream(t), 8).unwrap();
        let wrong = StagingOptions::default().chunks(0);
        let (errors, calls) = t.calls(|| {
            [
                buffer.as_view_mut().write_slice_with(&[0; 8], wrong, |_| {}).unwrap_err(),
                buffer.as_view().read_into_with(&mut [0; 8], wrong, |_| {}).unwrap_err(),
            ]
        });
        assert_eq!(calls, [""; 0]);
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert!(error.to_string().contains("chunks is 0"), "{error}");
        }
    });
}
