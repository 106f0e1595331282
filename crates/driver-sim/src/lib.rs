//! The CUDA driver without a GPU: it answers like the driver, measured, and derives its answers from state.
//!
//! ```text
//!   Sim ─► Hooked ( CallLog, Faults ) ─► World { one state, one lock }
//!    ├── audits: violations, leaks, live objects, a dump
//!    └── controls: steps, clock, faults, exit, forked child
//! ```
//!
//! [`Sim`] implements [`DriverApi`](cuhold_driver_sys::DriverApi), so that everything above the driver runs on it
//! unchanged; no number of them in one process disturb each other.
//!
//! # What it promises
//! - Every function listed in [`Sim::simulated`] answers with the statuses that a real driver was measured to answer
//!   with, where it was measured, and else with the documented ones; each other function answers
//!   [`MISSING`](cuhold_driver_sys::CUresult::MISSING).
//! - What crashes a real driver, or is undefined there, is a [`Violation`], never undefined behaviour. Pointers to host
//!   memory are the caller's promise all the same, as the trait says.
//! - Nothing happens by itself: no thread is started. Work on streams runs on the thread that waits for it or steps it,
//!   in an order that depends on nothing but the calls and [`SimOptions::seed`]. So a program that waits for a host
//!   function by other means than the driver's must have work run elsewhere, as by [`Sim::run_all`] on another thread.
//!
//! # What it doesn't model
//! - Time: a clock moves a microsecond with each piece of work, and as it is told.
//! - What the real driver does on a stale handle: it may crash or take it for another object. [`SimOptions`] can make
//!   handles be reused; a stale one then names the new object, as there.
//! - Captures of waits for another process's work, and waits of whole contexts and graphs for it: they answer *missing*.
//! - Physical memory of hosts. Graphs that kernels launch, and nodes that kernels change.
//! - What a linker does: linked PTX is PTX again, put together.
//! - What kernels sample from textures.
//! - Other APIs: what comes from them is planted, as by [`Sim::plant_external_memory`].
//!
//! Start reading at [`Sim`], then the modules `world` (the turn that each call takes), `queue` and `run` (asynchrony),
//! `capture` (what captures forbid).

mod array;
mod audit;
mod capture;
mod code;
mod context;
mod device;
mod driver;
mod dump;
mod elsewhere;
mod event;
mod external;
mod graph;
mod green;
mod log;
mod memory;
mod options;
mod queue;
mod run;
mod sim;
mod stream;
mod texture;
mod world;

pub use audit::{CallSite, Leak, ObjectKind, Violation, ViolationKind};
pub use code::{Dim3, KernelFault, KernelLaunch, SliceMut, Thread};
pub use cuhold_driver_sys;
pub use dump::Dump;
pub use options::{Destructors, DeviceOptions, SimOptions};
pub use sim::Sim;
