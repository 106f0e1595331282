//! What a handle costs: each operation by the raw driver call, by cuhold, and on a real driver by cudarc.
//!
//! `CUHOLD_DRIVER=real` measures on the GPU; else the simulated driver shows the library's own share (its times are no
//! GPU's). `CUHOLD_BENCH_OUT` names a file for the lines of `cargo xtask bench-report`.

#![expect(unsafe_code, reason = "the baseline is the raw driver")]
#![expect(clippy::unwrap_used, reason = "a benchmark that can't run ends")]

mod copies;
mod events;
mod graphs;
mod imports;
mod launch;
mod memory;
mod peer;
mod raw;
mod staging;
mod streams;

use criterion::{Criterion, criterion_group, criterion_main};
use cuhold::{Device, Driver};
use std::{env, time::Duration};

/// What every bench works with: one driver for cuhold, the same functions raw, and cudarc beside them.
struct Bed {
    device: Device,
    raw: raw::Raw,
    peer: Option<peer::Peer>,
}

impl Bed {
    fn new() -> Self {
        if env::var("CUHOLD_DRIVER").is_ok_and(|driver| driver == "real") {
            let driver = Driver::load().unwrap();
            let device = Device::with_driver(&driver, 0).unwrap();
            device.set_current().unwrap();
            Self { device, raw: raw::Raw::load(), peer: Some(peer::Peer::new()) }
        } else {
            let sim = cuhold::sim::Sim::new();
            for kernel in ["nop", "nop3"] {
                sim.register_kernel(kernel, |_| Ok(()));
            }
            let driver = Driver::from_api(sim.clone());
            let device = Device::with_driver(&driver, 0).unwrap();
            device.set_current().unwrap();
            Self { device, raw: raw::Raw::simulated(sim), peer: None }
        }
    }
}

fn all(criterion: &mut Criterion) {
    let bed = Bed::new();
    streams::benches(criterion, &bed);
    events::benches(criterion, &bed);
    launch::benches(criterion, &bed);
    graphs::benches(criterion, &bed);
    memory::benches(criterion, &bed);
    copies::benches(criterion, &bed);
    imports::benches(criterion, &bed);
    staging::benches(criterion, &bed);
}

criterion_group! {
    name = handles;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    targets = all
}
criterion_main!(handles);
