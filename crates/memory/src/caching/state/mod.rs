//! The states of a caching resource: who has which block. Nothing here makes a driver call or knows a stream; so loom runs
//! it in all orders (`tests/caching_model.rs`).
//!
//! ```text
//!   Lane, for a stream: Mutex<Shelf>     stacks of blocks, one a class │ all bins │ spares
//!     └─ Bin, for a thread: Gate         magazines of blocks, one a class
//! ```
//!
//! A bin's owner takes and puts blocks with the gate entered: no lock, and nothing that another thread writes. Whatever else
//! is done with a bin is done with the lane's lock held, by its owner or by a thread that has shut the gate.

#![expect(unsafe_code, reason = "says why nobody else is at a magazine")]

mod bin;
mod bound;
mod gate;
mod shelf;

pub(crate) use bin::Bin;
pub(crate) use bound::Bound;
pub(crate) use gate::Way;
pub(crate) use shelf::{Counts, Over, Put, Shelf, Taken};

use super::sync;
