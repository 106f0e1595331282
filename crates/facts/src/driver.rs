//! The two drivers that can be asked.

#![expect(unsafe_code, reason = "loading a library runs its code")]

use std::{io, path::Path, sync::Arc};

use cuhold_driver_sim::{Sim, SimOptions};
use cuhold_driver_sys::{
    Call, Libcuda,
    ffi::{CUfunction, c_void},
};

use crate::ctx::Subject;

/// A simulated driver on which nothing was called yet.
pub(crate) fn simulated() -> Subject {
    let mut options = SimOptions::default();
    options.symbols = Some(entry_point);
    let sim = Sim::with_options(options);
    let watched = sim.clone();
    Subject::checked(Arc::new(sim), move || watched.violations().len())
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
