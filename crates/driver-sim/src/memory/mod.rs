//! Memory: not simulated yet; its functions answer *missing*.

use crate::{
    audit::{CallSite, Leak},
    context::Context,
    options::SimOptions,
    world::{Key, State},
};

/// The state of all memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {}

impl Memory {
    pub(crate) fn new(_options: &SimOptions) -> Self {
        Self {}
    }

    /// What is allocated and wasn't freed.
    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        std::iter::empty()
    }
}

impl State {
    /// Ends what belongs to a context that ends.
    pub(crate) fn end_context_in_memory(&mut self, _context: Key<Context>, _by: CallSite) {}
}
