//! Graphs by capture.

#![expect(unsafe_code, reason = "makes calls that captures forbid, past the library")]

mod body;
mod build;
mod copies;
mod failure;
mod fork;
mod scenario;
mod stress;

use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{CUresult, Failure};
use cuhold_graph::{
    CaptureMode, Graph, GraphBuilder,
    handles::{Device, Driver, Stream},
};
use cuhold_testkit::Kit;

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

fn begin(stream: &Stream) -> GraphBuilder {
    GraphBuilder::begin(stream, CaptureMode::ThreadLocal).unwrap()
}

/// Invalidates a capture, past the library: in every mode a captured stream isn't waited for.
fn invalidate(builder: &GraphBuilder) -> Failure {
    // SAFETY: *handles*: the builder's stream is live.
    let failure =
        unsafe { builder.driver().calls().cuStreamSynchronize(builder.as_raw()) }.unwrap_err();
    assert_eq!(failure.status, CUresult::STREAM_CAPTURE_UNSUPPORTED);
    failure
}

/// Runs a body on the driver that the environment names; what it leaves to the reclaimer is done behind it.
fn run(body: impl FnOnce(&Kit)) {
    cuhold_testkit::run(|t| {
        body(t);
        t.settle();
    });
}

/// The same of a body that needs the simulated driver.
fn run_simulated(body: impl FnOnce(&Kit, &Sim)) {
    cuhold_testkit::run_simulated(|t, sim| {
        body(t, sim);
        t.settle();
    });
}

/// As [`run`], of a body that leaves objects for good: on a driver value of its own, which isn't looked at in the end.
fn run_and_leak(body: impl FnOnce(&Device)) {
    cuhold_testkit::run(|t| {
        let driver = match t.sim() {
            Some(_) => Driver::from_api(Sim::new()),
            None => Driver::load().unwrap().isolated(),
        };
        body(&Device::with_driver(&driver, 0).unwrap());
    });
}

/// Runs a graph once, and waits for it.
fn launch(graph: &mut Graph, stream: &Stream) {
    let mut exec = graph.instantiate().unwrap();
    exec.launch(stream).unwrap();
    stream.synchronize().unwrap();
}
