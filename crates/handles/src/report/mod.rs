//! The report channel: where a failure goes that can't be returned (P4).

mod text;
mod warning;

pub use warning::{CudaWarning, Fate, WarningKind};
