//! What `cargo xtask codegen` makes from `cuda.h`, committed.

#[expect(
    missing_docs,
    missing_copy_implementations,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unpredictable_function_pointer_comparisons,
    unsafe_code,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::exhaustive_structs,
    clippy::indexing_slicing,
    clippy::use_self,
    reason = "these are the layouts of the C ABI, as bindgen prints them"
)]
pub(crate) mod types;
