//! Every CUDA driver object as an owned handle, under one written failure policy.

mod current;
mod object;
mod report;

pub use current::Current;
pub use object::{Object, ObjectKind};
pub use report::{
    Action, Capture, Counts, CudaWarning, Deny, Fate, Filter, Reports, Rule, Sink, UnknownAction,
    WarningKind,
};
