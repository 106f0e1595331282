//! A compiler's statuses: an integer with names, so that a code newer than this crate stays the number it is.

/// Makes the status type. The head: its name, what the names of its codes begin with, the name of success, the library's
/// noun.
macro_rules! statuses {
    ($Status:ident $prefix:literal $success:literal $noun:literal { $($name:ident $code:literal $text:literal;)* }) => {
        #[doc = concat!("What a call of ", $noun, " answered.")]
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[expect(non_camel_case_types, reason = "the library's own name")]
        #[expect(clippy::exhaustive_structs, reason = "the layout is C's")]
        pub struct $Status(pub core::ffi::c_uint);

        impl $Status {
            $(
                #[doc = concat!("`", $prefix, stringify!($name), "` (", stringify!($code), "): ", $text, ".")]
                pub const $name: Self = Self($code);
            )*

            /// Every code that this crate knows, [`SUCCESS`](Self::SUCCESS) and [`MISSING`](Self::MISSING) aside.
            pub const KNOWN: &[Self] = &[$(Self::$name),*];

            /// The call succeeded, and its out-parameters are written.
            pub const SUCCESS: Self = Self(0);

            /// The implementation behind the trait lacks the function. The library doesn't use this value, and it never
            /// leaves the layers of this project as a status: above the trait it is an error kind of its own.
            pub const MISSING: Self = Self(core::ffi::c_uint::MAX);

            const fn entry(self) -> Option<(&'static str, &'static str)> {
                match self.0 {
                    0 => Some(($success, "no error")),
                    $($code => Some((concat!($prefix, stringify!($name)), $text)),)*
                    _ => None,
                }
            }

            /// Whether the call succeeded.
            #[must_use]
            #[inline]
            pub const fn is_success(self) -> bool {
                self.0 == 0
            }

            /// The library's name of the code; `None` for a code newer than this crate.
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

        impl core::fmt::Display for $Status {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match (self.name(), *self) {
                    (Some(name), Self(code)) => write!(f, "{name} ({code})"),
                    (None, Self::MISSING) => f.write_str("missing function"),
                    (None, Self(code)) => write!(f, concat!($noun, " status {}"), code),
                }
            }
        }

        impl core::fmt::Debug for $Status {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }

        #[cfg(test)]
        mod tests {
            use super::$Status;

            #[test]
            fn a_code_that_this_crate_does_not_know_prints_as_its_number() {
                assert_eq!($Status(9999).to_string(), concat!($noun, " status 9999"));
                assert_eq!($Status::MISSING.to_string(), "missing function");
            }

            #[test]
            fn known_codes_are_numbered_through_and_have_both_texts() {
                for (code, number) in $Status::KNOWN.iter().zip(1..) {
                    assert_eq!(code.0, number);
                    assert!(code.name().is_some_and(|name| name.starts_with($prefix)));
                    assert!(code.description().is_some_and(|d| !d.is_empty() && !d.ends_with('.')));
                }
            }
        }
    };
}
pub(crate) use statuses;
