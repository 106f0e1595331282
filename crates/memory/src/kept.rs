//! What a context keeps for this crate between operations: staging memory that nobody uses at the moment.
//!
//! A context of somebody else's keeps nothing, since its end isn't known.

use crate::transfer::Staging;
use cuhold_handles::{
    CudaWarning,
    driver_sys::{Calls, Life},
    extra::ContextExtra,
};

/// What a context keeps.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) staging: Staging,
}

impl ContextExtra for Kept {
    fn end(&self, calls: Calls<'_>, warn: &mut dyn FnMut(CudaWarning)) {
        if calls.api().life() == Life::Forked {
            // The locks may be the parent's.
            return;
        }
        self.staging.end(calls, warn);
    }
}
