//! CUDA graphs by definition: nodes, edges, and what the nodes use, kept alive as long as anything can use it.
//!
//! So far a [`Graph`] takes kernels, host functions, events, other graphs and empty nodes; what it doesn't take yet can't be
//! asked for.

mod exec;
mod graph;
mod keep;
mod node;

pub use cuhold_handles as handles;
pub use exec::{ExecOptions, GraphExec, UpdateReason, UpdateRefused};
pub use graph::{Graph, NodeKind};
pub use node::Node;
