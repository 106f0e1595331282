//! Compilers without a compiler, for what is about their handles alone.

#![expect(unsafe_code, reason = "compilers made by hand")]

use cuhold_driver_sys::{
    ffi::{c_char, c_int, c_uint},
    nvjitlink::{NvJitLinkApi, nvJitLinkHandle, nvJitLinkResult},
    nvrtc::{NvrtcApi, nvrtcProgram, nvrtcResult},
    nvvm::{NvvmApi, nvvmProgram, nvvmResult},
};
use std::ptr;

/// NVRTC, NVVM and nvJitLink in one, which make handles and end them, and can do nothing else.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing in it")]
pub struct Bare;

// SAFETY: *written*: each writes its handle. *No unwinding*, *any thread*: they do nothing else.
unsafe impl NvrtcApi for Bare {
    unsafe fn nvrtcCreateProgram(
        &self,
        prog: *mut nvrtcProgram,
        _: *const c_char,
        _: *const c_char,
        _: c_int,
        _: *const *const c_char,
        _: *const *const c_char,
    ) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { prog.write(nvrtcProgram(ptr::without_provenance_mut(0x10))) };
        nvrtcResult::SUCCESS
    }
    unsafe fn nvrtcDestroyProgram(&self, _: *mut nvrtcProgram) -> nvrtcResult {
        nvrtcResult::SUCCESS
    }
}

// SAFETY: as above.
unsafe impl NvvmApi for Bare {
    unsafe fn nvvmCreateProgram(&self, prog: *mut nvvmProgram) -> nvvmResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { prog.write(nvvmProgram(ptr::without_provenance_mut(0x20))) };
        nvvmResult::SUCCESS
    }
    unsafe fn nvvmDestroyProgram(&self, _: *mut nvvmProgram) -> nvvmResult {
        nvvmResult::SUCCESS
    }
}

// SAFETY: as above.
unsafe impl NvJitLinkApi for Bare {
    unsafe fn nvJitLinkCreate(
        &self,
        handle: *mut nvJitLinkHandle,
        _: c_uint,
        _: *const *const c_char,
    ) -> nvJitLinkResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { handle.write(nvJitLinkHandle(ptr::without_provenance_mut(0x30))) };
        nvJitLinkResult::SUCCESS
    }
    unsafe fn nvJitLinkDestroy(&self, _: *mut nvJitLinkHandle) -> nvJitLinkResult {
        nvJitLinkResult::SUCCESS
    }
}
