//! Which context is current after a switch went wrong: asked for, never assumed (P5).

use cuhold_driver_sys::{Failure, ffi::CUcontext};
use std::fmt;

/// What is known about the calling thread's current context.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Current {
    /// Nobody asked, since nothing went wrong with it.
    #[default]
    NotAsked,
    /// No context is current.
    None,
    /// The context with this raw value is current.
    Is(usize),
    /// The question itself failed.
    Unknown(Failure),
}

impl Current {
    /// What the driver answers while this context is current; null is none.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn of(raw: CUcontext) -> Self {
        if raw.is_null() { Self::None } else { Self::Is(raw.addr()) }
    }
}

impl fmt::Display for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("what is current wasn't asked"),
            Self::None => f.write_str("no context is current"),
            Self::Is(raw) => write!(f, "context {raw:#x} is current"),
            Self::Unknown(failure) => write!(f, "what is current isn't known, {failure}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuhold_driver_sys::{CUresult, Call};

    #[test]
    fn each_answer_is_a_clause() {
        assert_eq!(Current::NotAsked.to_string(), "what is current wasn't asked");
        assert_eq!(Current::None.to_string(), "no context is current");
        assert_eq!(Current::Is(0x10).to_string(), "context 0x10 is current");
        let failure = Failure { call: Call::cuCtxGetCurrent, status: CUresult::NOT_INITIALIZED };
        assert_eq!(
            Current::Unknown(failure).to_string(),
            "what is current isn't known, cuCtxGetCurrent answered CUDA_ERROR_NOT_INITIALIZED (3)"
        );
    }
}
