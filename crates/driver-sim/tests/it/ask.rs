//! Calls in the form that tests want: the answer as a value, no pointers.

use cuhold_driver_sim::{
    Sim,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

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

/// Makes a call whose answer goes through its first pointer, written `out` among the arguments.
macro_rules! get {
    ($sim:expr, $name:ident(out $(, $argument:expr)* $(,)?)) => {{
        let mut value = Default::default();
        $crate::ask::call!($sim, $name(&raw mut value $(, $argument)*)).map(|()| value)
    }};
    ($sim:expr, $name:ident($first:expr, out $(, $argument:expr)* $(,)?)) => {{
        let mut value = Default::default();
        $crate::ask::call!($sim, $name($first, &raw mut value $(, $argument)*)).map(|()| value)
    }};
}
pub(crate) use get;

/// A driver with `cuInit` made.
pub(crate) fn sim() -> Sim {
    let sim = Sim::new();
    call!(sim, cuInit(0)).unwrap();
    sim
}

/// A driver with the primary context of device 0 current to this thread.
pub(crate) fn sim_with_context() -> (Sim, CUcontext) {
    let sim = sim();
    let ctx: CUcontext = get!(sim, cuDevicePrimaryCtxRetain(out, 0)).unwrap();
    call!(sim, cuCtxSetCurrent(ctx)).unwrap();
    (sim, ctx)
}
