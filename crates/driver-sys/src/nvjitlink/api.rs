//! The seam of nvJitLink: an object-safe trait with a method per function, its calls by name, and hooks around it.

#![expect(unsafe_code, reason = "the methods are C functions")]
#![expect(
    non_snake_case,
    reason = "the methods carry nvJitLink's names, so that a name is written once"
)]

use core::ffi::{c_char, c_uint, c_void};
use std::sync::Arc;

use super::{NvJitLinkCall, nvJitLinkHandle, nvJitLinkInputType, nvJitLinkResult};

crate::for_each_nvjitlink_function! { crate::compiler::api,
{ NvJitLinkApi NvJitLinkCalls NvJitLinkCall nvJitLinkResult NvJitLinkFailure "nvJitLink" } }

crate::for_each_nvjitlink_function! { crate::compiler::pointer,
{ Box<dyn NvJitLinkApi>, NvJitLinkApi NvJitLinkCall nvJitLinkResult } }
crate::for_each_nvjitlink_function! { crate::compiler::pointer,
{ Arc<dyn NvJitLinkApi>, NvJitLinkApi NvJitLinkCall nvJitLinkResult } }
