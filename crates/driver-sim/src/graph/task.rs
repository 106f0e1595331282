//! What a node is and does: its kind, its parameters as they are told, and the work of each launch.

use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::Arc,
};

use cuhold_driver_sys::ffi::*;

use super::{Condition, Graph, NodeKind, Params};
use crate::{audit::CallSite, context::Context, event::Event, queue::Work, world::Key};

/// What a node is, and what it does.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) kind: NodeKind,
    /// As its maker gave them.
    pub(crate) params: Params,
    pub(crate) deed: Deed<Key<Graph>>,
    /// What an executable's update may not change.
    pub(crate) fixed: Fixed,
}

/// What is done at each launch. `G` is a graph inside: of a node a graph, of an executable what that was.
#[derive(Clone, Debug)]
pub(crate) enum Deed<G> {
    /// These, in order.
    Works(Vec<Work>),
    /// An event's record.
    Record(Key<Event>),
    /// A wait for an event's last record when the graph is launched.
    Await(Key<Event>),
    /// Memory at this address begins, as this call has it.
    Alloc(u64, CallSite),
    /// Memory at this address ends, as this call has it.
    Free(u64, CallSite),
    /// A graph.
    Child(G),
    /// Graphs by a condition.
    Conditional { condition: Arc<Condition>, kind: CUgraphConditionalNodeType, bodies: Vec<G> },
}

impl<G> Deed<G> {
    /// Nothing at all.
    pub(crate) const NOTHING: Self = Self::Works(Vec::new());

    /// The graphs inside.
    pub(crate) fn graphs(&self) -> &[G] {
        match self {
            Self::Child(graph) => std::slice::from_ref(graph),
            Self::Conditional { bodies, .. } => bodies,
            _ => &[],
        }
    }

    /// The same with other graphs inside; `None` if one of them isn't there.
    pub(crate) fn with<H>(&self, mut graph: impl FnMut(&G) -> Option<H>) -> Option<Deed<H>> {
        Some(match self {
            Self::Works(works) => Deed::Works(works.clone()),
            Self::Record(event) => Deed::Record(*event),
            Self::Await(event) => Deed::Await(*event),
            Self::Alloc(address, by) => Deed::Alloc(*address, *by),
            Self::Free(address, by) => Deed::Free(*address, *by),
            Self::Child(child) => Deed::Child(graph(child)?),
            Self::Conditional { condition, kind, bodies } => {
                let bodies = bodies.iter().map(graph).collect::<Option<_>>()?;
                let condition = Arc::clone(condition);
                Deed::Conditional { condition, kind: *kind, bodies }
            }
        })
    }
}

/// What an update of an executable may not change about a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fixed {
    /// Nothing that is looked at.
    Nothing,
    /// The context that a kernel runs in.
    Context(Key<Context>),
    /// That a copy, or a fill, is of one row; others aren't updated.
    Row,
    /// All of it, of which this number is made: a copy or a fill of several rows, memory.
    Rows(u64),
    /// How many semaphores there are.
    Count(usize),
    /// The handle of the condition, and how many bodies there are.
    Condition(u64, usize),
}

impl Task {
    /// A node that was captured, whose parameters aren't known.
    pub(crate) fn captured(kind: NodeKind, params: Params, work: Work) -> Self {
        let fixed = match &params {
            Params::Kernel(kernel) => Fixed::Context(kernel.context),
            Params::Memcpy(copy, _) if copy.is_row() => Fixed::Row,
            Params::Memset(fill) if fill.height <= 1 => Fixed::Row,
            Params::Memcpy(copy, _) => Fixed::Rows(copy.hash()),
            Params::Memset(fill) => Fixed::Rows(hash_of(fill)),
            _ => Fixed::Nothing,
        };
        Self { kind, params, deed: Deed::Works(vec![work]), fixed }
    }

    pub(crate) fn new(kind: NodeKind, params: Params, deed: Deed<Key<Graph>>) -> Self {
        Self { kind, params, deed, fixed: Fixed::Nothing }
    }

    /// The same, of memory at an address that can't be changed.
    pub(crate) fn fixed_at(self, address: u64) -> Self {
        Self { fixed: Fixed::Rows(address), ..self }
    }

    /// One that does nothing.
    pub(crate) fn empty() -> Self {
        Self::new(NodeKind::Empty, Params::Nothing, Deed::NOTHING)
    }

    /// The graphs inside of the node.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = Key<Graph>> + use<> {
        let graphs: Vec<_> = self.deed.graphs().to_vec();
        graphs.into_iter()
    }
}

/// A number that differs where parameters do.
pub(super) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
