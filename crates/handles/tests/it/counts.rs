//! Exact counts of driver calls, each in its situation, the policy's own calls included.

use cuhold_handles::{Context, ContextFlags, EventOptions, LaunchConfig};
use cuhold_testkit::{Kit, run};

const CURRENT: &str = "cuCtxGetCurrent";

/// Prints a figure as `cargo xtask figures` reads it.
#[expect(clippy::print_stdout, reason = "the line is what the figures are read from")]
fn figure(name: &str, value: usize) {
    println!("figure {name}: {value}");
}

/// How many calls `work` makes with its own context current, with another, and with none; what it makes is dropped
/// uncounted.
fn in_each_situation<T>(t: &Kit, work: impl Fn() -> T) -> [usize; 3] {
    let other = Context::new(t.device(), ContextFlags::default()).unwrap();
    let count = || {
        let (made, calls) = t.calls(&work);
        drop(made);
        calls.len()
    };
    let own = t.context().with_current(count).unwrap();
    let others = other.with_current(count).unwrap();
    let none = count();
    other.close().unwrap();
    [own, others, none]
}

#[test]
#[expect(unsafe_code, reason = "launches")]
fn exact_counts_of_work_on_a_created_stream() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let event = t.device().new_event(EventOptions::default()).unwrap();
        let nop = t.kernels().kernel("nop").unwrap();
        let launch = || {
            // SAFETY: the kernel has no parameters and touches no memory.
            unsafe { nop.launch(&stream, LaunchConfig::for_len(1), ()) }.unwrap();
        };
        launch();
        let ((), calls) = t.calls(launch);
        assert_eq!(calls, ["cuLaunchKernelEx"]);
        figure("driver_calls_per_launch", calls.len());
        assert_eq!(in_each_situation(t, launch), [1, 1, 1]);
        assert_eq!(t.calls(|| stream.record(&event).unwrap()).1, ["cuEventRecord"]);
        assert_eq!(t.calls(|| stream.wait_event(&event).unwrap()).1, ["cuStreamWaitEvent"]);
        stream.synchronize().unwrap();
    });
}

#[test]
fn exact_counts_of_work_on_a_default_stream() {
    run(|t| {
        let stream = t.device().legacy_stream();
        let event = t.device().new_event(EventOptions::default()).unwrap();
        assert_eq!(in_each_situation(t, || stream.record(&event).unwrap()), [2, 4, 4]);
        assert_eq!(in_each_situation(t, || stream.wait_event(&event).unwrap()), [2, 4, 4]);
        t.context().with_current(|| stream.synchronize().unwrap()).unwrap();
    });
}

#[test]
fn exact_counts_of_creating_streams_and_events() {
    run(|t| {
        let new_stream = || t.device().new_stream().unwrap();
        let (stream, calls) = t.context().with_current(|| t.calls(new_stream)).unwrap();
        assert_eq!(calls, [CURRENT, "cuStreamCreateWithPriority"]);
        figure("driver_calls_per_stream_create", calls.len());
        drop(stream);
        assert_eq!(in_each_situation(t, new_stream), [2, 4, 4]);
        let new_event = || t.device().new_event(EventOptions::default()).unwrap();
        assert_eq!(in_each_situation(t, new_event), [2, 4, 4]);
    });
}

#[test]
fn exact_counts_of_clones_and_of_ending_streams_and_events() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let event = t.device().new_event(EventOptions::default()).unwrap();
        assert!(t.calls(|| drop((stream.clone(), event.clone()))).1.is_empty());
        assert_eq!(t.calls(|| drop(stream)).1, ["cuStreamDestroy"]);
        assert_eq!(t.calls(|| drop(event)).1, ["cuEventDestroy"]);
    });
}
