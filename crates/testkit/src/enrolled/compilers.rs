//! Small compilers that compile nothing: they give handles out, notice misuse of them, and answer the same each time.

#![expect(unsafe_code, reason = "compilers made by hand")]

use super::check::Lost;
use cuhold_driver_sys::{
    ffi::{c_char, c_int, c_uint, c_void},
    nvjitlink::{NvJitLinkApi, nvJitLinkHandle, nvJitLinkInputType, nvJitLinkResult},
    nvrtc::{NvrtcApi, nvrtcProgram, nvrtcResult},
    nvvm::{NvvmApi, nvvmProgram, nvvmResult},
};
use std::{
    collections::BTreeMap,
    ptr,
    sync::{Arc, Mutex},
};

/// The architectures for which the small NVRTC claims to make code. The simulated device's is one of them.
const ARCHITECTURES: [c_int; 2] = [50, 90];

const LOG: &[u8] = b"a log\0";
const PTX: &[u8] = b".version 7.0\0";
const CUBIN: &[u8] = b"\x7fELF";

/// NVRTC, NVVM and nvJitLink in one. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Small(Arc<Mutex<Handles>>);

#[derive(Default)]
struct Handles {
    given: usize,
    live: BTreeMap<u64, &'static str>,
    violations: Vec<String>,
}

impl Small {
    /// A handle, at an address that no driver gives out.
    fn make(&self, what: &'static str) -> *mut c_void {
        let mut handles = self.0.lock().unwrap();
        handles.given += 1;
        let raw = ptr::without_provenance_mut::<c_void>(0x7e57_0000 + 0x10 * handles.given);
        handles.live.insert(raw.addr() as u64, what);
        raw
    }

    /// Whether it is one, and alive.
    fn is(&self, what: &'static str, raw: *mut c_void) -> bool {
        let mut handles = self.0.lock().unwrap();
        let raw = raw.addr() as u64;
        let is = handles.live.get(&raw) == Some(&what);
        if !is {
            handles.violations.push(format!("{raw:#x} is no live {what}"));
        }
        is
    }

    fn end(&self, what: &'static str, raw: *mut c_void) -> bool {
        let is = self.is(what, raw);
        if is {
            self.0.lock().unwrap().live.remove(&(raw.addr() as u64));
        }
        is
    }

    /// What nobody ended.
    pub(super) fn lost(&self) -> Vec<Lost> {
        let handles = self.0.lock().unwrap();
        let lost =
            |(raw, what): (&u64, &&str)| Lost { raw: *raw, text: format!("{what} {raw:#x}") };
        handles.live.iter().map(lost).collect()
    }

    /// Uses of what isn't alive.
    pub(super) fn violations(&self) -> Vec<String> {
        self.0.lock().unwrap().violations.clone()
    }
}

fn nvrtc(is: bool) -> nvrtcResult {
    if is { nvrtcResult::SUCCESS } else { nvrtcResult::INVALID_PROGRAM }
}

fn nvvm(is: bool) -> nvvmResult {
    if is { nvvmResult::SUCCESS } else { nvvmResult::INVALID_PROGRAM }
}

fn nvjitlink(is: bool) -> nvJitLinkResult {
    if is { nvJitLinkResult::SUCCESS } else { nvJitLinkResult::INVALID_INPUT }
}

/// Writes what a call gives.
///
/// # Safety
/// `to` takes as many elements as `what` has.
unsafe fn give<T: Copy>(to: *mut T, what: &[T]) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(what.as_ptr(), to, what.len()) };
}

/// Methods that ask whether the handle lives, and then write what is given.
macro_rules! queries {
    ($what:literal $Handle:ty, $Status:ident else $refused:ident: $($name:ident $out:ty = $given:expr;)*) => { $(
        unsafe fn $name(&self, handle: $Handle, to: *mut $out) -> $Status {
            if !self.is($what, handle.0) {
                return $Status::$refused;
            }
            // SAFETY: *pointers*: the caller has room for the size that was given, or for one number.
            unsafe { give(to.cast(), &$given) };
            $Status::SUCCESS
        }
    )* };
}

// SAFETY: *written*: each method that answers SUCCESS has written what it gives. *No unwinding*: nothing here panics while
// the lock is held, so it is never poisoned. *Any thread*: all state is behind the lock.
unsafe impl NvrtcApi for Small {
    unsafe fn nvrtcVersion(&self, major: *mut c_int, minor: *mut c_int) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { give(major, &[13]) };
        // SAFETY: as above.
        unsafe { give(minor, &[0]) };
        nvrtcResult::SUCCESS
    }
    unsafe fn nvrtcGetNumSupportedArchs(&self, count: *mut c_int) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { give(count, &[2]) };
        nvrtcResult::SUCCESS
    }
    unsafe fn nvrtcGetSupportedArchs(&self, architectures: *mut c_int) -> nvrtcResult {
        // SAFETY: *pointers*: room for two, the number that was given.
        unsafe { give(architectures, &ARCHITECTURES) };
        nvrtcResult::SUCCESS
    }
    unsafe fn nvrtcCreateProgram(
        &self,
        program: *mut nvrtcProgram,
        _: *const c_char,
        _: *const c_char,
        _: c_int,
        _: *const *const c_char,
        _: *const *const c_char,
    ) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { give(program, &[nvrtcProgram(self.make("NVRTC program"))]) };
        nvrtcResult::SUCCESS
    }
    unsafe fn nvrtcDestroyProgram(&self, program: *mut nvrtcProgram) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise.
        let program = unsafe { *program };
        nvrtc(self.end("NVRTC program", program.0))
    }
    unsafe fn nvrtcAddNameExpression(
        &self,
        program: nvrtcProgram,
        _: *const c_char,
    ) -> nvrtcResult {
        nvrtc(self.is("NVRTC program", program.0))
    }
    unsafe fn nvrtcCompileProgram(
        &self,
        program: nvrtcProgram,
        _: c_int,
        _: *const *const c_char,
    ) -> nvrtcResult {
        nvrtc(self.is("NVRTC program", program.0))
    }
    unsafe fn nvrtcGetLoweredName(
        &self,
        program: nvrtcProgram,
        _: *const c_char,
        lowered: *mut *const c_char,
    ) -> nvrtcResult {
        if !self.is("NVRTC program", program.0) {
            return nvrtcResult::INVALID_PROGRAM;
        }
        // One of the test kernels.
        // SAFETY: *pointers*: the caller's promise.
        unsafe { give(lowered, &[c"fill".as_ptr()]) };
        nvrtcResult::SUCCESS
    }
    queries! { "NVRTC program" nvrtcProgram, nvrtcResult else INVALID_PROGRAM:
        nvrtcGetProgramLogSize usize = [LOG.len()];
        nvrtcGetProgramLog c_char = *LOG;
        nvrtcGetPTXSize usize = [PTX.len()];
        nvrtcGetPTX c_char = *PTX;
        nvrtcGetCUBINSize usize = [CUBIN.len()];
        nvrtcGetCUBIN c_char = *CUBIN;
    }
}

// SAFETY: as above.
unsafe impl NvvmApi for Small {
    unsafe fn nvvmCreateProgram(&self, program: *mut nvvmProgram) -> nvvmResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { give(program, &[nvvmProgram(self.make("NVVM program"))]) };
        nvvmResult::SUCCESS
    }
    unsafe fn nvvmDestroyProgram(&self, program: *mut nvvmProgram) -> nvvmResult {
        // SAFETY: *pointers*: the caller's promise.
        let program = unsafe { *program };
        nvvm(self.end("NVVM program", program.0))
    }
    unsafe fn nvvmAddModuleToProgram(
        &self,
        program: nvvmProgram,
        _: *const c_char,
        _: usize,
        _: *const c_char,
    ) -> nvvmResult {
        nvvm(self.is("NVVM program", program.0))
    }
    unsafe fn nvvmCompileProgram(
        &self,
        program: nvvmProgram,
        _: c_int,
        _: *const *const c_char,
    ) -> nvvmResult {
        nvvm(self.is("NVVM program", program.0))
    }
    queries! { "NVVM program" nvvmProgram, nvvmResult else INVALID_PROGRAM:
        nvvmGetCompiledResultSize usize = [PTX.len()];
        nvvmGetCompiledResult c_char = *PTX;
        nvvmGetProgramLogSize usize = [LOG.len()];
        nvvmGetProgramLog c_char = *LOG;
    }
}

// SAFETY: as above.
unsafe impl NvJitLinkApi for Small {
    unsafe fn nvJitLinkCreate(
        &self,
        handle: *mut nvJitLinkHandle,
        _: c_uint,
        _: *const *const c_char,
    ) -> nvJitLinkResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { give(handle, &[nvJitLinkHandle(self.make("nvJitLink handle"))]) };
        nvJitLinkResult::SUCCESS
    }
    unsafe fn nvJitLinkDestroy(&self, handle: *mut nvJitLinkHandle) -> nvJitLinkResult {
        // SAFETY: *pointers*: the caller's promise.
        let handle = unsafe { *handle };
        nvjitlink(self.end("nvJitLink handle", handle.0))
    }
    unsafe fn nvJitLinkAddData(
        &self,
        handle: nvJitLinkHandle,
        _: nvJitLinkInputType,
        _: *const c_void,
        _: usize,
        _: *const c_char,
    ) -> nvJitLinkResult {
        nvjitlink(self.is("nvJitLink handle", handle.0))
    }
    unsafe fn nvJitLinkComplete(&self, handle: nvJitLinkHandle) -> nvJitLinkResult {
        nvjitlink(self.is("nvJitLink handle", handle.0))
    }
    queries! { "nvJitLink handle" nvJitLinkHandle, nvJitLinkResult else INVALID_INPUT:
        nvJitLinkGetLinkedCubinSize usize = [CUBIN.len()];
        nvJitLinkGetLinkedCubin c_void = *CUBIN;
        nvJitLinkGetErrorLogSize usize = [LOG.len()];
        nvJitLinkGetErrorLog c_char = *LOG;
    }
}
