//! Every public operation of the crate, enrolled for the fault enumeration, in a module for each noun.

mod exec;
mod graph;

use cuhold_testkit::Enrolled;

const ENROLLED: &[&[Enrolled]] = &[exec::OPERATIONS, graph::OPERATIONS];

#[test]
fn every_public_operation_is_enrolled_or_exempt_exact_counts() {
    cuhold_testkit::compare(env!("CARGO_MANIFEST_DIR"), ENROLLED, &[]);
}
