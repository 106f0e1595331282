//! The simulated driver, asked as the real one was: names of tests are what it does.

#![expect(unsafe_code, reason = "driver calls are C functions")]
#![expect(clippy::unwrap_used, reason = "a test's set-up")]

mod ask;
mod stream;
