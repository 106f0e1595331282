//! Loading a library at run time: where a driver is looked for, and what is told if none is found.
//!
//! | asked by | tried, in this order |
//! |---|---|
//! | [`Libcuda::load`], with `CUHOLD_LIBCUDA` set | what the variable names, nothing else |
//! | [`Libcuda::load`], Linux | `libcuda.so.1`, then `libcuda.so` |
//! | [`Libcuda::load`], Windows | `nvcuda.dll` |
//! | [`Libcuda::load_from`] | that path, nothing else |
//!
//! A name without a slash goes through the dynamic linker's search path, one with a slash is a file. `libcuda.so.1` is
//! what a driver installs; `libcuda.so` alone is often the toolkit's stub, which only serves to link against. A library
//! is accepted if it has `cuInit` and doesn't answer `cuDriverGetVersion` as a stub does; `cuInit` isn't called. What
//! was refused is closed again; what was accepted is never unloaded, since CUDA's own threads and exit handlers live in
//! it.
//!
//! Not for this module: which driver a process uses ([`Libcuda`] is a value like any other), and remembering one.

mod libcuda;
mod library;
mod resolve;

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use thiserror::Error;

pub use libcuda::Libcuda;
pub(crate) use library::Opened;

/// No library of those tried could be used. Displayed as one paragraph that names each with its reason.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("no {} could be loaded: {}. {}", .sought.noun, Listed(.attempts), .advice)]
pub struct LoadError {
    sought: &'static Sought,
    attempts: Vec<Attempt>,
    advice: String,
}

impl LoadError {
    /// What was tried, in order.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }
}

/// A library that was tried and not used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The name or path as it was asked for.
    pub asked: PathBuf,
    /// The file behind it, where it could be opened and the dynamic linker says so.
    pub file: Option<PathBuf>,
    /// Why it wasn't used.
    pub reason: Reason,
}

/// Why a library wasn't used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The dynamic linker couldn't open it; its own words.
    #[error("{0}")]
    NotOpened(String),
    /// It opens, but lacks a function that each such library has.
    #[error("it opens, but has no `{0}`")]
    Lacks(&'static str),
    /// It is the CUDA toolkit's stub.
    #[error("it is the CUDA toolkit's stub, which only serves to link against")]
    Stub,
    /// It is a folder that doesn't hold the library under any of its names.
    #[error("the library isn't in this folder")]
    NotInFolder,
    /// Asked for its version by this function, it failed with this status.
    #[error("its `{0}` answered {1}")]
    NoVersion(&'static str, String),
}

/// A kind of library, and where to look for it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Sought {
    pub(crate) noun: &'static str,
    pub(crate) variable: &'static str,
    pub(crate) advice: &'static str,
}

impl Sought {
    /// What the variable names; an empty one counts as not set.
    pub(crate) fn named(&self) -> Option<OsString> {
        env::var_os(self.variable).filter(|value| !value.is_empty())
    }

    /// The first of `candidates` that `open` accepts.
    pub(crate) fn first<T>(
        &'static self,
        candidates: impl IntoIterator<Item: AsRef<Path>>,
        advice: String,
        mut open: impl FnMut(&Path) -> Result<T, Attempt>,
    ) -> Result<T, LoadError> {
        let mut attempts = Vec::new();
        for candidate in candidates {
            match open(candidate.as_ref()) {
                Ok(found) => return Ok(found),
                Err(attempt) => attempts.push(attempt),
            }
        }
        Err(LoadError { sought: self, attempts, advice })
    }
}

impl Attempt {
    pub(crate) fn new(asked: &Path, reason: Reason) -> Self {
        Self { asked: asked.to_owned(), file: None, reason }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.asked.display())?;
        match &self.file {
            Some(file) if *file != self.asked => write!(f, " (found as `{}`)", file.display())?,
            _ => {}
        }
        write!(f, ": {}", self.reason)
    }
}

struct Listed<'a>(&'a [Attempt]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attempt) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{attempt}")?;
        }
        Ok(())
    }
}
