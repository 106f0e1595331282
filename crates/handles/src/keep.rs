//! Shared ownership of what queued or captured work uses.

use crate::resource::Owner;
use std::fmt;

/// Keeps a value alive that work on the GPU uses, whatever it is. Clones keep the same value.
#[derive(Clone)]
pub struct KeepAlive(Owner);

impl KeepAlive {
    /// Keeps this value alive.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        Self(owner)
    }

    /// The value.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.0
    }
}

impl fmt::Debug for KeepAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeepAlive").finish_non_exhaustive()
    }
}
