//! Page-locked host memory.

use crate::{
    flip::{World, told},
    raw,
};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{Closed, Context, ContextFlags, ErrorKind, Fate, ObjectKind};
use cuhold_memory::HostBuffer;
use cuhold_testkit::run;
use std::time::Duration;

const E: CUresult = CUresult(9001);

#[test]
fn fresh_host_memory_is_zero_and_a_slice() {
    run(|t| {
        let mut host = HostBuffer::<u32>::zeroed(t.context(), 1000).unwrap();
        assert_eq!(*host, [0; 1000]);
        host[3] = 7;
        host.as_mut().reverse();
        assert_eq!((host.as_ref()[996], host.len()), (7, 1000));
        let copy = HostBuffer::from_slice(t.context(), &host[990..]).unwrap();
        assert_eq!(*copy, host[990..]);
        assert_eq!(
            format!("{:?}", HostBuffer::from_slice(t.context(), &[1, 2]).unwrap()),
            "[1, 2]"
        );
    });
}

#[test]
fn a_length_that_overflows_is_refused() {
    run(|t| {
        let error = HostBuffer::<u64>::zeroed(t.context(), usize::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    });
}

#[test]
fn host_memory_is_made_and_freed_in_its_context_whatever_is_current() {
    run(|t| {
        let context = Context::new(t.device(), ContextFlags::default()).unwrap();
        let host =
            t.context().with_current(|| HostBuffer::<u8>::zeroed(&context, 100).unwrap()).unwrap();
        assert!(raw::current(t.driver()).is_null());
        drop(host);
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
        let (_, calls) = t.calls(|| context.close().unwrap());
        assert_eq!(calls, ["cuCtxDestroy"]);
    });
}

#[test]
fn a_drop_leaves_the_waiting_free_to_the_reclaimer() {
    run(|t| {
        let by_hand = t.driver().reclaim().run_by_hand();
        let host = HostBuffer::<u8>::zeroed(t.context(), 100).unwrap();
        let ((), calls) = t.calls(|| drop(host));
        assert!(calls.is_empty());
        let (_, calls) = t.calls(|| assert!(by_hand.step()));
        let exchange = "cuThreadExchangeStreamCaptureMode";
        assert_eq!(calls, [exchange, "cuMemFreeHost", exchange]);
    });
}

#[test]
fn host_memory_is_made_and_freed_beside_a_global_capture() {
    run(|t| {
        let captured = t.device().new_stream().unwrap();
        raw::begin(&captured, raw::GLOBAL);
        let (one, two) = (
            HostBuffer::<u8>::zeroed(t.context(), 100).unwrap(),
            HostBuffer::<u8>::zeroed(t.context(), 100).unwrap(),
        );
        assert_eq!(one.close().unwrap(), Closed::Destroyed);
        drop(two);
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
        assert!(raw::is_captured(&captured));
        raw::end(&captured);
    });
}

#[test]
fn a_free_that_fails_is_told_by_close_and_by_drop() {
    let world = World::new();
    let host = || HostBuffer::<u8>::zeroed(world.device.context(), 8).unwrap();
    let (one, two) = (host(), host());
    world.faults().arm(Fault::refused(E).on(Call::cuMemFreeHost));
    let refused = one.close().unwrap_err();
    assert!(refused.error.is(E) && refused.value.is_none());
    let warning = world.warning(|| drop(two));
    assert_eq!(told(&warning), (Some("cuMemFreeHost"), Some(E.0), Some(Fate::Unknown)));
    assert_eq!(warning.object().kind, ObjectKind::HostMemory);
}
