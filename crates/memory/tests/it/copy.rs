//! Copies and fills: bounds, patterns, staging memory.

use crate::{flip::World, raw};
use cuhold_driver_sim::SimOptions;
use cuhold_handles::{Context, ContextFlags, Device, ErrorKind, Stream};
use cuhold_memory::Buffer;
use cuhold_testkit::{Kit, run, run_with};
use proptest::prelude::*;
use std::{fmt::Debug, thread, time::Duration};

/// What a piece of staging memory holds.
const CHUNK: usize = 1 << 20;

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

/// Bytes that differ from place to place, also a chunk apart.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i % 251 + i / CHUNK) % 256).try_into().unwrap()).collect()
}

#[test]
fn slices_of_every_size_around_a_chunk_go_there_and_back() {
    run(|t| {
        let stream = stream(t);
        let around = [1, CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK, 4 * CHUNK + 3, 9 * CHUNK - 5];
        for len in around {
            let bytes = pattern(len);
            let buffer = Buffer::from_slice(&stream, &bytes).unwrap();
            assert!(buffer.to_vec().unwrap() == bytes, "{len}");
        }
    });
}

#[test]
fn elements_that_cross_a_chunk_s_end_stay_whole() {
    run(|t| {
        let elements: Vec<[u8; 3]> =
            pattern(3 * CHUNK).chunks_exact(3).map(|e| [e[0], e[1], e[2]]).collect();
        let buffer = Buffer::from_slice(&stream(t), &elements).unwrap();
        assert!(buffer.to_vec().unwrap() == elements);
    });
}

#[test]
fn views_copy_their_part_alone() {
    run(|t| {
        let stream = stream(t);
        let mut buffer = Buffer::from_slice(&stream, &[0_u16; 10]).unwrap();
        buffer.view_mut(2..5).unwrap().write_slice(&[1, 2, 3]).unwrap();
        let mut view = buffer.view_mut(5..).unwrap();
        view.view_mut(..=1).unwrap().fill(9).unwrap();
        let source = Buffer::from_slice(&stream, &[7, 8]).unwrap();
        view.view_mut(3..).unwrap().copy_from(source.view(..).unwrap()).unwrap();
        assert_eq!(view.as_view().to_vec().unwrap(), [9, 9, 0, 7, 8]);
        assert_eq!(buffer.to_vec().unwrap(), [0, 0, 1, 2, 3, 9, 9, 0, 7, 8]);
        let mut two = [0; 2];
        buffer.view(3..5).unwrap().read_into(&mut two).unwrap();
        assert_eq!(two, [2, 3]);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn views_of_views_are_the_parts_of_parts_of_a_slice(
        ranges in proptest::collection::vec((0_usize..40, 0_usize..40), 1..5),
        value in 1_u16..,
    ) {
        let world = World::new();
        let mut model: Vec<u16> = (0..32).collect();
        let mut buffer = Buffer::from_slice(&world.stream(), &model).unwrap();
        let (mut start, mut len) = (0, model.len());
        let mut view = buffer.as_view_mut();
        for (from, count) in ranges {
            // Refused where a slice would be, and nothing else is.
            let range = from..from + count;
            let fits = range.end <= len;
            prop_assert_eq!(view.as_view().view(range).is_ok(), fits);
            if fits {
                let (_, rest) = view.split_at_mut(from).unwrap();
                (view, _) = rest.split_at_mut(count).unwrap();
                (start, len) = (start + from, count);
            }
        }
        let part = &mut model[start..start + len];
        prop_assert_eq!(view.as_view().to_vec().unwrap(), part.to_vec());
        prop_assert_eq!((view.len(), view.size_bytes()), (len, 2 * len));
        view.fill(value).unwrap();
        part.fill(value);
        prop_assert_eq!(buffer.to_vec().unwrap(), model);
    }
}

#[test]
fn what_is_out_of_bounds_or_of_another_length_is_refused_before_any_call() {
    run(|t| {
        let stream = stream(t);
        let mut x = Buffer::<u32>::zeroed(&stream, 4).unwrap();
        let y = Buffer::<u32>::zeroed(&stream, 5).unwrap();
        let (errors, calls) = t.calls(|| {
            [
                x.view(3..6).unwrap_err(),
                x.view_mut(5..).unwrap_err(),
                x.view(..=4).unwrap_err(),
                x.write_slice(&[0; 3]).unwrap_err(),
                x.read_into(&mut [0; 5]).unwrap_err(),
                x.copy_from(&y).unwrap_err(),
                x.write_from(vec![0; 3]).unwrap_err().error,
                x.read_to(vec![0; 5]).unwrap_err().error,
            ]
        });
        assert!(calls.is_empty());
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Argument), "{errors:?}");
        assert_eq!(errors[3].to_string(), "src: 3 elements where the device memory has 4");
    });
}

#[test]
fn a_fill_takes_every_value_that_repeats_one_two_or_four_bytes() {
    fn fills<T: bytemuck::Pod + PartialEq + Debug>(t: &Kit, value: T, call: &'static str) {
        let mut buffer = Buffer::<T>::uninit(&stream(t), 5).unwrap();
        let (_, calls) = t.calls(|| buffer.fill(value).unwrap());
        assert_eq!(calls, [call]);
        assert_eq!(buffer.to_vec().unwrap(), [value; 5]);
    }
    run(|t| {
        fills(t, 7_u8, "cuMemsetD8Async");
        fills(t, [7_u8; 3], "cuMemsetD8Async");
        fills(t, -2_i16, "cuMemsetD16Async");
        fills(t, [[1_u8, 2], [1, 2], [1, 2]], "cuMemsetD16Async");
        fills(t, 1.5_f32, "cuMemsetD32Async");
        fills(t, 0.0_f64, "cuMemsetD32Async");
        fills(t, [0.25_f32; 3], "cuMemsetD32Async");
        let mut buffer = Buffer::<f64>::uninit(&stream(t), 5).unwrap();
        let error = buffer.fill(1.1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().starts_with("value: "), "{error}");
    });
}

#[test]
fn copies_of_slices_beside_a_global_capture_leave_it_alone() {
    run(|t| {
        let (captured, work) = (stream(t), stream(t));
        let mut buffer = Buffer::<u8>::zeroed(&work, 8).unwrap();
        raw::begin(&captured, raw::GLOBAL);
        buffer.write_slice(&[3; 8]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [3; 8]);
        thread::scope(|scope| {
            let copy = scope.spawn(|| buffer.to_vec().unwrap());
            assert_eq!(copy.join().unwrap(), [3; 8]);
        });
        assert!(raw::is_captured(&captured));
        assert_eq!(raw::mode(t.driver()), raw::GLOBAL);
        raw::end(&captured);
    });
}

#[test]
fn many_threads_copy_at_once() {
    fn copies(device: &Device) {
        let stream = device.new_stream().unwrap();
        for len in [10, CHUNK + 1, 5 * CHUNK] {
            let bytes = pattern(len);
            let buffer = Buffer::from_slice(&stream, &bytes).unwrap();
            assert!(buffer.to_vec().unwrap() == bytes);
        }
    }
    run(|t| {
        let device = t.device();
        thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(|| copies(device)))));
        // What there was no room to keep is ended by the reclaimer.
        device.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn staging_memory_ends_with_its_context() {
    run(|t| {
        let context = Context::new(t.device(), ContextFlags::default()).unwrap();
        let stream = context.new_stream().unwrap();
        let buffer = Buffer::from_slice(&stream, &pattern(3 * CHUNK)).unwrap();
        drop((buffer, stream));
        let (_, calls) = t.calls(|| context.close().unwrap());
        let count = |name| calls.iter().filter(|call| **call == name).count();
        let ended = (count("cuEventDestroy"), count("cuMemFreeHost"), count("cuCtxDestroy"));
        assert_eq!(ended, (3, 3, 1));
    });
}

#[test]
fn a_context_of_somebody_else_s_keeps_no_staging_memory() {
    run(|t| {
        let own = Context::new(t.device(), ContextFlags::default()).unwrap();
        let lent = raw::borrowed_context(&own);
        let stream = lent.new_stream().unwrap();
        let buffer = Buffer::from_slice(&stream, &[1, 2, 3]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
        drop((buffer, stream, lent));
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
        let (_, calls) = t.calls(|| own.close().unwrap());
        assert_eq!(calls, ["cuCtxDestroy"]);
    });
}

#[test]
fn copies_work_whatever_context_is_current() {
    run_with(SimOptions::with_devices(2), |t| {
        let stream = stream(t);
        let mut buffer = Buffer::<u8>::zeroed(&stream, 2 * CHUNK).unwrap();
        let bytes = pattern(2 * CHUNK);
        let mut there_and_back = || {
            buffer.write_slice(&bytes).unwrap();
            assert!(buffer.to_vec().unwrap() == bytes);
            let sent = buffer.write_from(bytes.clone()).unwrap();
            assert!(sent.wait().unwrap() == bytes);
        };
        there_and_back();
        let second = Context::new(t.device(), ContextFlags::default()).unwrap();
        second.with_current(&mut there_and_back).unwrap();
        if t.driver().device_count().unwrap() > 1 {
            // A library of which this driver value knows nothing.
            let driver = t.driver().isolated();
            let stranger = Device::with_driver(&driver, 1).unwrap();
            stranger.with_current(&mut there_and_back).unwrap();
            drop(stranger);
            driver.close().unwrap();
        }
        if let Some(other) = t.second_device() {
            other.with_current(&mut there_and_back).unwrap();
        }
        second.close().unwrap();
    });
}

#[test]
fn copies_on_a_default_stream_run_in_its_context() {
    run(|t| {
        let context = Context::new(t.device(), ContextFlags::default()).unwrap();
        let stream = Stream::legacy(&context);
        let mut buffer = Buffer::from_slice(&stream, &pattern(CHUNK + 1)).unwrap();
        let source = Buffer::from_slice(&stream, &vec![1; CHUNK + 1]).unwrap();
        buffer.copy_from(&source).unwrap();
        assert!(buffer.to_vec().unwrap() == vec![1; CHUNK + 1]);
        let received = buffer.read_to(vec![0; CHUNK + 1]).unwrap();
        assert!(received.is_done().is_ok());
        assert!(received.wait().unwrap() == vec![1; CHUNK + 1]);
        assert!(raw::current(t.driver()).is_null());
        drop((buffer, source, stream));
        context.close().unwrap();
    });
}
