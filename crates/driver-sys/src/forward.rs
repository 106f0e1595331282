//! Handing every call on: how a wrapper becomes a driver without writing 400 methods.

/// Implements [`DriverApi`](crate::DriverApi) for a type by handing each call to another driver.
///
/// `forward_driver_api!(Type, |this| expression)`, where the expression is a `&dyn DriverApi` or `&impl DriverApi`. The
/// types of [`ffi`](crate::ffi) must be in scope, and so must `DriverApi`, `Call`, `CUresult` and `Life`.
#[macro_export]
macro_rules! forward_driver_api {
    ($type:ty, |$this:ident| $inner:expr) => {
        $crate::for_each_driver_function! { $crate::__forward_driver_api, { $type, $this, $inner } }
    };
}

/// What `forward_driver_api` expands to.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward_driver_api {
    ({ $type:ty, $this:ident, $inner:expr } $($name:ident $kind:ident $context:ident $capture:ident $waits:ident
        { $($form:ident $since:literal $arguments:tt;)+ })*) => {
        // SAFETY: *written*, *no unwinding*, *any thread*: each method is the inner driver's, which promises them.
        #[allow(non_snake_case, clippy::too_many_arguments, clippy::allow_attributes, reason = "C's names and signatures")]
        unsafe impl $crate::DriverApi for $type {
            fn life(&self) -> $crate::Life {
                let $this = self;
                $inner.life()
            }
            fn unsupported(&self, call: $crate::Call) -> $crate::CUresult {
                let $this = self;
                $inner.unsupported(call)
            }
            fn denied(&self, call: $crate::Call) {
                let $this = self;
                $inner.denied(call);
            }
            $($( $crate::__forward_method! { $this, $inner, $form $arguments } )+)*
        }
    };
}

/// One method of `forward_driver_api`.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward_method {
    ($this:ident, $inner:expr, $form:ident ($($argument:ident : $type:ty),* $(,)?)) => {
        #[inline]
        unsafe fn $form(&self, $($argument: $type),*) -> $crate::CUresult {
            let $this = self;
            // SAFETY: *pointers*, *handles*, *calls back*: the caller's promise.
            unsafe { $inner.$form($($argument),*) }
        }
    };
}
