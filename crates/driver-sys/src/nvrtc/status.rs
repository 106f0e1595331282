//! NVRTC's status codes: an integer with names, so that a code newer than this crate stays the number it is.
//!
//! Source: `nvrtc.h` of CUDA 13.5, `nvrtcResult`; the descriptions are this crate's own.

use core::{ffi::c_uint, fmt};

/// What an NVRTC call answered.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[expect(non_camel_case_types, reason = "NVRTC's own name")]
#[expect(clippy::exhaustive_structs, reason = "the layout is C's")]
pub struct nvrtcResult(pub c_uint);

macro_rules! statuses {
    ($($name:ident $code:literal $text:literal;)*) => {
        impl nvrtcResult {
            $(
                #[doc = concat!("`NVRTC_ERROR_", stringify!($name), "` (", stringify!($code), "): ", $text, ".")]
                pub const $name: Self = Self($code);
            )*

            /// Every code that this crate knows, [`SUCCESS`](Self::SUCCESS) and [`MISSING`](Self::MISSING) aside.
            pub const KNOWN: &[Self] = &[$(Self::$name),*];

            const fn entry(self) -> Option<(&'static str, &'static str)> {
                match self.0 {
                    0 => Some(("NVRTC_SUCCESS", "no error")),
                    $($code => Some((concat!("NVRTC_ERROR_", stringify!($name)), $text)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
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
}

impl nvrtcResult {
    /// The call succeeded, and its out-parameters are written.
    pub const SUCCESS: Self = Self(0);

    /// The implementation behind [`NvrtcApi`](super::NvrtcApi) lacks the function. NVRTC doesn't use this value, and it
    /// never leaves the layers of this project as a status: above the trait it is an error kind of its own.
    pub const MISSING: Self = Self(c_uint::MAX);

    /// Whether the call succeeded.
    #[must_use]
    #[inline]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// NVRTC's name of the code, such as `NVRTC_ERROR_COMPILATION`; `None` for a code newer than this crate.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self.entry() {
            Some((name, _)) => Some(name),
            None => None,
        }
    }

    /// What the code means, in one clause without a full stop; `None` for a code newer than this crate.
    #[must_use]
    pub const fn description(self) -> Option<&'static str> {
        match self.entry() {
            Some((_, text)) => Some(text),
            None => None,
        }
    }
}

impl fmt::Display for nvrtcResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), *self) {
            (Some(name), Self(code)) => write!(f, "{name} ({code})"),
            (None, Self::MISSING) => f.write_str("missing function"),
            (None, Self(code)) => write!(f, "NVRTC status {code}"),
        }
    }
}

impl fmt::Debug for nvrtcResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_this_crate_does_not_know_prints_as_its_number() {
        assert_eq!(nvrtcResult(9999).to_string(), "NVRTC status 9999");
        assert_eq!(nvrtcResult::MISSING.to_string(), "missing function");
    }

    #[test]
    fn known_codes_are_numbered_through_and_have_both_texts() {
        for (code, number) in nvrtcResult::KNOWN.iter().zip(1..) {
            assert_eq!(code.0, number);
            assert!(code.name().is_some_and(|name| name.starts_with("NVRTC_ERROR_")));
            assert!(code.description().is_some_and(|d| !d.is_empty() && !d.ends_with('.')));
        }
    }
}
