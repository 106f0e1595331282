//! The simulated driver as a shared library: any program of the driver API runs on it, in any language.
//!
//! ```text
//!   program ──► C symbol ─┐
//!           ──► address ──┴► export ──► process (fork, exit, panics) ──► Hooked (record) ──► Sim
//! ```
//!
//! One process has one simulated driver, made at the first call as the plan says (`plan.rs`). The symbols come from the
//! same list as the trait, so that nothing is written twice; a function that the simulated driver lacks answers
//! `NOT_SUPPORTED` and is counted, and `cuGetProcAddress` doesn't find it.
//!
//! Copied out as `libcuda.so.1` by `cargo xtask libcuda-sim`; how it is used stands in `docs/libcuda-sim.md`.
//!
//! Start reading at `export.rs`, then `process.rs`.

mod background;
mod export;
mod kernels;
mod plan;
mod process;
mod record;
mod report;
