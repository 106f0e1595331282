//! The locks and counters of the cache, and what can be taken out of it. `tests/model.rs` puts loom's locks in their place.

pub(super) use cuhold_handles::driver_sys::mutant;
pub(super) use parking_lot::Mutex;
pub(super) use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
