//! The kernel that fills a buffer: PTX for the real driver, a closure for the simulated one.

use cuhold::{Device, Library, Result, sim::Sim};

/// The kernel's name.
pub(crate) const NAME: &str = "fill";

/// `to[i] = i * 2654435761 + seed` for `i < n`.
const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64

.visible .entry fill(.param .u64 to, .param .u32 seed, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [seed];
    ld.param.u32 %r2, [n];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r6, %r2;
    @%p1 bra DONE;
    mul.lo.u32 %r7, %r6, 2654435761;
    add.s32 %r8, %r7, %r1;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r6, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r8;
DONE:
    ret;
}
";

pub(crate) fn load(device: &Device) -> Result<Library> {
    device.load(PTX)
}

/// Gives the simulated driver the same kernel.
pub(crate) fn register(sim: &Sim) {
    sim.register_kernel(NAME, |launch| {
        let (seed, n) = (launch.param::<u32>(1)?, launch.param::<u32>(2)? as usize);
        let mut to = launch.slice_mut::<u32>(launch.param(0)?, n)?;
        for (at, word) in (0_u32..).zip(to.iter_mut()) {
            *word = at.wrapping_mul(2_654_435_761).wrapping_add(seed);
        }
        Ok(())
    });
}
