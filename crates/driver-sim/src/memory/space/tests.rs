//! Bounds, liveness and storage of allocations.

use std::thread;

use cuhold_driver_sys::Call;

use super::*;
use crate::world::Table;

/// Addresses are given once.
const NEVER: Values = Values { reuse: false, process: 1 };

fn site(number: u64) -> CallSite {
    CallSite::new(number, Call::cuMemAllocAsync, thread::current().id())
}

fn request(size_bytes: u64) -> Request {
    let mut pools = Table::new(ObjectKind::Pool, NEVER);
    let pool = pools.insert(site(1), Pool::new(Location::Device(0), 0));
    Request { size_bytes, origin: Origin::Pool(pool), device: 0, made: site(2) }
}

fn is_freed_at(result: Result<Place, Misplaced>, expected: u64) -> bool {
    matches!(result, Err(Misplaced::Freed(Freed { base, .. })) if base == expected)
}

#[test]
fn bounds_are_those_asked_for_not_those_rounded_up() {
    let mut space = Space::new(NEVER);
    let base = space.add_device(request(100)).unwrap();
    assert!(matches!(space.locate(base + 99, 1), Ok(Place::Known { .. })));
    assert!(matches!(
        space.locate(base + 99, 2),
        Err(Misplaced::OutOfBounds { base: b, .. }) if b == base
    ));
    assert!(matches!(space.locate(base + 100, 1), Err(Misplaced::Wild { .. })));
}

#[test]
fn a_range_that_runs_over_the_end_of_the_address_space_is_out_of_bounds() {
    let mut space = Space::new(NEVER);
    let base = space.add_device(request(100)).unwrap();
    assert!(matches!(space.locate(base + 1, u64::MAX), Err(Misplaced::OutOfBounds { .. })));
}

#[test]
fn a_freed_address_is_known_as_freed_and_never_given_out_again() {
    let mut space = Space::new(NEVER);
    let first = space.add_device(request(64)).unwrap();
    space.remove(first, site(3), Ending::Destroyed).unwrap();
    let second = space.add_device(request(64)).unwrap();
    assert_ne!(first, second);
    assert!(is_freed_at(space.locate(first + 3, 1), first));
    let Err(Misplaced::Freed(freed)) = space.read(first, &mut [0]) else { panic!("readable") };
    assert_eq!((freed.grave.made, freed.grave.ended), (site(2), site(3)));
}

#[test]
fn after_a_free_was_enqueued_the_address_is_refused_but_queued_work_still_reaches_it() {
    let mut space = Space::new(NEVER);
    let base = space.add_device(request(4)).unwrap();
    space.write(base, &[1, 2, 3, 4]).unwrap();
    space.at_mut(base).unwrap().free_enqueued = Some(site(3));
    assert!(is_freed_at(space.locate(base, 1), base));
    let mut out = [0; 4];
    space.read(base, &mut out).unwrap();
    assert_eq!(out, [1, 2, 3, 4]);
}

#[test]
fn host_addresses_are_the_host_s_and_unknown_ones_are_pageable() {
    let mut space = Space::new(NEVER);
    let base = space.add_host(request(16)).unwrap();
    assert!(base < FIRST_DEVICE_ADDRESS);
    space.write(base + 4, &[1, 2]).unwrap();
    let mut out = [0; 3];
    space.read(base + 4, &mut out).unwrap();
    assert_eq!(out, [1, 2, 0]);
    space.remove(base, site(3), Ending::Destroyed).unwrap();
    assert!(matches!(space.locate(base, 1), Ok(Place::Pageable)));
    assert!(matches!(space.read(base, &mut out), Err(Misplaced::Wild { .. })));
    let far = FIRST_DEVICE_ADDRESS + (1 << 40);
    assert!(matches!(space.locate(far, 1), Err(Misplaced::Wild { .. })));
}

#[test]
fn an_overlap_is_seen_from_both_sides() {
    let mut space = Space::new(NEVER);
    let block = [0_u8; 64];
    let base = core::ptr::from_ref(&block).addr() as u64;
    // SAFETY: nothing is read or written through the space here.
    unsafe { space.add_registered(base + 16, request(16)) };
    assert!(!space.overlaps(base, 16));
    assert!(space.overlaps(base, 17));
    assert!(space.overlaps(base + 31, 1));
    assert!(!space.overlaps(base + 32, 32));
}

#[test]
fn with_reuse_on_the_address_that_was_freed_last_is_given_again_and_is_no_longer_stale() {
    let mut space = Space::new(Values { reuse: true, ..NEVER });
    let [first, second] = [64, 64].map(|size| space.add_device(request(size)).unwrap());
    for base in [first, second] {
        space.remove(base, site(3), Ending::Destroyed).unwrap();
    }
    assert!(is_freed_at(space.locate(second, 1), second));
    assert_eq!(space.add_device(request(100)), Some(second));
    assert!(matches!(space.locate(second, 100), Ok(Place::Known { .. })));
    assert_ne!(space.add_device(request(GUARD_BYTES + 1)), Some(first));
    assert_eq!(space.add_device(request(1)), Some(first));
    assert!(matches!(space.locate(first + 10, 1), Err(Misplaced::Wild { .. })));
}
