//! Modules, libraries, kernels, launches: not simulated yet; their functions answer *missing*.

use crate::{
    audit::{CallSite, Leak},
    context::Context,
    options::SimOptions,
    world::{Key, State},
};

/// The state of all code.
#[derive(Debug, Default)]
pub(crate) struct Code {}

impl Code {
    pub(crate) fn new(_options: &SimOptions) -> Self {
        Self {}
    }

    /// What is loaded and wasn't unloaded.
    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        std::iter::empty()
    }
}

impl State {
    /// Ends what belongs to a context that ends.
    pub(crate) fn end_context_in_code(&mut self, _context: Key<Context>, _by: CallSite) {}
}

/// A loaded module.
#[derive(Debug)]
pub(crate) struct Module;
