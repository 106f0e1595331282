//! The fork word: how a forked child learns that it is one, without a system call.
//!
//! There is one word per process, on a page that the kernel wipes in the child of a fork (`MADV_WIPEONFORK`). While
//! anything watches, it holds a number that no ancestor of this process used; so a [`ForkWord`] that remembers another
//! number was made before a fork.
//!
//! Where the kernel refuses (before Linux 4.14), a handler that the C library runs in the child of its `fork` wipes an
//! ordinary word; a child made by the bare system call isn't noticed then. On systems without `fork` nothing ever wipes.

#![expect(unsafe_code, reason = "maps a page and registers a handler with the C library")]

use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};

/// Tells whether this process was forked from the one that made the word.
///
/// Making one makes no system call but for the first in a process; asking is one relaxed load. It takes no lock, so it
/// may be made and asked in a forked child, in a signal handler and at exit.
#[derive(Debug)]
pub struct ForkWord {
    word: &'static AtomicU32,
    mine: AtomicU32,
}

impl ForkWord {
    /// Watches from now on.
    #[must_use]
    pub fn new() -> Self {
        Self::on(shared_word())
    }

    /// Watches from now on, in this process: an earlier fork is forgotten.
    pub fn renew(&self) {
        self.mine.store(number_of_this_process(self.word), Ordering::Relaxed);
    }

    /// Whether this process is a forked child, at any depth, of the one that made or last renewed this word.
    #[must_use]
    #[inline]
    pub fn forked(&self) -> bool {
        self.word.load(Ordering::Relaxed) != self.mine.load(Ordering::Relaxed)
    }

    fn on(word: &'static AtomicU32) -> Self {
        Self { word, mine: AtomicU32::new(number_of_this_process(word)) }
    }
}

impl Default for ForkWord {
    fn default() -> Self {
        Self::new()
    }
}

/// The number in the word, put there if the word was wiped (or never used).
///
/// The next number lies in ordinary memory, which a child inherits: a child's number differs from all its ancestors'.
fn number_of_this_process(word: &AtomicU32) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);

    let now = word.load(Ordering::Relaxed);
    if now != 0 {
        return now;
    }
    let fresh = NEXT.fetch_add(1, Ordering::Relaxed).max(1);
    match word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => fresh,
        Err(other) => other,
    }
}

/// The word of this process, made at the first use.
///
/// No `OnceLock`: a fork during the first use would leave it locked in the child for good. Of two threads that make it
/// at once one loses, and what it made stays unused.
fn shared_word() -> &'static AtomicU32 {
    static SHARED: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

    // SAFETY: `SHARED` is null, or holds what the exchange below put there: a reference for the life of the process.
    if let Some(word) = unsafe { SHARED.load(Ordering::Acquire).as_ref() } {
        return word;
    }
    let made = wiped_page().unwrap_or_else(wiped_by_handler);
    let raw = ptr::from_ref(made).cast_mut();
    match SHARED.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        // SAFETY: as above; it isn't null, or the exchange would have succeeded.
        Err(other) => unsafe { other.as_ref() }.unwrap_or(made),
    }
}

/// A word on a page of its own that the kernel wipes in the child of a fork; `None` where it refuses.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
fn wiped_page() -> Option<&'static AtomicU32> {
    use rustix::mm::{self, Advice, MapFlags, ProtFlags};

    // The kernel rounds up to a page.
    let (len, protection) = (size_of::<AtomicU32>(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new anonymous mapping, placed by the kernel, touches no memory that exists.
    let page = unsafe { mm::mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE) };
    let page = page.ok()?;
    // SAFETY: the page is the one just mapped; wiping it in a child leaves zeros, a valid word.
    if unsafe { mm::madvise(page, len, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: the page is the one just mapped, and nothing refers to it. If it can't be unmapped it stays.
        let _: rustix::io::Result<()> = unsafe { mm::munmap(page, len) };
        return None;
    }
    // SAFETY: the page is readable, writable, zeroed, aligned, never unmapped, and reached through atomics only.
    unsafe { page.cast::<AtomicU32>().as_ref() }
}

/// Nothing wipes a page here, nor under Miri, which knows no `madvise`.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
fn wiped_page() -> Option<&'static AtomicU32> {
    None
}

/// An ordinary word that the C library wipes in the child of its `fork`. Where it has no memory left to register the
/// handler, or has no `fork`, nothing wipes the word and no fork is noticed.
fn wiped_by_handler() -> &'static AtomicU32 {
    static WORD: AtomicU32 = AtomicU32::new(0);

    #[cfg(all(unix, not(miri)))]
    {
        extern "C" fn wipe() {
            WORD.store(0, Ordering::Relaxed);
        }
        // SAFETY: the handler may run in a child, where only what is safe in a signal handler is: it stores to an atomic.
        let _: libc::c_int = unsafe { libc::pthread_atfork(None, None, Some(wipe)) };
    }
    &WORD
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, process::Command};

    /// Forks, and tells whether `child` answered true there.
    fn in_fork(child: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child ends by `_exit` without returning; this process has one thread (`alone`).
        match unsafe { libc::fork() } {
            // SAFETY: ends the child without running anything of the parent's.
            0 => unsafe { libc::_exit(i32::from(child())) },
            pid => {
                let mut status = 0;
                // SAFETY: the child is ours and not yet waited for; `status` is writable.
                assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                assert!(libc::WIFEXITED(status), "the child ended with {status:#x}");
                libc::WEXITSTATUS(status) == 1
            }
        }
    }

    /// Runs `body` in a process of its own, which runs nothing but this test, on its only thread.
    fn alone(test: &str, body: impl FnOnce()) {
        const MARK: &str = "CUHOLD_TEST_ALONE";
        if env::var_os(MARK).is_some() {
            return body();
        }
        let test = format!("process::fork::tests::{test}");
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", &test, "--test-threads=1"])
            .env(MARK, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    fn forks_are_noticed(make: impl Fn() -> ForkWord) {
        let word = make();
        assert!(!word.forked());
        assert!(in_fork(|| word.forked()));
        assert!(!word.forked(), "the parent is no child");
        assert!(in_fork(|| {
            let own = make();
            word.forked() && !own.forked() && in_fork(|| word.forked() && own.forked())
        }));
        assert!(in_fork(|| {
            word.renew();
            !word.forked() && in_fork(|| word.forked())
        }));
    }

    #[test]
    fn a_child_and_its_child_notice_and_their_own_words_do_not() {
        alone("a_child_and_its_child_notice_and_their_own_words_do_not", || {
            forks_are_noticed(ForkWord::new);
        });
    }

    #[test]
    fn the_handler_does_what_the_page_does() {
        alone("the_handler_does_what_the_page_does", || {
            forks_are_noticed(|| ForkWord::on(wiped_by_handler()));
        });
    }

    #[test]
    fn words_of_one_process_share_one_number() {
        let (a, b) = (ForkWord::new(), ForkWord::new());
        assert!(!a.forked() && !b.forked());
        assert_eq!(a.mine.into_inner(), b.mine.into_inner());
    }
}
