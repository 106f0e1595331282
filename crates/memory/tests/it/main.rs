//! The crate's tests, in one binary, a module per topic, most bodies on either driver.

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
mod batch;
#[cfg(test)]
mod buffer;
#[cfg(test)]
mod caching;
#[cfg(test)]
mod copy;
#[cfg(test)]
mod counts;
#[cfg(test)]
#[cfg(test)]
mod end;
#[cfg(test)]
mod flip;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod grid;
#[cfg(test)]
mod home;
#[cfg(test)]
mod host;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod ipc;
#[cfg(test)]
mod launch;
#[cfg(test)]
mod managed;
#[cfg(test)]
mod matrix;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod pending;
#[cfg(test)]
mod pool;
#[cfg(test)]
mod pool_end;
#[cfg(test)]
mod pool_place;
#[cfg(test)]
mod progress;
#[cfg(test)]
mod raw;
#[cfg(test)]
mod resource;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod source;
#[cfg(test)]
mod staging;
#[cfg(test)]
mod virtual_memory;
