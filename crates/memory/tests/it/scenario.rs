//! Failures of other CUDA libraries that their users reported in public, asked of this one, as far as they are about
//! memory. `docs/scenarios.md` has the reports, and says which test shows which.

#![expect(unsafe_code, reason = "asks the driver about a pointer")]

use crate::{flip::World, raw};
use cuhold_driver_sim::ObjectKind as SimKind;
use cuhold_driver_sys::{
    CUresult, Call, Fault,
    ffi::{CUcontext, CUpointer_attribute},
};
use cuhold_handles::{Closed, Context, ContextFlags, EventOptions, Fate, Module, ObjectKind};
use cuhold_memory::{Buffer, HostBuffer, Pool};
use cuhold_testkit::{Kit, PTX, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The context that the driver knows memory to belong to.
fn context_of(t: &Kit, address: u64) -> CUcontext {
    let mut context = CUcontext::NULL;
    let which = CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
    // SAFETY: *pointers*: a live local of the attribute's type.
    unsafe { t.driver().calls().cuPointerGetAttribute((&raw mut context).cast(), which, address) }
        .unwrap();
    context
}

/// S08: memory that belongs to a context is made in the one that was named, and freed there.
#[test]
fn memory_is_made_in_the_context_that_was_named_although_another_one_is_current() {
    run(|t| {
        let b = Context::new(t.device(), ContextFlags::default()).unwrap();
        let stream = b.new_stream().unwrap();
        let pool = Pool::current_of(t.device()).unwrap();
        let used = pool.used_bytes().unwrap();
        let check = || {
            let now = raw::current(t.driver());
            let host = HostBuffer::<u8>::from_slice(&b, &[1, 2, 3]).unwrap();
            assert_eq!(context_of(t, host.as_ptr().addr() as u64), b.as_raw());
            let buffer = Buffer::from_slice(&stream, &[1_u32, 2, 3]).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
            assert_eq!(raw::current(t.driver()), now);
            drop((host, buffer));
            assert_eq!(raw::current(t.driver()), now);
        };
        check();
        t.context().with_current(check).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(pool.used_bytes().unwrap(), used);
        drop(stream);
        t.driver().reclaim().drain(std::time::Duration::from_secs(10)).unwrap();
        assert_eq!(b.close().map_err(|refused| refused.error).unwrap(), Closed::Destroyed);
    });
}

/// S08, S26: what was allocated is freed where the next call of the same operation fails.
#[test]
fn memory_whose_first_copy_or_fill_fails_is_freed_and_the_failure_is_returned() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::current_of(t.device()).unwrap();
        let used = pool.used_bytes().unwrap();
        let copied = || Buffer::from_slice(&stream, &[1_u8; 100]).map(drop);
        let filled = || Buffer::<u8>::zeroed(&stream, 100).map(drop);
        let cases: [(Call, &dyn Fn() -> cuhold_handles::Result<()>); 4] = [
            (Call::cuMemcpyHtoDAsync_v2, &copied),
            (Call::cuEventRecord, &copied),
            (Call::cuEventSynchronize, &copied),
            (Call::cuMemsetD8Async, &filled),
        ];
        for (call, make) in cases {
            let before = t.faults().fired();
            t.faults().arm(Fault::refused(CUresult::INVALID_CONTEXT).on(call).nth(1));
            let error = make().unwrap_err();
            t.faults().disarm();
            assert_eq!(t.faults().fired(), before + 1, "{call}");
            assert!(error.is(CUresult::INVALID_CONTEXT), "{call}: {error}");
            stream.synchronize().unwrap();
            assert_eq!(pool.used_bytes().unwrap(), used, "{call}");
        }
    });
}

/// S26: the free that undoes an allocation fails as well: the error says so, and nobody hears of it again.
#[test]
fn a_free_that_fails_while_an_allocation_is_undone_is_part_of_the_error() {
    let world = World::new();
    let stream = world.stream();
    let told = world.warnings(|| {
        world.faults().arm(Fault::refused(CUresult(9001)).on(Call::cuMemsetD8Async).nth(1));
        world.faults().arm(Fault::refused(CUresult(9002)).on(Call::cuMemFreeAsync).nth(1));
        let error = Buffer::<u8>::zeroed(&stream, 100).unwrap_err();
        assert!(error.is(CUresult(9001)), "{error}");
        assert!(error.to_string().contains("9002"), "{error}");
        world.faults().disarm();
    });
    assert_eq!(told, []);
    assert_eq!(world.sim.live(SimKind::DeviceMemory), 1, "leaked, as the error says");
}

/// S17: a device without stream-ordered memory. Each call is answered for itself; nothing is parked for the next one.
#[test]
fn without_memory_pools_each_allocation_is_refused_once_and_nothing_else_pays() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        for call in [Call::cuMemAllocAsync, Call::cuMemAllocFromPoolAsync] {
            t.faults().arm(Fault::refused(CUresult::NOT_SUPPORTED).on(call));
        }
        for _ in 0..3 {
            let error = Buffer::<u8>::uninit(&stream, 100).unwrap_err();
            assert!(error.is(CUresult::NOT_SUPPORTED) && error.notes().is_empty(), "{error}");
            assert!(error.to_string().starts_with("cuMemAllocAsync "), "{error}");
            let event = t.device().new_event(EventOptions::default()).unwrap();
            stream.record(&event).unwrap();
            event.synchronize().unwrap();
            // Memory of another kind has an end of its own kind.
            let host = HostBuffer::<u8>::zeroed(t.context(), 100).unwrap();
            drop((event, host));
            stream.synchronize().unwrap();
        }
    });
}

/// S18, with memory among what is dropped.
#[test]
fn a_panic_over_buffers_and_copies_in_a_lost_driver_is_the_only_panic_and_each_is_told_once() {
    let world = World::new();
    let stream = world.stream();
    let mut buffer = Buffer::<u8>::uninit(&stream, 100).unwrap();
    let sent = buffer.write_from(vec![1; 100]).unwrap();
    let module = Module::load(world.device.context(), PTX).unwrap();
    let told = world.warnings(|| {
        world.sim.poison(CUresult::ASSERT);
        let payload = catch_unwind(AssertUnwindSafe(|| {
            let _all = (sent, buffer, module, stream);
            panic!("the user's own");
        }));
        assert_eq!(payload.unwrap_err().downcast_ref(), Some(&"the user's own"));
        world.driver.reclaim().drain(std::time::Duration::from_secs(10)).unwrap();
    });
    assert!(told.iter().all(|warning| warning.status() == Some(CUresult::ASSERT)), "{told:?}");
    for kind in
        [ObjectKind::AsyncMemory, ObjectKind::HostMemory, ObjectKind::Module, ObjectKind::Stream]
    {
        let about: Vec<_> = told.iter().filter(|warning| warning.object().kind == kind).collect();
        assert_eq!(about.len(), 1, "{kind}: {told:?}");
        assert_eq!(about[0].fate(), Some(Fate::Leaked));
    }
}
