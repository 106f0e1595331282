//! Buffers and views as arguments of a kernel: the address of their first element.

#![expect(unsafe_code, reason = "says how a kernel receives a buffer")]

use super::{Buffer, BufferView, BufferViewMut};
use bytemuck::Pod;
use cuhold_handles::{Driver, KeepAlive, KernelArg, Result};

macro_rules! arguments {
    ($($argument:ty),+ $(,)?) => { $(
        // SAFETY: a pointer parameter is a 64-bit address.
        unsafe impl<T: Pod> KernelArg for $argument {
            type Repr = u64;

            #[inline]
            fn repr(&self, driver: &Driver) -> Result<u64> {
                driver.check_same(self.driver(), "args: a buffer")?;
                Ok(self.device_ptr())
            }

            fn keep(&self) -> Option<KeepAlive> {
                self.kept()
            }
        }
    )+ };
}

arguments! {
    &Buffer<T>,
    &mut Buffer<T>,
    BufferView<'_, T>,
    &BufferView<'_, T>,
    BufferViewMut<'_, T>,
    &BufferViewMut<'_, T>,
    &mut BufferViewMut<'_, T>,
}
