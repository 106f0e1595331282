//! What the bodies of these tests share.

use cuhold_driver_sim::Sim;
use cuhold_testkit::Kit;
use std::time::Duration;

/// Waits until the reclaimer has nothing left: what it releases may leave it more.
pub(super) fn settle(t: &Kit) {
    while t.driver().reclaim().pending() > 0 {
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
    }
}

/// Runs a body on the driver that the environment names, and waits until what it dropped is gone.
pub(super) fn run(body: impl FnOnce(&Kit)) {
    cuhold_testkit::run(|t| {
        body(t);
        settle(t);
    });
}

/// The same on the simulated driver alone.
pub(super) fn run_simulated(body: impl FnOnce(&Kit, &Sim)) {
    cuhold_testkit::run_simulated(|t, sim| {
        body(t, sim);
        settle(t);
    });
}
