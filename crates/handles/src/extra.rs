//! What is kept for a context: idle events, and what a crate above keeps, such as staging memory. It is ended before the
//! context is.
//!
//! It hangs on the context, not on the driver, since it consists of objects of the context; and it holds raw values, not
//! handles, which would keep the context alive by itself.
//!
//! A context of somebody else's keeps nothing: when it ends isn't known.

use crate::{mark::MarkCache, report::CudaWarning};
use cuhold_driver_sys::Calls;
use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};

/// Something kept for a context.
pub trait ContextExtra: Any + Send + Sync {
    /// Ends all that is kept; the context is still alive, and not necessarily current. May wait for the GPU. Called more
    /// than once where ending the context fails.
    fn end(&self, calls: Calls<'_>, warn: &mut dyn FnMut(CudaWarning));
}

/// Room for one extra, and the idle events, shared by all handles of a context.
#[derive(Clone, Default)]
pub(crate) struct Extras(Arc<All>);

#[derive(Default)]
struct All {
    extra: OnceLock<Box<dyn ContextExtra>>,
    marks: MarkCache,
}

impl Extras {
    /// The extra, made if it isn't there yet; `None` where the one that is there is of another type.
    pub(crate) fn get<E: ContextExtra>(&self, make: impl FnOnce() -> E) -> Option<&E> {
        let extra: &dyn Any = &**self.0.extra.get_or_init(|| Box::new(make()));
        extra.downcast_ref()
    }

    /// The idle events.
    #[inline]
    pub(crate) fn marks(&self) -> &MarkCache {
        &self.0.marks
    }

    pub(crate) fn end(&self, calls: Calls<'_>, warn: &mut dyn FnMut(CudaWarning)) {
        if let Some(extra) = self.0.extra.get() {
            extra.end(calls, warn);
        }
        self.0.marks.end(calls, warn);
    }
}

impl fmt::Debug for Extras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.0.extra.get().is_some();
        f.debug_struct("Extras").field("kept", &kept).field("marks", &self.0.marks).finish()
    }
}
