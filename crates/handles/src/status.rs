//! What a call answered, of whichever library: the driver, NVRTC, NVVM, nvJitLink; or the operating system.

use crate::errno::Errno;
use cuhold_driver_sys::{
    CUresult, Call, Kind,
    nvjitlink::{NvJitLinkCall, NvJitLinkFailure, nvJitLinkResult},
    nvrtc::{NvrtcCall, NvrtcFailure, nvrtcResult},
    nvvm::{NvvmCall, NvvmFailure, nvvmResult},
};
use std::fmt;

/// A status, with the library that answered it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Of the CUDA driver.
    Driver(CUresult),
    /// Of NVRTC.
    Nvrtc(nvrtcResult),
    /// Of NVVM.
    Nvvm(nvvmResult),
    /// Of nvJitLink.
    NvJitLink(nvJitLinkResult),
    /// Of the operating system.
    Errno(Errno),
}

impl Status {
    /// Whether it says that the library lacks the function, which is an error kind of its own.
    pub(crate) const fn is_missing(self) -> bool {
        match self {
            Self::Driver(status) => status.0 == CUresult::MISSING.0,
            Self::Nvrtc(status) => status.0 == nvrtcResult::MISSING.0,
            Self::Nvvm(status) => status.0 == nvvmResult::MISSING.0,
            Self::NvJitLink(status) => status.0 == nvJitLinkResult::MISSING.0,
            Self::Errno(_) => false,
        }
    }
}

/// The call that answered a status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum AnyCall {
    /// Of the CUDA driver.
    Driver(Call),
    /// Of NVRTC.
    Nvrtc(NvrtcCall),
    /// Of NVVM.
    Nvvm(NvvmCall),
    /// Of nvJitLink.
    NvJitLink(NvJitLinkCall),
    /// Of the operating system, by its name.
    System(&'static str),
}

impl AnyCall {
    /// The documented name of the function.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver(call) => call.name(),
            Self::Nvrtc(call) => call.name(),
            Self::Nvvm(call) => call.name(),
            Self::NvJitLink(call) => call.name(),
            Self::System(call) => call,
        }
    }

    /// What the function does to objects; `None` where no list says.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Driver(call) => Some(call.columns().kind),
            Self::Nvrtc(call) => Some(call.kind()),
            Self::Nvvm(call) => Some(call.kind()),
            Self::NvJitLink(call) => Some(call.kind()),
            Self::System(_) => None,
        }
    }
}

impl fmt::Display for AnyCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(call) => fmt::Display::fmt(call, f),
            Self::Nvrtc(call) => fmt::Display::fmt(call, f),
            Self::Nvvm(call) => fmt::Display::fmt(call, f),
            Self::NvJitLink(call) => fmt::Display::fmt(call, f),
            Self::System(call) => f.write_str(call),
        }
    }
}

/// A call of a compiler that didn't succeed: which one, and what it answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompilerFailure {
    /// Of NVRTC.
    Nvrtc(NvrtcFailure),
    /// Of NVVM.
    Nvvm(NvvmFailure),
    /// Of nvJitLink.
    NvJitLink(NvJitLinkFailure),
}

impl CompilerFailure {
    /// The call.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn call(self) -> AnyCall {
        match self {
            Self::Nvrtc(failure) => AnyCall::Nvrtc(failure.call),
            Self::Nvvm(failure) => AnyCall::Nvvm(failure.call),
            Self::NvJitLink(failure) => AnyCall::NvJitLink(failure.call),
        }
    }

    /// What it answered.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Nvrtc(failure) => Status::Nvrtc(failure.status),
            Self::Nvvm(failure) => Status::Nvvm(failure.status),
            Self::NvJitLink(failure) => Status::NvJitLink(failure.status),
        }
    }

    /// The two put together, where both are the same compiler's.
    pub(crate) fn of(call: AnyCall, status: Status) -> Option<Self> {
        Some(match (call, status) {
            (AnyCall::Nvrtc(call), Status::Nvrtc(status)) => {
                Self::Nvrtc(NvrtcFailure { call, status })
            }
            (AnyCall::Nvvm(call), Status::Nvvm(status)) => Self::Nvvm(NvvmFailure { call, status }),
            (AnyCall::NvJitLink(call), Status::NvJitLink(status)) => {
                Self::NvJitLink(NvJitLinkFailure { call, status })
            }
            _ => return None,
        })
    }

    /// What the status means.
    pub(crate) const fn description(self) -> Option<&'static str> {
        match self {
            Self::Nvrtc(failure) => failure.status.description(),
            Self::Nvvm(failure) => failure.status.description(),
            Self::NvJitLink(failure) => failure.status.description(),
        }
    }

    /// The status as a number.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Nvrtc(failure) => failure.status.0,
            Self::Nvvm(failure) => failure.status.0,
            Self::NvJitLink(failure) => failure.status.0,
        }
    }

    /// Library, call and status in one word.
    pub(crate) const fn word(self) -> u64 {
        let (library, call) = match self {
            Self::Nvrtc(failure) => (1, failure.call as u64),
            Self::Nvvm(failure) => (2, failure.call as u64),
            Self::NvJitLink(failure) => (3, failure.call as u64),
        };
        library << 48 | call << 32 | self.number() as u64
    }
}

impl fmt::Display for CompilerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.status().is_missing() {
            return write!(f, "{} is missing from this library", self.call());
        }
        match self {
            Self::Nvrtc(failure) => write!(f, "{failure}"),
            Self::Nvvm(failure) => write!(f, "{failure}"),
            Self::NvJitLink(failure) => write!(f, "{failure}"),
        }
    }
}

impl fmt::Debug for CompilerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
