//! What the lists have in common: hooks, faults, logs and failures are the same for the driver and for the compilers.

use core::{fmt, hash::Hash};

use crate::{CUresult, Call, Kind};

/// A call of one of the lists: the driver's ([`Call`]), NVRTC's ([`NvrtcCall`](crate::nvrtc::NvrtcCall)).
///
/// Where a type has a parameter `C: Listed`, it is the driver's [`Call`] unless said otherwise.
pub trait Listed:
    Copy + Eq + Ord + Hash + fmt::Debug + fmt::Display + Send + Sync + 'static
{
    /// What a call of this list answers.
    type Status: Copy + Eq + Hash + fmt::Debug + fmt::Display + Send + Sync + 'static;

    /// Every call of the list, in its order.
    const LIST: &'static [Self];

    /// The position in [`LIST`](Self::LIST).
    fn index(self) -> usize;

    /// The documented name of the function.
    fn name(self) -> &'static str;

    /// What the function does to objects.
    fn kind(self) -> Kind;

    /// Whether the status says that the call succeeded.
    fn is_success(status: Self::Status) -> bool;

    /// Whether a fatal error leaves the call working: it only looks at or changes the calling thread's own state.
    fn survives_fatal(self) -> bool {
        false
    }
}

impl Listed for Call {
    type Status = CUresult;

    const LIST: &'static [Self] = Self::ALL;

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        self.name()
    }

    fn kind(self) -> Kind {
        self.columns().kind
    }

    fn is_success(status: CUresult) -> bool {
        status.is_success()
    }

    /// What is current, and the capture mode (measured).
    fn survives_fatal(self) -> bool {
        self.columns().kind == Kind::Thread || self == Self::cuCtxGetCurrent
    }
}
