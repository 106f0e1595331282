//! The list of NVVM's functions, kept by hand, and what follows from it alone: the calls' identities.
//!
//! An entry reads `name kind version (arguments);`, the version being the one that brought the function. All answer an
//! [`nvvmResult`]; `nvvmGetErrorString`, which doesn't, stands in the trait itself.

#![expect(unsafe_code, reason = "a handle is a pointer in C and must be declared Send and Sync")]

use super::nvvmResult;

/// Hands every entry of NVVM's list to the macro `$generator`, after `$head`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_nvvm_function {
    ($generator:path, $head:tt) => { $generator! { $head
        // What it is and what it takes
        nvvmVersion Query 5000 (major: *mut c_int, minor: *mut c_int);
        nvvmIRVersion Query 7000 (major_ir: *mut c_int, minor_ir: *mut c_int, major_dbg: *mut c_int, minor_dbg: *mut c_int);
        nvvmLLVMVersion Query 13000 (arch: *const c_char, major: *mut c_int);

        // Programs
        nvvmCreateProgram Create 5000 (prog: *mut nvvmProgram);
        nvvmDestroyProgram Destroy 5000 (prog: *mut nvvmProgram);
        nvvmAddModuleToProgram Mutate 5000 (prog: nvvmProgram, buffer: *const c_char, size: usize, name: *const c_char);
        nvvmLazyAddModuleToProgram Mutate 10000 (prog: nvvmProgram, buffer: *const c_char, size: usize, name: *const c_char);
        nvvmCompileProgram Mutate 5000 (prog: nvvmProgram, num_options: c_int, options: *const *const c_char);
        nvvmVerifyProgram Mutate 6000 (prog: nvvmProgram, num_options: c_int, options: *const *const c_char);

        // What a compilation gave
        nvvmGetCompiledResultSize Query 5000 (prog: nvvmProgram, buffer_size_ret: *mut usize);
        nvvmGetCompiledResult Query 5000 (prog: nvvmProgram, buffer: *mut c_char);
        nvvmGetProgramLogSize Query 5000 (prog: nvvmProgram, buffer_size_ret: *mut usize);
        nvvmGetProgramLog Query 5000 (prog: nvvmProgram, buffer: *mut c_char);
    } };
}

crate::compiler::handle! {
    /// NVVM's handle of a program.
    nvvmProgram
}

crate::for_each_nvvm_function! { crate::compiler::calls, { NvvmCall nvvmResult "NVVM" } }
