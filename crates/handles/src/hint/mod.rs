//! Known causes, and what to do next: for a call that answered a status, where the cause is known from a measurement or
//! the manual. Adds to the driver's answer, never replaces it.

mod list;

use cuhold_driver_sys::{CUresult, Call};
use list::HINTS;

/// What is known about calls that answered a status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hint {
    /// Documented names; `*` at the end stands for any end of the name. None is every call.
    calls: &'static [&'static str],
    status: CUresult,
    /// One sentence in the grammar of errors: lower case, no full stop.
    pub(crate) cause: &'static str,
    /// The same: what to do.
    pub(crate) next: &'static str,
}

impl Hint {
    fn is_about(&self, call: Call, status: CUresult) -> bool {
        self.status == status
            && (self.calls.is_empty() || self.calls.iter().any(|name| is_named(call.name(), name)))
    }
}

fn is_named(call: &str, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(beginning) => call.starts_with(beginning),
        None => call == name,
    }
}

/// What is known of this failure: the first in the list, where those of certain calls come before those of all.
pub(crate) fn of(call: Call, status: CUresult) -> Option<&'static Hint> {
    HINTS.iter().find(|hint| hint.is_about(call, status)).or(if status.is_fatal() {
        Some(&FATAL)
    } else {
        None
    })
}

/// Of a fatal code without a sentence of its own. Measured: every later call of the process answers the code.
const FATAL: Hint = hint(
    &[],
    CUresult::LAUNCH_FAILED,
    "queued work failed earlier, and no CUDA work can be done in this process now",
    "find the failing kernel with compute-sanitizer, and go on in a new process",
);

const fn hint(
    calls: &'static [&'static str],
    status: CUresult,
    cause: &'static str,
    next: &'static str,
) -> Hint {
    Hint { calls, status, cause, next }
}

#[cfg(test)]
mod tests;
