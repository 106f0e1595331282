//! Staging memory whose copy couldn't be waited for: it isn't used again before the copy is known to be done.

use crate::flip::{World, told};
use cuhold_driver_sys::{CUresult, Call, Entry, Fault, Kind};
use cuhold_handles::{Fate, ObjectKind};
use cuhold_memory::Buffer;

const E: CUresult = CUresult(9001);

/// Where the copies of these calls had their host side.
fn host_sides(calls: &[Entry]) -> Vec<u64> {
    let to_device = |entry: &&Entry| entry.call() == Call::cuMemcpyHtoDAsync_v2;
    calls.iter().filter(to_device).map(|entry| entry.arguments()[1]).collect()
}

fn freed(calls: &[Entry]) -> Vec<u64> {
    let freeing = |entry: &&Entry| entry.call() == Call::cuMemFreeHost;
    calls.iter().filter(freeing).map(|entry| entry.arguments()[0]).collect()
}

/// A copy of which no wait succeeds: its error, and where its host side was.
fn stuck(world: &World, buffer: &mut Buffer<u8>) -> Vec<u64> {
    world.faults().arm(Fault::refused(E).on(Call::cuEventSynchronize));
    world.faults().arm(Fault::refused(E).on(Call::cuStreamSynchronize));
    let (error, calls) = world.sim.log().during(|| buffer.write_slice(&[1; 8]).unwrap_err());
    assert!(error.is(E), "{error}");
    assert_eq!((error.notes().len(), error.completed()), (1, Some(1)), "{error}");
    host_sides(&calls)
}

#[test]
fn staging_memory_that_a_copy_may_still_use_is_ended_once_the_stream_is_done() {
    let world = World::new();
    let by_hand = world.driver.reclaim().run_by_hand();
    let mut buffer = Buffer::<u8>::zeroed(&world.stream(), 8).unwrap();
    let first = stuck(&world, &mut buffer);
    world.faults().disarm();
    let ((), calls) = world.sim.log().during(|| buffer.write_slice(&[2; 8]).unwrap());
    let second = host_sides(&calls);
    assert_ne!(first, second);
    let (_, calls) = world.sim.log().during(|| assert!(by_hand.step()));
    let sync = calls.iter().position(|entry| entry.call() == Call::cuStreamSynchronize).unwrap();
    assert_eq!(freed(&calls[sync..]), first);
    assert_eq!(buffer.to_vec().unwrap(), [2; 8]);
}

#[test]
fn staging_memory_whose_stream_is_never_known_to_be_done_is_leaked_with_a_warning() {
    let world = World::new();
    let mut buffer = Buffer::<u8>::zeroed(&world.stream(), 8).unwrap();
    let (mut memory, mut calls) = (Vec::new(), Vec::new());
    let warning = world.warning(|| {
        let by_hand = world.driver.reclaim().run_by_hand();
        memory = stuck(&world, &mut buffer);
        ((), calls) = world.sim.log().during(|| assert!(by_hand.step()));
    });
    assert!(calls.iter().any(|entry| entry.call() == Call::cuStreamSynchronize));
    assert_eq!(told(&warning), (Some("cuStreamSynchronize"), Some(E.0), Some(Fate::Leaked)));
    let object = warning.object();
    assert_eq!((object.kind, object.raw), (ObjectKind::HostMemory, memory[0]));
    assert!(freed(&calls).is_empty());
}

#[test]
fn staging_memory_of_a_failing_copy_is_used_again_after_a_wait_for_the_stream() {
    let world = World::new();
    let mut buffer = Buffer::<u8>::zeroed(&world.stream(), 8).unwrap();
    world.faults().arm(Fault::done_but_failed(E).on_kind(Kind::Enqueue));
    let (error, calls) = world.sim.log().during(|| buffer.write_slice(&[1; 8]).unwrap_err());
    assert!(error.is(E) && error.notes().is_empty() && error.completed().is_none(), "{error}");
    let first = host_sides(&calls);
    world.faults().disarm();
    let ((), calls) = world.sim.log().during(|| buffer.write_slice(&[2; 8]).unwrap());
    assert_eq!(host_sides(&calls), first);
}
