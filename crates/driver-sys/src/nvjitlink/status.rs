//! nvJitLink's status codes.
//!
//! Source: `nvJitLink.h` of CUDA 13.5, `nvJitLinkResult`; the descriptions are this crate's own.

crate::compiler::statuses! { nvJitLinkResult "NVJITLINK_ERROR_" "NVJITLINK_SUCCESS" "nvJitLink" {
    UNRECOGNIZED_OPTION 1 "an option isn't known";
    MISSING_ARCH 2 "the option -arch=sm_NN is missing";
    INVALID_INPUT 3 "an argument or an input isn't valid";
    PTX_COMPILE 4 "PTX didn't compile; the log says why";
    NVVM_COMPILE 5 "code for link-time optimization didn't compile; the log says why";
    INTERNAL 6 "nvJitLink failed and doesn't say why";
    THREADPOOL 7 "its pool of threads failed";
    UNRECOGNIZED_INPUT 8 "an input is of no known form";
    FINALIZE 9 "the linked code couldn't be finished; the log says why";
    NULL_INPUT 10 "an input is null";
    INCOMPATIBLE_OPTIONS 11 "two options don't go together";
    INCORRECT_INPUT_TYPE 12 "an input isn't what it was said to be";
    ARCH_MISMATCH 13 "an input is for another architecture";
    OUTDATED_LIBRARY 14 "an input is of a newer CUDA than this library";
    MISSING_FATBIN 15 "an input has no device code";
    UNRECOGNIZED_ARCH 16 "the architecture isn't known";
    UNSUPPORTED_ARCH 17 "the architecture isn't supported";
    LTO_NOT_ENABLED 18 "the option -lto is missing";
} }
