//! Every public operation of the crate, enrolled for the fault enumeration.

mod compile;

use cuhold_testkit::Enrolled;

const ENROLLED: &[&[Enrolled]] = &[compile::OPERATIONS];

/// Operations that can't be enumerated, and why.
const EXEMPT: &[(&str, &str)] = &[
    (
        "Compiler::load",
        "loads the one NVRTC of the machine, which remains loaded; tests can't fail its calls",
    ),
    (
        "Program::compile",
        "compiles with the machine's own NVRTC; `Compiler::compile` is all else that it does",
    ),
    (
        "Program::compile_with",
        "compiles with the machine's own NVRTC; `Compiler::compile` is all else that it does",
    ),
];

#[test]
fn every_public_operation_is_enrolled_or_exempt_exact_counts() {
    cuhold_testkit::compare(env!("CARGO_MANIFEST_DIR"), ENROLLED, EXEMPT);
}
