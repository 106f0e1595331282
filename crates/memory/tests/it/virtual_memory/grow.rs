//! Growing and shrinking: what stays, what is shared, and what a failure leaves.

use super::{drain, memory, memory_with, words};
use cuhold_driver_sim::{ObjectKind as SimKind, Sim};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{Closed, ErrorKind, Note};
use cuhold_memory::{VirtualBuffer, VirtualMemoryOptions};
use cuhold_testkit::{Kit, run, run_simulated};

const E: CUresult = CUresult(9001);

/// How many mappings, reservations and allocations there are.
fn alive(sim: &Sim) -> [usize; 3] {
    [SimKind::Mapping, SimKind::Reservation, SimKind::PhysicalAllocation].map(|kind| sim.live(kind))
}

fn granule(t: &Kit) -> usize {
    memory(t).granularity_bytes()
}

#[test]
fn where_addresses_are_reserved_a_buffer_grows_in_place() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let granule = granule(t);
        let options = VirtualMemoryOptions::default().reserve_bytes(8 * granule);
        let memory = memory_with(t, options);
        let small = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
        let (mut large, calls) = t.calls(|| small.grow(granule).unwrap());
        assert_eq!(calls, ["cuMemCreate", "cuMemMap", "cuMemSetAccess"]);
        assert_eq!(large.device_ptr(), small.device_ptr());
        assert_eq!(large.mapped_bytes(), 4 * granule);
        large.view_mut(granule - 1..).unwrap().fill(5).unwrap();
        assert_eq!(large.view(..100).unwrap().to_vec().unwrap(), words(100));
        assert_eq!(small.to_vec().unwrap(), words(100));
        // The first mapping is both buffers': it ends with the last.
        assert_eq!(small.close().unwrap(), Closed::Destroyed);
        assert_eq!(large.view(..100).unwrap().to_vec().unwrap(), words(100));
        assert_eq!(large.close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn a_growth_that_fits_what_is_mapped_makes_no_call() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let small = VirtualBuffer::from_slice(&memory(t), &stream, &words(100)).unwrap();
        let (large, calls) = t.calls(|| small.grow(1000).unwrap());
        assert_eq!(calls, [""; 0]);
        assert_eq!((large.device_ptr(), large.len()), (small.device_ptr(), 1000));
        drop(small);
        assert_eq!(large.view(..100).unwrap().to_vec().unwrap(), words(100));
        drop(large);
        drain(t);
    });
}

#[test]
fn elsewhere_the_same_memory_is_mapped_again_and_both_hold_the_same_bytes() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let memory = memory(t);
        let granule = memory.granularity_bytes();
        let mut small = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
        // Whoever has the addresses behind: this buffer can't.
        let in_the_way = small.grow(2 * granule / 4).unwrap();
        let mut large = small.grow(3 * granule / 4).unwrap();
        if in_the_way.device_ptr() == small.device_ptr() {
            assert_ne!(large.device_ptr(), small.device_ptr());
        }
        assert_eq!(large.view(..100).unwrap().to_vec().unwrap(), words(100));
        large.view_mut(..1).unwrap().fill(77).unwrap();
        small.view_mut(1..2).unwrap().fill(88).unwrap();
        assert_eq!(small.view(..3).unwrap().to_vec().unwrap(), [77, 88, 2]);
        assert_eq!(large.view(..3).unwrap().to_vec().unwrap(), [77, 88, 2]);
        assert_eq!(in_the_way.view(..3).unwrap().to_vec().unwrap(), [77, 88, 2]);
        drop((small, in_the_way));
        drain(t);
        assert_eq!(large.view(..3).unwrap().to_vec().unwrap(), [77, 88, 2]);
        drop(large);
        drain(t);
    });
}

#[test]
fn a_buffer_grows_under_the_work_that_uses_it() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let memory = memory(t);
        let granule = memory.granularity_bytes();
        let mut buffer = VirtualBuffer::<u32>::zeroed(&memory, &stream, granule / 4).unwrap();
        for round in 1..=4_u32 {
            for value in 0..20 {
                buffer.as_view_mut().fill(100 * round + value).unwrap();
            }
            // Nothing was waited for: the fills run while this is mapped, and what they wrote is seen behind them.
            let larger = buffer.grow(buffer.len() + granule / 4).unwrap();
            drop(std::mem::replace(&mut buffer, larger));
            let first = buffer.view(..1).unwrap().to_vec().unwrap();
            assert_eq!(first, [100 * round + 19]);
        }
        assert_eq!(buffer.mapped_bytes(), 5 * granule);
        drop(buffer);
        drain(t);
    });
}

#[test]
fn a_growth_that_fails_at_any_call_leaves_the_old_buffer_readable_and_writable() {
    run_simulated(|t, sim| {
        let stream = t.device().new_stream().unwrap();
        let granule = granule(t);
        for reserved in [0, 8 * granule] {
            let options =
                VirtualMemoryOptions::default().reserve_bytes(reserved).part_bytes(granule);
            let memory = memory_with(t, options);
            let mut buffer = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
            let before = alive(sim);
            for call in ["cuMemCreate", "cuMemMap", "cuMemSetAccess"] {
                for nth in 1..=3 {
                    t.faults().arm(Fault::refused(E).on_function(call).nth(nth));
                    let error = buffer.grow(granule).unwrap_err();
                    t.faults().disarm();
                    assert!(error.is(E), "{call} {nth}: {error}");
                    let said = |note: &Note| matches!(note, Note::Text(text) if text.contains("parts were mapped"));
                    assert!(error.notes().iter().any(said), "{error}");
                    assert_eq!(alive(sim), before, "{call} {nth}");
                    let value = u32::try_from(nth).unwrap();
                    buffer.view_mut(1..2).unwrap().fill(value).unwrap();
                    assert_eq!(buffer.view(..3).unwrap().to_vec().unwrap(), [0, value, 2]);
                }
            }
            let grown = buffer.grow(granule).unwrap();
            assert_eq!(grown.mapped_bytes(), 4 * granule);
            drop((buffer, grown));
            // What is alive is counted anew.
            drain(t);
        }
        drain(t);
    });
}

#[test]
fn what_an_undo_can_t_undo_is_part_of_the_error_and_its_addresses_are_not_used_again() {
    // Its own driver: something is left.
    let world = crate::flip::World::new();
    let stream = world.stream();
    let options = VirtualMemoryOptions::default().reserve_bytes(64 << 20).part_bytes(2 << 20);
    let memory = cuhold_memory::VirtualMemory::new(&world.device, options).unwrap();
    let buffer = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
    let behind = buffer.device_ptr() + buffer.mapped_bytes() as u64;
    world.faults().arm(Fault::refused(E).on(Call::cuMemSetAccess).nth(1));
    world.faults().arm(Fault::refused(CUresult(9002)).on(Call::cuMemUnmap).nth(1));
    let error = buffer.grow(1 << 20).unwrap_err();
    world.faults().disarm();
    assert!(error.is(E), "{error}");
    let unmap = |note: &Note| {
        matches!(note, Note::UndoFailed(failure)
            if failure.call == Call::cuMemUnmap && failure.status == CUresult(9002))
    };
    assert!(error.notes().iter().any(unmap), "{error}");
    assert!(error.notes().contains(&Note::Leaked { raw: behind }), "{error}");
    // In place there is no room that is known to be free: elsewhere there is.
    let grown = buffer.grow(1 << 20).unwrap();
    assert_ne!(grown.device_ptr(), buffer.device_ptr());
    assert_eq!(grown.view(..100).unwrap().to_vec().unwrap(), words(100));
    let warnings = world.warnings(|| {
        drop((buffer, grown));
        world.driver.reclaim().drain(super::PATIENCE).unwrap();
    });
    assert_eq!(warnings, []);
}

#[test]
fn what_a_buffer_grew_by_is_given_back_and_can_be_grown_into_again() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let granule = granule(t);
        let options = VirtualMemoryOptions::default().reserve_bytes(2 * granule);
        let memory = memory_with(t, options);
        let small = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
        for _ in 0..3 {
            let large = small.grow(2 * granule / 4).unwrap();
            assert_eq!(large.device_ptr(), small.device_ptr());
            large.close().unwrap();
        }
        assert_eq!(small.to_vec().unwrap(), words(100));
        drop(small);
        drain(t);
    });
}

#[test]
fn a_shrunk_buffer_keeps_the_first_parts_and_the_rest_goes_with_the_old_one() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let granule = granule(t);
        let memory = memory_with(t, VirtualMemoryOptions::default().part_bytes(granule));
        let len = 4 * granule / 4;
        let large = VirtualBuffer::<u32>::zeroed(&memory, &stream, len).unwrap();
        let (mut small, calls) = t.calls(|| large.shrink(granule / 4 + 1).unwrap());
        assert_eq!(calls, [""; 0]);
        assert_eq!((small.parts(), small.mapped_bytes()), (2, 2 * granule));
        let (_, calls) = t.calls(|| large.close().unwrap());
        let unmapped = calls.iter().filter(|call| **call == "cuMemUnmap").count();
        assert_eq!(unmapped, 2, "{calls:?}");
        small.as_view_mut().fill(3).unwrap();
        assert_eq!(small.view(granule / 4..).unwrap().to_vec().unwrap(), [3]);
        // And grown again, into the addresses that are free now.
        let again = small.grow(len).unwrap();
        assert_eq!(again.device_ptr(), small.device_ptr());
        assert!(small.shrink(0).unwrap().is_empty());
        drop((small, again));
        drain(t);
    });
}

#[test]
fn growing_and_shrinking_refuse_the_other_s_sizes() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let buffer = VirtualBuffer::<u8>::uninit(&memory(t), &stream, 10).unwrap();
        let error = buffer.grow(9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert_eq!(
            error.to_string(),
            "len: 9, and the buffer has 10 elements: `shrink` makes it smaller"
        );
        assert_eq!(buffer.shrink(11).unwrap_err().kind(), ErrorKind::Argument);
        drop(buffer);
        drain(t);
    });
}
