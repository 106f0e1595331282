//! What crates above keep for a driver value, such as a registry: one value of each type, made when it is first asked
//! for, gone with the driver. It must not hold the driver, which would then never end.

use super::Driver;
use parking_lot::Mutex;
use std::{any::Any, fmt, sync::Arc};

/// The kept values, each of another type.
#[derive(Default)]
pub(super) struct DriverExtras(Mutex<Vec<Arc<dyn Any + Send + Sync>>>);

impl fmt::Debug for DriverExtras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverExtras").finish_non_exhaustive()
    }
}

impl Driver {
    /// The value of this type, made if it isn't there yet. Takes a lock: not for a callback or a forked child.
    #[doc(hidden)]
    #[must_use]
    pub fn extra<E: Any + Send + Sync + Default>(&self) -> Arc<E> {
        let mut kept = self.0.extras.0.lock();
        let found = kept.iter().find_map(|extra| Arc::clone(extra).downcast().ok());
        found.unwrap_or_else(|| {
            let new = Arc::new(E::default());
            kept.push(Arc::<E>::clone(&new));
            new
        })
    }
}
