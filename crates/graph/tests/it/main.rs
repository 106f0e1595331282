//! The crate's tests, in one binary, a module per topic, most bodies on either driver.

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
mod capture;
#[cfg(test)]
mod definition;
#[cfg(test)]
mod exec;
#[cfg(test)]
mod operations;
