//! The shelf of idle events in all orders of its steps: the file itself, with loom's atomics.

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
#[path = "../src/mark/shelf.rs"]
#[expect(dead_code, reason = "the model asks for no list of all")]
mod shelf;

#[cfg(test)]
mod sync {
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
}

#[cfg(test)]
mod model {
    use super::shelf::{Idle, Shelf};
    use cuhold_handles::driver_sys::ffi::CUevent;
    use loom::{sync::Arc, thread};

    fn idle(id: u64) -> Idle {
        Idle { event: CUevent::from_addr(16 * usize::try_from(id).unwrap()), id }
    }

    /// What is taken was put: both of its words.
    fn whole(taken: Option<Idle>) -> Option<u64> {
        taken.map(|taken| {
            assert_eq!(taken, idle(taken.id));
            taken.id
        })
    }

    /// All that is left, once the threads have ended.
    fn rest(shelf: &Shelf) -> Vec<u64> {
        std::iter::from_fn(|| whole(shelf.take())).collect()
    }

    /// Runs `work` on two threads, each with the number it puts, and gives what they took, and what is left.
    fn two(shelf: Shelf, work: impl Fn(&Shelf, u64) -> Vec<u64> + Copy + 'static) -> Vec<u64> {
        let shelf = Arc::new(shelf);
        let other = Arc::clone(&shelf);
        let thread = thread::spawn(move || work(&other, 2));
        let mut all = work(&shelf, 1);
        all.append(&mut thread.join().unwrap());
        all.append(&mut rest(&shelf));
        all.sort_unstable();
        all
    }

    #[test]
    fn what_two_threads_put_is_there_once_each() {
        loom::model(|| {
            let all = two(Shelf::new(2), |shelf, id| {
                assert!(shelf.put(idle(id)));
                whole(shelf.take()).into_iter().collect()
            });
            assert_eq!(all, [1, 2]);
        });
    }

    #[test]
    fn where_there_is_room_for_one_the_other_is_refused_and_nothing_is_lost() {
        loom::model(|| {
            let all = two(Shelf::new(1), |shelf, id| {
                // What is refused is destroyed by whoever put it: here it counts as taken.
                if shelf.put(idle(id)) { Vec::new() } else { vec![id] }
            });
            assert_eq!(all, [1, 2]);
        });
    }

    #[test]
    fn a_place_is_used_again_with_nothing_of_what_was_there() {
        loom::model(|| {
            let shelf = Shelf::new(1);
            assert!(shelf.put(idle(3)));
            let all = two(shelf, |shelf, id| {
                let mut out: Vec<u64> = whole(shelf.take()).into_iter().collect();
                if !shelf.put(idle(id)) {
                    out.push(id);
                }
                out
            });
            assert_eq!(all, [1, 2, 3]);
        });
    }
}
