//! The list of NVRTC's functions, kept by hand, and what follows from it alone: the calls' identities.
//!
//! An entry reads `name kind version (arguments);`, the version being the one that brought the function. All answer an
//! [`nvrtcResult`]; `nvrtcGetErrorString`, which doesn't, stands in the trait itself.

#![expect(unsafe_code, reason = "a handle is a pointer in C and must be declared Send and Sync")]

use core::ffi::{c_int, c_void};

use super::nvrtcResult;
use crate::Bits;

/// Hands every entry of NVRTC's list to the macro `$generator`, after `$head`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_nvrtc_function {
    ($generator:path, $head:tt) => { $generator! { $head
        // What it is and what it can do
        nvrtcVersion Query 7000 (major: *mut c_int, minor: *mut c_int);
        nvrtcGetNumSupportedArchs Query 11020 (num_archs: *mut c_int);
        nvrtcGetSupportedArchs Query 11020 (supported_archs: *mut c_int);

        // Programs
        nvrtcCreateProgram Create 7000 (prog: *mut nvrtcProgram, src: *const c_char, name: *const c_char, num_headers: c_int,
            headers: *const *const c_char, include_names: *const *const c_char);
        nvrtcDestroyProgram Destroy 7000 (prog: *mut nvrtcProgram);
        nvrtcAddNameExpression Mutate 8000 (prog: nvrtcProgram, name_expression: *const c_char);
        nvrtcSetFlowCallback Mutate 12080 (prog: nvrtcProgram, callback: nvrtcFlowCallback, payload: *mut c_void);
        nvrtcCompileProgram Mutate 7000 (prog: nvrtcProgram, num_options: c_int, options: *const *const c_char);

        // What a compilation gave
        nvrtcGetProgramLogSize Query 7000 (prog: nvrtcProgram, log_size_ret: *mut usize);
        nvrtcGetProgramLog Query 7000 (prog: nvrtcProgram, log: *mut c_char);
        nvrtcGetPTXSize Query 7000 (prog: nvrtcProgram, ptx_size_ret: *mut usize);
        nvrtcGetPTX Query 7000 (prog: nvrtcProgram, ptx: *mut c_char);
        nvrtcGetCUBINSize Query 11010 (prog: nvrtcProgram, cubin_size_ret: *mut usize);
        nvrtcGetCUBIN Query 11010 (prog: nvrtcProgram, cubin: *mut c_char);
        nvrtcGetLTOIRSize Query 12000 (prog: nvrtcProgram, ltoir_size_ret: *mut usize);
        nvrtcGetLTOIR Query 12000 (prog: nvrtcProgram, ltoir: *mut c_char);
        nvrtcGetOptiXIRSize Query 12000 (prog: nvrtcProgram, optixir_size_ret: *mut usize);
        nvrtcGetOptiXIR Query 12000 (prog: nvrtcProgram, optixir: *mut c_char);
        nvrtcGetLoweredName Query 8000 (prog: nvrtcProgram, name_expression: *const c_char, lowered_name: *mut *const c_char);

        // Precompiled headers
        nvrtcGetPCHHeapSize Query 12080 (ret: *mut usize);
        nvrtcSetPCHHeapSize Mutate 12080 (size: usize);
        nvrtcGetPCHCreateStatus Query 12080 (prog: nvrtcProgram);
        nvrtcGetPCHHeapSizeRequired Query 12080 (prog: nvrtcProgram, size: *mut usize);
    } };
}

crate::compiler::handle! {
    /// NVRTC's handle of a program.
    nvrtcProgram
}

/// Asked while a program is compiled, on NVRTC's threads: 1 cancels, 0 goes on. The first argument is the payload.
#[expect(
    non_camel_case_types,
    reason = "named like NVRTC's own types; its header has no name for it"
)]
pub type nvrtcFlowCallback = Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>;

crate::for_each_nvrtc_function! { crate::compiler::calls, { NvrtcCall nvrtcResult "NVRTC" } }

impl Bits for nvrtcFlowCallback {
    fn bits(&self) -> u64 {
        self.map_or(0, |function| (function as *const ()).addr() as u64)
    }
}
