//! A loaded NVVM: where it is looked for, and the table of its functions.

#![expect(unsafe_code, reason = "the functions are C functions; addresses become functions here")]
#![expect(
    non_snake_case,
    reason = "the methods carry NVVM's names, so that a name is written once"
)]

use core::{
    ffi::{c_char, c_int},
    fmt,
};
use std::path::{Path, PathBuf};

use super::{NvvmApi, NvvmCall, nvvmProgram, nvvmResult};
use crate::{
    Version,
    compiler::{Library, not_a_folder},
    load::{Attempt, LoadError, Opened, Reason, Sought},
};

/// NVVM as it is installed on this machine.
///
/// It may be loaded any number of times. Like a driver it is never unloaded.
pub struct Libnvvm {
    table: Table,
    version: Version,
    path: PathBuf,
}

impl Libnvvm {
    /// Loads NVVM from where it is usually installed, or from what `CUHOLD_NVVM` names: a file or a folder.
    ///
    /// Calls `nvvmVersion`.
    ///
    /// # Errors
    /// What was tried, each with its reason, if none of it is NVVM.
    pub fn load() -> Result<Self, LoadError> {
        // SAFETY: these names are NVVM's; who sets the variables or the search path decides what code the process runs,
        // as with any library that is loaded by name.
        LIBRARY.find(|asked| unsafe { Self::open(asked) })
    }

    /// Loads NVVM from this file, or from this folder, and from nowhere else.
    ///
    /// Calls `nvvmVersion`.
    ///
    /// # Errors
    /// What was tried, with the reason, if it isn't NVVM.
    ///
    /// # Safety
    /// - *code*: the library's constructors and destructors are sound to run in this process;
    /// - *NVVM's symbols*: what it exports under NVVM's names is what NVVM declares under them, and keeps
    ///   [`NvvmApi`]'s promises: *written*, *no unwinding*, *any thread*.
    pub unsafe fn load_from(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: *code*, *NVVM's symbols*: the caller's promise.
        LIBRARY.at(path, |asked| unsafe { Self::open(asked) })
    }

    /// Whether this NVVM has the function.
    #[must_use]
    pub fn has(&self, call: NvvmCall) -> bool {
        self.table.has(call)
    }

    /// The version of NVVM's own interface, which isn't CUDA's: 2.0 is `Version(2000)`.
    #[must_use]
    pub fn version(&self) -> Version {
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
        const VERSION: &str = NvvmCall::nvvmVersion.name();
        not_a_folder(asked)?;
        // SAFETY: *code*: the caller's promise.
        let library = unsafe { Opened::open(asked) }?;
        let Some(version) = library.symbol(VERSION) else {
            return Err(library.refuse(None, Reason::Lacks(VERSION)));
        };
        // SAFETY: *NVVM's symbols*: the caller's promise. A table that is dropped below is dropped before the library
        // is closed, one that is returned keeps it open.
        let table = unsafe { Table::new(&library) };
        match table.version() {
            Err(status) => {
                Err(library.refuse(Some(version), Reason::NoVersion(VERSION, status.to_string())))
            }
            Ok(number) => Ok(Self { table, version: number, path: library.keep(version) }),
        }
    }
}

impl fmt::Debug for Libnvvm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Libnvvm")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

crate::for_each_nvvm_function! { crate::compiler::table, { Libnvvm NvvmApi NvvmCall nvvmResult nvvmGetErrorString } }

impl Table {
    fn version(&self) -> Result<Version, nvvmResult> {
        let function = self.nvvmVersion.ok_or(nvvmResult::MISSING)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointer is NVVM's function (the table's invariant); the results are writable for the call.
        let status = unsafe { function(&raw mut major, &raw mut minor) };
        if status.is_success() { Ok(Version(1000 * major + 10 * minor)) } else { Err(status) }
    }
}

impl Libnvvm {
    #[expect(clippy::unused_self, reason = "as for the other libraries")]
    fn cause(&self, _: nvvmResult) -> Option<String> {
        None
    }
}

static LIBRARY: Library = Library {
    sought: Sought {
        noun: "NVVM",
        variable: "CUHOLD_NVVM",
        advice: "Install CUDA's toolkit or the Python package nvidia-nvvm, or name NVVM's file or folder by CUHOLD_NVVM",
    },
    names: &NAMES,
    layouts: &LAYOUTS,
};

#[cfg(not(windows))]
const NAMES: [&str; 2] = ["libnvvm.so.4", "libnvvm.so"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["nvvm70.dll", "nvvm64_40_0.dll"];

/// Where the library lies below the folder of an installation: the toolkit's, the Python wheels' of CUDA 13 and 12.
#[cfg(not(windows))]
const LAYOUTS: [&str; 6] =
    ["", "nvvm/lib64", "lib64", "lib", "nvidia/cu13/lib", "nvidia/cuda_nvcc/nvvm/lib64"];
/// Where the library lies below the folder of an installation: the toolkit's.
#[cfg(windows)]
const LAYOUTS: [&str; 3] = ["", "nvvm/bin", "nvvm/bin/x64"];
