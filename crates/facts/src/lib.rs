//! Conformance probes: one set of questions to any CUDA driver.
//!
//! ```text
//!   Probe (one question, written once against the trait) ──► Question (a probe in a situation)
//!                                                                │ asked in a fresh state
//!   simulated driver ──► Reading ◄── real driver, a process a question
//!                          └──► compare, agreed, columns
//! ```
//!
//! A function counts as simulated when it has a probe for its success and one for its failure and the simulated driver
//! answers all its probes as a real one did: [`simulated()`]. The real reading is data, committed in `data/`; the file
//! is made by this crate's program on a machine with a GPU and never by hand.
//!
//! Start reading at [`Probe`], then `probes/event.rs` for how probes look.

#[macro_use]
mod ask;
mod ctx;
mod describe;
mod driver;
mod export;
mod host;
mod image;
mod matrix;
mod picture;
mod probe;
mod probes;
mod reading;
mod run;
mod setup;
mod simulated;
mod situation;
mod socket;

pub use ctx::{Ctx, Subject};
pub use export::Export;
pub use probe::{Caller, Kind, Mode, Probe, Question, Situation, Whose};
pub use reading::{ColumnReading, Difference, Reading, agreed, columns, compare};
pub use run::{Plan, Target, answer_alone, describe_alone, export_alone};
pub use simulated::{Agreement, agreement, committed, simulated};
