//! What every bench works with: one driver for cuhold, the same functions raw, and cudarc beside them.

use crate::{peer, raw};
use cuhold::{Device, Driver};
use std::env;

pub(crate) struct Bed {
    pub(crate) device: Device,
    pub(crate) raw: raw::Raw,
    pub(crate) peer: Option<peer::Peer>,
}

impl Bed {
    /// On the real driver with `CUHOLD_DRIVER=real`, else on a simulated one.
    pub(crate) fn new() -> Self {
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
