//! The seam of a compiler: an object-safe trait with a method per function, its calls by name, and hooks around it.

/// Makes the trait, the named calls and the hooks of a list. The head: the trait, the calls, the call's identity, the
/// status, the failure, the library's noun, and the function that names a status, where there is one.
macro_rules! api {
    ({ $Api:ident $Calls:ident $Call:ident $Status:ident $Failure:ident $noun:literal $($error_string:ident)? }
     $($name:ident $kind:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)*) => {
        #[doc = concat!("A call of ", $noun, " that didn't succeed: which one, and what it answered.")]
        pub type $Failure = $crate::Failure<$Call>;

        #[doc = concat!($noun, ", called by name.")]
        #[derive(Clone, Copy)]
        pub struct $Calls<'a>(&'a dyn $Api);

        impl<'a> $Calls<'a> {
            /// Calls this library.
            #[must_use]
            pub fn new(api: &'a dyn $Api) -> Self {
                Self(api)
            }

            /// The library itself.
            #[must_use]
            pub fn api(self) -> &'a dyn $Api {
                self.0
            }
        }

        impl core::fmt::Debug for $Calls<'_> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($Calls)).finish_non_exhaustive()
            }
        }

        #[doc = concat!("Every function of ", $noun, " as a method. Those that an implementation doesn't have answer *missing*.")]
        ///
        /// # Safety
        /// An implementation promises:
        /// - *written*: a method that answers `SUCCESS` has written every out-parameter;
        /// - *no unwinding*: no method unwinds;
        /// - *any thread*: every method may be called on any thread, for different handles several at once.
        ///
        /// A caller of a method promises:
        /// - *pointers*: each pointer argument is valid for what the documentation of the function reads and writes
        ///   through it;
        /// - *programs*: each handle is one that this implementation gave out and that wasn't destroyed since, and no
        ///   other call uses it meanwhile;
        /// - *calls back*: a callback doesn't unwind and may be called as it is documented.
        pub unsafe trait $Api: Send + Sync + 'static {
            /// One sentence of cause, where the implementation knows more about a status than its description says.
            #[cold]
            fn explain(&self, status: $Status) -> Option<String> {
                let _: $Status = status;
                None
            }

            /// What a method that isn't implemented answers.
            #[cold]
            fn unsupported(&self, call: $Call) -> $Status {
                let _: $Call = call;
                $Status::MISSING
            }

            $(
                #[doc = concat!("`", stringify!($error_string), "`: the library's own name of a status; null where it is missing. Hooks don't see it.")]
                ///
                /// # Safety
                /// It has no conditions.
                unsafe fn $error_string(&self, result: $Status) -> *const core::ffi::c_char {
                    let _: $Status = result;
                    core::ptr::null()
                }
            )?

            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                #[allow(clippy::too_many_arguments, clippy::missing_safety_doc, clippy::allow_attributes, reason = "C's signature, long or short; the contract is the trait's")]
                unsafe fn $name(&self, $($argument: $type),*) -> $Status {
                    $(let _: $type = $argument;)*
                    self.unsupported($Call::$name)
                }
            )*
        }

        impl $Calls<'_> {
            $(
                #[doc = concat!("Calls `", stringify!($name), "`.")]
                ///
                /// # Errors
                /// The status, if it isn't `SUCCESS`, with this call's identity.
                ///
                /// # Safety
                /// That of the trait's callers: *pointers*, *programs*, *calls back*.
                #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "C's signature, long or short")]
                pub unsafe fn $name(self, $($argument: $type),*) -> Result<(), $Failure> {
                    // SAFETY: *pointers*, *programs*, *calls back*: the caller's promise.
                    let status = unsafe { self.0.$name($($argument),*) };
                    if status.is_success() { Ok(()) } else { Err($crate::Failure { call: $Call::$name, status }) }
                }
            )*
        }

        // SAFETY: *written*: SUCCESS is answered only where the inner library answered it. *No unwinding*: it doesn't, and
        // hooks must not. *Any thread*: both are `Sync`.
        unsafe impl<D: $Api, H: $crate::Hook<$Call>> $Api for $crate::Hooked<D, H> {
            fn explain(&self, status: $Status) -> Option<String> {
                self.inner().explain(status)
            }
            fn unsupported(&self, call: $Call) -> $Status {
                self.inner().unsupported(call)
            }
            $(
                unsafe fn $error_string(&self, result: $Status) -> *const core::ffi::c_char {
                    // SAFETY: it has no conditions.
                    unsafe { self.inner().$error_string(result) }
                }
            )?
            $(
                unsafe fn $name(&self, $($argument: $type),*) -> $Status {
                    let make = |inner: &D| {
                        // SAFETY: *pointers*, *programs*, *calls back*: the caller's promise, passed on.
                        unsafe { inner.$name($($argument),*) }
                    };
                    self.around($Call::$name, &[$($crate::Bits::bits(&$argument)),*], make, |_| ())
                }
            )*
        }
    };
}
pub(crate) use api;

/// Makes a pointer to the trait an implementation of it. The head: the pointer, the trait, the call's identity, the status,
/// and the function that names a status, where there is one.
macro_rules! pointer {
    ({ $pointer:ty, $Api:ident $Call:ident $Status:ident $($error_string:ident)? }
     $($name:ident $kind:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)*) => {
        // SAFETY: *written*, *no unwinding*, *any thread*: each method is the inner library's, which promises them.
        unsafe impl $Api for $pointer {
            fn explain(&self, status: $Status) -> Option<String> {
                (**self).explain(status)
            }
            fn unsupported(&self, call: $Call) -> $Status {
                (**self).unsupported(call)
            }
            $(
                unsafe fn $error_string(&self, result: $Status) -> *const core::ffi::c_char {
                    // SAFETY: it has no conditions.
                    unsafe { (**self).$error_string(result) }
                }
            )?
            $(
                unsafe fn $name(&self, $($argument: $type),*) -> $Status {
                    // SAFETY: *pointers*, *programs*, *calls back*: the caller's promise, passed on.
                    unsafe { (**self).$name($($argument),*) }
                }
            )*
        }
    };
}
pub(crate) use pointer;
