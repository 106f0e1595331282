//! The seam of NVRTC: an object-safe trait with a method per function, its calls by name, and hooks around it.

#![expect(unsafe_code, reason = "the methods are C functions")]
#![expect(
    non_snake_case,
    reason = "the methods carry NVRTC's names, so that a name is written once"
)]

use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use super::{NvrtcCall, nvrtcFlowCallback, nvrtcProgram, nvrtcResult};

crate::for_each_nvrtc_function! { crate::compiler::api,
{ NvrtcApi NvrtcCalls NvrtcCall nvrtcResult NvrtcFailure "NVRTC" nvrtcGetErrorString } }

crate::for_each_nvrtc_function! { crate::compiler::pointer,
{ Box<dyn NvrtcApi>, NvrtcApi NvrtcCall nvrtcResult nvrtcGetErrorString } }
crate::for_each_nvrtc_function! { crate::compiler::pointer,
{ Arc<dyn NvrtcApi>, NvrtcApi NvrtcCall nvrtcResult nvrtcGetErrorString } }
