//! Arguments for calling every function of a list: all zero.

#![expect(unsafe_code, reason = "makes zeroed values")]

/// A null pointer, a null handle, the number zero.
pub(crate) trait Zero: Sized {
    fn zero() -> Self;
}

impl<T: Copy> Zero for T {
    fn zero() -> Self {
        // SAFETY: the arguments of C functions are integers, pointers that may be null, and structs and unions of those.
        unsafe { core::mem::zeroed() }
    }
}
