//! Resources beside the pools: managed memory, synchronous memory, memory of graphs.

#![expect(unsafe_code, reason = "allocates graph memory")]

use crate::{
    flip::{World, told},
    raw,
};
use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{Closed, Context, ContextFlags, ErrorKind, Fate, ObjectKind, Stream};
use cuhold_memory::{
    Block, Buffer, GraphMemory, GraphResource, ManagedResource, MemoryResource, Residence,
    SynchronousResource,
};
use cuhold_testkit::{Kit, run, run_with};
use std::{sync::Arc, time::Duration};

const E: CUresult = CUresult(9001);

/// Graph memory of device 0; each test keeps it in its graph.
fn graph(t: &Kit) -> Arc<GraphResource> {
    // SAFETY: what the tests make of it is used in its capture only.
    Arc::new(unsafe { GraphMemory::new(t.device()).resource() })
}

fn drained(t: &Kit) {
    t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
}

#[test]
fn both_memories_without_a_stream_s_order_are_used_like_any_other() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let sources: [(Arc<dyn MemoryResource>, _, _); 2] = [
            (
                Arc::new(SynchronousResource::new(t.device())),
                Residence::Device,
                ObjectKind::DeviceMemory,
            ),
            (
                Arc::new(ManagedResource::new(t.device())),
                Residence::Managed,
                ObjectKind::ManagedMemory,
            ),
        ];
        for (source, residence, kind) in &sources {
            assert_eq!((source.residence(), source.memory_kind()), (*residence, *kind));
            assert!(source.deallocate_waits());
            let mut buffer = Buffer::from_slice_in(source, &stream, &[1, 2, 3]).unwrap();
            buffer.write_slice(&[4, 5, 6]).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [4, 5, 6]);
            assert_eq!(buffer.close().unwrap(), Closed::Destroyed);
            assert!(Buffer::<u8>::uninit_in(source, &stream, 0).unwrap().is_empty());
            assert_eq!(source.allocate(0, &stream).unwrap(), Block::EMPTY);
        }
    });
}

#[test]
fn each_memory_is_freed_by_the_call_that_matches_its_allocation() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let synchronous = Arc::new(SynchronousResource::new(t.device()));
        let of_pool = Buffer::<u8>::uninit(&stream, 100).unwrap();
        let of_context = Buffer::<u8>::uninit_in(&synchronous, &stream, 100).unwrap();
        let (_, of_pool) = t.calls(|| of_pool.close().unwrap());
        assert!(of_pool.contains(&"cuMemFreeAsync") && !of_pool.contains(&"cuMemFree"));
        let (_, of_context) = t.calls(|| of_context.close().unwrap());
        assert!(of_context.contains(&"cuMemFree") && !of_context.contains(&"cuMemFreeAsync"));
    });
}

#[test]
fn a_drop_leaves_the_waiting_free_to_the_reclaimer() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let synchronous = Arc::new(SynchronousResource::new(t.device()));
        let buffer = Buffer::<u8>::uninit_in(&synchronous, &stream, 100).unwrap();
        let by_hand = t.driver().reclaim().run_by_hand();
        let ((), here) = t.calls(|| drop(buffer));
        assert!(here.is_empty(), "{here:?}");
        let (stepped, calls) = t.calls(|| by_hand.step());
        assert!(stepped && calls.contains(&"cuMemFree"), "{calls:?}");
    });
}

#[test]
fn memory_is_freed_behind_the_work_of_a_stream_of_another_context() {
    run(|t| {
        let context = Context::new(t.device(), ContextFlags::default()).unwrap();
        let stream = context.new_stream().unwrap();
        let synchronous = Arc::new(SynchronousResource::new(t.device()));
        let buffer = Buffer::from_slice_in(&synchronous, &stream, &[1, 2, 3]).unwrap();
        let ((), entries) = t.entries(|| {
            drop(buffer);
            drained(t);
        });
        let calls: Vec<_> = entries.iter().map(cuhold_driver_sys::Entry::call).collect();
        let place = |call| calls.iter().position(|made| *made == call);
        assert!(place(Call::cuEventSynchronize) < place(Call::cuMemFree_v2), "{calls:?}");
        assert!(place(Call::cuEventSynchronize).is_some());
        drop(stream);
        context.close().unwrap();
    });
}

#[test]
fn a_stream_of_another_device_is_refused_before_the_driver_is_asked() {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(other) = t.second_device() else { return };
        let stream = other.new_stream().unwrap();
        let sources: [Arc<dyn MemoryResource>; 3] = [
            Arc::new(SynchronousResource::new(t.device())),
            Arc::new(ManagedResource::new(t.device())),
            graph(t),
        ];
        for source in &sources {
            let (refused, calls) = t.calls(|| source.allocate(8, &stream));
            let error = refused.unwrap_err();
            assert_eq!(error.to_string(), "stream: it is of device 1, the resource of device 0");
            assert!(calls.is_empty(), "{calls:?}");
        }
    });
}

#[test]
fn memory_of_all_kinds_is_had_and_given_back_beside_a_global_capture() {
    run(|t| {
        let (captured, stream) =
            (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        raw::begin(&captured, raw::GLOBAL);
        let sources: [Arc<dyn MemoryResource>; 2] = [
            Arc::new(SynchronousResource::new(t.device())),
            Arc::new(ManagedResource::new(t.device())),
        ];
        for source in &sources {
            drop(Buffer::<u8>::uninit_in(source, &stream, 100).unwrap());
            Buffer::<u8>::uninit_in(source, &stream, 100).unwrap().close().unwrap();
        }
        drained(t);
        let memory = GraphMemory::new(t.device());
        memory.usage().unwrap();
        memory.reset_used_high().unwrap();
        memory.reset_reserved_high().unwrap();
        memory.trim().unwrap();
        assert!(raw::is_captured(&captured));
        assert_eq!(raw::mode(t.driver()), raw::GLOBAL);
        raw::end(&captured);
    });
}

#[test]
fn a_free_that_fails_is_told_once() {
    let world = World::new();
    let synchronous = Arc::new(SynchronousResource::new(&world.device));
    let stream = world.stream();
    let buffer = || Buffer::<u8>::uninit_in(&synchronous, &stream, 10).unwrap();
    let (one, two) = (buffer(), buffer());
    world.faults().arm(Fault::done_but_failed(E).on(Call::cuMemFree_v2));
    let warning = world.warning(|| drop(one));
    assert_eq!(told(&warning), (Some("cuMemFree"), Some(E.0), Some(Fate::Unknown)));
    world.faults().disarm();
    world.faults().arm(Fault::done_but_failed(E).on(Call::cuMemFree_v2));
    let refused = two.close().unwrap_err();
    assert!(refused.error.is(E) && refused.value.is_none());
}

#[test]
fn graph_memory_is_allocated_and_freed_in_its_capture() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        raw::begin(&stream, raw::GLOBAL);
        let graph = graph(t);
        let buffer = Buffer::<u8>::uninit_in(&graph, &stream, 1000).unwrap();
        assert_eq!(buffer.len(), 1000);
        let ((), calls) = t.calls(|| drop(buffer));
        assert!(calls.contains(&"cuMemFreeAsync"), "{calls:?}");
        assert!(raw::is_captured(&stream));
        assert_eq!(raw::mode(t.driver()), raw::GLOBAL);
        raw::end(&stream);
    });
}

#[test]
fn a_stream_that_nobody_captures_gives_no_graph_memory() {
    run(|t| {
        let (stream, exposed) =
            (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        let _: cuhold_driver_sys::ffi::CUstream = exposed.as_raw();
        let graph = graph(t);
        for stream in [&stream, &exposed, &t.device().legacy_stream()] {
            let (refused, calls) = t.calls(|| graph.allocate(8, stream));
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::State);
            assert!(!calls.contains(&"cuMemAllocAsync"), "{calls:?}");
        }
    });
}

#[test]
fn graph_memory_whose_capture_ended_is_left_to_its_graph_without_a_free_or_a_report() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        raw::begin(&stream, raw::RELAXED);
        let graph = graph(t);
        let buffer = Buffer::<u8>::uninit_in(&graph, &stream, 1000).unwrap();
        raw::end(&stream);
        let ((), calls) = t.calls(|| drop(buffer));
        assert!(!calls.contains(&"cuMemFreeAsync"), "{calls:?}");
    });
}

#[test]
fn graph_memory_is_not_freed_in_another_capture_than_its_own() {
    run(|t| {
        let (one, two) = (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        let graph = graph(t);
        raw::begin(&one, raw::RELAXED);
        raw::begin(&two, raw::RELAXED);
        let block = graph.allocate(1000, &one).unwrap();
        // SAFETY: allocated above, and used by nothing.
        let (given, calls) = t.calls(|| unsafe { graph.deallocate(block, &two) });
        given.unwrap();
        assert!(!calls.contains(&"cuMemFreeAsync"), "{calls:?}");
        let is_captured = |stream: &Stream| raw::is_captured(stream);
        assert!(is_captured(&one) && is_captured(&two));
        raw::end(&two);
        raw::end(&one);
    });
}

#[test]
fn graph_memory_that_no_launch_allocated_is_not_freed_behind_one() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let graph = graph(t);
        // SAFETY: null is no memory of anybody's; then memory that nothing uses.
        unsafe { graph.free_launched(0, &stream) }.unwrap();
        raw::begin(&stream, raw::RELAXED);
        let block = graph.allocate(1000, &stream).unwrap();
        // The graph stays until the free was refused.
        let made = raw::end_kept(&stream);
        // SAFETY: as above.
        let error = unsafe { graph.free_launched(block.ptr, &stream) }.unwrap_err();
        assert!(error.is(CUresult::INVALID_VALUE), "{error}");
        raw::destroy(t.driver(), made);
    });
}

/// S43: a free node that is refused is told once, and the capture goes on.
#[test]
fn a_refused_free_of_graph_memory_is_told_once_and_later_work_is_none_the_worse() {
    let world = World::new();
    let (stream, other) = (world.stream(), world.stream());
    let (x, mut y) = (
        Buffer::from_slice(&other, &[1, 2, 3]).unwrap(),
        Buffer::<i32>::uninit(&other, 3).unwrap(),
    );
    raw::begin(&stream, raw::RELAXED);
    // SAFETY: what comes of it isn't used.
    let graph = Arc::new(unsafe { GraphMemory::new(&world.device).resource() });
    let buffer = Buffer::<u8>::uninit_in(&graph, &stream, 1000).unwrap();
    world.faults().arm(Fault::refused(E).on(Call::cuMemFreeAsync));
    let warning = world.warning(|| drop(buffer));
    world.faults().disarm();
    assert_eq!(told(&warning), (Some("cuMemFreeAsync"), Some(E.0), Some(Fate::Unknown)));
    y.copy_from(&x).unwrap();
    assert_eq!(y.to_vec().unwrap(), [1, 2, 3]);
    assert!(raw::is_captured(&stream));
    raw::end(&stream);
}

/// S45: what a graph's launches allocate and don't free is freed once, whichever of its owner and its executable goes first.
#[test]
fn memory_that_launches_left_is_freed_once_before_or_after_its_executable() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (memory, graph) = (GraphMemory::new(t.device()), graph(t));
        memory.trim().unwrap();
        let before = memory.usage().unwrap().used_bytes;
        for (launches, owner_first) in [(1, true), (2, true), (2, false)] {
            raw::begin(&stream, raw::RELAXED);
            let buffer = Buffer::<u8>::uninit_in(&graph, &stream, 1000).unwrap();
            let ptr = buffer.device_ptr();
            let made = raw::end_kept(&stream);
            let exec = raw::instantiate_freeing(t.device(), made);
            (0..launches).for_each(|_| raw::launch(exec, &stream));
            stream.synchronize().unwrap();
            assert!(memory.usage().unwrap().used_bytes > before);
            let end_owner = |buffer: Buffer<u8>| {
                let ((), calls) = t.calls(|| drop(buffer));
                assert!(!calls.contains(&"cuMemFreeAsync"), "{calls:?}");
                // SAFETY: left by the last launch, which is done, and used by nothing.
                unsafe { graph.free_launched(ptr, &stream) }.unwrap();
                // SAFETY: as above.
                let again = unsafe { graph.free_launched(ptr, &stream) }.unwrap_err();
                assert!(again.is(CUresult::INVALID_VALUE), "{again}");
                stream.synchronize().unwrap();
            };
            if owner_first {
                end_owner(buffer);
                raw::destroy_exec(t.driver(), exec);
            } else {
                raw::destroy_exec(t.driver(), exec);
                end_owner(buffer);
            }
            raw::destroy(t.driver(), made);
            memory.trim().unwrap();
            assert_eq!(memory.usage().unwrap().used_bytes, before, "{launches}, {owner_first}");
        }
    });
}

#[test]
fn a_device_tells_and_trims_what_it_keeps_for_graphs() {
    run(|t| {
        let memory = GraphMemory::new(t.device());
        memory.trim().unwrap();
        memory.reset_used_high().unwrap();
        memory.reset_reserved_high().unwrap();
        let usage = memory.usage().unwrap();
        assert_eq!(usage.used_high_bytes, usage.used_bytes);
        assert_eq!(usage.reserved_high_bytes, usage.reserved_bytes);
    });
}
