//! Modules, libraries, their functions and kernels.

use std::ffi::{CStr, CString};

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{
        DriverApi as _, Version,
        ffi::{CUfunction_attribute as Attribute, *},
    },
};

use crate::ask::{Asked, call, get, sim, sim_with_context};

/// Two kernels, a variable with a value and one with another's address.
pub(crate) const PTX: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .global .align 8 .u64 pointer = counter;
.visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n)
{ ret; }
.visible .entry nothing() .maxntid 64 { .shared .b8 buffer[100]; ret; }
";

const CUBIN: &[u8] = include_bytes!("../images/axpy-nvrtc-13.5-sm_90.cubin");
const FATBIN: &[u8] = include_bytes!("../images/axpy-nvrtc-13.5-sm_90.fatbin");

fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

pub(crate) fn module(sim: &Sim, image: &[u8]) -> Asked<CUmodule> {
    get!(sim, cuModuleLoadData(out, image.as_ptr().cast()))
}

pub(crate) fn ptx(sim: &Sim) -> CUmodule {
    module(sim, text(PTX).as_bytes_with_nul()).unwrap()
}

pub(crate) fn function(sim: &Sim, module: CUmodule, name: &str) -> Asked<CUfunction> {
    get!(sim, cuModuleGetFunction(out, module, text(name).as_ptr()))
}

pub(crate) fn library(sim: &Sim, image: &[u8]) -> Asked<CUlibrary> {
    let (null, none) = (core::ptr::null_mut(), core::ptr::null_mut());
    let image = image.as_ptr().cast();
    get!(sim, cuLibraryLoadData(out, image, null, none, 0, core::ptr::null_mut(), none, 0))
}

pub(crate) fn kernel(sim: &Sim, library: CUlibrary, name: &str) -> Asked<CUkernel> {
    get!(sim, cuLibraryGetKernel(out, library, text(name).as_ptr()))
}

fn ptx_library(sim: &Sim) -> CUlibrary {
    library(sim, text(PTX).as_bytes_with_nul()).unwrap()
}

fn kinds(sim: &Sim) -> Vec<ViolationKind> {
    sim.take_violations().into_iter().map(|violation| violation.kind).collect()
}

#[test]
fn a_module_s_functions_are_found_by_name() {
    let (sim, _) = sim_with_context();
    let module = ptx(&sim);
    let axpy = function(&sim, module, "axpy").unwrap();
    assert_eq!(function(&sim, module, "axpy"), Ok(axpy));
    assert_ne!(function(&sim, module, "nothing"), Ok(axpy));
    assert_eq!(function(&sim, module, "other"), Err(CUresult::NOT_FOUND));
    assert_eq!(get!(sim, cuFuncGetModule(out, axpy)), Ok(module));
    let mut name = core::ptr::null();
    call!(sim, cuFuncGetName(&raw mut name, axpy)).unwrap();
    // SAFETY: the driver's name of a live function.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"axpy");
    assert_eq!(get!(sim, cuModuleGetFunctionCount(out, module)), Ok(2));
    let mut list = [CUfunction::NULL; 3];
    call!(sim, cuModuleEnumerateFunctions(list.as_mut_ptr(), 3, module)).unwrap();
    assert_eq!((list[0], list[2]), (axpy, CUfunction::NULL));
    call!(sim, cuModuleUnload(module)).unwrap();
    assert_eq!(sim.live(ObjectKind::Module), 0);
    assert!(sim.violations().is_empty());
}

#[test]
fn loading_a_module_needs_a_context_and_asking_it_does_not() {
    let sim = sim();
    let image = text(PTX);
    let image = image.as_bytes_with_nul();
    assert_eq!(module(&sim, image), Err(CUresult::INVALID_CONTEXT));
    let ctx: CUcontext = get!(sim, cuDevicePrimaryCtxRetain(out, 0)).unwrap();
    call!(sim, cuCtxSetCurrent(ctx)).unwrap();
    let module = module(&sim, image).unwrap();
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    let function = function(&sim, module, "axpy").unwrap();
    call!(sim, cuFuncLoad(function)).unwrap();
    call!(sim, cuModuleUnload(module)).unwrap();
}

#[test]
fn bad_images_are_told_apart_as_they_were_measured() {
    let (sim, _) = sim_with_context();
    for (image, status) in [
        ("garbage", CUresult::INVALID_IMAGE),
        (".version 99.0\n.target sm_80", CUresult::UNSUPPORTED_PTX_VERSION),
        (".version 8.8\n.target sm_120", CUresult::INVALID_PTX),
        (".version 8.0\n.target sm_80\nthis is no PTX", CUresult::INVALID_PTX),
    ] {
        let image = text(image);
        let image = image.as_bytes_with_nul();
        assert_eq!(module(&sim, image), Err(status));
        // A library is loaded without a look at its image.
        let library = library(&sim, image).unwrap();
        assert_eq!(kernel(&sim, library, "nop"), Err(status));
        let count: Asked<c_uint> = get!(sim, cuLibraryGetKernelCount(out, library));
        assert_eq!(count, Err(status));
        let module: Asked<CUmodule> = get!(sim, cuLibraryGetModule(out, library));
        assert_eq!(module, Err(status));
        call!(sim, cuLibraryUnload(library)).unwrap();
    }
    let empty = text(".version 8.0\n.target sm_80\n.address_size 64\n");
    let empty = module(&sim, empty.as_bytes_with_nul()).unwrap();
    assert_eq!(function(&sim, empty, "nop"), Err(CUresult::NOT_FOUND));
    let null: Asked<CUmodule> = get!(sim, cuModuleLoadData(out, core::ptr::null()));
    assert_eq!(null, Err(CUresult::INVALID_VALUE));
}

#[test]
fn compiled_code_and_fat_binaries_load_on_a_device_that_they_are_for() {
    let (sim, _) = sim_with_context();
    let module = module(&sim, CUBIN).unwrap();
    function(&sim, module, "axpy").unwrap();
    let fat: CUmodule = get!(sim, cuModuleLoadFatBinary(out, FATBIN.as_ptr().cast())).unwrap();
    function(&sim, fat, "nothing").unwrap();
    let mut options = SimOptions::default();
    options.devices[0].compute_capability = (8, 0);
    let old = Sim::with_options(options);
    call!(old, cuInit(0)).unwrap();
    let unfit = library(&old, CUBIN).unwrap();
    assert_eq!(kernel(&old, unfit, "axpy"), Err(CUresult::NO_BINARY_FOR_GPU));
    let fat: Asked<CUmodule> = get!(sim, cuModuleLoadFatBinary(out, core::ptr::null()));
    assert_eq!(fat, Err(CUresult::INVALID_VALUE));
}

#[test]
fn images_are_read_from_files_too() {
    let (sim, _) = sim_with_context();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/images/axpy-nvrtc-13.5-sm_90.cubin");
    let (path, missing) = (text(path), c"/no/such/file");
    let module: CUmodule = get!(sim, cuModuleLoad(out, path.as_ptr())).unwrap();
    function(&sim, module, "axpy").unwrap();
    let nothing: Asked<CUmodule> = get!(sim, cuModuleLoad(out, missing.as_ptr()));
    assert_eq!(nothing, Err(CUresult::FILE_NOT_FOUND));
    let load = |path: &CStr| -> Asked<CUlibrary> {
        let (null, none) = (core::ptr::null_mut(), core::ptr::null_mut());
        let path = path.as_ptr();
        get!(sim, cuLibraryLoadFromFile(out, path, null, none, 0, core::ptr::null_mut(), none, 0))
    };
    kernel(&sim, load(&path).unwrap(), "axpy").unwrap();
    assert_eq!(load(missing), Err(CUresult::FILE_NOT_FOUND));
}

#[test]
fn the_compiler_s_logs_say_what_failed() {
    let (sim, _) = sim_with_context();
    let mut log = [1_u8; 64];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let room = core::ptr::without_provenance_mut(log.len());
    let mut values = [log.as_mut_ptr().cast(), room];
    let bad = c".version 8.0\n.target sm_80\nthis is no PTX";
    let loaded: Asked<CUmodule> = get!(
        sim,
        cuModuleLoadDataEx(out, bad.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
    );
    assert_eq!(loaded, Err(CUresult::INVALID_PTX));
    let log = CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap();
    assert_eq!((log, values[1].addr()), ("compiling the PTX failed", log.len()));
    let null = core::ptr::null_mut();
    let missing: Asked<CUmodule> =
        get!(sim, cuModuleLoadDataEx(out, bad.as_ptr().cast(), 2, null, null.cast()));
    assert_eq!(missing, Err(CUresult::INVALID_VALUE));
}

#[test]
fn unloading_waits_for_the_module_s_context_and_ends_its_functions() {
    let (sim, _) = sim_with_context();
    let module = ptx(&sim);
    let axpy = function(&sim, module, "axpy").unwrap();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    let memory: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 4)).unwrap();
    call!(sim, cuMemsetD8Async(memory, 0, 4, stream)).unwrap();
    call!(sim, cuModuleUnload(module)).unwrap();
    assert_eq!(sim.pending(), 0);
    assert_eq!(get!(sim, cuFuncGetModule(out, axpy)), Err::<CUmodule, _>(CUresult::INVALID_HANDLE));
    assert_eq!(call!(sim, cuModuleUnload(module)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&sim), [ViolationKind::UseAfterDestroy, ViolationKind::DoubleDestroy]);
    assert_eq!(call!(sim, cuModuleUnload(CUmodule::NULL)), Err(CUresult::INVALID_HANDLE));
    assert!(sim.violations().is_empty());
}

#[test]
fn a_module_ends_with_its_context() {
    let (sim, _) = sim_with_context();
    let ctx: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    let module = ptx(&sim);
    call!(sim, cuCtxDestroy_v2(ctx)).unwrap();
    assert_eq!(sim.gone_with_context().len(), 1);
    assert_eq!(call!(sim, cuModuleUnload(module)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&sim), [ViolationKind::UseAfterContext]);
}

fn global(sim: &Sim, module: CUmodule, name: &str) -> Asked<(CUdeviceptr, usize)> {
    let mut bytes = 0;
    let name = text(name);
    let address: CUdeviceptr =
        get!(sim, cuModuleGetGlobal_v2(out, &raw mut bytes, module, name.as_ptr()))?;
    Ok((address, bytes))
}

#[test]
fn variables_lie_in_device_memory_with_what_they_start_with() {
    let (sim, _) = sim_with_context();
    let (first, second) = (ptx(&sim), ptx(&sim));
    let (address, bytes) = global(&sim, first, "counter").unwrap();
    assert_eq!(bytes, 4);
    let mut value = 0_u32;
    call!(sim, cuMemcpyDtoH_v2((&raw mut value).cast(), address, 4)).unwrap();
    assert_eq!(value, 7);
    assert_ne!(global(&sim, second, "counter").unwrap().0, address);
    assert_eq!(global(&sim, first, "nothing"), Err(CUresult::NOT_FOUND));
    assert_eq!(global(&sim, first, "pointer"), Err(CUresult::MISSING));
    let neither = call!(
        sim,
        cuModuleGetGlobal_v2(
            core::ptr::null_mut(),
            core::ptr::null_mut(),
            first,
            c"counter".as_ptr()
        )
    );
    assert_eq!(neither, Err(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuMemFree_v2(address)), Err(CUresult::INVALID_VALUE));
    call!(sim, cuModuleUnload(first)).unwrap();
    let gone = call!(sim, cuMemcpyDtoH_v2((&raw mut value).cast(), address, 4));
    assert_eq!(gone, Err(CUresult::INVALID_VALUE));
}

#[test]
fn a_library_needs_no_context_and_its_kernels_are_found_by_name() {
    let sim = sim();
    let library = ptx_library(&sim);
    let axpy = kernel(&sim, library, "axpy").unwrap();
    assert_eq!(kernel(&sim, library, "other"), Err(CUresult::NOT_FOUND));
    assert_eq!(get!(sim, cuLibraryGetKernelCount(out, library)), Ok(2));
    let mut list = [CUkernel::NULL; 2];
    call!(sim, cuLibraryEnumerateKernels(list.as_mut_ptr(), 2, library)).unwrap();
    assert_eq!(list[0], axpy);
    assert_eq!(get!(sim, cuKernelGetLibrary(out, axpy)), Ok(library));
    let mut name = core::ptr::null();
    call!(sim, cuKernelGetName(&raw mut name, axpy)).unwrap();
    // SAFETY: the driver's name of a live kernel.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"axpy");
    let null = core::ptr::null_mut();
    assert_eq!(call!(sim, cuKernelGetName(null, axpy)), Err(CUresult::INVALID_VALUE));
    call!(sim, cuLibraryUnload(library)).unwrap();
    assert_eq!(sim.live(ObjectKind::Library), 0);
    assert!(sim.violations().is_empty());
}

#[test]
fn a_library_is_loaded_into_each_context_where_it_is_needed() {
    let (sim, primary) = sim_with_context();
    let library = ptx_library(&sim);
    let axpy = kernel(&sim, library, "axpy").unwrap();
    let here: CUfunction = get!(sim, cuKernelGetFunction(out, axpy)).unwrap();
    let module: CUmodule = get!(sim, cuLibraryGetModule(out, library)).unwrap();
    assert_eq!(get!(sim, cuFuncGetModule(out, here)), Ok(module));
    assert_eq!(function(&sim, module, "axpy"), Ok(here));
    let other: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    let there: CUfunction = get!(sim, cuKernelGetFunction(out, axpy)).unwrap();
    assert_ne!(here, there);
    let (mut bytes, name) = (0, c"counter".as_ptr());
    let at: CUdeviceptr =
        get!(sim, cuLibraryGetGlobal(out, &raw mut bytes, library, name)).unwrap();
    assert!(at != global(&sim, module, "counter").unwrap().0 && bytes == 4);
    assert_eq!(call!(sim, cuModuleUnload(module)), Err(CUresult::NOT_PERMITTED));
    assert_eq!(sim.live(ObjectKind::Module), 0);
    call!(sim, cuCtxDestroy_v2(other)).unwrap();
    assert_eq!(sim.gone_with_context(), []);
    call!(sim, cuLibraryUnload(library)).unwrap();
    assert!(sim.violations().is_empty());
    assert_ne!(primary, other);
}

#[test]
fn what_needs_a_context_of_a_library_says_so() {
    let sim = sim();
    let library = ptx_library(&sim);
    let axpy = kernel(&sim, library, "axpy").unwrap();
    let function: Asked<CUfunction> = get!(sim, cuKernelGetFunction(out, axpy));
    assert_eq!(function, Err(CUresult::INVALID_CONTEXT));
    let module: Asked<CUmodule> = get!(sim, cuLibraryGetModule(out, library));
    assert_eq!(module, Err(CUresult::INVALID_CONTEXT));
    let (mut bytes, name) = (0, c"counter".as_ptr());
    let at: Asked<CUdeviceptr> = get!(sim, cuLibraryGetGlobal(out, &raw mut bytes, library, name));
    assert_eq!(at, Err(CUresult::INVALID_CONTEXT));
}

#[test]
fn an_unloaded_library_and_its_kernels_are_gone() {
    let (sim, _) = sim_with_context();
    let library = ptx_library(&sim);
    let axpy = kernel(&sim, library, "axpy").unwrap();
    let function: CUfunction = get!(sim, cuKernelGetFunction(out, axpy)).unwrap();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    let memory: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, 4)).unwrap();
    call!(sim, cuMemsetD8Async(memory, 0, 4, stream)).unwrap();
    call!(sim, cuLibraryUnload(library)).unwrap();
    assert_eq!(sim.pending(), 0);
    assert_eq!(call!(sim, cuLibraryUnload(library)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kernel(&sim, library, "axpy"), Err(CUresult::INVALID_HANDLE));
    let owner: Asked<CUlibrary> = get!(sim, cuKernelGetLibrary(out, axpy));
    assert_eq!(owner, Err(CUresult::INVALID_HANDLE));
    let module: Asked<CUmodule> = get!(sim, cuFuncGetModule(out, function));
    assert_eq!(module, Err(CUresult::INVALID_HANDLE));
    let used = ViolationKind::UseAfterDestroy;
    assert_eq!(kinds(&sim), [ViolationKind::DoubleDestroy, used, used, used]);
    let null = call!(sim, cuLibraryUnload(CUlibrary::NULL));
    assert_eq!(null, Err(CUresult::INVALID_HANDLE));
}

#[test]
fn parameters_are_described_one_by_one() {
    let (sim, _) = sim_with_context();
    let library = ptx_library(&sim);
    let axpy = kernel(&sim, library, "axpy").unwrap();
    let function: CUfunction = get!(sim, cuKernelGetFunction(out, axpy)).unwrap();
    let (mut offset, mut size) = (0, 0);
    let (to, bytes) = (&raw mut offset, &raw mut size);
    for (index, expected) in [(0, (0, 4)), (1, (8, 8)), (2, (16, 8)), (3, (24, 4))] {
        call!(sim, cuKernelGetParamInfo(axpy, index, to, bytes)).unwrap();
        // SAFETY: a local that the call has written.
        assert_eq!(unsafe { to.read() }, expected.0);
        // SAFETY: as above.
        assert_eq!(unsafe { bytes.read() }, expected.1);
        call!(sim, cuFuncGetParamInfo(function, index, to, core::ptr::null_mut())).unwrap();
    }
    let beyond = call!(sim, cuKernelGetParamInfo(axpy, 4, to, bytes));
    assert_eq!(beyond, Err(CUresult::INVALID_VALUE));
    let beyond = call!(sim, cuFuncGetParamInfo(function, 4, to, bytes));
    assert_eq!(beyond, Err(CUresult::INVALID_VALUE));
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    let none = call!(sim, cuKernelGetParamInfo(axpy, 0, to, bytes));
    assert_eq!(none, Err(CUresult::INVALID_CONTEXT));
    call!(sim, cuFuncGetParamInfo(function, 0, to, bytes)).unwrap();
}

#[test]
fn the_number_of_parameters_is_asked_of_a_driver_that_has_the_call() {
    let count = |version| -> Asked<(usize, usize)> {
        let mut options = SimOptions::default();
        options.driver_version = Version(version);
        let sim = Sim::with_options(options);
        call!(sim, cuInit(0)).unwrap();
        let ctx: CUcontext = get!(sim, cuDevicePrimaryCtxRetain(out, 0)).unwrap();
        call!(sim, cuCtxSetCurrent(ctx)).unwrap();
        let axpy = kernel(&sim, ptx_library(&sim), "axpy").unwrap();
        let function: CUfunction = get!(sim, cuKernelGetFunction(out, axpy)).unwrap();
        Ok((
            get!(sim, cuKernelGetParamCount(axpy, out))?,
            get!(sim, cuFuncGetParamCount(function, out))?,
        ))
    };
    assert_eq!(count(13_020), Ok((4, 4)));
    assert_eq!(count(13_000), Err(CUresult::MISSING));
}

#[test]
fn attributes_come_from_the_code_and_some_can_be_set() {
    let (sim, _) = sim_with_context();
    let nothing = kernel(&sim, ptx_library(&sim), "nothing").unwrap();
    let function: CUfunction = get!(sim, cuKernelGetFunction(out, nothing)).unwrap();
    let of_kernel =
        |attribute| -> Asked<c_int> { get!(sim, cuKernelGetAttribute(out, attribute, nothing, 0)) };
    let of_function =
        |attribute| -> Asked<c_int> { get!(sim, cuFuncGetAttribute(out, attribute, function)) };
    for (attribute, expected) in [
        (Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, Ok(64)),
        (Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, Ok(100)),
        (Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION, Ok(80)),
        (Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION, Ok(90)),
        (Attribute(99), Err(CUresult::INVALID_VALUE)),
    ] {
        assert_eq!(of_kernel(attribute), expected);
        assert_eq!(of_function(attribute), expected);
    }
    let shared = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    call!(sim, cuKernelSetAttribute(shared, 100_000, nothing, 0)).unwrap();
    assert_eq!((of_kernel(shared), of_function(shared)), (Ok(100_000), Ok(100_000)));
    call!(sim, cuFuncSetAttribute(function, shared, 50_000)).unwrap();
    assert_eq!((of_kernel(shared), of_function(shared)), (Ok(100_000), Ok(50_000)));
    let fixed = Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
    let refused = Err(CUresult::INVALID_VALUE);
    assert_eq!(call!(sim, cuFuncSetAttribute(function, fixed, 1)), refused);
    assert_eq!(call!(sim, cuKernelSetAttribute(fixed, 1, nothing, 0)), refused);
    let device: Asked<c_int> = get!(sim, cuKernelGetAttribute(out, shared, nothing, 9));
    assert_eq!(device, Err(CUresult::INVALID_DEVICE));
}

#[test]
fn preferences_are_taken_and_nonsense_is_refused() {
    let (sim, _) = sim_with_context();
    let nothing = kernel(&sim, ptx_library(&sim), "nothing").unwrap();
    let function: CUfunction = get!(sim, cuKernelGetFunction(out, nothing)).unwrap();
    call!(sim, cuFuncSetCacheConfig(function, CUfunc_cache(2))).unwrap();
    call!(sim, cuKernelSetCacheConfig(nothing, CUfunc_cache(2), 0)).unwrap();
    let refused = Err(CUresult::INVALID_VALUE);
    assert_eq!(call!(sim, cuFuncSetCacheConfig(function, CUfunc_cache(9))), refused);
    assert_eq!(call!(sim, cuKernelSetCacheConfig(nothing, CUfunc_cache(9), 0)), refused);
}

#[test]
fn a_function_is_loaded_when_it_is_asked_for_by_name() {
    let (sim, _) = sim_with_context();
    let module = ptx(&sim);
    let mut list = [CUfunction::NULL; 2];
    call!(sim, cuModuleEnumerateFunctions(list.as_mut_ptr(), 2, module)).unwrap();
    let loaded = |function| {
        let mut state = CUfunctionLoadingState(77);
        call!(sim, cuFuncIsLoaded(&raw mut state, function)).map(|()| state.0)
    };
    assert_eq!(loaded(list[0]), Ok(0));
    function(&sim, module, "axpy").unwrap();
    assert_eq!((loaded(list[0]), loaded(list[1])), (Ok(1), Ok(0)));
    call!(sim, cuFuncLoad(list[1])).unwrap();
    assert_eq!(loaded(list[1]), Ok(1));
    assert_eq!(loaded(CUfunction::NULL), Err(CUresult::INVALID_HANDLE));
    assert_eq!(call!(sim, cuFuncLoad(CUfunction::NULL)), Err(CUresult::INVALID_HANDLE));
    let mut mode = CUmoduleLoadingMode(0);
    call!(sim, cuModuleGetLoadingMode(&raw mut mode)).unwrap();
    assert_eq!(mode, CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING);
    let _reported = sim.take_violations();
    let null = core::ptr::null_mut();
    assert_eq!(call!(sim, cuModuleGetLoadingMode(null)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim), [ViolationKind::Crash]);
}
