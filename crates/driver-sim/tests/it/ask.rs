//! Calls in the form that tests want: the answer as a value, no pointers.

use cuhold_driver_sim::{
    Sim, SimOptions, Violation, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use std::sync::atomic::{AtomicU32, Ordering};

/// What a call answers: its value, or the status.
pub(crate) type Asked<T> = Result<T, CUresult>;

pub(crate) fn status(status: CUresult) -> Asked<()> {
    if status.is_success() { Ok(()) } else { Err(status) }
}

/// Makes a call that takes arguments by value, on a [`Sim`].
macro_rules! call {
    ($sim:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $crate::ask::status(
            // SAFETY: *pointers*: none, or of locals that outlive the call. *Handles*, *calls back*: the simulator
            // checks the former, the test's functions fulfil the latter.
            unsafe { $sim.$name($($argument),*) },
        )
    };
}
pub(crate) use call;

/// Makes a call whose answer goes through the pointer that is written `out` among the arguments.
macro_rules! get {
    ($sim:expr, $name:ident(out $(, $argument:expr)* $(,)?)) => {{
        let mut value = Default::default();
        $crate::ask::call!($sim, $name(&raw mut value $(, $argument)*)).map(|()| value)
    }};
    ($sim:expr, $name:ident($first:expr, out $(, $argument:expr)* $(,)?)) => {{
        let mut value = Default::default();
        $crate::ask::call!($sim, $name($first, &raw mut value $(, $argument)*)).map(|()| value)
    }};
    ($sim:expr, $name:ident($first:expr, $second:expr, out $(,)?)) => {{
        let mut value = Default::default();
        $crate::ask::call!($sim, $name($first, $second, &raw mut value)).map(|()| value)
    }};
}
pub(crate) use get;

/// A driver with `cuInit` made.
pub(crate) fn sim() -> Sim {
    sim_with(SimOptions::default())
}

pub(crate) fn sim_with(options: SimOptions) -> Sim {
    let sim = Sim::with_options(options);
    call!(sim, cuInit(0)).unwrap();
    sim
}

pub(crate) fn primary(sim: &Sim, device: CUdevice) -> CUcontext {
    get!(sim, cuDevicePrimaryCtxRetain(out, device)).unwrap()
}

/// A driver with the primary context of device 0 current to this thread.
pub(crate) fn sim_with_context() -> (Sim, CUcontext) {
    let sim = sim();
    let ctx = primary(&sim, 0);
    call!(sim, cuCtxSetCurrent(ctx)).unwrap();
    (sim, ctx)
}

/// A new context of device 0, current.
pub(crate) fn context(sim: &Sim) -> CUcontext {
    get!(sim, cuCtxCreate_v4(out, std::ptr::null_mut(), 0, 0)).unwrap()
}

pub(crate) fn current(sim: &Sim) -> CUcontext {
    get!(sim, cuCtxGetCurrent(out)).unwrap()
}

pub(crate) const BLOCKING: c_uint = 0;
pub(crate) const NON_BLOCKING: c_uint = 1;

pub(crate) fn stream(sim: &Sim, flags: c_uint) -> CUstream {
    get!(sim, cuStreamCreate(out, flags)).unwrap()
}

pub(crate) fn event(sim: &Sim) -> CUevent {
    get!(sim, cuEventCreate(out, 0)).unwrap()
}

/// How often a host function ran. The number is never freed: queued work may run as late as its context's end.
#[derive(Debug)]
pub(crate) struct Runs(&'static AtomicU32);

impl Default for Runs {
    fn default() -> Self {
        Self(Box::leak(Box::default()))
    }
}

impl Runs {
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// The address to give to the driver.
    pub(crate) fn data(&self) -> *mut c_void {
        (&raw const *self.0).cast_mut().cast()
    }

    /// Queues a host function that counts.
    pub(crate) fn queue(&self, sim: &Sim, stream: CUstream) -> Asked<()> {
        call!(sim, cuLaunchHostFunc(stream, Some(count), self.data()))
    }
}

/// A host function, or destructor, that counts its runs.
pub(crate) unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: the data of these tests is the number of a `Runs`, which is never freed.
    let runs = unsafe { &*data.cast::<AtomicU32>() };
    runs.fetch_add(1, Ordering::SeqCst);
}

pub(crate) fn kinds(violations: &[Violation]) -> Vec<ViolationKind> {
    violations.iter().map(|violation| violation.kind).collect()
}

/// Ends a test: nothing was violated.
#[track_caller]
pub(crate) fn assert_clean(sim: &Sim) {
    let violations = sim.violations();
    assert!(violations.is_empty(), "{violations:#?}");
}
