//! Arguments of a launch: values, users' structs, buffers, packed on the stack.

#![expect(unsafe_code, reason = "defines what may be handed to a kernel")]

use crate::{driver::Driver, error::Result, keep::KeepAlive, stream::StreamRef};
use bytemuck::NoUninit;
use std::ffi::c_void;

/// One argument of a kernel.
///
/// Implemented for plain values (integers, floats, arrays, users' `#[repr(C)]` structs that derive
/// [`bytemuck::NoUninit`]), and by the crate `cuhold-memory` for buffers and views.
///
/// # Safety
/// `Repr` is laid out as the kernel's parameter.
pub unsafe trait KernelArg {
    /// What the kernel receives.
    type Repr: Copy;

    /// The value that the kernel receives.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for an object of another driver.
    fn repr(&self, driver: &Driver) -> Result<Self::Repr>;

    /// Told after a launch that may have been queued on this stream: memory remembers who uses it.
    ///
    /// Calls nothing, unless an implementation does.
    ///
    /// # Errors
    /// It couldn't be remembered; the launch stands.
    #[inline]
    fn used_on(&self, _: StreamRef<'_>) -> Result<()> {
        Ok(())
    }

    /// What a graph keeps that may run the kernel with this argument later: the memory behind an address.
    ///
    /// Calls nothing.
    fn keep(&self) -> Option<KeepAlive> {
        None
    }
}

// SAFETY: a plain value is its own parameter.
unsafe impl<T: NoUninit> KernelArg for T {
    type Repr = T;
    #[inline]
    fn repr(&self, _: &Driver) -> Result<T> {
        Ok(*self)
    }
}

/// The arguments of a kernel: a tuple of up to sixteen.
///
/// # Safety
/// `use_them` is handed one pointer and one size for each argument, in order; each pointer leads to a value of that size
/// while `use_them` runs.
pub unsafe trait KernelArgs {
    /// Packs the arguments and hands them to `use_them`.
    ///
    /// # Errors
    /// An argument's own, else that of `use_them`.
    fn with<T>(
        &self,
        driver: &Driver,
        use_them: impl FnOnce(&mut [*mut c_void], &[usize]) -> Result<T>,
    ) -> Result<T>;

    /// Tells each argument that a launch may have been queued on this stream.
    ///
    /// Calls nothing, unless an argument does.
    ///
    /// # Errors
    /// The first that couldn't remember it, after all were told.
    #[inline]
    fn used_on(&self, _: StreamRef<'_>) -> Result<()> {
        Ok(())
    }

    /// Hands out what each argument [keeps](KernelArg::keep), in order.
    ///
    /// Calls nothing.
    fn keep(&self, each: &mut dyn FnMut(KeepAlive)) {
        let _: &mut dyn FnMut(KeepAlive) = each;
    }
}

// SAFETY: no argument, no pointer.
unsafe impl KernelArgs for () {
    #[inline]
    fn with<T>(
        &self,
        _: &Driver,
        use_them: impl FnOnce(&mut [*mut c_void], &[usize]) -> Result<T>,
    ) -> Result<T> {
        use_them(&mut [], &[])
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt)+) => {
        // SAFETY: one pointer and one size an argument, to locals that live while `use_them` runs.
        unsafe impl<$($name: KernelArg),+> KernelArgs for ($($name,)+) {
            #[inline]
            fn with<Value>(
                &self,
                driver: &Driver,
                use_them: impl FnOnce(&mut [*mut c_void], &[usize]) -> Result<Value>,
            ) -> Result<Value> {
                let mut values = ($(self.$index.repr(driver)?,)+);
                use_them(
                    &mut [$((&raw mut values.$index).cast::<c_void>()),+],
                    &[$(size_of::<$name::Repr>()),+],
                )
            }

            #[inline]
            fn used_on(&self, stream: StreamRef<'_>) -> Result<()> {
                let mut told = Ok(());
                $(told = told.and(self.$index.used_on(stream));)+
                told
            }

            fn keep(&self, each: &mut dyn FnMut(KeepAlive)) {
                $(self.$index.keep().into_iter().for_each(&mut *each);)+
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0 B 1);
tuples!(A 0 B 1 C 2);
tuples!(A 0 B 1 C 2 D 3);
tuples!(A 0 B 1 C 2 D 3 E 4);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15);
