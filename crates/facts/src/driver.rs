//! The two drivers that can be asked.

#![expect(unsafe_code, reason = "loading a library runs its code")]

use std::{io, path::Path, sync::Arc};

use cuhold_driver_sim::{KernelFault, Sim, SimOptions};
use cuhold_driver_sys::{
    Call, Libcuda,
    ffi::{CUfunction, c_void},
};

use parking_lot::Mutex;

use crate::{
    ctx::{Ctx, Subject},
    export::Export,
};

/// A simulated driver of so many devices on which nothing was called yet.
pub(crate) fn simulated(devices: usize) -> Subject {
    let mut options = SimOptions::with_devices(devices);
    options.symbols = Some(entry_point);
    let sim = Sim::with_options(options);
    register_kernels(&sim);
    let (watched, machine) = (sim.clone(), sim.clone());
    // The other process lives as long as the machine: what it exports is still there when it is opened.
    let others = Arc::new(Mutex::new(Vec::<Sim>::new()));
    let to_end = Arc::clone(&others);
    let beside = move |what: Export| {
        let other = machine.other_process(SimOptions::default());
        let made = what.make(&Ctx::new(Subject::new(Arc::new(other.clone())), None, false));
        others.lock().push(other);
        made.ok()
    };
    let end = move || to_end.lock().iter().for_each(Sim::end_process);
    Subject::checked(Arc::new(sim), move || watched.violations().len()).beside(beside, end)
}

/// What the kernels of [`KERNELS`](crate::image::KERNELS) do, for the simulated driver.
fn register_kernels(sim: &Sim) {
    sim.register_kernel("nop", |_| Ok(()));
    sim.register_kernel("trap", |_| Err(KernelFault::TRAP));
    sim.register_kernel("fault", |launch| launch.write(launch.param(0)?, 1_u32));
    sim.register_kernel("fill", |launch| {
        let (value, len) = (launch.param::<u32>(1)?, launch.param::<u32>(2)? as usize);
        let mut to = launch.slice_mut(launch.param(0)?, len)?;
        for i in launch.threads().map(|thread| thread.global_x()) {
            if let Some(place) = to.get_mut(i) {
                *place = value;
            }
        }
        Ok(())
    });
    sim.register_kernel("axpy", |launch| {
        let (a, len) = (launch.param::<f32>(0)?, launch.param::<u32>(3)? as usize);
        let x = launch.slice::<f32>(launch.param(1)?, len)?;
        let mut y = launch.slice_mut::<f32>(launch.param(2)?, len)?;
        for i in launch.threads().map(|thread| thread.global_x()) {
            if let (Some(y), Some(x)) = (y.get_mut(i), x.get(i)) {
                *y = a.mul_add(*x, *y);
            }
        }
        Ok(())
    });
}

/// Stands for a C function of the simulated driver. Probes look whether there is one, and call none.
fn entry_point(call: Call) -> *mut c_void {
    CUfunction::from_addr(call as usize + 1).0
}

/// This machine's driver.
pub(crate) fn real(path: Option<&Path>) -> io::Result<Subject> {
    let libcuda = match path {
        // SAFETY: whoever runs this program names a file to load as a CUDA driver; its code is trusted as the
        // program's own is.
        Some(path) => unsafe { Libcuda::load_from(path) },
        None => Libcuda::load(),
    };
    libcuda.map(|libcuda| Subject::new(Arc::new(libcuda))).map_err(io::Error::other)
}
