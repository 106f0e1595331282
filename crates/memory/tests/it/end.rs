//! How buffers end: where, in which context, beside which captures, and what is told when it fails.

use crate::{
    flip::{World, told},
    raw,
};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{Closed, Context, ContextFlags, ErrorKind, Fate, ObjectKind, Stream};
use cuhold_memory::{Buffer, Pool};
use cuhold_testkit::{Kit, run};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::Duration,
};

const E: CUresult = CUresult(9001);

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

fn drained(t: &Kit) {
    t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
}

#[test]
fn a_buffer_is_freed_on_any_thread_whatever_is_current_there() {
    run(|t| {
        let context = Context::new(t.device(), ContextFlags::default()).unwrap();
        let pool = Pool::current_of(t.device()).unwrap();
        let homes = [stream(t), t.device().legacy_stream(), Stream::legacy(&context)];
        let before = pool.used_bytes().unwrap();
        for home in &homes {
            for other in [None, Some(t.context()), Some(&context)] {
                let buffer = Buffer::<u8>::uninit(home, 1000).unwrap();
                thread::scope(|scope| {
                    scope.spawn(|| match other {
                        None => drop(buffer),
                        Some(other) => other.with_current(|| drop(buffer)).unwrap(),
                    });
                });
                assert_eq!(pool.used_bytes().unwrap(), before);
            }
        }
        drop(homes);
        context.close().unwrap();
    });
}

#[test]
fn a_free_in_a_drop_disturbs_nobody_s_capture() {
    run(|t| {
        let captured = stream(t);
        let buffer = Buffer::<u8>::uninit(&stream(t), 1000).unwrap();
        let other = Buffer::<u8>::uninit(&stream(t), 1000).unwrap();
        raw::begin(&captured, raw::GLOBAL);
        drop(buffer);
        other.close().unwrap();
        assert!(raw::is_captured(&captured));
        assert_eq!(raw::mode(t.driver()), raw::GLOBAL);
        raw::end(&captured);
    });
}

#[test]
fn a_buffer_that_is_dropped_in_a_callback_is_freed_by_the_reclaimer() {
    run(|t| {
        let (home, work) = (stream(t), stream(t));
        let pool = Pool::current_of(t.device()).unwrap();
        let before = pool.used_bytes().unwrap();
        let buffer = Buffer::<u8>::uninit(&home, 1000).unwrap();
        let kept = Buffer::<u8>::uninit(&home, 1000).unwrap().keep();
        let closed = Buffer::<u8>::uninit(&home, 1000).unwrap();
        work.host_fn(move || {
            drop((buffer, kept));
            let refused = closed.close().unwrap_err();
            assert_eq!(refused.error.kind(), ErrorKind::NotPermitted);
            drop(refused.value.unwrap());
        })
        .map_err(|refused| refused.error)
        .unwrap();
        work.synchronize().unwrap();
        drained(t);
        assert_eq!(pool.used_bytes().unwrap(), before);
    });
}

#[test]
fn while_its_home_is_captured_a_buffer_is_leaked_and_the_capture_goes_on() {
    let world = World::new();
    let home = world.stream();
    let buffer = Buffer::<u8>::uninit(&home, 1000).unwrap();
    let other = Buffer::<u8>::uninit(&home, 1000).unwrap();
    raw::begin(&home, raw::GLOBAL);
    let warning = world.warning(|| drop(buffer));
    assert_eq!(told(&warning), (Some("cuMemFreeAsync"), Some(1), Some(Fate::Leaked)));
    assert_eq!(warning.text(), "the stream it is freed on is being captured");
    assert_eq!(warning.object().kind, ObjectKind::AsyncMemory);
    let refused = other.close().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::State);
    assert!(raw::is_captured(&home));
    raw::end(&home);
    assert_eq!(refused.value.unwrap().close().unwrap(), Closed::Destroyed);
}

#[test]
fn on_a_default_stream_beside_a_capture_a_buffer_is_leaked_and_the_capture_goes_on() {
    let world = World::new();
    let captured = raw::blocking(world.device.context());
    let buffer = Buffer::<u8>::uninit(&world.device.legacy_stream(), 1000).unwrap();
    raw::begin(&captured, raw::RELAXED);
    let warning = world.warning(|| drop(buffer));
    let implicit = CUresult::STREAM_CAPTURE_IMPLICIT.0;
    assert_eq!(told(&warning), (Some("cuStreamIsCapturing"), Some(implicit), Some(Fate::Leaked)));
    assert!(raw::is_captured(&captured));
    raw::end(&captured);
}

#[test]
fn a_free_that_fails_in_a_drop_is_told_once() {
    let world = World::new();
    let buffer = Buffer::<u8>::uninit(&world.stream(), 1000).unwrap();
    let ptr = buffer.device_ptr();
    world.faults().arm(Fault::refused(E).on(Call::cuMemFreeAsync));
    let warning = world.warning(|| drop(buffer));
    assert_eq!(told(&warning), (Some("cuMemFreeAsync"), Some(E.0), Some(Fate::Unknown)));
    assert_eq!(warning.object().raw, ptr);
}

#[test]
fn a_free_that_fails_while_unwinding_is_told_and_ends_nothing() {
    let world = World::new();
    let buffer = Buffer::<u8>::uninit(&world.stream(), 1000).unwrap();
    world.faults().arm(Fault::refused(E).on(Call::cuMemFreeAsync));
    let warning = world.warning(|| {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _buffer = buffer;
            panic!("on purpose");
        }));
        assert!(unwound.is_err());
    });
    assert_eq!(warning.status(), Some(E));
}

#[test]
fn a_lost_driver_s_buffer_is_leaked_with_one_warning() {
    let world = World::new();
    let stream = world.stream();
    let buffer = Buffer::<u8>::uninit(&stream, 1000).unwrap();
    world.sim.poison(CUresult::ILLEGAL_ADDRESS);
    let warning = world.warning(|| drop(buffer));
    let status = CUresult::ILLEGAL_ADDRESS.0;
    assert_eq!(told(&warning), (Some("cuMemFreeAsync"), Some(status), Some(Fate::Leaked)));
    assert!(world.driver.is_lost());
    world.warnings(|| drop(stream));
}

#[test]
fn in_a_forked_child_everything_is_let_go_silently_and_without_a_call() {
    let world = World::new();
    let stream = world.stream();
    let buffer = Buffer::from_slice(&stream, &[1, 2, 3]).unwrap();
    let kept = Buffer::<u8>::uninit(&stream, 8).unwrap();
    let keep = kept.keep();
    let pending = buffer.read_to(vec![0; 3]).unwrap();
    let host = cuhold_memory::HostBuffer::<u8>::zeroed(world.device.context(), 8).unwrap();
    let pool = Pool::new(&world.device, cuhold_memory::PoolOptions::default()).unwrap();
    world.fork();
    let warnings = world.warnings(|| {
        assert_eq!(buffer.to_vec().unwrap_err().kind(), ErrorKind::Forked);
        let refused = pending.wait().unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::Forked);
        assert_eq!(pool.used_bytes().unwrap_err().kind(), ErrorKind::Forked);
        let calls = world.sim.calls_of_forked_child();
        drop((buffer, kept, keep, refused, host, pool, stream));
        assert_eq!(world.sim.calls_of_forked_child(), calls);
    });
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(world.driver.reclaim().pending(), 0);
}

#[test]
fn once_exit_began_a_failing_free_is_silent() {
    let world = World::new();
    let buffer = Buffer::<u8>::uninit(&world.stream(), 8).unwrap();
    world.sim.begin_exit();
    assert!(world.warnings(|| drop(buffer)).is_empty());
}

#[test]
fn kept_memory_is_freed_with_the_last_that_keeps_it_on_the_last_home() {
    run(|t| {
        let (one, two) = (stream(t), stream(t));
        let pool = Pool::current_of(t.device()).unwrap();
        let before = pool.used_bytes().unwrap();
        let mut buffer = Buffer::<u8>::uninit(&one, 1000).unwrap();
        let (first, second) = (buffer.keep(), buffer.keep().clone());
        buffer.move_to(&two).unwrap();
        drop((first, buffer));
        assert_eq!(pool.used_bytes().unwrap(), before + 1000);
        let home = raw::handle(&two);
        let ((), entries) = t.entries(|| drop(second));
        let frees: Vec<_> =
            entries.iter().filter(|entry| entry.call() == Call::cuMemFreeAsync).collect();
        assert_eq!(frees.len(), 1);
        assert_eq!(frees[0].arguments()[1], home.addr() as u64);
    });
}

#[test]
fn two_threads_that_keep_a_buffer_at_once_keep_the_same_memory() {
    run(|t| {
        let pool = Pool::current_of(t.device()).unwrap();
        let before = pool.used_bytes().unwrap();
        let home = stream(t);
        for _ in 0..200 {
            let buffer = &Buffer::<u8>::uninit(&home, 1000).unwrap();
            thread::scope(|scope| {
                let both = [scope.spawn(|| buffer.keep()), scope.spawn(|| buffer.keep())];
                drop(both.map(|thread| thread.join().unwrap()));
            });
        }
        assert_eq!(pool.used_bytes().unwrap(), before);
    });
}

#[test]
fn closing_tells_what_became_of_the_memory() {
    let world = World::new();
    let home = world.stream();
    let buffer = || Buffer::<u8>::uninit(&home, 8).unwrap();
    assert_eq!(buffer().close().unwrap(), Closed::Destroyed);
    let first = buffer();
    let kept = first.keep();
    assert_eq!(first.close().unwrap(), Closed::StillShared);
    drop(kept);
    let last = buffer();
    drop(last.keep());
    assert_eq!(last.close().unwrap(), Closed::Destroyed);
    world.faults().arm(Fault::done_but_failed(E).on(Call::cuMemFreeAsync));
    let refused = buffer().close().unwrap_err();
    assert!(refused.error.is(E) && refused.value.is_none());
    world.faults().disarm();
    let exchange = Call::cuThreadExchangeStreamCaptureMode;
    world.faults().arm(Fault::refused(E).on(exchange).nth(1));
    let refused = buffer().close().unwrap_err();
    assert!(refused.error.is(E));
    assert_eq!(refused.value.unwrap().close().unwrap(), Closed::Destroyed, "nothing was asked");
}

#[test]
fn where_its_context_is_not_to_be_had_a_default_stream_s_buffer_comes_back_or_leaks() {
    let world = World::new();
    let legacy = world.device.legacy_stream();
    let buffer = || Buffer::<u8>::uninit(&legacy, 8).unwrap();
    let (one, two) = (buffer(), buffer());
    world.faults().arm(Fault::refused(E).on(Call::cuCtxPushCurrent_v2).nth(1));
    let refused = one.close().unwrap_err();
    assert!(refused.error.is(E));
    refused.value.unwrap().close().unwrap();
    world.faults().disarm();
    world.faults().arm(Fault::refused(E).on(Call::cuCtxPushCurrent_v2).nth(1));
    let warning = world.warning(|| drop(two));
    assert_eq!(told(&warning), (Some("cuCtxPushCurrent"), Some(E.0), Some(Fate::Leaked)));
    assert_eq!(warning.skipped_call(), Some(Call::cuMemFreeAsync));
}
