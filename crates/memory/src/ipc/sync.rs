//! The locks and counters of the cache. `tests/model.rs` puts loom's in their place.

pub(super) use parking_lot::{Mutex, RwLock};
pub(super) use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
