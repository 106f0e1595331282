//! The seam: one object-safe trait with a method per function form. Whoever implements it is a driver.

#![expect(unsafe_code, reason = "the methods are C functions")]
#![expect(
    non_snake_case,
    reason = "the methods carry the exported C names, so that a name is written once"
)]

use crate::{Call, ffi::*};

/// In which part of its life the process stands, as far as driver calls are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Life {
    /// The driver may be called.
    Live,
    /// This process is a forked child of the one that initialized the driver: the driver must not be reached.
    Forked,
    /// Process exit began: a failing destroy is nobody's fault.
    Exiting,
}

macro_rules! driver_api {
    ({} $($name:ident $kind:ident $context:ident $capture:ident $waits:ident
        { $($form:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)+ })*) => {
        /// Every driver function form as a method. Those that an implementation doesn't have answer
        /// [`CUresult::MISSING`], through [`unsupported`](Self::unsupported); so a function that is added to the list
        /// breaks no implementation.
        ///
        /// # Safety
        /// An implementation promises:
        /// - *written*: a method that answers `SUCCESS` has written every out-parameter that isn't null;
        /// - *no unwinding*: no method unwinds;
        /// - *any thread*: every method may be called on any thread, several at once.
        ///
        /// A caller of a method promises:
        /// - *pointers*: each pointer argument is null where CUDA allows it, or valid for what CUDA's documentation of
        ///   the function reads and writes through it, for as long as it says;
        /// - *handles*: each handle is one that this implementation gave out and that wasn't destroyed since;
        /// - *calls back*: each function pointer doesn't unwind and may be called as CUDA documents it.
        pub unsafe trait DriverApi: Send + Sync + 'static {
            /// Where the process stands. Asked when a call in a `Drop` failed, to know whether to be silent, and
            /// before a lock is taken that the parent of a fork may hold.
            fn life(&self) -> Life {
                Life::Live
            }

            /// What a method that isn't implemented answers.
            #[cold]
            fn unsupported(&self, call: Call) -> CUresult {
                let _: Call = call;
                CUresult::MISSING
            }

            /// Told by a fault injector whenever a call was carried out although the caller hears of a failure. A
            /// simulated driver remembers it; others ignore it.
            #[cold]
            fn denied(&self, call: Call) {
                let _: Call = call;
            }

            $($(
                #[doc = concat!("`", stringify!($form), "`.")]
                #[allow(clippy::too_many_arguments, clippy::missing_safety_doc, clippy::allow_attributes, reason = "C's signature, long or short; the contract is the trait's")]
                unsafe fn $form(&self, $($argument: $type),*) -> CUresult {
                    $(let _: $type = $argument;)*
                    self.unsupported(Call::$form)
                }
            )+)*
        }
    };
}

crate::for_each_driver_function! { driver_api, {} }
