//! Kernels for tests: as PTX for the real driver, and as host closures for the simulated one.

use cuhold_driver_sim::{KernelFault, Sim};

/// The test kernels.
///
/// - `nop()`;
/// - `fill(ptr, value: u32, len: u32)`: sets `len` words;
/// - `axpy(a: f32, x: ptr, y: ptr, len: u32)`: `y += a * x`;
/// - `spin(ns: u64)`: one thread keeps the device busy that long;
/// - `poke(address: u64)`: writes a word to an address of the caller's, right or wrong;
/// - `trap()`: ends in a trap.
pub const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64

.visible .entry nop()
{
    ret;
}

.visible .entry fill(.param .u64 ptr, .param .u32 value, .param .u32 len)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [ptr];
    ld.param.u32 %r1, [value];
    ld.param.u32 %r2, [len];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r6, %r2;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r6, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r1;
DONE:
    ret;
}

.visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 len)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<7>;
    .reg .b64 %rd<8>;
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [len];
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

.visible .entry spin(.param .u64 ns)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [ns];
    mov.u64 %rd2, %globaltimer;
LOOP:
    mov.u64 %rd3, %globaltimer;
    sub.s64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra LOOP;
    ret;
}

.visible .entry poke(.param .u64 address)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [address];
    mov.u32 %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}

.visible .entry trap()
{
    trap;
    ret;
}
";

/// Gives the simulated driver the same kernels.
pub(crate) fn register(sim: &Sim) {
    sim.register_kernel("nop", |_| Ok(()));
    // Time is the simulated driver's own: what keeps a real device busy is done at once.
    sim.register_kernel("spin", |_| Ok(()));
    sim.register_kernel("trap", |_| Err(KernelFault::TRAP));
    sim.register_kernel("poke", |launch| launch.write(launch.param(0)?, 1_u32));
    sim.register_kernel("fill", |launch| {
        let len = launch.param::<u32>(2)? as usize;
        let (value, mut words) =
            (launch.param::<u32>(1)?, launch.slice_mut(launch.param(0)?, len)?);
        for thread in launch.threads() {
            if let Some(word) = words.get_mut(thread.global_x()) {
                *word = value;
            }
        }
        Ok(())
    });
    sim.register_kernel("axpy", |launch| {
        let (a, len) = (launch.param::<f32>(0)?, launch.param::<u32>(3)? as usize);
        let x = launch.slice::<f32>(launch.param(1)?, len)?;
        let mut y = launch.slice_mut::<f32>(launch.param(2)?, len)?;
        for thread in launch.threads() {
            if let (Some(y), Some(x)) = (y.get_mut(thread.global_x()), x.get(thread.global_x())) {
                *y += a * x;
            }
        }
        Ok(())
    });
}
