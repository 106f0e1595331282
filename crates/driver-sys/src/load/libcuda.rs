//! A loaded driver: a table with one function pointer per form, generated from the list.
//!
//! Before each call the table looks at its fork word, so that a forked child never reaches the driver (on a real one its
//! first destroy ended the child by a segmentation fault: measured). A process that forks before `cuInit` stays free to
//! use CUDA in both: what counts is whether `cuInit` was called through this table before the fork.

#![expect(unsafe_code, reason = "the functions are C functions; addresses become functions here")]
#![expect(
    non_snake_case,
    reason = "the methods carry the exported C names, so that a name is written once"
)]

use core::{
    fmt, mem,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::path::{Path, PathBuf};

use super::{Attempt, LoadError, Opened, Reason, Sought, resolve::Addresses};
use crate::{
    Call, DriverApi, Life, Version,
    ffi::*,
    mutant,
    process::{self, ForkWord},
};

/// The CUDA driver of this machine, or whatever stands in for it under its name.
///
/// Loading one neither initializes it nor claims a device. It may be loaded any number of times; each is a table of its
/// own over the same library.
pub struct Libcuda {
    table: Table,
    fork: ForkWord,
    /// How many calls of `cuInit` succeeded or are under way.
    inits: AtomicU64,
    exit_watched: AtomicBool,
    version: Option<Version>,
    path: PathBuf,
}

impl Libcuda {
    /// Loads the driver from where drivers are installed, or from what `CUHOLD_LIBCUDA` names.
    ///
    /// Calls `cuGetProcAddress` and `cuDriverGetVersion`.
    ///
    /// # Errors
    /// What was tried, each with its reason, if none of it is a driver.
    pub fn load() -> Result<Self, LoadError> {
        // SAFETY: these names are the driver's; who sets the variable or the search path decides what code the process
        // runs, as with any library that is loaded by name.
        let open = |asked: &Path| unsafe { Self::open(asked) };
        if let Some(named) = DRIVER.named() {
            let advice = "CUHOLD_LIBCUDA is set, so nothing else was tried";
            DRIVER.first([named], advice.to_owned(), open)
        } else {
            DRIVER.first(NAMES, DRIVER.advice.to_owned(), open)
        }
    }

    /// Loads the driver from this path, and from nowhere else.
    ///
    /// Calls `cuGetProcAddress` and `cuDriverGetVersion`.
    ///
    /// # Errors
    /// The path with the reason, if it isn't a driver.
    ///
    /// # Safety
    /// - *code*: the library's constructors and destructors are sound to run in this process;
    /// - *CUDA's symbols*: what it exports under CUDA's names is what CUDA declares under them, and keeps
    ///   [`DriverApi`]'s promises: *written*, *no unwinding*, *any thread*.
    pub unsafe fn load_from(path: &Path) -> Result<Self, LoadError> {
        DRIVER.first([path], "Nothing else was tried".to_owned(), |asked| {
            // SAFETY: *code*, *CUDA's symbols*: the caller's promise.
            unsafe { Self::open(asked) }
        })
    }

    /// Whether the driver has this form.
    #[must_use]
    pub fn has(&self, call: Call) -> bool {
        self.table.has(call)
    }

    /// The newest CUDA version that the driver supports, as it said when it was loaded; `None` if it didn't say.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// The file of the library, or the name under which it was loaded where the system doesn't tell.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// # Safety
    /// As [`load_from`](Self::load_from).
    unsafe fn open(asked: &Path) -> Result<Self, Attempt> {
        // SAFETY: *code*: the caller's promise.
        let library = unsafe { Opened::open(asked) }?;
        // SAFETY: *CUDA's symbols*: the caller's promise.
        let addresses = unsafe { Addresses::new(&library) };
        let Some(init) = addresses.of(Call::cuInit) else {
            return Err(library.refuse(None, Reason::Lacks(Call::cuInit.symbol())));
        };
        // SAFETY: *CUDA's symbols*: the caller's promise; each address was found under its form's name and version. A
        // table that is dropped below is dropped before the library is closed, one that is returned keeps it open.
        let table = unsafe { Table::new(&addresses) };
        let version = match table.version() {
            Err(CUresult::STUB_LIBRARY) => return Err(library.refuse(Some(init), Reason::Stub)),
            answer => answer.ok(),
        };
        Ok(Self {
            table,
            fork: ForkWord::new(),
            inits: AtomicU64::new(0),
            exit_watched: AtomicBool::new(false),
            version,
            path: library.keep(init),
        })
    }

    /// Whether this is a child of the process that initialized the driver.
    #[inline]
    fn is_forked(&self) -> bool {
        self.fork.forked() && self.was_initialized() && !mutant::is_out("fork-word")
    }

    /// In a forked child: whether the parent had called `cuInit`. If not, the child starts afresh.
    #[cold]
    fn was_initialized(&self) -> bool {
        let initialized = self.inits.load(Ordering::Relaxed) > 0;
        if !initialized {
            self.fork.renew();
        }
        initialized
    }

    /// `cuInit`, with what it changes in the table: a fork counts from before the call; exit is watched from after it,
    /// so that our handler runs before those that the driver has registered.
    ///
    /// # Safety
    /// That of [`DriverApi`]'s callers.
    unsafe fn init(&self, flags: c_uint) -> CUresult {
        let Some(function) = self.table.cuInit else {
            return self.unsupported(Call::cuInit);
        };
        self.inits.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        let status = unsafe { function(flags) };
        if !status.is_success() {
            self.inits.fetch_sub(1, Ordering::Relaxed);
        } else if !self.exit_watched.swap(true, Ordering::Relaxed) {
            let registered = process::register();
            self.exit_watched.store(registered, Ordering::Relaxed);
        }
        status
    }
}

impl fmt::Debug for Libcuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Libcuda")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

macro_rules! libcuda {
    ({} $($name:ident $kind:ident $context:ident $capture:ident $waits:ident
        { $($form:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)+ })*) => {
        /// One function pointer per form; `None` where the driver lacks it.
        ///
        /// Invariant: each pointer is the driver's function of the field's name, and the library stays loaded.
        struct Table {
            $($($form: Option<unsafe extern "system" fn($($type),*) -> CUresult>,)+)*
        }

        impl Table {
            /// # Safety
            /// Each address is that of the function form that it stands for, and the library stays loaded as long as
            /// the table is used.
            #[expect(clippy::disallowed_methods, reason = "the loader turns an address into a function")]
            unsafe fn new(addresses: &Addresses) -> Self {
                Self {
                    $($($form: addresses.of(Call::$form).map(|address| {
                        // SAFETY: the address is this form's, whose signature the list has; the caller's promise.
                        unsafe {
                            mem::transmute::<NonNull<c_void>, unsafe extern "system" fn($($type),*) -> CUresult>(address)
                        }
                    }),)+)*
                }
            }

            fn has(&self, call: Call) -> bool {
                match call { $($(Call::$form => self.$form.is_some(),)+)* }
            }
        }

        // SAFETY: *written*, *no unwinding*, *any thread*: promised for the library by whoever loaded it; what is
        // answered without reaching it isn't SUCCESS.
        unsafe impl DriverApi for Libcuda {
            fn life(&self) -> Life {
                if self.is_forked() {
                    Life::Forked
                } else if process::exit_began() {
                    Life::Exiting
                } else {
                    Life::Live
                }
            }
            $($(table_method! { $form ($($argument: $type),*) })+)*
        }
    };
}

macro_rules! table_method {
    (cuInit ($flags:ident : $type:ty)) => {
        unsafe fn cuInit(&self, $flags: $type) -> CUresult {
            if self.is_forked() {
                return CUresult::NOT_INITIALIZED;
            }
            // SAFETY: the caller's promise, passed on.
            unsafe { self.init($flags) }
        }
    };
    ($form:ident ($($argument:ident : $type:ty),*)) => {
        unsafe fn $form(&self, $($argument: $type),*) -> CUresult {
            if self.is_forked() {
                return CUresult::NOT_INITIALIZED;
            }
            match self.table.$form {
                // SAFETY: the pointer is the driver's function (the table's invariant); *pointers*, *handles*, *calls
                // back*: the caller's promise, passed on.
                Some(function) => unsafe { function($($argument),*) },
                None => self.unsupported(Call::$form),
            }
        }
    };
}

crate::for_each_driver_function! { libcuda, {} }

impl Table {
    /// What `cuDriverGetVersion` answers; it works before `cuInit` (measured).
    fn version(&self) -> Result<Version, CUresult> {
        let function = self.cuDriverGetVersion.ok_or(CUresult::MISSING)?;
        let mut version = 0;
        // SAFETY: the pointer is the driver's function (the table's invariant); the result is writable for the call.
        let status = unsafe { function(&raw mut version) };
        if status.is_success() { Ok(Version(version)) } else { Err(status) }
    }
}

#[cfg(not(windows))]
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
#[cfg(windows)]
const NAMES: [&str; 1] = ["nvcuda.dll"];

static DRIVER: Sought = Sought {
    noun: "CUDA driver",
    variable: "CUHOLD_LIBCUDA",
    advice: "Install the NVIDIA driver, or name its library by CUHOLD_LIBCUDA",
};
