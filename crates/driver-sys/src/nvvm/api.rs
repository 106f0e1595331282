//! The seam of NVVM: an object-safe trait with a method per function, its calls by name, and hooks around it.

#![expect(unsafe_code, reason = "the methods are C functions")]
#![expect(
    non_snake_case,
    reason = "the methods carry NVVM's names, so that a name is written once"
)]

use core::ffi::{c_char, c_int};
use std::sync::Arc;

use super::{NvvmCall, nvvmProgram, nvvmResult};

crate::for_each_nvvm_function! { crate::compiler::api,
{ NvvmApi NvvmCalls NvvmCall nvvmResult NvvmFailure "NVVM" nvvmGetErrorString } }

crate::for_each_nvvm_function! { crate::compiler::pointer,
{ Box<dyn NvvmApi>, NvvmApi NvvmCall nvvmResult nvvmGetErrorString } }
crate::for_each_nvvm_function! { crate::compiler::pointer,
{ Arc<dyn NvvmApi>, NvvmApi NvvmCall nvvmResult nvvmGetErrorString } }
