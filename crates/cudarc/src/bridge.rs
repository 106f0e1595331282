//! The bridge itself: a driver of ours that is the library that cudarc has loaded.

#![expect(unsafe_code, reason = "asks both libraries for the address of one function")]

use crate::{context::ContextLoan, loan::Loans, stream::StreamLoan};
use cudarc::driver::sys;
use cuhold_driver_sys::{CUresult, ffi};
use cuhold_handles::{Driver, Error, ErrorKind, Result};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    fmt, ptr,
    sync::Arc,
};

/// What is asked for, to tell whether two tables lead to one library.
const SYMBOL: &CStr = c"cuCtxGetCurrent";
/// The version that it is asked with.
const VERSION: i32 = 12_000;

/// The exchange of contexts, streams and memory with cudarc. Clones are the same bridge.
///
/// It keeps what was lent to cudarc until cudarc has let go of it. What cudarc still uses when the last clone is dropped is
/// leaked, with a warning.
///
/// Its drop calls nothing.
#[derive(Clone)]
pub struct Bridge(Arc<Shared>);

struct Shared {
    driver: Driver,
    contexts: Loans<ContextLoan>,
    streams: Loans<StreamLoan>,
}

impl Bridge {
    /// The bridge to the process's real driver.
    ///
    /// Calls `cuGetProcAddress`.
    ///
    /// # Errors
    /// As [`Driver::load`] and [`new`](Self::new).
    pub fn load() -> Result<Self> {
        Self::new(&Driver::load()?)
    }

    /// The bridge to this driver, which must be the library that cudarc has loaded: both are asked for the address of the
    /// same function. With hooks around it, it may be [`hooked`](Driver::hooked) or [`isolated`](Driver::isolated).
    ///
    /// Calls `cuGetProcAddress`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`]: it is a simulated driver, or another library than cudarc's;
    /// - [`ErrorKind::Load`]: cudarc finds no driver, or one that is older than CUDA 12;
    /// - the call's failure.
    pub fn new(driver: &Driver) -> Result<Self> {
        driver.check_callable()?;
        let ours = ours(driver)?;
        if ours.is_null() {
            return Err(Error::argument(
                "driver: it gives no addresses of functions, so it isn't a library that cudarc could have loaded",
            ));
        }
        let theirs = theirs(driver)?;
        if ours != theirs {
            return Err(Error::argument(
                "driver: it is another library than the one that cudarc has loaded",
            ));
        }
        let shared = Shared {
            driver: driver.clone(),
            contexts: Loans::default(),
            streams: Loans::default(),
        };
        Ok(Self(Arc::new(shared)))
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.0.driver
    }

    /// How many contexts and streams that were lent are still used by cudarc, although what lent them is dropped.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn still_lent(&self) -> usize {
        self.0.streams.sweep(self.driver());
        self.0.contexts.sweep(self.driver());
        self.0.streams.len() + self.0.contexts.len()
    }

    pub(crate) fn contexts(&self) -> &Loans<ContextLoan> {
        &self.0.contexts
    }

    pub(crate) fn streams(&self) -> &Loans<StreamLoan> {
        &self.0.streams
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.streams.end(&self.driver);
        self.contexts.end(&self.driver);
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("driver", self.driver()).finish_non_exhaustive()
    }
}

/// The function's address as our driver answers; null where it knows none.
fn ours(driver: &Driver) -> Result<*mut c_void> {
    let mut address: *mut c_void = ptr::null_mut();
    let mut found = ffi::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    // SAFETY: *pointers*: a terminated name and two live locals.
    unsafe {
        driver.calls().cuGetProcAddress_v2(
            SYMBOL.as_ptr(),
            &raw mut address,
            VERSION,
            0,
            &raw mut found,
        )
    }
    .map_err(|failure| driver.error(failure))?;
    Ok(address)
}

/// The same as the library answers that cudarc has loaded, or loads now.
fn theirs(driver: &Driver) -> Result<*mut c_void> {
    type GetProcAddress =
        unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> CUresult;
    // SAFETY: looks for the driver's library by its names, as cudarc does before its first call.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::new(
            ErrorKind::Load,
            "cudarc finds no driver under the names that it tries",
        ));
    }
    // SAFETY: the library is there, so that it is loaded, and stays so.
    let library = unsafe { sys::culib() };
    // SAFETY: the signature is CUDA's; integers of the size of its enumerations stand for them.
    let get = unsafe { library.get::<GetProcAddress>(b"cuGetProcAddress_v2\0") }
        .map_err(|error| Error::new(ErrorKind::Load, format!("cudarc's driver: {error}")))?;
    let (mut address, mut found): (*mut c_void, c_int) = (ptr::null_mut(), 0);
    // SAFETY: *pointers*: a terminated name and two live locals.
    match unsafe { get(SYMBOL.as_ptr(), &raw mut address, VERSION, 0, &raw mut found) } {
        CUresult::SUCCESS => Ok(address),
        status => Err(driver.error_elsewhere(status, "asking cudarc's driver for a function")),
    }
}
