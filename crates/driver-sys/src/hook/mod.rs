//! One wrapper around any driver, with a hook before and after each call: counting, logging, failing on purpose.
//!
//! A hook sees the call's identity and its arguments as words. It decides whether the call is made; it can't change
//! the arguments. Hooks stack: wrap twice, or use a pair.

#![expect(unsafe_code, reason = "the methods are C functions")]

mod bits;
mod faults;
mod log;

pub use bits::Bits;
pub use faults::{Effect, Fault, Faults};
pub use log::{CallCounts, CallLog, Entry};

use crate::{Call, DriverApi, Life, Listed, ffi::*};
use core::fmt;
use std::sync::Arc;

/// What a hook decides before a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Verdict<S = CUresult> {
    /// The call is made.
    Pass,
    /// The call isn't made; the caller hears this status.
    Refuse(S),
    /// The call is made, and where it succeeds the caller hears this status all the same. The driver below is told by
    /// [`DriverApi::denied`].
    PassButReport(S),
}

/// Something that watches, and may refuse, each call of a driver (or of another list).
///
/// A hook runs on the caller's thread, at any time: in a `Drop`, in a callback. It must not unwind, nor call the
/// driver that it hooks.
pub trait Hook<C: Listed = Call>: Send + Sync + 'static {
    /// Before the call; `arguments` are its arguments as words, in order ([`Bits`]).
    fn before(&self, call: C, arguments: &[u64]) -> Verdict<C::Status> {
        let _: (C, &[u64]) = (call, arguments);
        Verdict::Pass
    }

    /// After the call, with what the caller hears.
    fn after(&self, call: C, arguments: &[u64], status: C::Status) {
        let _: (C, &[u64], C::Status) = (call, arguments, status);
    }
}

impl<C: Listed, H: Hook<C> + ?Sized> Hook<C> for Arc<H> {
    fn before(&self, call: C, arguments: &[u64]) -> Verdict<C::Status> {
        (**self).before(call, arguments)
    }
    fn after(&self, call: C, arguments: &[u64], status: C::Status) {
        (**self).after(call, arguments, status);
    }
}

/// Both hooks, the first one first; a verdict of the first that isn't `Pass` stands.
impl<C: Listed, A: Hook<C>, B: Hook<C>> Hook<C> for (A, B) {
    fn before(&self, call: C, arguments: &[u64]) -> Verdict<C::Status> {
        match self.0.before(call, arguments) {
            Verdict::Pass => self.1.before(call, arguments),
            verdict => verdict,
        }
    }
    fn after(&self, call: C, arguments: &[u64], status: C::Status) {
        self.0.after(call, arguments, status);
        self.1.after(call, arguments, status);
    }
}

/// A driver with a hook around each call.
pub struct Hooked<D, H> {
    driver: D,
    hook: H,
}

impl<D, H> Hooked<D, H> {
    /// Puts `hook` around each call of `driver`.
    pub fn new(driver: D, hook: H) -> Self {
        Self { driver, hook }
    }

    /// The hook.
    pub fn hook(&self) -> &H {
        &self.hook
    }

    pub(crate) fn inner(&self) -> &D {
        &self.driver
    }

    /// Makes one call between the hook's two halves. `denied` hears of a call that was carried out although the caller
    /// is told of a failure.
    #[inline]
    pub(crate) fn around<C: Listed>(
        &self,
        call: C,
        arguments: &[u64],
        make: impl FnOnce(&D) -> C::Status,
        denied: impl FnOnce(&D),
    ) -> C::Status
    where
        H: Hook<C>,
    {
        let status = match self.hook.before(call, arguments) {
            Verdict::Pass => make(&self.driver),
            Verdict::Refuse(status) => status,
            Verdict::PassButReport(status) => {
                let answer = make(&self.driver);
                if C::is_success(answer) {
                    denied(&self.driver);
                    status
                } else {
                    answer
                }
            }
        };
        self.hook.after(call, arguments, status);
        status
    }
}

impl<D, H: fmt::Debug> fmt::Debug for Hooked<D, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked").field("hook", &self.hook).finish_non_exhaustive()
    }
}

macro_rules! hooked {
    ({} $($name:ident $kind:ident $context:ident $capture:ident $waits:ident
        { $($form:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)+ })*) => {
        // SAFETY: *written*: SUCCESS is answered only where the inner driver answered it, which wrote the
        // out-parameters. *No unwinding*: the inner driver doesn't, and hooks must not. *Any thread*: both are `Sync`.
        unsafe impl<D: DriverApi, H: Hook> DriverApi for Hooked<D, H> {
            fn life(&self) -> Life {
                self.driver.life()
            }
            fn unsupported(&self, call: Call) -> CUresult {
                self.driver.unsupported(call)
            }
            fn denied(&self, call: Call) {
                self.driver.denied(call);
            }
            $($(
                unsafe fn $form(&self, $($argument: $type),*) -> CUresult {
                    let make = |driver: &D| {
                        // SAFETY: *pointers*, *handles*, *calls back*: the caller's promise, passed on.
                        unsafe { driver.$form($($argument),*) }
                    };
                    let denied = |driver: &D| driver.denied(Call::$form);
                    self.around(Call::$form, &[$(Bits::bits(&$argument)),*], make, denied)
                }
            )+)*
        }
    };
}

crate::for_each_driver_function! { hooked, {} }

crate::forward_driver_api!(Box<dyn DriverApi>, |this| &**this);
crate::forward_driver_api!(Arc<dyn DriverApi>, |this| &**this);
