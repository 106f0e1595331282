//! Asynchronous copies: who owns the host memory at each moment.

#![expect(unsafe_code, reason = "defines host memory that tells when it is dropped")]

use crate::{
    flip::{World, told},
    raw,
};
use cuhold_driver_sys::{CUresult, Call, Effect, Fault};
use cuhold_handles::{Error, ErrorKind, Fate, ObjectKind, Stream, WarningKind};
use cuhold_memory::{Buffer, HostBuffer, HostSource, HostTarget, Pending};
use cuhold_testkit::{Kit, run, run_simulated};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

const E: CUresult = CUresult(9001);

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

/// Bytes that count how often they were dropped.
#[derive(Debug)]
struct Watched {
    bytes: Vec<u8>,
    dropped: Arc<AtomicU32>,
    panics: bool,
}

impl Watched {
    fn new(len: usize) -> (Self, Arc<AtomicU32>) {
        let dropped = Arc::<AtomicU32>::default();
        (Self { bytes: vec![7; len], dropped: Arc::clone(&dropped), panics: false }, dropped)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "dropped, on purpose");
    }
}

// SAFETY: *stable*, *quiet*: the vector's.
unsafe impl HostSource<u8> for Watched {
    fn elements(&self) -> &[u8] {
        &self.bytes
    }
}

// SAFETY: *own*: the vector's.
unsafe impl HostTarget<u8> for Watched {
    fn elements_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

#[test]
fn every_kind_of_host_memory_is_sent_and_comes_back() {
    run(|t| {
        let stream = stream(t);
        let mut buffer = Buffer::<u32>::zeroed(&stream, 3).unwrap();
        let sent = buffer.write_from(vec![1, 2, 3]).unwrap();
        assert_eq!(sent.wait().unwrap(), [1, 2, 3]);
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
        let shared: Arc<[u32]> = Arc::from([4, 5, 6]);
        let sent = buffer.write_from(Arc::clone(&shared)).unwrap();
        assert!(Arc::ptr_eq(&sent.wait().unwrap(), &shared));
        assert_eq!(buffer.to_vec().unwrap(), [4, 5, 6]);
        let host = HostBuffer::from_slice(t.context(), &[7, 8, 9]).unwrap();
        let sent = buffer.write_from(host).unwrap();
        // Ordered on the stream behind the copy above.
        let received = buffer.read_to(HostBuffer::<u32>::zeroed(t.context(), 3).unwrap()).unwrap();
        assert_eq!(*received.wait().unwrap(), [7, 8, 9]);
        assert!(sent.is_done().unwrap() && sent.is_done().unwrap());
        assert_eq!(*sent.wait().unwrap(), [7, 8, 9]);
        let part = buffer.view(1..).unwrap().read_to(vec![0; 2]).unwrap();
        assert_eq!(part.wait().unwrap(), [8, 9]);
    });
}

#[test]
fn a_copy_is_not_done_before_it_is() {
    run_simulated(|t, sim| {
        let stream = stream(t);
        let buffer = Buffer::<u8>::zeroed(&stream, 3).unwrap();
        let host = HostBuffer::from_slice(t.context(), &[9; 3]).unwrap();
        let received = buffer.read_to(host).unwrap();
        assert!(!received.is_done().unwrap());
        sim.run_all();
        let (done, calls) = t.calls(|| received.is_done().unwrap());
        assert!(done && calls.contains(&"cuEventQuery"));
        let (done, calls) = t.calls(|| received.is_done().unwrap());
        assert!(done && calls.is_empty(), "remembered");
        assert_eq!(*received.wait().unwrap(), [0; 3]);
    });
}

#[test]
fn a_dropped_copy_keeps_its_memory_until_it_is_done() {
    run(|t| {
        let by_hand = t.driver().reclaim().run_by_hand();
        let stream = stream(t);
        let mut buffer = Buffer::<u8>::uninit(&stream, 8).unwrap();
        let (watched, dropped) = Watched::new(8);
        let ((), calls) = {
            let sent = buffer.write_from(watched).unwrap();
            t.calls(|| drop(sent))
        };
        assert!(calls.is_empty(), "{calls:?}");
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        let (_, calls) = t.calls(|| assert!(by_hand.step()));
        let exchange = "cuThreadExchangeStreamCaptureMode";
        assert_eq!(calls, [exchange, "cuEventSynchronize", exchange]);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        assert_eq!(buffer.to_vec().unwrap(), [7; 8]);
    });
}

#[test]
fn a_copy_that_is_known_to_be_done_is_dropped_at_once() {
    run(|t| {
        let stream = stream(t);
        let mut buffer = Buffer::<u8>::uninit(&stream, 8).unwrap();
        let (watched, dropped) = Watched::new(8);
        let sent = buffer.write_from(watched).unwrap();
        stream.synchronize().unwrap();
        assert!(sent.is_done().unwrap());
        drop(sent);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_copy_outlives_its_buffer_and_may_be_dropped_in_a_callback() {
    run(|t| {
        let (home, work) = (stream(t), stream(t));
        let mut buffer = Buffer::<u8>::uninit(&home, 8).unwrap();
        let (watched, dropped) = Watched::new(8);
        let sent = buffer.write_from(watched).unwrap();
        drop((buffer, home));
        work.host_fn(move || drop(sent)).map_err(|refused| refused.error).unwrap();
        work.synchronize().unwrap();
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_forgotten_copy_leaks_and_nothing_else() {
    let world = World::new();
    let mut buffer = Buffer::<u8>::uninit(&world.stream(), 8).unwrap();
    let (watched, dropped) = Watched::new(8);
    let sent = buffer.write_from(watched).unwrap();
    #[expect(clippy::mem_forget, reason = "what is to be shown")]
    std::mem::forget(sent);
    world.sim.run_all();
    drop(buffer);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    assert!(world.sim.violations().is_empty());
}

/// What comes back of a copy of which this call failed so.
fn failing(world: &World, effect: Effect, call: Call) -> (Error, Pending<Watched>, Arc<AtomicU32>) {
    let mut buffer = Buffer::<u8>::uninit(&world.stream(), 8).unwrap();
    let (watched, dropped) = Watched::new(8);
    world.faults().arm(Fault::new(effect).on(call));
    let refused = buffer.write_from(watched).unwrap_err();
    world.faults().disarm();
    (refused.error, refused.value, dropped)
}

#[test]
fn a_failing_call_gives_the_memory_back_through_a_wait() {
    for call in [Call::cuEventCreate, Call::cuMemcpyHtoDAsync_v2, Call::cuEventRecord] {
        for effect in [Effect::Refused(E), Effect::DoneButFailed(E)] {
            if (call, effect) == (Call::cuEventCreate, Effect::DoneButFailed(E)) {
                continue;
            }
            let world = World::new();
            let (error, pending, dropped) = failing(&world, effect, call);
            assert!(error.is(E) && error.notes().is_empty(), "{error}");
            assert_eq!(error.completed(), (call == Call::cuEventRecord).then_some(1));
            assert_eq!(pending.is_done().unwrap(), call == Call::cuEventCreate);
            assert_eq!(pending.wait().unwrap().bytes, [7; 8]);
            assert_eq!(dropped.load(Ordering::SeqCst), 1);
            // Dropped instead, the reclaimer waits for the stream.
            let (_, pending, dropped) = failing(&world, effect, call);
            let by_hand = world.driver.reclaim().run_by_hand();
            drop(pending);
            let at_once = u32::from(call == Call::cuEventCreate);
            assert_eq!(dropped.load(Ordering::SeqCst), at_once, "{call} {effect:?}");
            drop(by_hand);
            assert_eq!(dropped.load(Ordering::SeqCst), 1);
        }
    }
}

#[test]
fn a_copy_that_the_driver_lacks_was_never_queued() {
    let world = World::new();
    let missing = Effect::Refused(CUresult::MISSING);
    let (error, pending, _) = failing(&world, missing, Call::cuMemcpyHtoDAsync_v2);
    assert_eq!(error.kind(), ErrorKind::Missing);
    assert!(pending.is_done().unwrap());
}

#[test]
fn a_wait_that_fails_gives_the_copy_back_and_its_drop_leaks_with_a_warning() {
    let world = World::new();
    let mut buffer = Buffer::<u8>::uninit(&world.stream(), 8).unwrap();
    let (watched, dropped) = Watched::new(8);
    let address = watched.bytes.as_ptr().addr() as u64;
    let sent = buffer.write_from(watched).unwrap();
    world.faults().arm(Fault::refused(E).on(Call::cuEventSynchronize));
    let refused = sent.wait().unwrap_err();
    assert!(refused.error.is(E));
    let warning = world.warning(|| drop(refused.value));
    assert_eq!(told(&warning), (Some("cuEventSynchronize"), Some(E.0), Some(Fate::Leaked)));
    let object = warning.object();
    assert_eq!((object.kind, object.raw), (ObjectKind::HostMemory, address));
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
}

#[test]
fn a_wait_whose_mode_is_not_put_back_is_over_all_the_same() {
    let world = World::new();
    let mut buffer = Buffer::<u8>::uninit(&world.stream(), 8).unwrap();
    let (watched, _) = Watched::new(8);
    let sent = buffer.write_from(watched).unwrap();
    let exchange = Call::cuThreadExchangeStreamCaptureMode;
    world.faults().arm(Fault::done_but_failed(E).on(exchange).nth(2));
    let refused = sent.wait().unwrap_err();
    assert!(refused.error.is(E));
    let value = refused.value;
    assert_eq!(value.wait().unwrap().bytes, [7; 8]);
}

#[test]
fn after_a_fatal_error_memory_is_leaked_not_freed() {
    let world = World::new();
    let mut buffer = Buffer::<u8>::uninit(&world.stream(), 8).unwrap();
    let (watched, dropped) = Watched::new(8);
    let sent = buffer.write_from(watched).unwrap();
    world.sim.poison(CUresult::ILLEGAL_ADDRESS);
    assert!(sent.is_done().unwrap_err().is(CUresult::ILLEGAL_ADDRESS));
    let refused = sent.wait().unwrap_err();
    let warnings = world.warnings(|| drop((refused, buffer)));
    let leaked = |kind| {
        let of_kind = warnings.iter().filter(|warning| warning.object().kind == kind);
        of_kind.map(|warning| warning.fate()).collect::<Vec<_>>()
    };
    assert_eq!(leaked(ObjectKind::HostMemory), [Some(Fate::Leaked)], "{warnings:?}");
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
}

#[test]
fn a_panic_in_the_memory_s_own_drop_is_a_warning() {
    let world = World::new();
    let stream = world.stream();
    let mut buffer = Buffer::<u8>::uninit(&stream, 8).unwrap();
    let (mut watched, _) = Watched::new(8);
    watched.panics = true;
    let sent = buffer.write_from(watched).unwrap();
    let warning = world.warning(|| drop(sent));
    assert_eq!(warning.kind(), WarningKind::Panicked);
    let (mut watched, _) = Watched::new(1);
    watched.panics = true;
    let refused = buffer.write_from(watched).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Argument);
    let warning = world.warning(|| drop(refused.value));
    assert_eq!(warning.kind(), WarningKind::Panicked);
}

#[test]
fn waits_and_questions_disturb_nobody_s_capture() {
    run(|t| {
        let captured = stream(t);
        let mut buffer = Buffer::<u8>::uninit(&stream(t), 8).unwrap();
        let sent = buffer.write_from(vec![1; 8]).unwrap();
        let dropped = buffer.write_from(vec![2; 8]).unwrap();
        raw::begin(&captured, raw::GLOBAL);
        let _: bool = sent.is_done().unwrap();
        assert_eq!(sent.wait().unwrap(), [1; 8]);
        drop(dropped);
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
        assert!(raw::is_captured(&captured));
        raw::end(&captured);
    });
}

#[test]
fn a_copy_that_may_be_queued_is_not_waited_for_on_a_captured_stream() {
    let world = World::new();
    let home = world.stream();
    let mut buffer = Buffer::<u8>::uninit(&home, 8).unwrap();
    world.faults().arm(Fault::done_but_failed(E).on(Call::cuEventRecord));
    let refused = buffer.write_from(vec![1; 8]).unwrap_err();
    world.faults().disarm();
    raw::begin(&home, raw::RELAXED);
    assert_eq!(refused.value.is_done().unwrap_err().kind(), ErrorKind::State);
    let refused = refused.value.wait().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::State);
    assert!(raw::is_captured(&home));
    raw::end(&home);
    assert_eq!(refused.value.wait().unwrap(), [1; 8]);
}

#[test]
fn raw_memory_is_copied_on_the_caller_s_promise() {
    run(|t| {
        let stream = stream(t);
        let mut buffer = Buffer::<u8>::zeroed(&stream, 4).unwrap();
        let (source, mut room) = ([1_u8, 2, 3, 4], [0_u8; 4]);
        let (_, calls) = t.calls(|| {
            // SAFETY: four bytes, left alone until the stream is done.
            unsafe { buffer.as_view_mut().write_from_ptr(source.as_ptr()) }.unwrap();
            // SAFETY: as above.
            unsafe { buffer.as_view().read_to_ptr(room.as_mut_ptr()) }.unwrap();
        });
        assert_eq!(calls, ["cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"]);
        stream.synchronize().unwrap();
        assert_eq!(room, source);
    });
}
