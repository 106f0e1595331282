//! Graphs, what they keep, and green contexts: what ends when, and what is never ended twice.

use super::{context_of, two_contexts};
use cuhold_driver_sys::{
    CUresult, Call, Entry,
    ffi::{CUgraph, CUstreamCaptureMode as Mode},
};
use cuhold_handles::{ErrorKind, EventOptions, Graph, GreenContext, SmResource, UserObject};
use cuhold_testkit::{ForeignCapture, Kit, run, run_simulated};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// S80: what the end of a broken capture gives is no graph, and nothing is done to it.
#[test]
fn a_capture_that_was_broken_leaves_one_error_and_no_graph_to_destroy() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let raw = stream.as_raw();
        let calls = t.driver().calls();
        // SAFETY: *handles*: the stream outlives the capture.
        unsafe { calls.cuStreamBeginCapture_v2(raw, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL) }.unwrap();
        let broken = stream.synchronize().unwrap_err();
        assert!(broken.is(CUresult::STREAM_CAPTURE_UNSUPPORTED), "{broken}");
        let mut graph = CUgraph::NULL;
        // SAFETY: *handles*: live; *pointers*: a live local.
        let ended = unsafe { calls.cuStreamEndCapture(raw, &raw mut graph) }.unwrap_err();
        assert_eq!(ended.status, CUresult::STREAM_CAPTURE_INVALIDATED);
        assert!(graph.is_null());
        // SAFETY: null is refused, and nobody else has it.
        let (taken, made) = t.calls(|| unsafe { Graph::from_raw(t.context(), graph) });
        assert_eq!(taken.err().map(|error| error.kind()), Some(ErrorKind::Argument));
        assert_eq!(made, [""; 0]);
        // The stream is out of the capture.
        stream.synchronize().unwrap();
        ForeignCapture::begin(t.driver(), &stream, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL).end();
    });
}

/// What a graph keeps is dropped on the reclaimer, where calls may be made, and not where the driver lets go of it.
#[test]
fn what_a_graph_kept_is_dropped_once_on_the_reclaimer_and_may_use_the_library() {
    struct Kept(Arc<AtomicU32>, cuhold_handles::Device);
    impl Drop for Kept {
        fn drop(&mut self) {
            let made = u32::from(self.1.new_stream().is_ok());
            self.0.fetch_add(1 + 10 * made, Ordering::SeqCst);
        }
    }
    run(|t| {
        let dropped = Arc::<AtomicU32>::default();
        let hand = t.driver().reclaim().run_by_hand();
        let mut graph = Graph::new(t.context()).unwrap();
        let value = Kept(Arc::clone(&dropped), t.device().clone());
        let object = UserObject::new(t.driver(), value).map_err(|refused| refused.error).unwrap();
        graph.keep(&object).unwrap();
        drop(object);
        let exec = graph.instantiate().unwrap();
        drop(graph);
        assert_eq!(dropped.load(Ordering::SeqCst), 0, "the executable keeps it");
        drop(exec);
        // On a real driver the last reference goes on a thread of its own.
        while t.driver().reclaim().pending() == 0 {
            assert_eq!(dropped.load(Ordering::SeqCst), 0, "not where the driver lets go of it");
            std::thread::yield_now();
        }
        assert_eq!(dropped.load(Ordering::SeqCst), 0, "not where the driver lets go of it");
        while hand.step() {}
        assert_eq!(dropped.load(Ordering::SeqCst), 11);
    });
}

fn green(t: &Kit) -> GreenContext {
    let split = SmResource::of_device(t.device()).unwrap().split_by_count(1, 16).unwrap();
    GreenContext::new(&split.groups).unwrap()
}

/// S86: operations on a green context's stream run where it belongs, and the caller's context stays.
#[test]
fn a_stream_of_a_green_context_is_worked_with_where_it_belongs_and_keeps_it_alive() {
    run(|t| {
        let (green, (a, _b)) = (green(t), two_contexts(t));
        let stream = green.new_stream(0).unwrap();
        assert_eq!(context_of(t, stream.raw()), stream.context().as_raw());
        let ran = Arc::<AtomicU32>::default();
        a.with_current(|| {
            let event = stream.record_new(EventOptions::default()).unwrap();
            event.synchronize().unwrap();
            assert_eq!(t.stack(), [a.as_raw()]);
            let count = Arc::clone(&ran);
            let closure = move || _ = count.fetch_add(1, Ordering::SeqCst);
            stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        })
        .unwrap();
        // The context's handle first, with work queued.
        drop(green);
        stream.synchronize().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        let ((), entries) = t.entries(|| {
            drop(stream);
            t.driver().reclaim().drain(crate::drop::PATIENCE).unwrap();
        });
        let at = |call| entries.iter().position(|entry: &Entry| entry.call() == call);
        let (stream, green) = (at(Call::cuStreamDestroy_v2), at(Call::cuGreenCtxDestroy));
        assert!(stream.is_some() && stream < green, "{entries:?}");
    });
}

/// S86: the end of the context comes after the work of its streams.
#[test]
fn a_green_context_ends_after_the_work_of_its_streams_although_their_handles_are_gone() {
    run_simulated(|t, sim| {
        let green = green(t);
        let stream = green.new_stream(0).unwrap();
        let hand = t.driver().reclaim().run_by_hand();
        stream.host_fn(|| ()).map_err(|refused| refused.error).unwrap();
        drop(green);
        drop(stream);
        assert!(sim.pending() > 0, "queued, and nobody waited");
        let ((), entries) = t.entries(|| while hand.step() {});
        assert_eq!(sim.pending(), 0);
        let calls: Vec<_> = entries.iter().map(|entry| entry.call().name()).collect();
        assert_eq!(calls, ["cuCtxSynchronize", "cuGreenCtxDestroy"]);
    });
}
