//! What views do, on all of a buffer.

use super::{Buffer, BufferView, BufferViewMut};
use crate::{
    host::{HostSource, HostTarget},
    pending::Pending,
};
use bytemuck::Pod;
use cuhold_handles::{Refused, Result};
use std::ops::RangeBounds;

impl<T: Pod> Buffer<T> {
    /// A range of it, for reading.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a range that isn't within it.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
    /// let device = Device::with_driver(&driver, 0)?;
    /// let buffer = Buffer::from_slice(&device.new_stream()?, &[3, 1, 4, 1, 5])?;
    /// assert_eq!(buffer.view(1..=2)?.to_vec()?, [1, 4]);
    /// assert!(buffer.view(4..6).is_err());
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<BufferView<'_, T>> {
        self.as_view().view(range)
    }

    /// A range of it, for reading and writing.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a range that isn't within it.
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<BufferViewMut<'_, T>> {
        self.as_view_mut().into_part(range)
    }

    /// As [`BufferView::split_at`], of all elements.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`BufferView::split_at`].
    pub fn split_at(&self, mid: usize) -> Result<(BufferView<'_, T>, BufferView<'_, T>)> {
        self.as_view().split_at(mid)
    }

    /// As [`BufferViewMut::split_at_mut`], of all elements.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`BufferViewMut::split_at_mut`].
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
    /// let device = Device::with_driver(&driver, 0)?;
    /// let mut buffer = Buffer::from_slice(&device.new_stream()?, &[1, 2, 0, 0])?;
    /// let (left, mut right) = buffer.split_at_mut(2)?;
    /// right.copy_from(&left)?;
    /// assert_eq!(buffer.to_vec()?, [1, 2, 1, 2]);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    pub fn split_at_mut(
        &mut self,
        mid: usize,
    ) -> Result<(BufferViewMut<'_, T>, BufferViewMut<'_, T>)> {
        self.as_view_mut().split_at_mut(mid)
    }

    /// As [`BufferView::to_vec`], of all elements.
    ///
    /// Calls as [`BufferView::to_vec`].
    ///
    /// # Errors
    /// As [`BufferView::to_vec`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_view().to_vec()
    }

    /// As [`BufferView::read_into`], of all elements.
    ///
    /// Calls as [`BufferView::to_vec`].
    ///
    /// # Errors
    /// As [`BufferView::read_into`].
    pub fn read_into(&self, dst: &mut [T]) -> Result<()> {
        self.as_view().read_into(dst)
    }

    /// As [`BufferView::read_to`], of all elements.
    ///
    /// Calls as [`BufferView::read_to`].
    ///
    /// # Errors
    /// As [`BufferView::read_to`].
    pub fn read_to<D: HostTarget<T>>(&self, dst: D) -> Result<Pending<D>, Refused<Pending<D>>> {
        self.as_view().read_to(dst)
    }

    /// As [`BufferViewMut::fill`], of all elements.
    ///
    /// Calls as [`BufferViewMut::fill`].
    ///
    /// # Errors
    /// As [`BufferViewMut::fill`].
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
    /// let device = Device::with_driver(&driver, 0)?;
    /// let mut buffer = Buffer::<f32>::uninit(&device.new_stream()?, 4)?;
    /// buffer.fill(0.5)?;
    /// assert_eq!(buffer.to_vec()?, [0.5; 4]);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    pub fn fill(&mut self, value: T) -> Result<()> {
        self.as_view_mut().fill(value)
    }

    /// As [`BufferViewMut::write_slice`], of all elements.
    ///
    /// Calls as [`BufferViewMut::write_slice`].
    ///
    /// # Errors
    /// As [`BufferViewMut::write_slice`].
    pub fn write_slice(&mut self, src: &[T]) -> Result<()> {
        self.as_view_mut().write_slice(src)
    }

    /// As [`BufferViewMut::write_from`], of all elements.
    ///
    /// Calls as [`BufferViewMut::write_from`].
    ///
    /// # Errors
    /// As [`BufferViewMut::write_from`].
    pub fn write_from<S: HostSource<T>>(
        &mut self,
        src: S,
    ) -> Result<Pending<S>, Refused<Pending<S>>> {
        self.as_view_mut().write_from(src)
    }

    /// As [`BufferViewMut::copy_from`], of all elements.
    ///
    /// Calls as [`BufferViewMut::copy_from`].
    ///
    /// # Errors
    /// As [`BufferViewMut::copy_from`].
    pub fn copy_from<'s>(&mut self, src: impl Into<BufferView<'s, T>>) -> Result<()>
    where
        T: 's,
    {
        self.as_view_mut().copy_from(src)
    }

    /// As [`BufferViewMut::copy_across`], of all elements.
    ///
    /// Calls as [`BufferViewMut::copy_across`].
    ///
    /// # Errors
    /// As [`BufferViewMut::copy_across`].
    pub fn copy_across<'s>(&mut self, src: impl Into<BufferView<'s, T>>) -> Result<()>
    where
        T: 's,
    {
        self.as_view_mut().copy_across(src)
    }
}
