//! The bridge's tests, in one binary. cudarc needs a real driver, so that most say on the simulated one that they are
//! skipped.

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
mod bridge;
#[cfg(test)]
mod context;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod stream;
