//! A refusal that gives back what was handed in.

use crate::error::Error;
use std::fmt;

/// A refusal that gives back what was handed in. Turns into its [`Error`] with `?`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refused<T> {
    /// Why.
    pub error: Error,
    /// What was handed in, or what of it is still alive.
    pub value: T,
}

impl<T> Refused<T> {
    /// A refusal with this reason that gives `value` back.
    ///
    /// Calls nothing.
    pub fn new(error: Error, value: T) -> Self {
        Self { error, value }
    }
}

impl<T> From<Refused<T>> for Error {
    fn from(refused: Refused<T>) -> Self {
        refused.error
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<T: fmt::Debug> std::error::Error for Refused<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
