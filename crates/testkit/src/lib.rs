//! One test body for both drivers, the simulated and the real one.
