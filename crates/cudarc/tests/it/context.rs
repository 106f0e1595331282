//! Contexts in both directions: who ends them, and that nothing else does.

use crate::bridge::{bridge, drain, theirs};
use cudarc::driver::CudaContext;
use cuhold_cudarc::Bridge;
use cuhold_driver_sys::Call;
use cuhold_handles::{Closed, Context, ContextFlags, Device, Driver};
use cuhold_memory::Buffer;
use cuhold_testkit::{Kit, run_real};
use std::sync::Arc;

fn works(context: &Context) {
    let stream = context.new_stream().unwrap();
    assert_eq!(Buffer::from_slice(&stream, &[1_u32, 2, 3]).unwrap().to_vec().unwrap(), [1, 2, 3]);
}

/// Copies there and back by cudarc alone.
fn works_there(context: &Arc<CudaContext>) {
    let stream = context.default_stream();
    let slice = stream.clone_htod(&[4_u32, 5]).unwrap();
    assert_eq!(stream.clone_dtoh(&slice).unwrap(), [4, 5]);
}

/// On a thread of its own, which has nothing current.
fn elsewhere(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| drop(scope.spawn(work)));
}

fn created_by_cudarc(kit: &Kit) -> Arc<CudaContext> {
    theirs(kit, || CudaContext::new_non_primary(0, 0).unwrap())
}

#[test]
fn a_primary_context_is_the_same_one_for_both() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let device = bridge.device(&context).unwrap();
        assert_eq!(&device, kit.device());
        assert_eq!(bridge.borrow_context(&context).unwrap(), *kit.context());
        theirs(kit, || drop(context));
    });
}

#[test]
fn a_primary_context_that_cudarc_has_let_go_of_goes_on_here() {
    run_real(|kit, _| {
        let (_bridge, context) = bridge(kit);
        let stream = kit.device().new_stream().unwrap();
        let buffer = Buffer::from_slice(&stream, &[7_u32; 100]).unwrap();
        theirs(kit, || drop(context));
        assert_eq!(buffer.to_vec().unwrap(), [7; 100]);
        works(kit.context());
    });
}

#[test]
fn a_primary_context_that_this_library_has_let_go_of_goes_on_there() {
    run_real(|kit, _| {
        let driver = kit.driver().isolated();
        let device = Device::with_driver(&driver, 0).unwrap();
        let bridge = Bridge::new(&driver).unwrap();
        let context = bridge.retain_context(&device).unwrap();
        drop((bridge, device));
        assert_eq!(driver.close().unwrap(), Closed::Destroyed);
        theirs(kit, || works_there(&context));
        theirs(kit, || drop(context));
        works(kit.context());
    });
}

#[test]
fn what_the_bridge_asks_of_cudarc_leaves_what_is_current() {
    run_real(|kit, _| {
        let before = kit.stack();
        let (bridge, context) = bridge(kit);
        assert_eq!(kit.stack(), before);
        let other = Context::new(kit.device(), ContextFlags::empty()).unwrap();
        let again = other
            .with_current(|| {
                let inside = kit.stack();
                let again = bridge.retain_context(kit.device()).unwrap();
                let stream = kit.device().new_stream().unwrap();
                drop(bridge.lend_stream(&stream, &context).unwrap());
                let lent = bridge.lend_context(&other).unwrap();
                assert_eq!(kit.stack(), inside);
                drop(lent);
                assert_eq!(kit.stack(), inside);
                again
            })
            .unwrap();
        // By cudarc alone, which leaves its context current.
        theirs(kit, || drop((again, context)));
    });
}

#[test]
fn where_cudarc_has_left_its_context_current_operations_work_and_leave_it_so() {
    run_real(|kit, _| {
        let context = created_by_cudarc(kit);
        elsewhere(|| {
            context.bind_to_thread().unwrap();
            let before = kit.stack();
            works(kit.context());
            assert_eq!(kit.stack(), before);
        });
        // Its end takes it off the stack, so that there must be nothing else on it.
        elsewhere(|| drop(context));
    });
}

#[test]
fn a_created_context_of_cudarc_s_lives_as_long_as_what_was_borrowed_from_it() {
    run_real(|kit, _| {
        let bridge = Bridge::new(kit.driver()).unwrap();
        let context = created_by_cudarc(kit);
        assert!(bridge.device(&context).is_err());
        let ours = bridge.borrow_context(&context).unwrap();
        let weak = Arc::downgrade(&context);
        theirs(kit, || drop(context));
        works(&ours);
        let before = kit.stack();
        drop(ours);
        drain(kit);
        assert_eq!(kit.stack(), before);
        assert!(weak.upgrade().is_none());
    });
}

#[test]
fn a_context_that_is_lent_is_kept_until_cudarc_has_let_go_of_it() {
    run_real(|kit, _| {
        let bridge = Bridge::new(kit.driver()).unwrap();
        let ours = Context::new(kit.device(), ContextFlags::empty()).unwrap();
        let lent = bridge.lend_context(&ours).unwrap();
        assert_eq!(lent.lent(), &ours);
        let context = Arc::clone(&lent);
        drop((lent, ours));
        assert_eq!(bridge.still_lent(), 1);
        theirs(kit, || works_there(&context));
        theirs(kit, || drop(context));
        let ends = kit.counts().of(Call::cuCtxDestroy_v2);
        assert_eq!(bridge.still_lent(), 0);
        drain(kit);
        assert_eq!(kit.counts().of(Call::cuCtxDestroy_v2), ends + 1);
    });
}

#[test]
fn a_context_that_cudarc_still_uses_when_the_bridge_ends_is_leaked_and_told() {
    run_real(|kit, _| {
        // A driver of its own, since it is kept for good.
        let driver = Driver::load().unwrap().isolated();
        let device = Device::with_driver(&driver, 0).unwrap();
        let bridge = Bridge::new(&driver).unwrap();
        let ours = Context::new(&device, ContextFlags::empty()).unwrap();
        let context = Arc::clone(&bridge.lend_context(&ours).unwrap());
        let warnings = driver.reports().capture(4);
        drop((bridge, ours));
        assert_eq!(warnings.take().len(), 1);
        theirs(kit, || works_there(&context));
    });
}
