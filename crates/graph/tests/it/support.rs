//! What the bodies of these tests share.

use cuhold_driver_sim::Sim;
use cuhold_graph::SharedHost;
use cuhold_memory::{HostBuffer, bytemuck::Pod};
use cuhold_testkit::Kit;
use std::{
    thread,
    time::{Duration, Instant},
};

/// Runs a body on the driver that the environment names, and waits until what it dropped is gone.
pub(super) fn run(body: impl FnOnce(&Kit)) {
    cuhold_testkit::run(|t| {
        body(t);
        t.settle();
    });
}

/// The same on the simulated driver alone.
pub(super) fn run_simulated(body: impl FnOnce(&Kit, &Sim)) {
    cuhold_testkit::run_simulated(|t, sim| {
        body(t, sim);
        t.settle();
    });
}

/// The buffer, once what used it has let go of it: a driver may do so a moment after a graph's end.
pub(super) fn taken_back<T: Pod + Send>(t: &Kit, mut shared: SharedHost<T>) -> HostBuffer<T> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        t.settle();
        match shared.into_inner() {
            Ok(buffer) => return buffer,
            Err(still) => shared = still,
        }
        assert!(Instant::now() < until, "somebody still uses the memory");
        thread::yield_now();
    }
}
