//! Streams of other contexts that use memory: waited for before it is freed, or it is leaked and told.

use super::{E, PATIENCE, counted};
use cuhold_driver_sim::{ObjectKind as SimKind, Sim, ViolationKind};
use cuhold_driver_sys::{Fault, ffi::CUstreamCaptureMode};
use cuhold_handles::{
    Access, BorrowedMemory, Context, ContextFlags, Device, DeviceMemory, Driver, ErrorKind, Fate,
    LaunchConfig, Mapping, ObjectKind, PerThreadStream, PhysicalAllocation, PhysicalOptions,
    Reservation, ReservationOptions, Sink, Stream,
};
use cuhold_testkit::{ForeignCapture as Capture, Kit, PTX, run, run_simulated};
use std::sync::atomic::Ordering;

const RELAX: &str = "cuThreadExchangeStreamCaptureMode";
const WORDS: u32 = 16;

/// Another context with a stream of its own.
fn foreign(t: &Kit) -> (Context, Stream) {
    let context = Context::new(t.device(), ContextFlags::default()).unwrap();
    let stream = context.new_stream().unwrap();
    (context, stream)
}

fn new_memory(t: &Kit) -> DeviceMemory {
    DeviceMemory::new(t.context(), 4 * WORDS as usize).unwrap()
}

/// Queues a kernel that writes to the memory.
fn use_on(t: &Kit, memory: &DeviceMemory, stream: &Stream) {
    let (fill, config) = (t.kernels().kernel("fill").unwrap(), LaunchConfig::for_len(WORDS));
    // SAFETY: the memory has as many words, and remembers who uses it.
    unsafe { fill.launch(stream, config, (memory, 7_u32, WORDS)) }.unwrap();
}

#[test]
fn a_kernel_on_another_context_s_stream_is_waited_for_when_its_memory_is_dropped() {
    run(|t| {
        let (_context, stream) = foreign(t);
        let memory = new_memory(t);
        use_on(t, &memory, &stream);
        t.driver().reclaim().drain(PATIENCE).unwrap();
        let by_hand = t.driver().reclaim().run_by_hand();
        let ((), here) = t.calls(|| drop(memory));
        let ((), later) = t.calls(|| while by_hand.step() {});
        assert_eq!(
            here,
            [
                "cuCtxGetCurrent",
                "cuCtxPushCurrent",
                "cuEventCreate",
                "cuCtxPopCurrent",
                "cuEventRecord"
            ]
        );
        assert_eq!(later, [RELAX, "cuEventSynchronize", RELAX, RELAX, "cuMemFree", RELAX]);
        stream.synchronize().unwrap();
    });
}

#[test]
fn without_being_told_the_driver_frees_under_the_kernel() {
    // Nothing is left of such a driver that could be looked at.
    let sim = Sim::new();
    sim.register_kernel("fill", |launch| launch.write(launch.param(0)?, 7_u32));
    let driver = Driver::from_api(sim.clone());
    drop(driver.reports().set_sink(Sink::new(|_| ())));
    let device = Device::with_driver(&driver, 0).unwrap();
    let context = Context::new(&device, ContextFlags::default()).unwrap();
    let stream = context.new_stream().unwrap();
    let memory = DeviceMemory::new(device.context(), 64).unwrap();
    let (fill, one) = (device.load(PTX).unwrap().kernel("fill").unwrap(), LaunchConfig::for_len(1));
    // A plain address says nothing of who uses what.
    // SAFETY: broken on purpose: the memory is freed while the kernel may run.
    unsafe { fill.launch(&stream, one, (memory.as_raw(), 7_u32, WORDS)) }.unwrap();
    memory.close().unwrap();
    assert!(stream.synchronize().is_err());
    let [violation] = &sim.violations()[..] else { panic!("one violation") };
    assert_eq!(violation.kind, ViolationKind::UseAfterDestroy);
    // The same, told.
    run_simulated(|t, _| {
        let (_context, stream) = foreign(t);
        let memory = new_memory(t);
        let (fill, config) = (t.kernels().kernel("fill").unwrap(), LaunchConfig::for_len(WORDS));
        // SAFETY: the memory's end waits for the stream.
        unsafe { fill.launch(&stream, config, (memory.as_raw(), 7_u32, WORDS)) }.unwrap();
        memory.used_on(&stream).unwrap();
        memory.close().unwrap();
        stream.synchronize().unwrap();
    });
}

#[test]
fn streams_of_the_memory_s_own_context_cost_nothing() {
    run(|t| {
        let (stream, memory) = (t.device().new_stream().unwrap(), new_memory(t));
        use_on(t, &memory, &stream);
        let ((), calls) = t.calls(|| {
            memory.used_on(&stream).unwrap();
            memory.used_on(&PerThreadStream::new(t.context())).unwrap();
            memory.used_on(&t.device().legacy_stream()).unwrap();
        });
        assert_eq!(calls, [""; 0]);
        let (_, calls) = t.calls(|| memory.close().unwrap());
        assert_eq!(calls, [RELAX, "cuMemFree", RELAX]);
    });
}

#[test]
fn a_stream_that_uses_memory_again_and_again_is_one_user() {
    run(|t| {
        let (_context, stream) = foreign(t);
        let memory = new_memory(t);
        for _ in 0..3 {
            use_on(t, &memory, &stream);
        }
        let (_, calls) = t.calls(|| memory.close().unwrap());
        assert_eq!(calls.iter().filter(|call| **call == "cuEventRecord").count(), 1);
    });
}

#[test]
fn a_stream_that_ended_meanwhile_is_waited_for_all_the_same() {
    run(|t| {
        let (context, stream) = foreign(t);
        let memory = new_memory(t);
        use_on(t, &memory, &stream);
        // The memory keeps the stream, and with it its context.
        drop((stream, context));
        drop(memory);
        t.driver().reclaim().drain(PATIENCE).unwrap();
    });
}

#[test]
fn a_thread_s_own_stream_is_marked_when_it_is_told() {
    run(|t| {
        let (context, _) = foreign(t);
        let memory = new_memory(t);
        let stream = PerThreadStream::new(&context);
        let mark = |calls: &[&str]| calls.iter().filter(|call| call.starts_with("cuEvent")).count();
        let ((), first) = t.calls(|| memory.used_on(&stream).unwrap());
        let ((), second) = t.calls(|| memory.used_on(&stream).unwrap());
        assert_eq!((mark(&first), mark(&second)), (2, 1), "made once, recorded twice");
        let (_, calls) = t.calls(|| memory.close().unwrap());
        assert_eq!(mark(&calls), 1, "waited for, and idle again: {calls:?}");
    });
}

/// Fails one call of the end of memory that another context uses, and gives what is told.
fn fails(t: &Kit, call: &'static str) {
    let sim = t.sim().unwrap();
    let (_context, stream) = foreign(t);
    let memory = new_memory(t);
    let raw = memory.as_raw();
    use_on(t, &memory, &stream);
    let capture = t.driver().reports().capture(4);
    t.faults().arm(Fault::refused(E).on_function(call).nth(1));
    drop(memory);
    t.driver().reclaim().drain(PATIENCE).unwrap();
    let [warning] = capture.take()[..] else { panic!("{call}: one warning") };
    assert_eq!((warning.object().kind, warning.object().raw), (ObjectKind::DeviceMemory, raw));
    assert_eq!((warning.status(), warning.fate()), (Some(E), Some(Fate::Leaked)));
    assert!(warning.to_string().contains("may still use it"), "{warning}");
    assert_eq!(sim.live(SimKind::DeviceMemory), 1);
    stream.synchronize().unwrap();
    // SAFETY: leaked, and nothing uses it any more.
    let back = unsafe { DeviceMemory::from_raw(t.context(), 64, raw) }.unwrap();
    back.close().unwrap();
}

#[test]
fn memory_whose_users_can_t_be_marked_or_waited_for_is_leaked_with_one_warning() {
    for call in ["cuEventCreate", "cuEventRecord", "cuEventSynchronize"] {
        run_simulated(|t, _| fails(t, call));
    }
}

#[test]
fn closing_memory_whose_users_can_t_be_waited_for_gives_it_back() {
    run_simulated(|t, _| {
        let (_context, stream) = foreign(t);
        let memory = new_memory(t);
        use_on(t, &memory, &stream);
        for call in ["cuEventCreate", "cuEventRecord", "cuEventSynchronize"] {
            let memory = DeviceMemory::new(t.context(), 64).unwrap();
            use_on(t, &memory, &stream);
            t.faults().arm(Fault::refused(E).on_function(call).nth(1));
            let refused = memory.close().unwrap_err();
            assert!(refused.error.is(E), "{call}");
            // Its users are still known: a second close waits for them.
            refused.value.unwrap().close().unwrap();
        }
        memory.close().unwrap();
    });
}

#[test]
fn memory_that_a_captured_stream_used_is_leaked_rather_than_waited_for() {
    run_simulated(|t, sim| {
        let (_context, stream) = foreign(t);
        let memory = new_memory(t);
        let raw = memory.as_raw();
        use_on(t, &memory, &stream);
        let relaxed = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let captured = Capture::begin(t.driver(), &stream, relaxed);
        let refused = memory.close().unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::State);
        let capture = t.driver().reports().capture(2);
        drop(refused.value);
        t.driver().reclaim().drain(PATIENCE).unwrap();
        let [warning] = capture.take()[..] else { panic!("one warning") };
        assert_eq!((warning.failure(), warning.fate()), (None, Some(Fate::Leaked)));
        captured.end();
        stream.synchronize().unwrap();
        assert_eq!(sim.live(SimKind::DeviceMemory), 1);
        // SAFETY: leaked, and nothing uses it any more.
        let back = unsafe { DeviceMemory::from_raw(t.context(), 64, raw) }.unwrap();
        back.close().unwrap();
    });
}

#[test]
fn a_mapping_is_unmapped_after_every_stream_that_was_told() {
    run(|t| {
        let bytes =
            PhysicalAllocation::granularity_bytes(t.device(), PhysicalOptions::default()).unwrap();
        let range = Reservation::new(t.device(), bytes, ReservationOptions::default()).unwrap();
        let allocation =
            PhysicalAllocation::new(t.device(), bytes, PhysicalOptions::default()).unwrap();
        let mapping = Mapping::new(&range, 0, &allocation).unwrap();
        mapping.set_access(t.device(), Access::ReadWrite).unwrap();
        let (stream, memory) = (t.device().new_stream().unwrap(), mapping.memory().unwrap());
        let (fill, config) = (t.kernels().kernel("fill").unwrap(), LaunchConfig::for_len(WORDS));
        // SAFETY: the memory has as many words, and remembers who uses it.
        unsafe { fill.launch(&stream, config, (&memory, 7_u32, WORDS)) }.unwrap();
        drop((memory, mapping));
        t.driver().reclaim().drain(PATIENCE).unwrap();
        stream.synchronize().unwrap();
    });
}

#[test]
fn an_owner_outlives_the_work_that_uses_what_it_keeps() {
    run_simulated(|t, _| {
        let stream = t.device().new_stream().unwrap();
        let kept = new_memory(t);
        let (owner, _, drops) = counted();
        // SAFETY: the memory outlives it.
        let borrowed =
            unsafe { BorrowedMemory::borrow_raw(t.context(), 64, kept.as_raw(), Some(owner)) };
        let borrowed = borrowed.unwrap();
        borrowed.used_on(&stream).unwrap();
        let by_hand = t.driver().reclaim().run_by_hand();
        drop(borrowed);
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        while by_hand.step() {}
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}
