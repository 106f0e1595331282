//! Home streams: a buffer used from two contexts and two devices, moved, freed behind other work.

#![expect(unsafe_code, reason = "work of another stream is queued by hand")]

use crate::{flip::World, raw};
use cuhold_driver_sim::{ObjectKind, Sim, SimOptions, ViolationKind};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{
    Closed, Context, ContextFlags, Device, Error, ErrorKind, EventOptions, Owner, Stream,
};
use cuhold_memory::{Buffer, Grid, Pool, PoolOptions};
use cuhold_testkit::{Kit, run, run_with};
use std::{sync::Arc, thread, time::Duration};

const E: CUresult = CUresult(9001);

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

/// Work of a stream on memory that isn't its own.
fn fill_on(stream: &Stream, buffer: &Buffer<u8>, value: u8) {
    let (ptr, len) = (buffer.device_ptr(), buffer.len());
    // SAFETY: *pointers*: the buffer's memory; *handles*: the stream is live.
    unsafe { stream.driver().calls().cuMemsetD8Async(ptr, value, len, stream.raw()) }.unwrap();
}

/// S39: the order between two contexts is that of an event of the right one.
#[test]
fn one_buffer_is_used_from_two_contexts_with_either_or_none_current() {
    run(|t| {
        let second = Context::new(t.device(), ContextFlags::default()).unwrap();
        let (here, there) = (stream(t), second.new_stream().unwrap());
        let mut buffer = Buffer::<u8>::zeroed(&here, 1000).unwrap();
        let mut round = |value: u8| {
            for home in [&there, &here] {
                buffer.move_to(home).unwrap();
                assert_eq!(buffer.stream(), home);
                buffer.fill(value).unwrap();
                let source = Buffer::from_slice(home, &[value; 10]).unwrap();
                buffer.view_mut(5..15).unwrap().copy_from(&source).unwrap();
                assert!(buffer.to_vec().unwrap() == [value; 1000]);
            }
        };
        round(1);
        t.context().with_current(|| round(2)).unwrap();
        second.with_current(|| round(3)).unwrap();
        thread::scope(|scope| {
            let other = scope.spawn(|| buffer.to_vec().unwrap());
            assert!(other.join().unwrap() == [3; 1000]);
        });
        drop((buffer, there));
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
        second.close().unwrap();
    });
}

#[test]
fn one_buffer_is_used_from_two_devices_once_the_second_has_access() {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(second) = t.second_device() else { return };
        let (here, there) = (stream(t), second.new_stream().unwrap());
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let mut buffer = Buffer::<u8>::zeroed_in(&pool, &here, 1000).unwrap();
        let error = buffer.move_to(&there).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        assert!(error.to_string().contains("device 1, which has no access"), "{error}");
        assert_eq!(buffer.stream(), &here);
        raw::grant(&pool, second.as_raw());
        let mut rounds = || {
            for (home, value) in [(&there, 1), (&here, 2), (&there, 3)] {
                buffer.move_to(home).unwrap();
                buffer.fill(value).unwrap();
                assert!(buffer.to_vec().unwrap() == [value; 1000]);
            }
        };
        rounds();
        second.with_current(&mut rounds).unwrap();
        t.device().with_current(&mut rounds).unwrap();
        assert_eq!((buffer.device(), buffer.stream()), (t.device().as_raw(), &there));
        // Freed on the other device's stream.
        buffer.close().unwrap();
        there.synchronize().unwrap();
        assert_eq!(pool.used_bytes().unwrap(), 0);
    });
}

/// Copies between a stream of the device and one of another context, the legacy one, and one of another device, with each of
/// their contexts current, and none.
fn between_homes(copies: impl Fn(&Stream, &Stream)) {
    run_with(SimOptions::with_devices(2), |t| {
        let second = t.second_device();
        let aside = Context::new(t.device(), ContextFlags::default()).unwrap();
        let here = stream(t);
        let mut there = vec![stream(t), aside.new_stream().unwrap(), t.device().legacy_stream()];
        there.extend(second.as_ref().map(|device| device.new_stream().unwrap()));
        let all = || there.iter().for_each(|there| copies(&here, there));
        all();
        aside.with_current(all).unwrap();
        t.device().with_current(all).unwrap();
        if let Some(device) = &second {
            device.with_current(all).unwrap();
        }
        drop(there);
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
        aside.close().unwrap();
    });
}

#[test]
fn a_copy_goes_between_devices_and_contexts_whatever_is_current() {
    between_homes(|here, there| {
        let x = Buffer::from_slice(here, &[1_u8; 1000]).unwrap();
        let mut y = Buffer::<u8>::zeroed(there, 1000).unwrap();
        y.copy_across(&x).unwrap();
        assert!(y.to_vec().unwrap() == [1; 1000]);
        y.fill(2).unwrap();
        let mut back = Buffer::<u8>::zeroed(here, 500).unwrap();
        back.copy_across(y.view(500..).unwrap()).unwrap();
        drop(y);
        assert!(back.to_vec().unwrap() == [2; 500]);
    });
}

#[test]
fn a_box_goes_between_devices_and_contexts_whatever_is_current() {
    // The same elements with other gaps: rows, slices, and without any.
    let boxes = [
        (Grid::rect([3, 2]).pitch(4), Grid::rect([3, 2]).pitch(5)),
        (Grid::cube([3, 2, 2]).pitch(4).slice_rows(3), Grid::cube([3, 2, 2]).pitch(3)),
        (Grid::cube([4, 2, 2]), Grid::cube([4, 2, 2])),
    ];
    let numbers: Vec<u32> = (0..64).collect();
    between_homes(|here, there| {
        let x = Buffer::from_slice(here, &numbers).unwrap();
        for (one, other) in boxes {
            let expected = x.as_view().grid(one).unwrap().to_vec().unwrap();
            let mut y = Buffer::<u32>::zeroed(there, 64).unwrap();
            let mut to = y.as_view_mut().into_grid(other).unwrap();
            to.copy_across(x.as_view().grid(one).unwrap()).unwrap();
            assert_eq!(to.as_view().to_vec().unwrap(), expected);
            let mut back = Buffer::<u32>::zeroed(here, 64).unwrap();
            let mut from = back.as_view_mut().into_grid(one).unwrap();
            from.copy_across(&to).unwrap();
            drop(y);
            assert_eq!(back.as_view().grid(one).unwrap().to_vec().unwrap(), expected);
        }
    });
}

#[test]
fn a_box_of_another_size_is_not_copied_across() {
    let world = World::new();
    let (here, there) = (world.stream(), world.stream());
    let mut x = Buffer::<u32>::zeroed(&here, 16).unwrap();
    let y = Buffer::<u32>::zeroed(&there, 16).unwrap();
    let mut to = x.as_view_mut().into_grid(Grid::rect([2, 2])).unwrap();
    let error = to.copy_across(y.as_view().grid(Grid::rect([2, 3])).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "src: a box of [2, 3, 1] where the destination has [2, 2, 1]");
    let nothing = Grid::rect([0, 3]);
    let mut to = x.as_view_mut().into_grid(nothing).unwrap();
    to.copy_across(y.as_view().grid(nothing).unwrap()).unwrap();
}

/// Whether a stream that only reads met what is written to its memory after a copy across, with the streams' work done in
/// this order.
fn meets_a_copy_across(seed: u64) -> bool {
    let mut options = SimOptions::default();
    options.seed = seed;
    let world = World::of(Sim::with_options(options));
    let (here, there) = (world.stream(), world.stream());
    let mut x = Buffer::<u8>::zeroed(&here, 64).unwrap();
    let mut y = Buffer::<u8>::zeroed(&there, 64).unwrap();
    y.copy_across(&x).unwrap();
    // On the source's home, behind the copy, which runs on the other one.
    x.fill(7).unwrap();
    here.synchronize().unwrap();
    there.synchronize().unwrap();
    y.to_vec().unwrap() != [0; 64] || !world.sim.violations().is_empty()
}

#[test]
fn what_is_queued_on_the_source_s_home_after_a_copy_across_waits_for_the_copy() {
    for seed in 0..40 {
        assert!(!meets_a_copy_across(seed), "{seed}");
    }
}

/// Lets `count` marks of a copy fail behind the copy, and the wait that would do in their place; gives what came of it.
fn across_with(count: u64, world: &World) -> (Buffer<u8>, Buffer<u8>, Error) {
    let (here, there) = (world.stream(), world.stream());
    let x = Buffer::<u8>::zeroed(&here, 64).unwrap();
    let mut y = Buffer::<u8>::zeroed(&there, 64).unwrap();
    // The first mark is that of the source's home, which the copy waits for.
    for nth in 2..2 + count {
        world.faults().arm(Fault::refused(E).on(Call::cuEventRecord).nth(nth));
    }
    world.faults().arm(Fault::refused(E).on(Call::cuThreadExchangeStreamCaptureMode).nth(1));
    let error = y.copy_across(&x).unwrap_err();
    world.faults().disarm();
    assert_eq!(error.completed(), Some(1), "{error}");
    (x, y, error)
}

#[test]
fn a_copy_across_that_is_neither_marked_nor_waited_for_is_marked_once_more() {
    for seed in 0..20 {
        let mut options = SimOptions::default();
        options.seed = seed;
        let world = World::of(Sim::with_options(options));
        let (mut x, y, _) = across_with(1, &world);
        x.fill(7).unwrap();
        drop(x);
        assert_eq!(y.to_vec().unwrap(), [0; 64]);
        drop(y);
        world.sim.run_all();
        assert_eq!(world.sim.violations(), [], "{seed}");
    }
}

/// P7: nobody knows when the GPU is done with either end.
#[test]
fn the_memory_of_a_copy_across_that_can_not_be_ordered_at_all_is_never_freed() {
    let world = World::new();
    let (x, y, error) = across_with(2, &world);
    assert!(error.to_string().contains("the memory of both ends is leaked"), "{error}");
    let live = world.sim.live(ObjectKind::DeviceMemory);
    drop((x, y));
    world.sim.run_all();
    assert_eq!((live, world.sim.live(ObjectKind::DeviceMemory)), (2, 2));
    assert_eq!(world.sim.violations(), []);
}

/// Whether work of another stream met memory that was freed already, with the streams' work done in this order.
fn meets_freed_memory(seed: u64, free: impl FnOnce(Buffer<u8>, &Stream)) -> bool {
    let mut options = SimOptions::default();
    options.seed = seed;
    let world = World::of(Sim::with_options(options));
    let (home, other) = (world.stream(), world.stream());
    let buffer = Buffer::<u8>::zeroed(&home, 64).unwrap();
    other.wait_event(&home.record_new(EventOptions::default()).unwrap()).unwrap();
    fill_on(&other, &buffer, 7);
    free(buffer, &other);
    home.synchronize().unwrap();
    other.synchronize().unwrap();
    let violations = world.sim.violations();
    assert!(violations.iter().all(|found| found.kind == ViolationKind::UseAfterDestroy));
    !violations.is_empty()
}

/// S64: a free is ordered behind the last use, on whichever stream that was.
#[test]
fn memory_that_is_closed_behind_another_stream_is_freed_after_its_work() {
    for seed in 0..20 {
        let by_stream = |buffer: Buffer<u8>, other: &Stream| {
            assert_eq!(buffer.close_after(other).unwrap(), Closed::Destroyed);
        };
        assert!(!meets_freed_memory(seed, by_stream), "{seed}");
        let by_event = |buffer: Buffer<u8>, other: &Stream| {
            let event = other.record_new(EventOptions::default()).unwrap();
            assert_eq!(buffer.close_after(&event).unwrap(), Closed::Destroyed);
        };
        assert!(!meets_freed_memory(seed, by_event), "{seed}");
        let moved = |mut buffer: Buffer<u8>, other: &Stream| buffer.move_to(other).unwrap();
        assert!(!meets_freed_memory(seed, moved), "{seed}");
    }
    // Without any of that the simulated driver shows it, so that the above can fail.
    assert!((0..20).any(|seed| meets_freed_memory(seed, |buffer, _| drop(buffer))));
}

#[test]
fn closing_behind_a_stream_that_is_captured_or_of_another_driver_gives_the_buffer_back() {
    run(|t| {
        let (home, captured) = (stream(t), stream(t));
        let buffer = Buffer::<u8>::zeroed(&home, 64).unwrap();
        raw::begin(&captured, raw::RELAXED);
        let refused = buffer.close_after(&captured).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::State, "{}", refused.error);
        assert!(raw::is_captured(&captured));
        raw::end(&captured);
        let driver = t.driver().isolated();
        let stranger = Device::with_driver(&driver, 0).unwrap().new_stream().unwrap();
        let refused = refused.value.unwrap().close_after(&stranger).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::Argument, "{}", refused.error);
        refused.value.unwrap().close_after(&captured).unwrap();
        drop(stranger);
        driver.close().unwrap();
    });
}

/// S39: memory whose order behind another context's work can't be had isn't freed, and so not given out again.
#[test]
fn memory_whose_last_use_can_not_be_marked_is_not_freed() {
    let world = World::new();
    let aside = Context::new(&world.device, ContextFlags::default()).unwrap();
    let (home, other) = (world.stream(), aside.new_stream().unwrap());
    let mut buffer = Buffer::<u8>::zeroed(&home, 64).unwrap();
    let ptr = buffer.device_ptr();
    other.wait_event(&home.record_new(EventOptions::default()).unwrap()).unwrap();
    fill_on(&other, &buffer, 7);
    // As a driver answers where the event is another context's.
    for call in [Call::cuEventRecord, Call::cuStreamWaitEvent] {
        world.faults().arm(Fault::refused(CUresult::INVALID_HANDLE).on(call));
        let refused = buffer.close_after(&other).unwrap_err();
        world.faults().disarm();
        assert!(refused.error.is(CUresult::INVALID_HANDLE), "{}", refused.error);
        buffer = refused.value.unwrap();
        let next = Buffer::<u8>::uninit(&home, 64).unwrap();
        assert_ne!(next.device_ptr(), ptr, "it was given out again");
    }
    buffer.close_after(&other).unwrap();
    home.synchronize().unwrap();
    other.synchronize().unwrap();
    assert_eq!(world.sim.violations(), []);
    drop(other);
    aside.close().unwrap();
}

#[test]
fn a_buffer_that_can_not_be_moved_keeps_its_home() {
    let world = World::new();
    let (home, other) = (world.stream(), world.stream());
    let mut buffer = Buffer::<u8>::zeroed(&home, 8).unwrap();
    for call in [Call::cuEventCreate, Call::cuEventRecord, Call::cuStreamWaitEvent] {
        world.faults().arm(Fault::refused(E).on(call));
        let error = buffer.move_to(&other).unwrap_err();
        assert!(error.is(E), "{error}");
        world.faults().disarm();
        assert_eq!(buffer.stream(), &home);
        buffer.fill(1).unwrap();
    }
    buffer.move_to(&other).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1; 8]);
}

/// An allocation there would be memory of that graph without a word.
#[test]
fn an_allocation_on_a_stream_that_foreign_code_captures_is_refused_and_both_go_on() {
    run(|t| {
        let stream = stream(t);
        let pool = Pool::current_of(t.device()).unwrap();
        let used = pool.used_bytes().unwrap();
        raw::begin(&stream, raw::RELAXED);
        for _ in 0..3 {
            let error = Buffer::<u8>::uninit(&stream, 64).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::State, "{error}");
            let error = Buffer::<u8>::uninit_in(&pool, &stream, 64).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::State, "{error}");
        }
        assert!(raw::is_captured(&stream));
        raw::end(&stream);
        assert_eq!(pool.used_bytes().unwrap(), used);
        let buffer = Buffer::<u8>::zeroed(&stream, 64).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [0; 64]);
    });
}

/// A stream of somebody else's, which ends with its owner.
struct Theirs(Stream);

#[test]
fn a_borrowed_stream_that_dies_before_its_buffers_is_kept_for_them_or_refused() {
    run(|t| {
        let theirs = Arc::new(Theirs(stream(t)));
        let owner: Owner = Arc::<Theirs>::clone(&theirs);
        let kept = raw::borrowed(&theirs.0, Some(owner));
        let mut buffer = Buffer::<u8>::zeroed(&kept, 64).unwrap();
        // A stream of which nobody says how long it lives becomes no home.
        let lent = raw::borrowed(&theirs.0, None);
        let error = Buffer::<u8>::uninit(&lent, 64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        let mut other = Buffer::<u8>::zeroed(&stream(t), 64).unwrap();
        assert_eq!(other.move_to(&lent).unwrap_err().kind(), ErrorKind::Argument);
        drop((lent, kept));
        let last = Arc::downgrade(&theirs);
        drop(theirs);
        assert!(last.upgrade().is_some(), "the buffer keeps it");
        buffer.fill(3).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [3; 64]);
        drop(buffer);
        assert!(last.upgrade().is_none());
    });
}

/// S63: there is no null handle that would mean the default stream.
#[test]
fn a_closed_stream_handle_leaves_its_buffers_on_that_stream_and_never_on_a_default_one() {
    run(|t| {
        let stream = stream(t);
        let handle = raw::handle(&stream);
        let mut buffer = Buffer::<u8>::zeroed(&stream, 64).unwrap();
        assert_eq!(stream.close().unwrap(), Closed::StillShared);
        let (_, entries) = t.entries(|| {
            buffer.fill(5).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [5; 64]);
            buffer.close().unwrap();
        });
        let streams = entries.iter().filter_map(|entry| match entry.call() {
            Call::cuMemsetD8Async | Call::cuMemcpyDtoHAsync_v2 => entry.arguments().get(3).copied(),
            Call::cuMemFreeAsync => entry.arguments().get(1).copied(),
            _ => None,
        });
        let streams: Vec<u64> = streams.collect();
        assert!(streams.len() >= 2, "{entries:?}");
        assert!(streams.iter().all(|on| *on == handle.addr() as u64), "{streams:x?}");
    });
}
