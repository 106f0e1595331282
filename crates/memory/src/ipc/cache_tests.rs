//! The cache of imports step by step, where an order of steps must be had for sure. All orders: `tests/model.rs`.

use super::cache::{Cache, Freed, Share};
use std::sync::Arc;

const ADDRESS: u64 = 0x700;

fn enter(cache: &Cache<u8, ()>, slot: usize, key: u8) -> Arc<Share<u8, ()>> {
    cache.enter(slot, &key, || Ok::<_, ()>((ADDRESS, ()))).unwrap()
}

fn found(cache: &Cache<u8, ()>, slot: usize, key: u8) -> Arc<Share<u8, ()>> {
    cache.enter(slot, &key, || Err(())).unwrap()
}

#[test]
fn a_mapping_that_is_imported_again_before_its_last_import_has_ended_it_is_not_freed() {
    for slot in [0, 1] {
        let cache = Cache::new(2);
        let last = enter(&cache, 0, 7);
        assert!(last.fall());
        let adopted = found(&cache, slot, 7);
        let ended = cache.end(&last, ADDRESS, |()| (Freed::Gone, ()));
        assert!(ended.is_none(), "freed under the import that adopted it");
        assert_eq!(cache.mapped(), 1);
        assert_eq!(cache.leave(&adopted, ADDRESS, |()| (Freed::Gone, "freed")), Some("freed"));
        assert_eq!(cache.mapped(), 0);
    }
}

#[test]
fn of_two_that_brought_the_count_to_0_the_first_frees() {
    let cache = Cache::new(1);
    let one = enter(&cache, 0, 7);
    assert!(one.fall());
    let two = found(&cache, 0, 7);
    assert!(two.fall());
    assert_eq!(cache.end(&two, ADDRESS, |()| (Freed::Gone, "freed")), Some("freed"));
    assert_eq!(cache.end(&one, ADDRESS, |()| (Freed::Gone, "freed twice")), None);
}

#[test]
fn every_slot_and_key_finds_one_mapping_and_none_finds_it_once_it_is_freed() {
    let cache = Cache::new(64);
    let first = enter(&cache, 0, 7);
    // The driver gives the same address for another export of the same memory.
    let mut shares: Vec<_> = (0..200).map(|slot| enter(&cache, slot, 8)).collect();
    shares.extend((0..64).map(|slot| found(&cache, slot, 7)));
    assert_eq!(cache.mapped(), 1);
    for share in &shares {
        assert!(cache.leave(share, ADDRESS, |()| (Freed::Gone, ())).is_none());
    }
    assert!(cache.leave(&first, ADDRESS, |()| (Freed::Gone, ())).is_some());
    assert_eq!(cache.mapped(), 0);
    for slot in 0..64 {
        for key in [7, 8] {
            assert!(cache.enter(slot, &key, || Err::<(u64, ()), _>(())).is_err());
        }
    }
}

#[test]
fn a_mapping_whose_free_comes_again_is_found_meanwhile_and_freed_by_the_last() {
    let cache = Cache::new(1);
    let refused = enter(&cache, 0, 7);
    assert_eq!(cache.leave(&refused, ADDRESS, |()| (Freed::Again, "later")), Some("later"));
    let other = found(&cache, 0, 7);
    assert_eq!(cache.leave(&refused, ADDRESS, |()| (Freed::Gone, "freed")), None);
    assert_eq!(cache.leave(&other, ADDRESS, |()| (Freed::Gone, "freed")), Some("freed"));
}

#[test]
fn an_import_that_fails_leaves_nothing() {
    let cache = Cache::<u8, ()>::new(4);
    assert_eq!(cache.enter(0, &7, || Err("refused")).unwrap_err(), "refused");
    assert_eq!(cache.mapped(), 0);
    assert!(cache.leave(&enter(&cache, 0, 7), ADDRESS, |()| (Freed::Gone, ())).is_some());
}
