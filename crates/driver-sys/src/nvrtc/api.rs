//! The seam of NVRTC: an object-safe trait with a method per function, its calls by name, and hooks around it.

#![expect(unsafe_code, reason = "the methods are C functions")]
#![expect(
    non_snake_case,
    reason = "the methods carry NVRTC's names, so that a name is written once"
)]

use core::{
    ffi::{c_char, c_int, c_void},
    fmt, ptr,
};
use std::sync::Arc;

use super::{NvrtcCall, nvrtcFlowCallback, nvrtcProgram, nvrtcResult};
use crate::{Bits, Failure, Hook, Hooked};

/// An NVRTC call that didn't succeed: which one, and what it answered.
pub type NvrtcFailure = Failure<NvrtcCall>;

/// NVRTC, called by name.
#[derive(Clone, Copy)]
pub struct NvrtcCalls<'a>(&'a dyn NvrtcApi);

impl<'a> NvrtcCalls<'a> {
    /// Calls this compiler.
    #[must_use]
    pub fn new(api: &'a dyn NvrtcApi) -> Self {
        Self(api)
    }

    /// The compiler itself.
    #[must_use]
    pub fn api(self) -> &'a dyn NvrtcApi {
        self.0
    }
}

impl fmt::Debug for NvrtcCalls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NvrtcCalls").finish_non_exhaustive()
    }
}

macro_rules! nvrtc_api {
    ({} $($name:ident $kind:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)*) => {
        /// Every NVRTC function as a method. Those that an implementation doesn't have answer
        /// [`nvrtcResult::MISSING`].
        ///
        /// # Safety
        /// An implementation promises:
        /// - *written*: a method that answers `SUCCESS` has written every out-parameter;
        /// - *no unwinding*: no method unwinds;
        /// - *any thread*: every method may be called on any thread, for different programs several at once.
        ///
        /// A caller of a method promises:
        /// - *pointers*: each pointer argument is valid for what NVRTC's documentation of the function reads and writes
        ///   through it;
        /// - *programs*: each program is one that this implementation gave out and that wasn't destroyed since, and no
        ///   other call uses it meanwhile;
        /// - *calls back*: a callback doesn't unwind and may be called as NVRTC documents it.
        pub unsafe trait NvrtcApi: Send + Sync + 'static {
            /// One sentence of cause, where the implementation knows more about a status than its description says.
            #[cold]
            fn explain(&self, status: nvrtcResult) -> Option<String> {
                let _: nvrtcResult = status;
                None
            }

            /// What a method that isn't implemented answers.
            #[cold]
            fn unsupported(&self, call: NvrtcCall) -> nvrtcResult {
                let _: NvrtcCall = call;
                nvrtcResult::MISSING
            }

            /// `nvrtcGetErrorString`: NVRTC's own name of a status; null where it is missing. Hooks don't see it.
            ///
            /// # Safety
            /// It has no conditions.
            unsafe fn nvrtcGetErrorString(&self, result: nvrtcResult) -> *const c_char {
                let _: nvrtcResult = result;
                ptr::null()
            }

            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                #[allow(clippy::too_many_arguments, clippy::missing_safety_doc, clippy::allow_attributes, reason = "C's signature, long or short; the contract is the trait's")]
                unsafe fn $name(&self, $($argument: $type),*) -> nvrtcResult {
                    $(let _: $type = $argument;)*
                    self.unsupported(NvrtcCall::$name)
                }
            )*
        }

        impl NvrtcCalls<'_> {
            $(
                #[doc = concat!("Calls `", stringify!($name), "`.")]
                ///
                /// # Errors
                /// The status, if it isn't `SUCCESS`, with this call's identity.
                ///
                /// # Safety
                /// That of [`NvrtcApi`]'s callers: *pointers*, *programs*, *calls back*.
                #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "C's signature, long or short")]
                pub unsafe fn $name(self, $($argument: $type),*) -> Result<(), NvrtcFailure> {
                    // SAFETY: *pointers*, *programs*, *calls back*: the caller's promise.
                    let status = unsafe { self.0.$name($($argument),*) };
                    if status.is_success() { Ok(()) } else { Err(Failure { call: NvrtcCall::$name, status }) }
                }
            )*
        }

        // SAFETY: *written*: SUCCESS is answered only where the inner compiler answered it. *No unwinding*: it doesn't,
        // and hooks must not. *Any thread*: both are `Sync`.
        unsafe impl<D: NvrtcApi, H: Hook<NvrtcCall>> NvrtcApi for Hooked<D, H> {
            fn explain(&self, status: nvrtcResult) -> Option<String> {
                self.inner().explain(status)
            }
            fn unsupported(&self, call: NvrtcCall) -> nvrtcResult {
                self.inner().unsupported(call)
            }
            unsafe fn nvrtcGetErrorString(&self, result: nvrtcResult) -> *const c_char {
                // SAFETY: it has no conditions.
                unsafe { self.inner().nvrtcGetErrorString(result) }
            }
            $(
                unsafe fn $name(&self, $($argument: $type),*) -> nvrtcResult {
                    let make = |inner: &D| {
                        // SAFETY: *pointers*, *programs*, *calls back*: the caller's promise, passed on.
                        unsafe { inner.$name($($argument),*) }
                    };
                    self.around(NvrtcCall::$name, &[$(Bits::bits(&$argument)),*], make, |_| ())
                }
            )*
        }
    };
}

crate::for_each_nvrtc_function! { nvrtc_api, {} }

macro_rules! pointer_to_nvrtc {
    ({ $pointer:ty } $($name:ident $kind:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)*) => {
        // SAFETY: *written*, *no unwinding*, *any thread*: each method is the inner compiler's, which promises them.
        unsafe impl NvrtcApi for $pointer {
            fn explain(&self, status: nvrtcResult) -> Option<String> {
                (**self).explain(status)
            }
            fn unsupported(&self, call: NvrtcCall) -> nvrtcResult {
                (**self).unsupported(call)
            }
            unsafe fn nvrtcGetErrorString(&self, result: nvrtcResult) -> *const c_char {
                // SAFETY: it has no conditions.
                unsafe { (**self).nvrtcGetErrorString(result) }
            }
            $(
                unsafe fn $name(&self, $($argument: $type),*) -> nvrtcResult {
                    // SAFETY: *pointers*, *programs*, *calls back*: the caller's promise, passed on.
                    unsafe { (**self).$name($($argument),*) }
                }
            )*
        }
    };
}

crate::for_each_nvrtc_function! { pointer_to_nvrtc, { Box<dyn NvrtcApi> } }
crate::for_each_nvrtc_function! { pointer_to_nvrtc, { Arc<dyn NvrtcApi> } }
