//! Compiling: with the real NVRTC where there is one, and with a hand-made one for what it refuses.

#![expect(unsafe_code, reason = "a compiler made by hand")]

use cuhold::{
    CompileOptions, Compiler, ErrorKind, Output, Program, Status,
    driver_sys::{
        ffi::*,
        nvrtc::{NvrtcApi, nvrtcProgram, nvrtcResult},
    },
};
use cuhold_testkit::{Kit, run};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

const SOURCE: &str = r#"
#include "scale.h"
template <typename T> __global__ void scale(T* x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= SCALE;
}
extern "C" __global__ void nop() {}
"#;

/// Runs the body with the real NVRTC; without one the test says that it is skipped.
fn with_nvrtc(body: impl FnOnce(&Kit, Compiler)) {
    run(|t| match Compiler::load() {
        Ok(compiler) => body(t, compiler),
        Err(_) => t.skip("needs NVRTC, and none was found"),
    });
}

fn options() -> CompileOptions<'static> {
    CompileOptions::new().header("scale.h", "#define SCALE 2").name_expressions(&["scale<float>"])
}

#[test]
fn source_with_a_header_and_a_template_compiles_and_loads() {
    with_nvrtc(|t, compiler| {
        let program = compiler.compile(t.device(), SOURCE, options()).unwrap();
        assert!(program.cubin().is_some_and(|code| code.starts_with(b"\x7fELF")));
        let lowered = program.lowered_name("scale<float>").unwrap();
        assert!(lowered.starts_with("_Z5scale"), "{lowered}");
        let library = t.device().load(&program).unwrap();
        assert_eq!(program.kernel(&library, "scale<float>").unwrap().name(), lowered);
        assert_eq!(library.kernel("nop").unwrap().name(), "nop");
        let unknown = program.kernel(&library, "scale<double>").unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::Argument);
    });
}

#[test]
fn ptx_is_made_where_it_is_asked_for() {
    with_nvrtc(|t, compiler| {
        let program = compiler.compile(t.device(), SOURCE, options().output(Output::Ptx)).unwrap();
        assert!(program.ptx().is_some_and(|text| text.contains(".entry nop")));
        assert_eq!(program.cubin(), None);
    });
}

#[test]
fn an_error_in_the_source_comes_back_with_the_compiler_s_log() {
    with_nvrtc(|t, compiler| {
        let options = CompileOptions::new().name("broken.cu");
        let error =
            compiler.compile(t.device(), "__global__ void f() { nonsense; }", options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Compile);
        assert_eq!(error.status(), Some(Status::Nvrtc(nvrtcResult::COMPILATION)));
        let text = error.to_string();
        assert!(text.contains("broken.cu") && text.contains("nonsense"), "{text}");
    });
}

#[test]
fn an_option_that_the_compiler_does_not_know_is_an_error() {
    with_nvrtc(|t, _| {
        let error = Program::compile(t.device(), "", &["--no-such-option"]).unwrap_err();
        assert_eq!(error.status(), Some(Status::Nvrtc(nvrtcResult::INVALID_OPTION)));
        assert!(error.to_string().contains("no-such-option"), "{error}");
    });
}

#[test]
fn text_with_a_nul_byte_inside_is_refused_before_the_compiler_is_asked() {
    let made = Arc::new(AtomicU32::new(0));
    let compiler = Compiler::from_api(Refusing { at: None, live: Arc::clone(&made) });
    run(|t| {
        let error = compiler.compile(t.device(), "a\0b", CompileOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().starts_with("source: "), "{error}");
    });
    assert_eq!(made.load(Ordering::Relaxed), 0);
}

/// A compiler for architecture 90 that refuses one of its calls and counts its live programs.
struct Refusing {
    at: Option<&'static str>,
    live: Arc<AtomicU32>,
}

impl Refusing {
    fn answer(&self, call: &'static str) -> nvrtcResult {
        if self.at == Some(call) { nvrtcResult::OUT_OF_MEMORY } else { nvrtcResult::SUCCESS }
    }
}

// SAFETY: *written*: each method that answers SUCCESS writes what it should. *No unwinding*, *any thread*: plain stores.
unsafe impl NvrtcApi for Refusing {
    unsafe fn nvrtcGetNumSupportedArchs(&self, count: *mut c_int) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { *count = 1 };
        self.answer("archs")
    }
    unsafe fn nvrtcGetSupportedArchs(&self, archs: *mut c_int) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise: room for one.
        unsafe { *archs = 90 };
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
        let answer = self.answer("create");
        if answer.is_success() {
            self.live.fetch_add(1, Ordering::Relaxed);
            // SAFETY: *pointers*: the caller's promise.
            unsafe { *program = nvrtcProgram(std::ptr::without_provenance_mut(8)) };
        }
        answer
    }
    unsafe fn nvrtcDestroyProgram(&self, program: *mut nvrtcProgram) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { *program = nvrtcProgram::NULL };
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.answer("destroy")
    }
    unsafe fn nvrtcCompileProgram(
        &self,
        _: nvrtcProgram,
        _: c_int,
        _: *const *const c_char,
    ) -> nvrtcResult {
        self.answer("compile")
    }
    unsafe fn nvrtcGetProgramLogSize(&self, _: nvrtcProgram, size: *mut usize) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { *size = 0 };
        self.answer("log")
    }
    unsafe fn nvrtcGetCUBINSize(&self, _: nvrtcProgram, size: *mut usize) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise.
        unsafe { *size = 4 };
        self.answer("size")
    }
    unsafe fn nvrtcGetCUBIN(&self, _: nvrtcProgram, cubin: *mut c_char) -> nvrtcResult {
        // SAFETY: *pointers*: the caller's promise: room for four bytes.
        unsafe { cubin.cast::<[u8; 4]>().write(*b"\x7fELF") };
        self.answer("cubin")
    }
}

#[test]
fn whichever_call_fails_no_program_object_is_left_and_the_status_is_the_original_one() {
    for at in ["archs", "create", "compile", "log", "size", "cubin", "destroy"] {
        let live = Arc::new(AtomicU32::new(0));
        let compiler = Compiler::from_api(Refusing { at: Some(at), live: Arc::clone(&live) });
        cuhold_testkit::run_simulated(|t, _| {
            let error = compiler.compile(t.device(), "", CompileOptions::new()).unwrap_err();
            assert_eq!(error.status(), Some(Status::Nvrtc(nvrtcResult::OUT_OF_MEMORY)), "{at}");
        });
        assert_eq!(live.load(Ordering::Relaxed), 0, "{at}");
    }
}

#[test]
fn a_compiler_that_lacks_a_function_is_an_error_that_names_it() {
    struct Empty;
    // SAFETY: no method is implemented.
    unsafe impl NvrtcApi for Empty {}
    run(|t| {
        let error =
            Compiler::from_api(Empty).compile(t.device(), "", CompileOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        assert!(error.to_string().starts_with("nvrtcGetNumSupportedArchs is missing"), "{error}");
    });
}
