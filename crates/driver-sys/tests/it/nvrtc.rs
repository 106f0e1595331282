//! NVRTC's loader, its list and its hooks, against small libraries; and against a real NVRTC where one is named.

#![expect(unsafe_code, reason = "loads libraries and calls their functions")]

use std::{
    env,
    ffi::{CStr, c_char, c_int, c_void},
    fmt::Write as _,
    fs,
    path::Path,
    ptr,
    sync::Arc,
};

use cuhold_driver_sys::{
    CallCounts, CallLog, Effect, Fault, Faults, Hooked, Kind, LoadError, Reason, Version,
    nvrtc::{
        Libnvrtc, NvrtcApi, NvrtcCall, NvrtcCalls, nvrtcFlowCallback, nvrtcProgram, nvrtcResult,
    },
};

use crate::{
    alone::{Alone, is_alone},
    fake::{self, Built, Folder},
    zero::Zero,
};

/// That a loaded NVRTC can stand behind a trait object.
const _: fn(Libnvrtc) -> Box<dyn NvrtcApi> = |nvrtc| Box::new(nvrtc);

const VERSION: &str = "unsafe { *major = 13; *minor = 5 }; 0";

/// An NVRTC whose `nvrtcVersion` does this, with more source.
fn nvrtc(name: &str, version: &str, more: &str) -> Built {
    let source = format!(
        "#[unsafe(no_mangle)]
        pub extern \"C\" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> u32 {{ {version} }}
        {more}"
    );
    fake::build(name, &source)
}

fn load(path: &Path) -> Result<Libnvrtc, LoadError> {
    // SAFETY: *code*, *NVRTC's symbols*: the path is a fake of ours, whose functions have NVRTC's signatures, or no
    // library at all.
    unsafe { Libnvrtc::load_from(path) }
}

macro_rules! every_function {
    ({} $($name:ident $kind:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)*) => {
        /// Calls each function, all arguments zero.
        fn every_function(nvrtc: &dyn NvrtcApi) -> Vec<(NvrtcCall, nvrtcResult)> {
            vec![$({
                // SAFETY: the fakes follow no argument.
                let answer = unsafe { nvrtc.$name($(<$type as Zero>::zero()),*) };
                (NvrtcCall::$name, answer)
            },)*]
        }
    };
}

cuhold_driver_sys::for_each_nvrtc_function! { every_function, {} }

#[test]
fn what_is_no_nvrtc_is_an_error_that_names_it() {
    let folder = Folder::new();
    let garbage = folder.join("garbage.so");
    fs::write(&garbage, [0x5a; 4096]).unwrap();
    let other = fake::build("libother.so", "");
    let stub = nvrtc("libnvrtc.so", "11", "");
    let version = NvrtcCall::nvrtcVersion.name();
    for (path, reason) in [
        (&*folder.join("absent.so"), None),
        (&*garbage, None),
        (&*folder, Some(Reason::NotInFolder)),
        (&*other, Some(Reason::Lacks(version))),
        (&*stub, Some(Reason::NoVersion(version, nvrtcResult::INTERNAL_ERROR.to_string()))),
    ] {
        let error = load(path).unwrap_err();
        let [attempt] = error.attempts() else { panic!("{error}") };
        match reason {
            Some(reason) => assert_eq!(attempt.reason, reason),
            None => assert!(matches!(attempt.reason, Reason::NotOpened(_)), "{error}"),
        }
        let text = error.to_string();
        assert!(text.starts_with("no NVRTC could be loaded: "), "{text}");
        assert!(text.contains(path.to_str().unwrap()), "{text}");
    }
}

#[test]
fn a_function_that_this_nvrtc_lacks_is_missing_and_the_version_is_known() {
    let path = nvrtc("libnvrtc.so.13", VERSION, "");
    let nvrtc = load(&path).unwrap();
    assert_eq!(nvrtc.version(), Version(13_050));
    assert_eq!(nvrtc.path(), &*path);
    // SAFETY: no arguments are followed.
    let answer = unsafe { NvrtcCalls::new(&nvrtc).nvrtcGetPCHCreateStatus(nvrtcProgram::NULL) };
    let failure = answer.unwrap_err();
    assert_eq!(failure.call, NvrtcCall::nvrtcGetPCHCreateStatus);
    assert_eq!(failure.to_string(), "nvrtcGetPCHCreateStatus answered missing function");
    // SAFETY: it has no conditions.
    assert!(unsafe { nvrtc.nvrtcGetErrorString(nvrtcResult::COMPILATION) }.is_null());
    for call in NvrtcCall::ALL {
        assert_eq!(nvrtc.has(*call), *call == NvrtcCall::nvrtcVersion, "{call}");
    }
}

#[test]
fn each_function_reaches_its_own() {
    let mut source = String::new();
    for (number, call) in NvrtcCall::ALL.iter().enumerate().skip(1) {
        let number = 9_000 + number;
        writeln!(source, "#[unsafe(no_mangle)] pub extern \"C\" fn {call}() -> u32 {{ {number} }}")
            .unwrap();
    }
    let version = "if major.is_null() { return 9_000 } unsafe { *major = 13; *minor = 5 }; 0";
    let nvrtc = load(&nvrtc("libnvrtc.so.13", version, &source)).unwrap();
    for ((call, answer), number) in every_function(&nvrtc).into_iter().zip(9_000..) {
        assert_eq!(answer, nvrtcResult(number), "{call}");
        assert!(nvrtc.has(call));
    }
}

#[test]
fn an_implementation_without_methods_answers_missing() {
    struct Nothing;
    // SAFETY: *written*, *no unwinding*, *any thread*: no method does anything.
    unsafe impl NvrtcApi for Nothing {}

    let nothing: Box<dyn NvrtcApi> = Box::new(Nothing);
    let hooked = Hooked::new(nothing, CallCounts::<NvrtcCall>::default());
    for (call, answer) in every_function(&hooked) {
        assert_eq!(answer, nvrtcResult::MISSING, "{call}");
        assert_eq!(hooked.hook().of(call), 1, "{call}");
    }
    assert_eq!(hooked.explain(nvrtcResult::COMPILATION), None);
}

#[test]
fn hooks_make_nvrtc_fail_and_log_its_calls() {
    let more = "#[unsafe(no_mangle)] pub extern \"C\" fn nvrtcCompileProgram() -> u32 { CALLS.fetch_add(1, Relaxed); 0 }
        #[unsafe(no_mangle)] pub extern \"C\" fn nvrtcDestroyProgram() -> u32 { CALLS.fetch_add(1, Relaxed); 0 }";
    let path = nvrtc("libnvrtc.so.13", VERSION, more);
    let (log, faults) = (Arc::new(CallLog::<NvrtcCall>::default()), Arc::new(Faults::default()));
    let nvrtc = Hooked::new(load(&path).unwrap(), (Arc::clone(&log), Arc::clone(&faults)));
    faults.arm(
        Fault::with_effect(Effect::Refused(nvrtcResult::COMPILATION))
            .on(NvrtcCall::nvrtcCompileProgram),
    );
    faults.arm(
        Fault::with_effect(Effect::DoneButFailed(nvrtcResult::INVALID_PROGRAM))
            .on_kind(Kind::Destroy),
    );
    let mut program = nvrtcProgram::NULL;
    let (answers, entries) = log.during(|| {
        // SAFETY: the fake follows no argument.
        let compiled = unsafe { nvrtc.nvrtcCompileProgram(program, 0, ptr::null()) };
        // SAFETY: as above.
        [compiled, unsafe { nvrtc.nvrtcDestroyProgram(&raw mut program) }]
    });
    assert_eq!(answers, [nvrtcResult::COMPILATION, nvrtcResult::INVALID_PROGRAM]);
    let logged: Vec<_> = entries.iter().map(|entry| (entry.call(), entry.status())).collect();
    assert_eq!(
        logged,
        [
            (NvrtcCall::nvrtcCompileProgram, nvrtcResult::COMPILATION),
            (NvrtcCall::nvrtcDestroyProgram, nvrtcResult::INVALID_PROGRAM),
        ]
    );
    assert_eq!(fake::calls_reached(&path), 1, "the refused call wasn't made, the other was");
}

#[test]
fn a_missing_builtins_library_is_explained_by_its_name() {
    let path = nvrtc("libnvrtc.so.13", VERSION, "");
    let nvrtc = load(&path).unwrap();
    let builtins = path.folder().join("libnvrtc-builtins.so.13.5");
    assert_eq!(nvrtc.builtins(), builtins);
    let text = nvrtc.explain(nvrtcResult::BUILTIN_OPERATION_FAILURE).unwrap();
    assert!(text.contains(builtins.to_str().unwrap()), "{text}");
    assert_eq!(nvrtc.explain(nvrtcResult::COMPILATION), None);
    fs::write(&builtins, "").unwrap();
    assert_eq!(nvrtc.explain(nvrtcResult::BUILTIN_OPERATION_FAILURE), None);
}

/// Puts a fake where an installation has its library.
fn install(root: &Path, layout: &str, name: &str) {
    let folder = root.join(layout);
    fs::create_dir_all(&folder).unwrap();
    fs::copy(&*nvrtc(name, VERSION, ""), folder.join(name)).unwrap();
}

#[test]
fn a_folder_is_searched_in_its_known_layouts_newest_first() {
    let root = Folder::new();
    for (layout, name) in [
        ("lib64", "libnvrtc.so"),
        ("nvidia/cuda_nvrtc/lib", "libnvrtc.so.12"),
        ("nvidia/cu13/lib", "libnvrtc.so.13"),
    ] {
        install(&root, layout, name);
        assert_eq!(load(&root).unwrap().path(), root.join(layout).join(name));
    }
}

#[test]
fn a_broken_file_in_a_folder_does_not_hide_the_next() {
    let root = Folder::new();
    fs::write(root.join("libnvrtc.so.13"), [0x5a; 4096]).unwrap();
    install(&root, "", "libnvrtc.so.12");
    assert_eq!(load(&root).unwrap().path(), root.join("libnvrtc.so.12"));
}

#[test]
fn the_variable_names_a_file_or_a_folder_and_decides_alone() {
    const TEST: &str = "nvrtc::the_variable_names_a_file_or_a_folder_and_decides_alone";
    if is_alone(TEST) {
        match (Libnvrtc::load(), env::var_os("EXPECTED")) {
            (Ok(nvrtc), Some(expected)) => assert_eq!(nvrtc.path(), expected),
            (Err(error), None) => {
                assert_eq!(error.attempts().len(), 1);
                let text = error.to_string();
                assert!(text.ends_with("CUHOLD_NVRTC is set, so nothing else was tried"), "{text}");
            }
            (other, _) => panic!("{other:?}"),
        }
        return;
    }
    let built = nvrtc("libnvrtc.so.12", VERSION, "");
    let on_search_path = || Alone::new(TEST).with("LD_LIBRARY_PATH", built.folder());
    on_search_path().with("CUHOLD_NVRTC", &*built).with("EXPECTED", &*built).run();
    on_search_path().with("CUHOLD_NVRTC", built.folder()).with("EXPECTED", &*built).run();
    on_search_path().with("CUHOLD_NVRTC", &*Folder::new()).run();
}

#[test]
fn by_name_the_newest_is_taken() {
    const TEST: &str = "nvrtc::by_name_the_newest_is_taken";
    if is_alone(TEST) {
        let expected = env::var_os("EXPECTED").unwrap();
        assert_eq!(Libnvrtc::load().unwrap().path(), expected);
        return;
    }
    let folder = Folder::new();
    for name in ["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13"] {
        install(&folder, "", name);
        // What isn't there yet is hidden by garbage, so that nothing of the machine's own is found.
        for newer in ["libnvrtc.so.12", "libnvrtc.so.13"] {
            let file = folder.join(newer);
            if !file.exists() {
                fs::write(file, [0x5a; 4096]).unwrap();
            }
        }
        Alone::new(TEST)
            .with("LD_LIBRARY_PATH", &*folder)
            .with("EXPECTED", folder.join(name))
            .run();
    }
}

#[test]
fn a_virtual_environment_is_searched() {
    const TEST: &str = "nvrtc::a_virtual_environment_is_searched";
    if is_alone(TEST) {
        let expected = env::var_os("EXPECTED").unwrap();
        assert_eq!(Libnvrtc::load().unwrap().path(), expected);
        return;
    }
    let (garbage, root) = (Folder::new(), Folder::new());
    for name in ["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13"] {
        fs::write(garbage.join(name), [0x5a; 4096]).unwrap();
    }
    let layout = "lib/python3.12/site-packages/nvidia/cu13/lib";
    install(&root, layout, "libnvrtc.so.13");
    Alone::new(TEST)
        .with("LD_LIBRARY_PATH", &*garbage)
        .with("VIRTUAL_ENV", &*root)
        .with("EXPECTED", root.join(layout).join("libnvrtc.so.13"))
        .run();
}

/// Compiles a kernel template to PTX; gives the status of the compilation, the log and the PTX.
fn compile(nvrtc: &Libnvrtc) -> (nvrtcResult, String, String) {
    const SOURCE: &CStr =
        c"template <typename T> __global__ void fill(T *p, T v) { p[threadIdx.x] = v; }";
    let calls = NvrtcCalls::new(nvrtc);
    let mut program = nvrtcProgram::NULL;
    let (source, name, none) = (SOURCE.as_ptr(), c"fill.cu".as_ptr(), ptr::null());
    // SAFETY: the strings are terminated, there are no headers, and the result is writable.
    unsafe { calls.nvrtcCreateProgram(&raw mut program, source, name, 0, none, none) }.unwrap();
    // SAFETY: the program was just made; the string is terminated.
    unsafe { calls.nvrtcAddNameExpression(program, c"fill<float>".as_ptr()) }.unwrap();
    let options = [c"--gpu-architecture=compute_90".as_ptr()];
    // SAFETY: the program is alive, the options are one terminated string.
    let compiled = unsafe { nvrtc.nvrtcCompileProgram(program, 1, options.as_ptr()) };
    let text = |size: &dyn Fn(*mut usize), bytes: &dyn Fn(*mut c_char)| {
        let mut len = 0;
        size(&raw mut len);
        let mut buffer = vec![0_u8; len + 1];
        bytes(buffer.as_mut_ptr().cast());
        CStr::from_bytes_until_nul(&buffer).unwrap().to_str().unwrap().to_owned()
    };
    let log = text(
        &|len| {
            // SAFETY: the program is alive, the result is writable.
            unsafe { calls.nvrtcGetProgramLogSize(program, len) }.unwrap();
        },
        &|buffer| {
            // SAFETY: the program is alive, the buffer has the length asked for.
            unsafe { calls.nvrtcGetProgramLog(program, buffer) }.unwrap();
        },
    );
    let mut ptx = String::new();
    if compiled.is_success() {
        ptx = text(
            &|len| {
                // SAFETY: as above.
                unsafe { calls.nvrtcGetPTXSize(program, len) }.unwrap();
            },
            &|buffer| {
                // SAFETY: as above.
                unsafe { calls.nvrtcGetPTX(program, buffer) }.unwrap();
            },
        );
    }
    // SAFETY: the program is alive and used no more.
    unsafe { calls.nvrtcDestroyProgram(&raw mut program) }.unwrap();
    (compiled, log, ptx)
}

/// Runs where `CUHOLD_NVRTC` names a real NVRTC, as it does in CI; what is named must work.
#[test]
fn a_real_nvrtc_that_is_named_compiles() {
    if env::var_os("CUHOLD_NVRTC").is_none() {
        return;
    }
    let nvrtc = Libnvrtc::load().unwrap();
    for call in NvrtcCall::ALL {
        assert_eq!(nvrtc.has(*call), call.since() <= nvrtc.version(), "{call}");
    }
    let (compiled, log, ptx) = compile(&nvrtc);
    assert_eq!(compiled, nvrtcResult::SUCCESS, "{log}");
    assert!(ptx.contains(".target sm_90") && ptx.contains("fill"), "{ptx}");
}

/// Runs where `CUHOLD_NVRTC` names a real NVRTC.
#[test]
fn a_real_nvrtc_without_its_builtins_says_which_file_is_missing() {
    const TEST: &str = "nvrtc::a_real_nvrtc_without_its_builtins_says_which_file_is_missing";
    if is_alone(TEST) {
        let nvrtc = Libnvrtc::load().unwrap();
        let (compiled, log, _) = compile(&nvrtc);
        assert_eq!(compiled, nvrtcResult::BUILTIN_OPERATION_FAILURE, "{log}");
        let builtins = nvrtc.builtins();
        let name = builtins.file_name().unwrap().to_str().unwrap();
        assert!(log.contains(name), "the log names the same file: {log}");
        assert!(nvrtc.explain(compiled).unwrap().contains(name));
        return;
    }
    if env::var_os("CUHOLD_NVRTC").is_none() {
        return;
    }
    let real = Libnvrtc::load().unwrap();
    let folder = Folder::new();
    let link = folder.join(real.path().file_name().unwrap());
    std::os::unix::fs::symlink(real.path(), &link).unwrap();
    Alone::new(TEST).with("CUHOLD_NVRTC", link).run();
}
