//! Which functions the simulated driver has: those whose probes it answers as a real driver did.

use std::{io, path::Path};

use cuhold_driver_sys::Function;

use crate::{
    reading::{Reading, agreed},
    run::Plan,
};

/// The committed reading of a real driver; `None` where there is none yet.
///
/// # Errors
/// Where the file is there but isn't a reading.
pub fn committed() -> io::Result<Option<Reading>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/h200-580.json");
    match Reading::load(&path) {
        Ok(reading) => Ok(Some(reading)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The functions of which the simulated driver, asked now, and the committed reading tell the same, in the list's
/// order. None where there is no reading.
///
/// # Errors
/// As [`committed`].
pub fn simulated() -> io::Result<Vec<&'static Function>> {
    match committed()? {
        Some(real) => Ok(agreed(&Plan::simulated().take()?, &real)),
        None => Ok(Vec::new()),
    }
}
