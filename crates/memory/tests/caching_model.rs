//! The states of the caching resource in all orders of their steps: the files themselves, with loom's counters and cells.
//!
//! Loom knows no `membarrier`: here both sides pass a fence. That the system's barrier does what the fence does is for
//! `caching_duel.rs` to show.

#![expect(unsafe_code, reason = "each thread says that it owns its bin")]

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
#[path = "../src/caching/state/mod.rs"]
#[expect(dead_code, unused_imports, reason = "some of it needs streams")]
mod state;

#[cfg(test)]
mod sync {
    pub(crate) use cuhold_handles::driver_sys::mutant;
    pub(crate) use loom::{
        sync::{
            Arc,
            atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
        },
        thread::{yield_now, yield_now as spin_loop},
    };

    /// One class is enough: magazines know nothing of each other.
    pub(crate) const SMALL: usize = 1;

    pub(crate) fn bytes_of(_: usize) -> usize {
        256
    }

    #[derive(Debug, Default)]
    pub(crate) struct Room<T>(loom::cell::UnsafeCell<T>);

    impl<T> Room<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::cell::UnsafeCell::new(value))
        }
        pub(crate) fn with<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(work)
        }
    }

    pub(crate) fn near_fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub(crate) fn far_fence() -> bool {
        loom::sync::atomic::fence(Ordering::SeqCst);
        true
    }
}

#[cfg(test)]
mod model {
    use super::{
        state::{Bin, Bound, Over, Put, Shelf, Taken, Way},
        sync::{Arc, AtomicU32, AtomicUsize, Ordering},
    };
    use loom::{sync::Mutex, thread};

    const WAYS: [Way; 2] = [Way::Lock, Way::Biased];

    /// A lane with what the driver would know: which blocks are in use, and how many were freed.
    struct World {
        shelf: Mutex<Shelf>,
        in_use: [AtomicU32; 3],
        freed: AtomicUsize,
    }

    impl World {
        /// With so many blocks, all on the shelf, of which so many bytes may be cached.
        fn new(way: Way, blocks: u64, most: usize) -> Arc<Self> {
            let mut shelf = Shelf::new(way, 1, Arc::new(Bound::new(most)));
            for block in 1..=blocks {
                shelf.expect(0, false);
                shelf.lay_back(0, block);
            }
            let in_use = std::array::from_fn(|_| AtomicU32::new(0));
            Arc::new(Self { shelf: Mutex::new(shelf), in_use, freed: AtomicUsize::new(0) })
        }

        fn has(&self, block: u64) {
            let was = self.in_use[usize::try_from(block).unwrap()].swap(1, Ordering::Relaxed);
            assert_eq!(was, 0, "somebody has block {block} already");
        }

        fn has_no_more(&self, block: u64) {
            self.in_use[usize::try_from(block).unwrap()].store(0, Ordering::Relaxed);
        }

        fn free(&self, over: &Over) {
            for (class, block) in over.iter() {
                self.has(block);
                self.shelf.lock().unwrap().part(class);
                self.freed.fetch_add(1, Ordering::Relaxed);
            }
        }

        /// As an allocation does it on the thread that owns the bin.
        fn take(&self, bin: &Bin) -> Option<u64> {
            // SAFETY: the thread's own.
            let quick = unsafe { bin.take(0) };
            let block = match quick {
                0 => match self.shelf.lock().unwrap().take(Some(bin), 0) {
                    Taken::Block(block) => block,
                    Taken::Nothing | Taken::Closed => return None,
                },
                block => block,
            };
            self.has(block);
            Some(block)
        }

        /// As a drop does it there.
        fn put(&self, bin: &Bin, block: u64) {
            self.has_no_more(block);
            // SAFETY: the thread's own.
            if unsafe { bin.put(0, block) } {
                return;
            }
            let mut over = Over::new();
            let put = self.shelf.lock().unwrap().put(Some(bin), 0, block, &mut over);
            if put == Put::Closed {
                self.has(block);
                self.shelf.lock().unwrap().part(0);
                self.freed.fetch_add(1, Ordering::Relaxed);
            }
            self.free(&over);
        }

        fn once(&self, bin: &Bin) {
            if let Some(block) = self.take(bin) {
                self.put(bin, block);
            }
        }

        /// Takes everything that is cached, and frees it.
        fn steal(&self, for_good: bool) {
            let mut over = Over::new();
            let mut shelf = self.shelf.lock().unwrap();
            assert!(shelf.steal(for_good));
            shelf.clear(0, &mut over);
            drop(shelf);
            self.free(&over);
        }

        fn bin(&self) -> Arc<Bin> {
            self.shelf.lock().unwrap().new_bin(true).unwrap()
        }

        /// At the end each block was freed once.
        fn is_over(&self, blocks: usize) {
            self.steal(true);
            assert!(self.shelf.lock().unwrap().is_empty());
            assert_eq!(self.freed.load(Ordering::Relaxed), blocks);
        }
    }

    fn in_all_orders(preemptions: usize, work: fn(Way)) {
        for way in WAYS {
            let mut model = loom::model::Builder::new();
            model.preemption_bound = Some(preemptions);
            model.max_branches = 20_000;
            model.check(move || work(way));
        }
    }

    #[test]
    fn a_block_is_with_one_at_a_time_however_a_thief_comes_in_between() {
        in_all_orders(3, |way| {
            let world = World::new(way, 1, usize::MAX);
            let other = Arc::clone(&world);
            let owner = thread::spawn(move || {
                let bin = other.bin();
                other.once(&bin);
                other.once(&bin);
                other.shelf.lock().unwrap().leave(&bin);
            });
            world.steal(false);
            owner.join().unwrap();
            world.is_over(1);
        });
    }

    #[test]
    fn a_lane_that_closes_beside_its_owner_has_each_block_freed_once() {
        in_all_orders(3, |way| {
            let world = World::new(way, 2, usize::MAX);
            let bin = world.bin();
            let first = world.take(&bin).unwrap();
            world.put(&bin, first);
            let block = world.take(&bin).unwrap();
            let other = Arc::clone(&world);
            let thief = thread::spawn(move || other.steal(true));
            world.put(&bin, block);
            world.once(&bin);
            thief.join().unwrap();
            assert_eq!(world.take(&bin), None, "it is closed");
            world.is_over(2);
        });
    }

    #[test]
    fn two_thieves_beside_an_owner_have_no_block_together() {
        in_all_orders(2, |way| {
            let world = World::new(way, 1, usize::MAX);
            let bin = world.bin();
            let thieves: Vec<_> = (0..2)
                .map(|index| {
                    let other = Arc::clone(&world);
                    thread::spawn(move || other.steal(index == 1))
                })
                .collect();
            world.once(&bin);
            thieves.into_iter().for_each(|thief| thief.join().unwrap());
            world.is_over(1);
        });
    }

    #[test]
    fn what_there_is_no_room_for_is_freed_beside_a_thief() {
        in_all_orders(2, |way| {
            let world = World::new(way, 2, 256);
            let bin = world.bin();
            let (one, two) = (world.take(&bin).unwrap(), world.take(&bin).unwrap());
            let other = Arc::clone(&world);
            let thief = thread::spawn(move || other.steal(false));
            world.put(&bin, one);
            world.put(&bin, two);
            thief.join().unwrap();
            let counts = world.shelf.lock().unwrap().counts();
            assert!(counts.cached_bytes <= 256, "{counts:?}");
            world.is_over(2);
        });
    }
}
