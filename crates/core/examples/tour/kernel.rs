//! The tour's kernel: as CUDA C++ for NVRTC, as PTX where there is no NVRTC, and as a closure for the simulated driver.

use crate::show::Show;
use cuhold::{Device, ErrorKind, Library, Program, Result, sim::Sim};

/// The kernel's name.
pub(crate) const NAME: &str = "axpy";

const SOURCE: &str = r#"
extern "C" __global__ void axpy(float a, const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"#;

const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64

.visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.u32 %rd5, %r5, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f2, [%rd6];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd7], %f4;
DONE:
    ret;
}
";

/// Compiles the kernel if NVRTC is found, else takes the PTX above.
pub(crate) fn load(device: &Device, show: &mut Show) -> Result<Library> {
    match Program::compile(device, SOURCE, &[]) {
        Ok(program) => {
            show.say("compiler", format!("NVRTC made {program:?}"));
            device.load(&program)
        }
        Err(error) if error.kind() == ErrorKind::Load => {
            show.say("compiler", "no NVRTC was found: the kernel's PTX is taken instead");
            device.load(PTX)
        }
        Err(error) => Err(error),
    }
}

/// Gives the simulated driver the same kernel.
pub(crate) fn register(sim: &Sim) {
    sim.register_kernel(NAME, |launch| {
        let (a, n) = (launch.param::<f32>(0)?, launch.param::<u32>(3)? as usize);
        let x = launch.slice::<f32>(launch.param(1)?, n)?;
        let mut y = launch.slice_mut::<f32>(launch.param(2)?, n)?;
        for thread in launch.threads() {
            if let (Some(y), Some(x)) = (y.get_mut(thread.global_x()), x.get(thread.global_x())) {
                *y += a * x;
            }
        }
        Ok(())
    });
}
