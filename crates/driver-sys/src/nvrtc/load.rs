//! A loaded NVRTC: where it is looked for, and the table of its functions.

#![expect(unsafe_code, reason = "the functions are C functions; addresses become functions here")]
#![expect(
    non_snake_case,
    reason = "the methods carry NVRTC's names, so that a name is written once"
)]

use core::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;

use super::{NvrtcApi, NvrtcCall, nvrtcFlowCallback, nvrtcProgram, nvrtcResult};
use crate::{Version, compiler::Library, load::Sought};

crate::compiler::loader! {
    Libnvrtc, "NVRTC", "CUHOLD_NVRTC", nvrtcVersion, NvrtcApi, NvrtcCall,
    /// The CUDA version of this NVRTC. As CUDA documents it, PTX needs a driver of at least this version, and code for a named
    /// architecture runs on any driver of the same major version.
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
