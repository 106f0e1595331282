//! Allocation and events on many threads: the raw driver, cuhold's resources, and on a real driver cudarc, side by side.
//!
//! `CUHOLD_DRIVER=real` measures on the GPU; else the simulated driver, which has one lock for everything, shows that the
//! benches work, and what the resources cost that don't ask it. `CUHOLD_BENCH_OUT` names a file for the lines of `cargo xtask
//! bench-report`, `CUHOLD_BENCH_THREADS` the numbers of threads; an argument is part of the names of the benches wanted.

#![expect(unsafe_code, reason = "the baseline is the raw driver")]
#![expect(clippy::unwrap_used, reason = "a benchmark that can't run ends")]

#[path = "../handles/bed.rs"]
mod bed;
mod events;
mod handover;
#[path = "../handles/peer.rs"]
mod peer;
#[path = "../handles/raw.rs"]
#[expect(dead_code, reason = "these benches call less of the driver than the others")]
mod raw;
mod scene;
mod subjects;

use bed::Bed;
use cuhold_benches::{Plan, Trace};
use scene::Scene;
use subjects::{Streams, through_dyn, with};

const KIB: usize = 1024;

fn main() {
    let plan = Plan::from_command_line().unwrap();
    let (bed, trace) = (Bed::new(), Trace::transformer_layer().unwrap());
    let stage = subjects::Stage::new(&bed);
    let (small, large) = (KIB, KIB * KIB);
    let own = Streams::Own(1);
    for (bench, scene, streams) in [
        ("same thread, 1 KiB", Scene::Same(small), own),
        ("burst of 64, 1 KiB", Scene::Burst(small), own),
        ("burst of 64, 1 MiB", Scene::Burst(large), own),
        ("mixed 256 B to 4 MiB, 32 live", Scene::Mixed, own),
        ("32 streams in turn, 1 KiB", Scene::Same(small), Streams::Own(32)),
        ("one stream for all, 1 KiB", Scene::Same(small), Streams::Shared),
        ("a transformer's layer", Scene::Trace(&trace), own),
    ] {
        plan.compare(bench, 1, |_| with(&stage, scene, streams));
    }
    plan.compare("through dyn, 1 KiB", 1, |_| through_dyn(&stage, Scene::Same(small), own));
    plan.compare("freed by another thread, 1 KiB", 2, |threads| {
        handover::subjects(&stage, small, threads)
    });
    events::benches(&plan, &stage);
}
