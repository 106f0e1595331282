//! The bridge: which drivers it takes, and what a body on the real driver begins with.

use cudarc::driver::CudaContext;
use cuhold_cudarc::Bridge;
use cuhold_handles::ErrorKind;
use cuhold_testkit::{Kit, run_real, run_simulated};
use std::sync::Arc;

/// A bridge, and cudarc's value of the kit's primary context.
pub(crate) fn bridge(kit: &Kit) -> (Bridge, Arc<CudaContext>) {
    let bridge = Bridge::new(kit.driver()).unwrap();
    let context = bridge.retain_context(kit.device()).unwrap();
    (bridge, context)
}

/// Calls cudarc, which leaves its context current, with what was current put back: the kit looks at that.
pub(crate) fn theirs<T>(kit: &Kit, work: impl FnOnce() -> T) -> T {
    kit.context().with_current(work).unwrap()
}

/// Waits until what was left to the reclaimer has ended, and what that left to it: a copy in a borrowed context leaves its staging
/// memory, with the context.
pub(crate) fn drain(kit: &Kit) {
    kit.settle();
}

#[test]
fn a_simulated_driver_has_no_bridge_and_the_error_names_the_argument() {
    run_simulated(|kit, _| {
        let error = Bridge::new(kit.driver()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().starts_with("driver: "), "{error}");
    });
}

#[test]
fn a_driver_that_cannot_be_asked_has_none_and_the_failure_is_returned() {
    use cuhold_driver_sys::{CUresult, Call, Fault};
    run_simulated(|kit, _| {
        kit.faults().arm(Fault::refused(CUresult::INVALID_VALUE).on(Call::cuGetProcAddress_v2));
        assert!(Bridge::new(kit.driver()).unwrap_err().is(CUresult::INVALID_VALUE));
        kit.faults().disarm();
    });
}

#[test]
fn the_real_driver_has_one_also_with_hooks_around_it() {
    run_real(|kit, _| {
        let bridge = Bridge::new(kit.driver()).unwrap();
        assert!(bridge.driver().same(kit.driver()));
        assert_eq!(bridge.still_lent(), 0);
        drop(Bridge::new(&kit.driver().isolated()).unwrap());
    });
}
