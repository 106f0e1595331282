//! The exit mark: whether the process's exit has begun, and what is to be done when it does.
//!
//! Handlers of `atexit` run newest first. CUDA tears itself down in handlers of its own, so ours is registered after
//! `cuInit` and runs while the driver still answers.
//!
//! A handler runs on the thread that exits while all other threads go on, and in a forked child that exits it runs
//! with none of the parent's threads. So nothing here takes a lock: the hooks stand in a list of slots that are only
//! ever added and reused, each changed by one atomic exchange; and a hook runs only in the process that registered it.
//!
//! Exit is not noticed where nothing runs at exit: `_exit`, `abort`, a signal that kills.

#![expect(
    unsafe_code,
    reason = "registers a handler with the C library; owns hooks through atomic pointers"
)]

use core::{
    fmt, iter,
    mem::ManuallyDrop,
    panic::AssertUnwindSafe,
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};
use std::panic::catch_unwind;

use super::ForkWord;

/// Has exit noticed from now on; once per process, later calls do nothing.
///
/// A handler that is registered after a driver's own runs before it. [`Libcuda`](crate::Libcuda) therefore registers
/// one more itself, after its first successful `cuInit`.
pub fn watch_exit() {
    static WATCHED: AtomicBool = AtomicBool::new(false);

    if !WATCHED.swap(true, Ordering::Relaxed) && !register() {
        WATCHED.store(false, Ordering::Relaxed);
    }
}

/// Whether the exit of this process has begun. Stays false while nothing watches: see [`watch_exit`].
#[must_use]
#[inline]
pub fn exit_began() -> bool {
    BEGAN.load(Ordering::SeqCst)
}

/// Has `run` called once when exit begins, on the thread that exits, while other threads go on; until the [`ExitHook`]
/// is dropped. Hooks run in no particular order. In a forked child the parent's hooks don't run.
///
/// Either the hook runs, or [`exit_began`] answers true from the return of this function on (or both): whoever looks
/// after registering misses nothing.
///
/// The hook should bound what it waits for: the process can't end before it returns. A panic in it is caught. What it
/// owns is dropped with the [`ExitHook`], and never if it ran.
pub fn on_exit(run: impl Fn() + Send + Sync + 'static) -> ExitHook {
    watch_exit();
    let hook = Box::into_raw(Box::new(Hook { fork: ForkWord::new(), run: Box::new(run) }));
    let slot = slots().find(|slot| slot.exchange(ptr::null_mut(), hook));
    ExitHook { slot: slot.unwrap_or_else(|| Slot::push(hook)), hook: AtomicPtr::new(hook) }
}

/// Keeps a hook registered; dropping it takes the hook out, unless it runs or ran.
#[must_use = "dropping it takes the hook out"]
pub struct ExitHook {
    slot: &'static Slot,
    /// Invariant: what `Box::into_raw` gave, owned by whoever takes it out of the slot.
    hook: AtomicPtr<Hook>,
}

impl Drop for ExitHook {
    fn drop(&mut self) {
        let hook = *self.hook.get_mut();
        if self.slot.exchange(hook, ptr::null_mut()) {
            // SAFETY: it came from `Box::into_raw` and was in the slot until now; who takes it out owns it. Its address
            // can't be another hook's: one that ran is never freed.
            drop(unsafe { Box::from_raw(hook) });
        }
    }
}

impl fmt::Debug for ExitHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExitHook").finish_non_exhaustive()
    }
}

/// Registers the handler with the C library; false where it has no memory left for that.
///
/// The same handler any number of times: each run finds only the hooks that no run before it took.
pub(crate) fn register() -> bool {
    // Miri has no such function; nothing ends there by `exit` that this is about.
    #[cfg(all(any(unix, windows), not(miri)))]
    {
        // SAFETY: the handler doesn't unwind and lives as long as this image, whose unloading runs it.
        unsafe { libc::atexit(at_exit) == 0 }
    }
    #[cfg(not(all(any(unix, windows), not(miri))))]
    {
        false
    }
}

#[cfg(all(any(unix, windows), not(miri)))]
extern "C" fn at_exit() {
    BEGAN.store(true, Ordering::SeqCst);
    slots().for_each(Slot::run);
}

struct Hook {
    fork: ForkWord,
    run: Box<dyn Fn() + Send + Sync>,
}

/// A place for a hook, never freed: null, or a hook from `Box::into_raw`.
struct Slot {
    hook: AtomicPtr<Hook>,
    next: AtomicPtr<Self>,
}

impl Slot {
    fn push(hook: *mut Hook) -> &'static Self {
        let slot: &'static Self = Box::leak(Box::new(Self {
            hook: AtomicPtr::new(hook),
            next: AtomicPtr::new(ptr::null_mut()),
        }));
        let mut head = SLOTS.load(Ordering::Relaxed);
        loop {
            slot.next.store(head, Ordering::Relaxed);
            let raw = ptr::from_ref(slot).cast_mut();
            match SLOTS.compare_exchange(head, raw, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return slot,
                Err(now) => head = now,
            }
        }
    }

    /// Replaces `old` by `new`; false if something else is there.
    fn exchange(&self, old: *mut Hook, new: *mut Hook) -> bool {
        self.hook.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Takes the hook out, runs it if this process registered it, and leaves it where it is.
    #[cfg(any(unix, windows))]
    fn run(&self) {
        let hook = self.hook.swap(ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: null, or from `Box::into_raw`; who takes it out owns it, and it isn't freed here.
        if let Some(hook) = unsafe { hook.as_ref() }
            && !hook.fork.forked()
        {
            // A panic's payload is foreign too: dropping it may panic again.
            let _ = ManuallyDrop::new(catch_unwind(AssertUnwindSafe(|| (hook.run)())));
        }
    }
}

fn slots() -> impl Iterator<Item = &'static Slot> {
    let follow = |at: &AtomicPtr<Slot>| {
        // SAFETY: null, or a slot that `push` leaked and published.
        unsafe { at.load(Ordering::SeqCst).as_ref() }
    };
    iter::successors(follow(&SLOTS), move |slot| follow(&slot.next))
}

static BEGAN: AtomicBool = AtomicBool::new(false);
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, sync::Arc, thread};

    #[test]
    fn a_hook_that_is_taken_out_is_dropped_and_its_slot_is_used_again() {
        let owned = Arc::new(());
        for _ in 0..1000 {
            let kept = Arc::clone(&owned);
            let hook = on_exit(move || drop(Arc::clone(&kept)));
            assert_eq!(Arc::strong_count(&owned), 2);
            drop(hook);
            assert_eq!(Arc::strong_count(&owned), 1);
        }
        assert!(slots().count() < 1000);
    }

    #[test]
    fn threads_that_register_at_once_lose_no_hook() {
        let owned = Arc::new(());
        let hooks: Vec<ExitHook> = thread::scope(|scope| {
            let add = || {
                let kept = Arc::clone(&owned);
                on_exit(move || drop(Arc::clone(&kept)))
            };
            let add = move || (0..100).map(|_| add()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(add)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(Arc::strong_count(&owned), 1 + 800);
        let slots: BTreeSet<_> = hooks.iter().map(|hook| ptr::from_ref(hook.slot)).collect();
        assert_eq!(slots.len(), 800, "each hook has a slot of its own");
        drop(hooks);
        assert_eq!(Arc::strong_count(&owned), 1);
    }
}
