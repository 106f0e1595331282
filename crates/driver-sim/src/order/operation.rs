//! How a finding names what it is about: two operations, each with the call that made it, where it stands, and what it does.

use std::{fmt, sync::atomic::Ordering as Atomic};

use super::{At, Op, Timeline, shadow::Touch, strip::Strip};
use crate::{audit::CallSite, queue::Ordering};

/// Who does something to memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Actor {
    /// The host, while the call lasts.
    Host,
    /// A stream, by its handle.
    Stream(u64),
    /// The legacy default stream of a context.
    DefaultStream,
    /// A default stream of one thread.
    ThreadStream,
    /// A node of a graph.
    Graph,
}

impl Actor {
    fn of(at: &At) -> Self {
        match at {
            At::Host(_) => Self::Host,
            At::Queue(who, _) => Self::of_queue(who),
        }
    }

    fn of_queue(who: &Timeline) -> Self {
        match (who.stream.load(Atomic::Relaxed), who.ordering) {
            (0, Ordering::Legacy) => Self::DefaultStream,
            (0, Ordering::Blocking) => Self::ThreadStream,
            (0, Ordering::NonBlocking) => Self::Graph,
            (stream, _) => Self::Stream(stream),
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("the host"),
            Self::Stream(stream) => write!(f, "stream {stream:#x}"),
            Self::DefaultStream => f.write_str("the default stream"),
            Self::ThreadStream => f.write_str("a thread's default stream"),
            Self::Graph => f.write_str("a node of a graph"),
        }
    }
}

/// One of the two that a finding about order is about.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Operation {
    /// The call that asked for it; for a graph's node the one that made the node.
    pub site: CallSite,
    /// For a graph's node the call that launched it.
    pub launched: Option<CallSite>,
    /// The process that made the calls: the first one of a machine is 1.
    pub process: u64,
    /// Who does it.
    pub actor: Actor,
    /// What it does.
    pub touch: Touch,
    /// The first byte, counted from the beginning of the memory; of host memory that CUDA doesn't know its address.
    pub offset: u64,
    /// How many bytes, from the first to the last.
    pub size_bytes: u64,
}

impl Operation {
    pub(super) fn new(op: &Op, touch: Touch, strip: &Strip) -> Self {
        Self {
            site: op.by,
            launched: op.launched,
            process: op.process,
            actor: Actor::of(&op.at),
            touch,
            offset: strip.start,
            size_bytes: strip.end().saturating_sub(strip.start),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.site)?;
        if let Some(launched) = self.launched {
            write!(f, "launched by {launched} ")?;
        }
        match self.touch {
            Touch::Begin => write!(f, "allocates it on {}", self.actor),
            Touch::End => write!(f, "ends it on {}", self.actor),
            touch => {
                let does = match touch {
                    Touch::Read => "reads",
                    Touch::Write => "writes",
                    _ => "changes",
                };
                let (from, end) = (self.offset, self.offset.saturating_add(self.size_bytes));
                write!(f, "{does} bytes {from:#x}..{end:#x} on {}", self.actor)
            }
        }
    }
}
