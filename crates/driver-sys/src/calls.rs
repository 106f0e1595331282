//! Named calls: the trait's methods again, returning the failure together with the function's identity.
//!
//! All code above this crate calls through [`Calls`], so that no call's name is written twice and nothing can name
//! the wrong one.

#![expect(unsafe_code, reason = "the methods are C functions")]
#![expect(
    non_snake_case,
    reason = "the methods carry the exported C names, so that a name is written once"
)]

use crate::{Call, DriverApi, Listed, ffi::*};
use core::fmt;

/// A call that didn't succeed: which one, and what it answered. A driver's, unless said otherwise.
///
/// At most two words, `Copy`: usable in a `Drop`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a pair that every layer makes and takes apart")]
pub struct Failure<C: Listed = Call> {
    /// The call.
    pub call: C,
    /// What it answered; never `SUCCESS`.
    pub status: C::Status,
}

impl<C: Listed> fmt::Display for Failure<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered {}", self.call, self.status)
    }
}

impl<C: Listed> fmt::Debug for Failure<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<C: Listed> core::error::Error for Failure<C> {}

macro_rules! named_calls {
    ({} $($name:ident $kind:ident $context:ident $capture:ident $waits:ident
        { $($form:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)+ })*) => {
        impl Calls<'_> {
            $($(
                #[doc = concat!("Calls `", stringify!($form), "`.")]
                ///
                /// # Errors
                /// The status, if it isn't `SUCCESS`, with this call's identity.
                ///
                /// # Safety
                /// That of [`DriverApi`]'s callers: *pointers*, *handles*, *calls back*.
                #[inline]
                #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "C's signature, long or short")]
                pub unsafe fn $form(self, $($argument: $type),*) -> Result<(), Failure> {
                    // SAFETY: *pointers*, *handles*, *calls back*: the caller's promise.
                    let status = unsafe { self.0.$form($($argument),*) };
                    if status.is_success() { Ok(()) } else { Err(Failure { call: Call::$form, status }) }
                }
            )+)*
        }
    };
}

/// A driver, called by name.
#[derive(Clone, Copy)]
pub struct Calls<'a>(&'a dyn DriverApi);

impl<'a> Calls<'a> {
    /// Calls this driver.
    #[must_use]
    #[inline]
    pub fn new(api: &'a dyn DriverApi) -> Self {
        Self(api)
    }

    /// The driver itself.
    #[must_use]
    #[inline]
    pub fn api(self) -> &'a dyn DriverApi {
        self.0
    }
}

impl fmt::Debug for Calls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

crate::for_each_driver_function! { named_calls, {} }
