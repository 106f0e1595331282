//! The address of each function form in an open driver.
//!
//! `cuGetProcAddress` is asked with the documented name and the version that brought the form: it answers with the
//! newest form not above that version, refuses a version above the driver's, and answers SUCCESS with a null pointer for
//! what it lacks (measured). Where it has nothing, the form's exported symbol is looked up.

#![expect(unsafe_code, reason = "calls cuGetProcAddress")]

use core::{ffi::CStr, mem, ptr, ptr::NonNull};
use std::ffi::CString;

use super::Opened;
use crate::{Call, Function, Version, ffi::*};

/// An address for each form that the driver has.
pub(super) struct Addresses(Vec<Option<NonNull<c_void>>>);

impl Addresses {
    /// Asks the driver for each form.
    ///
    /// # Safety
    /// - *CUDA's symbols*: what the library exports under CUDA's names is what CUDA declares under them.
    pub(super) unsafe fn new(library: &Opened) -> Self {
        // SAFETY: *CUDA's symbols*: the caller's promise.
        let lookup = unsafe { Lookup::new(library) };
        let mut found = Self(vec![None; Call::ALL.len()]);
        for function in Function::ALL {
            let name = CString::new(function.name).unwrap_or_default();
            for (index, form) in function.forms.iter().enumerate().rev() {
                let older = function.forms.get(index + 1..).unwrap_or_default();
                // An older form's address isn't this form, whatever version the driver says that it is. (A driver that
                // lacks the new form may answer with the newest that it has.)
                let is_new = |address: &NonNull<c_void>| {
                    older.iter().all(|older| found.of(*older) != Some(*address))
                };
                let address = lookup
                    .ask(&name, form.since())
                    .filter(is_new)
                    .or_else(|| library.symbol(form.symbol()).filter(is_new));
                found.put(*form, address);
            }
        }
        found
    }

    /// The address of a form, if the driver has it.
    pub(super) fn of(&self, call: Call) -> Option<NonNull<c_void>> {
        self.0.get(call as usize).copied().flatten()
    }

    fn put(&mut self, call: Call, address: Option<NonNull<c_void>>) {
        if let Some(slot) = self.0.get_mut(call as usize) {
            *slot = address;
        }
    }
}

/// The driver's own look-up: the form of CUDA 12.0, else that of 11.3, else none.
enum Lookup {
    WithStatus(ProcAddress12),
    Plain(ProcAddress11),
    None,
}

type ProcAddress12 = unsafe extern "system" fn(
    *const c_char,
    *mut *mut c_void,
    c_int,
    cuuint64_t,
    *mut CUdriverProcAddressQueryResult,
) -> CUresult;

type ProcAddress11 =
    unsafe extern "system" fn(*const c_char, *mut *mut c_void, c_int, cuuint64_t) -> CUresult;

impl Lookup {
    /// # Safety
    /// As [`Addresses::new`].
    #[expect(clippy::disallowed_methods, reason = "the loader turns an address into a function")]
    unsafe fn new(library: &Opened) -> Self {
        if let Some(address) = library.symbol("cuGetProcAddress_v2") {
            // SAFETY: *CUDA's symbols*: this is the signature that CUDA 12.0 gave the name.
            Self::WithStatus(unsafe { mem::transmute::<NonNull<c_void>, ProcAddress12>(address) })
        } else if let Some(address) = library.symbol("cuGetProcAddress") {
            // SAFETY: *CUDA's symbols*: this is the signature that CUDA 11.3 gave the name.
            Self::Plain(unsafe { mem::transmute::<NonNull<c_void>, ProcAddress11>(address) })
        } else {
            Self::None
        }
    }

    /// What the driver answers for the documented name and the version; none if it doesn't succeed.
    fn ask(&self, name: &CStr, version: Version) -> Option<NonNull<c_void>> {
        /// The legacy default stream, as the exported symbols have it.
        const FLAGS: cuuint64_t = 0;

        let (name, mut address) = (name.as_ptr(), ptr::null_mut());
        let mut status = CUdriverProcAddressQueryResult(0);
        let answer = match self {
            Self::WithStatus(ask) => {
                // SAFETY: the name is terminated, both results are writable for the call.
                unsafe { ask(name, &raw mut address, version.0, FLAGS, &raw mut status) }
            }
            Self::Plain(ask) => {
                // SAFETY: the name is terminated, the result is writable for the call.
                unsafe { ask(name, &raw mut address, version.0, FLAGS) }
            }
            Self::None => return None,
        };
        if answer.is_success() { NonNull::new(address) } else { None }
    }
}
