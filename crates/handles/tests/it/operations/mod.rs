//! Every public operation of the crate, enrolled for the fault enumeration, in a module for each noun.

mod array;
mod code;
mod compiler;
mod context;
mod device;
mod driver;
mod event;
mod external;
mod graph;
mod green;
mod link;
mod mark;
mod memory;
mod stream;
mod texture;
mod virtual_memory;

use cuhold_testkit::Enrolled;

const ENROLLED: &[&[Enrolled]] = &[
    array::OPERATIONS,
    code::OPERATIONS,
    compiler::OPERATIONS,
    context::OPERATIONS,
    device::OPERATIONS,
    driver::OPERATIONS,
    event::OPERATIONS,
    graph::OPERATIONS,
    green::OPERATIONS,
    link::OPERATIONS,
    external::OPERATIONS,
    mark::OPERATIONS,
    memory::OPERATIONS,
    virtual_memory::OPERATIONS,
    stream::OPERATIONS,
    texture::OPERATIONS,
];

/// Operations that can't be enumerated, and why.
const EXEMPT: &[(&str, &str)] = &[
    (
        "Device::new",
        "uses the one driver of the process, so that no test has it alone; `Device::with_driver` is all else that it does",
    ),
    (
        "ExternalMemory::import",
        "there is no other API that exports anything: the simulated driver answers missing",
    ),
    (
        "ExternalSemaphore::import",
        "there is no other API that exports anything: the simulated driver answers missing",
    ),
];

#[test]
fn every_public_operation_is_enrolled_or_exempt_exact_counts() {
    cuhold_testkit::compare(env!("CARGO_MANIFEST_DIR"), ENROLLED, EXEMPT);
}
