//! The launch of a kernel that does nothing: what is left is the launch.

use crate::Bed;
use criterion::Criterion;
use cuhold::{LaunchConfig, driver_sys::ffi::CUfunction};
use cuhold_benches::{Subject, compare};

pub(crate) const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64
.visible .entry nop() { ret; }
.visible .entry nop3(.param .u64 a, .param .u64 b, .param .u32 c) { ret; }
";

pub(crate) fn benches(criterion: &mut Criterion, bed: &Bed) {
    let library = bed.device.load(PTX).unwrap();
    let nop = library.kernel("nop").unwrap();
    let (stream, raw_stream) = (bed.device.new_stream().unwrap(), bed.raw.new_stream());
    let config = LaunchConfig::new([1, 1, 1], [32, 1, 1]);
    let function = CUfunction(nop.as_raw().0);
    let peer = bed.peer.as_ref().map(|peer| {
        let module = peer.context.load_module(cudarc::nvrtc::Ptx::from_src(PTX)).unwrap();
        (peer.context.new_stream().unwrap(), module.load_function("nop").unwrap())
    });
    let mut subjects = vec![
        Subject::new("raw", || bed.raw.launch(function, raw_stream))
            .settle(|| bed.raw.cuStreamSynchronize(raw_stream)),
        // SAFETY: the kernel has no parameters and touches no memory.
        Subject::new("cuhold", || unsafe { nop.launch(&stream, config, ()) }.unwrap())
            .settle(|| stream.synchronize().unwrap()),
    ];
    if let Some((stream, function)) = &peer {
        let config = cudarc::driver::LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (32, 1, 1),
            shared_mem_bytes: 0,
        };
        subjects.push(
            Subject::new("cudarc", move || {
                let mut builder = stream.launch_builder(function);
                // SAFETY: the kernel has no parameters and touches no memory.
                unsafe { builder.launch(config) }.unwrap();
            })
            .settle(|| stream.synchronize().unwrap()),
        );
    }
    compare(criterion, "launch", 500, subjects);
    bed.raw.cuStreamDestroy_v2(raw_stream);
}
