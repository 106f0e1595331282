//! The loader and what it knows of the process, against small libraries that are built while the tests run.
//!
//! Each test builds the library it needs by `rustc` ([`fake`]). What needs a process of its own (variables, a fork, an
//! exit) runs this binary again with nothing but that test in it ([`alone`]).

#![cfg(unix)]

#[cfg(test)]
mod alone;
#[cfg(test)]
mod compilers;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod libcuda;
#[cfg(test)]
mod nvrtc;
#[cfg(test)]
mod process;
#[cfg(test)]
mod zero;
