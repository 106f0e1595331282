//! A simulated driver of a test's own, which can become that of a forked child, and isn't checked for leaks at its end.

use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{DriverApi, Faults, ffi::*, forward_driver_api};
use cuhold_handles::{CudaWarning, Device, Driver, Fate, Stream};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The driver, of which every call goes to `child` once `is_child` is set.
struct Flip {
    parent: Sim,
    child: Sim,
    is_child: Arc<AtomicBool>,
}

impl Flip {
    fn api(&self) -> &dyn DriverApi {
        if self.is_child.load(Ordering::SeqCst) { &self.child } else { &self.parent }
    }
}

forward_driver_api!(Flip, |this| this.api());

/// A test's own simulated driver.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) driver: Driver,
    pub(crate) device: Device,
    is_child: Arc<AtomicBool>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of(Sim::new())
    }

    pub(crate) fn of(sim: Sim) -> Self {
        let is_child = Arc::<AtomicBool>::default();
        let flip = Flip {
            parent: sim.clone(),
            child: sim.forked_child(),
            is_child: Arc::clone(&is_child),
        };
        let driver = Driver::from_api(flip);
        let device = Device::with_driver(&driver, 0).unwrap();
        Self { sim, driver, device, is_child }
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.sim.faults()
    }

    pub(crate) fn stream(&self) -> Stream {
        self.device.new_stream().unwrap()
    }

    /// From here on this is a forked child.
    pub(crate) fn fork(&self) {
        self.is_child.store(true, Ordering::SeqCst);
    }

    /// What warnings `work` brings, those of the reclaimer included.
    pub(crate) fn warnings(&self, work: impl FnOnce()) -> Vec<CudaWarning> {
        let capture = self.driver.reports().capture(64);
        work();
        capture.take()
    }

    /// The one warning that `work` brings.
    pub(crate) fn warning(&self, work: impl FnOnce()) -> CudaWarning {
        let warnings = self.warnings(work);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        warnings[0]
    }
}

/// What a warning says in short: the call, the status, the fate.
pub(crate) fn told(warning: &CudaWarning) -> (Option<&'static str>, Option<u32>, Option<Fate>) {
    let status = warning.status().map(|status| status.0);
    (warning.call().map(cuhold_driver_sys::Call::name), status, warning.fate())
}
