//! A simulated driver that a fork makes that of a child, as the real one is then.

use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{DriverApi, ffi::*, forward_driver_api};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub(super) struct Forking {
    parent: Sim,
    child: Sim,
    is_child: Arc<AtomicBool>,
}

impl Forking {
    /// The child's from the moment on at which that is set.
    pub(super) fn new(parent: Sim, child: Sim, is_child: Arc<AtomicBool>) -> Self {
        Self { parent, child, is_child }
    }

    fn api(&self) -> &dyn DriverApi {
        if self.is_child.load(Ordering::Relaxed) { &self.child } else { &self.parent }
    }
}

forward_driver_api!(Forking, |this| this.api());
