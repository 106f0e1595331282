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
//! # The checker of order
//! Two pieces of work that touch the same bytes, one of them to write, need an order; so do a use of memory and its end. What
//! the program asked for is the order: streams, events (between processes as well), default streams, edges and launches of
//! graphs, values that streams wait for, semaphores, and what the host waited for, or asked and was told to be done. It isn't
//! the order in which work happened to run: one run with one seed finds what another order of the same calls would show.
//! Each finding is a [`Violation`] with the two [`Operation`]s, what they did to which bytes, and what would have ordered
//! them: [`Unordered`](ViolationKind::Unordered), [`ImplicitOrder`](ViolationKind::ImplicitOrder),
//! [`EarlyFree`](ViolationKind::EarlyFree), [`HostTooEarly`](ViolationKind::HostTooEarly),
//! [`EarlyRevoke`](ViolationKind::EarlyRevoke).
//!
//! Judged are copies, fills, values that streams write, what kernels do through [`KernelLaunch`], allocations and frees in a
//! stream's order, and ends of memory and of access to it. Bytes are told apart, rows of boxes too; those of one physical
//! allocation are the same bytes wherever they are mapped, in other processes as well.
//!
//! It can't see:
//! - work that never runs, which is judged when it does ([`Sim::run_all`] runs what is left);
//! - what the program does to host memory itself, without a call: only that it frees or unregisters it, or hands it to a copy;
//! - order that the program makes without the driver: what one thread or process tells another, a flag that it reads in
//!   memory. So all threads and processes are one host, whose calls come one after the other, and what one of them waited for
//!   all of them know; and what a host function, a callback or a destructor stood behind the host knows once it was called.
//!   That can hide a fault; it never makes one up. A flag in memory that the host itself reads isn't known to order anything:
//!   a program that relies on one waits for it by a call as well, or is told of by mistake;
//! - order inside of a kernel. A kernel whose atomic operations meet those of another says so
//!   ([`KernelLaunch::update`], [`KernelLaunch::touch`]);
//! - what lies too far back: of very many streams, and of very many accesses to one allocation, only the latest are known. That
//!   hides faults, too.
//!
//! [`SimOptions::check_order`] turns it off.
//!
//! Start reading at [`Sim`], then the modules `world` (the turn that each call takes), `queue` and `run` (asynchrony),
//! `order` (the checker of order), `capture` (what captures forbid).

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
mod order;
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
pub use order::{Actor, Operation, Touch};
pub use sim::Sim;
