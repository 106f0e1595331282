//! Files that stand for something: both ends of a pipe, one of them the program's.

#![cfg_attr(
    unix,
    expect(unsafe_code, reason = "looks at files by the numbers that a program gives")
)]

#[cfg(unix)]
pub(crate) use unix::{Kept, identity, pair};

#[cfg(not(unix))]
pub(crate) use elsewhere::{Kept, identity, pair};

#[cfg(unix)]
mod unix {
    use std::{
        fs::File,
        mem::ManuallyDrop,
        os::{
            fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd},
            unix::fs::MetadataExt as _,
        },
    };

    use cuhold_driver_sys::ffi::c_int;

    /// The end of a pipe that the machine keeps.
    #[derive(Debug)]
    pub(crate) struct Kept {
        end: OwnedFd,
        identity: (u64, u64),
    }

    impl Kept {
        pub(crate) const fn identity(&self) -> (u64, u64) {
            self.identity
        }

        /// Whether any copy of the other end is open, in whichever process.
        pub(crate) fn is_open(&self) -> bool {
            let mut asked = libc::pollfd { fd: self.end.as_raw_fd(), events: 0, revents: 0 };
            // SAFETY: one live entry; a time limit of 0 makes it return at once.
            let answered = unsafe { libc::poll(&raw mut asked, 1, 0) };
            answered <= 0 || asked.revents & libc::POLLHUP == 0
        }
    }

    /// A pipe: the end to keep, and the number of the one to give away.
    pub(crate) fn pair() -> Option<(Kept, c_int)> {
        let (kept, given) = std::io::pipe().ok()?;
        let (end, given) = (OwnedFd::from(kept), OwnedFd::from(given));
        let identity = identity(given.as_raw_fd())?;
        Some((Kept { end, identity }, given.into_raw_fd()))
    }

    /// Which file a number is, the same for all copies of it; `None` where it is no open file's.
    pub(crate) fn identity(number: c_int) -> Option<(u64, u64)> {
        if number < 0 {
            return None;
        }
        // SAFETY: never closed here, since it is never dropped; a number that isn't open is only asked about, which the
        // system answers with an error.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
        let found = file.metadata().ok()?;
        Some((found.dev(), found.ino()))
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use cuhold_driver_sys::ffi::c_int;

    /// There are no files to keep.
    #[derive(Debug)]
    pub(crate) enum Kept {}

    impl Kept {
        pub(crate) const fn identity(&self) -> (u64, u64) {
            match *self {}
        }

        pub(crate) const fn is_open(&self) -> bool {
            match *self {}
        }
    }

    /// None.
    pub(crate) const fn pair() -> Option<(Kept, c_int)> {
        None
    }

    /// None.
    pub(crate) const fn identity(_: c_int) -> Option<(u64, u64)> {
        None
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::fd::{FromRawFd as _, OwnedFd};

    use super::*;

    #[test]
    fn a_file_is_open_until_its_last_copy_is_closed() {
        let (kept, given) = pair().unwrap();
        assert_eq!(identity(given), Some(kept.identity()));
        // SAFETY: the number is this test's alone.
        let given = unsafe { OwnedFd::from_raw_fd(given) };
        let copy = given.try_clone().unwrap();
        drop(given);
        assert!(kept.is_open());
        drop(copy);
        assert!(!kept.is_open());
    }

    #[test]
    fn no_file_has_no_identity() {
        assert_eq!(identity(-1), None);
        assert_eq!(identity(i32::MAX), None);
    }
}
