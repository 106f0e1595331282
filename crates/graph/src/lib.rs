//! CUDA graphs, by definition and by capture, with what their nodes use kept alive as long as anything can use it.
//!
//! | | |
//! |---|---|
//! | [`Graph`] | a definition; one function for each kind of node |
//! | [`Node`], [`Body`] | keys of nodes, and of the graphs inside of them: what was removed isn't found |
//! | [`GraphBuilder`], [`capture`](fn@capture) | a graph is built by capture: what is asked of a stream becomes its nodes |
//! | [`GraphExec`] | an executable: launched, changed node by node or all at once |
//! | [`SharedHost`] | memory of the host that launches read or write, and the program in between |
//!
//! Nodes use buffers whatever their home streams are. Between nodes their edges are the order; between a launch and other
//! work it is the launch's stream: what is queued on a buffer's home stream, its first zeros as well, is done before the
//! launch only where that is the launch's stream, or where the launch's stream waits for it
//! ([`Buffer::move_to`](cuhold_memory::Buffer::move_to), or an event), and the other way round.

mod capture;
mod ends;
mod exec;
mod graph;
mod host_memory;
mod keep;
mod node;
mod order;
mod picture;

pub use capture::{CaptureMode, CaptureStatus, CapturedMemory, GraphBuilder, capture};
pub use cuhold_handles as handles;
pub use cuhold_memory as memory;
#[doc(hidden)]
pub use ends::{CopyEnd, HasEnd};
pub use ends::{CopySource, CopyTarget};
pub use exec::{ExecOptions, GraphExec, UpdateReason, UpdateRefused};
pub use graph::{
    AllocateOptions, BatchOperation, Condition, ConditionalKind, Edge, EdgeKind, Graph,
    GraphAllocation, NodeKind, NodeParams, Word,
};
pub use host_memory::SharedHost;
#[doc(hidden)]
pub use node::Place;
pub use node::{After, Body, Node};
