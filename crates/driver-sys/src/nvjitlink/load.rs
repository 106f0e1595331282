//! A loaded nvJitLink: where it is looked for, and the table of its functions.

#![expect(unsafe_code, reason = "the functions are C functions; addresses become functions here")]
#![expect(
    non_snake_case,
    reason = "the methods carry nvJitLink's names, so that a name is written once"
)]

use core::{
    ffi::{c_char, c_uint, c_void},
    fmt,
};
use std::path::{Path, PathBuf};

use super::{NvJitLinkApi, NvJitLinkCall, nvJitLinkHandle, nvJitLinkInputType, nvJitLinkResult};
use crate::{
    Version,
    compiler::{Library, not_a_folder},
    load::{Attempt, LoadError, Opened, Reason, Sought},
};

/// nvJitLink as it is installed on this machine.
///
/// It may be loaded any number of times. Like a driver it is never unloaded.
pub struct Libnvjitlink {
    table: Table,
    version: Version,
    path: PathBuf,
}

impl Libnvjitlink {
    /// Loads nvJitLink from where it is usually installed, or from what `CUHOLD_NVJITLINK` names: a file or a folder.
    ///
    /// Calls `nvJitLinkVersion`.
    ///
    /// # Errors
    /// What was tried, each with its reason, if none of it is nvJitLink.
    pub fn load() -> Result<Self, LoadError> {
        // SAFETY: these names are nvJitLink's; who sets the variables or the search path decides what code the process runs,
        // as with any library that is loaded by name.
        LIBRARY.find(|asked| unsafe { Self::open(asked) })
    }

    /// Loads nvJitLink from this file, or from this folder, and from nowhere else.
    ///
    /// Calls `nvJitLinkVersion`.
    ///
    /// # Errors
    /// What was tried, with the reason, if it isn't nvJitLink.
    ///
    /// # Safety
    /// - *code*: the library's constructors and destructors are sound to run in this process;
    /// - *nvJitLink's symbols*: what it exports under nvJitLink's names is what nvJitLink declares under them, and keeps
    ///   [`NvJitLinkApi`]'s promises: *written*, *no unwinding*, *any thread*.
    pub unsafe fn load_from(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: *code*, *nvJitLink's symbols*: the caller's promise.
        LIBRARY.at(path, |asked| unsafe { Self::open(asked) })
    }

    /// Whether this nvJitLink has the function.
    #[must_use]
    pub fn has(&self, call: NvJitLinkCall) -> bool {
        self.table.has(call)
    }

    /// The CUDA version of this nvJitLink. It links what compilers up to this version made.
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
        const VERSION: &str = NvJitLinkCall::nvJitLinkVersion.name();
        not_a_folder(asked)?;
        // SAFETY: *code*: the caller's promise.
        let library = unsafe { Opened::open(asked) }?;
        let Some(version) = library.symbol(VERSION) else {
            return Err(library.refuse(None, Reason::Lacks(VERSION)));
        };
        // SAFETY: *nvJitLink's symbols*: the caller's promise. A table that is dropped below is dropped before the library
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

impl fmt::Debug for Libnvjitlink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Libnvjitlink")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

crate::for_each_nvjitlink_function! { crate::compiler::table, { Libnvjitlink NvJitLinkApi NvJitLinkCall nvJitLinkResult  } }

impl Table {
    fn version(&self) -> Result<Version, nvJitLinkResult> {
        let function = self.nvJitLinkVersion.ok_or(nvJitLinkResult::MISSING)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointer is nvJitLink's function (the table's invariant); the results are writable for the call.
        let status = unsafe { function(&raw mut major, &raw mut minor) };
        let number = |part: c_uint| i32::try_from(part).unwrap_or(0);
        if status.is_success() {
            Ok(Version(1000 * number(major) + 10 * number(minor)))
        } else {
            Err(status)
        }
    }
}

impl Libnvjitlink {
    #[expect(clippy::unused_self, reason = "as for the other libraries")]
    fn cause(&self, _: nvJitLinkResult) -> Option<String> {
        None
    }
}

static LIBRARY: Library = Library {
    sought: Sought {
        noun: "nvJitLink",
        variable: "CUHOLD_NVJITLINK",
        advice: "Install CUDA's toolkit or the Python package nvidia-nvjitlink, or name nvJitLink's file or folder by CUHOLD_NVJITLINK",
    },
    names: &NAMES,
    layouts: &LAYOUTS,
};

#[cfg(not(windows))]
const NAMES: [&str; 3] = ["libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["nvJitLink_130_0.dll", "nvJitLink_120_0.dll"];

/// Where the library lies below the folder of an installation: the toolkit's, the Python wheels' of CUDA 13 and 12.
#[cfg(not(windows))]
const LAYOUTS: [&str; 5] = ["", "lib64", "lib", "nvidia/cu13/lib", "nvidia/nvjitlink/lib"];
/// Where the library lies below the folder of an installation: the toolkit's.
#[cfg(windows)]
const LAYOUTS: [&str; 3] = ["", "bin", "bin/x64"];
