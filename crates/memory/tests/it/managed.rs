//! Hints for managed memory, on drivers of several versions.

#![expect(unsafe_code, reason = "refers to memory by its address")]

use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::{
    CUresult, Version,
    ffi::{CU_DEVICE_CPU, CUmem_range_attribute, c_int},
};
use cuhold_handles::{Attach, ErrorKind, ManagedMemory, Stream};
use cuhold_memory::{
    Advice, Buffer, Location, discard_and_prefetch_batch, discard_batch, prefetch_batch,
};
use cuhold_testkit::{Kit, run, run_with};
use std::sync::Arc;

const LEN: usize = 4 << 20;

fn managed(t: &Kit, stream: &Stream) -> Buffer<u8> {
    let memory = ManagedMemory::new(t.context(), LEN, Attach::Global).unwrap();
    let (ptr, owner) = (memory.as_raw(), Arc::new(memory));
    // SAFETY: the owner keeps the memory alive, and nobody else uses it.
    unsafe { Buffer::borrow_raw(stream, ptr, LEN, Some(owner)) }.unwrap()
}

fn ask(t: &Kit, buffer: &Buffer<u8>, which: CUmem_range_attribute) -> c_int {
    let (mut value, ptr): (c_int, _) = (99, buffer.device_ptr());
    let to = (&raw mut value).cast();
    // SAFETY: *pointers*: a live local of four bytes, and live managed memory.
    let asked = || unsafe { t.driver().calls().cuMemRangeGetAttribute(to, 4, which, ptr, LEN) };
    t.context().with_current(asked).unwrap().unwrap();
    value
}

fn last_sent_to(t: &Kit, buffer: &Buffer<u8>) -> c_int {
    ask(t, buffer, CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION)
}

fn version(version: i32) -> SimOptions {
    let mut options = SimOptions::default();
    options.driver_version = Version(version);
    options
}

#[test]
fn pages_are_sent_where_they_are_told_in_the_stream_s_order_on_drivers_old_and_new() {
    for driver in [12_000, 12_020, 13_000] {
        run_with(version(driver), |t| {
            let stream = t.device().new_stream().unwrap();
            let mut buffer = managed(t, &stream);
            buffer.fill(1).unwrap();
            let here = Location::Device(t.device().as_raw());
            buffer.as_view().prefetch(here).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(last_sent_to(t, &buffer), 0);
            let (left, right) = buffer.split_at(LEN / 2).unwrap();
            prefetch_batch(&[(left, Location::Host), (right, Location::Host)]).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(last_sent_to(t, &buffer), CU_DEVICE_CPU);
            assert!(buffer.to_vec().unwrap() == [1; LEN]);
        });
    }
}

#[test]
fn advice_holds_at_once_and_beside_a_capture() {
    run(|t| {
        let (stream, captured) =
            (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        let buffer = managed(t, &stream);
        let read_mostly = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
        let preferred = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
        crate::raw::begin(&captured, crate::raw::GLOBAL);
        buffer.as_view().advise(Advice::ReadMostly).unwrap();
        buffer.as_view().advise(Advice::Prefer(Location::Host)).unwrap();
        assert!(crate::raw::is_captured(&captured));
        crate::raw::end(&captured);
        assert_eq!((ask(t, &buffer, read_mostly), ask(t, &buffer, preferred)), (1, CU_DEVICE_CPU));
        buffer.as_view().advise(Advice::NotReadMostly).unwrap();
        buffer.as_view().advise(Advice::PreferNowhere).unwrap();
        assert_eq!(ask(t, &buffer, read_mostly), 0);
        for advice in
            [Advice::AccessedBy(Location::Device(0)), Advice::NotAccessedBy(Location::Host)]
        {
            buffer.as_view().advise(advice).unwrap();
        }
    });
}

#[test]
fn discarded_memory_is_usable_again_and_an_old_driver_says_that_it_can_t() {
    run_with(version(13_000), |t| {
        let stream = t.device().new_stream().unwrap();
        let mut buffer = managed(t, &stream);
        buffer.fill(1).unwrap();
        let here = Location::Device(t.device().as_raw());
        let discarded = buffer.as_view_mut().discard();
        if t.sim().is_none() && discarded.as_ref().is_err_and(|e| e.kind() == ErrorKind::Missing) {
            return t.skip("needs a driver of 13.0");
        }
        discarded.unwrap();
        buffer.as_view_mut().discard_and_prefetch(here).unwrap();
        discard_batch(&mut <[_; 2]>::from(buffer.split_at_mut(LEN / 2).unwrap())).unwrap();
        let (left, right) = buffer.split_at_mut(LEN / 2).unwrap();
        discard_and_prefetch_batch(&mut [(left, here), (right, Location::Host)]).unwrap();
        buffer.fill(2).unwrap();
        assert!(buffer.to_vec().unwrap() == [2; LEN]);
        let mut legacy = managed(t, &t.device().legacy_stream());
        let error = legacy.as_view_mut().discard().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    });
    run_with(version(12_090), |t| {
        if t.sim().is_none() {
            return;
        }
        let stream = t.device().new_stream().unwrap();
        let mut buffer = managed(t, &stream);
        let error = buffer.as_view_mut().discard().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
    });
}

#[test]
fn memory_that_is_not_managed_takes_no_hints_and_the_error_says_why() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let buffer = Buffer::<u8>::zeroed(&stream, 64).unwrap();
        let advised = buffer.as_view().advise(Advice::ReadMostly);
        for error in [buffer.as_view().prefetch(Location::Host), advised].map(Result::unwrap_err) {
            assert!(error.is(CUresult::INVALID_VALUE), "{error}");
            assert!(error.to_string().contains("only managed memory takes hints"), "{error}");
        }
        let (_, calls) = t.calls(|| {
            buffer.view(..0).unwrap().prefetch(Location::Host).unwrap();
            prefetch_batch::<u8>(&[]).unwrap();
        });
        assert_eq!(calls, [""; 0]);
        assert_eq!(buffer.to_vec().unwrap(), [0; 64]);
    });
}

#[test]
fn a_numa_node_is_refused_by_a_driver_that_knows_none() {
    run_with(version(12_000), |t| {
        if t.sim().is_none() {
            return t.skip("needs a driver older than 12.2");
        }
        let stream = t.device().new_stream().unwrap();
        let buffer = managed(t, &stream);
        let error = buffer.as_view().prefetch(Location::HostNuma(0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
    });
}
