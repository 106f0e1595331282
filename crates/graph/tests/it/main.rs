//! The crate's tests, in one binary, a module per topic, most bodies on either driver.

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
mod bodies;
#[cfg(test)]
mod capture;
#[cfg(test)]
mod definition;
#[cfg(test)]
mod exec;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod pictures;
#[cfg(test)]
mod support;
