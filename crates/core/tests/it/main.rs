//! The facade's tests, in one binary.

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
mod compile;
#[cfg(test)]
mod memory_objects;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod resources;
#[cfg(test)]
mod situation;
