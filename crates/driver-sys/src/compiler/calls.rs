//! The identities of a list's calls, and handles.

/// Makes the enum of a list's calls. The head: its name, the status type, the library's noun.
macro_rules! calls {
    ({ $Call:ident $Status:ident $noun:literal } $($name:ident $kind:ident $since:literal $arguments:tt;)*) => {
        #[doc = concat!("A function of ", $noun, ": an index into its list, and the identity that failures, hooks and logs carry.")]
        #[repr(u16)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[expect(non_camel_case_types, reason = "the variants are the library's own names")]
        pub enum $Call {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                $name,
            )*
        }

        impl $Call {
            /// Every function, in the order of the list.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The function's name, which is the exported C symbol too.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What the function does to objects.
            #[must_use]
            pub const fn kind(self) -> $crate::Kind {
                match self { $(Self::$name => $crate::Kind::$kind,)* }
            }

            /// The CUDA version that brought the function.
            #[must_use]
            pub const fn since(self) -> $crate::Version {
                match self { $(Self::$name => $crate::Version($since),)* }
            }
        }

        impl $crate::Listed for $Call {
            type Status = $Status;

            const LIST: &'static [Self] = Self::ALL;

            fn index(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                self.name()
            }

            fn kind(self) -> $crate::Kind {
                self.kind()
            }

            fn is_success(status: $Status) -> bool {
                status.is_success()
            }
        }

        impl core::fmt::Display for $Call {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl core::fmt::Debug for $Call {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use calls;

/// Makes the type of a library's handles.
macro_rules! handle {
    ($(#[$doc:meta])* $Handle:ident) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[expect(non_camel_case_types, reason = "the library's own name")]
        #[expect(clippy::exhaustive_structs, reason = "the layout is C's")]
        pub struct $Handle(pub *mut core::ffi::c_void);

        // SAFETY: the word is never followed on this side; sending it is sending an integer.
        unsafe impl Send for $Handle {}
        // SAFETY: as above; sharing it is sharing an integer.
        unsafe impl Sync for $Handle {}

        impl $Handle {
            /// The null handle.
            pub const NULL: Self = Self(core::ptr::null_mut());

            /// Whether this is the null handle.
            #[must_use]
            pub const fn is_null(self) -> bool {
                self.0.is_null()
            }
        }

        impl $crate::Bits for $Handle {
            fn bits(&self) -> u64 {
                self.0.bits()
            }
        }
    };
}
pub(crate) use handle;
