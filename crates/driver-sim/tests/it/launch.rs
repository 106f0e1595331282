//! Launches, and what kernels do to memory.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use cuhold_driver_sim::{
    KernelFault, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::{
    ask::{Asked, call, get, sim_with_context},
    code::{PTX, function, kernel, library, module, ptx},
    page_locked::host_alloc,
};

type Params<'a> = &'a mut [*mut c_void];

fn launch(
    sim: &Sim,
    function: CUfunction,
    (grid, block): (c_uint, c_uint),
    stream: CUstream,
    params: Params<'_>,
) -> Asked<()> {
    launch_shared(sim, function, (grid, block, 0), stream, params)
}

fn launch_shared(
    sim: &Sim,
    function: CUfunction,
    (grid, block, shared): (c_uint, c_uint, c_uint),
    stream: CUstream,
    params: Params<'_>,
) -> Asked<()> {
    let params = if params.is_empty() { core::ptr::null_mut() } else { params.as_mut_ptr() };
    let none = core::ptr::null_mut();
    call!(sim, cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, params, none))
}

/// `y[i] += a * x[i]`.
fn register_axpy(sim: &Sim) {
    sim.register_kernel("axpy", |launch| {
        let (a, n) = (launch.param::<f32>(0)?, launch.param::<u32>(3)? as usize);
        let x = launch.slice::<f32>(launch.param(1)?, n)?;
        let mut y = launch.slice_mut::<f32>(launch.param(2)?, n)?;
        for i in launch.threads().map(|thread| thread.global_x()) {
            if let (Some(y), Some(x)) = (y.get_mut(i), x.get(i)) {
                *y += a * x;
            }
        }
        Ok(())
    });
}

fn stream(sim: &Sim) -> CUstream {
    get!(sim, cuStreamCreate(out, 1)).unwrap()
}

fn floats(sim: &Sim, values: &[f32]) -> CUdeviceptr {
    let bytes = size_of_val(values);
    let address: CUdeviceptr = get!(sim, cuMemAlloc_v2(out, bytes)).unwrap();
    call!(sim, cuMemcpyHtoD_v2(address, values.as_ptr().cast(), bytes)).unwrap();
    address
}

fn read(sim: &Sim, address: CUdeviceptr, len: usize) -> Vec<f32> {
    let mut values = vec![0_f32; len];
    let bytes = size_of_val(values.as_slice());
    call!(sim, cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), address, bytes)).unwrap();
    values
}

fn kinds(sim: &Sim) -> Vec<ViolationKind> {
    sim.take_violations().into_iter().map(|violation| violation.kind).collect()
}

/// A driver with a context, and the function of a kernel that does this.
fn with_kernel(
    kernel: impl Fn(&mut cuhold_driver_sim::KernelLaunch<'_>) -> Result<(), KernelFault>
    + Send
    + Sync
    + 'static,
) -> (Sim, CUfunction, CUstream) {
    let (sim, _) = sim_with_context();
    sim.register_kernel("nothing", kernel);
    let function = function(&sim, ptx(&sim), "nothing").unwrap();
    let stream = stream(&sim);
    (sim, function, stream)
}

#[test]
fn a_kernel_runs_the_grid_when_its_stream_is_waited_for() {
    let (sim, _) = sim_with_context();
    register_axpy(&sim);
    let axpy = function(&sim, ptx(&sim), "axpy").unwrap();
    let stream = stream(&sim);
    let (mut x, mut y) = (floats(&sim, &[1.0, 2.0, 3.0]), floats(&sim, &[10.0, 20.0, 30.0]));
    let (mut a, mut n) = (2_f32, 3_u32);
    let mut params =
        [(&raw mut a).cast(), (&raw mut x).cast(), (&raw mut y).cast(), (&raw mut n).cast()];
    launch(&sim, axpy, (2, 2), stream, &mut params).unwrap();
    // The values were copied by the call.
    (a, n) = (0.0, 0);
    assert_eq!((sim.pending(), a, n), (1, 0.0, 0));
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(read(&sim, y, 3), [12.0, 24.0, 36.0]);
    assert!(sim.violations().is_empty());
}

#[test]
fn a_library_s_kernel_is_launched_in_its_stream_s_context_with_none_current() {
    let (sim, _) = sim_with_context();
    let ran = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ran);
    sim.register_kernel("nothing", move |launch| {
        assert_eq!((launch.grid().count(), launch.block().x, launch.name()), (3, 4, "nothing"));
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let image = std::ffi::CString::new(PTX).unwrap();
    let library = library(&sim, image.as_bytes_with_nul()).unwrap();
    let kernel = kernel(&sim, library, "nothing").unwrap();
    let stream = stream(&sim);
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    let as_function = CUfunction::from_addr(kernel.addr());
    launch(&sim, as_function, (3, 4), stream, &mut []).unwrap();
    let on_default = launch(&sim, as_function, (3, 4), CUstream::NULL, &mut []);
    assert_eq!(on_default, Err(CUresult::INVALID_CONTEXT));
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[test]
fn what_was_measured_for_bad_launches_is_answered() {
    let (sim, nothing, stream) = with_kernel(|_| Ok(()));
    register_axpy(&sim);
    let axpy = function(&sim, ptx(&sim), "axpy").unwrap();
    let bad = Err(CUresult::INVALID_VALUE);
    assert_eq!(launch(&sim, nothing, (0, 1), stream, &mut []), bad);
    assert_eq!(launch(&sim, nothing, (1, 0), stream, &mut []), bad);
    assert_eq!(launch(&sim, axpy, (1, 2048), stream, &mut []), bad);
    assert_eq!(launch(&sim, nothing, (1, 65), stream, &mut []), bad);
    assert_eq!(launch_shared(&sim, nothing, (1, 1, 1 << 20), stream, &mut []), bad);
    assert_eq!(launch(&sim, axpy, (1, 1), stream, &mut []), bad);
    let null = launch(&sim, CUfunction::NULL, (1, 1), stream, &mut []);
    assert_eq!(null, Err(CUresult::INVALID_HANDLE));
    let (none, mut list) = (core::ptr::null_mut(), [CU_LAUNCH_PARAM_END]);
    let both = call!(
        sim,
        cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, list.as_mut_ptr(), list.as_mut_ptr())
    );
    assert_eq!(both, bad);
    let too_high =
        call!(sim, cuLaunchKernel(nothing, 1, 65_536, 1, 1, 1, 1, 0, stream, none, none));
    assert_eq!(too_high, bad);
    assert_eq!(sim.pending(), 0);
    assert!(sim.violations().is_empty());
}

#[test]
fn dynamic_shared_memory_beyond_the_usual_must_be_allowed_first() {
    let (sim, nothing, stream) = with_kernel(|launch| {
        assert_eq!(launch.shared_bytes(), 100_000);
        Ok(())
    });
    let big = (1, 1, 100_000);
    assert_eq!(launch_shared(&sim, nothing, big, stream, &mut []), Err(CUresult::INVALID_VALUE));
    let shared = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    call!(sim, cuFuncSetAttribute(nothing, shared, 100_000)).unwrap();
    launch_shared(&sim, nothing, big, stream, &mut []).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
}

#[test]
fn parameters_can_come_as_a_block() {
    let (sim, _) = sim_with_context();
    register_axpy(&sim);
    let axpy = function(&sim, ptx(&sim), "axpy").unwrap();
    let (x, y) = (floats(&sim, &[1.0]), floats(&sim, &[10.0]));
    let mut block = [0_u8; 28];
    block[..4].copy_from_slice(&3_f32.to_le_bytes());
    block[8..16].copy_from_slice(&x.to_le_bytes());
    block[16..24].copy_from_slice(&y.to_le_bytes());
    block[24..].copy_from_slice(&1_u32.to_le_bytes());
    let mut go = |mut size: usize| {
        let mut extra = [
            CU_LAUNCH_PARAM_BUFFER_POINTER,
            block.as_mut_ptr().cast(),
            CU_LAUNCH_PARAM_BUFFER_SIZE,
            (&raw mut size).cast(),
            CU_LAUNCH_PARAM_END,
        ];
        let (none, extra) = (core::ptr::null_mut(), extra.as_mut_ptr());
        call!(sim, cuLaunchKernel(axpy, 1, 1, 1, 1, 1, 1, 0, CUstream::NULL, none, extra))
    };
    assert_eq!(go(27), Err(CUresult::INVALID_VALUE));
    go(28).unwrap();
    assert_eq!(read(&sim, y, 1), [13.0]);
}

#[test]
fn a_kernel_that_nobody_registered_is_missing() {
    let (sim, _) = sim_with_context();
    let nothing = function(&sim, ptx(&sim), "nothing").unwrap();
    assert_eq!(launch(&sim, nothing, (1, 1), CUstream::NULL, &mut []), Err(CUresult::MISSING));
    assert_eq!(sim.pending(), 0);
}

#[test]
fn a_function_runs_on_streams_of_its_own_context_only() {
    let (sim, nothing, _) = with_kernel(|_| Ok(()));
    let _: CUcontext = get!(sim, cuCtxCreate_v4(out, core::ptr::null_mut(), 0, 0)).unwrap();
    let foreign = stream(&sim);
    let refused = launch(&sim, nothing, (1, 1), foreign, &mut []);
    assert_eq!(refused, Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&sim), [ViolationKind::WrongContext]);
}

#[test]
fn an_access_out_of_bounds_ends_all_work_even_if_the_kernel_goes_on() {
    let (sim, _) = sim_with_context();
    sim.register_kernel("axpy", |launch| {
        let x = launch.param::<u64>(1)?;
        assert_eq!(launch.read::<f32>(x + 4), Err(KernelFault::ILLEGAL_ADDRESS));
        Ok(())
    });
    let axpy = function(&sim, ptx(&sim), "axpy").unwrap();
    let stream = stream(&sim);
    let mut word = floats(&sim, &[1.0]);
    let mut params = [(&raw mut word).cast(); 4];
    launch(&sim, axpy, (1, 1), stream, &mut params).unwrap();
    assert_eq!(call!(sim, cuStreamSynchronize(stream)), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(kinds(&sim), [ViolationKind::UnknownHandle]);
    assert_eq!(call!(sim, cuMemFree_v2(word)), Err(CUresult::ILLEGAL_ADDRESS));
}

/// What a kernel that reads an address answers, and its violations.
fn reading(address: u64, prepare: impl FnOnce(&Sim) -> u64) -> (Asked<()>, Vec<ViolationKind>) {
    let (sim, _) = sim_with_context();
    let address = address + prepare(&sim);
    sim.register_kernel("nothing", move |launch| launch.read::<u32>(address).map(|_| ()));
    let nothing = function(&sim, ptx(&sim), "nothing").unwrap();
    let stream = stream(&sim);
    launch(&sim, nothing, (1, 1), stream, &mut []).unwrap();
    let answer = call!(sim, cuStreamSynchronize(stream));
    (answer, kinds(&sim))
}

#[test]
fn each_bad_access_is_the_fault_and_the_violation_that_it_is() {
    let alloc = |sim: &Sim| -> u64 { get!(sim, cuMemAlloc_v2(out, 6)).unwrap() };
    let illegal = Err(CUresult::ILLEGAL_ADDRESS);
    assert_eq!(reading(0, alloc), (Ok(()), vec![]));
    assert_eq!(reading(4, alloc), (illegal, vec![ViolationKind::OutOfBounds]));
    let misaligned = (Err(CUresult::MISALIGNED_ADDRESS), vec![ViolationKind::Misaligned]);
    assert_eq!(reading(1, alloc), misaligned);
    let freed = |sim: &Sim| {
        let address = alloc(sim);
        call!(sim, cuMemFree_v2(address)).unwrap();
        address
    };
    assert_eq!(reading(0, freed), (illegal, vec![ViolationKind::UseAfterDestroy]));
    assert_eq!(reading(0, |_| 0), (illegal, vec![ViolationKind::UnknownHandle]));
    let pinned = |sim: &Sim| host_alloc(sim, 64, 0).unwrap().addr() as u64;
    assert_eq!(reading(0, pinned), (Ok(()), vec![]));
}

#[test]
fn a_trap_and_a_failed_assertion_end_all_work() {
    for fault in [KernelFault::TRAP, KernelFault::ASSERT] {
        let (sim, nothing, stream) = with_kernel(move |_| Err(fault));
        launch(&sim, nothing, (1, 1), stream, &mut []).unwrap();
        assert_eq!(call!(sim, cuStreamSynchronize(stream)), Err(fault.status()));
        assert_eq!(call!(sim, cuCtxSynchronize()), Err(fault.status()));
        assert!(sim.violations().is_empty());
    }
}

#[test]
fn a_panic_in_a_kernel_is_caught_and_fails_the_launch() {
    let (sim, nothing, stream) = with_kernel(|_| std::panic::resume_unwind(Box::new(5)));
    launch(&sim, nothing, (1, 1), stream, &mut []).unwrap();
    assert_eq!(call!(sim, cuStreamSynchronize(stream)), Err(CUresult::LAUNCH_FAILED));
    assert_eq!(kinds(&sim), [ViolationKind::Panicked]);
}

#[test]
fn a_kernel_that_asks_for_a_parameter_that_it_does_not_have_is_a_violation() {
    let (sim, nothing, stream) = with_kernel(|launch| launch.param::<u32>(0).map(|_| ()));
    launch(&sim, nothing, (1, 1), stream, &mut []).unwrap();
    assert_eq!(call!(sim, cuStreamSynchronize(stream)), Err(CUresult::LAUNCH_FAILED));
    assert_eq!(kinds(&sim), [ViolationKind::WrongParameter]);
}

#[test]
fn a_kernel_may_not_call_the_driver() {
    let (sim, _) = sim_with_context();
    let inner = sim.clone();
    sim.register_kernel("nothing", move |_| {
        let asked: Asked<c_int> = get!(inner, cuDeviceGetCount(out));
        assert_eq!(asked, Err(CUresult::NOT_PERMITTED));
        Ok(())
    });
    let nothing = function(&sim, ptx(&sim), "nothing").unwrap();
    launch(&sim, nothing, (1, 1), CUstream::NULL, &mut []).unwrap();
    call!(sim, cuCtxSynchronize()).unwrap();
    assert_eq!(kinds(&sim), [ViolationKind::CallInsideCallback]);
}

#[test]
fn a_kernel_reaches_its_module_s_variables() {
    let (sim, nothing, stream) = with_kernel(|launch| {
        let counter = launch.variable("counter").ok_or(KernelFault::TRAP)?;
        assert_eq!(launch.variable("other"), None);
        launch.write(counter, launch.read::<u32>(counter)? + 1)
    });
    for _ in 0..2 {
        launch(&sim, nothing, (1, 1), stream, &mut []).unwrap();
    }
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    let module: CUmodule = get!(sim, cuFuncGetModule(out, nothing)).unwrap();
    let (mut bytes, mut value) = (0, 0_u32);
    let at: CUdeviceptr =
        get!(sim, cuModuleGetGlobal_v2(out, &raw mut bytes, module, c"counter".as_ptr())).unwrap();
    call!(sim, cuMemcpyDtoH_v2((&raw mut value).cast(), at, bytes)).unwrap();
    assert_eq!(value, 9);
}

#[test]
fn another_device_s_memory_needs_access() {
    let sim = Sim::with_options(SimOptions::with_devices(2));
    call!(sim, cuInit(0)).unwrap();
    let [first, second] =
        [0, 1].map(|d| -> CUcontext { get!(sim, cuDevicePrimaryCtxRetain(out, d)).unwrap() });
    call!(sim, cuCtxSetCurrent(first)).unwrap();
    let address = floats(&sim, &[1.0]);
    call!(sim, cuCtxSetCurrent(second)).unwrap();
    sim.register_kernel("nothing", move |launch| launch.write(address, 2_f32));
    let nothing = function(&sim, ptx(&sim), "nothing").unwrap();
    call!(sim, cuCtxEnablePeerAccess(first, 0)).unwrap();
    launch(&sim, nothing, (1, 1), CUstream::NULL, &mut []).unwrap();
    call!(sim, cuCtxSynchronize()).unwrap();
    call!(sim, cuCtxDisablePeerAccess(first)).unwrap();
    launch(&sim, nothing, (1, 1), CUstream::NULL, &mut []).unwrap();
    assert_eq!(call!(sim, cuCtxSynchronize()), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(kinds(&sim), [ViolationKind::NoAccess]);
}

#[test]
fn on_a_captured_stream_a_launch_is_a_node_and_does_not_run() {
    let (sim, nothing, stream) = with_kernel(|_| Err(KernelFault::TRAP));
    call!(sim, cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(0))).unwrap();
    launch(&sim, nothing, (1, 1), stream, &mut []).unwrap();
    let graph: CUgraph = get!(sim, cuStreamEndCapture(stream, out)).unwrap();
    let (mut node, mut count) = (CUgraphNode::NULL, 1);
    call!(sim, cuGraphGetNodes(graph, &raw mut node, &raw mut count)).unwrap();
    let mut kind = CUgraphNodeType(77);
    call!(sim, cuGraphNodeGetType(node, &raw mut kind)).unwrap();
    assert_eq!((count, kind), (1, CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL));
    call!(sim, cuCtxSynchronize()).unwrap();
}

fn config(grid: c_uint, stream: CUstream) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: grid,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        hStream: stream,
        ..CUlaunchConfig::default()
    }
}

fn launch_ex(sim: &Sim, config: &CUlaunchConfig, function: CUfunction) -> Asked<()> {
    let none = core::ptr::null_mut();
    call!(sim, cuLaunchKernelEx(&raw const *config, function, none, none))
}

#[test]
fn a_launch_can_carry_attributes() {
    let (sim, nothing, stream) = with_kernel(|_| Ok(()));
    let attribute = |id| CUlaunchAttribute { id, ..CUlaunchAttribute::default() };
    let with = |grid, attribute: CUlaunchAttribute| {
        let mut list = [attribute];
        let config =
            CUlaunchConfig { attrs: list.as_mut_ptr(), numAttrs: 1, ..config(grid, stream) };
        launch_ex(&sim, &config, nothing)
    };
    launch_ex(&sim, &config(1, stream), nothing).unwrap();
    with(1, attribute(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY)).unwrap();
    let mut cluster = attribute(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    let mut clustered = |grid, width| {
        cluster.value.clusterDim =
            CUlaunchAttributeValue_union__bindgen_ty_1 { x: width, y: 1, z: 1 };
        with(grid, cluster)
    };
    clustered(4, 2).unwrap();
    assert_eq!(clustered(3, 2), Err(CUresult::INVALID_VALUE));
    assert_eq!(clustered(16, 16), Err(CUresult::INVALID_CLUSTER_SIZE));
    let event = attribute(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);
    assert_eq!(with(1, event), Err(CUresult::MISSING));
    assert_eq!(with(1, attribute(CUlaunchAttributeID(99))), Err(CUresult::INVALID_VALUE));
    let none = core::ptr::null_mut();
    let null = call!(sim, cuLaunchKernelEx(core::ptr::null(), nothing, none, none));
    assert_eq!(null, Err(CUresult::INVALID_VALUE));
    call!(sim, cuStreamSynchronize(stream)).unwrap();
}

#[test]
fn a_cooperative_grid_must_fit_on_the_device_at_once() {
    let (sim, nothing, stream) = with_kernel(|_| Ok(()));
    let active: c_int =
        get!(sim, cuOccupancyMaxActiveBlocksPerMultiprocessor(out, nothing, 32, 0)).unwrap();
    let most = c_uint::try_from(active * 132).unwrap();
    let none = core::ptr::null_mut();
    let go = |grid| {
        call!(sim, cuLaunchCooperativeKernel(nothing, grid, 1, 1, 32, 1, 1, 0, stream, none))
    };
    go(most).unwrap();
    assert_eq!(go(most + 1), Err(CUresult::COOPERATIVE_LAUNCH_TOO_LARGE));
    let mut cooperative = CUlaunchAttribute {
        id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        ..CUlaunchAttribute::default()
    };
    cooperative.value.cooperative = 1;
    let config =
        CUlaunchConfig { attrs: &raw mut cooperative, numAttrs: 1, ..config(most + 1, stream) };
    let too_large = launch_ex(&sim, &config, nothing);
    assert_eq!(too_large, Err(CUresult::COOPERATIVE_LAUNCH_TOO_LARGE));
}

unsafe extern "C" fn shared_of_block(threads: c_int) -> usize {
    usize::try_from(threads).unwrap_or(0) * 1024
}

#[test]
fn occupancy_follows_from_the_block_and_its_shared_memory() {
    let (sim, _) = sim_with_context();
    let axpy = function(&sim, ptx(&sim), "axpy").unwrap();
    let active = |threads, shared| -> Asked<c_int> {
        get!(sim, cuOccupancyMaxActiveBlocksPerMultiprocessor(out, axpy, threads, shared))
    };
    assert_eq!((active(1024, 0), active(32, 0), active(32, 40_000)), (Ok(2), Ok(32), Ok(5)));
    assert_eq!(active(0, 0), Err(CUresult::INVALID_VALUE));
    let flags = |flags| -> Asked<c_int> {
        let threads = 1024;
        get!(
            sim,
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, axpy, threads, 0, flags)
        )
    };
    assert_eq!((flags(1), flags(2)), (Ok(2), Err(CUresult::INVALID_VALUE)));
    let mut block = 0;
    let best = |block: &mut c_int, function: CUoccupancyB2DSize, limit| -> Asked<c_int> {
        let block = &raw mut *block;
        get!(sim, cuOccupancyMaxPotentialBlockSize(out, block, axpy, function, 0, limit))
    };
    assert_eq!((best(&mut block, None, 0), block), (Ok(2 * 132), 1024));
    assert_eq!((best(&mut block, None, 100), block), (Ok(32 * 132), 64));
    assert_eq!(best(&mut block, Some(shared_of_block), 0), Ok(6 * 132));
    assert_eq!(block, 32);
    let with_flags: Asked<c_int> = get!(
        sim,
        cuOccupancyMaxPotentialBlockSizeWithFlags(out, &raw mut block, axpy, None, 0, 0, 2)
    );
    assert_eq!(with_flags, Err(CUresult::INVALID_VALUE));
    let available = |blocks| -> Asked<usize> {
        get!(sim, cuOccupancyAvailableDynamicSMemPerBlock(out, axpy, blocks, 128))
    };
    assert_eq!((available(1), available(16)), (Ok(49_152), Ok(233_472 / 16 - 1024)));
    assert_eq!(available(17), Err(CUresult::INVALID_VALUE));
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    assert_eq!(active(32, 0), Err(CUresult::INVALID_CONTEXT));
}

#[test]
fn a_compiled_kernel_is_launched_like_one_of_text() {
    let (sim, _) = sim_with_context();
    let ran = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ran);
    sim.register_kernel("axpy", move |launch| {
        count.store(launch.param::<u32>(4)?, Ordering::Relaxed);
        Ok(())
    });
    let image = include_bytes!("../images/axpy-nvrtc-13.5-sm_90.cubin");
    let axpy = function(&sim, module(&sim, image).unwrap(), "axpy").unwrap();
    let mut values = [[5_u64; 2]; 5];
    let mut params = values.each_mut().map(|value| value.as_mut_ptr().cast());
    launch(&sim, axpy, (1, 256), CUstream::NULL, &mut params).unwrap();
    assert_eq!(
        launch(&sim, axpy, (1, 257), CUstream::NULL, &mut params),
        Err(CUresult::INVALID_VALUE)
    );
    call!(sim, cuCtxSynchronize()).unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 5);
}
