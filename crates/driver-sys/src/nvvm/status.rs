//! NVVM's status codes.
//!
//! Source: `nvvm.h` of CUDA 13.5, `nvvmResult`; the descriptions are this crate's own.

crate::compiler::statuses! { nvvmResult "NVVM_ERROR_" "NVVM_SUCCESS" "NVVM" {
    OUT_OF_MEMORY 1 "not enough host memory";
    PROGRAM_CREATION_FAILURE 2 "the program couldn't be created";
    IR_VERSION_MISMATCH 3 "the code is of a version of NVVM IR that this library doesn't take";
    INVALID_INPUT 4 "an argument is outside its range, or null where it may not be";
    INVALID_PROGRAM 5 "the handle isn't a program's";
    INVALID_IR 6 "the code isn't valid NVVM IR";
    INVALID_OPTION 7 "a compile option isn't known or has a wrong value";
    NO_MODULE_IN_PROGRAM 8 "the program has no module";
    COMPILATION 9 "the code has errors; the log has them";
    CANCELLED 10 "the compilation was cancelled";
} }
