//! A duel over one bin of the caching resource, on real processors: its owner takes and puts without a lock, a thief empties
//! it. Only this sees whether the barrier of the biased way is there: without it nothing else fails.
//!
//! Before each step the owner writes to cache lines that the thief writes, too. Those writes wait, and behind them the one
//! that says that the owner is in, while the owner already reads that nobody asked it to keep out.

#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "makes the system call for the barrier")]

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
#[path = "../src/caching/state/mod.rs"]
#[expect(dead_code, unused_imports, reason = "some of it needs streams")]
mod state;

#[cfg(test)]
mod sync {
    pub(crate) use cuhold_handles::driver_sys::mutant;
    pub(crate) use std::{
        hint::spin_loop,
        sync::{
            Arc,
            atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence},
        },
        thread::yield_now,
    };

    pub(crate) const SMALL: usize = 1;

    pub(crate) fn bytes_of(_: usize) -> usize {
        256
    }

    #[derive(Debug, Default)]
    pub(crate) struct Room<T>(std::cell::UnsafeCell<T>);

    impl<T> Room<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }
        pub(crate) fn with<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
            work(self.0.get())
        }
    }

    pub(crate) fn near_fence() {
        compiler_fence(Ordering::SeqCst);
    }

    /// Whether the barrier is made.
    pub(crate) static IS_THERE: AtomicU8 = AtomicU8::new(1);

    pub(crate) fn far_fence() -> bool {
        IS_THERE.load(Ordering::Relaxed) == 0
            || super::duel::ask(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }
}

#[cfg(test)]
mod duel {
    use super::{
        state::{Bin, Bound, Over, Shelf, Taken, Way},
        sync::{Arc, AtomicU32, AtomicU64, IS_THERE, Ordering},
    };
    use crossbeam::utils::CachePadded;
    use std::{
        sync::Mutex,
        thread,
        time::{Duration, Instant},
    };

    pub(super) fn ask(command: libc::c_int) -> bool {
        // SAFETY: the call takes no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    const LINES: usize = 16;

    struct Arena {
        shelf: Mutex<Shelf>,
        /// Who has the block.
        holder: CachePadded<AtomicU32>,
        lines: [CachePadded<AtomicU64>; LINES],
        twice: AtomicU32,
        over: AtomicU32,
    }

    impl Arena {
        fn new() -> Self {
            let mut shelf = Shelf::new(Way::Biased, 1, Arc::new(Bound::new(usize::MAX)));
            shelf.expect(0, false);
            shelf.lay_back(0, 1);
            Self {
                shelf: Mutex::new(shelf),
                holder: CachePadded::new(AtomicU32::new(0)),
                lines: std::array::from_fn(|_| CachePadded::default()),
                twice: AtomicU32::new(0),
                over: AtomicU32::new(0),
            }
        }

        fn has(&self, who: u32) {
            if self.holder.swap(who, Ordering::AcqRel) != 0 {
                self.twice.fetch_add(1, Ordering::Relaxed);
                self.over.store(1, Ordering::Relaxed);
            }
        }

        fn is_over(&self) -> bool {
            self.over.load(Ordering::Relaxed) != 0
        }

        fn bounce(&self, value: u64) {
            self.lines.iter().for_each(|line| line.store(value, Ordering::Relaxed));
        }

        fn take(&self, bin: &Bin) -> bool {
            // SAFETY: the thread that calls this owns it.
            let quick = unsafe { bin.take(0) };
            quick != 0 || self.shelf.lock().unwrap().take(Some(bin), 0) == Taken::Block(1)
        }

        fn own(&self, bin: &Bin) -> u64 {
            let mut rounds = 0;
            while !self.is_over() {
                rounds += 1;
                self.bounce(rounds);
                if !self.take(bin) {
                    continue;
                }
                self.has(1);
                self.holder.store(0, Ordering::Release);
                self.bounce(rounds);
                // SAFETY: as above.
                if !unsafe { bin.put(0, 1) } {
                    let _put = self.shelf.lock().unwrap().put(Some(bin), 0, 1, &mut Over::new());
                }
            }
            rounds
        }

        fn steal(&self, until: Instant) -> u64 {
            let mut steals = 0;
            while !self.is_over() && Instant::now() < until {
                steals += 1;
                self.bounce(steals);
                let mut shelf = self.shelf.lock().unwrap();
                assert!(shelf.steal(false));
                let mut over = Over::new();
                shelf.clear(0, &mut over);
                for (class, block) in over.iter() {
                    self.has(2);
                    self.holder.store(0, Ordering::Release);
                    shelf.lay_back(class, block);
                }
            }
            self.over.store(1, Ordering::Relaxed);
            steals
        }
    }

    /// Duels for so long, or until a block was with both. Gives whether it was, and says how often they tried.
    #[expect(clippy::print_stdout, reason = "how hard it was tried")]
    fn is_seen(time: Duration) -> bool {
        let arena = Arena::new();
        let bin = arena.shelf.lock().unwrap().new_bin(true).unwrap();
        let until = Instant::now() + time;
        let (rounds, steals) = thread::scope(|scope| {
            let owner = scope.spawn(|| arena.own(&bin));
            let thief = scope.spawn(|| arena.steal(until));
            (owner.join().unwrap(), thief.join().unwrap())
        });
        println!("{rounds} rounds, {steals} steals");
        arena.twice.load(Ordering::Relaxed) > 0
    }

    /// One after the other: the barrier is there for the whole process or isn't.
    static ONE: Mutex<()> = Mutex::new(());

    #[test]
    fn with_the_barrier_a_block_is_never_with_two() {
        let _one = ONE.lock().unwrap();
        // Where the barrier is taken out on purpose it ends as soon as that is seen, which may take a while.
        let is_taken_out = std::env::var_os("CUHOLD_MUTANT").is_some();
        let seconds = if is_taken_out { 50 } else { 10 };
        if ask(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            assert!(!is_seen(Duration::from_secs(seconds)));
        }
    }

    #[test]
    #[ignore = "needs two processors to itself: whether the duel sees a missing barrier at all"]
    fn without_the_barrier_the_duel_sees_a_block_with_two() {
        let _one = ONE.lock().unwrap();
        IS_THERE.store(0, Ordering::Relaxed);
        let seen = is_seen(Duration::from_secs(60));
        IS_THERE.store(1, Ordering::Relaxed);
        assert!(seen);
    }
}
