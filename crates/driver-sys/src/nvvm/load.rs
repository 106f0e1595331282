//! A loaded NVVM: where it is looked for, and the table of its functions.

#![expect(unsafe_code, reason = "the functions are C functions; addresses become functions here")]
#![expect(
    non_snake_case,
    reason = "the methods carry NVVM's names, so that a name is written once"
)]

use core::ffi::{c_char, c_int};

use super::{NvvmApi, NvvmCall, nvvmProgram, nvvmResult};
use crate::{Version, compiler::Library, load::Sought};

crate::compiler::loader! {
    Libnvvm, "NVVM", "CUHOLD_NVVM", nvvmVersion, NvvmApi, NvvmCall,
    /// The version of NVVM's own interface, which isn't CUDA's: 2.0 is `Version(2000)`.
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
