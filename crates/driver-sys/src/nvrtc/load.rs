//! A loaded NVRTC: where it is looked for, and the table of its functions.

#![expect(unsafe_code, reason = "the functions are C functions; addresses become functions here")]
#![expect(
    non_snake_case,
    reason = "the methods carry NVRTC's names, so that a name is written once"
)]

use core::{
    ffi::{c_char, c_int, c_void},
    fmt,
};
use std::path::{Path, PathBuf};

use super::{NvrtcApi, NvrtcCall, nvrtcFlowCallback, nvrtcProgram, nvrtcResult};
use crate::{
    Version,
    compiler::{Library, not_a_folder},
    load::{Attempt, LoadError, Opened, Reason, Sought},
};

/// NVRTC as it is installed on this machine.
///
/// It may be loaded any number of times. Like a driver it is never unloaded.
pub struct Libnvrtc {
    table: Table,
    version: Version,
    path: PathBuf,
}

impl Libnvrtc {
    /// Loads NVRTC from where it is usually installed, or from what `CUHOLD_NVRTC` names: a file or a folder.
    ///
    /// Calls `nvrtcVersion`.
    ///
    /// # Errors
    /// What was tried, each with its reason, if none of it is NVRTC.
    pub fn load() -> Result<Self, LoadError> {
        // SAFETY: these names are NVRTC's; who sets the variables or the search path decides what code the process runs,
        // as with any library that is loaded by name.
        LIBRARY.find(|asked| unsafe { Self::open(asked) })
    }

    /// Loads NVRTC from this file, or from this folder, and from nowhere else.
    ///
    /// Calls `nvrtcVersion`.
    ///
    /// # Errors
    /// What was tried, with the reason, if it isn't NVRTC.
    ///
    /// # Safety
    /// - *code*: the library's constructors and destructors are sound to run in this process;
    /// - *NVRTC's symbols*: what it exports under NVRTC's names is what NVRTC declares under them, and keeps
    ///   [`NvrtcApi`]'s promises: *written*, *no unwinding*, *any thread*.
    pub unsafe fn load_from(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: *code*, *NVRTC's symbols*: the caller's promise.
        LIBRARY.at(path, |asked| unsafe { Self::open(asked) })
    }

    /// Whether this NVRTC has the function.
    #[must_use]
    pub fn has(&self, call: NvrtcCall) -> bool {
        self.table.has(call)
    }

    /// The CUDA version of this NVRTC. As CUDA documents it, PTX needs a driver of at least this version, and code for a named
    /// architecture runs on any driver of the same major version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The file of the library, or the name under which it was loaded where the system doesn't tell.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that must lie beside the library, or on the search path, for anything to be compiled.
    #[must_use]
    pub fn builtins(&self) -> PathBuf {
        let (major, minor) = (self.version.0 / 1000, self.version.0 % 1000 / 10);
        let name = if cfg!(windows) {
            format!("nvrtc-builtins64_{major}{minor}.dll")
        } else {
            format!("libnvrtc-builtins.so.{major}.{minor}")
        };
        self.path.with_file_name(name)
    }

    /// # Safety
    /// As [`load_from`](Self::load_from).
    unsafe fn open(asked: &Path) -> Result<Self, Attempt> {
        const VERSION: &str = NvrtcCall::nvrtcVersion.name();
        not_a_folder(asked)?;
        // SAFETY: *code*: the caller's promise.
        let library = unsafe { Opened::open(asked) }?;
        let Some(version) = library.symbol(VERSION) else {
            return Err(library.refuse(None, Reason::Lacks(VERSION)));
        };
        // SAFETY: *NVRTC's symbols*: the caller's promise. A table that is dropped below is dropped before the library
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

impl fmt::Debug for Libnvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Libnvrtc")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

crate::for_each_nvrtc_function! { crate::compiler::table, { Libnvrtc NvrtcApi NvrtcCall nvrtcResult nvrtcGetErrorString } }

impl Table {
    fn version(&self) -> Result<Version, nvrtcResult> {
        let function = self.nvrtcVersion.ok_or(nvrtcResult::MISSING)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointer is NVRTC's function (the table's invariant); the results are writable for the call.
        let status = unsafe { function(&raw mut major, &raw mut minor) };
        if status.is_success() { Ok(Version(1000 * major + 10 * minor)) } else { Err(status) }
    }
}

impl Libnvrtc {
    fn cause(&self, status: nvrtcResult) -> Option<String> {
        let file = self.builtins();
        if status != nvrtcResult::BUILTIN_OPERATION_FAILURE || file.is_file() {
            return None;
        }
        Some(format!(
            "NVRTC needs `{}`, which isn't there (nor, it seems, on the library path): libnvrtc can't be copied or linked \
             to without it",
            file.display()
        ))
    }
}

static LIBRARY: Library = Library {
    sought: Sought {
        noun: "NVRTC",
        variable: "CUHOLD_NVRTC",
        advice: "Install CUDA's toolkit or the Python package nvidia-cuda-nvrtc, or name NVRTC's file or folder by CUHOLD_NVRTC",
    },
    names: &NAMES,
    layouts: &LAYOUTS,
};

#[cfg(not(windows))]
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];

/// Where the library lies below the folder of an installation: the toolkit's, the Python wheels' of CUDA 13 and 12.
#[cfg(not(windows))]
const LAYOUTS: [&str; 5] = ["", "lib64", "lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];
/// Where the library lies below the folder of an installation: the toolkit's.
#[cfg(windows)]
const LAYOUTS: [&str; 3] = ["", "bin", "bin/x64"];
