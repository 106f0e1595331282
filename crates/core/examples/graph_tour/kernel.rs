//! The solver's kernels: as PTX for the real driver, and as closures for the simulated one. Both do the same arithmetic in the
//! same order, so that results are compared bit by bit.

use cuhold::{Device, Kernel, Library, Result, sim::Sim};

/// Loads the kernels.
///
/// - `smooth(from, to, width, first, rows)`: in these rows each inner point becomes the mean of its four neighbours, and each
///   point at the edge stays;
/// - `differ(one, other, worst, len)`: raises `worst` to the greatest difference, as the bits of a number that isn't negative;
/// - `decide(condition, worst, steps, tolerance, most)`: counts two steps, and has the loop go on while they change more than
///   the tolerance, and aren't too many.
///
/// `cudaGraphSetConditional` is a function of the device that the driver links by itself.
const PTX: &str = "
.version 7.0
.target sm_50
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

.visible .entry smooth(.param .u64 from, .param .u64 to, .param .u32 width, .param .u32 first, .param .u32 rows)
{
    .reg .pred %p<4>;
    .reg .f32 %f<10>;
    .reg .b32 %r<14>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    ld.param.u32 %r1, [width];
    ld.param.u32 %r2, [first];
    ld.param.u32 %r3, [rows];
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ntid.x;
    mov.u32 %r6, %tid.x;
    mad.lo.u32 %r7, %r4, %r5, %r6;
    mul.lo.u32 %r8, %r1, %r3;
    setp.ge.u32 %p1, %r7, %r8;
    @%p1 bra DONE;
    rem.u32 %r9, %r7, %r1;
    mad.lo.u32 %r10, %r2, %r1, %r7;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.u32 %rd5, %r10, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    sub.u32 %r11, %r1, 1;
    setp.eq.u32 %p2, %r9, 0;
    setp.eq.u32 %p3, %r9, %r11;
    @%p2 bra EDGE;
    @%p3 bra EDGE;
    mul.wide.u32 %rd8, %r1, 4;
    sub.s64 %rd9, %rd6, %rd8;
    add.s64 %rd10, %rd6, %rd8;
    ld.global.f32 %f1, [%rd6+-4];
    ld.global.f32 %f2, [%rd6+4];
    ld.global.f32 %f3, [%rd9];
    ld.global.f32 %f4, [%rd10];
    add.rn.f32 %f5, %f1, %f2;
    add.rn.f32 %f6, %f3, %f4;
    add.rn.f32 %f7, %f5, %f6;
    mul.rn.f32 %f8, %f7, 0f3E800000;
    st.global.f32 [%rd7], %f8;
    ret;
EDGE:
    ld.global.f32 %f9, [%rd6];
    st.global.f32 [%rd7], %f9;
DONE:
    ret;
}

.visible .entry differ(.param .u64 one, .param .u64 other, .param .u64 worst, .param .u32 len)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<7>;
    .reg .b64 %rd<10>;
    ld.param.u64 %rd1, [one];
    ld.param.u64 %rd2, [other];
    ld.param.u64 %rd3, [worst];
    ld.param.u32 %r1, [len];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd2;
    cvta.to.global.u64 %rd6, %rd3;
    mul.wide.u32 %rd7, %r5, 4;
    add.s64 %rd8, %rd4, %rd7;
    add.s64 %rd9, %rd5, %rd7;
    ld.global.f32 %f1, [%rd8];
    ld.global.f32 %f2, [%rd9];
    sub.rn.f32 %f3, %f1, %f2;
    abs.f32 %f4, %f3;
    mov.b32 %r6, %f4;
    red.global.max.u32 [%rd6], %r6;
DONE:
    ret;
}

.visible .entry decide(
    .param .u64 condition,
    .param .u64 worst,
    .param .u64 steps,
    .param .f32 tolerance,
    .param .u32 most
)
{
    .reg .pred %p<4>;
    .reg .f32 %f<3>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [condition];
    ld.param.u64 %rd2, [worst];
    ld.param.u64 %rd3, [steps];
    ld.param.f32 %f1, [tolerance];
    ld.param.u32 %r1, [most];
    cvta.to.global.u64 %rd4, %rd2;
    cvta.to.global.u64 %rd5, %rd3;
    ld.global.u32 %r2, [%rd5];
    add.u32 %r3, %r2, 2;
    st.global.u32 [%rd5], %r3;
    ld.global.f32 %f2, [%rd4];
    setp.gt.f32 %p1, %f2, %f1;
    setp.lt.u32 %p2, %r3, %r1;
    and.pred %p3, %p1, %p2;
    selp.u32 %r4, 1, 0, %p3;
    {
    .param .b64 to;
    .param .b32 it;
    st.param.b64 [to], %rd1;
    st.param.b32 [it], %r4;
    call.uni cudaGraphSetConditional, (to, it);
    }
    ret;
}
";

/// The kernels, loaded.
pub(crate) struct Kernels {
    pub(crate) smooth: Kernel,
    pub(crate) differ: Kernel,
    pub(crate) decide: Kernel,
}

impl Kernels {
    pub(crate) fn load(device: &Device) -> Result<Self> {
        let library: Library = device.load(PTX)?;
        let kernel = |name| library.kernel(name);
        Ok(Self { smooth: kernel("smooth")?, differ: kernel("differ")?, decide: kernel("decide")? })
    }
}

/// Gives the simulated driver the same kernels.
pub(crate) fn register(sim: &Sim) {
    sim.register_kernel("smooth", |launch| {
        let (from, to) = (launch.param::<u64>(0)?, launch.param::<u64>(1)?);
        let [width, first, rows] = [2, 3, 4].map(|at| launch.param::<u32>(at));
        let (width, first, rows) = (width? as usize, first? as usize, rows? as usize);
        // The rows with one above and one below.
        let above = (first - 1) * width;
        let from = launch.slice::<f32>(from + bytes(above), (rows + 2) * width)?;
        let mut to = launch.slice_mut::<f32>(to + bytes(above + width), rows * width)?;
        let point = |place: usize| from.get(place).copied().unwrap_or_default();
        for (at, to) in to.iter_mut().enumerate() {
            let (place, column) = (at + width, at % width);
            let is_edge = column == 0 || column + 1 == width;
            let row = || point(place - 1) + point(place + 1);
            let beside = || point(place - width) + point(place + width);
            *to = if is_edge { point(place) } else { (row() + beside()) * 0.25 };
        }
        Ok(())
    });
    sim.register_kernel("differ", |launch| {
        let len = launch.param::<u32>(3)? as usize;
        let one = launch.slice::<f32>(launch.param(0)?, len)?;
        let other = launch.slice::<f32>(launch.param(1)?, len)?;
        let worst = launch.param::<u64>(2)?;
        let differences = one.iter().zip(&other).map(|(one, other)| (one - other).abs().to_bits());
        let most = differences.max().unwrap_or(0).max(launch.read::<u32>(worst)?);
        launch.write(worst, most)
    });
    sim.register_kernel("decide", |launch| {
        let (condition, steps) = (launch.param::<u64>(0)?, launch.param::<u64>(2)?);
        let worst = launch.read::<f32>(launch.param(1)?)?;
        let (tolerance, most) = (launch.param::<f32>(3)?, launch.param::<u32>(4)?);
        let done = launch.read::<u32>(steps)? + 2;
        launch.write(steps, done)?;
        launch.set_condition(condition, u32::from(worst > tolerance && done < most));
        Ok(())
    });
}

fn bytes(elements: usize) -> u64 {
    elements as u64 * 4
}
