//! Which functions the simulated driver has: those whose probes it answers as a real driver did.

use std::io;

use cuhold_driver_sys::Function;

use crate::{
    reading::{Reading, agreed},
    run::Plan,
};

/// Part of the program, so that it can compare where there is a GPU and no source.
const READING: &str = include_str!("../data/h200-580.json");

/// The committed reading of a real driver.
///
/// # Errors
/// Where the committed file isn't a reading.
pub fn committed() -> io::Result<Reading> {
    Reading::from_json(READING)
}

/// The functions of which the simulated driver, asked now, and the committed reading tell the same, in the list's
/// order.
///
/// # Errors
/// As [`committed`].
pub fn simulated() -> io::Result<Vec<&'static Function>> {
    Ok(agreed(&Plan::simulated().take()?, &committed()?))
}
