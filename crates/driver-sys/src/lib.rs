//! Every function of the CUDA driver API, in one list, as a value.
//!
//! ```text
//!   list ──► DriverApi (trait) ──► Libcuda (loaded)   Sim (driver-sim)   your own
//!        ├─► Calls (by name)            └───────┬───────────┘
//!        └─► Hooked (count, log, inject) ◄──────┘   stackable over any of them
//! ```
//!
//! This crate holds no policy: it destroys nothing, keeps nothing current, and remembers nothing about a driver in a
//! `static`. What it promises is that a driver that is absent, older or broken is an `Err`, never a panic.
//!
//! Start reading at [`list`](mod@crate::list) (the list itself), then [`DriverApi`], [`Calls`], [`Hooked`].
//!
//! Nothing here validates arguments. The crate `cuhold-handles` does, and owns the policy.

mod api;
mod calls;
mod compiler;
mod forward;
mod function;
mod generated;
mod hook;
pub mod list;
mod listed;
mod load;
#[doc(hidden)]
pub mod mutant;
pub mod nvjitlink;
pub mod nvrtc;
pub mod nvvm;
pub mod process;
mod raw;
mod status;

/// The C types of the driver API: handles, structs, enums as integer newtypes, and C's integers.
pub mod ffi {
    #[doc(no_inline)]
    pub use core::ffi::{
        c_char, c_double, c_float, c_int, c_short, c_uchar, c_uint, c_ulonglong, c_ushort, c_void,
    };

    pub use crate::{generated::types::*, raw::*, status::CUresult};
}

pub use api::{DriverApi, Life};
pub use calls::{Calls, Failure};
pub use function::{Call, CaptureRule, Columns, ContextUse, Function, Kind, Version, Waits};
pub use hook::{Bits, CallCounts, CallLog, Effect, Entry, Fault, Faults, Hook, Hooked, Verdict};
pub use listed::Listed;
pub use load::{Attempt, Libcuda, LoadError, Reason};
pub use status::CUresult;
