//! NVVM's and nvJitLink's lists and loaders, against small libraries: what they have of their own. What they share with
//! NVRTC's is tested there.

#![expect(unsafe_code, reason = "loads libraries and calls their functions")]

use std::{fmt::Write as _, fs, path::Path};

use cuhold_driver_sys::{
    CallCounts, Hooked, Listed, LoadError, Reason, Version,
    nvjitlink::{
        Libnvjitlink, NvJitLinkApi, NvJitLinkCall, nvJitLinkHandle, nvJitLinkInputType,
        nvJitLinkResult,
    },
    nvvm::{Libnvvm, NvvmApi, NvvmCall, nvvmProgram, nvvmResult},
};

use crate::{
    fake::{self, Folder},
    zero::Zero,
};
use std::ffi::{c_char, c_int, c_uint, c_void};

macro_rules! every_function {
    ({ $name_of_all:ident $Api:ident $Call:ident $Status:ident }
     $($name:ident $kind:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)*) => {
        /// Calls each function, all arguments zero.
        fn $name_of_all(api: &dyn $Api) -> Vec<($Call, $Status)> {
            vec![$({
                // SAFETY: the fakes follow no argument.
                let answer = unsafe { api.$name($(<$type as Zero>::zero()),*) };
                ($Call::$name, answer)
            },)*]
        }
    };
}

cuhold_driver_sys::for_each_nvvm_function! { every_function, { every_nvvm NvvmApi NvvmCall nvvmResult } }
cuhold_driver_sys::for_each_nvjitlink_function! { every_function,
{ every_nvjitlink NvJitLinkApi NvJitLinkCall nvJitLinkResult } }

/// A library that answers 13.5 to its version, and from each of these functions its number from 9000 on.
fn source<C: Listed>(version: C, others: impl Iterator<Item = C>) -> String {
    let mut source = format!(
        "#[unsafe(no_mangle)] pub extern \"C\" fn {version}(major: *mut u32, minor: *mut u32) -> u32 {{
            if major.is_null() {{ return {} }}
            unsafe {{ *major = 13; *minor = 5 }}; 0
        }}",
        9_000 + version.index()
    );
    for call in others.filter(|call| *call != version) {
        let number = 9_000 + call.index();
        writeln!(source, "#[unsafe(no_mangle)] pub extern \"C\" fn {call}() -> u32 {{ {number} }}")
            .unwrap();
    }
    source
}

fn nvvm(path: &Path) -> Result<Libnvvm, LoadError> {
    // SAFETY: *code*, *NVVM's symbols*: the path is a fake of ours, or no library at all.
    unsafe { Libnvvm::load_from(path) }
}

fn nvjitlink(path: &Path) -> Result<Libnvjitlink, LoadError> {
    // SAFETY: *code*, *nvJitLink's symbols*: as above.
    unsafe { Libnvjitlink::load_from(path) }
}

#[test]
fn each_function_reaches_its_own() {
    let all = source(NvvmCall::nvvmVersion, NvvmCall::ALL.iter().copied());
    let path = fake::build("libnvvm.so.4", &all);
    let library = nvvm(&path).unwrap();
    assert_eq!(library.version(), Version(13_050));
    for (call, answer) in every_nvvm(&library) {
        assert_eq!(answer, nvvmResult(9_000 + u32::try_from(call.index()).unwrap()), "{call}");
    }
    let all = source(NvJitLinkCall::nvJitLinkVersion, NvJitLinkCall::ALL.iter().copied());
    let path = fake::build("libnvJitLink.so.13", &all);
    let library = nvjitlink(&path).unwrap();
    assert_eq!(library.version(), Version(13_050));
    for (call, answer) in every_nvjitlink(&library) {
        let own = nvJitLinkResult(9_000 + u32::try_from(call.index()).unwrap());
        assert_eq!(answer, own, "{call}");
    }
}

#[test]
fn what_a_library_lacks_is_missing_through_hooks_too() {
    let path = fake::build("libnvvm.so.4", &source(NvvmCall::nvvmVersion, std::iter::empty()));
    let boxed: Box<dyn NvvmApi> = Box::new(nvvm(&path).unwrap());
    let hooked = Hooked::new(boxed, CallCounts::<NvvmCall>::default());
    for (call, answer) in every_nvvm(&hooked).into_iter().skip(1) {
        assert_eq!(answer, nvvmResult::MISSING, "{call}");
        assert_eq!(hooked.hook().of(call), 1, "{call}");
    }
    let version = source(NvJitLinkCall::nvJitLinkVersion, std::iter::empty());
    let path = fake::build("libnvJitLink.so.13", &version);
    let boxed: Box<dyn NvJitLinkApi> = Box::new(nvjitlink(&path).unwrap());
    let hooked = Hooked::new(boxed, CallCounts::<NvJitLinkCall>::default());
    for (call, answer) in every_nvjitlink(&hooked).into_iter().skip(1) {
        assert_eq!(answer, nvJitLinkResult::MISSING, "{call}");
        assert_eq!(hooked.hook().of(call), 1, "{call}");
    }
}

#[test]
fn each_library_is_found_where_wheels_and_toolkits_have_it_and_an_error_names_it() {
    let root = Folder::new();
    for layout in ["nvvm/lib64", "nvidia/cu13/lib"] {
        let folder = root.join(layout);
        fs::create_dir_all(&folder).unwrap();
        let path = fake::build("libnvvm.so.4", &source(NvvmCall::nvvmVersion, std::iter::empty()));
        fs::copy(&*path, folder.join("libnvvm.so.4")).unwrap();
        assert_eq!(nvvm(&root).unwrap().path(), folder.join("libnvvm.so.4"));
        fs::remove_file(folder.join("libnvvm.so.4")).unwrap();
    }
    let error = nvjitlink(&root).unwrap_err();
    assert!(error.to_string().starts_with("no nvJitLink could be loaded: "), "{error}");
    assert_eq!(error.attempts()[0].reason, Reason::NotInFolder);
    let stub = fake::build(
        "libnvvm.so",
        "#[unsafe(no_mangle)] pub extern \"C\" fn nvvmVersion() -> u32 { 9 }",
    );
    let error = nvvm(&stub).unwrap_err();
    let answer = nvvmResult::COMPILATION.to_string();
    assert_eq!(error.attempts()[0].reason, Reason::NoVersion("nvvmVersion", answer));
}
