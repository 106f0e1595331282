//! A barrier that all threads of the process pass when one asks for it: `membarrier`, where the system has it.
//!
//! Source: Linux man-pages, membarrier(2).

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "makes the system call"))]

/// Whether the process is registered for the barrier, which is tried once.
#[cfg(target_os = "linux")]
pub(super) fn is_there() -> bool {
    use std::sync::OnceLock;
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| ask(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

/// Lets every thread pass it. `false`: refused, as by a filter of system calls that came after the registration.
#[cfg(target_os = "linux")]
pub(super) fn pass_all() -> bool {
    ask(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

#[cfg(target_os = "linux")]
fn ask(command: libc::c_int) -> bool {
    // SAFETY: the call takes no pointers; one that the system doesn't know answers an error.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_there() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pass_all() -> bool {
    false
}
