//! `cargo xtask`: everything that the project does to itself.

fn main() {}
