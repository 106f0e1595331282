//! The attributes of a launch: what of them reaches the driver.

use super::ONE;
use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{DriverApi, Life, ffi::*};
use cuhold_handles::{Closed, Device, Driver, LaunchConfig};
use cuhold_testkit::{PTX, run};
use std::sync::{Arc, Mutex};

type Id = CUlaunchAttributeID;

/// A driver that reads each launch's configuration, and hands on to a simulated one.
struct Reads {
    sim: Sim,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A launch as the driver was told it.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    sizes: [u32; 7],
    attributes: Vec<String>,
}

fn read(config: &CUlaunchConfig) -> Seen {
    let words = (0..usize::try_from(config.numAttrs).unwrap()).map(|index| {
        // SAFETY: *pointers*: the list has as many attributes as it says.
        let place = unsafe { config.attrs.add(index) };
        // SAFETY: as above.
        let CUlaunchAttribute { id, value, .. } = unsafe { place.read() };
        match id {
            Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                // SAFETY: the attribute's number says which view of the union was written.
                let size = unsafe { value.clusterDim };
                format!("cluster {} {} {}", size.x, size.y, size.z)
            }
            Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
                // SAFETY: as above.
                format!("cooperative {}", unsafe { value.cooperative })
            }
            Id::CU_LAUNCH_ATTRIBUTE_PRIORITY => {
                // SAFETY: as above.
                format!("priority {}", unsafe { value.priority })
            }
            Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION => {
                // SAFETY: as above.
                format!("programmatic {}", unsafe { value.programmaticStreamSerializationAllowed })
            }
            other => format!("{other:?}"),
        }
    });
    let sizes = [
        config.gridDimX,
        config.gridDimY,
        config.gridDimZ,
        config.blockDimX,
        config.blockDimY,
        config.blockDimZ,
        config.sharedMemBytes,
    ];
    Seen { sizes, attributes: words.collect() }
}

macro_rules! reads {
    ($($form:ident($($argument:ident: $type:ty),*);)*) => {
        // SAFETY: *written*, *no unwinding*, *any thread*: each method is the simulated driver's; the one that reads
        // first unwinds only where a test's lock is poisoned, which nothing does.
        #[allow(non_snake_case, clippy::allow_attributes, reason = "C's names")]
        unsafe impl DriverApi for Reads {
            fn life(&self) -> Life {
                self.sim.life()
            }
            unsafe fn cuLaunchKernelEx(
                &self,
                config: *const CUlaunchConfig,
                f: CUfunction,
                params: *mut *mut c_void,
                extra: *mut *mut c_void,
            ) -> CUresult {
                // SAFETY: *pointers*: the caller's promise.
                let seen = read(unsafe { &*config });
                self.seen.lock().unwrap().push(seen);
                // SAFETY: the caller's promise, passed on.
                unsafe { self.sim.cuLaunchKernelEx(config, f, params, extra) }
            }
            $(unsafe fn $form(&self, $($argument: $type),*) -> CUresult {
                // SAFETY: the caller's promise, passed on.
                unsafe { self.sim.$form($($argument),*) }
            })*
        }
    };
}

reads! {
    cuInit(flags: c_uint);
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxGetCurrent(context: *mut CUcontext);
    cuCtxPushCurrent_v2(context: CUcontext);
    cuCtxPopCurrent_v2(context: *mut CUcontext);
    cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode);
    cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int);
    cuStreamSynchronize(stream: CUstream);
    cuStreamDestroy_v2(stream: CUstream);
    cuLibraryLoadData(
        library: *mut CUlibrary,
        code: *const c_void,
        jit_options: *mut CUjit_option,
        jit_values: *mut *mut c_void,
        jit_count: c_uint,
        options: *mut CUlibraryOption,
        values: *mut *mut c_void,
        count: c_uint
    );
    cuLibraryUnload(library: CUlibrary);
    cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char);
}

/// What the driver is told of a launch of this shape.
fn told(config: LaunchConfig) -> Seen {
    let (sim, seen) = (Sim::new(), Arc::<Mutex<Vec<Seen>>>::default());
    sim.register_kernel("nop", |_| Ok(()));
    let driver = Driver::from_api(Reads { sim: sim.clone(), seen: Arc::clone(&seen) });
    let device = Device::with_driver(&driver, 0).unwrap();
    let library = device.load(PTX).unwrap();
    let (kernel, stream) = (library.kernel("nop").unwrap(), device.new_stream().unwrap());
    // This driver doesn't tell parameters, as those before CUDA 12.4.
    assert_eq!(kernel.parameters().known(), None);
    // SAFETY: the kernel has no parameters and touches no memory.
    unsafe { kernel.launch(&stream, config, ()) }.unwrap();
    stream.synchronize().unwrap();
    drop((kernel, stream, device));
    assert_eq!(library.close().unwrap(), Closed::Destroyed);
    assert_eq!(driver.close().unwrap(), Closed::Destroyed);
    assert!(sim.leaks().is_empty() && sim.violations().is_empty());
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    seen[0].clone()
}

#[test]
fn the_driver_is_told_the_attributes_that_were_asked_for_and_no_others() {
    let all = || ONE.cooperative().priority(-2).programmatic_serialization().cluster([1; 3]);
    for (config, expected) in [
        (ONE, &[][..]),
        (ONE.cluster([1; 3]), &["cluster 1 1 1"]),
        (LaunchConfig::new([4, 3, 2], [1; 3]).cluster([2, 1, 2]), &["cluster 2 1 2"]),
        (ONE.cooperative(), &["cooperative 1"]),
        (ONE.priority(0), &["priority 0"]),
        (ONE.priority(-5), &["priority -5"]),
        (ONE.programmatic_serialization(), &["programmatic 1"]),
        (all(), &["cluster 1 1 1", "cooperative 1", "priority -2", "programmatic 1"]),
    ] {
        assert_eq!(told(config).attributes, expected);
    }
}

#[test]
fn the_driver_is_told_each_size_in_its_place() {
    let config = LaunchConfig::new([2, 3, 4], [5, 6, 7]).shared_bytes(8);
    assert_eq!(told(config).sizes, [2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(told(LaunchConfig::for_len(0)).sizes, [1, 1, 1, 256, 1, 1, 0]);
    assert_eq!(told(LaunchConfig::for_len(257)).sizes, [2, 1, 1, 256, 1, 1, 0]);
}

#[test]
fn attributes_have_their_effect_on_a_launch() {
    run(|t| {
        let (nop, stream) = (t.kernels().kernel("nop").unwrap(), t.device().new_stream().unwrap());
        // SAFETY: the kernel has no parameters and touches no memory.
        let launch = |config| unsafe { nop.launch(&stream, config, ()) };
        for config in [ONE.cooperative(), ONE.priority(0), ONE.programmatic_serialization()] {
            launch(config).unwrap();
        }
        // More blocks than any device runs at once.
        let error = launch(LaunchConfig::new([1 << 20, 1, 1], [1024, 1, 1]).cooperative());
        assert!(error.unwrap_err().is(CUresult::COOPERATIVE_LAUNCH_TOO_LARGE));
        stream.synchronize().unwrap();
        let clusters = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH;
        if t.device().attribute(clusters).unwrap() == 1 {
            launch(LaunchConfig::new([4, 1, 1], [1; 3]).cluster([2, 1, 1])).unwrap();
            stream.synchronize().unwrap();
            let odd = launch(LaunchConfig::new([3, 1, 1], [1; 3]).cluster([2, 1, 1])).unwrap_err();
            assert!(odd.is(CUresult::INVALID_CLUSTER_SIZE), "{odd}");
        }
    });
}
