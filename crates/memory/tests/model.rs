//! The cache of imports in all orders of its steps: the file itself, with loom's locks and counters.
//!
//! A driver of one piece of memory stands below it. It knows what is mapped, and stops the model where memory is imported
//! that is mapped already, freed that isn't, or used after it was freed.

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
#[path = "../src/ipc/cache.rs"]
mod cache;

#[cfg(test)]
mod sync {
    pub(crate) use cuhold_handles::driver_sys::mutant;
    use loom::sync::MutexGuard;
    pub(crate) use loom::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

#[cfg(test)]
mod model {
    use super::{
        cache::{Cache, Freed, Share},
        sync::Arc,
    };
    use std::sync::Mutex;

    const ADDRESS: u64 = 0x700;

    /// What the driver has done, and what it answers. Its lock is no step of the model.
    #[derive(Default)]
    struct Driver(Mutex<State>);

    #[derive(Default)]
    struct State {
        mapped: bool,
        imports: usize,
        frees: usize,
        /// How many frees the driver refuses, inside somebody's callback.
        refuse: usize,
        /// How many frees are made and reported as failed.
        fail: usize,
    }

    impl Driver {
        fn import(&self) -> (u64, ()) {
            let mut state = self.0.lock().unwrap();
            assert!(!state.mapped, "imported while it is mapped: the first free would unmap both");
            state.mapped = true;
            state.imports += 1;
            (ADDRESS, ())
        }

        fn free(&self) -> (Freed, Result<(), ()>) {
            let mut state = self.0.lock().unwrap();
            assert!(state.mapped, "freed twice");
            if state.refuse > 0 {
                state.refuse -= 1;
                return (Freed::Again, Err(()));
            }
            state.mapped = false;
            state.frees += 1;
            if state.fail > 0 {
                state.fail -= 1;
                return (Freed::Gone, Err(()));
            }
            (Freed::Gone, Ok(()))
        }

        fn use_it(&self) {
            assert!(self.0.lock().unwrap().mapped, "used after its free");
        }
    }

    /// A process: its driver, and its cache of keys that all name the one piece of memory.
    #[derive(Clone)]
    struct Process {
        driver: Arc<Driver>,
        cache: Arc<Cache<u8, ()>>,
        /// Where this thread looks up.
        slot: usize,
    }

    impl Process {
        fn new(slots: usize, refuse: usize, fail: usize) -> Self {
            let driver = Driver::default();
            *driver.0.lock().unwrap() = State { refuse, fail, ..State::default() };
            let cache = Cache::new(slots);
            Self { driver: Arc::new(driver), cache: Arc::new(cache), slot: 0 }
        }

        fn enter(&self, key: u8) -> Arc<Share<u8, ()>> {
            let map = || Ok::<_, ()>(self.driver.import());
            let share = self.cache.enter(self.slot, &key, map).unwrap();
            let () = share.mapping();
            self.driver.use_it();
            share
        }

        fn leave(&self, share: &Share<u8, ()>) -> Option<Result<(), ()>> {
            self.driver.use_it();
            self.cache.leave(share, ADDRESS, |()| self.driver.free())
        }

        /// As a drop does whose free was refused: it comes again.
        fn leave_for_good(&self, share: &Share<u8, ()>) {
            while self.leave(share).is_some_and(|freed| freed.is_err()) {}
        }

        fn once(&self) {
            let share = self.enter(0);
            let _: Option<Result<(), ()>> = self.leave(&share);
        }

        /// At the end nothing is mapped, and each mapping was freed once.
        fn is_empty(&self) {
            let state = self.driver.0.lock().unwrap();
            assert!(!state.mapped);
            assert_eq!(state.imports, state.frees);
            drop(state);
            assert_eq!(self.cache.mapped(), 0);
        }
    }

    /// Does the same on several threads, this one included, each with a slot of its own if there are as many.
    fn on_threads(process: &Process, count: usize, work: fn(&Process)) {
        let others: Vec<_> = (1..count)
            .map(|slot| {
                let process = Process { slot, ..process.clone() };
                loom::thread::spawn(move || work(&process))
            })
            .collect();
        work(process);
        for other in others {
            other.join().unwrap();
        }
    }

    /// All orders of the same work, of threads that share a slot and of threads that don't; at most so many of them are
    /// interrupted where they needn't be.
    fn in_all_orders(preemptions: Option<usize>, work: fn(usize)) {
        for slots in [1, 2] {
            let mut model = loom::model::Builder::new();
            model.preemption_bound = preemptions;
            model.check(move || work(slots));
        }
    }

    #[test]
    fn an_import_beside_the_last_drop_adopts_the_mapping_or_maps_it_again() {
        in_all_orders(None, |slots| {
            let process = Process::new(slots, 0, 0);
            on_threads(&process, 2, Process::once);
            process.is_empty();
        });
    }

    #[test]
    fn of_three_threads_that_import_and_drop_each_mapping_is_freed_once() {
        in_all_orders(Some(2), |slots| {
            let process = Process::new(slots, 0, 0);
            on_threads(&process, 3, Process::once);
            process.is_empty();
        });
    }

    #[test]
    fn a_thread_that_imports_twice_beside_one_that_drops_never_uses_what_is_freed() {
        in_all_orders(Some(2), |slots| {
            let process = Process::new(slots, 0, 0);
            on_threads(&process, 2, |process| {
                let one = process.enter(0);
                let two = process.enter(0);
                let _: Option<Result<(), ()>> = process.leave(&one);
                let _: Option<Result<(), ()>> = process.leave(&two);
            });
            process.is_empty();
        });
    }

    #[test]
    fn a_free_that_was_refused_in_a_callback_is_made_when_it_comes_again() {
        in_all_orders(None, |slots| {
            let process = Process::new(slots, 1, 0);
            on_threads(&process, 2, |process| {
                let share = process.enter(0);
                process.leave_for_good(&share);
            });
            process.is_empty();
        });
    }

    #[test]
    fn a_look_up_beside_a_free_that_is_refused_has_the_mapping_or_maps_it_again() {
        in_all_orders(Some(3), |slots| {
            let process = Process::new(slots, 1, 0);
            // Both slots know it, so that the look-up may find it dead.
            let shares: Vec<_> =
                (0..2).map(|slot| Process { slot, ..process.clone() }.enter(0)).collect();
            assert!(process.leave(&shares[1]).is_none());
            let other = Process { slot: 1, ..process.clone() };
            let finder = loom::thread::spawn(move || other.leave_for_good(&other.enter(0)));
            process.leave_for_good(&shares[0]);
            finder.join().unwrap();
            process.is_empty();
        });
    }

    #[test]
    fn a_free_that_is_reported_as_failed_is_made_once_and_its_mapping_never_used_again() {
        in_all_orders(None, |slots| {
            let process = Process::new(slots, 0, 1);
            on_threads(&process, 2, Process::once);
            process.is_empty();
        });
    }

    #[test]
    fn a_sink_that_imports_while_it_is_told_of_a_failed_free_finds_no_lock_held() {
        in_all_orders(Some(4), |slots| {
            let process = Process::new(slots, 0, 1);
            on_threads(&process, 2, |process| {
                let share = process.enter(0);
                if let Some(Err(())) = process.leave(&share) {
                    // The sink, on the thread that dropped.
                    process.once();
                }
            });
            process.is_empty();
        });
    }

    #[test]
    fn two_descriptors_of_one_memory_share_its_mapping() {
        // Here the driver gives one address for both, as it does.
        in_all_orders(None, |slots| {
            let process = Process::new(slots, 0, 0);
            let one = process.enter(0);
            let two = process.cache.enter(0, &1, || Ok::<_, ()>((ADDRESS, ()))).unwrap();
            assert!(std::ptr::eq(one.mapping(), two.mapping()));
            assert!(process.leave(&one).is_none());
            let again = process.enter(1);
            assert!(process.leave(&two).is_none());
            assert_eq!(process.leave(&again), Some(Ok(())));
            process.is_empty();
        });
    }
}
