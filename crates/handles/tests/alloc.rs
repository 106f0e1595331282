//! What allocates and what doesn't, counted by a global allocator: reporting a failure, from making the warning to the
//! sink; work on a stream; making and ending objects. What the driver allocates isn't counted.
//!
//! A binary of its own, since it replaces the allocator.

#![expect(unsafe_code, reason = "an allocator, and launches")]

use cuhold_driver_sys::{CUresult, Call, Failure, Fault, Hook, Verdict, ffi::CUstream};
use cuhold_handles::{
    Action, CudaWarning, Current, Device, EventOptions, Fate, Filter, LaunchConfig, Mark, Object,
    ObjectKind, Reports, Rule, Sink,
};
use cuhold_testkit::{PTX, run};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    env,
    hint::black_box,
    process::{Command, Stdio},
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// The system's allocator, counting the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static FREED: Cell<usize> = const { Cell::new(0) };
    /// Whether the thread is inside the driver.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn count(bytes: usize) {
    // The cells have neither an initializer to run nor a destructor, so they are there whenever a thread allocates.
    if !INSIDE.get() {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + bytes);
    }
}

/// A hook that tells the counter when the thread is inside the driver.
struct Border;

impl Hook for Border {
    fn before(&self, _: Call, _: &[u64]) -> Verdict<CUresult> {
        INSIDE.set(true);
        Verdict::Pass
    }
    fn after(&self, _: Call, _: &[u64], _: CUresult) {
        INSIDE.set(false);
    }
}

// SAFETY: each method is the system allocator's, which keeps the trait's promises; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's promise, passed on; what this allocator gave out is the system's.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !INSIDE.get() {
            FREED.set(FREED.get() + layout.size());
        }
        // SAFETY: the caller's promise, passed on; what this allocator gave out is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread allocates in `work`.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// How many bytes this thread allocates in `work`.
fn bytes(work: impl FnOnce()) -> usize {
    let before = BYTES.get();
    work();
    BYTES.get() - before
}

fn failure(status: CUresult) -> Failure {
    Failure { call: Call::cuStreamDestroy_v2, status }
}

fn stream(id: u64) -> Object {
    Object { kind: ObjectKind::Stream, raw: 0x100, id }
}

fn warning(status: CUresult, id: u64) -> CudaWarning {
    CudaWarning::failed(failure(status), stream(id), Fate::Leaked)
}

/// A channel with a sink that only counts.
fn quiet() -> Reports {
    let reports = Reports::new();
    let heard = AtomicU64::new(0);
    drop(reports.set_sink(Sink::new(move |_| {
        heard.fetch_add(1, Ordering::Relaxed);
    })));
    reports
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1);
    assert_eq!(allocations(|| ()), 0);
}

/// Prints a figure as `cargo xtask figures` reads it.
#[expect(clippy::print_stdout, reason = "the line is what the figures are read from")]
fn figure(name: &str, value: u64) {
    println!("figure {name}: {value}");
}

#[test]
fn exact_counts_of_allocations_in_work_on_a_created_stream() {
    run(|t| {
        let driver = t.driver().hooked(Border);
        let device = Device::with_driver(&driver, 0).unwrap();
        let stream = device.new_stream().unwrap();
        let event = device.new_event(EventOptions::default()).unwrap();
        let nop = device.load(PTX).unwrap().kernel("nop").unwrap();
        let fill = device.load(PTX).unwrap().kernel("fill").unwrap();
        let launch = || {
            // SAFETY: the kernel has no parameters and touches no memory.
            unsafe { nop.launch(&stream, LaunchConfig::for_len(1), ()) }.unwrap();
        };
        let launch_with_arguments = || {
            // SAFETY: of no word none is set: the pointer isn't followed.
            unsafe { fill.launch(&stream, LaunchConfig::for_len(1), (0u64, 7u32, 0u32)) }.unwrap();
        };
        // The first launch may look something up.
        launch();
        launch_with_arguments();
        let made = allocations(launch);
        assert_eq!((made, allocations(launch_with_arguments)), (0, 0));
        figure("heap_allocations_per_launch", made);
        assert_eq!(allocations(|| stream.record(&event).unwrap()), 0);
        assert_eq!(allocations(|| stream.wait_event(&event).unwrap()), 0);
        stream.synchronize().unwrap();
    });
}

#[test]
fn exact_counts_of_allocations_in_the_life_of_a_stream_and_an_event() {
    run(|t| {
        let driver = t.driver().hooked(Border);
        let device = Device::with_driver(&driver, 0).unwrap();
        let mut made = (None, None);
        assert_eq!(allocations(|| made.0 = Some(device.new_stream().unwrap())), 1);
        let options = EventOptions::default();
        assert_eq!(allocations(|| made.1 = Some(device.new_event(options).unwrap())), 1);
        assert_eq!(allocations(|| drop(made.clone())), 0);
        assert_eq!(allocations(|| drop(made)), 0);
    });
}

#[test]
fn exact_counts_of_allocations_of_marks() {
    run(|t| {
        let driver = t.driver().hooked(Border);
        let device = Device::with_driver(&driver, 0).unwrap();
        let (stream, shown) = (device.new_stream().unwrap(), device.new_stream().unwrap());
        let _raw: CUstream = shown.as_raw();
        let again = || drop(stream.mark().unwrap());
        // The first of a context makes room for all of them.
        again();
        let made = allocations(again);
        assert_eq!(made, 0);
        figure("heap_allocations_per_mark", made);
        assert_eq!(allocations(|| drop(stream.mark().unwrap().keep())), 0);
        // One that is made, and one that is destroyed.
        let held = Mark::take(device.context()).unwrap();
        assert_eq!(allocations(|| drop(shown.mark().unwrap())), 0);
        drop(held);
        // More than a thread keeps for itself, and more than the context keeps.
        let many: Vec<Mark<'_>> = (0..100).map(|_| stream.mark().unwrap()).collect();
        assert_eq!(allocations(|| drop(many)), 0);
    });
}

#[test]
fn exact_counts_of_the_bytes_behind_a_stream_and_an_event() {
    run(|t| {
        let driver = t.driver().hooked(Border);
        let device = Device::with_driver(&driver, 0).unwrap();
        let mut made = (None, None);
        // Two cache lines: one for the count, which clones write, one for what is read.
        assert_eq!(bytes(|| made.0 = Some(device.new_stream().unwrap())), 128);
        let options = EventOptions::default();
        assert_eq!(bytes(|| made.1 = Some(device.new_event(options).unwrap())), 64);
        assert_eq!(size_of_val(&made), 2 * size_of::<usize>(), "a handle is one word");
    });
}

#[test]
fn a_closure_that_the_driver_was_never_given_leaves_nothing_allocated() {
    run(|t| {
        let driver = t.driver().hooked(Border);
        let device = Device::with_driver(&driver, 0).unwrap();
        let stream = device.legacy_stream();
        let launch = || {
            let ask = Fault::refused(CUresult::UNKNOWN).on(Call::cuCtxGetCurrent).nth(1);
            t.faults().arm(ask);
            drop(stream.host_fn(|| ()).unwrap_err());
            t.faults().disarm();
        };
        // The first one starts a thread.
        launch();
        let before = (BYTES.get(), FREED.get());
        launch();
        assert_eq!(BYTES.get() - before.0, FREED.get() - before.1);
    });
}

#[test]
fn making_a_warning_allocates_nothing() {
    let text = "a text much longer than what a warning has room for, by far";
    let owned: Box<dyn std::any::Any + Send> = Box::new(String::from(text));
    let refused = failure(CUresult::INVALID_CONTEXT);
    let made = allocations(|| {
        for warning in [
            CudaWarning::failed(refused, stream(1), Fate::Leaked).with_text(text),
            CudaWarning::restore_refused(refused, stream(1), Current::Unknown(refused)),
            CudaWarning::mode_not_restored(refused, stream(1), "relaxed"),
            CudaWarning::skipped(Call::cuEventDestroy_v2, stream(1), refused),
            CudaWarning::panicked(stream(1), &*owned).with_fate(Fate::Released),
            CudaWarning::note(stream(1), text).with_current(Current::Is(1)),
        ] {
            let _: CudaWarning = black_box(warning);
        }
    });
    assert_eq!(made, 0);
}

#[test]
fn raising_to_a_user_s_sink_allocates_nothing() {
    let reports = quiet();
    assert_eq!(allocations(|| reports.raise(warning(CUresult::INVALID_HANDLE, 1))), 0);
    assert_eq!(reports.counts().delivered, 1);
}

#[test]
fn each_way_through_the_filter_allocates_nothing() {
    let reports = quiet();
    drop(reports.set_escalation(Some(Sink::new(|_| ()))));
    let filter = Filter::new(Action::Always)
        .rule(Rule::new(Action::Ignore).status(CUresult::UNKNOWN))
        .rule(Rule::new(Action::Once).status(CUresult::NOT_FOUND))
        .rule(Rule::new(Action::Escalate).status(CUresult::NOT_SUPPORTED));
    drop(reports.set_filter(filter));
    let raised = allocations(|| {
        for id in 1..=5000 {
            for status in [
                CUresult::UNKNOWN,
                CUresult::NOT_FOUND,
                CUresult::NOT_FOUND,
                CUresult::NOT_SUPPORTED,
                CUresult::ILLEGAL_ADDRESS,
                CUresult::ILLEGAL_ADDRESS,
            ] {
                reports.raise(warning(status, id));
            }
        }
    });
    assert_eq!(raised, 0);
    let counts = reports.counts();
    assert!(counts.folded > 0 && counts.ignored > 0 && counts.escalated > 0, "{counts:?}");
}

#[test]
fn a_capture_takes_warnings_without_allocating() {
    let reports = quiet();
    let capture = reports.capture(4);
    let raised = allocations(|| {
        for id in 1..=8 {
            reports.raise(warning(CUresult::INVALID_HANDLE, id));
        }
    });
    assert_eq!((raised, capture.over(), capture.take().len()), (0, 4, 4));
}

#[test]
fn threads_that_wait_for_each_other_allocate_nothing() {
    let reports = quiet();
    // So many rules that a thread is in the channel's lock for long, and others do wait for it.
    let never = Rule::new(Action::Ignore).status(CUresult::NOT_FOUND);
    drop(reports.set_filter((0..1_000_000).fold(Filter::default(), |f, _| f.rule(never))));
    let start = Barrier::new(8);
    let raised: u64 = thread::scope(|s| {
        let raise = || {
            start.wait();
            allocations(|| {
                for id in 0..5 {
                    reports.raise(warning(CUresult::INVALID_HANDLE, id));
                }
            })
        };
        let threads: Vec<_> = (0..8).map(|_| s.spawn(raise)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((raised, reports.counts().delivered), (0, 40));
}

/// The test runs itself again as a child, whose stderr it reads.
#[test]
fn raising_to_the_default_sink_allocates_nothing() {
    const NAME: &str = "raising_to_the_default_sink_allocates_nothing";
    const CHILD: &str = "CUHOLD_TEST_CHILD";
    if env::var_os(CHILD).is_some() {
        let reports = Reports::new();
        assert_eq!(allocations(|| reports.raise(warning(CUresult::INVALID_HANDLE, 1))), 0);
        return;
    }
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(CHILD, NAME)
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8(child.stderr).unwrap();
    assert!(child.status.success(), "{stderr}");
    assert!(stderr.starts_with("cuhold: warning: cuStreamDestroy answered"), "{stderr}");
}
