//! Failures of other CUDA libraries that their users reported in public, asked of this one. `docs/scenarios.md` has the
//! reports, and says which test shows which: those that another module's test shows already aren't here again.

#![expect(
    unsafe_code,
    reason = "asks the driver about raw objects, and acts as other libraries do"
)]

mod context;
mod end;
mod graph;
mod memory;
mod report;

use cuhold_driver_sim::ViolationKind;
use cuhold_driver_sys::ffi::{CUcontext, CUstream};
use cuhold_handles::{Context, ContextFlags, LaunchConfig};
use cuhold_testkit::Kit;

const ONE: LaunchConfig = LaunchConfig::new([1; 3], [1; 3]);

/// Two contexts, neither of them current.
fn two_contexts(t: &Kit) -> (Context, Context) {
    let created = || Context::new(t.device(), ContextFlags::default()).unwrap();
    (created(), created())
}

/// The context that the driver knows a stream to belong to.
fn context_of(t: &Kit, stream: CUstream) -> CUcontext {
    let mut context = CUcontext::NULL;
    // SAFETY: *handles*: the stream is live; *pointers*: a live local.
    unsafe { t.driver().calls().cuStreamGetCtx(stream, &raw mut context) }.unwrap();
    context
}

/// What was refused for its context just now was so on purpose.
fn strange_on_purpose(t: &Kit) {
    let Some(sim) = t.sim() else { return };
    let strange = sim.take_violations();
    assert!(!strange.is_empty());
    assert!(strange.iter().all(|each| each.kind == ViolationKind::WrongContext), "{strange:?}");
}
