//! The atomics of the shelf, and what can be taken out of it. `tests/model.rs` puts loom's in their place.

pub(super) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
