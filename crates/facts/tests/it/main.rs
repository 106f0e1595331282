//! The crate's integration tests: one binary.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which fail by it")]

mod agreement;
mod columns;
mod known;
mod program;
