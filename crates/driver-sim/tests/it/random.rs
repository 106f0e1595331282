//! Random calls with live, stale and foreign handles: whatever a caller does, the simulator keeps its own rules.

#![expect(clippy::indexing_slicing, reason = "indices are taken modulo the length")]

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use proptest::prelude::*;

use crate::ask::{Asked, Runs, call, count, get, primary, sim_with};

/// Everything that the calls of a run gave out, ended or not, and values that nothing gave out.
struct Caller {
    sim: Sim,
    runs: Runs,
    contexts: Vec<CUcontext>,
    streams: Vec<CUstream>,
    events: Vec<CUevent>,
    graphs: Vec<CUgraph>,
    objects: Vec<CUuserObject>,
}

/// Mostly one of the newest, so that many calls make sense.
fn pick<T: Copy>(from: &[T], at: u8) -> T {
    let back = usize::from(if at.is_multiple_of(5) { at / 5 } else { at % 5 - 1 });
    from[from.len() - 1 - back % from.len()]
}

impl Caller {
    fn new(reuse_handles: bool) -> Self {
        let mut options = SimOptions::with_devices(2);
        options.reuse_handles = reuse_handles;
        let sim = sim_with(options);
        let contexts = vec![CUcontext::NULL, CUcontext::from_addr(0x40), primary(&sim, 0)];
        let streams = [0, 1, 2, 0x40].map(CUstream::from_addr).to_vec();
        let events = [0, 0x40].map(CUevent::from_addr).to_vec();
        let graphs = [0, 0x40].map(CUgraph::from_addr).to_vec();
        let objects = [0, 0x40].map(CUuserObject::from_addr).to_vec();
        call!(sim, cuCtxSetCurrent(contexts[2])).unwrap();
        Self { sim, runs: Runs::default(), contexts, streams, events, graphs, objects }
    }

    /// One call; `which` chooses it, the others its arguments.
    fn make(&mut self, which: u8, a: u8, b: u8) -> Asked<()> {
        match which % 4 {
            0 => self.change_context(which / 4, a),
            1 => self.use_stream(which / 4, a, b),
            2 => self.capture(which / 4, a, b),
            _ => self.use_graph(which / 4, a, b),
        }
    }

    fn change_context(&mut self, which: u8, a: u8) -> Asked<()> {
        let (sim, ctx, device) = (&self.sim, pick(&self.contexts, a), CUdevice::from(a % 3));
        match which % 9 {
            0 => {
                let null = std::ptr::null_mut();
                self.contexts.push(get!(sim, cuCtxCreate_v4(out, null, 0, device))?);
                Ok(())
            }
            1 => call!(sim, cuCtxDestroy_v2(ctx)),
            2 => call!(sim, cuCtxSetCurrent(ctx)),
            3 => call!(sim, cuCtxPushCurrent_v2(ctx)),
            4 => call!(sim, cuCtxPopCurrent_v2(std::ptr::null_mut())),
            5 => {
                self.contexts.push(get!(sim, cuDevicePrimaryCtxRetain(out, device))?);
                Ok(())
            }
            6 => call!(sim, cuDevicePrimaryCtxRelease_v2(device)),
            7 => call!(sim, cuDevicePrimaryCtxReset_v2(device)),
            _ => call!(sim, cuCtxSynchronize_v2(ctx)),
        }
    }

    fn use_stream(&mut self, which: u8, a: u8, b: u8) -> Asked<()> {
        let (sim, s, e) = (&self.sim, pick(&self.streams, a), pick(&self.events, b));
        match which % 11 {
            0 => {
                self.streams.push(get!(sim, cuStreamCreate(out, c_uint::from(b % 3)))?);
                Ok(())
            }
            1 => {
                self.events.push(get!(sim, cuEventCreate(out, c_uint::from(b % 3)))?);
                Ok(())
            }
            2 => call!(sim, cuStreamDestroy_v2(s)),
            3 => call!(sim, cuEventDestroy_v2(e)),
            4 => call!(sim, cuEventRecord(e, s)),
            5 => call!(sim, cuStreamWaitEvent(s, e, c_uint::from(a % 2))),
            6 => call!(sim, cuStreamSynchronize(s)),
            7 => call!(sim, cuEventSynchronize(e)),
            8 => call!(sim, cuStreamQuery(s)),
            9 => get!(sim, cuEventElapsedTime_v2(out, e, pick(&self.events, a))).map(|_: f32| ()),
            _ => self.runs.queue(sim, s),
        }
    }

    fn capture(&mut self, which: u8, a: u8, b: u8) -> Asked<()> {
        let (sim, s) = (&self.sim, pick(&self.streams, a));
        let mut mode = CUstreamCaptureMode(c_uint::from(b % 4));
        match which % 6 {
            0 | 1 => call!(sim, cuStreamBeginCapture_v2(s, mode)),
            2 => {
                let (g, none, edges) = (pick(&self.graphs, b), std::ptr::null(), std::ptr::null());
                call!(sim, cuStreamBeginCaptureToGraph(s, g, none, edges, 0, mode))
            }
            3 => call!(sim, cuThreadExchangeStreamCaptureMode(&raw mut mode)),
            4 => {
                sim.stream_step(s);
                Ok(())
            }
            _ => {
                self.graphs.push(get!(sim, cuStreamEndCapture(s, out))?);
                Ok(())
            }
        }
    }

    fn use_graph(&mut self, which: u8, a: u8, b: u8) -> Asked<()> {
        let (sim, g, u) = (&self.sim, pick(&self.graphs, a), pick(&self.objects, b));
        let references = c_uint::from(a % 3);
        match which % 7 {
            0 => {
                self.graphs.push(get!(sim, cuGraphCreate(out, 0))?);
                Ok(())
            }
            1 => {
                let made = get!(
                    sim,
                    cuUserObjectCreate(out, self.runs.data(), Some(count), references, 1)
                );
                self.objects.push(made?);
                Ok(())
            }
            2 => call!(sim, cuGraphDestroy(g)),
            3 => call!(sim, cuGraphRetainUserObject(g, u, references, c_uint::from(b % 2))),
            4 => call!(sim, cuGraphReleaseUserObject(g, u, references)),
            5 => call!(sim, cuUserObjectRelease(u, references)),
            _ => {
                let mut nodes = 0;
                call!(sim, cuGraphGetNodes(g, std::ptr::null_mut(), &raw mut nodes))
            }
        }
    }

    /// Ends all that is left, as a caller would who knows what is live.
    fn end_everything(&self) {
        let sim = &self.sim;
        let mut mode = RELAXED;
        call!(sim, cuThreadExchangeStreamCaptureMode(&raw mut mode)).unwrap();
        while sim.stack_depth() > 0 {
            call!(sim, cuCtxPopCurrent_v2(std::ptr::null_mut())).unwrap();
        }
        let order = [
            ObjectKind::Stream,
            ObjectKind::Event,
            ObjectKind::Graph,
            ObjectKind::UserObject,
            ObjectKind::Context,
        ];
        for kind in order {
            for leak in sim.leaks().into_iter().filter(|leak| leak.kind == kind) {
                end_one(sim, kind, usize::try_from(leak.raw).unwrap());
            }
        }
        for device in 0..2 {
            while call!(sim, cuDevicePrimaryCtxRelease_v2(device)).is_ok() {}
        }
    }
}

const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

fn end_one(sim: &Sim, kind: ObjectKind, raw: usize) {
    match kind {
        ObjectKind::Stream => call!(sim, cuStreamDestroy_v2(CUstream::from_addr(raw))).unwrap(),
        ObjectKind::Event => call!(sim, cuEventDestroy_v2(CUevent::from_addr(raw))).unwrap(),
        // The graph of a capture on a default stream ends with the context.
        ObjectKind::Graph => drop(call!(sim, cuGraphDestroy(CUgraph::from_addr(raw)))),
        ObjectKind::Context => call!(sim, cuCtxDestroy_v2(CUcontext::from_addr(raw))).unwrap(),
        _ => {
            let object = CUuserObject::from_addr(raw);
            while sim.leaks().iter().any(|leak| leak.kind == kind && leak.raw == raw as u64) {
                call!(sim, cuUserObjectRelease(object, 1)).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn whatever_is_called_the_simulator_keeps_its_own_rules(
        calls in prop::collection::vec(any::<(u8, u8, u8)>(), 1..200),
        reuse in any::<bool>(),
        lost in prop::option::weighted(0.1, 0..200_usize),
    ) {
        let mut caller = Caller::new(reuse);
        for (at, (which, a, b)) in calls.into_iter().enumerate() {
            if lost == Some(at) {
                caller.sim.poison(CUresult::ILLEGAL_ADDRESS);
            }
            // Most are refused, since most arguments make no sense.
            let _answer = caller.make(which, a, b);
        }
        let is_lost = call!(caller.sim, cuCtxSynchronize()) == Err(CUresult::ILLEGAL_ADDRESS);
        if !is_lost && lost.is_none() {
            caller.end_everything();
            let left = caller.sim.leaks();
            prop_assert!(left.is_empty(), "{left:#?}");
            prop_assert_eq!(caller.sim.captures(), 0);
            prop_assert_eq!(caller.sim.pending(), 0);
        }
        let broken = caller.sim.violations();
        prop_assert!(broken.iter().all(|v| v.kind != ViolationKind::Internal), "{broken:#?}");
    }
}
