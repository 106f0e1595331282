//! Copies in batches and with options, on drivers of several versions.

#![expect(unsafe_code, reason = "adds raw copies")]

use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::{CUresult, Call, Fault, Version};
use cuhold_handles::{ErrorKind, Stream};
use cuhold_memory::{Buffer, CopyBatch, CopyOptions, HostBuffer, Location, SourceOrder};
use cuhold_testkit::{Kit, run, run_with};

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

fn version(version: i32) -> SimOptions {
    let mut options = SimOptions::default();
    options.driver_version = Version(version);
    options
}

/// Three copies with options of their own; the calls that were made.
fn three(t: &Kit, stream: &Stream, options: [CopyOptions; 3]) -> Vec<&'static str> {
    let from = Buffer::from_slice(stream, &[1_u32, 2, 3, 4, 5, 6]).unwrap();
    let mut to = Buffer::<u32>::zeroed(stream, 6).unwrap();
    let (left, rest) = to.split_at_mut(2).unwrap();
    let (middle, right) = rest.split_at_mut(2).unwrap();
    let mut batch = CopyBatch::new();
    batch.push_with(left, from.view(4..).unwrap(), options[0]).unwrap();
    batch.push_with(middle, from.view(2..4).unwrap(), options[1]).unwrap();
    batch.push_with(right, from.view(..2).unwrap(), options[2]).unwrap();
    assert_eq!(batch.len(), 3);
    let (_, calls) = t.calls(|| batch.queue().unwrap());
    assert_eq!(to.to_vec().unwrap(), [5, 6, 3, 4, 1, 2]);
    calls.into_iter().filter(|call| call.starts_with("cuMemcpy")).collect()
}

fn some_options() -> [CopyOptions; 3] {
    let any = CopyOptions::default().source_order(SourceOrder::Any);
    [any, any.overlapping_compute(), any.source_hint(Location::Device(0))]
}

#[test]
fn a_batch_is_one_call_where_the_driver_has_it() {
    run(|t| {
        let calls = three(t, &stream(t), some_options());
        assert!(calls.contains(&"cuMemcpyBatchAsync"), "{calls:?}");
        assert!(!calls.contains(&"cuMemcpyAsync"), "{calls:?}");
    });
}

#[test]
fn a_driver_of_12_8_has_an_older_form_of_the_batch() {
    run_with(version(12_080), |t| {
        let calls = three(t, &stream(t), some_options());
        assert!(!calls.contains(&"cuMemcpyAsync"), "{calls:?}");
    });
}

#[test]
fn an_older_driver_and_a_default_stream_make_the_copies_one_after_the_other() {
    run_with(version(12_000), |t| {
        if t.sim().is_some() {
            let calls = three(t, &stream(t), some_options());
            let each = calls.iter().filter(|call| **call == "cuMemcpyAsync").count();
            assert_eq!(each, 3, "{calls:?}");
        }
        let calls = three(t, &t.device().legacy_stream(), [CopyOptions::default(); 3]);
        assert_eq!(calls, ["cuMemcpyAsync"; 3]);
    });
}

#[test]
fn a_source_that_is_to_be_read_during_the_call_is_refused_where_nobody_can_promise_that() {
    run_with(version(12_000), |t| {
        if t.sim().is_none() {
            return t.skip("needs a driver older than 12.8");
        }
        let stream = stream(t);
        let from = Buffer::from_slice(&stream, &[1_u8; 8]).unwrap();
        let mut to = Buffer::<u8>::zeroed(&stream, 8).unwrap();
        let during = CopyOptions::default().source_order(SourceOrder::DuringCall);
        let error = to.as_view_mut().copy_from_with(&from, during).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
        assert!(error.to_string().starts_with("options: "), "{error}");
        let mut batch = CopyBatch::new();
        batch.push_with(to.as_view_mut(), &from, during).unwrap();
        assert_eq!(batch.queue().unwrap_err().kind(), ErrorKind::Missing);
        assert_eq!(to.to_vec().unwrap(), [0; 8], "nothing was copied");
        // The other hints are dispensable.
        let any = CopyOptions::default().source_order(SourceOrder::Any);
        to.as_view_mut().copy_from_with(&from, any).unwrap();
        assert_eq!(to.to_vec().unwrap(), [1; 8]);
    });
}

#[test]
fn one_copy_with_options_takes_the_newest_way_that_the_driver_has() {
    for (driver, call) in [
        (13_020, "cuMemcpyWithAttributesAsync"),
        (12_080, "cuMemcpyBatchAsync"),
        (12_000, "cuMemcpyDtoDAsync"),
    ] {
        run_with(version(driver), |t| {
            let stream = stream(t);
            let from = Buffer::from_slice(&stream, &[1_u8; 8]).unwrap();
            let mut to = Buffer::<u8>::zeroed(&stream, 8).unwrap();
            let any = CopyOptions::default().source_order(SourceOrder::Any);
            let hinted = any.destination_hint(Location::Device(t.device().as_raw()));
            let mut view = to.as_view_mut();
            let (_, calls) = t.calls(|| view.copy_from_with(&from, hinted).unwrap());
            if t.sim().is_some() {
                let last = calls.iter().rfind(|call| call.starts_with("cuMemcpy"));
                assert_eq!(last, Some(&call), "{calls:?}");
            }
            assert_eq!(to.to_vec().unwrap(), [1; 8]);
        });
    }
}

#[test]
fn options_on_a_default_stream_and_ends_of_different_homes_are_refused() {
    run(|t| {
        let legacy = t.device().legacy_stream();
        let from = Buffer::from_slice(&legacy, &[1_u8; 8]).unwrap();
        let mut to = Buffer::<u8>::zeroed(&legacy, 8).unwrap();
        let any = CopyOptions::default().source_order(SourceOrder::Any);
        let error = to.as_view_mut().copy_from_with(&from, any).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        let mut batch = CopyBatch::new();
        batch.push_with(to.as_view_mut(), &from, any).unwrap();
        assert_eq!(batch.queue().unwrap_err().kind(), ErrorKind::Argument);
        let elsewhere = Buffer::<u8>::zeroed(&stream(t), 8).unwrap();
        let refused = CopyBatch::new().push(to.as_view_mut(), &elsewhere).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Argument, "{refused}");
        let mut batch = CopyBatch::new();
        let (left, right) = to.split_at_mut(4).unwrap();
        batch.push(left, from.view(..4).unwrap()).unwrap();
        let error = batch.push(right, from.view(..3).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "src: 3 elements where the device memory has 4");
        let mut own = Buffer::<u8>::zeroed(elsewhere.stream(), 8).unwrap();
        let error = batch.push(own.as_view_mut(), &elsewhere).unwrap_err();
        assert!(error.to_string().contains("copies before"), "{error}");
        batch.queue().unwrap();
    });
}

#[test]
fn a_batch_of_nothing_makes_no_call() {
    run(|t| {
        let stream = stream(t);
        let from = Buffer::<u8>::zeroed(&stream, 8).unwrap();
        let mut to = Buffer::<u8>::zeroed(&stream, 8).unwrap();
        let (_, calls) = t.calls(|| {
            CopyBatch::new().queue().unwrap();
            let mut batch = CopyBatch::new();
            batch.push(to.view_mut(..0).unwrap(), from.view(..0).unwrap()).unwrap();
            assert!(batch.is_empty());
            batch.queue().unwrap();
        });
        assert_eq!(calls, [""; 0]);
    });
}

#[test]
fn copies_that_are_made_one_after_the_other_say_how_many_were_queued() {
    run(|t| {
        let legacy = t.device().legacy_stream();
        let from = Buffer::from_slice(&legacy, &[1_u8; 9]).unwrap();
        let mut to = Buffer::<u8>::zeroed(&legacy, 9).unwrap();
        let (left, rest) = to.split_at_mut(3).unwrap();
        let (middle, right) = rest.split_at_mut(3).unwrap();
        let mut batch = CopyBatch::new();
        for view in [left, middle, right] {
            batch.push(view, from.view(..3).unwrap()).unwrap();
        }
        t.faults().arm(Fault::refused(CUresult(9001)).on(Call::cuMemcpyAsync).nth(3));
        let error = batch.queue().unwrap_err();
        t.faults().disarm();
        assert!(error.is(CUresult(9001)), "{error}");
        assert_eq!(error.completed(), Some(2));
        assert_eq!(to.to_vec().unwrap(), [1, 1, 1, 1, 1, 1, 0, 0, 0]);
    });
}

#[test]
fn raw_copies_of_page_locked_memory_are_part_of_a_batch() {
    run(|t| {
        let stream = stream(t);
        let host = HostBuffer::from_slice(t.context(), &[1_u8, 2, 3, 4]).unwrap();
        let mut to = Buffer::<u8>::zeroed(&stream, 4).unwrap();
        let from = host.as_ptr().addr() as u64;
        let ends = [to.device_ptr(), from];
        let mut batch = CopyBatch::new();
        // SAFETY: both have four bytes, and outlive the wait below.
        unsafe { batch.push_raw(&stream, ends, 4, CopyOptions::default()) }.unwrap();
        batch.queue().unwrap();
        stream.synchronize().unwrap();
        assert_eq!(to.as_view_mut().as_view().to_vec().unwrap(), [1, 2, 3, 4]);
    });
}
