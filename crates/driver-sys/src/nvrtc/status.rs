//! NVRTC's status codes.
//!
//! Source: `nvrtc.h` of CUDA 13.5, `nvrtcResult`; the descriptions are this crate's own.

crate::compiler::statuses! { nvrtcResult "NVRTC_ERROR_" "NVRTC_SUCCESS" "NVRTC" {
    OUT_OF_MEMORY 1 "not enough host memory";
    PROGRAM_CREATION_FAILURE 2 "the program couldn't be created";
    INVALID_INPUT 3 "an argument is outside its range, or null where it may not be";
    INVALID_PROGRAM 4 "the handle isn't a program's";
    INVALID_OPTION 5 "a compile option isn't known or has a wrong value; the log names it";
    COMPILATION 6 "the source has errors; the log has them";
    BUILTIN_OPERATION_FAILURE 7 "the library libnvrtc-builtins, which belongs to NVRTC, couldn't be opened or used";
    NO_NAME_EXPRESSIONS_AFTER_COMPILATION 8 "a name expression came after the program was compiled";
    NO_LOWERED_NAMES_BEFORE_COMPILATION 9 "a lowered name was asked for before the program was compiled";
    NAME_EXPRESSION_NOT_VALID 10 "the name expression wasn't added, or names nothing";
    INTERNAL_ERROR 11 "NVRTC failed and doesn't say why";
    TIME_FILE_WRITE_FAILED 12 "the file for times couldn't be written";
    NO_PCH_CREATE_ATTEMPTED 13 "no precompiled header was asked for, or none was worth making";
    PCH_CREATE_HEAP_EXHAUSTED 14 "the precompiled header doesn't fit into its heap";
    PCH_CREATE 15 "the precompiled header couldn't be made";
    CANCELLED 16 "the flow callback cancelled the compilation";
    TIME_TRACE_FILE_WRITE_FAILED 17 "the file for the time trace couldn't be written";
    BUSY 18 "another process is installing the bundled headers";
} }
