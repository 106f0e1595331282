//! A loaded nvJitLink: where it is looked for, and the table of its functions.

#![expect(unsafe_code, reason = "the functions are C functions; addresses become functions here")]
#![expect(
    non_snake_case,
    reason = "the methods carry nvJitLink's names, so that a name is written once"
)]

use core::ffi::{c_char, c_uint, c_void};

use super::{NvJitLinkApi, NvJitLinkCall, nvJitLinkHandle, nvJitLinkInputType, nvJitLinkResult};
use crate::{Version, compiler::Library, load::Sought};

crate::compiler::loader! {
    Libnvjitlink, "nvJitLink", "CUHOLD_NVJITLINK", nvJitLinkVersion, NvJitLinkApi, NvJitLinkCall,
    /// The CUDA version of this nvJitLink. It links what compilers up to this version made.
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
