//! The code that probes load: one PTX image with a few small kernels, and images that are wrong in one way each.
//!
//! The simulated driver runs host closures that are registered under the same kernel names: `driver.rs`.

use std::{
    env,
    ffi::{CStr, CString},
    fs,
    path::PathBuf,
    process, thread,
};

/// Kernels for every device that CUDA 12 and 13 support: `nop()`, `fill(u32 *p, u32 value, u32 n)`,
/// `axpy(f32 a, f32 *x, f32 *y, u32 n)`, `fault(u32 *p)`, `trap()`, and the variable `counter` (7).
pub(crate) const KERNELS: &CStr = cr"
.version 7.0
.target sm_52
.address_size 64

.visible .global .align 4 .u32 counter = 7;

.visible .entry nop()
{
    ret;
}

.visible .entry fill(
    .param .u64 p,
    .param .u32 value,
    .param .u32 n
)
{
    .reg .pred %outside;
    .reg .b32 %block, %width, %lane, %i, %v, %n;
    .reg .b64 %p, %at;
    ld.param.u64 %p, [p];
    ld.param.u32 %v, [value];
    ld.param.u32 %n, [n];
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %lane, %tid.x;
    mad.lo.s32 %i, %block, %width, %lane;
    setp.ge.u32 %outside, %i, %n;
    @%outside bra DONE;
    cvta.to.global.u64 %p, %p;
    mul.wide.u32 %at, %i, 4;
    add.s64 %at, %p, %at;
    st.global.u32 [%at], %v;
DONE:
    ret;
}

.visible .entry axpy(
    .param .f32 a,
    .param .u64 x,
    .param .u64 y,
    .param .u32 n
)
{
    .reg .pred %outside;
    .reg .b32 %block, %width, %lane, %i, %n;
    .reg .f32 %a, %xv, %yv;
    .reg .b64 %x, %y, %at;
    ld.param.f32 %a, [a];
    ld.param.u64 %x, [x];
    ld.param.u64 %y, [y];
    ld.param.u32 %n, [n];
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %lane, %tid.x;
    mad.lo.s32 %i, %block, %width, %lane;
    setp.ge.u32 %outside, %i, %n;
    @%outside bra DONE;
    cvta.to.global.u64 %x, %x;
    cvta.to.global.u64 %y, %y;
    mul.wide.u32 %at, %i, 4;
    add.s64 %x, %x, %at;
    add.s64 %y, %y, %at;
    ld.global.f32 %xv, [%x];
    ld.global.f32 %yv, [%y];
    fma.rn.f32 %yv, %a, %xv, %yv;
    st.global.f32 [%y], %yv;
DONE:
    ret;
}

.visible .entry fault(
    .param .u64 p
)
{
    .reg .b32 %v;
    .reg .b64 %p;
    ld.param.u64 %p, [p];
    cvta.to.global.u64 %p, %p;
    mov.u32 %v, 1;
    st.global.u32 [%p], %v;
    ret;
}

.visible .entry trap()
{
    trap;
    ret;
}
";

/// How many kernels [`KERNELS`] holds.
pub(crate) const KERNEL_COUNT: u32 = 5;

/// An image with one managed variable, `shared` (9), and the kernel `nop`.
pub(crate) const MANAGED: &CStr = cr"
.version 7.0
.target sm_52
.address_size 64

.visible .global .attribute(.managed) .align 4 .u32 shared = 9;

.visible .entry nop()
{
    ret;
}
";

/// Not an image at all.
pub(crate) const GARBAGE: &CStr = c"this is no image";
/// PTX without a kernel.
pub(crate) const EMPTY: &CStr = c".version 7.0\n.target sm_52\n.address_size 64\n";
/// PTX of a version that no compiler knows.
pub(crate) const TOO_NEW: &CStr = c".version 99.0\n.target sm_52\n.address_size 64\n";
/// PTX that doesn't parse.
pub(crate) const BAD_SYNTAX: &CStr =
    c".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry k( { nonsense; }\n";

/// A file with [`KERNELS`] in the folder for temporary files, removed when this is dropped.
pub(crate) struct ImageFile {
    path: PathBuf,
    name: CString,
}

impl ImageFile {
    /// Written for this thread alone. Where that fails the driver doesn't find it, and says so.
    pub(crate) fn new() -> Self {
        let thread = thread::current().id();
        let file = format!("cuhold-facts-{}-{thread:?}.ptx", process::id());
        let path = env::temp_dir().join(file);
        drop(fs::write(&path, KERNELS.to_bytes()));
        let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default();
        Self { path, name }
    }

    /// Its path.
    pub(crate) fn path(&self) -> &CStr {
        &self.name
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        // There may be none: see `new`.
        drop(fs::remove_file(&self.path));
    }
}
