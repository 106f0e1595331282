//! A real fork, and what becomes of the child.

#![expect(unsafe_code, reason = "forks")]

/// Forks; the child runs `child` and ends with the number that it gives, which is returned. It is killed if it doesn't
/// end by itself.
pub fn in_fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls nothing that another thread of the parent's may hold a lock of: that is what is tested.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: asks for a signal.
            unsafe { libc::alarm(20) };
            let code = child();
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(code) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: the child is ours and not yet waited for; `status` is writable.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert!(libc::WIFEXITED(status), "the child ended with {status:#x}");
            libc::WEXITSTATUS(status)
        }
    }
}
