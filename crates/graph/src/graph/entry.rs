//! What a graph knows of its nodes, and of the graphs inside of them.

use crate::{keep::Attached, node::Body};
use cuhold_handles::driver_sys::ffi::*;
use std::fmt;

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NodeKind {
    /// Nothing: it is there for its edges.
    Empty,
    /// Runs a kernel.
    Kernel,
    /// Copies memory.
    Copy,
    /// Fills memory.
    Fill,
    /// Calls a function on the host.
    Host,
    /// Records an event.
    Record,
    /// Waits for an event.
    Wait,
    /// Runs a graph.
    Child,
    /// Allocates memory.
    Allocate,
    /// Frees memory.
    Free,
    /// Signals semaphores of another API.
    Signal,
    /// Waits for semaphores of another API.
    Await,
    /// Writes single values to memory, and waits for such.
    Batch,
    /// Runs graphs by a condition.
    Conditional,
    /// Something that this library doesn't know, with the driver's number for it.
    Other(u32),
}

impl NodeKind {
    pub(crate) fn of(raw: CUgraphNodeType) -> Self {
        type Type = CUgraphNodeType;
        match raw {
            Type::CU_GRAPH_NODE_TYPE_EMPTY => Self::Empty,
            Type::CU_GRAPH_NODE_TYPE_KERNEL => Self::Kernel,
            Type::CU_GRAPH_NODE_TYPE_MEMCPY => Self::Copy,
            Type::CU_GRAPH_NODE_TYPE_MEMSET => Self::Fill,
            Type::CU_GRAPH_NODE_TYPE_HOST => Self::Host,
            Type::CU_GRAPH_NODE_TYPE_EVENT_RECORD => Self::Record,
            Type::CU_GRAPH_NODE_TYPE_WAIT_EVENT => Self::Wait,
            Type::CU_GRAPH_NODE_TYPE_GRAPH => Self::Child,
            Type::CU_GRAPH_NODE_TYPE_MEM_ALLOC => Self::Allocate,
            Type::CU_GRAPH_NODE_TYPE_MEM_FREE => Self::Free,
            Type::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL => Self::Signal,
            Type::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT => Self::Await,
            Type::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => Self::Batch,
            Type::CU_GRAPH_NODE_TYPE_CONDITIONAL => Self::Conditional,
            other => Self::Other(other.0),
        }
    }

    /// Whether a conditional body may hold such a node. The driver takes others, and refuses to make the graph executable
    /// (measured of allocation, host and event nodes; documented of the rest).
    pub(crate) const fn belongs_in_body(self) -> bool {
        matches!(
            self,
            Self::Empty
                | Self::Kernel
                | Self::Copy
                | Self::Fill
                | Self::Child
                | Self::Conditional
                | Self::Other(_)
        )
    }

    pub(crate) const fn is_memory(self) -> bool {
        matches!(self, Self::Allocate | Self::Free)
    }

    const fn bit(self) -> u32 {
        match self {
            Self::Empty => 1,
            Self::Kernel => 1 << 1,
            Self::Copy => 1 << 2,
            Self::Fill => 1 << 3,
            Self::Host => 1 << 4,
            Self::Record => 1 << 5,
            Self::Wait => 1 << 6,
            Self::Child => 1 << 7,
            Self::Allocate => 1 << 8,
            Self::Free => 1 << 9,
            Self::Signal => 1 << 10,
            Self::Await => 1 << 11,
            Self::Batch => 1 << 12,
            Self::Conditional => 1 << 13,
            Self::Other(_) => 1 << 14,
        }
    }

    const ALL: [Self; 14] = [
        Self::Empty,
        Self::Kernel,
        Self::Copy,
        Self::Fill,
        Self::Host,
        Self::Record,
        Self::Wait,
        Self::Child,
        Self::Allocate,
        Self::Free,
        Self::Signal,
        Self::Await,
        Self::Batch,
        Self::Conditional,
    ];
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty",
            Self::Kernel => "kernel",
            Self::Copy => "copy",
            Self::Fill => "fill",
            Self::Host => "host function",
            Self::Record => "event record",
            Self::Wait => "event wait",
            Self::Child => "child graph",
            Self::Allocate => "allocation",
            Self::Free => "free",
            Self::Signal => "semaphore signal",
            Self::Await => "semaphore wait",
            Self::Batch => "memory operations",
            Self::Conditional => "conditional",
            Self::Other(number) => return write!(f, "kind {number}"),
        })
    }
}

/// The kinds of several nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Kinds(u32);

impl Kinds {
    pub(crate) fn insert(&mut self, kind: NodeKind) {
        self.0 |= kind.bit();
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// One that a conditional body may not hold.
    pub(crate) fn outside_of_bodies(self) -> Option<NodeKind> {
        self.find(|kind| !kind.belongs_in_body())
    }

    /// One that keeps a graph from being copied (measured).
    pub(crate) fn uncopied(self) -> Option<NodeKind> {
        self.find(|kind| kind.is_memory() || kind == NodeKind::Conditional)
    }

    fn find(self, which: fn(NodeKind) -> bool) -> Option<NodeKind> {
        NodeKind::ALL.into_iter().find(|kind| self.0 & kind.bit() != 0 && which(*kind))
    }
}

/// A node as the graph keeps it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) raw: CUgraphNode,
    pub(crate) kind: NodeKind,
    /// The graph that it is in: the graph itself, or one inside of it.
    pub(crate) level: Body,
    pub(crate) attached: Attached,
    /// What most nodes don't have.
    pub(crate) detail: Option<Box<Detail>>,
}

/// What most nodes don't have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detail {
    pub(crate) label: Option<Box<str>>,
    pub(crate) inside: Inside,
    /// Whether it isn't known if the driver has removed it.
    pub(crate) is_doubtful: bool,
}

/// The graphs inside of a node.
#[derive(Clone, Debug, Default)]
pub(crate) enum Inside {
    #[default]
    Nothing,
    /// A child graph, whose nodes were read once somebody asked for them.
    Child { read: Option<Body>, kinds: Kinds },
    /// The bodies of a conditional node.
    Bodies { kind: ConditionalKind, bodies: Box<[Body]> },
    /// The memory of an allocation node, or of a free node.
    Memory { ptr: u64 },
}

/// What a conditional node does with its bodies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ConditionalKind {
    /// Runs the first where the condition isn't 0, else the second, if there is one.
    If,
    /// Runs the one that there is over and over, while the condition isn't 0.
    While,
    /// Runs the one of the condition's number, if there is one.
    Switch,
}

impl ConditionalKind {
    pub(crate) const fn raw(self) -> CUgraphConditionalNodeType {
        type Type = CUgraphConditionalNodeType;
        match self {
            Self::If => Type::CU_GRAPH_COND_TYPE_IF,
            Self::While => Type::CU_GRAPH_COND_TYPE_WHILE,
            Self::Switch => Type::CU_GRAPH_COND_TYPE_SWITCH,
        }
    }
}

/// A graph as the driver has it: the one itself, or one inside of a node.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) raw: CUgraph,
    /// Whether it is a conditional body, or inside of one.
    pub(crate) is_in_body: bool,
    /// Whether it is a child graph, or inside of one: memory isn't allocated or freed there.
    pub(crate) is_in_child: bool,
}

impl Entry {
    pub(crate) fn new(raw: CUgraphNode, kind: NodeKind, level: Body) -> Self {
        Self { raw, kind, level, attached: Attached::default(), detail: None }
    }

    pub(crate) fn inside(&self) -> &Inside {
        self.detail.as_ref().map_or(&Inside::Nothing, |detail| &detail.inside)
    }

    pub(crate) fn detail_mut(&mut self) -> &mut Detail {
        self.detail.get_or_insert_default()
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.detail.as_ref().is_some_and(|detail| detail.is_doubtful)
    }
}
