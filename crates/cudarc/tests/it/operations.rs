//! Every public operation of the crate is exempt from the fault enumeration: cudarc's values need a real library. What is
//! done without them is tested in the crate's units.

/// Why a bridge can't be made.
const REAL: &str = "is made only to a real driver, since cudarc must have loaded the same library";
/// Why nothing else can be enumerated.
const THEIRS: &str =
    "works with cudarc's values, which need a real driver, and whose calls no hook sees";

/// Operations that can't be enumerated, and why.
const EXEMPT: &[(&str, &str)] = &[
    ("Bridge::borrow_context", THEIRS),
    ("Bridge::borrow_stream", THEIRS),
    ("Bridge::device", THEIRS),
    ("Bridge::give_buffer", THEIRS),
    ("Bridge::hold_slice", THEIRS),
    ("Bridge::load", REAL),
    ("Bridge::new", REAL),
    ("Bridge::take_slice", THEIRS),
    ("Bridge::with_buffer", THEIRS),
    ("Bridge::with_buffer_mut", THEIRS),
];

#[test]
fn every_public_operation_is_enrolled_or_exempt_exact_counts() {
    cuhold_testkit::compare(env!("CARGO_MANIFEST_DIR"), &[], EXEMPT);
}
