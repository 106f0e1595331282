//! Loading the real driver, once a path and process.

use super::Driver;
use crate::{
    error::{Error, ErrorKind, Result},
    report::{Action, Filter},
};
use cuhold_driver_sys::{Libcuda, LoadError, process::ForkWord};
use parking_lot::Mutex;
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The drivers loaded so far, so that the whole process shares one channel for each: a path, or `None` for the search.
///
/// The only memory of a driver that isn't in a driver: which value stands for the library of this path.
struct Loaded {
    drivers: Mutex<Vec<(Option<PathBuf>, Driver)>>,
    forked: ForkWord,
}

fn loaded() -> &'static Loaded {
    static LOADED: OnceLock<Loaded> = OnceLock::new();
    LOADED.get_or_init(|| Loaded { drivers: Mutex::default(), forked: ForkWord::new() })
}

fn remembered(
    path: Option<&Path>,
    load: impl FnOnce() -> Result<Libcuda, LoadError>,
) -> Result<Driver> {
    let loaded = loaded();
    if loaded.forked.forked() {
        // The lock may be held by a thread that this process doesn't have.
        return Err(Error::forked());
    }
    let mut drivers = loaded.drivers.lock();
    if let Some((_, driver)) = drivers.iter().find(|(known, _)| known.as_deref() == path) {
        return Ok(driver.clone());
    }
    let action = Action::from_env().map_err(|unknown| Error::argument(unknown.to_string()))?;
    let library = load().map_err(|error| Error::new(ErrorKind::Load, error.to_string()))?;
    let driver = Driver::from_api(library);
    if let Some(action) = action {
        drop(driver.reports().set_filter(Filter::new(action)));
    }
    drivers.push((path.map(Path::to_owned), driver.clone()));
    Ok(driver)
}

impl Driver {
    /// The real driver: `libcuda.so.1` (on Windows `nvcuda.dll`), or the library that `CUHOLD_LIBCUDA` names.
    ///
    /// A success is remembered for the life of the process, so that all of it shares one report channel; a failure isn't.
    /// `CUHOLD_WARNINGS` (`ignore`, `once`, `always`, `escalate`) sets the channel's default.
    ///
    /// Calls nothing: the driver is initialized with the first [`Device`](crate::Device).
    ///
    /// # Errors
    /// [`ErrorKind::Load`] with everything that was tried; [`ErrorKind::Argument`] for another word in
    /// `CUHOLD_WARNINGS`.
    pub fn load() -> Result<Self> {
        remembered(None, Libcuda::load)
    }

    /// As [`load`](Self::load), from this library.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    ///
    /// # Safety
    /// The library behaves as CUDA documents its driver: its initializers are run now, and its functions are called.
    #[expect(unsafe_code, reason = "runs the initializers of any library")]
    pub unsafe fn load_from(path: &Path) -> Result<Self> {
        remembered(Some(path), || {
            // SAFETY: the caller's promise.
            unsafe { Libcuda::load_from(path) }
        })
    }
}
