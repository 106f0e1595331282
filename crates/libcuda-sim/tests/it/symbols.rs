//! The exported symbols, and what `cuGetProcAddress` finds.

#![expect(unsafe_code, reason = "calls C functions")]

use core::{
    ffi::{CStr, c_int, c_uint, c_void},
    ptr,
};
use std::ffi::CString;

use cuhold::driver_sys::{Call, Function, Libcuda};
use libloading::Library;

use crate::place::built;

const SUCCESS: c_uint = 0;
const INVALID_VALUE: c_uint = 1;
const NOT_FOUND: c_uint = 500;
const NOT_SUPPORTED: c_uint = 801;

type Lookup11 = unsafe extern "C" fn(*const i8, *mut *mut c_void, c_int, u64) -> c_uint;
type Lookup12 =
    unsafe extern "C" fn(*const i8, *mut *mut c_void, c_int, u64, *mut c_uint) -> c_uint;

fn library() -> Library {
    // SAFETY: the library's constructors do nothing; it is this package's own.
    unsafe { Library::new(built()) }.unwrap()
}

/// The address of an exported symbol.
fn exported(library: &Library, symbol: &str) -> Option<*mut c_void> {
    // SAFETY: an address is asked for, and nothing is called.
    let found = unsafe { library.get::<*mut c_void>(symbol) };
    found.ok().map(|symbol| *symbol)
}

/// Status, address and reason.
fn ask(library: &Library, name: &CStr, version: c_int) -> (c_uint, *mut c_void, c_uint) {
    ask_with(library, name, version, 0)
}

/// The same with flags.
fn ask_with(
    library: &Library,
    name: &CStr,
    version: c_int,
    flags: u64,
) -> (c_uint, *mut c_void, c_uint) {
    // SAFETY: this is the signature of CUDA 12.0 for this symbol.
    let lookup = unsafe { library.get::<Lookup12>("cuGetProcAddress_v2") }.unwrap();
    let (mut address, mut reason) = (ptr::without_provenance_mut(7), 9);
    // SAFETY: the name is terminated, both results are writable.
    let status =
        unsafe { lookup(name.as_ptr(), &raw mut address, version, flags, &raw mut reason) };
    (status, address, reason)
}

#[test]
fn every_form_of_the_list_is_exported_and_the_loader_has_them_all() {
    let library = library();
    for call in Call::ALL {
        assert!(exported(&library, call.symbol()).is_some(), "{call:?}");
    }
    // SAFETY: it is this package's own library, with CUDA's functions under CUDA's names.
    let loaded = unsafe { Libcuda::load_from(&built()) }.unwrap();
    let lacks: Vec<_> = Call::ALL.iter().filter(|call| !loaded.has(**call)).collect();
    assert!(lacks.is_empty(), "{lacks:?}");
    assert_eq!(loaded.version().unwrap().to_string(), "13.0");
}

#[test]
fn a_function_is_found_in_its_newest_form_not_above_the_version() {
    let library = library();
    for (version, symbol) in
        [(12_050, "cuCtxCreate_v4"), (13_000, "cuCtxCreate_v4"), (12_049, "cuCtxCreate_v3")]
    {
        let found = (SUCCESS, exported(&library, symbol).unwrap(), 0);
        assert_eq!(ask(&library, c"cuCtxCreate", version), found, "{version}");
    }
    for function in Function::ALL {
        let name = CString::new(function.name).unwrap();
        let (status, address, reason) = ask(&library, &name, 13_000);
        assert_eq!(status, SUCCESS, "{}", function.name);
        assert_eq!(address.is_null(), reason != 0, "{}", function.name);
        let exports = function.forms.iter().filter_map(|form| exported(&library, form.symbol()));
        assert!(
            address.is_null() || exports.into_iter().any(|e| e == address),
            "{}",
            function.name
        );
    }
}

#[test]
fn what_is_missing_is_success_with_null_and_a_reason_and_a_version_too_new_is_refused() {
    let library = library();
    assert_eq!(ask(&library, c"cuNoSuchFunction", 13_000), (SUCCESS, ptr::null_mut(), 1));
    assert_eq!(ask(&library, c"", 0), (SUCCESS, ptr::null_mut(), 1));
    assert_eq!(ask(&library, c"cuCtxCreate", 11_000), (SUCCESS, ptr::null_mut(), 2));
    let untouched = ptr::without_provenance_mut(7);
    assert_eq!(ask(&library, c"cuCtxCreate", 99_000), (INVALID_VALUE, untouched, 9));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "what the look-up found is called as a C program calls it"
)]
fn with_the_flag_a_null_stream_is_the_thread_s_own() {
    type Init = unsafe extern "C" fn(c_uint) -> c_uint;
    type Create = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, c_uint, c_int) -> c_uint;
    type GetId = unsafe extern "C" fn(usize, *mut u64) -> c_uint;

    let library = library();
    // SAFETY: this is the function's signature.
    let init = unsafe { library.get::<Init>("cuInit") }.unwrap();
    // SAFETY: as above.
    let create = unsafe { library.get::<Create>("cuCtxCreate_v4") }.unwrap();
    // SAFETY: the call takes no pointer.
    assert_eq!(unsafe { init(0) }, SUCCESS);
    let mut context = ptr::null_mut();
    // SAFETY: the result is writable; no parameters are a context without any.
    assert_eq!(unsafe { create(&raw mut context, ptr::null_mut(), 0, 0) }, SUCCESS);

    let id_by = |address: *mut c_void, stream| {
        // SAFETY: it is `cuStreamGetId`, whose signature this is.
        let get_id = unsafe { core::mem::transmute::<*mut c_void, GetId>(address) };
        let mut id = 0;
        // SAFETY: the result is writable; the stream is one of CUDA's own.
        assert_eq!(unsafe { get_id(stream, &raw mut id) }, SUCCESS);
        id
    };
    let (_, usual, _) = ask(&library, c"cuStreamGetId", 13_000);
    let (_, per_thread, _) = ask_with(&library, c"cuStreamGetId", 13_000, 2);
    let (legacy, own) = (id_by(usual, 1), id_by(usual, 2));
    assert_ne!(legacy, own);
    assert_eq!((id_by(usual, 0), id_by(per_thread, 0)), (legacy, own));
    assert_eq!((id_by(per_thread, 1), id_by(per_thread, 2)), (legacy, own));

    // What is given no stream is the same function either way, and so is what ends one.
    for name in [c"cuInit", c"cuStreamCreate", c"cuStreamDestroy"] {
        let asked = ask_with(&library, name, 13_000, 2);
        assert_eq!(asked, ask(&library, name, 13_000), "{name:?}");
    }
    assert_ne!(
        ask_with(&library, c"cuLaunchKernelEx", 13_000, 2),
        ask(&library, c"cuLaunchKernelEx", 13_000)
    );
}

#[test]
fn the_older_look_up_has_no_reason_and_fails_for_what_is_missing() {
    let library = library();
    // SAFETY: this is the signature of CUDA 11.3 for this symbol.
    let lookup = unsafe { library.get::<Lookup11>("cuGetProcAddress") }.unwrap();
    let mut address = ptr::null_mut();
    // SAFETY: the name is terminated, the result is writable.
    let status = unsafe { lookup(c"cuInit".as_ptr(), &raw mut address, 12_000, 0) };
    assert_eq!((status, Some(address)), (SUCCESS, exported(&library, "cuInit")));
    // SAFETY: as above.
    let status = unsafe { lookup(c"cuNoSuchFunction".as_ptr(), &raw mut address, 12_000, 0) };
    assert_eq!((status, address.is_null()), (NOT_FOUND, true));
}

#[test]
fn what_the_simulated_driver_lacks_is_not_supported_and_not_found() {
    type Table = unsafe extern "C" fn(*mut *const c_void, *const c_void) -> c_uint;

    let library = library();
    assert_eq!(ask(&library, c"cuGetExportTable", 13_000), (SUCCESS, ptr::null_mut(), 1));
    // SAFETY: this is the function's signature, but for the name of a type.
    let table = unsafe { library.get::<Table>("cuGetExportTable") }.unwrap();
    let mut found = ptr::null();
    // SAFETY: the result is writable; nothing is read through the other pointer.
    assert_eq!(unsafe { table(&raw mut found, ptr::null()) }, NOT_SUPPORTED);
}
