//! What the operating system answers, where this library calls it.

use std::fmt;

/// What the operating system answered: a number of `errno`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a number of the system's")]
pub struct Errno(pub i32);

impl Errno {
    /// That of the last call which failed on this thread.
    pub(crate) fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or_default())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The system's own words, which end with the number.
        fmt::Display::fmt(&std::io::Error::from_raw_os_error(self.0), f)
    }
}
