//! CUDA's C symbols, one per form of the list, and the addresses that `cuGetProcAddress` answers with.
//!
//! A program whose default stream is each thread's own asks `cuGetProcAddress` for that with a flag. It gets the function
//! beside the exported one, in [`per_thread`], which takes a null stream for the thread's.

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

        /// The functions for whom a null stream is the calling thread's own.
        mod per_thread {
            use super::{Given, Plain as _, answer};
            use cuhold_driver_sys::{Call, DriverApi as _, ffi::*};

            $($(
                #[allow(non_snake_case, clippy::too_many_arguments, clippy::allow_attributes, reason = "C's name and signature")]
                unsafe extern "system" fn $form($($argument: $type),*) -> CUresult {
                    answer(Call::$form, |driver| {
                        // SAFETY: *pointers*, *handles*, *calls back*: what CUDA asks of who calls the C function.
                        unsafe { driver.$form($(Given($argument).on_this_thread()),*) }
                    })
                }
            )+)*

            /// The function of a form that is given a stream; null for another.
            pub(super) fn address(call: Call) -> *mut c_void {
                let function: *const () = match call {
                    $($(Call::$form if false $(|| Given::<$type>::IS_STREAM)* => $form as *const (),)+)*
                    _ => core::ptr::null(),
                };
                function.cast_mut().cast()
            }
        }
    };
}

macro_rules! export {
    // Looks at its flags as well: below.
    (cuGetProcAddress_v2 $arguments:tt) => {};
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

/// An argument. What is said of a stream stands at the type, and comes before what [`Plain`] says of all.
struct Given<T>(T);

impl Given<CUstream> {
    const IS_STREAM: bool = true;

    /// A null stream is the calling thread's own.
    fn on_this_thread(self) -> CUstream {
        if self.0.is_null() { CU_STREAM_PER_THREAD } else { self.0 }
    }
}

/// An argument that isn't a stream.
trait Plain<T> {
    const IS_STREAM: bool = false;

    fn on_this_thread(self) -> T;
}

impl<T> Plain<T> for Given<T> {
    fn on_this_thread(self) -> T {
        self.0
    }
}

/// A launch's stream stands in its configuration.
unsafe extern "system" fn launch_ex_per_thread(
    config: *const CUlaunchConfig,
    function: CUfunction,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    answer(Call::cuLaunchKernelEx, |driver| {
        // SAFETY: *pointers*: null, or a configuration.
        let mut own = unsafe { config.as_ref() }.copied();
        if let Some(own) = &mut own {
            own.hStream = Given(own.hStream).on_this_thread();
        }
        let config = own.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: *pointers*, *handles*: what CUDA asks of who calls the C function; the copy outlives the call.
        unsafe { driver.cuLaunchKernelEx(config, function, params, extra) }
    })
}

/// The function beside an exported one for whom a null stream is the thread's own; the same one where there is none.
fn per_thread_of(exported: *mut c_void) -> *mut c_void {
    let call = Call::ALL.iter().copied().find(|call| address(*call) == exported);
    let own = match call {
        // Ends a stream, and none of CUDA's own.
        Some(Call::cuStreamDestroy_v2) | None => core::ptr::null_mut(),
        Some(Call::cuLaunchKernelEx) => (launch_ex_per_thread as *const ()).cast_mut().cast(),
        Some(call) => per_thread::address(call),
    };
    if own.is_null() { exported } else { own }
}

/// The look-up. What is found is the exported function, or with the flag for it the one beside it.
#[unsafe(no_mangle)]
unsafe extern "system" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cuda_version: c_int,
    flags: cuuint64_t,
    symbol_status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    let status = answer(Call::cuGetProcAddress_v2, |driver| {
        // SAFETY: *pointers*: what CUDA asks of who calls the C function.
        unsafe { driver.cuGetProcAddress_v2(symbol, pfn, cuda_version, flags, symbol_status) }
    });
    let flag = CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if status.is_success() && flags & cuuint64_t::from(flag.0) != 0 {
        // SAFETY: *pointers*: not null, or the call above had refused it, and written by it.
        let found = unsafe { pfn.read() };
        // SAFETY: as above.
        unsafe { pfn.write(per_thread_of(found)) };
    }
    status
}

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
