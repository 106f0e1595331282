//! Every public operation of the crate, enrolled for the fault enumeration, in a module for each noun.

mod array;
mod code;
mod context;
mod device;
mod driver;
mod event;
mod external;
mod graph;
mod green;
mod link;
mod memory;
mod stream;
mod texture;
mod virtual_memory;

use cuhold_testkit::Enrolled;

const ENROLLED: &[&[Enrolled]] = &[
    array::OPERATIONS,
    code::OPERATIONS,
    context::OPERATIONS,
    device::OPERATIONS,
    driver::OPERATIONS,
    event::OPERATIONS,
    graph::OPERATIONS,
    green::OPERATIONS,
    link::OPERATIONS,
    external::OPERATIONS,
    memory::OPERATIONS,
    virtual_memory::OPERATIONS,
    stream::OPERATIONS,
    texture::OPERATIONS,
];

/// Why an operation of a compiler isn't enumerated.
const COMPILER: &str =
    "calls a compiler and no driver; how its end fails is tested in `compiler.rs`";

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
    ("NvrtcProgram::new", COMPILER),
    ("NvrtcProgram::close", COMPILER),
    ("NvrtcProgram::drop", COMPILER),
    ("NvvmProgram::new", COMPILER),
    ("NvvmProgram::add_module", COMPILER),
    ("NvvmProgram::compile", COMPILER),
    ("NvvmProgram::log", COMPILER),
    ("NvvmProgram::close", COMPILER),
    ("NvvmProgram::drop", COMPILER),
    ("NvJitLink::new", COMPILER),
    ("NvJitLink::add_data", COMPILER),
    ("NvJitLink::complete", COMPILER),
    ("NvJitLink::error_log", COMPILER),
    ("NvJitLink::close", COMPILER),
    ("NvJitLink::drop", COMPILER),
];

/// Operations that are still to be enrolled.
const NOT_YET: &[&str] = &[];

#[test]
fn every_public_operation_is_enrolled_or_exempt_exact_counts() {
    cuhold_testkit::compare(env!("CARGO_MANIFEST_DIR"), ENROLLED, EXEMPT, NOT_YET);
}
