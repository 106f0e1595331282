//! Buffers: how they are made, what they refuse, their home streams.

use crate::raw;
use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::CUresult;
use cuhold_handles::{Context, ContextFlags, Device, ErrorKind, KernelArg, Stream};
use cuhold_memory::{Buffer, Pool, PoolOptions};
use cuhold_testkit::{Kit, run, run_with};
use std::sync::Arc;

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

#[test]
fn elements_come_back_as_they_went() {
    run(|t| {
        let stream = stream(t);
        let floats = Buffer::from_slice(&stream, &[1.5_f64, -0.0, f64::INFINITY]).unwrap();
        assert_eq!(floats.to_vec().unwrap(), [1.5, 0.0, f64::INFINITY]);
        let rows = Buffer::from_slice(&stream, &[[1_u8, 2, 3], [4, 5, 6]]).unwrap();
        assert_eq!((rows.len(), rows.size_bytes(), rows.is_empty()), (2, 6, false));
        assert_eq!(rows.to_vec().unwrap(), [[1, 2, 3], [4, 5, 6]]);
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let zeroes = Buffer::<u64>::zeroed_in(&pool, &stream, 5).unwrap();
        assert_eq!(zeroes.to_vec().unwrap(), [0; 5]);
        let ones = Buffer::from_slice_in(&pool, &stream, &[1; 5]).unwrap();
        assert_eq!(ones.to_vec().unwrap(), [1; 5]);
    });
}

#[test]
fn a_length_that_overflows_is_refused_before_any_call() {
    run(|t| {
        let stream = stream(t);
        for len in [usize::MAX, usize::MAX / 8 + 1, isize::MAX.unsigned_abs() / 8 + 1] {
            let (error, calls) = t.calls(|| Buffer::<u64>::uninit(&stream, len).unwrap_err());
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert!(error.to_string().starts_with("len: "), "{error}");
            assert!(calls.is_empty());
        }
    });
}

#[test]
fn more_memory_than_there_is_is_the_driver_s_error() {
    run(|t| {
        let stream = stream(t);
        let error = Buffer::<u8>::uninit(&stream, 1 << 45).unwrap_err();
        assert!(error.is(CUresult::OUT_OF_MEMORY), "{error}");
        drop(Buffer::<u8>::zeroed(&stream, 100).unwrap());
    });
}

#[test]
fn a_stream_that_nobody_keeps_alive_is_no_home() {
    run(|t| {
        let own = stream(t);
        let lent = raw::borrowed(&own, None);
        let mut buffer = Buffer::<u8>::uninit(&own, 8).unwrap();
        for error in [
            Buffer::<u8>::uninit(&lent, 8).unwrap_err(),
            Buffer::<u8>::uninit(&lent, 0).unwrap_err(),
            Buffer::<u8>::from_slice(&lent, &[1]).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert!(error.to_string().contains("borrowed without an owner"), "{error}");
        }
        // It is the same stream, so nothing moves.
        buffer.move_to(&lent).unwrap();
        let other = stream(t);
        buffer.move_to(&other).unwrap();
        assert!(buffer.move_to(&lent).unwrap_err().to_string().contains("without an owner"));
        let kept = raw::borrowed(&own, Some(Arc::new(own.clone())));
        buffer.move_to(&kept).unwrap();
        drop(own);
        assert_eq!(buffer.stream(), &kept);
    });
}

#[test]
fn objects_of_two_drivers_do_not_meet_in_a_buffer() {
    run(|t| {
        let driver = t.driver().isolated();
        let other = Device::with_driver(&driver, 0).unwrap();
        let stranger = other.new_stream().unwrap();
        let foreign = Buffer::<u8>::uninit(&stranger, 8).unwrap();
        let mut own = Buffer::<u8>::uninit(&stream(t), 8).unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let (errors, calls) = t.calls(|| {
            [
                Buffer::<u8>::uninit_in(&pool, &stranger, 8).unwrap_err(),
                own.copy_from(&foreign).unwrap_err(),
                own.move_to(&stranger).unwrap_err(),
                KernelArg::repr(&&foreign, t.driver()).unwrap_err(),
                foreign.as_view().repr(t.driver()).unwrap_err(),
            ]
        });
        assert!(calls.is_empty());
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert!(error.to_string().contains("another driver"), "{error}");
        }
        drop((foreign, stranger, other));
        driver.close().unwrap();
    });
}

#[test]
fn operations_between_two_homes_are_refused_and_say_what_to_do() {
    run(|t| {
        let (one, two) = (stream(t), stream(t));
        let mut x = Buffer::<u8>::zeroed(&one, 8).unwrap();
        let mut y = Buffer::<u8>::zeroed(&two, 8).unwrap();
        let (error, calls) = t.calls(|| x.copy_from(&y).unwrap_err());
        assert!(error.to_string().contains("`move_to`") && calls.is_empty(), "{error}");
        y.fill(3).unwrap();
        y.move_to(&one).unwrap();
        x.copy_from(&y).unwrap();
        assert_eq!(x.to_vec().unwrap(), [3; 8]);
    });
}

#[test]
fn a_buffer_moves_between_contexts_of_its_device_but_not_to_a_device_without_access() {
    run_with(SimOptions::with_devices(2), |t| {
        let context = Context::new(t.device(), ContextFlags::default()).unwrap();
        let there = context.new_stream().unwrap();
        let mut buffer = Buffer::from_slice(&stream(t), &[1, 2, 3]).unwrap();
        buffer.move_to(&there).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
        if let Some(other) = t.second_device() {
            let error = buffer.move_to(&other.new_stream().unwrap()).unwrap_err();
            let text = "stream: it is of device 1, which has no access to this memory of device 0";
            assert_eq!(error.to_string(), text);
        }
        assert_eq!(buffer.stream(), &there);
        drop((buffer, there));
        context.close().unwrap();
    });
}

#[test]
fn safe_work_never_becomes_part_of_somebody_s_capture() {
    run(|t| {
        let (captured, other) = (stream(t), stream(t));
        let mut buffer = Buffer::<u32>::zeroed(&captured, 8).unwrap();
        let source = Buffer::<u32>::zeroed(&captured, 8).unwrap();
        let mut elsewhere = Buffer::<u32>::zeroed(&other, 8).unwrap();
        raw::begin(&captured, raw::RELAXED);
        let (mut errors, calls) = t.calls(|| {
            vec![
                Buffer::<u32>::uninit(&captured, 8).unwrap_err(),
                Buffer::<u32>::zeroed(&captured, 8).unwrap_err(),
                buffer.fill(1).unwrap_err(),
                buffer.copy_from(&source).unwrap_err(),
                buffer.write_slice(&[1; 8]).unwrap_err(),
                buffer.to_vec().unwrap_err(),
                buffer.move_to(&other).unwrap_err(),
                elsewhere.move_to(&captured).unwrap_err(),
            ]
        });
        // S38: the driver never hears of the work, so that no node of it reads or writes what is gone at the launch.
        let is_work = |call: &&&str| call.starts_with("cuMemcpy") || call.starts_with("cuMemset");
        assert_eq!(calls.iter().find(is_work), None, "{calls:?}");
        let refused = buffer.write_from(vec![1; 8]).unwrap_err();
        assert_eq!(refused.value.wait().unwrap(), [1; 8]);
        errors.push(refused.error);
        let refused = buffer.read_to(vec![1; 8]).unwrap_err();
        assert_eq!(refused.value.wait().unwrap(), [1; 8]);
        errors.push(refused.error);
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::State, "{error}");
            assert!(error.to_string().contains("being captured"), "{error}");
        }
        assert!(raw::is_captured(&captured));
        raw::end(&captured);
        assert_eq!(buffer.to_vec().unwrap(), [0; 8]);
    });
}

#[test]
fn a_default_stream_beside_a_capture_is_refused_and_the_capture_goes_on() {
    run(|t| {
        let captured = raw::blocking(t.context());
        let legacy = t.device().legacy_stream();
        let mut buffer = Buffer::<u8>::zeroed(&legacy, 8).unwrap();
        raw::begin(&captured, raw::RELAXED);
        for error in [Buffer::<u8>::uninit(&legacy, 8).unwrap_err(), buffer.fill(1).unwrap_err()] {
            assert!(error.is(CUresult::STREAM_CAPTURE_IMPLICIT), "{error}");
        }
        let refused = buffer.close().unwrap_err();
        assert!(refused.error.is(CUresult::STREAM_CAPTURE_IMPLICIT), "{}", refused.error);
        assert!(raw::is_captured(&captured));
        raw::end(&captured);
        refused.value.unwrap().close().unwrap();
    });
}

#[test]
fn a_buffer_is_a_pointer_for_a_kernel() {
    run(|t| {
        let mut buffer = Buffer::<u32>::uninit(&stream(t), 8).unwrap();
        let ptr = buffer.device_ptr();
        assert_ne!(ptr, 0);
        let address = |argument: &dyn KernelArg<Repr = u64>| argument.repr(t.driver()).unwrap();
        assert_eq!(address(&&buffer), ptr);
        assert_eq!(address(&&mut buffer), ptr);
        assert_eq!(address(&buffer.view(3..).unwrap()), ptr + 12);
        assert_eq!(address(&&mut buffer.view_mut(2..4).unwrap()), ptr + 8);
        assert_eq!(address(&buffer.view(8..).unwrap()), 0);
    });
}

#[test]
#[expect(unsafe_code, reason = "gives memory away and takes it back")]
fn memory_is_given_away_and_taken_over() {
    run(|t| {
        let stream = stream(t);
        let buffer = Buffer::from_slice(&stream, &[1_u32, 2, 3, 4]).unwrap();
        let ptr = buffer.into_raw().unwrap();
        // SAFETY: given away a moment ago.
        let bytes = unsafe { Buffer::<u8>::from_raw(&stream, ptr, 16) }.unwrap();
        assert_eq!(bytes.to_vec().unwrap()[4..8], 2_u32.to_ne_bytes());
        let kept = bytes.keep();
        let bytes = bytes.into_raw().unwrap_err();
        drop((bytes, kept));
        for (ptr, len) in [(0, 1), (7, 1)] {
            // SAFETY: refused.
            let error = unsafe { Buffer::<u32>::from_raw(&stream, ptr, len) }.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument);
        }
        // SAFETY: no elements.
        assert!(unsafe { Buffer::<u32>::from_raw(&stream, 0, 0) }.unwrap().is_empty());
    });
}
