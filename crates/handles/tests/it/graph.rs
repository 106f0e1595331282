//! Graphs, executables, user objects, links and green contexts: what they keep, how long, and what they refuse.

#![expect(unsafe_code, reason = "captures by raw calls, launches graphs")]

use cuhold_driver_sim::{ObjectKind as SimKind, Sim, SimOptions};
use cuhold_driver_sys::{
    CUresult, Call, Fault,
    ffi::{CUgraph, CUstreamCaptureMode},
};
use cuhold_handles::{
    Closed, Device, Driver, ErrorKind, Graph, GreenContext, LaunchConfig, LinkInput, LinkOptions,
    LinkState, ObjectKind, SmResource, Stream, UserObject, WarningKind,
};
use cuhold_testkit::{Kit, PTX, run, run_simulated};
use std::{
    panic::panic_any,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// Counts how often it was dropped.
#[derive(Debug)]
struct Counts(Arc<AtomicU32>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counted() -> (Arc<AtomicU32>, Counts) {
    let dropped = Arc::new(AtomicU32::new(0));
    (Arc::clone(&dropped), Counts(dropped))
}

/// The graph of what `work` queues on a stream.
fn captured(t: &Kit, stream: &Stream, work: impl FnOnce()) -> Graph {
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let calls = t.driver().calls();
    // SAFETY: *handles*: a live stream.
    unsafe { calls.cuStreamBeginCapture_v2(stream.as_raw(), mode) }.unwrap();
    work();
    let mut raw = CUgraph::NULL;
    // SAFETY: *handles*: a live stream; *pointers*: a live local.
    unsafe { calls.cuStreamEndCapture(stream.as_raw(), &raw mut raw) }.unwrap();
    // SAFETY: the capture's graph, which nobody else ends.
    unsafe { Graph::from_raw(t.context(), raw) }.unwrap()
}

#[test]
fn a_kept_value_lives_as_long_as_the_last_graph_executable_or_handle_that_keeps_it() {
    run(|t| {
        let by_hand = t.driver().reclaim().run_by_hand();
        let (dropped, value) = counted();
        let object = UserObject::new(t.driver(), value).unwrap();
        let mut graph = Graph::new(t.context()).unwrap();
        graph.keep(&object).unwrap();
        let (copy, exec) = (graph.try_clone().unwrap(), graph.instantiate().unwrap());
        drop(object);
        drop(graph);
        drop(copy);
        while by_hand.step() {}
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(exec);
        assert_eq!(dropped.load(Ordering::SeqCst), 0, "nothing is dropped in the driver's call");
        while by_hand.step() {}
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_value_that_the_driver_didn_t_take_comes_back() {
    run(|t| {
        let (dropped, value) = counted();
        t.faults().arm(Fault::refused(CUresult::OUT_OF_MEMORY).on(Call::cuUserObjectCreate));
        let refused = UserObject::new(t.driver(), value).unwrap_err();
        t.faults().disarm();
        assert!(refused.error.is(CUresult::OUT_OF_MEMORY));
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(refused.value.unwrap());
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_kept_value_whose_drop_panics_is_one_warning() {
    #[derive(Debug)]
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic_any("kept value, on purpose");
        }
    }
    run(|t| {
        let capture = t.driver().reports().capture(4);
        drop(UserObject::new(t.driver(), Panics).unwrap());
        let warnings = capture.take();
        let [warning] = warnings[..] else { panic!("{warnings:?}") };
        assert_eq!(warning.kind(), WarningKind::Panicked);
        assert_eq!(warning.object().kind, ObjectKind::Owner);
    });
}

#[test]
fn a_library_is_unloaded_once_no_executable_keeps_its_kernel() {
    run_simulated(|t, sim| {
        let stream = t.device().new_stream().unwrap();
        let kernel = t.kernels().kernel("nop").unwrap();
        let mut graph = captured(t, &stream, || {
            // SAFETY: the kernel has no parameters and touches no memory.
            unsafe { kernel.launch(&stream, LaunchConfig::for_len(1), ()) }.unwrap();
        });
        graph.keep(&UserObject::new(t.driver(), kernel).unwrap()).unwrap();
        let mut exec = graph.instantiate().unwrap();
        assert_eq!(graph.close().unwrap(), Closed::Destroyed);
        t.becomes(|| sim.live(SimKind::Library), 1);
        // SAFETY: as above, and its code is kept.
        unsafe { exec.launch(&stream) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(exec.close().unwrap(), Closed::Destroyed);
        t.becomes(|| sim.live(SimKind::Library), 0);
    });
}

#[test]
fn objects_of_two_drivers_don_t_meet() {
    run(|t| {
        let other = t.driver().isolated();
        let there = Device::with_driver(&other, 0).unwrap();
        let mut graph = Graph::new(t.context()).unwrap();
        let mut exec = graph.instantiate().unwrap();
        let (stream, object) = (there.new_stream().unwrap(), UserObject::new(&other, 7).unwrap());
        let (errors, calls) = t.calls(|| {
            // SAFETY: the graph is empty.
            let launched = unsafe { exec.launch(&stream) };
            [graph.keep(&object), launched, exec.upload(&stream)].map(Result::unwrap_err)
        });
        assert_eq!(calls, [""; 0]);
        for (error, what) in errors.iter().zip(["object", "stream", "stream"]) {
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert!(error.to_string().starts_with(what), "{error}");
        }
        let parts =
            [SmResource::of_device(t.device()).unwrap(), SmResource::of_device(&there).unwrap()];
        assert_eq!(GreenContext::new(&parts).unwrap_err().kind(), ErrorKind::Argument);
        drop((stream, object));
        other.reclaim().drain(crate::drop::PATIENCE).unwrap();
    });
}

#[test]
fn a_green_context_ends_after_its_streams_and_their_work() {
    run(|t| {
        let split = SmResource::of_device(t.device()).unwrap().split_by_count(1, 16).unwrap();
        let green = GreenContext::new(&split.groups).unwrap();
        assert_eq!(green.sm_resource().unwrap().count(), split.groups[0].count());
        let stream = green.new_stream(0).unwrap();
        let ran = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&ran);
        let seen = move || _ = seen.fetch_add(1, Ordering::SeqCst);
        stream.host_fn(seen).map_err(|refused| refused.error).unwrap();
        assert_eq!(green.close().unwrap(), Closed::StillShared);
        drop(stream);
        t.driver().reclaim().drain(crate::drop::PATIENCE).unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1, "its end waits for its work");
    });
}

#[test]
fn a_green_context_whose_work_could_not_be_waited_for_comes_back() {
    run(|t| {
        let all = SmResource::of_device(t.device()).unwrap();
        let green = GreenContext::new(&[all]).unwrap();
        t.faults().arm(Fault::refused(CUresult::UNKNOWN).on(Call::cuCtxSynchronize_v2));
        let (refused, calls) = t.calls(|| green.close().unwrap_err());
        t.faults().disarm();
        assert_eq!(calls, ["cuCtxSynchronize"]);
        assert_eq!(refused.value.unwrap().close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn a_split_that_can_t_be_names_its_bounds() {
    let sim = Sim::with_options(SimOptions::with_devices(2));
    let driver = Driver::from_api(sim);
    let [zero, one] = [0, 1].map(|at| Device::with_driver(&driver, at).unwrap());
    let all = SmResource::of_device(&zero).unwrap();
    let count = all.count();
    let text = |result: Result<_, cuhold_handles::Error>| -> String {
        let error: cuhold_handles::Error = result.map(|_: cuhold_handles::SmSplit| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        error.to_string()
    };
    assert_eq!(
        text(all.split_by_count(0, 16)),
        format!(
            "groups: 0, must be from 1 to {}, since each has at least 16 of {count} multiprocessors",
            count / 16
        )
    );
    assert_eq!(
        text(all.split_by_count(1, count + 1)),
        format!("least: {}, must be from 1 to {count} multiprocessors", count + 1)
    );
    assert_eq!(
        text(all.split_by_count(1, 0)),
        format!("least: 0, must be from 1 to {count} multiprocessors")
    );
    let both = [all, SmResource::of_device(&one).unwrap()];
    let error = GreenContext::new(&both).unwrap_err().to_string();
    assert!(
        error.starts_with("resources: number 1 is of device 1, the first of device 0"),
        "{error}"
    );
    let none = GreenContext::new(&[]).unwrap_err().to_string();
    assert_eq!(none, "resources: 0 of them, at least 1 is needed");
}

#[test]
fn a_link_says_what_is_wrong_with_an_input() {
    run(|t| {
        let mut link = LinkState::new(t.context(), LinkOptions::default()).unwrap();
        link.add_data(LinkInput::Ptx, PTX.as_bytes(), "kernels").unwrap();
        assert!(!link.complete().unwrap().is_empty());
        assert_eq!(link.close().unwrap(), Closed::Destroyed);

        let mut broken = LinkState::new(t.context(), LinkOptions::default()).unwrap();
        let bad =
            b".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry k( { nonsense; }\n";
        let error = broken.add_data(LinkInput::Ptx, bad, "bad").unwrap_err();
        assert!(error.is(CUresult::INVALID_PTX), "{error}");
        assert!(!broken.error_log().is_empty());
        assert!(error.to_string().ends_with(broken.error_log().trim()), "{error}");
        let none = broken.add_data(LinkInput::Ptx, &[], "none").unwrap_err();
        assert_eq!(none.to_string(), "data: an image has at least 1 byte");
    });
    run(|t| {
        for bytes in [0, LinkOptions::LOG_BYTES_MAX + 1] {
            let options = LinkOptions::default().log_bytes(bytes);
            let error = LinkState::new(t.context(), options).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("log_bytes: {bytes}, must be from 1 to {}", LinkOptions::LOG_BYTES_MAX)
            );
        }
    });
}
