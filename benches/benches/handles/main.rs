//! What a handle costs: each operation by the raw driver call, by cuhold, and on a real driver by cudarc.
//!
//! `CUHOLD_DRIVER=real` measures on the GPU; else the simulated driver shows the library's own share (its times are no
//! GPU's). `CUHOLD_BENCH_OUT` names a file for the lines of `cargo xtask bench-report`.

#![expect(unsafe_code, reason = "the baseline is the raw driver")]
#![expect(clippy::unwrap_used, reason = "a benchmark that can't run ends")]

mod bed;
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

use bed::Bed;
use criterion::{Criterion, criterion_group, criterion_main};
use std::time::Duration;

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
