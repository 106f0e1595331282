//! Every public operation of the crate, enrolled for the fault enumeration, in a module for each noun.

mod buffer;
mod caching;
mod copies;
mod grid;
mod host;
mod ipc;
mod make;
mod managed;
mod pending;
mod pool;
mod resource;
mod virtual_memory;

use cuhold_testkit::Enrolled;

const ENROLLED: &[&[Enrolled]] = &[
    buffer::OPERATIONS,
    caching::OPERATIONS,
    copies::OPERATIONS,
    grid::OPERATIONS,
    host::OPERATIONS,
    ipc::OPERATIONS,
    make::OPERATIONS,
    managed::OPERATIONS,
    pending::OPERATIONS,
    pool::OPERATIONS,
    resource::OPERATIONS,
    virtual_memory::OPERATIONS,
];

/// Operations that can't be enumerated, and why.
const EXEMPT: &[(&str, &str)] = &[];

#[test]
fn every_public_operation_is_enrolled_or_exempt_exact_counts() {
    cuhold_testkit::compare(env!("CARGO_MANIFEST_DIR"), ENROLLED, EXEMPT);
}
