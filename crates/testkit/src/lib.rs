//! One test body for both drivers, the simulated and the real one.
//!
//! A body is written once against [`Kit`]; `cargo test` runs it on a simulated driver of its own, in parallel threads,
//! and with `CUHOLD_TEST_DRIVER=real` the same binary runs it on the real one. Around the body stand the checks that
//! every test owes the policy: the thread's context and the depth of its stack are what they were, no warning was
//! raised that nobody captured, nothing is left on the reclaimer; on the simulated driver also: no violation, no leak.
//!
//! A body that can't run where it is says so: [`Kit::skip`] prints one line that `gpu-test` reads.
//!
//! Every public operation is enrolled with [`enrol!`], and each driver call that it makes fails in turn: how to enrol one,
//! and what is then tested, stands in `enrolled/mod.rs`.

#![expect(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test's guard panics on purpose"
)]

mod alone;
mod bare;
mod capture;
mod enrolled;
#[cfg(unix)]
mod fork;
mod kernels;
mod kit;
mod operations;
mod stack;
mod trace;

pub use alone::{Alone, is_alone};
pub use bare::Bare;
pub use capture::ForeignCapture;
pub use enrolled::{Enrolled, NowCurrent, Place, Run, StreamKind, compare, enumerate, in_place};
#[cfg(unix)]
pub use fork::in_fork;
pub use kernels::PTX;
pub use kit::{Kit, Real, run, run_leaving_pools, run_real, run_simulated, run_with};
pub use operations::{Operation, Operations};
