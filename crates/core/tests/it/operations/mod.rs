//! Every public operation of the crate, enrolled for the fault enumeration.

/// Operations that can't be enumerated, and why.
const EXEMPT: &[(&str, &str)] = &[];

/// Operations that are still to be enrolled.
const NOT_YET: &[&str] = &[
    "Compiler::architectures",
    "Compiler::compile",
    "Compiler::load",
    "Compiler::version",
    "Program::compile",
    "Program::compile_with",
    "Program::kernel",
];

#[test]
fn every_public_operation_is_enrolled_or_exempt_exact_counts() {
    cuhold_testkit::compare(env!("CARGO_MANIFEST_DIR"), &[], EXEMPT, NOT_YET);
}
