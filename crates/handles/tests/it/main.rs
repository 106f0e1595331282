//! The crate's tests, in one binary, a module per topic, most bodies on either driver.

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
mod above;
#[cfg(test)]
mod close;
#[cfg(test)]
mod compiler;
#[cfg(test)]
mod counts;
#[cfg(test)]
mod device;
#[cfg(test)]
mod drivers;
#[cfg(test)]
mod drop;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod external;
#[cfg(test)]
mod graph;
#[cfg(test)]
mod host_fn;
#[cfg(test)]
mod image;
#[cfg(test)]
mod inside;
#[cfg(test)]
mod launch;
#[cfg(test)]
mod mark;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod owner;
#[cfg(test)]
mod pairs;
#[cfg(test)]
mod primary;
#[cfg(test)]
mod reclaim;
#[cfg(test)]
mod report;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod scope;
#[cfg(test)]
mod smoke;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod verify;
