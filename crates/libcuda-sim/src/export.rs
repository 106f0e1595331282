//! CUDA's C symbols, one per form of the list, and the addresses that `cuGetProcAddress` answers with.

#![expect(unsafe_code, reason = "exports C functions")]

use cuhold_driver_sys::{Call, DriverApi as _, ffi::*};

use crate::process::answer;

macro_rules! exports {
    ({} $($name:ident $kind:ident $context:ident $capture:ident $waits:ident
        { $($form:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)+ })*) => {
        $($( export! { $form ($($argument: $type),*) } )+)*

        /// The C function of a form.
        pub(crate) fn address(call: Call) -> *mut c_void {
            let function: *const () = match call {
                $($(Call::$form => $form as *const (),)+)*
                // The list and this match come from the same entries.
                _ => core::ptr::null(),
            };
            function.cast_mut().cast()
        }
    };
}

macro_rules! export {
    ($form:ident ($($argument:ident : $type:ty),*)) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "C's signature, long or short")]
        unsafe extern "system" fn $form($($argument: $type),*) -> CUresult {
            answer(Call::$form, |driver| {
                // SAFETY: *pointers*, *handles*, *calls back*: what CUDA asks of who calls the C function.
                unsafe { driver.$form($($argument),*) }
            })
        }
    };
}

cuhold_driver_sys::for_each_driver_function! { exports, {} }

/// The look-up as CUDA 11.3 had it: without a reason, and what is missing is a failure.
#[unsafe(no_mangle)]
unsafe extern "system" fn cuGetProcAddress(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cuda_version: c_int,
    flags: cuuint64_t,
) -> CUresult {
    let reason = core::ptr::null_mut();
    // SAFETY: *pointers*: what CUDA asks of who calls the C function; the reason may be null.
    let status = unsafe { cuGetProcAddress_v2(symbol, pfn, cuda_version, flags, reason) };
    // SAFETY: *pointers*: not null, or the call above had refused it, and written by it.
    if status.is_success() && unsafe { pfn.read() }.is_null() {
        return CUresult::NOT_FOUND;
    }
    status
}
