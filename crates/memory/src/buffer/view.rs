//! Views: a range of a buffer, as one end of a copy, as the target of a fill, as a kernel's argument.

#![expect(unsafe_code, reason = "copies of raw memory are the caller's promise")]

use super::{Buffer, keep::Shareable};
use crate::{
    host::{HostSource, HostTarget},
    layout,
    pending::{self, Pending},
    transfer::{self, Plan, Span, StagingOptions, blocking},
};
use bytemuck::Pod;
use cuhold_handles::{Driver, KeepAlive, Refused, Result, Stream};
use std::{fmt, marker::PhantomData, ops::RangeBounds};

/// A range of a [`Buffer`], for reading.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let buffer = Buffer::from_slice(&stream, &[3, 1, 4, 1, 5])?;
/// let tail = buffer.view(2..)?;
/// assert_eq!((tail.len(), tail.device_ptr()), (3, buffer.device_ptr() + 8));
/// assert_eq!(tail.view(..1)?.to_vec()?, [4]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
pub struct BufferView<'a, T: Pod = u8> {
    span: Span<'a>,
    len: usize,
    elements: PhantomData<&'a [T]>,
}

/// A range of a [`Buffer`], for reading and writing.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let mut buffer = Buffer::<u8>::zeroed(&stream, 5)?;
/// let mut middle = buffer.view_mut(1..4)?;
/// middle.fill(1)?;
/// middle.view_mut(1..2)?.fill(2)?;
/// assert_eq!(buffer.to_vec()?, [0, 1, 2, 1, 0]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
pub struct BufferViewMut<'a, T: Pod = u8> {
    span: Span<'a>,
    len: usize,
    elements: PhantomData<&'a mut [T]>,
}

impl<T: Pod> Buffer<T> {
    /// All of it, for reading.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn as_view(&self) -> BufferView<'_, T> {
        let is_host = self.memory.facts().residence.is_host();
        let (ptr, bytes) = (self.device_ptr(), self.size_bytes());
        let memory = Some(self.shareable());
        let span = Span { home: &self.home, ptr, bytes, is_host, memory };
        BufferView { span, len: self.len, elements: PhantomData }
    }

    /// All of it, for reading and writing.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn as_view_mut(&mut self) -> BufferViewMut<'_, T> {
        let BufferView { span, len, .. } = self.as_view();
        BufferViewMut { span, len, elements: PhantomData }
    }
}

/// A range within a range.
fn part<'a, T>(
    span: Span<'a>,
    len: usize,
    range: &impl RangeBounds<usize>,
) -> Result<(Span<'a>, usize)> {
    let (start, count) = layout::range_within(range, len)?;
    let bytes = layout::known_bytes::<T>(count);
    let offset = layout::known_bytes::<T>(start) as u64;
    // Of no bytes there is no address.
    let ptr = if bytes == 0 { 0 } else { span.ptr.saturating_add(offset) };
    Ok((Span { ptr, bytes, ..span }, count))
}

macro_rules! common {
    ($view:ident) => {
        impl<'a, T: Pod> $view<'a, T> {
            /// How many elements it shows.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether it shows none.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Its size in bytes.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn size_bytes(&self) -> usize {
                self.span.bytes
            }

            /// The address of its first element on the device; 0 where it has no bytes.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn device_ptr(&self) -> u64 {
                self.span.ptr
            }

            pub(crate) fn span(&self) -> Span<'a> {
                self.span
            }

            /// The same memory as bytes.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn into_bytes(self) -> $view<'a, u8> {
                $view { span: self.span, len: self.span.bytes, elements: PhantomData }
            }

            /// Keeps the buffer's memory alive, as [`Buffer::keep`] does.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn keep(&self) -> Option<KeepAlive> {
                self.kept()
            }

            pub(crate) fn kept(&self) -> Option<KeepAlive> {
                self.span.memory.map(Shareable::keep)
            }

            /// The buffer's home stream.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn stream(&self) -> &'a Stream {
                self.span.home
            }

            /// The driver.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn driver(&self) -> &'a Driver {
                self.span.home.driver()
            }
        }

        impl<T: Pod> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "view {:#x} of {} elements on {:?}",
                    self.span.ptr, self.len, self.span.home
                )
            }
        }
    };
}

common!(BufferView);
common!(BufferViewMut);

impl<T: Pod> Clone for BufferView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod> Copy for BufferView<'_, T> {}

impl<'a, T: Pod> From<&'a Buffer<T>> for BufferView<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.as_view()
    }
}

impl<'a, T: Pod> From<&'a BufferViewMut<'_, T>> for BufferView<'a, T> {
    fn from(view: &'a BufferViewMut<'_, T>) -> Self {
        view.as_view()
    }
}

impl<T: Pod> BufferView<'_, T> {
    /// A range of it.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a range that isn't within it.
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<Self> {
        let (span, len) = part::<T>(self.span, self.len, &range)?;
        Ok(Self { span, len, elements: PhantomData })
    }

    /// The elements before this index, and those from it on.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for an index behind its end.
    pub fn split_at(&self, mid: usize) -> Result<(Self, Self)> {
        Ok((self.view(..mid)?, self.view(mid..)?))
    }

    /// Copies the elements to the host and waits until they are there, and everything that was queued on the home stream
    /// before.
    ///
    /// The device never writes borrowed memory: the bytes go through page-locked memory of this library, in chunks.
    ///
    /// Calls `cuMemcpyDtoHAsync`, `cuEventRecord`, `cuEventSynchronize`, each once a MiB, in relaxed capture mode; for an
    /// exposed stream also `cuStreamIsCapturing`; until there is staging memory enough `cuEventCreate`,
    /// `cuMemHostAlloc`; after a failure `cuStreamSynchronize`, `cuEventDestroy`, `cuMemFreeHost`.
    ///
    /// # Errors
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the calls' failures, which may be those of earlier work; [`completed`](cuhold_handles::Error::completed) says how many chunks
    ///   were queued.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut vec = bytemuck::zeroed_vec(self.len);
        self.read_into(&mut vec)?;
        Ok(vec)
    }

    /// Copies the elements into a slice of the same length, and waits until they are there.
    ///
    /// Calls as [`to_vec`](Self::to_vec).
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec), after which the slice may hold a part of the elements;
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a slice of another length.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let buffer = Buffer::from_slice(&stream, &[3, 1, 4, 1, 5])?;
    /// let mut two = [0; 2];
    /// buffer.view(2..4)?.read_into(&mut two)?;
    /// assert_eq!(two, [4, 1]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn read_into(&self, dst: &mut [T]) -> Result<()> {
        self.read_into_with(dst, StagingOptions::DEFAULT, |_| {})
    }

    /// As [`read_into`](Self::read_into), as the options say, and telling how many bytes are in the slice.
    ///
    /// `told` is called on this thread, between two pieces of the copy, in relaxed capture mode and with nothing locked; the
    /// last time with all of the bytes. A panic in it goes on, and what is under way is left to the reclaimer.
    ///
    /// Calls as [`to_vec`](Self::to_vec), but once a chunk of the size that the options say.
    ///
    /// # Errors
    /// As [`read_into`](Self::read_into); [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for options that
    /// are out of bounds.
    pub fn read_into_with(
        &self,
        dst: &mut [T],
        options: StagingOptions,
        mut told: impl FnMut(usize),
    ) -> Result<()> {
        layout::same_len("dst", dst.len(), self.len)?;
        blocking::download(Plan::Linear(self.span), dst, options, &mut told)
    }

    /// Queues a copy of the elements into host memory that the copy owns while it is under way.
    ///
    /// With a [`HostBuffer`](crate::HostBuffer) it returns at once; with memory that isn't page-locked the driver may
    /// wait for the stream.
    ///
    /// Calls `cuEventCreate`, `cuMemcpyDtoHAsync`, `cuEventRecord`; for an exposed stream also `cuStreamIsCapturing`; after
    /// a failure `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with what waits for the memory and gives it back:
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): `dst` has another length;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the calls' failures. A copy that failed may have been queued all the same.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, HostBuffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let buffer = Buffer::from_slice(&stream, &[3, 1, 4])?;
    /// let host = HostBuffer::<i32>::zeroed(device.context(), 3)?;
    /// let received = buffer.as_view().read_to(host)?;
    /// // Something else meanwhile.
    /// assert_eq!(*received.wait()?, [3, 1, 4]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn read_to<D: HostTarget<T>>(&self, dst: D) -> Result<Pending<D>, Refused<Pending<D>>> {
        // SAFETY: the memory stays where it is and is nobody else's while the `Pending` keeps the value.
        let copy = |to: *mut T| unsafe { transfer::copy_out(self.span, to.cast()) };
        pending::receive(self.span.home, self.len, dst, copy)
    }

    /// Queues a copy of the elements to any memory of the host, which nobody owns meanwhile.
    ///
    /// Calls `cuMemcpyDtoHAsync`; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State) while somebody captures the home stream; the call's failure,
    /// after which the copy may be queued all the same.
    ///
    /// # Safety
    /// - `dst` leads to room for as many elements as the view shows;
    /// - nobody reads, writes or frees it before the copy is known to be done, also after an error that names this call.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let buffer = Buffer::from_slice(&stream, &[3, 1, 4])?;
    /// let mut room = [0; 3];
    /// // SAFETY: three elements, which are left alone until the stream is done.
    /// unsafe { buffer.as_view().read_to_ptr(room.as_mut_ptr())? };
    /// stream.synchronize()?;
    /// assert_eq!(room, [3, 1, 4]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub unsafe fn read_to_ptr(&self, dst: *mut T) -> Result<()> {
        if self.span.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { transfer::copy_out(self.span, dst.cast()) }
    }
}

impl<T: Pod> BufferViewMut<'_, T> {
    pub(super) fn into_part(self, range: impl RangeBounds<usize>) -> Result<Self> {
        let (span, len) = part::<T>(self.span, self.len, &range)?;
        Ok(Self { span, len, elements: PhantomData })
    }

    /// The same, for reading.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn as_view(&self) -> BufferView<'_, T> {
        BufferView { span: self.span, len: self.len, elements: PhantomData }
    }

    /// A range of it, for reading and writing.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a range that isn't within it.
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<BufferViewMut<'_, T>> {
        BufferViewMut { elements: PhantomData, ..*self }.into_part(range)
    }

    /// The elements before this index, and those from it on.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for an index behind its end.
    pub fn split_at_mut(self, mid: usize) -> Result<(Self, Self)> {
        let (left, left_len) = part::<T>(self.span, self.len, &(..mid))?;
        let (right, right_len) = part::<T>(self.span, self.len, &(mid..))?;
        let left = Self { span: left, len: left_len, elements: PhantomData };
        Ok((left, Self { span: right, len: right_len, elements: PhantomData }))
    }

    /// Queues a fill of every element with the value.
    ///
    /// Calls `cuMemsetD8Async`, `cuMemsetD16Async` or `cuMemsetD32Async`; for an exposed stream also
    /// `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a value that isn't 1, 2 or 4 bytes over and over,
    ///   which is all that the driver can fill with;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the call's failure.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<u16>::zeroed(&stream, 4)?;
    /// buffer.view_mut(1..3)?.fill(7)?;
    /// assert_eq!(buffer.to_vec()?, [0, 7, 7, 0]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn fill(&mut self, value: T) -> Result<()> {
        transfer::fill(self.span, bytemuck::bytes_of(&value))
    }

    /// Fills every byte.
    pub(super) fn fill_bytes(&mut self, value: u8) -> Result<()> {
        transfer::fill(self.span, &[value])
    }

    /// Copies a slice of the same length to the device, and waits until it is there, and everything that was queued on
    /// the home stream before.
    ///
    /// The device never reads borrowed memory: the bytes go through page-locked memory of this library, in chunks.
    ///
    /// Calls `cuMemcpyHtoDAsync`, `cuEventRecord`, `cuEventSynchronize`, each once a MiB, in relaxed capture mode; for an
    /// exposed stream also `cuStreamIsCapturing`; until there is staging memory enough `cuEventCreate`,
    /// `cuMemHostAlloc`; after a failure `cuStreamSynchronize`, `cuEventDestroy`, `cuMemFreeHost`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a slice of another length;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the calls' failures, which may be those of earlier work, after which a part of the elements may be there;
    ///   [`completed`](cuhold_handles::Error::completed) says how many chunks were queued.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<u16>::zeroed(&stream, 4)?;
    /// buffer.view_mut(..2)?.write_slice(&[8, 9])?;
    /// assert_eq!(buffer.to_vec()?, [8, 9, 0, 0]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn write_slice(&mut self, src: &[T]) -> Result<()> {
        self.write_slice_with(src, StagingOptions::DEFAULT, |_| {})
    }

    /// As [`write_slice`](Self::write_slice), as the options say, and telling how many bytes have left the slice.
    ///
    /// `told` is called on this thread, between two pieces of the copy, in relaxed capture mode and with nothing locked; the
    /// last time with all of the bytes. A panic in it goes on, and what is under way is left to the reclaimer.
    ///
    /// Calls as [`write_slice`](Self::write_slice), but once a chunk of the size that the options say.
    ///
    /// # Errors
    /// As [`write_slice`](Self::write_slice); [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for options that
    /// are out of bounds.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, StagingOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let src = vec![1_u8; 3 << 20];
    /// let mut buffer = Buffer::<u8>::uninit(&stream, src.len())?;
    /// let mut told = Vec::new();
    /// let options = StagingOptions::default();
    /// buffer.as_view_mut().write_slice_with(&src, options, |bytes| told.push(bytes))?;
    /// assert_eq!(told, [1 << 20, 2 << 20, 3 << 20]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn write_slice_with(
        &mut self,
        src: &[T],
        options: StagingOptions,
        mut told: impl FnMut(usize),
    ) -> Result<()> {
        layout::same_len("src", src.len(), self.len)?;
        blocking::upload(Plan::Linear(self.span), src, options, &mut told)
    }

    /// Queues a copy from host memory that the copy owns while it is under way.
    ///
    /// With a [`HostBuffer`](crate::HostBuffer) it returns at once; with memory that isn't page-locked the driver may
    /// wait for the stream.
    ///
    /// Calls `cuEventCreate`, `cuMemcpyHtoDAsync`, `cuEventRecord`; for an exposed stream also `cuStreamIsCapturing`; after
    /// a failure `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with what waits for the memory and gives it back:
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): `src` has another length;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the calls' failures. A copy that failed may have been queued all the same.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, HostBuffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<u8>::uninit(&stream, 3)?;
    /// let sent = buffer.as_view_mut().write_from(vec![3, 1, 4])?;
    /// // Something else meanwhile.
    /// let mut vec = sent.wait()?;
    /// vec.clear();
    /// assert_eq!(buffer.to_vec()?, [3, 1, 4]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn write_from<S: HostSource<T>>(
        &mut self,
        src: S,
    ) -> Result<Pending<S>, Refused<Pending<S>>> {
        // SAFETY: the memory stays where it is and as it is while the `Pending` keeps the value.
        let copy = |from: *const T| unsafe { transfer::copy_in(self.span, from.cast()) };
        pending::send(self.span.home, self.len, src, copy)
    }

    /// Queues a copy from any memory of the host, which nobody owns meanwhile.
    ///
    /// Calls `cuMemcpyHtoDAsync`; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State) while somebody captures the home stream; the call's failure,
    /// after which the copy may be queued all the same.
    ///
    /// # Safety
    /// - `src` leads to as many elements as the view shows;
    /// - nobody writes or frees them before the copy is known to be done, also after an error that names this call.
    pub unsafe fn write_from_ptr(&mut self, src: *const T) -> Result<()> {
        if self.span.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { transfer::copy_in(self.span, src.cast()) }
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<BufferView<'_, f32>>();
    shared::<BufferViewMut<'_, f32>>();
};
