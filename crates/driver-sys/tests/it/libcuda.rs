//! What the loader makes of drivers that are absent, broken, older, or not drivers at all.

#![expect(unsafe_code, reason = "loads libraries and calls their functions")]

use std::{env, fs, path::Path, thread};

use cuhold_driver_sys::{Call, Calls, DriverApi, Libcuda, LoadError, Reason, Version, ffi::*};

use crate::{
    alone::{Alone, is_alone},
    fake::{self, Folder, Function, Lookup, basics, function},
    zero::Zero,
};

/// That a loaded driver can stand behind the trait object which the layers above hold.
const _: fn(Libcuda) -> Box<dyn DriverApi> = |driver| Box::new(driver);

/// Loads a fake.
pub(crate) fn load(path: &Path) -> Result<Libcuda, LoadError> {
    // SAFETY: *code*, *CUDA's symbols*: the path is a fake of ours, whose functions have CUDA's signatures, or no
    // library at all.
    unsafe { Libcuda::load_from(path) }
}

/// Calls a function that the fakes have.
pub(crate) fn stream_query(driver: &Libcuda) -> CUresult {
    // SAFETY: the fakes don't follow the handle.
    unsafe { driver.cuStreamQuery(CUstream::NULL) }
}

macro_rules! every_form {
    ({} $($name:ident $kind:ident $context:ident $capture:ident $waits:ident
        { $($form:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)+ })*) => {
        /// Calls each form, all arguments zero.
        pub(crate) fn every_form(driver: &dyn DriverApi) -> Vec<(Call, CUresult)> {
            vec![$($({
                // SAFETY: the fakes follow no argument.
                let answer = unsafe { driver.$form($(<$type as Zero>::zero()),*) };
                (Call::$form, answer)
            },)+)*]
        }
    };
}

cuhold_driver_sys::for_each_driver_function! { every_form, {} }

fn ctx_synchronize(driver: &Libcuda) -> (CUresult, CUresult) {
    // SAFETY: no arguments.
    let old = unsafe { driver.cuCtxSynchronize() };
    // SAFETY: the fakes don't follow the handle.
    (old, unsafe { driver.cuCtxSynchronize_v2(CUcontext::NULL) })
}

#[test]
fn a_file_that_is_not_there_is_an_error_that_names_it() {
    let folder = Folder::new();
    let path = folder.join("libcuda.so.1");
    let error = load(&path).unwrap_err();
    assert_eq!(error.attempts().len(), 1);
    let (text, path) = (error.to_string(), path.to_str().unwrap());
    assert!(text.starts_with(&format!("no CUDA driver could be loaded: `{path}`: ")), "{text}");
    assert!(text.ends_with(". Nothing else was tried"), "{text}");
    assert_eq!(text.matches(path).count(), 1, "{text}");
}

#[test]
fn garbage_an_empty_file_and_a_folder_are_errors() {
    let folder = Folder::new();
    let (garbage, empty) = (folder.join("garbage.so"), folder.join("empty.so"));
    fs::write(&garbage, [0x5a; 4096]).unwrap();
    fs::write(&empty, "").unwrap();
    for path in [&*garbage, &*empty, &*folder] {
        let error = load(path).unwrap_err();
        let [attempt] = error.attempts() else { panic!("{error}") };
        assert!(matches!(attempt.reason, Reason::NotOpened(_)), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_library_without_cuinit_is_no_driver() {
    let error = load(&fake::build("libother.so", "")).unwrap_err();
    assert_eq!(error.attempts()[0].reason, Reason::Lacks("cuInit"));
    assert!(error.to_string().contains("has no `cuInit`"), "{error}");
}

#[test]
fn the_toolkit_s_stub_is_an_error_that_names_its_file() {
    let stub = |symbol, parameters| function(symbol, symbol, 2000, (parameters, "34")).unlisted();
    let functions = [stub("cuInit", "_: u32"), stub("cuDriverGetVersion", "_: *mut i32")];
    let path = fake::driver("libcuda.so", 13_000, Lookup::Absent, &functions);
    let error = load(&path).unwrap_err();
    assert_eq!(error.attempts()[0].reason, Reason::Stub);
    assert_eq!(error.attempts()[0].file.as_deref(), Some(&*path));
    assert!(error.to_string().contains("stub"), "{error}");
}

#[test]
fn loading_does_not_initialize_and_asks_the_version() {
    let init = function("cuInit", "cuInit", 2000, ("_: u32", "loop {}"));
    let functions = [&[init], &basics()[1..]].concat();
    let path = fake::driver("libcuda.so.1", 12_040, Lookup::WithStatus, &functions);
    let driver = load(&path).unwrap();
    assert_eq!(driver.version(), Some(Version(12_040)));
    assert_eq!(driver.path(), &*path);
    assert!(driver.has(Call::cuInit));
}

#[test]
fn a_driver_that_does_not_tell_its_version_is_a_driver() {
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &basics()[..1]);
    let driver = load(&path).unwrap();
    assert_eq!(driver.version(), None);
}

#[test]
fn a_function_that_the_driver_lacks_is_missing_and_the_others_work() {
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &basics());
    let driver = load(&path).unwrap();
    assert_eq!(stream_query(&driver), CUresult::NOT_READY);
    assert!(!driver.has(Call::cuStreamGetId));
    let mut id = 0;
    // SAFETY: the result is writable.
    let answer = unsafe { Calls::new(&driver).cuStreamGetId(CUstream::NULL, &raw mut id) };
    let failure = answer.unwrap_err();
    assert_eq!((failure.call, failure.status), (Call::cuStreamGetId, CUresult::MISSING));
}

#[test]
fn forms_that_the_driver_lacks_are_missing_whichever_they_are() {
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::Absent, &basics()[..1]);
    let driver = load(&path).unwrap();
    for (call, answer) in every_form(&driver) {
        let expected = if call == Call::cuInit { CUresult::SUCCESS } else { CUresult::MISSING };
        assert_eq!(answer, expected, "{call:?}");
        assert_eq!(driver.has(call), call == Call::cuInit, "{call:?}");
    }
}

#[test]
fn each_form_reaches_its_own_function() {
    // Nothing is exported, so each is found under its documented name and version.
    let number = |call: Call| 10_000 + call as u32;
    let functions: Vec<_> = Call::ALL
        .iter()
        .map(|call| {
            let body = ("", &*number(*call).to_string());
            function(call.symbol(), call.name(), call.since().0, body).hidden()
        })
        .collect();
    let path = fake::driver("libcuda.so.1", 99_000, Lookup::WithStatus, &functions);
    let driver = load(&path).unwrap();
    let answers = every_form(&driver);
    assert_eq!(answers.iter().map(|(call, _)| *call).collect::<Vec<_>>(), Call::ALL);
    for (call, answer) in answers {
        assert_eq!(answer, CUresult(number(call)), "{call:?}");
    }
}

#[test]
fn a_driver_with_only_the_older_form_has_that_one_alone() {
    let functions = basics();
    let path = fake::driver("libcuda.so.1", 12_040, Lookup::WithStatus, &functions);
    let driver = load(&path).unwrap();
    assert_eq!(ctx_synchronize(&driver), (CUresult::SUCCESS, CUresult::MISSING));
}

#[test]
fn each_form_is_asked_with_its_own_version() {
    let new = function("cuCtxSynchronize_v2", "cuCtxSynchronize", 13_000, ("_: usize", "77"));
    let functions = [basics(), vec![new.hidden()]].concat();
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &functions);
    let driver = load(&path).unwrap();
    assert_eq!(ctx_synchronize(&driver), (CUresult::SUCCESS, CUresult(77)));
}

#[test]
fn an_older_form_s_address_is_not_taken_for_the_newer_form() {
    // It says that it is 13.0 and answers for 13.0 with the form of 2.0, the newest that it has.
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &basics());
    let driver = load(&path).unwrap();
    assert_eq!(ctx_synchronize(&driver), (CUresult::SUCCESS, CUresult::MISSING));
}

#[test]
fn success_with_a_null_pointer_is_missing_unless_the_symbol_is_exported() {
    let mut functions = basics();
    functions[3].exported = false;
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::AlwaysNull, &functions);
    let driver = load(&path).unwrap();
    assert_eq!(stream_query(&driver), CUresult::NOT_READY);
    assert_eq!(ctx_synchronize(&driver).0, CUresult::MISSING);
}

#[test]
fn the_look_up_of_cuda_11_3_serves_too() {
    let functions: Vec<_> = basics().into_iter().map(Function::hidden).collect();
    let path = fake::driver("libcuda.so.1", 11_040, Lookup::Plain, &functions);
    let driver = load(&path).unwrap();
    assert_eq!(driver.version(), Some(Version(11_040)));
    assert_eq!(stream_query(&driver), CUresult::NOT_READY);
    assert_eq!(ctx_synchronize(&driver), (CUresult::SUCCESS, CUresult::MISSING));
}

#[test]
fn without_a_look_up_the_exported_symbols_serve() {
    let new = function("cuCtxSynchronize_v2", "", 0, ("_: usize", "77")).unlisted();
    let functions = [basics(), vec![new]].concat();
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::Absent, &functions);
    let driver = load(&path).unwrap();
    assert_eq!(ctx_synchronize(&driver), (CUresult::SUCCESS, CUresult(77)));
    assert_eq!(stream_query(&driver), CUresult::NOT_READY);
}

#[test]
fn a_status_that_nobody_knows_stays_the_number_it_is() {
    let mut functions = basics();
    functions[2].body.1 = "9999".to_owned();
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &functions);
    let driver = load(&path).unwrap();
    // SAFETY: the fake doesn't follow the handle.
    let failure = unsafe { Calls::new(&driver).cuStreamQuery(CUstream::NULL) }.unwrap_err();
    assert_eq!(failure.status, CUresult(9999));
    assert_eq!(failure.to_string(), "cuStreamQuery answered status 9999");
}

#[test]
fn many_threads_load_one_driver_at_once() {
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &basics());
    let answers: Vec<_> = thread::scope(|scope| {
        let load_and_call = || stream_query(&load(&path).unwrap());
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(load_and_call)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(answers, [CUresult::NOT_READY; 16]);
}

#[test]
fn a_dropped_table_leaves_the_library_loaded() {
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &basics());
    assert_eq!(stream_query(&load(&path).unwrap()), CUresult::NOT_READY);
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps.contains(path.to_str().unwrap()));
}

#[test]
fn a_refused_library_is_closed() {
    let path = fake::build("libother.so", "");
    load(&path).unwrap_err();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains(path.to_str().unwrap()));
}

#[test]
fn the_variable_decides_alone() {
    const TEST: &str = "libcuda::the_variable_decides_alone";
    if is_alone(TEST) {
        let error = Libcuda::load().unwrap_err();
        let named = env::var_os("CUHOLD_LIBCUDA").unwrap();
        assert_eq!(error.attempts().len(), 1);
        assert_eq!(error.attempts()[0].asked, named);
        assert!(error.to_string().ends_with("CUHOLD_LIBCUDA is set, so nothing else was tried"));
        return;
    }
    // A driver that would be found by its name doesn't help.
    let good = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &basics());
    let folder = Folder::new();
    for named in [folder.join("absent.so"), folder.to_owned()] {
        Alone::new(TEST).with("CUHOLD_LIBCUDA", named).with("LD_LIBRARY_PATH", good.folder()).run();
    }
}

#[test]
fn the_variable_names_a_driver() {
    const TEST: &str = "libcuda::the_variable_names_a_driver";
    if is_alone(TEST) {
        let driver = Libcuda::load().unwrap();
        assert_eq!(driver.path(), env::var_os("CUHOLD_LIBCUDA").unwrap());
        assert_eq!(stream_query(&driver), CUresult::NOT_READY);
        return;
    }
    let path = fake::driver("any-name.so", 13_000, Lookup::WithStatus, &basics());
    Alone::new(TEST).with("CUHOLD_LIBCUDA", &*path).run();
}

#[test]
fn a_stub_named_libcuda_so_does_not_win_over_libcuda_so_1() {
    const TEST: &str = "libcuda::a_stub_named_libcuda_so_does_not_win_over_libcuda_so_1";
    if is_alone(TEST) {
        let driver = Libcuda::load().unwrap();
        assert!(driver.path().ends_with("libcuda.so.1"), "{driver:?}");
        assert_eq!(stream_query(&driver), CUresult::NOT_READY);
        return;
    }
    let stub = function("cuInit", "cuInit", 2000, ("_: u32", "34"));
    let stub = fake::driver("libcuda.so", 13_000, Lookup::Absent, &[stub]);
    let real = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &basics());
    let folders = [stub.folder(), real.folder()];
    Alone::new(TEST).with("LD_LIBRARY_PATH", env::join_paths(folders).unwrap()).run();
}

#[test]
fn without_a_driver_the_error_lists_both_names_in_order() {
    const TEST: &str = "libcuda::without_a_driver_the_error_lists_both_names_in_order";
    if is_alone(TEST) {
        let error = Libcuda::load().unwrap_err();
        let asked: Vec<_> = error.attempts().iter().map(|a| a.asked.to_str().unwrap()).collect();
        assert_eq!(asked, ["libcuda.so.1", "libcuda.so"]);
        let text = error.to_string();
        assert!(text.contains("CUHOLD_LIBCUDA") && !text.contains('\n'), "{text}");
        return;
    }
    // Garbage on the search path hides a driver that the machine may have.
    let folder = Folder::new();
    for name in ["libcuda.so.1", "libcuda.so"] {
        fs::write(folder.join(name), [0x5a; 4096]).unwrap();
    }
    Alone::new(TEST).with("LD_LIBRARY_PATH", &*folder).run();
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    const TEST: &str = "libcuda::an_empty_variable_counts_as_not_set";
    if is_alone(TEST) {
        assert!(Libcuda::load().unwrap().path().ends_with("libcuda.so.1"));
        return;
    }
    let path = fake::driver("libcuda.so.1", 13_000, Lookup::WithStatus, &basics());
    Alone::new(TEST).with("CUHOLD_LIBCUDA", "").with("LD_LIBRARY_PATH", path.folder()).run();
}
